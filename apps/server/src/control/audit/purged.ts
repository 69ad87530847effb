import { purgedRanges, type PurgedRange } from '#audit';
import type { Sql } from '#event-store';
import { Problem } from '#platform';

/** Runs of purged positions that one answer names at most. */
const mostRanges = 10_000;

/** What was purged within `[first, last]`; an answer that passes over it names it, so that no hole looks like a loss. */
export const purgedWithin = (
  sql: Sql,
  account: string,
  first: bigint,
  last: bigint,
): Promise<readonly PurgedRange[]> =>
  first > last ? Promise.resolve([]) : purgedRanges(sql, account, first, last, mostRanges);

/** The answer for what is gone by its retention. */
export const purgedProblem = (): Problem =>
  new Problem(410, 'purged', 'It was there, and was purged: it is past its retention. `GET …/purges` says when.');
