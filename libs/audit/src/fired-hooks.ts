import type { Sql } from '#event-store';
import { columnText } from './columns.js';
import { withHandlers, type InvocationSummary } from './invocation-search.js';
import type { TableName } from './projection.js';

/** Invocations of one clear or run that are shown at most; its oldest come first. */
const shownAtMost = 5_000;

/** The hooks that the platform fired for clears and cron runs, by their stream, each in the order of the log. */
export const hooksFiredFor = async (
  sql: Sql,
  table: TableName,
  account: string,
  streams: readonly string[],
): Promise<ReadonlyMap<string, readonly InvocationSummary[]>> => {
  if (streams.length === 0) return new Map();
  const rows = await sql.query(
    `select * from ${table('invocation')} where account = $1 and fired_for = any($2::text[])
     order by position limit ${String(shownAtMost)}`,
    [account, streams.map(columnText)],
  );
  const summaries = await withHandlers(sql, table, account, rows);
  const found = new Map<string, InvocationSummary[]>();
  for (const [index, row] of rows.entries()) {
    const summary = summaries[index];
    if (summary === undefined) continue;
    const stream = String(row.fired_for);
    const before = found.get(stream);
    if (before === undefined) found.set(stream, [summary]);
    else before.push(summary);
  }
  return found;
};
