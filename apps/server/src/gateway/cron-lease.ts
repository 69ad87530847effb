import { Body, Controller, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiBody, ApiOkResponse, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import type { EventStore } from '#event-store';
import { decideLease } from '#lifecycles';
import {
  AbsentOrNull,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  EVENT_STORE,
  IsWireId,
  Meta,
  PathId,
  readDto,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import type { NewEvent } from '#record';
import { notOpen } from './cron-refusals.js';
import { CronStreams } from './cron-streams.js';
import { IsLease, longestLease } from './lifecycle-body.js';
import { appendUnlessMoved, completeOnly, completion, noteOf, untilDecided, type Note } from './lifecycle-commits.js';
import { replayable } from './replayable.js';

class HeartbeatBody {
  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: longestLease,
    nullable: true,
    description: 'How long the run may be silent from now on; without it as long as before.',
  })
  @AbsentOrNull()
  @IsLease()
  leaseSeconds?: number | null;
}

class SessionBody extends HeartbeatBody {
  @ApiProperty({ description: "The mission's session." })
  @IsWireId()
  sessionId!: string;
}

/** An open run and how long it may be silent. */
export interface LeaseAnswer {
  readonly runId: string;
  readonly state: 'open';
  readonly sessionId: string | null;
  readonly leaseUntil: string;
}

const leaseSchema: { readonly type: 'object' } & Record<string, unknown> = {
  type: 'object',
  required: ['runId', 'state', 'sessionId', 'leaseUntil'],
  properties: {
    runId: { type: 'string' },
    state: { type: 'string', enum: ['open'] },
    sessionId: { type: 'string', nullable: true },
    leaseUntil: { type: 'string', format: 'date-time' },
  },
};

/** A run is alive: its lease begins anew. Names the mission's session where that is known now. */
export class RenewLease extends AccountCommand<LeaseAnswer> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly runId: string,
    readonly sessionId: string | null,
    readonly leaseSeconds: number | null,
  ) {
    super(meta);
  }
}

@CommandHandler(RenewLease)
export class RenewLeaseHandler extends AccountCommandHandler<RenewLease, LeaseAnswer> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    private readonly streams: CronStreams,
  ) {
    super();
  }

  protected override run(command: RenewLease): Promise<LeaseAnswer> {
    return untilDecided(() => this.attempt(command));
  }

  protected override replay({ runId }: RenewLease, { result }: DoneCommand): Promise<LeaseAnswer> {
    return Promise.resolve(answerOf(runId, noteOf(result)));
  }

  private async attempt(command: RenewLease): Promise<LeaseAnswer | null> {
    const { meta, runId, sessionId, leaseSeconds } = command;
    const { account } = meta;
    const { run, stream, version } = await this.streams.knownRun(account, runId);
    const decision = decideLease(run, sessionId, { now: new Date(), leaseSeconds: leaseSeconds ?? undefined });
    if (decision.kind === 'not-open') throw notOpen(decision);
    const note = { leaseUntil: decision.leaseUntil, sessionId: sessionId ?? run.sessionId };
    if (decision.events.length === 0) {
      await completeOnly(this.store, command, stream, note);
      return answerOf(runId, note);
    }
    const recorded = (event: NewEvent): NewEvent => ({
      ...event,
      actor: actorOf(meta.caller),
      ...(run.agentId === null ? {} : { agentId: run.agentId }),
    });
    const appended = await appendUnlessMoved(this.store, {
      account,
      writes: [{ stream, expectedVersion: version, events: decision.events.map(recorded) }],
      commands: completion(command, stream, note),
    });
    return appended === null ? null : answerOf(runId, note);
  }
}

const answerOf = (runId: string, { sessionId, leaseUntil }: Note): LeaseAnswer => ({
  runId,
  state: 'open',
  sessionId: typeof sessionId === 'string' ? sessionId : null,
  leaseUntil: String(leaseUntil),
});

@ApiTags('cron')
@Controller('v1/accounts/:account/cron-runs')
export class RenewLeaseRoutes {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

  @Post(':run/heartbeat')
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: 'A run is alive: its lease begins anew' })
  @ApiBody({ type: HeartbeatBody, required: false })
  @ApiOkResponse({ schema: leaseSchema })
  heartbeat(
    @Meta() meta: CommandMeta,
    @PathId('run', 'The cron run.') runId: string,
    @Body() body: unknown,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<LeaseAnswer> {
    const { leaseSeconds = null } = readDto(HeartbeatBody, body ?? {});
    return replayable(this.bus, new RenewLease(meta, runId, null, leaseSeconds), reply);
  }

  @Post(':run/session')
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: "Name the mission's session; its lease begins anew" })
  @ApiOkResponse({ schema: leaseSchema })
  session(
    @Meta() meta: CommandMeta,
    @PathId('run', 'The cron run.') runId: string,
    @Body() body: SessionBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<LeaseAnswer> {
    return replayable(this.bus, new RenewLease(meta, runId, body.sessionId, body.leaseSeconds ?? null), reply);
  }
}
