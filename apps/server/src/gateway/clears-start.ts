import { Body, Controller, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { decideClearStart, type ClearStart, type SessionClear } from '#lifecycles';
import {
  AbsentOrNull,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  IsPathName,
  IsText,
  IsWireId,
  maxBodyBytes,
  Meta,
  PathId,
  Problem,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import type { NewEvent } from '#record';
import type { Envelope } from '#sealing';
import { Clears } from './clears.js';
import type { FiringOrder } from './firing-order.js';
import { hookOrder, IsCount, StepBody, stepFields } from './lifecycle-body.js';
import { noteOf, type Note } from './lifecycle-commits.js';
import { newId } from './new-id.js';
import { replayable } from './replayable.js';

class StartClearBody extends StepBody {
  @ApiProperty({ description: "The runtime's own id of this clear, for as long as it repeats it." })
  @IsPathName()
  clearId!: string;

  @ApiProperty()
  @IsWireId()
  agentId!: string;

  @ApiPropertyOptional({ type: String, nullable: true, description: 'What the user typed after the command.' })
  @AbsentOrNull()
  @IsText(0, maxBodyBytes)
  trailingText?: string | null;

  @ApiProperty({ type: 'integer', description: 'Messages that will be deleted.' })
  @IsCount()
  messageCount!: number;

  @ApiProperty({ type: 'integer', description: 'Direct subagents.' })
  @IsCount()
  subagentCount!: number;

  @ApiProperty({ type: 'integer', description: 'Direct peer threads.' })
  @IsCount()
  peerThreadCount!: number;
}

/** A clear that was started: `cleared` where it was completed before, so that no hook ran. */
export interface StartedClear {
  readonly sessionId: string;
  readonly clearId: string;
  readonly state: 'open' | 'cleared';
  /** The invocation of `sessionClearing`. */
  readonly invocationId: string | null;
}

const startedSchema: { readonly type: 'object' } & Record<string, unknown> = {
  type: 'object',
  required: ['sessionId', 'clearId', 'state', 'invocationId'],
  properties: {
    sessionId: { type: 'string' },
    clearId: { type: 'string' },
    state: { type: 'string', enum: ['open', 'cleared'] },
    invocationId: { type: 'string', nullable: true, description: 'The invocation of `sessionClearing`.' },
  },
};

/** A session is about to be cleared: `session.clear_started`, and `sessionClearing` while its transcript is there. */
export class StartClear extends AccountCommand<StartedClear> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];
  override readonly invocationId = newId();

  constructor(
    meta: CommandMeta,
    readonly sessionId: string,
    readonly body: Readonly<StartClearBody>,
  ) {
    super(meta);
  }
}

@CommandHandler(StartClear)
export class StartClearHandler extends AccountCommandHandler<StartClear, StartedClear> {
  constructor(private readonly clears: Clears) {
    super();
  }

  protected override async run(command: StartClear): Promise<StartedClear> {
    const { sessionId, body } = command;
    const { noted } = await this.clears.hookOnce(command, {
      phase: 'started',
      sessionId,
      clearId: body.clearId,
      decide: ({ clear }) => {
        refuseOtherAgent(clear, body.agentId);
        // Once it is cleared the transcript is gone: there is nothing left for the hook to read.
        if (clear.state === 'cleared') return { kind: 'nothing', note: { state: 'cleared' } };
        return {
          kind: 'fire',
          order: clearingOrder(command),
          events: (envelope) =>
            decideClearStart(clear, startOf(body, envelope)).map((event) => recorded(event, command)),
          note: { state: 'open' },
        };
      },
    });
    return answerOf(command, noted);
  }

  protected override replay(command: StartClear, { result }: DoneCommand): Promise<StartedClear> {
    return Promise.resolve(answerOf(command, noteOf(result)));
  }
}

const refuseOtherAgent = ({ agentId }: SessionClear, given: string): void => {
  if (agentId === null || agentId === given) return;
  throw new Problem(409, 'clear_differs', 'This clear was started for another agent.', [
    { pointer: '/agentId', reason: 'is another than that of the first request' },
  ]);
};

const clearingOrder = ({ sessionId, body }: StartClear): FiringOrder => {
  const { agentId, trailingText = null, messageCount, subagentCount, peerThreadCount, clearId } = body;
  const context = { sessionId, agentId, trailingText, messageCount, subagentCount, peerThreadCount };
  return hookOrder('sessionClearing', context, body, { operationId: clearId });
};

const startOf = (body: Readonly<StartClearBody>, envelope: Envelope): ClearStart => ({
  clearId: body.clearId,
  trailingText: body.trailingText === undefined || body.trailingText === null ? null : envelope.seal(body.trailingText),
  messageCount: body.messageCount,
  subagentCount: body.subagentCount,
  peerThreadCount: body.peerThreadCount,
});

const recorded = (event: NewEvent, { meta, sessionId, body }: StartClear): NewEvent => ({
  ...event,
  ...stepFields(body),
  actor: actorOf(meta.caller),
  sessionId,
  agentId: body.agentId,
});

const answerOf = ({ sessionId, body }: StartClear, { state, invocationId }: Note): StartedClear => ({
  sessionId,
  clearId: body.clearId,
  state: state === 'cleared' ? 'cleared' : 'open',
  invocationId: typeof invocationId === 'string' ? invocationId : null,
});

@ApiTags('clears')
@Controller('v1/accounts/:account/sessions/:session/clears')
export class StartClearRoute {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

  @Post()
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: 'A session is about to be cleared: run `sessionClearing` while its transcript is there' })
  @ApiOkResponse({
    description: 'Recorded, and the hook ran. Delete now, then report completion.',
    schema: startedSchema,
  })
  start(
    @Meta() meta: CommandMeta,
    @PathId('session', 'The session.') sessionId: string,
    @Body() body: StartClearBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<StartedClear> {
    return replayable(this.bus, new StartClear(meta, sessionId, body), reply);
  }
}
