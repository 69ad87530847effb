import type { NewEvent } from '#record';

/**
 * The overlap check of one cron job (MW-94): pure, over the events of the job's stream. Whoever starts a run writes
 * `cron.run_started` there, at the version at which they found the run before it ended: so of any number that race, one
 * starts. Only the last run matters, so the end of the stream is enough, however long it is.
 */
export interface CronJob {
  /** The run that was started last, ended or not. */
  readonly lastRun: string | null;
}

export const newCronJob: CronJob = { lastRun: null };

/** Stream of one cron job: its declarations, and the runs that it started. */
export const cronStream = (jobId: string): string => `cron/${jobId}`;

/** The job after one of its events. */
export const evolveCronJob = (job: CronJob, { type, data }: Pick<NewEvent, 'type' | 'data'>): CronJob =>
  type === 'cron.run_started' ? { lastRun: data.runId as string } : job;
