import { Body, Controller, HttpCode, Inject, Post, Req, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiBody, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { EventStore } from '#event-store';
import type { Answer } from '#firing';
import {
  AccountCommand,
  AccountCommandHandler,
  Allow,
  EVENT_STORE,
  Meta,
  Problem,
  problemJson,
  problemOf,
  StrictQuery,
  type ActiveClaim,
  type CommandMeta,
  type QueryOf,
  type Role,
} from '#platform';
import { digestOf, type Json } from '#record';
import { AccountRules } from '../control/accounts/account-rules.js';
import { FireHook, type FireResult } from './fire-hook.js';
import { bodyOf, waitFields, type RunningBody } from './firing-body.js';
import { knownDialect, readOrder } from './firing-order.js';
import { batchBodySchema, batchSchema } from './firing-schemas.js';
import { replayable } from './replayable.js';

/** Items that one batch may have. */
const batchMost = 100;

interface BatchItem {
  readonly dialect: string;
  readonly hook: string;
  readonly body: Json;
}

/** An answer per item; a refused one has its problem, and stops nothing. */
export type ItemAnswer = Answer | RunningBody | { readonly problem: object };

/** Fires several hooks in order. */
export class FireBatch extends AccountCommand<readonly ItemAnswer[]> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly items: readonly BatchItem[],
    readonly waitMs: number,
    /** Named by the problems of refused items. */
    readonly requestId: string,
  ) {
    super(meta);
  }
}

/**
 * Every item is a firing of its own, under a key of its own: a batch that was lost half-way runs again, and its items
 * that were done are answered, not fired again. The batch's key is done when all of them are.
 */
@CommandHandler(FireBatch)
export class FireBatchHandler extends AccountCommandHandler<FireBatch, readonly ItemAnswer[]> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(AccountRules) private readonly rules: AccountRules,
  ) {
    super();
  }

  protected override async run(command: FireBatch): Promise<readonly ItemAnswer[]> {
    const answers = await this.fireAll(command);
    if (command.claim !== null) await this.complete(command.meta.account, command.claim);
    return answers;
  }

  /** Each item is done under its own key, so firing them again gives their first answers. */
  protected override replay(command: FireBatch): Promise<readonly ItemAnswer[]> {
    return this.fireAll(command);
  }

  private async fireAll(command: FireBatch): Promise<readonly ItemAnswer[]> {
    const answers: ItemAnswer[] = [];
    // For approvals the batch waits once, not for each item anew.
    const until = Date.now() + command.waitMs;
    for (const [index, item] of command.items.entries()) {
      answers.push(await this.fireItem(command, item, index, Math.max(0, until - Date.now())));
    }
    return answers;
  }

  private async fireItem(
    { meta, waitMs, requestId }: FireBatch,
    item: BatchItem,
    index: number,
    approvalWaitMs: number,
  ): Promise<ItemAnswer> {
    try {
      const dialect = knownDialect(item.dialect, item.hook);
      const order = readOrder(dialect, item.hook, item.body, this.rules.profile(meta.account, dialect.name));
      const firing = new FireHook(itemMeta(meta, index), order, waitMs, approvalWaitMs);
      return bodyOf(await this.bus.execute<FireHook, FireResult>(firing));
    } catch (error) {
      return { problem: problemJson(problemOf(error), requestId) };
    }
  }

  private async complete(account: string, { key, token }: ActiveClaim): Promise<void> {
    const commands = [{ key, token, result: { stream: 'batch', status: 200 } }];
    const result = await this.store.append({ account, writes: [], commands });
    if (result.kind !== 'appended') {
      throw new Problem(503, 'superseded', 'Another attempt with the same key took over. Ask again.', [], {
        'retry-after': '1',
      });
    }
  }
}

/** Each item has an idempotency key of its own; digested, since that of the batch may be as long as a key can be. */
export const batchItemKey = (key: string, index: number): string => `batch:${digestOf(`${key}\n${String(index)}`)}`;

const itemMeta = (meta: CommandMeta, index: number): CommandMeta => ({
  ...meta,
  idempotency: meta.idempotency && {
    key: batchItemKey(meta.idempotency.key, index),
    requestDigest: digestOf(`${meta.idempotency.requestDigest}\n${String(index)}`),
  },
});

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

@ApiTags('firing')
@Controller('v1/accounts/:account')
export class FireBatchRoute {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

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
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<{ readonly items: readonly ItemAnswer[] }> {
    const command = new FireBatch(meta, readBatch(body), query.wait * 1000, request.id);
    return { items: await replayable(this.bus, command, reply) };
  }
}
