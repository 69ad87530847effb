import { Body, Controller, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { LogBusy, type EventStore, type StreamWrite } from '#event-store';
import { FiringSuperseded, type Answer, type FiringEnd } from '#firing';
import {
  cronRunStream,
  decideRun,
  decideSlot,
  overlapped,
  runIdOf,
  type CronRun,
  type Mission,
  type Slot,
} from '#lifecycles';
import {
  AbsentOrNull,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  EVENT_STORE,
  IsInstant,
  IsText,
  IsWireId,
  maxBodyBytes,
  Meta,
  PathId,
  SEALING,
  type CommandMeta,
  type Role,
} from '#platform';
import { digestOf, type Json, type NewEvent } from '#record';
import type { Envelope, Sealing } from '#sealing';
import { Answers } from './answers.js';
import { CronStreams, type FoundJob, type FoundRun } from './cron-streams.js';
import { inTurn } from './held-claim.js';
import { HookFiring } from './hook-firing.js';
import { millisecondOf } from './instants.js';
import { hookOrder, IsLease, longestLease, StepBody, stepFields } from './lifecycle-body.js';
import {
  appendUnlessMoved,
  completeOnly,
  completion,
  stepScope,
  superseded,
  untilDecided,
} from './lifecycle-commits.js';
import { newId } from './new-id.js';
import { replayable } from './replayable.js';

/** How long a run may be silent where the runtime does not say, seconds (api.md). */
const defaultLease = 3600;

class SlotBody extends StepBody {
  @ApiProperty({ format: 'date-time', description: 'When the job was due, to the millisecond: it names the slot.' })
  @IsInstant()
  slotAt!: string;

  @ApiProperty()
  @IsWireId()
  agentId!: string;

  @ApiProperty({ description: '`cron_job`, `heartbeat`, or another kind of schedule.' })
  @IsWireId()
  kind!: string;

  @ApiProperty()
  @IsText(0, 10_000)
  name!: string;

  @ApiProperty({ description: 'What the mission is to do.' })
  @IsText(0, maxBodyBytes)
  prompt!: string;

  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: longestLease,
    default: defaultLease,
    nullable: true,
    description: 'How long the run may be silent before it counts as lost.',
  })
  @AbsentOrNull()
  @IsLease()
  leaseSeconds?: number | null;
}

/** What became of a slot: the same answer whenever it comes again. */
export interface SlotAnswer {
  readonly runId: string;
  readonly jobId: string;
  readonly slotAt: string;
  readonly decision: 'run' | 'cancelled' | 'overlapped';
  /** What the mission is to do, as the handlers left it; null where it does not run. */
  readonly prompt: Json;
  readonly cancellation: Answer['cancellation'];
  /** The invocation of `cronJobFiring`; null where no hook fired. */
  readonly invocationId: string | null;
}

const slotSchema: { readonly type: 'object' } & Record<string, unknown> = {
  type: 'object',
  required: ['runId', 'jobId', 'slotAt', 'decision', 'prompt', 'cancellation', 'invocationId'],
  properties: {
    runId: { type: 'string', description: 'The same for the same job and slot, always.' },
    jobId: { type: 'string' },
    slotAt: { type: 'string', format: 'date-time' },
    decision: { type: 'string', enum: ['run', 'cancelled', 'overlapped'] },
    prompt: {
      nullable: true,
      description: 'What the mission is to do, as the handlers left it; null where it does not run.',
    },
    cancellation: {
      type: 'object',
      nullable: true,
      properties: {
        pluginId: { type: 'string', nullable: true },
        reason: { type: 'string', nullable: true },
        code: { type: 'string', nullable: true },
      },
    },
    invocationId: { type: 'string', nullable: true, description: 'The invocation of `cronJobFiring`.' },
  },
};

/** A slot of a cron job is due: whether it runs, after the overlap check and `cronJobFiring`. */
export class TakeSlot extends AccountCommand<SlotAnswer> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];
  override readonly invocationId = newId();
  readonly slot: Slot;

  constructor(
    meta: CommandMeta,
    jobId: string,
    readonly body: Readonly<SlotBody>,
  ) {
    super(meta);
    const slotAt = millisecondOf(body.slotAt);
    this.slot = { runId: runIdOf(meta.account, jobId, slotAt), jobId, slotAt };
  }
}

/** How long a slot waits for the turn of its job, ms, and how often it looks meanwhile whether it is decided. */
const patienceMs = 30_000;
const lookAgainMs = 100;

const nothingYet = (): Promise<null> => Promise.resolve(null);

@CommandHandler(TakeSlot)
export class TakeSlotHandler extends AccountCommandHandler<TakeSlot, SlotAnswer> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly streams: CronStreams,
    private readonly firing: HookFiring,
    private readonly answers: Answers,
  ) {
    super();
  }

  /**
   * One slot of a job fires its hook at a time, so that one that is not to run fires none; that none runs beside another
   * is for the version of the job's stream to see to, whoever comes.
   */
  protected override async run(command: TakeSlot): Promise<SlotAnswer> {
    const { account } = command.meta;
    const wanted = { account, key: `cron job ${digestOf(command.slot.jobId)}`, invocationId: null };
    const fire = (seen: Seen): Promise<SlotAnswer> => this.fire(command, seen);
    const decide = (): Promise<SlotAnswer> => untilDecided(() => this.decide(command, fire));
    const deadline = Date.now() + patienceMs;
    for (let waitMs = 0; Date.now() < deadline; waitMs = lookAgainMs) {
      const answer = (await inTurn(this.store, wanted, waitMs, decide)) ?? (await this.decide(command, nothingYet));
      if (answer !== null) return answer;
    }
    throw new LogBusy('another slot of this job is still being decided');
  }

  protected override async replay(command: TakeSlot): Promise<SlotAnswer> {
    const { run } = await this.streams.run(command.meta.account, command.slot.runId);
    return this.answer(command, run);
  }

  private async repeated(command: TakeSlot, run: CronRun): Promise<SlotAnswer> {
    await completeOnly(this.store, command, cronRunStream(command.slot.runId), {});
    return this.answer(command, run);
  }

  /** The answer; null when a stream moved meanwhile. `fire` is asked where the slot is free. */
  private async decide(
    command: TakeSlot,
    fire: (seen: Seen) => Promise<SlotAnswer | null>,
  ): Promise<SlotAnswer | null> {
    const seen = await this.look(command);
    switch (decideSlot(seen.own.run, seen.job.openRun)) {
      case 'repeated':
        return this.repeated(command, seen.own.run);
      case 'overlapped':
        return this.overlap(command, seen);
      case 'fire':
        return fire(seen);
    }
  }

  private async fire(command: TakeSlot, seen: Seen): Promise<SlotAnswer> {
    const { meta, slot } = command;
    const firing: SlotFiring = { invocationId: newId(), decides: false };
    const { invocationId } = firing;
    const request = {
      account: meta.account,
      actor: actorOf(meta.caller),
      order: firingOrder(command),
      invocationId,
      attempt: command.claim?.attempt ?? 1,
      previousInvocationId: command.claim?.previousInvocationId ?? null,
    };
    const completed = completion(command, cronRunStream(slot.runId), {});
    try {
      const running = await this.firing.start(request, completed, (envelope) => ({
        stream: cronRunStream(slot.runId),
        after: this.outcome(command, seen, envelope, firing),
      }));
      const answer = await running.answer;
      if (firing.decides) return answerOf(slot, answer.outcome === 'cancelled' ? 'cancelled' : 'open', answer);
      const { run } = await this.streams.run(meta.account, slot.runId);
      return await this.answer(command, run);
    } catch (error) {
      throw error instanceof FiringSuperseded ? superseded() : error;
    }
  }

  private async look({ meta, slot }: TakeSlot): Promise<Seen> {
    const [job, own] = await Promise.all([
      this.streams.job(meta.account, slot.jobId, new Date()),
      this.streams.run(meta.account, slot.runId),
    ]);
    return { job, own };
  }

  private async overlap(command: TakeSlot, { job, own }: Seen): Promise<SlotAnswer | null> {
    const { meta, slot, body } = command;
    const envelope = await this.sealing.envelope(meta.account, stepScope(body.dataSubject, null));
    const events = overlapped(slot, missionOf(body, envelope), job.openRun ?? '');
    const appended = await appendUnlessMoved(this.store, {
      account: meta.account,
      writes: [write(own.stream, own.version, events, command)],
      blobs: envelope.blobs(),
      commands: completion(command, own.stream, {}),
    });
    if (appended === null) return null;
    return { ...slot, decision: 'overlapped', prompt: null, cancellation: null, invocationId: null };
  }

  /**
   * What goes into the commit that ends the firing: the run, or that it was cancelled. Asked again when the job or the
   * slot moved meanwhile, which takes somebody who did not wait for their turn; then what holds now decides.
   */
  private outcome(command: TakeSlot, first: Seen, envelope: Envelope, firing: SlotFiring) {
    let seen: Seen | null = first;
    return async (end: FiringEnd): Promise<readonly StreamWrite[]> => {
      const { job, own } = seen ?? (await this.look(command));
      seen = null;
      const { slot, body } = command;
      const mission = missionOf(body, envelope);
      firing.decides = false;
      switch (decideSlot(own.run, job.openRun)) {
        case 'repeated':
          return [];
        case 'overlapped':
          return [write(own.stream, own.version, overlapped(slot, mission, job.openRun ?? ''), command)];
        case 'fire': {
          firing.decides = true;
          const fired = {
            invocationId: firing.invocationId,
            outcome: end.outcome,
            finalPrompt: end.closed.value ?? mission.prompt,
            reason: end.closed.cancellation?.reason ?? null,
          };
          const lease = { now: new Date(), leaseSeconds: body.leaseSeconds ?? defaultLease };
          const events = decideRun(slot, mission, fired, lease);
          const cancelled = cancelFields(end);
          return [
            write(job.stream, job.version, events.job, command),
            write(
              own.stream,
              own.version,
              events.run.map((event) => ({ ...event, ...cancelled })),
              command,
            ),
          ];
        }
      }
    };
  }

  /** The answer of a slot that was decided before. */
  private async answer({ meta, slot }: TakeSlot, run: CronRun): Promise<SlotAnswer> {
    if (run.firedBy === null) return answerOf(slot, run.state, null);
    const found = await this.answers.find(meta.account, run.firedBy);
    if (found.kind !== 'found') throw new Error('a run was decided by an invocation that is not closed');
    return answerOf(slot, run.state, found.answer);
  }
}

/** A firing for a slot, and whether it is what decided it. */
interface SlotFiring {
  readonly invocationId: string;
  decides: boolean;
}

/** A job and one of its slots, as they were read. */
interface Seen {
  readonly job: FoundJob;
  readonly own: FoundRun;
}

const firingOrder = ({ slot, body }: TakeSlot) => {
  const { agentId, kind, name, prompt } = body;
  const context = { cronJobId: slot.jobId, agentId, kind, name, prompt };
  return hookOrder('cronJobFiring', context, body, { operationId: slot.runId });
};

const missionOf = ({ kind, name, prompt }: Readonly<SlotBody>, envelope: Envelope): Mission => ({
  kind,
  name: envelope.seal(name),
  prompt: envelope.seal(prompt),
});

const write = (
  stream: string,
  expectedVersion: number,
  events: readonly NewEvent[],
  { meta, body }: TakeSlot,
): StreamWrite => ({
  stream,
  expectedVersion,
  events: events.map((event) => ({
    ...event,
    ...stepFields(body),
    actor: actorOf(meta.caller),
    agentId: body.agentId,
  })),
});

/** Who cancelled, and by which code, as the event's own fields have it. */
const cancelFields = ({ outcome, closed: { cancellation } }: FiringEnd): Partial<NewEvent> => {
  if (outcome !== 'cancelled' || cancellation === null) return {};
  return {
    ...(cancellation.pluginId === null ? {} : { pluginId: cancellation.pluginId }),
    ...(cancellation.code === null ? {} : { reasonCode: cancellation.code }),
  };
};

const answerOf = (slot: Slot, state: CronRun['state'], firing: Answer | null): SlotAnswer => {
  if (state === 'overlapped' || firing === null) {
    return { ...slot, decision: 'overlapped', prompt: null, cancellation: null, invocationId: null };
  }
  const cancelled = state === 'cancelled';
  return {
    ...slot,
    decision: cancelled ? 'cancelled' : 'run',
    prompt: cancelled ? null : firing.value,
    cancellation: cancelled ? firing.cancellation : null,
    invocationId: firing.invocationId,
  };
};

@ApiTags('cron')
@Controller('v1/accounts/:account/cron-jobs')
export class TakeSlotRoute {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

  @Post(':job/slots')
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: 'A slot is due: whether it runs, after the overlap check and `cronJobFiring`' })
  @ApiOkResponse({ description: 'On record. The same job and slot always give the same run.', schema: slotSchema })
  take(
    @Meta() meta: CommandMeta,
    @PathId('job', 'The cron job.') jobId: string,
    @Body() body: SlotBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<SlotAnswer> {
    return replayable(this.bus, new TakeSlot(meta, jobId, body), reply);
  }
}
