import { Body, Controller, Get, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { ApiAcceptedResponse, ApiBody, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import type { Answer } from '#firing';
import {
  Account,
  Allow,
  CurrentCaller,
  Meta,
  PathId,
  Problem,
  StrictQuery,
  type Caller,
  type CommandMeta,
  type QueryOf,
} from '#platform';
import { purgedProblem } from '../control/audit/purged.js';
import { AccountRules } from '../control/accounts/account-rules.js';
import { Answers } from './answers.js';
import { FireHook } from './fire-hook.js';
import { bodyOf, waitFields, withoutContent, type HiddenAnswer, type RunningBody } from './firing-body.js';
import { knownDialect, readOrder } from './firing-order.js';
import { answerSchema, fireBodySchema, runningSchema } from './firing-schemas.js';
import { replayable } from './replayable.js';

@ApiTags('firing')
@Controller('v1/accounts/:account')
export class FiringController {
  constructor(
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(Answers) private readonly answers: Answers,
    @Inject(AccountRules) private readonly rules: AccountRules,
  ) {}

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
    const dialect = knownDialect(dialectName, hook);
    const order = readOrder(dialect, hook, body, this.rules.profile(meta.account, dialect.name));
    const result = await replayable(this.bus, new FireHook(meta, order, query.wait * 1000), reply);
    if (result.kind === 'running') reply.status(202);
    return bodyOf(result);
  }

  @Get('answers/:invocation')
  @Allow('runtime', 'auditor')
  @ApiOperation({ summary: 'The answer of an earlier firing, on any replica' })
  @ApiOkResponse({ schema: answerSchema })
  @ApiAcceptedResponse({ description: 'The chain still runs.', schema: runningSchema })
  async answer(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @PathId('invocation', 'The invocation.') invocation: string,
    @StrictQuery(waitFields) query: QueryOf<typeof waitFields>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<Answer | HiddenAnswer | RunningBody> {
    const found = await this.answers.wait(account, invocation, query.wait * 1000);
    if (found.kind === 'purged') throw purgedProblem();
    const mine = found.kind !== 'unknown' && (found.firedBy === caller.keyId || caller.role !== 'runtime');
    // A firing of another runtime is not shown to exist: its answer is content that this key may not see.
    if (found.kind === 'unknown' || !mine) throw new Problem(404, 'not_found', 'There is no such invocation of yours.');
    if (found.kind === 'lost') throw lost();
    // A runtime always sees the answers to its own firings (api.md, content).
    const open = caller.role === 'runtime' || caller.content === 'full';
    if (found.kind === 'found') return open ? found.answer : withoutContent(found.answer);
    reply.status(202);
    return { invocationId: invocation, turnId: found.turnId, running: true };
  }
}

const lost = (): Problem =>
  new Problem(
    410,
    'invocation_lost',
    'The server died while this chain ran, and nothing was answered. Fire again with the same Idempotency-Key.',
  );
