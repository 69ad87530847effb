import { Body, Controller, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiOkResponse, ApiOperation, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { injectedContext, type Injection } from '#dialects';
import {
  AbsentOrNull,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  IsWireId,
  Meta,
  PathId,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import { injectionStream } from '#record';
import { completing } from '../control/accounts/completion.js';
import { replayable } from './replayable.js';
import { SessionInjections, turnRun } from './session-injections.js';

class DrainInjectionsBody {
  @ApiPropertyOptional({ type: String, nullable: true, description: 'The run: asked again it gets the same again.' })
  @AbsentOrNull()
  @IsWireId()
  runId?: string | null;
}

/** What waited for a turn, and how it stands in the prompt. */
export interface DrainedInjections {
  readonly sessionId: string;
  readonly runId: string | null;
  readonly injections: readonly Injection[];
  readonly prependContext: string | null;
  readonly appendContext: string | null;
}

/** Takes what waits for a session's turn, for a runtime that assembles the prompt itself. */
export class DrainInjections extends AccountCommand<DrainedInjections> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly sessionId: string,
    readonly runId: string | null,
  ) {
    super(meta);
  }
}

@CommandHandler(DrainInjections)
export class DrainInjectionsHandler extends AccountCommandHandler<DrainInjections, DrainedInjections> {
  constructor(private readonly injections: SessionInjections) {
    super();
  }

  protected override async run(command: DrainInjections): Promise<DrainedInjections> {
    const { meta, sessionId, runId } = command;
    const { account, caller } = meta;
    const drained = await this.injections.drain({
      account,
      sessions: [sessionId],
      by: 'runtime',
      run: runId === null ? null : turnRun(runId),
      invocationId: null,
      fields: { actor: actorOf(caller), dialect: 'openclaw', ...(runId === null ? {} : { turnId: runId }) },
      completed: ({ version, repeated }) => completing(command, injectionStream(sessionId), 200, { version, repeated }),
    });
    return answerOf(command, drained.injections);
  }

  protected override async replay(command: DrainInjections, { result }: DoneCommand): Promise<DrainedInjections> {
    const { sessionId, runId, meta } = command;
    const { version, repeated } = result.note as { readonly version: number | null; readonly repeated: boolean };
    if (version !== null) return answerOf(command, await this.injections.drainedAt(meta.account, sessionId, version));
    const again = repeated && runId !== null;
    return answerOf(command, again ? await this.injections.givenTo(meta.account, sessionId, turnRun(runId)) : []);
  }
}

const answerOf = ({ sessionId, runId }: DrainInjections, injections: readonly Injection[]): DrainedInjections => {
  const { prependContext = null, appendContext = null } = injectedContext(injections);
  return { sessionId, runId, injections, prependContext, appendContext };
};

const maybeText = { type: 'string', nullable: true } as const;

@ApiTags('sessions')
@Controller('v1/accounts/:account/sessions/:session')
export class DrainInjectionsRoute {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

  @Post(['injections/drain', 'drain'])
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: "Take what waits in OpenClaw's queue for the session's next turn" })
  @ApiOkResponse({
    description: 'On record as taken, once. What expired or nobody may hear is lost with the queue, and on record.',
    schema: {
      type: 'object',
      required: ['sessionId', 'runId', 'injections', 'prependContext', 'appendContext'],
      properties: {
        sessionId: { type: 'string' },
        runId: maybeText,
        injections: {
          type: 'array',
          items: {
            type: 'object',
            required: ['id', 'pluginId', 'text', 'placement', 'createdAt'],
            properties: {
              id: { type: 'string' },
              pluginId: { type: 'string' },
              text: { type: 'string' },
              idempotencyKey: { type: 'string' },
              placement: { type: 'string', enum: ['prepend_context', 'append_context'] },
              ttlMs: { type: 'number' },
              createdAt: { type: 'number', description: 'Milliseconds since the epoch.' },
              metadata: {},
            },
          },
        },
        prependContext: maybeText,
        appendContext: maybeText,
      },
    },
  })
  drain(
    @Meta() meta: CommandMeta,
    @PathId('session', 'The session; of OpenClaw its session key.') sessionId: string,
    @Body() { runId = null }: DrainInjectionsBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<DrainedInjections> {
    return replayable(this.bus, new DrainInjections(meta, sessionId, runId), reply);
  }
}
