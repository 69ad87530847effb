import { Body, Controller, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import type { EventStore } from '#event-store';
import { FiringSuperseded } from '#firing';
import { decideCompletion, notified, type Slot } from '#lifecycles';
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
  Problem,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import type { EventFields, NewEvent } from '#record';
import { Answers } from './answers.js';
import { notOpen } from './cron-refusals.js';
import { CronStreams, type FoundRun } from './cron-streams.js';
import type { FiringOrder } from './firing-order.js';
import { HookFiring } from './hook-firing.js';
import { hookOrder, StepBody, stepFields } from './lifecycle-body.js';
import { completeOnly, completion, noteOf, superseded, untilDecided, type Note } from './lifecycle-commits.js';
import { newId } from './new-id.js';
import { replayable } from './replayable.js';

class CompleteRunBody extends StepBody {
  @ApiProperty({ description: 'As the schedule’s history shows it.' })
  @IsWireId()
  status!: string;

  @ApiPropertyOptional({
    type: String,
    nullable: true,
    description: "The mission's session; needed unless it was named before.",
  })
  @AbsentOrNull()
  @IsWireId()
  sessionId?: string | null;
}

/** A closed run, and whether `cronJobCompleted` ran to its end. */
export interface CompletedRun {
  readonly runId: string;
  readonly state: 'closed';
  readonly status: string;
  readonly notified: boolean;
  /** The invocation of `cronJobCompleted`. */
  readonly invocationId: string | null;
}

const completedSchema: { readonly type: 'object' } & Record<string, unknown> = {
  type: 'object',
  required: ['runId', 'state', 'status', 'notified', 'invocationId'],
  properties: {
    runId: { type: 'string' },
    state: { type: 'string', enum: ['closed'] },
    status: { type: 'string', description: 'As the first report said it.' },
    notified: {
      type: 'boolean',
      description: 'Whether `cronJobCompleted` ran to its end. It is fired once: false where that was lost in a crash.',
    },
    invocationId: { type: 'string', nullable: true, description: 'The invocation of `cronJobCompleted`.' },
  },
};

/** A run came to its end: it is closed, then `cronJobCompleted` is fired, at most once (MW-96). */
export class CompleteRun extends AccountCommand<CompletedRun> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];
  override readonly invocationId = newId();

  constructor(
    meta: CommandMeta,
    readonly runId: string,
    readonly body: Readonly<CompleteRunBody>,
  ) {
    super(meta);
  }
}

/** How long a repeated report waits for the hook that the first one fired, ms. */
const patienceMs = 25_000;

@CommandHandler(CompleteRun)
export class CompleteRunHandler extends AccountCommandHandler<CompleteRun, CompletedRun> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    private readonly streams: CronStreams,
    private readonly firing: HookFiring,
    private readonly answers: Answers,
  ) {
    super();
  }

  protected override run(command: CompleteRun): Promise<CompletedRun> {
    return untilDecided(() => this.attempt(command));
  }

  protected override async replay({ meta, runId }: CompleteRun, { result }: DoneCommand): Promise<CompletedRun> {
    const { run } = await this.streams.knownRun(meta.account, runId);
    return answerOf(runId, run.status ?? '', noteOf(result));
  }

  /** Null when the run moved meanwhile: nothing ran. */
  private async attempt(command: CompleteRun): Promise<CompletedRun | null> {
    const { meta, runId, body } = command;
    const { account } = meta;
    const found = await this.streams.knownRun(account, runId);
    const { run, stream, version } = found;
    if (run.state === 'closed') return this.told(command, found);
    const sessionId = body.sessionId ?? run.sessionId ?? (run.state === 'open' ? noSession() : '');
    const invocationId = newId();
    const decision = decideCompletion(run, { status: body.status, sessionId, firedBy: invocationId });
    if (decision.kind === 'not-open') throw notOpen(decision);
    const slot = slotOf(found);
    const fields = { actor: actorOf(meta.caller), agentId: run.agentId ?? '', sessionId };
    const note = { notified: true, invocationId };
    const request = {
      account,
      actor: fields.actor,
      order: completedOrder(command, found, sessionId),
      invocationId,
      attempt: 1,
      previousInvocationId: null,
    };
    try {
      const running = await this.firing.start(request, completion(command, stream, note), () => ({
        stream,
        // Closed first and told afterwards: whoever writes this fires the hook, and nobody else ever does.
        before: [{ stream, expectedVersion: version, events: decision.events.map(recorded(command, fields)) }],
        after: ({ handlers, undecided }) =>
          Promise.resolve([
            {
              stream,
              expectedVersion: version + decision.events.length,
              events: notified(slot, { firedBy: invocationId, handlers, undecided }).map(recorded(command, fields)),
            },
          ]),
      }));
      await running.answer;
      return answerOf(runId, body.status, note);
    } catch (error) {
      if (!(error instanceof FiringSuperseded)) throw error;
      const now = await this.streams.run(account, runId);
      if (now.version === version) throw superseded();
      return null;
    }
  }

  /** The run was closed before: nobody is told again. Whoever comes while the hook runs waits for its end. */
  private async told(command: CompleteRun, { run, stream }: FoundRun): Promise<CompletedRun> {
    const { meta, runId } = command;
    const done = run.notified || (await this.isTold(meta.account, run.toldBy));
    const note = { notified: done, invocationId: run.toldBy };
    await completeOnly(this.store, command, stream, note);
    return answerOf(runId, run.status ?? '', note);
  }

  private async isTold(account: string, invocationId: string | null): Promise<boolean> {
    if (invocationId === null) return false;
    return (await this.answers.wait(account, invocationId, patienceMs)).kind === 'found';
  }
}

const noSession = (): never => {
  throw new Problem(422, 'session_unknown', "The mission's session is not known.", [
    { pointer: '/sessionId', reason: 'is needed, since no session of this run was named before' },
  ]);
};

const slotOf = ({ run }: FoundRun): Slot => {
  if (run.slot === null) throw new Error('a run that is known has its slot');
  return run.slot;
};

const completedOrder = ({ body }: CompleteRun, { run }: FoundRun, sessionId: string): FiringOrder => {
  const { jobId = '', runId = '' } = run.slot ?? {};
  const context = {
    cronJobId: jobId,
    cronJobRunId: runId,
    sessionId,
    agentId: run.agentId ?? '',
    status: body.status,
  };
  return hookOrder('cronJobCompleted', context, body, { operationId: runId });
};

const recorded =
  ({ body }: CompleteRun, fields: EventFields) =>
  (event: NewEvent): NewEvent => ({ ...event, ...stepFields(body), ...fields });

const answerOf = (runId: string, status: string, note: Note): CompletedRun => ({
  runId,
  state: 'closed',
  status,
  notified: note.notified === true,
  invocationId: typeof note.invocationId === 'string' ? note.invocationId : null,
});

@ApiTags('cron')
@Controller('v1/accounts/:account/cron-runs')
export class CompleteRunRoute {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

  @Post(':run/completion')
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: 'A run came to its end: it is closed, then `cronJobCompleted` is fired, at most once' })
  @ApiOkResponse({ description: 'Closed, and whether anyone was told.', schema: completedSchema })
  complete(
    @Meta() meta: CommandMeta,
    @PathId('run', 'The cron run.') runId: string,
    @Body() body: CompleteRunBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<CompletedRun> {
    return replayable(this.bus, new CompleteRun(meta, runId, body), reply);
  }
}
