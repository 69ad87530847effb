import type { NewEvent } from '#record';

/**
 * What may happen to the runs of one cron job (MW-93 to MW-96): pure, over the events of the job's stream. A job has
 * at most one open run; a slot is used once, whatever became of it.
 */
export interface CronJob {
  readonly openRun: string | null;
  readonly slots: ReadonlyMap<string, SlotUse>;
  readonly runs: ReadonlyMap<string, 'open' | 'closed' | 'cancelled'>;
}

/** What became of a slot. */
export interface SlotUse {
  readonly runId: string;
  readonly decision: 'run' | 'cancelled' | 'overlapped';
}

/** A cron event's `data`, as far as this decides by it. */
interface CronData {
  readonly runId: string;
  readonly slotAt: string;
}

export const newCronJob: CronJob = { openRun: null, slots: new Map(), runs: new Map() };

/** Stream of one cron job. */
export const cronStream = (jobId: string): string => `cron/${jobId}`;

/** The job after one of its events. Events that say nothing about runs change nothing. */
export const evolveCronJob = (job: CronJob, { type, data }: Pick<NewEvent, 'type' | 'data'>): CronJob => {
  const { runId, slotAt } = data as unknown as CronData;
  switch (type) {
    case 'cron.run_started':
      return { openRun: runId, slots: used(job, slotAt, runId, 'run'), runs: runIs(job, runId, 'open') };
    case 'cron.run_cancelled':
      return { ...job, slots: used(job, slotAt, runId, 'cancelled'), runs: runIs(job, runId, 'cancelled') };
    case 'cron.slot_overlapped':
      return { ...job, slots: used(job, slotAt, runId, 'overlapped') };
    case 'cron.run_closed':
    case 'cron.run_lost':
      return {
        ...job,
        openRun: job.openRun === runId ? null : job.openRun,
        runs: runIs(job, runId, 'closed'),
      };
    default:
      return job;
  }
};

export type SlotDecision =
  /** The slot is free: fire `cronJobFiring`, then `decideRun`. */
  | { readonly kind: 'fire' }
  /** A run of the job is open: no hook fires (MW-94). */
  | { readonly kind: 'overlapped'; readonly events: readonly NewEvent[] }
  /** The slot was used before: the same answer again, nothing fires (MW-94). */
  | { readonly kind: 'repeated'; readonly use: SlotUse };

/** Whether a due slot fires `cronJobFiring`. `runId` names the run that the slot would become. */
export const decideSlot = (job: CronJob, slotAt: string, runId: string): SlotDecision => {
  const use = job.slots.get(slotAt);
  if (use !== undefined) return { kind: 'repeated', use };
  if (job.openRun === null) return { kind: 'fire' };
  return { kind: 'overlapped', events: [event('cron.slot_overlapped', { runId, slotAt, openRun: job.openRun })] };
};

/** What a slot that fired became: a run, or a run that never starts and keeps the slot used (MW-93, MW-94). */
export const decideRun = (
  slotAt: string,
  runId: string,
  firing: { readonly invocationId: string; readonly outcome: string },
): readonly NewEvent[] => [
  event(firing.outcome === 'cancelled' ? 'cron.run_cancelled' : 'cron.run_started', {
    runId,
    slotAt,
    firedBy: firing.invocationId,
  }),
];

export type CompletionDecision =
  /** Closed now: these events first, then `cronJobCompleted`, once (MW-96). */
  | { readonly kind: 'closed'; readonly events: readonly NewEvent[] }
  /** It was closed before, cancelled, or never was: nobody is told (MW-95). */
  | { readonly kind: 'not-open'; readonly state: 'closed' | 'cancelled' | 'unknown' };

/** Closes a run that actually ran. */
export const decideCompletion = (job: CronJob, runId: string, status: string): CompletionDecision => {
  const state = job.runs.get(runId) ?? 'unknown';
  if (state !== 'open') return { kind: 'not-open', state };
  return { kind: 'closed', events: [event('cron.run_closed', { runId, status })] };
};

const event = (type: NewEvent['type'], data: { readonly [key: string]: string }): NewEvent => ({ type, data });

const used = (job: CronJob, slotAt: string, runId: string, decision: SlotUse['decision']): CronJob['slots'] =>
  new Map(job.slots).set(slotAt, { runId, decision });

const runIs = (job: CronJob, runId: string, state: 'open' | 'closed' | 'cancelled'): CronJob['runs'] =>
  new Map(job.runs).set(runId, state);
