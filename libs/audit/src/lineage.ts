import { grouped } from './grouped.js';
import type { Row, Sql } from '#event-store';
import { hostEventsJoined, type JoinedHostEvent } from './host-events.js';
import { columnText } from './columns.js';
import { withHandlers, type InvocationSummary } from './invocation-search.js';
import type { TableName } from './projection.js';

/** An invocation in the tree of its root. */
export interface LineageNode {
  readonly invocation: InvocationSummary;
  /** The invocation that this one descends from; null at the root, or when it lies in another tree. */
  readonly parent: string | null;
  /** How: a plugin's host call, or a model's turn (MW-104), which counts no hop. */
  readonly by: 'host-call' | 'model-turn' | null;
  /** Calls that the invocation made itself. */
  readonly hostCalls: readonly LineageCall[];
  /** What else the host reported of the same subagent or the same cron run. */
  readonly joined: readonly JoinedHostEvent[];
}

export interface LineageCall {
  readonly callId: string;
  readonly pluginId: string | null;
  readonly member: string;
  readonly state: string;
  readonly code: string | null;
  readonly position: string;
}

/** Everything that one original event led to, in the order of the record, a page at a time. */
export const lineageOf = async (
  sql: Sql,
  table: TableName,
  query: { readonly account: string; readonly root: string; readonly after?: string; readonly limit: number },
): Promise<{ readonly items: readonly LineageNode[]; readonly next: string | null }> => {
  const values: unknown[] = [query.account, columnText(query.root), query.limit + 1];
  if (query.after !== undefined) values.push(query.after);
  const rows = await sql.query(
    `select * from ${table('invocation')} where account = $1 and root = $2
     ${query.after === undefined ? '' : 'and position > $4::bigint'} order by position limit $3`,
    values,
  );
  const page = rows.slice(0, query.limit);
  const last = page.at(-1);
  return {
    items: await toNodes(sql, table, query.account, page),
    next: rows.length > query.limit && last !== undefined ? String(last.position) : null,
  };
};

const toNodes = async (
  sql: Sql,
  table: TableName,
  account: string,
  rows: readonly Row[],
): Promise<readonly LineageNode[]> => {
  const invocations = await withHandlers(sql, table, account, rows);
  const calls = await sql.query(
    `select * from ${table('host_call')} where account = $1 and invocation_id = any($2::text[]) order by position`,
    [account, invocations.map(({ invocationId }) => invocationId)],
  );
  const joined = await hostEventsJoined(
    sql,
    table,
    account,
    invocations.map(({ invocationId }) => invocationId),
  );
  const madeBy = grouped(calls, (call) => String(call.invocation_id));
  return invocations.map((invocation) => ({
    invocation,
    parent: invocation.cause ?? invocation.lineage,
    by: byOf(invocation),
    hostCalls: (madeBy.get(invocation.invocationId) ?? []).map(toCall),
    joined: joined.get(invocation.invocationId) ?? [],
  }));
};

/** A hop is counted only where plugin code sent the message (MW-100). */
const byOf = ({ cause, lineage, hop }: InvocationSummary): LineageNode['by'] => {
  if (cause === null && lineage === null) return null;
  return lineage === null || hop > 0 ? 'host-call' : 'model-turn';
};

const toCall = (row: Row): LineageCall => ({
  callId: String(row.call_id),
  pluginId: typeof row.plugin_id === 'string' ? row.plugin_id : null,
  member: String(row.member),
  state: String(row.state),
  code: typeof row.code === 'string' ? row.code : null,
  position: String(row.position),
});
