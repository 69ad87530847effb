import { Body, Controller, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiBody, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { readInjection, type InjectionAsked } from '#dialects';
import {
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  isId,
  Meta,
  PathId,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import { injectionStream } from '#record';
import { completing } from '../control/accounts/completion.js';
import { ActivePlugins } from '../control/plugins/active-plugins.js';
import { replayable } from './replayable.js';
import { badFields, readOpenBody } from './open-body.js';
import { SessionInjections, type EnqueueResult } from './session-injections.js';

/** What became of an injection; `id` is its idempotency key where it has one. */
export interface EnqueuedInjection {
  readonly sessionId: string;
  readonly enqueued: boolean;
  readonly id: string;
  /** Why it was not enqueued. */
  readonly reason: 'duplicate' | 'full' | null;
}

/** A text for a session's next turn, in the name of a plugin. */
export class EnqueueInjection extends AccountCommand<EnqueuedInjection> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly sessionId: string,
    readonly pluginId: string,
    readonly asked: InjectionAsked,
  ) {
    super(meta);
  }
}

@CommandHandler(EnqueueInjection)
export class EnqueueInjectionHandler extends AccountCommandHandler<EnqueueInjection, EnqueuedInjection> {
  constructor(
    private readonly injections: SessionInjections,
    private readonly plugins: ActivePlugins,
  ) {
    super();
  }

  protected override async run(command: EnqueueInjection): Promise<EnqueuedInjection> {
    const { meta, sessionId, pluginId, asked } = command;
    const { account, caller } = meta;
    if ((await this.plugins.get(account)).set.plugins.get(pluginId)?.dialect !== 'openclaw') {
      throw badFields([
        { pointer: '/pluginId', reason: 'must be the id of an installed plugin of the dialect openclaw' },
      ]);
    }
    const result = await this.injections.enqueue({
      account,
      sessionId,
      pluginId,
      asked,
      scope: { kind: 'session', id: sessionId },
      fields: { actor: actorOf(caller), dialect: 'openclaw' },
      completed: ({ kind, injectionId }) => completing(command, injectionStream(sessionId), 200, { kind, injectionId }),
    });
    return answerOf(command, result);
  }

  protected override replay(command: EnqueueInjection, { result }: DoneCommand): Promise<EnqueuedInjection> {
    return Promise.resolve(answerOf(command, result.note as unknown as EnqueueResult));
  }
}

const answerOf = ({ sessionId, asked }: EnqueueInjection, { kind, injectionId }: EnqueueResult): EnqueuedInjection => ({
  sessionId,
  enqueued: kind === 'enqueued',
  id: kind === 'full' ? '' : (asked.idempotencyKey ?? injectionId),
  reason: kind === 'enqueued' ? null : kind,
});

const fields = ['pluginId', 'text', 'placement', 'ttlMs', 'idempotencyKey', 'metadata'] as const;

const orderOf = (body: unknown): { readonly pluginId: string; readonly asked: InjectionAsked } => {
  const { pluginId, ...asked } = readOpenBody(body, fields);
  if (!isId(pluginId)) throw badFields([{ pointer: '/pluginId', reason: 'must be the id of a plugin' }]);
  const read = readInjection(asked);
  if (read.kind === 'read') return { pluginId, asked: read.injection };
  throw badFields(read.faults.map(({ field, reason }) => ({ pointer: `/${field}`, reason })));
};

@ApiTags('sessions')
@Controller('v1/accounts/:account/sessions/:session')
export class EnqueueInjectionRoute {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

  @Post('injections')
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: "Put a text into OpenClaw's queue for the session's next turn" })
  @ApiBody({
    schema: {
      type: 'object',
      required: ['pluginId', 'text'],
      properties: {
        pluginId: { type: 'string', description: 'In whose name: an installed OpenClaw plugin.' },
        text: { type: 'string', description: 'Trimmed; 1 to 32768 characters.' },
        placement: { type: 'string', enum: ['prepend_context', 'append_context'], nullable: true },
        ttlMs: { type: 'number', minimum: 0, nullable: true, description: 'It never expires without.' },
        idempotencyKey: { type: 'string', maxLength: 512, nullable: true },
        metadata: { nullable: true, description: 'Any JSON.' },
      },
    },
  })
  @ApiOkResponse({
    description: 'On record: it waits, or why it does not.',
    schema: {
      type: 'object',
      required: ['sessionId', 'enqueued', 'id', 'reason'],
      properties: {
        sessionId: { type: 'string' },
        enqueued: { type: 'boolean' },
        id: { type: 'string', description: 'The key, where there is one; empty where the queue is full.' },
        reason: { type: 'string', enum: ['duplicate', 'full'], nullable: true },
      },
    },
  })
  enqueue(
    @Meta() meta: CommandMeta,
    @PathId('session', 'The session; of OpenClaw its session key.') sessionId: string,
    @Body() body: unknown,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<EnqueuedInjection> {
    const { pluginId, asked } = orderOf(body);
    return replayable(this.bus, new EnqueueInjection(meta, sessionId, pluginId, asked), reply);
  }
}
