import type { EventClass } from './event-classes.js';
import { eventClasses } from './event-classes.js';

/** Days that events of a class are kept; null: for good. */
export type Retention = { readonly [name in EventClass]: number | null };

export const keepForGood: Retention = {
  invocation: null,
  plugin: null,
  session: null,
  cron: null,
  approval: null,
  account: null,
  instance: null,
};

/** The longest six months in a row have so many days. What is kept for less needs a reason. */
export const sixMonthsDays = 184;

/** A hundred years: what is kept longer is kept for good. */
const mostDays = 36_525;

export interface RetentionFault {
  readonly pointer: string;
  readonly reason: string;
}

export type ReadRetention =
  | { readonly kind: 'read'; readonly retention: Retention }
  | { readonly kind: 'refused'; readonly faults: readonly RetentionFault[] };

/** The retention as it is wanted; a class that is not named is kept for good. */
export const readRetention = (wanted: { readonly [name: string]: unknown }, hasReason: boolean): ReadRetention => {
  const faults = Object.entries(wanted).flatMap(([name, days]) => faultsOf(name, days, hasReason));
  if (faults.length > 0) return { kind: 'refused', faults };
  return { kind: 'read', retention: { ...keepForGood, ...(wanted as Partial<Retention>) } };
};

const faultsOf = (name: string, days: unknown, hasReason: boolean): readonly RetentionFault[] => {
  const pointer = `/classes/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  if (!(eventClasses as readonly string[]).includes(name))
    return [{ pointer, reason: `no class of events; there are ${eventClasses.join(', ')}` }];
  if (days === null) return [];
  if (typeof days !== 'number' || !Number.isInteger(days) || days < 1 || days > mostDays)
    return [{ pointer, reason: `must be null (for good) or a whole number of days from 1 to ${String(mostDays)}` }];
  if (days < sixMonthsDays && !hasReason)
    return [{ pointer, reason: `less than six months (${String(sixMonthsDays)} days) needs a reason` }];
  return [];
};

/** The time before which events of a class are past their retention. */
export const cutoff = (days: number, now: Date): Date => new Date(now.getTime() - days * 86_400_000);

/** The cutoffs that a purge goes by, as `retention.purged` tells them. */
export type PurgePolicy = { readonly [name in EventClass]?: { readonly days: number; readonly before: string } };

/** The policy of a purge that begins now; empty when everything is kept for good. */
export const purgePolicy = (retention: Retention, now: Date): PurgePolicy =>
  Object.fromEntries(
    eventClasses.flatMap((name) => {
      const days = retention[name];
      return days === null ? [] : [[name, { days, before: cutoff(days, now).toISOString() }]];
    }),
  );
