import { Controller, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { decideApprovalCancel } from '#approvals';
import type { EventStore } from '#event-store';
import {
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  EVENT_STORE,
  Meta,
  PathId,
  Problem,
  type CommandMeta,
  type Role,
} from '#platform';
import { approvalStream } from '#record';
import { completing } from '../control/accounts/completion.js';
import { Answers } from './answers.js';
import { aboutApproval } from './approvals.js';
import { HeldInvocations } from './held-invocations.js';
import { replayable } from './replayable.js';

interface Aborted {
  readonly invocationId: string;
  readonly approvalId: string;
}

/** The run that waited for an approval is over: nobody needs to be asked any more (openclaw.md §8). */
export class AbortInvocation extends AccountCommand<Aborted> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly invocation: string,
  ) {
    super(meta);
  }
}

@CommandHandler(AbortInvocation)
export class AbortInvocationHandler extends AccountCommandHandler<AbortInvocation, Aborted> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    private readonly answers: Answers,
    private readonly held: HeldInvocations,
  ) {
    super();
  }

  protected override async run(command: AbortInvocation): Promise<Aborted> {
    const { meta, invocation } = command;
    const { account, caller } = meta;
    const found = await this.answers.find(account, invocation);
    const isMine = found.kind === 'found' && (caller.role !== 'runtime' || found.firedBy === caller.keyId);
    if (!isMine) throw new Problem(404, 'not_found', 'There is no such invocation of yours that waits.');
    const { outcome, approvalId } = found.answer;
    if (outcome !== 'held' || approvalId === undefined) throw over();
    const waited = await this.held.approval(account, approvalId);
    const events = waited === null ? [] : decideApprovalCancel(waited.approval, 'aborted');
    if (waited === null || events.length === 0) throw over();
    const fields = { ...aboutApproval(waited.requested), actor: actorOf(caller) };
    const stream = approvalStream(approvalId);
    const result = await this.store.append({
      account,
      writes: [{ stream, expectedVersion: waited.version, events: events.map((event) => ({ ...fields, ...event })) }],
      commands: completing(command, stream, 200, { approvalId }),
    });
    if (result.kind !== 'appended') throw over();
    return { invocationId: invocation, approvalId };
  }

  protected override replay(
    { invocation }: AbortInvocation,
    { result }: { result: { note?: object } },
  ): Promise<Aborted> {
    const { approvalId } = result.note as { readonly approvalId: string };
    return Promise.resolve({ invocationId: invocation, approvalId });
  }
}

const over = (): Problem => new Problem(409, 'not_held', 'The invocation waits for no approval.');

@ApiTags('firing')
@Controller('v1/accounts/:account/invocations')
export class AbortInvocationRoute {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

  @Post(':invocation/abort')
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: 'Say that the run is over which waited for an approval' })
  @ApiOkResponse({
    description: 'The approval is cancelled; the answer says that the call is blocked.',
    schema: {
      type: 'object',
      required: ['invocationId', 'approvalId'],
      properties: { invocationId: { type: 'string' }, approvalId: { type: 'string' } },
    },
  })
  abort(
    @Meta() meta: CommandMeta,
    @PathId('invocation', 'The invocation that waits.') invocation: string,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<Aborted> {
    return replayable(this.bus, new AbortInvocation(meta, invocation), reply);
  }
}
