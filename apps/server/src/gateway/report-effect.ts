import { Body, Controller, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { IsBoolean, Matches } from 'class-validator';
import type { FastifyReply } from 'fastify';
import type { EventStore } from '#event-store';
import {
  AbsentOrNull,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  EVENT_STORE,
  IsInstant,
  Meta,
  PathId,
  Problem,
  SEALING,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import {
  asData,
  canonicalJson,
  digestOf,
  invocationStream,
  type EffectReported,
  type InvocationClosed,
  type InvocationOpened,
  type RecordedEvent,
} from '#record';
import type { Scope, Sealing } from '#sealing';
import { purgedProblem } from '../control/audit/purged.js';
import { inUtc } from './instants.js';
import { replayable } from './replayable.js';

class EffectBody {
  @ApiProperty({ description: 'Whether the runtime did what the answer said.' })
  @IsBoolean({ message: 'must be true or false' })
  applied!: boolean;

  @ApiPropertyOptional({
    pattern: '^[0-9a-f]{64}$',
    description:
      'SHA-256, as 64 hex digits in small letters, of the canonical JSON (RFC 8785) in UTF-8 of the value that was used: compared with that of the `value` of the answer.',
  })
  @AbsentOrNull()
  @Matches(/^[0-9a-f]{64}$/u, { message: 'must be a SHA-256 digest as 64 lower-case hex digits' })
  digest?: string | null;

  @ApiPropertyOptional({ format: 'date-time' })
  @AbsentOrNull()
  @IsInstant()
  occurredAt?: string | null;
}

/** What became of an answer, as the runtime reported it. */
export interface EffectAnswer {
  readonly invocationId: string;
  readonly applied: boolean;
  /** Whether the digest is the answer's; null when none was sent. */
  readonly matches: boolean | null;
  readonly position: string;
}

const effectSchema: { readonly type: 'object' } & Record<string, unknown> = {
  type: 'object',
  required: ['invocationId', 'applied', 'matches', 'position'],
  properties: {
    invocationId: { type: 'string' },
    applied: { type: 'boolean' },
    matches: { type: 'boolean', nullable: true },
    position: { type: 'string' },
  },
};

/** Records what the runtime did with an answer (api.md, `…/effect`). */
export class ReportEffect extends AccountCommand<EffectAnswer> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly invocation: string,
    readonly effect: Readonly<EffectBody>,
  ) {
    super(meta);
  }
}

@CommandHandler(ReportEffect)
export class ReportEffectHandler extends AccountCommandHandler<ReportEffect, EffectAnswer> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
  ) {
    super();
  }

  protected override async run(command: ReportEffect): Promise<EffectAnswer> {
    const { account } = command.meta;
    const stream = invocationStream(command.invocation);
    const events = await this.store.readStream(account, stream);
    const opened = events.find(({ event }) => event.type === 'invocation.opened')?.event;
    const closed = events.find(({ event }) => event.type === 'invocation.closed')?.event;
    if (opened === undefined && (await this.store.streamVersion(account, stream)) > 0) throw purgedProblem();
    if (opened === undefined) throw new Problem(404, 'not_found', 'There is no such invocation.');
    if (closed === undefined && events.some(({ event }) => event.type === 'invocation.lost'))
      throw new Problem(409, 'invocation_lost', 'The server died while this chain ran: it never had an answer.');
    if (closed === undefined) throw new Problem(409, 'not_closed', 'The invocation has no answer yet.');
    const { applied, digest = null, occurredAt = null } = command.effect;
    const matches = digest === null ? null : digest === (await this.digest(account, closed));
    const envelope = await this.sealing.envelope(account, await this.scope(account, opened));
    const effect: EffectReported = {
      applied,
      matches,
      ...(digest === null ? {} : { digest: envelope.seal(digest) }),
    };
    const result = await this.store.append({
      account,
      writes: [
        {
          stream,
          expectedVersion: 'any',
          events: [
            {
              type: 'effect.reported',
              actor: actorOf(command.meta.caller),
              ...about(opened),
              ...(occurredAt === null ? {} : { occurredAt: inUtc(occurredAt) }),
              data: asData(effect),
            },
          ],
        },
      ],
      blobs: envelope.blobs(),
      ...(command.claim === null
        ? {}
        : { commands: [{ key: command.claim.key, token: command.claim.token, result: { stream, status: 200 } }] }),
    });
    if (result.kind !== 'appended')
      throw new Problem(503, 'superseded', 'Another attempt took over.', [], { 'retry-after': '1' });
    return { invocationId: command.invocation, applied, matches, position: String(result.last) };
  }

  protected override async replay(command: ReportEffect, done: DoneCommand): Promise<EffectAnswer> {
    const events = await this.store.readStream(command.meta.account, done.result.stream);
    const told = events.find(({ position }) => position === done.last);
    const { applied, matches } = told?.event.data as unknown as EffectReported;
    return { invocationId: command.invocation, applied, matches, position: String(done.last) };
  }

  private async digest(account: string, closed: RecordedEvent): Promise<string | null> {
    const { value } = closed.data as unknown as InvocationClosed;
    if (value === null) return digestOf('null');
    const opened = await this.sealing.open(account, value);
    return opened.kind === 'open' ? digestOf(canonicalJson(opened.value)) : null;
  }

  private async scope(account: string, opened: RecordedEvent): Promise<Scope> {
    const { dataSubject } = opened.data as unknown as InvocationOpened;
    if (dataSubject !== undefined) {
      const subject = await this.sealing.open(account, dataSubject.sealed);
      if (subject.kind === 'open' && typeof subject.value === 'string') return { kind: 'subject', id: subject.value };
      // The subject was erased: nothing new may be sealed under a key of theirs.
      return { kind: 'account' };
    }
    return opened.sessionId === undefined ? { kind: 'account' } : { kind: 'session', id: opened.sessionId };
  }
}

const repeated = [
  'invocationId',
  'operationId',
  'turnId',
  'turnInferred',
  'sessionId',
  'agentId',
  'correlationId',
  'root',
  'dialect',
  'hook',
  'target',
] as const;

/** What an effect event repeats of its invocation, so that it can be found by the same words. */
const about = (opened: RecordedEvent): Partial<RecordedEvent> =>
  Object.fromEntries(repeated.flatMap((field) => (opened[field] === undefined ? [] : [[field, opened[field]]])));

@ApiTags('firing')
@Controller('v1/accounts/:account/invocations')
export class ReportEffectRoute {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

  @Post(':invocation/effect')
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: 'Say what was done with an answer' })
  @ApiOkResponse({
    description: 'Recorded. `matches`: whether the digest is that of the answer; null when none was sent.',
    schema: effectSchema,
  })
  report(
    @Meta() meta: CommandMeta,
    @PathId('invocation', 'The invocation that the answer came from.') invocation: string,
    @Body() body: EffectBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<EffectAnswer> {
    return replayable(this.bus, new ReportEffect(meta, invocation, body), reply);
  }
}
