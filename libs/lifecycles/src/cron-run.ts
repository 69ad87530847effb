import { asData, digestOf, type NewEvent, type Sealed } from '#record';

/**
 * What may happen to one slot of a cron job and to its run (MW-93 to MW-96): pure, over the events of the run's stream.
 * Each of them says what those before it come to, so the last few are enough to go on.
 */
export interface CronRun {
  /** `unused`: the slot never came, or was only missed so far. */
  readonly state: 'unused' | 'overlapped' | 'cancelled' | 'open' | 'closed' | 'lost';
  readonly slot: Slot | null;
  readonly agentId: string | null;
  /** The mission's session, once the runtime named it. */
  readonly sessionId: string | null;
  readonly leaseUntil: string | null;
  readonly leaseSeconds: number;
  /** The invocation of `cronJobFiring`. */
  readonly firedBy: string | null;
  readonly status: string | null;
  /** The invocation of `cronJobCompleted`. */
  readonly toldBy: string | null;
  readonly notified: boolean;
}

/** A slot: when a job was due, and the run that this is. */
export interface Slot {
  readonly runId: string;
  readonly jobId: string;
  /** RFC 3339 in UTC with milliseconds. */
  readonly slotAt: string;
}

/** What a slot is to run, as it was scheduled. */
export interface Mission {
  readonly kind: string;
  readonly name: Sealed;
  readonly prompt: Sealed;
}

export const unusedRun: CronRun = {
  state: 'unused',
  slot: null,
  agentId: null,
  sessionId: null,
  leaseUntil: null,
  leaseSeconds: 0,
  firedBy: null,
  status: null,
  toldBy: null,
  notified: false,
};

/** As many events from the end of a run's stream tell its state: the last lease, the end, what came of telling. */
export const runTail = 4;

/** Stream of one slot and its run. */
export const cronRunStream = (runId: string): string => `cron-run/${runId}`;

/** The run that a slot is: the same for the same job and slot, always (MW-94). A UUID, version 8. */
export const runIdOf = (account: string, jobId: string, slotAt: string): string => {
  const hex = digestOf(JSON.stringify([account, jobId, slotAt]));
  const variant = ((parseInt(hex.slice(16, 17), 16) & 3) | 8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    variant + hex.slice(17, 20),
    hex.slice(20, 32),
  ].join('-');
};

type RunEvent = Pick<NewEvent, 'type' | 'data' | 'agentId' | 'sessionId'>;

/** The run after one of its events. */
export const evolveCronRun = (run: CronRun, { type, data, agentId, sessionId }: RunEvent): CronRun => {
  const { runId, jobId, slotAt } = data as unknown as Slot;
  const known: CronRun = {
    ...run,
    slot: { runId, jobId, slotAt },
    agentId: agentId ?? run.agentId,
    sessionId: sessionId ?? run.sessionId,
  };
  const firedBy = typeof data.firedBy === 'string' ? data.firedBy : null;
  switch (type) {
    case 'cron.slot_overlapped':
      return { ...known, state: 'overlapped' };
    case 'cron.run_cancelled':
      return { ...known, state: 'cancelled', firedBy };
    case 'cron.run_leased':
      return {
        ...known,
        state: 'open',
        firedBy,
        leaseUntil: data.leaseUntil as string,
        leaseSeconds: Number(data.leaseSeconds),
      };
    case 'cron.run_closed':
      return { ...known, state: 'closed', status: data.status as string, toldBy: firedBy };
    case 'cron.run_notified':
      return { ...known, notified: true };
    case 'cron.run_lost':
      return { ...known, state: 'lost' };
    default:
      return run;
  }
};

/** Whether this run keeps its job from starting another: not when its lease has lapsed, whoever writes that down. */
export const isOpen = (run: CronRun, now: Date): boolean =>
  run.state === 'open' && (run.leaseUntil === null || Date.parse(run.leaseUntil) > now.getTime());

/** Whether a due slot fires `cronJobFiring`: it is used already, or its job has an open run, or it does (MW-94). */
export const decideSlot = (run: CronRun, openRun: string | null): 'repeated' | 'overlapped' | 'fire' => {
  if (run.state !== 'unused') return 'repeated';
  return openRun === null ? 'fire' : 'overlapped';
};

/** `cron.slot_overlapped`, for the run's stream. */
export const overlapped = (slot: Slot, mission: Mission, openRun: string): readonly NewEvent[] => [
  { type: 'cron.slot_overlapped', data: asData({ ...slot, ...mission, openRun }) },
];

/** What a slot that fired came to. */
export interface SlotFired {
  readonly invocationId: string;
  readonly outcome: string;
  /** The prompt as the handlers left it. */
  readonly finalPrompt: Sealed;
  readonly reason: Sealed | null;
}

/** What is written of a slot that fired: in the stream of the job, and in that of the run. */
export interface SlotEvents {
  readonly job: readonly NewEvent[];
  readonly run: readonly NewEvent[];
}

/** What a slot that fired became: a run with its first lease, or a run that never starts (MW-93, MW-94). */
export const decideRun = (
  slot: Slot,
  mission: Mission,
  fired: SlotFired,
  lease: { readonly now: Date; readonly leaseSeconds: number },
): SlotEvents => {
  const { invocationId: firedBy, finalPrompt, reason } = fired;
  if (fired.outcome === 'cancelled') {
    return { job: [], run: [{ type: 'cron.run_cancelled', data: asData({ ...slot, ...mission, reason, firedBy }) }] };
  }
  return {
    job: [{ type: 'cron.run_started', data: asData({ ...slot, ...mission, finalPrompt, firedBy }) }],
    run: [leased(slot, 'start', firedBy, lease)],
  };
};

const leased = (
  slot: Slot,
  by: 'start' | 'heartbeat' | 'session',
  firedBy: string | null,
  { now, leaseSeconds }: { readonly now: Date; readonly leaseSeconds: number },
): NewEvent => ({
  type: 'cron.run_leased',
  data: asData({ ...slot, leaseUntil: leaseEnd(now, leaseSeconds), leaseSeconds, by, firedBy }),
});

const leaseEnd = (now: Date, seconds: number): string => new Date(now.getTime() + seconds * 1000).toISOString();

/** A run that is not open is neither kept alive nor closed. One that lapsed is open until it was written down as lost. */
export interface NotOpen {
  readonly kind: 'not-open';
  readonly state: Exclude<CronRun['state'], 'open'>;
}

const notOpen = ({ state }: CronRun): NotOpen => ({ kind: 'not-open', state: state === 'open' ? 'lost' : state });

/** The share of a lease that a heartbeat must add to be written down: a busy heart does not fill the log. */
const worthWriting = 0.1;

export type LeaseDecision =
  { readonly kind: 'leased'; readonly leaseUntil: string; readonly events: readonly NewEvent[] } | NotOpen;

/** Renews the lease of an open run; `sessionId` names the mission's session from now on, null leaves it as it is. */
export const decideLease = (
  run: CronRun,
  sessionId: string | null,
  { now, leaseSeconds = run.leaseSeconds }: { readonly now: Date; readonly leaseSeconds?: number | undefined },
): LeaseDecision => {
  const { slot, leaseUntil } = run;
  if (run.state !== 'open' || slot === null || leaseUntil === null) return notOpen(run);
  const names = sessionId !== null && sessionId !== run.sessionId;
  const wanted = leaseEnd(now, leaseSeconds);
  const gain = Math.abs(Date.parse(wanted) - Date.parse(leaseUntil));
  if (!names && leaseSeconds === run.leaseSeconds && gain < leaseSeconds * 1000 * worthWriting) {
    return { kind: 'leased', leaseUntil, events: [] };
  }
  const event = leased(slot, names ? 'session' : 'heartbeat', run.firedBy, { now, leaseSeconds });
  const session = sessionId ?? run.sessionId;
  return { kind: 'leased', leaseUntil: wanted, events: [session === null ? event : { ...event, sessionId: session }] };
};

export type CompletionDecision =
  /** Closed now: these events first, then `cronJobCompleted`, once (MW-96). */
  | { readonly kind: 'closes'; readonly events: readonly NewEvent[] }
  /** It was closed before, cancelled, lost, or never was: nobody is told (MW-95). */
  | NotOpen;

/** Closes a run that actually ran. `firedBy` is the invocation that is about to tell of it. */
export const decideCompletion = (
  run: CronRun,
  { status, sessionId, firedBy }: { readonly status: string; readonly sessionId: string; readonly firedBy: string },
): CompletionDecision => {
  if (run.state !== 'open' || run.slot === null) return notOpen(run);
  return {
    kind: 'closes',
    events: [{ type: 'cron.run_closed', sessionId, data: asData({ ...run.slot, status, firedBy }) }],
  };
};

/** `cron.run_notified`, in one commit with the end of the invocation that told. */
export const notified = (
  slot: Slot,
  told: { readonly firedBy: string; readonly handlers: number; readonly undecided: number },
): readonly NewEvent[] => [{ type: 'cron.run_notified', data: asData({ ...slot, ...told }) }];

/** Who puts on record what nobody reports. */
const watch = { kind: 'system', id: 'cron-watch' } as const;

/** `cron.slot_missed`, for the stream of a run that has no event yet. */
export const missedSlot = (
  slot: Slot,
  declared: { readonly schedule: string; readonly timeZone: string },
  agentId: string | null,
): readonly NewEvent[] => [
  {
    type: 'cron.slot_missed',
    actor: watch,
    ...(agentId === null ? {} : { agentId }),
    data: asData({ ...slot, ...declared }),
  },
];

/** `cron.run_lost` for an open run whose lease has lapsed; nothing for any other. */
export const decideLapse = (run: CronRun, now: Date): readonly NewEvent[] => {
  const { slot, leaseUntil } = run;
  if (run.state !== 'open' || isOpen(run, now) || slot === null || leaseUntil === null) return [];
  return [
    {
      type: 'cron.run_lost',
      actor: watch,
      ...(run.agentId === null ? {} : { agentId: run.agentId }),
      ...(run.sessionId === null ? {} : { sessionId: run.sessionId }),
      data: asData({ ...slot, leaseUntil }),
    },
  ];
};
