import { Body, Controller, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { decideClearDone, type Deleted, type SessionClear } from '#lifecycles';
import {
  AbsentOrNull,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  IsWireId,
  Meta,
  PathId,
  Problem,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import type { NewEvent } from '#record';
import { Clears } from './clears.js';
import type { FiringOrder } from './firing-order.js';
import { hookOrder, IsCount, StepBody, stepFields } from './lifecycle-body.js';
import { noteOf, type Note } from './lifecycle-commits.js';
import { newId } from './new-id.js';
import { replayable } from './replayable.js';

class CompleteClearBody extends StepBody {
  @ApiProperty({ type: 'integer', description: 'Messages of the session itself.' })
  @IsCount()
  deletedMessageCount!: number;

  @ApiProperty({ type: 'integer', description: 'Direct subagents.' })
  @IsCount()
  deletedSubagentCount!: number;

  @ApiProperty({ type: 'integer', description: 'Direct peer threads.' })
  @IsCount()
  deletedPeerThreadCount!: number;

  @ApiPropertyOptional({
    type: String,
    nullable: true,
    description: 'Needed only for a clear that was never started here.',
  })
  @AbsentOrNull()
  @IsWireId()
  agentId?: string | null;
}

/** A clear that is done. The counts are those of the first report: `session.cleared` is written once. */
export interface CompletedClear extends Deleted {
  readonly sessionId: string;
  readonly clearId: string;
  readonly state: 'cleared';
  /** The invocation of `sessionClearCompleted`. */
  readonly invocationId: string | null;
  /** Of `session.cleared`. */
  readonly position: string;
}

const count = { type: 'integer' } as const;

const completedSchema: { readonly type: 'object' } & Record<string, unknown> = {
  type: 'object',
  required: [
    ...['sessionId', 'clearId', 'state', 'invocationId', 'position'],
    ...['deletedMessageCount', 'deletedSubagentCount', 'deletedPeerThreadCount'],
  ],
  properties: {
    sessionId: { type: 'string' },
    clearId: { type: 'string' },
    state: { type: 'string', enum: ['cleared'] },
    deletedMessageCount: count,
    deletedSubagentCount: count,
    deletedPeerThreadCount: count,
    invocationId: { type: 'string', nullable: true, description: 'The invocation of `sessionClearCompleted`.' },
    position: { type: 'string', description: 'Of `session.cleared`, which is written once.' },
  },
};

/** A session was cleared: `session.cleared`, once whatever is repeated, then `sessionClearCompleted`. */
export class CompleteClear extends AccountCommand<CompletedClear> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];
  override readonly invocationId = newId();

  constructor(
    meta: CommandMeta,
    readonly sessionId: string,
    readonly clearId: string,
    readonly body: Readonly<CompleteClearBody>,
  ) {
    super(meta);
  }
}

@CommandHandler(CompleteClear)
export class CompleteClearHandler extends AccountCommandHandler<CompleteClear, CompletedClear> {
  constructor(private readonly clears: Clears) {
    super();
  }

  protected override async run(command: CompleteClear): Promise<CompletedClear> {
    const { sessionId, clearId, body } = command;
    const { noted } = await this.clears.hookOnce(command, {
      phase: 'completed',
      sessionId,
      clearId,
      decide: ({ clear }) => {
        const agentId = agentOf(clear, body);
        const deleted = clear.deleted ?? body;
        return {
          kind: 'fire',
          order: clearedOrder(command, agentId, deleted),
          events: () => decideClearDone(clear, clearId, body).map((event) => recorded(event, command, agentId)),
          note: {},
          cleans: clear.state !== 'cleared',
        };
      },
    });
    return this.answer(command, noted);
  }

  protected override replay(command: CompleteClear, { result }: DoneCommand): Promise<CompletedClear> {
    return this.answer(command, noteOf(result));
  }

  private async answer({ meta, sessionId, clearId }: CompleteClear, { invocationId }: Note): Promise<CompletedClear> {
    const { clear, clearedBy } = await this.clears.find(meta.account, sessionId, clearId);
    if (clear.deleted === null || clearedBy === null) throw new Error('a completed clear without its event');
    const { deletedMessageCount, deletedSubagentCount, deletedPeerThreadCount } = clear.deleted;
    return {
      sessionId,
      clearId,
      state: 'cleared',
      deletedMessageCount,
      deletedSubagentCount,
      deletedPeerThreadCount,
      invocationId: typeof invocationId === 'string' ? invocationId : null,
      position: String(clearedBy.position),
    };
  }
}

/** What was deleted is deleted: a clear that was never started here is still put on record, if its agent is named. */
const agentOf = ({ agentId }: SessionClear, body: Readonly<CompleteClearBody>): string => {
  const known = agentId ?? body.agentId ?? null;
  if (known !== null) return known;
  throw new Problem(404, 'unknown_clear', 'This clear was never started. Send its `agentId` to put it on record.', [
    { pointer: '/agentId', reason: 'is needed, since nothing says whose session it was' },
  ]);
};

const clearedOrder = ({ sessionId, clearId, body }: CompleteClear, agentId: string, deleted: Deleted): FiringOrder => {
  const { deletedMessageCount, deletedSubagentCount, deletedPeerThreadCount } = deleted;
  const context = { sessionId, agentId, deletedMessageCount, deletedSubagentCount, deletedPeerThreadCount };
  return hookOrder('sessionClearCompleted', context, body, { operationId: clearId });
};

const recorded = (event: NewEvent, { meta, sessionId, body }: CompleteClear, agentId: string): NewEvent => ({
  ...event,
  ...stepFields(body),
  actor: actorOf(meta.caller),
  sessionId,
  agentId,
});

@ApiTags('clears')
@Controller('v1/accounts/:account/sessions/:session/clears')
export class CompleteClearRoute {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

  @Post(':clear/completion')
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: 'A session was cleared: `session.cleared` exactly once, then `sessionClearCompleted`' })
  @ApiOkResponse({ description: 'On record. Repeat the call until it is answered.', schema: completedSchema })
  complete(
    @Meta() meta: CommandMeta,
    @PathId('session', 'The session.') sessionId: string,
    @PathId('clear', "The runtime's id of the clear.") clearId: string,
    @Body() body: CompleteClearBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<CompletedClear> {
    return replayable(this.bus, new CompleteClear(meta, sessionId, clearId, body), reply);
  }
}
