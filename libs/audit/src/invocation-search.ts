import type { Row, Sql } from '#event-store';
import type { Sealed } from '#record';
import { columnText, indexedText } from './columns.js';
import { grouped } from './grouped.js';
import type { TableName } from './projection.js';
import { instantOrNull, numberOrNull, textOrNull } from './row-values.js';
import { textCondition, type TextMatch } from './text-search.js';

/** What a search asks for (api.md, Reading the record). Everything given must hold. */
export interface InvocationQuery {
  readonly account: string;
  readonly dialect?: string;
  readonly hook?: string;
  readonly outcome?: string;
  readonly agentId?: string;
  readonly sessionId?: string;
  readonly turnId?: string;
  readonly correlationId?: string;
  readonly operationId?: string;
  readonly root?: string;
  readonly hop?: number;
  readonly reasonCode?: string;
  /** HMAC of the data subject. */
  readonly dataSubject?: string;
  /** Key or plugin that fired, or the person it fired for. */
  readonly actor?: string;
  /** As named, and as HMAC when it may be a person's address. */
  readonly target?: readonly string[];
  readonly effect?: 'applied' | 'not_applied' | 'different' | 'unknown';
  /** These must hold of one and the same handler run. */
  readonly handler?: HandlerFilter;
  readonly text?: TextMatch;
  readonly from?: Date;
  readonly to?: Date;
  readonly clock: Clock;
  readonly order: 'newest' | 'oldest';
  readonly after?: SearchPlace;
  readonly limit: number;
}

export type Clock = 'occurred' | 'recorded';

export interface HandlerFilter {
  readonly pluginId?: string;
  readonly pluginVersion?: string;
  readonly outcome?: string;
  readonly cause?: string;
}

/** Where a page ended: time in microseconds as Postgres keeps it, and position. */
export interface SearchPlace {
  readonly at: string;
  readonly position: string;
}

/** One handler run, without its content. */
export interface HandlerSummary {
  readonly pluginId: string;
  readonly pluginVersion: string | null;
  readonly revision: number | null;
  readonly mode: string | null;
  readonly outcome: string;
  readonly cause: string | null;
  readonly wouldHave: string | null;
  readonly reasonCode: string | null;
  readonly durationMs: number | null;
  readonly warnings: readonly { readonly code: string }[];
}

/** One invocation as a list shows it: ids, codes, times, and why it was cancelled; other content is read with itself. */
export interface InvocationSummary {
  readonly invocationId: string;
  readonly dialect: string;
  readonly hook: string;
  readonly turnId: string | null;
  readonly turnInferred: boolean;
  readonly sessionId: string | null;
  readonly agentId: string | null;
  readonly operationId: string | null;
  readonly correlationId: string | null;
  readonly root: string | null;
  readonly cause: string | null;
  readonly lineage: string | null;
  readonly hop: number;
  readonly target: string | null;
  readonly hostSession: string | null;
  readonly actor: { readonly kind: string; readonly id: string; readonly onBehalfOf: string | null } | null;
  readonly state: 'open' | 'closed' | 'lost';
  readonly outcome: string | null;
  readonly cancellation: {
    readonly pluginId: string | null;
    readonly reason: Sealed | null;
    readonly code: string | null;
  } | null;
  readonly effect: 'applied' | 'not_applied' | 'different' | 'unknown';
  readonly effectAt: string | null;
  readonly attempt: number;
  readonly previousInvocationId: string | null;
  readonly metered: boolean;
  readonly occurredAt: string;
  readonly recordedAt: string;
  readonly closedAt: string | null;
  readonly durationMs: number | null;
  readonly handlers: readonly HandlerSummary[];
  readonly positions: { readonly first: string; readonly last: string };
}

export interface SearchPage {
  readonly items: readonly InvocationSummary[];
  /** Null at the end. */
  readonly next: SearchPlace | null;
}

/** A page of invocations in the order of the clock asked for. */
export const searchInvocations = async (sql: Sql, table: TableName, query: InvocationQuery): Promise<SearchPage> => {
  const direction = query.order === 'newest' ? 'desc' : 'asc';
  const values: unknown[] = [];
  const bind = (value: unknown): string => `$${String(values.push(value))}`;
  const { from, where, clock, position } = searchOver(query, table, bind);
  const all = [...where, ...conditions(query, bind), ...range(query, clock, position, bind)];
  const rows = await sql.query(
    `select i.*, to_char(${clock} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as place_at
     from ${from} where ${all.join(' and ')}
     order by ${clock} ${direction}, ${position} ${direction} limit ${bind(query.limit + 1)}`,
    values,
  );
  const page = rows.slice(0, query.limit);
  const last = page.at(-1);
  return {
    items: await withHandlers(sql, table, query.account, page),
    next: rows.length > query.limit && last !== undefined ? placeOf(last) : null,
  };
};

interface SearchOver {
  readonly from: string;
  readonly where: readonly string[];
  readonly clock: string;
  readonly position: string;
}

/**
 * What the search goes through in order. Where handlers are asked for and their table is in the order of the answer,
 * it goes through them: the page is full after as many runs, however many there are, and whatever the planner thinks.
 */
const searchOver = (query: InvocationQuery, table: TableName, bind: Bind): SearchOver => {
  const invocation = `${table('invocation')} i`;
  const runs = table('handler_run');
  const { handler } = query;
  const clock = query.clock === 'occurred' ? 'i.occurred_at' : 'i.recorded_at';
  if (handler === undefined) return { from: invocation, where: [], clock, position: 'i.position' };
  const filter = handlerFilter(handler, bind);
  if (query.clock === 'recorded' || !hasIndex(handler)) {
    const same = ['h.account = i.account', 'h.position = i.position', ...filter('h')];
    const exists = `exists (select 1 from ${runs} h where ${same.join(' and ')})`;
    return { from: invocation, where: [exists], clock, position: 'i.position' };
  }
  // An invocation is in the answer once: for the first of its runs that fits.
  const earlier = ['e.account = h.account', 'e.position = h.position', 'e.event_position < h.event_position'];
  return {
    from: `${runs} h join ${invocation} on i.account = h.account and i.position = h.position`,
    where: [
      `h.account = ${bind(query.account)}`,
      ...filter('h'),
      `not exists (select 1 from ${runs} e where ${[...earlier, ...filter('e')].join(' and ')})`,
    ],
    clock: 'h.occurred_at',
    position: 'h.position',
  };
};

const hasIndex = ({ pluginId, outcome, cause }: HandlerFilter): boolean =>
  pluginId !== undefined || cause !== undefined || (outcome !== undefined && outcome !== 'passed');

const placeOf = (row: Row): SearchPlace => ({ at: String(row.place_at), position: String(row.position) });

type Bind = (value: unknown) => string;

const conditions = (query: InvocationQuery, bind: Bind): string[] => {
  const where = [`i.account = ${bind(query.account)}`];
  const equals = (column: string, value: string | number | undefined): void => {
    if (value !== undefined) where.push(`${column} = ${bind(typeof value === 'string' ? columnText(value) : value)}`);
  };
  equals('i.dialect', query.dialect);
  equals('i.hook', query.hook);
  equals('i.agent_id', query.agentId);
  equals('i.session_id', query.sessionId);
  equals('i.turn_id', query.turnId);
  equals('i.correlation_id', query.correlationId);
  equals('i.operation_id', query.operationId);
  equals('i.root', query.root);
  equals('i.hop', query.hop);
  equals('i.data_subject', query.dataSubject);
  if (query.outcome !== undefined) where.push(...outcomeIs(query.outcome, bind));
  // The index holds hops above 0 only, and is used only where that is said.
  if (query.hop !== undefined && query.hop > 0) where.push('i.hop > 0');
  if (query.reasonCode !== undefined)
    where.push(`i.reason_codes @> array[${bind(indexedText(query.reasonCode))}]::text[]`);
  if (query.target !== undefined) where.push(`i.target = any(${bind(query.target.map(indexedText))}::text[])`);
  if (query.effect !== undefined)
    where.push(query.effect === 'unknown' ? 'i.effect is null' : `i.effect = ${bind(query.effect)}`);
  if (query.actor !== undefined) {
    const actor = bind(indexedText(query.actor));
    where.push(`(i.actor_id = ${actor} or i.on_behalf_of = ${actor})`);
  }
  if (query.text !== undefined) where.push(textCondition(query.text, bind));
  return where;
};

/** `passed` is most of the record and has no index; saying that it is not lets the others be found by theirs. */
const outcomeIs = (outcome: string, bind: Bind): string[] => {
  const equal = `i.outcome = ${bind(columnText(outcome))}`;
  return outcome === 'passed' ? [equal] : [equal, "i.outcome <> 'passed'"];
};

/** The conditions on a row of `handler_run`, by its alias. */
const handlerFilter = (filter: HandlerFilter, bind: Bind): ((alias: string) => readonly string[]) => {
  const where: string[] = [];
  if (filter.pluginId !== undefined) where.push(`plugin_id = ${bind(columnText(filter.pluginId))}`);
  if (filter.pluginVersion !== undefined) where.push(`plugin_version = ${bind(indexedText(filter.pluginVersion))}`);
  if (filter.outcome !== undefined) where.push(`outcome = ${bind(columnText(filter.outcome))}`);
  // Said again without a parameter: that is how the planner knows that the partial indexes hold the answer.
  if (filter.outcome !== undefined && filter.outcome !== 'passed') where.push("outcome <> 'passed'");
  if (filter.cause !== undefined) where.push(`cause = ${bind(columnText(filter.cause))}`);
  return (alias) => where.map((condition) => `${alias}.${condition}`);
};

const range = (query: InvocationQuery, clock: string, position: string, bind: Bind): string[] => {
  const where: string[] = [];
  if (query.from !== undefined) where.push(`${clock} >= ${bind(query.from.toISOString())}::timestamptz`);
  if (query.to !== undefined) where.push(`${clock} < ${bind(query.to.toISOString())}::timestamptz`);
  if (query.after !== undefined) {
    const than = query.order === 'newest' ? '<' : '>';
    where.push(
      `(${clock}, ${position}) ${than} (${bind(query.after.at)}::timestamptz, ${bind(query.after.position)}::bigint)`,
    );
  }
  return where;
};

/** Rows of the invocation table as items, with their handlers. */
export const withHandlers = async (
  sql: Sql,
  table: TableName,
  account: string,
  rows: readonly Row[],
): Promise<readonly InvocationSummary[]> => {
  if (rows.length === 0) return [];
  const runs = await sql.query(
    `select * from ${table('handler_run')} where account = $1 and position = any($2::bigint[]) order by position, event_position`,
    [account, rows.map((row) => row.position)],
  );
  const byInvocation = grouped(runs, (run) => String(run.position));
  return rows.map((row) => toSummary(row, (byInvocation.get(String(row.position)) ?? []).map(toHandler)));
};

const toHandler = (row: Row): HandlerSummary => {
  const durationUs = numberOrNull(row.duration_us);
  return {
    pluginId: String(row.plugin_id),
    pluginVersion: textOrNull(row.plugin_version),
    revision: numberOrNull(row.revision),
    mode: textOrNull(row.mode),
    outcome: String(row.outcome),
    cause: textOrNull(row.cause),
    wouldHave: textOrNull(row.would_have),
    reasonCode: textOrNull(row.reason_code),
    durationMs: durationUs === null ? null : durationUs / 1000,
    warnings: ((row.warnings as readonly string[] | null) ?? []).map((code) => ({ code })),
  };
};

const toSummary = (row: Row, handlers: readonly HandlerSummary[]): InvocationSummary => ({
  invocationId: String(row.invocation_id),
  dialect: String(row.dialect),
  hook: String(row.hook),
  turnId: textOrNull(row.turn_id),
  turnInferred: row.turn_inferred === true,
  sessionId: textOrNull(row.session_id),
  agentId: textOrNull(row.agent_id),
  operationId: textOrNull(row.operation_id),
  correlationId: textOrNull(row.correlation_id),
  root: textOrNull(row.root),
  cause: textOrNull(row.cause),
  lineage: textOrNull(row.lineage),
  hop: Number(row.hop),
  target: textOrNull(row.target),
  hostSession: textOrNull(row.host_session),
  actor: actorOf(row),
  state: row.state as InvocationSummary['state'],
  outcome: textOrNull(row.outcome),
  cancellation: row.outcome === 'cancelled' ? cancellationOf(row) : null,
  effect: (textOrNull(row.effect) ?? 'unknown') as InvocationSummary['effect'],
  effectAt: instantOrNull(row.effect_at),
  attempt: Number(row.attempt),
  previousInvocationId: textOrNull(row.previous_invocation_id),
  metered: Number(row.metered ?? 0) > 0,
  occurredAt: instantOrNull(row.occurred_at) ?? '',
  recordedAt: instantOrNull(row.recorded_at) ?? '',
  closedAt: instantOrNull(row.closed_at),
  durationMs: numberOrNull(row.duration_ms),
  handlers,
  positions: { first: String(row.position), last: String(row.last_position) },
});

const cancellationOf = (row: Row): InvocationSummary['cancellation'] => ({
  pluginId: textOrNull(row.cancel_plugin),
  reason: typeof row.cancel_reason === 'string' ? (JSON.parse(row.cancel_reason) as Sealed) : null,
  code: textOrNull(row.cancel_code),
});

const actorOf = (row: Row): InvocationSummary['actor'] => {
  const id = textOrNull(row.actor_id);
  if (id === null) return null;
  return { kind: textOrNull(row.actor_kind) ?? 'key', id, onBehalfOf: textOrNull(row.on_behalf_of) };
};
