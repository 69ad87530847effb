import { Cron } from 'croner';

/** When a job is due, reckoned; what was due is never reckoned again, since time zones change their rules. */
export interface Schedule {
  /** The first slot after a moment; null when there is none. */
  next(after: Date): Date | null;
}

/** A schedule, or what is wrong with it and in which field. */
export type ReadSchedule =
  | { readonly kind: 'schedule'; readonly schedule: Schedule }
  | { readonly kind: 'refused'; readonly field: 'schedule' | 'timeZone'; readonly reason: string };

/**
 * Reads a cron pattern of five to seven fields (or `@daily` and the like) in a time zone. A slot whose local time is
 * skipped by a change to daylight saving time comes right after the gap; one whose local time comes twice comes once.
 */
export const readSchedule = (pattern: string, timeZone: string): ReadSchedule => {
  if (!isTimeZone(timeZone)) return refused('timeZone', 'must be an IANA time zone, such as Europe/Berlin');
  // The library takes a date for a schedule with one slot, too.
  if (/^\d{4}-/u.test(pattern)) return refused('schedule', wanted);
  try {
    const cron = new Cron(pattern, { timezone: timeZone, paused: true });
    cron.nextRun(new Date(0));
    return { kind: 'schedule', schedule: { next: (after) => cron.nextRun(after) } };
  } catch {
    return refused('schedule', wanted);
  }
};

const wanted = 'must be a cron pattern of five to seven fields, such as 0 7 * * 1-5, or null';

const refused = (field: 'schedule' | 'timeZone', reason: string): ReadSchedule => ({ kind: 'refused', field, reason });

const isTimeZone = (name: string): boolean => {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
};
