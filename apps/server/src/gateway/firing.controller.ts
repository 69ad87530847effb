import { Body, Controller, Get, HttpCode, Inject, Post, Req, Res } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { ApiAcceptedResponse, ApiBody, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { dialectOf, type Dialect } from '#dialects';
import type { Answer } from '#firing';
import {
  Account,
  Allow,
  CurrentCaller,
  Meta,
  PathId,
  Problem,
  problemJson,
  problemOf,
  queryInt,
  StrictQuery,
  type Caller,
  type CommandMeta,
  type QueryOf,
} from '#platform';
import { digestOf, type Json } from '#record';
import { answerSchema, batchBodySchema, batchSchema, fireBodySchema, runningSchema } from './firing-schemas.js';
import { Answers } from './answers.js';
import { FireHook, type FireResult } from './fire-hook.js';
import { readOrder } from './firing-order.js';
import { replayable } from './replayable.js';

const waitFields = {
  wait: queryInt('Seconds that the request stays open for a chain that takes its time.', {
    least: 0,
    most: 55,
    absent: 25,
  }),
} as const;

/** Items that one batch may have. */
const batchMost = 100;

/** The answer to a firing whose chain still runs: it is had from `answers/{invocationId}` later. */
interface RunningBody {
  readonly invocationId: string;
  readonly turnId: string;
  readonly running: true;
}

@ApiTags('firing')
@Controller('v1/accounts/:account')
export class FiringController {
  constructor(
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(Answers) private readonly answers: Answers,
  ) {}

  @Post('hooks/batch')
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: 'Fire several hooks in order' })
  @ApiBody({ schema: batchBodySchema })
  @ApiOkResponse({ description: 'An answer, or a problem, per item, in their order.', schema: batchSchema })
  async fireBatch(
    @Meta() meta: CommandMeta,
    @Body() body: unknown,
    @StrictQuery(waitFields) query: QueryOf<typeof waitFields>,
    @Req() request: FastifyRequest,
  ): Promise<{ readonly items: readonly unknown[] }> {
    const items = readBatch(body);
    const answers: unknown[] = [];
    for (const [index, item] of items.entries()) {
      answers.push(await this.batchItem(itemMeta(meta, index), item, query.wait, request.id));
    }
    return { items: answers };
  }

  @Post('hooks/:dialect/:hook')
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: 'Fire a hook: run its chain, record it, answer once the record is durable' })
  @ApiBody({ schema: fireBodySchema })
  @ApiOkResponse({ description: 'The answer; every event of it is committed.', schema: answerSchema })
  @ApiAcceptedResponse({ description: 'The chain still runs; ask `answers/{invocationId}`.', schema: runningSchema })
  async fire(
    @Meta() meta: CommandMeta,
    @PathId('dialect', 'The family of hosts whose hook this is.') dialectName: string,
    @PathId('hook', 'The hook.') hook: string,
    @StrictQuery(waitFields) query: QueryOf<typeof waitFields>,
    @Body() body: unknown,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<Answer | RunningBody> {
    const order = readOrder(knownDialect(dialectName, hook), hook, body);
    const result = await replayable(this.bus, new FireHook(meta, order, query.wait * 1000), reply);
    if (result.kind === 'running') reply.status(202);
    return bodyOf(result);
  }

  @Get('answers/:invocation')
  @Allow('runtime')
  @ApiOperation({ summary: 'The answer of an earlier firing, on any replica' })
  @ApiOkResponse({ schema: answerSchema })
  @ApiAcceptedResponse({ description: 'The chain still runs.', schema: runningSchema })
  async answer(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @PathId('invocation', 'The invocation.') invocation: string,
    @StrictQuery(waitFields) query: QueryOf<typeof waitFields>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<Answer | RunningBody> {
    const found = await this.answers.wait(account, invocation, query.wait * 1000);
    const mine = found.kind !== 'unknown' && (found.firedBy === caller.keyId || caller.role === 'operator');
    // A firing of another key is not shown to exist: its answer is content that this key may not see.
    if (found.kind === 'unknown' || !mine) throw new Problem(404, 'not_found', 'There is no such invocation of yours.');
    if (found.kind === 'found') return found.answer;
    reply.status(202);
    return { invocationId: invocation, turnId: found.turnId, running: true };
  }

  /** One item through the same path as a firing of its own; its refusal is its answer and stops nothing. */
  private async batchItem(meta: CommandMeta, item: BatchItem, wait: number, requestId: string): Promise<unknown> {
    try {
      const order = readOrder(knownDialect(item.dialect, item.hook), item.hook, item.body);
      return bodyOf(await this.bus.execute<FireHook, FireResult>(new FireHook(meta, order, wait * 1000)));
    } catch (error) {
      return { problem: problemJson(problemOf(error), requestId) };
    }
  }
}

/** Each item has an idempotency key of its own; digested, since that of the batch may be as long as a key can be. */
const itemMeta = (meta: CommandMeta, index: number): CommandMeta => ({
  ...meta,
  idempotency: meta.idempotency && {
    key: `batch:${digestOf(`${meta.idempotency.key}\n${String(index)}`)}`,
    requestDigest: digestOf(`${meta.idempotency.requestDigest}\n${String(index)}`),
  },
});

interface BatchItem {
  readonly dialect: string;
  readonly hook: string;
  readonly body: Json;
}

const readBatch = (body: unknown): readonly BatchItem[] => {
  const { items, ...unknown } = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>;
  const [extra] = Object.keys(unknown);
  if (extra !== undefined) throw badBatch(`/${extra}`, 'unknown field; known is items');
  if (!Array.isArray(items) || items.length < 1 || items.length > batchMost) {
    throw badBatch('/items', `must be a list of 1 to ${String(batchMost)} firings`);
  }
  return (items as readonly unknown[]).map((item, index) => {
    if (typeof item !== 'object' || item === null || Array.isArray(item)) {
      throw badBatch(`/items/${String(index)}`, 'must be an object');
    }
    const { dialect, hook, ...rest } = item as Record<string, Json>;
    if (typeof dialect !== 'string') throw badBatch(`/items/${String(index)}/dialect`, 'must name a dialect');
    if (typeof hook !== 'string') throw badBatch(`/items/${String(index)}/hook`, 'must name a hook');
    return { dialect, hook, body: rest };
  });
};

const badBatch = (pointer: string, reason: string): Problem =>
  new Problem(422, 'invalid_arguments', 'The batch does not fit; nothing was run.', [{ pointer, reason }]);

const knownDialect = (name: string, hook: string): Dialect => {
  const dialect = dialectOf(name);
  if (dialect === undefined) throw new Problem(404, 'unknown_dialect', 'There is no such dialect.');
  if (!dialect.entries.has(hook)) throw new Problem(404, 'unknown_hook', `The dialect ${name} has no such hook.`);
  return dialect;
};

const bodyOf = (result: FireResult): Answer | RunningBody =>
  result.kind === 'answered'
    ? result.answer
    : { invocationId: result.invocationId, turnId: result.turnId, running: true };
