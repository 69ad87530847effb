import { grouped } from './grouped.js';
import type { Row, Sql } from '#event-store';
import { columnText } from './columns.js';
import { withHandlers, type InvocationSummary, type SearchPlace } from './invocation-search.js';
import type { TableName } from './projection.js';

/** The hooks of one operation, joined by `operationId`. */
export interface Operation {
  readonly operationId: string;
  /** Name of the pair: its hook before the operation. */
  readonly pair: string;
  /**
   * `joined`: both sides are on record. `cancelled`: vetoed before, so that nothing follows. `not_applied`: the runtime
   * said that it did not act. `no_after`: let through, and what became of it is not on record. `no_before`: it ran, and
   * nobody was asked before.
   */
  readonly state: 'joined' | 'cancelled' | 'not_applied' | 'no_after' | 'no_before';
  readonly before: readonly InvocationSummary[];
  readonly after: readonly InvocationSummary[];
}

/** The operation of this id, one entry per pair of hooks; empty when none of its hooks belongs to a pair. */
export const operationsNamed = async (
  sql: Sql,
  table: TableName,
  account: string,
  operationId: string,
): Promise<readonly Operation[]> => {
  const rows = await sql.query(
    `select * from ${table('invocation')} where account = $1 and operation_id = $2 and phase is not null order by position limit 500`,
    [account, columnText(operationId)],
  );
  return toOperations(sql, table, account, rows);
};

const toOperations = async (
  sql: Sql,
  table: TableName,
  account: string,
  rows: readonly Row[],
): Promise<readonly Operation[]> => {
  const summaries = await withHandlers(sql, table, account, rows);
  const sides = rows.map((row, index) => ({
    key: `${String(row.operation_id)}\0${String(row.pair)}`,
    operationId: String(row.operation_id),
    pair: String(row.pair),
    phase: String(row.phase),
    invocation: summaries[index],
  }));
  return [...grouped(sides, ({ key }) => key).values()].map((group) => {
    const side = (phase: string): readonly InvocationSummary[] =>
      group.flatMap((one) => (one.phase === phase && one.invocation !== undefined ? [one.invocation] : []));
    const [before, after] = [side('before'), side('after')];
    return {
      operationId: group[0]?.operationId ?? '',
      pair: group[0]?.pair ?? '',
      state: stateOf(before, after),
      before,
      after,
    };
  });
};

const stateOf = (before: readonly InvocationSummary[], after: readonly InvocationSummary[]): Operation['state'] => {
  if (before.length === 0) return 'no_before';
  if (after.length > 0) return 'joined';
  if (before.some(({ outcome }) => outcome === 'cancelled')) return 'cancelled';
  return before.some(({ effect }) => effect === 'not_applied') ? 'not_applied' : 'no_after';
};

export interface OrphanQuery {
  readonly account: string;
  readonly side: 'no_after' | 'no_before' | 'any';
  readonly from?: Date;
  readonly to?: Date;
  readonly after?: SearchPlace;
  readonly order: 'newest' | 'oldest';
  readonly limit: number;
}

/**
 * Operations with one side only: let through and nothing heard of since, or heard of though nobody was asked. One that
 * was cancelled, or that the runtime reported as not applied, is complete without its other side.
 */
export const orphanOperations = async (
  sql: Sql,
  table: TableName,
  query: OrphanQuery,
): Promise<{ readonly items: readonly Operation[]; readonly next: SearchPlace | null }> => {
  const values: unknown[] = [query.account];
  const bind = (value: unknown): string => `$${String(values.push(value))}`;
  const where = ['account = $1', 'phase is not null', 'not joined', ...sideIs[query.side]];
  if (query.from !== undefined) where.push(`occurred_at >= ${bind(query.from.toISOString())}::timestamptz`);
  if (query.to !== undefined) where.push(`occurred_at < ${bind(query.to.toISOString())}::timestamptz`);
  const [than, direction] = query.order === 'newest' ? ['<', 'desc'] : ['>', 'asc'];
  if (query.after !== undefined) {
    where.push(
      `(occurred_at, position) ${than} (${bind(query.after.at)}::timestamptz, ${bind(query.after.position)}::bigint)`,
    );
  }
  const rows = await sql.query(
    `select *, to_char(occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as place_at
     from ${table('invocation')} where ${where.join(' and ')}
     order by occurred_at ${direction}, position ${direction} limit ${bind(query.limit + 1)}`,
    values,
  );
  const page = rows.slice(0, query.limit);
  const last = page.at(-1);
  return {
    items: await toOperations(sql, table, query.account, page),
    next:
      rows.length > query.limit && last !== undefined
        ? { at: String(last.place_at), position: String(last.position) }
        : null,
  };
};

const letThrough =
  "(outcome is distinct from 'cancelled' and outcome is distinct from 'lost' and effect is distinct from 'not_applied')";

const sideIs: { readonly [side in OrphanQuery['side']]: readonly string[] } = {
  no_after: ["phase = 'before'", letThrough],
  no_before: ["phase = 'after'"],
  any: [`(phase = 'after' or ${letThrough})`],
};
