import type { Row, Sql, StoredEvent } from '#event-store';
import type { Sealed } from '#record';
import {
  bytewise,
  columnJsonOrNull,
  columnText,
  columnTextOrNull,
  insertBatch,
  type Cell,
  type Column,
} from './columns.js';
import { hooksFiredFor } from './fired-hooks.js';
import { reportedClears, type HostEvent } from './host-events.js';
import type { InvocationSummary } from './invocation-search.js';
import { notDelivered } from './invocations.js';
import { instantOrNull, numberOrNull, sealedOrNull, textOrNull } from './row-values.js';
import type { Projection, TableName } from './projection.js';

/** What a batch says of one clear; each column is said by one event, so the order of a clear's events is no matter. */
interface ClearRow {
  readonly account: string;
  readonly sessionId: string;
  readonly clearId: string;
  readonly stream: string;
  first: bigint;
  last: bigint;
  beganAt: string;
  readonly facts: Record<string, Cell>;
}

/** One row per clear of a session (MW-92): what was to go, what went, and when. Its hooks stand among the invocations. */
export const sessionClears: Projection = {
  name: 'session-clears',
  version: 2,
  order: 'session',
  types: ['session.clear_started', 'session.cleared'],
  tables: ['session_clear'],
  create: async (sql, table) => {
    await sql.query(
      bytewise(`create table ${table('session_clear')} (
        account text not null, session_id text not null, clear_id text not null, stream text not null,
        position bigint not null, last_position bigint not null, began_at timestamptz not null, agent_id text, trailing_text text,
        message_count bigint, subagent_count bigint, peer_thread_count bigint,
        started_at timestamptz, started_occurred_at timestamptz, started_position bigint,
        cleared_at timestamptz, cleared_occurred_at timestamptz, cleared_position bigint,
        deleted_message_count bigint, deleted_subagent_count bigint, deleted_peer_thread_count bigint,
        state text not null generated always as (case when cleared_at is null then 'open' else 'cleared' end) stored,
        primary key (account, session_id, clear_id)
      )`),
    );
  },
  index: async (sql, table) => {
    const clears = table('session_clear');
    await sql.query(`create index on ${clears} (account, position)`);
    await sql.query(`create index on ${clears} (account, session_id, position)`);
    await sql.query(`create index on ${clears} (account, agent_id, position)`);
    await sql.query(`create index on ${clears} (account, position) where cleared_at is null`);
    await sql.query(`create index on ${clears} (account, stream)`);
  },
  apply: async (events, { sql, table }) => {
    await insertBatch(sql, `${table('session_clear')} as t`, columns, fold(events), merge);
  },
};

const fold = (events: readonly StoredEvent[]): readonly ClearRow[] => {
  const rows = new Map<string, ClearRow>();
  for (const { event, position } of events) {
    const data = event.data as unknown as { readonly clearId: string } & Record<string, Cell>;
    const key = `${event.account}\0${event.stream}`;
    const row = rows.get(key) ?? {
      account: event.account,
      sessionId: columnText(event.sessionId ?? ''),
      clearId: columnText(data.clearId),
      stream: columnText(event.stream),
      first: position,
      last: position,
      beganAt: event.recordedAt,
      facts: {},
    };
    rows.set(key, row);
    if (position > row.last) row.last = position;
    if (position < row.first) Object.assign(row, { first: position, beganAt: event.recordedAt });
    row.facts.agent_id ??= columnTextOrNull(event.agentId);
    const at = event.type === 'session.cleared' ? 'cleared' : 'started';
    row.facts[`${at}_at`] = event.recordedAt;
    row.facts[`${at}_occurred_at`] = event.occurredAt;
    row.facts[`${at}_position`] = position;
    if (at === 'cleared') {
      row.facts.deleted_message_count = data.deletedMessageCount ?? null;
      row.facts.deleted_subagent_count = data.deletedSubagentCount ?? null;
      row.facts.deleted_peer_thread_count = data.deletedPeerThreadCount ?? null;
    } else {
      row.facts.message_count = data.messageCount ?? null;
      row.facts.subagent_count = data.subagentCount ?? null;
      row.facts.peer_thread_count = data.peerThreadCount ?? null;
      row.facts.trailing_text = columnJsonOrNull(data.trailingText);
    }
  }
  // In one order, so that two workers never wait for each other in a circle.
  return [...rows.values()].sort((a, b) => (a.account + a.stream < b.account + b.stream ? -1 : 1));
};

const fact = (name: string, type: Column<ClearRow>['type']): Column<ClearRow> => ({
  name,
  type,
  of: ({ facts }) => facts[name] ?? null,
});

const facts: readonly Column<ClearRow>[] = [
  fact('agent_id', 'text'),
  fact('trailing_text', 'text'),
  ...['message_count', 'subagent_count', 'peer_thread_count'].map((name) => fact(name, 'bigint')),
  ...['started_at', 'started_occurred_at'].map((name) => fact(name, 'timestamptz')),
  fact('started_position', 'bigint'),
  ...['cleared_at', 'cleared_occurred_at'].map((name) => fact(name, 'timestamptz')),
  fact('cleared_position', 'bigint'),
  ...['deleted_message_count', 'deleted_subagent_count', 'deleted_peer_thread_count'].map((name) =>
    fact(name, 'bigint'),
  ),
];

const columns: readonly Column<ClearRow>[] = [
  { name: 'account', type: 'text', of: (row) => row.account },
  { name: 'session_id', type: 'text', of: (row) => row.sessionId },
  { name: 'clear_id', type: 'text', of: (row) => row.clearId },
  { name: 'stream', type: 'text', of: (row) => row.stream },
  { name: 'position', type: 'bigint', of: (row) => row.first },
  { name: 'last_position', type: 'bigint', of: (row) => row.last },
  { name: 'began_at', type: 'timestamptz', of: (row) => row.beganAt },
  ...facts,
];

const merge = `on conflict (account, session_id, clear_id) do update set
  position = least(t.position, excluded.position), last_position = greatest(t.last_position, excluded.last_position),
  began_at = least(t.began_at, excluded.began_at),
  ${facts.map(({ name }) => `${name} = coalesce(t.${name}, excluded.${name})`).join(', ')}`;

/**
 * What became of one of a clear's hooks. `failed`: it ran, and a handler did not decide. `pending`: it runs. `lost`: it
 * was begun, and the server died. `none`: it was not fired, or not yet.
 */
export const hookDeliveries = ['delivered', 'failed', 'pending', 'lost', 'none'] as const;

export type HookDelivery = (typeof hookDeliveries)[number];

/** One clear, with everything that was done about it. */
export interface SessionClearItem {
  /** The durable protocol of clears; `openclaw`: a `session_end` that a host reported, and nothing more. */
  readonly source: 'clear';
  readonly sessionId: string;
  readonly clearId: string;
  readonly agentId: string | null;
  readonly state: 'open' | 'cleared';
  readonly trailingText: Sealed | null;
  readonly messageCount: number | null;
  readonly subagentCount: number | null;
  readonly peerThreadCount: number | null;
  readonly deletedMessageCount: number | null;
  readonly deletedSubagentCount: number | null;
  readonly deletedPeerThreadCount: number | null;
  readonly startedAt: string | null;
  readonly startedOccurredAt: string | null;
  readonly clearedAt: string | null;
  readonly clearedOccurredAt: string | null;
  /** Of `sessionClearing`, and of `sessionClearCompleted`. */
  readonly clearing: HookDelivery;
  readonly completed: HookDelivery;
  /** Every run of its hooks, lost ones and repetitions too. */
  readonly hooks: readonly InvocationSummary[];
  readonly positions: { readonly started: string | null; readonly cleared: string | null };
}

/** A session's end that a host reported with a reason that leaves nothing of it: `new`, `reset` or `deleted`. */
export interface ReportedClearItem {
  readonly source: 'openclaw';
  readonly sessionId: string | null;
  readonly clearId: null;
  readonly agentId: string | null;
  readonly state: 'reported';
  readonly reason: string;
  readonly messageCount: number | null;
  readonly clearedAt: string;
  readonly clearedOccurredAt: string;
  readonly reported: HostEvent;
  readonly positions: { readonly started: null; readonly cleared: string };
}

export const clearSources = ['clear', 'openclaw'] as const;

export interface ClearQuery {
  readonly account: string;
  readonly source?: (typeof clearSources)[number];
  readonly sessionId?: string;
  readonly clearId?: string;
  readonly agentId?: string;
  readonly state?: 'open' | 'cleared';
  readonly clearing?: HookDelivery;
  readonly completed?: HookDelivery;
  /** Of the first event of the clear, by the record's clock. */
  readonly from?: Date;
  readonly to?: Date;
  readonly order: 'newest' | 'oldest';
  /** Position where the page before ended. */
  readonly after?: string;
  readonly limit: number;
}

/** The clears of an account and what hosts report as such, by their first event. */
export const findSessionClears = async (
  sql: Sql,
  table: TableName,
  query: ClearQuery,
): Promise<{ readonly items: readonly (SessionClearItem | ReportedClearItem)[]; readonly next: string | null }> => {
  const own = query.source === 'openclaw' ? { items: [], more: false } : await ownClears(sql, table, query);
  const reported = await reportedItems(sql, table, query);
  const rising = query.order === 'newest' ? -1 : 1;
  const all = [...own.items, ...reported].sort((a, b) => (placeOf(a) < placeOf(b) ? -rising : rising));
  const items = all.slice(0, query.limit);
  const last = items.at(-1);
  const isMore = all.length > items.length || own.more;
  return { items, next: isMore && last !== undefined ? String(placeOf(last)) : null };
};

const placeOf = ({ positions }: SessionClearItem | ReportedClearItem): bigint => {
  const places = [positions.started, positions.cleared].flatMap((place) => (place === null ? [] : [BigInt(place)]));
  return places.reduce((least, place) => (place < least ? place : least), places[0] ?? 0n);
};

/** A filter by what only the protocol has leaves out what was only reported. */
const reportedItems = async (sql: Sql, table: TableName, query: ClearQuery): Promise<readonly ReportedClearItem[]> => {
  const { source, clearId, state, clearing, completed } = query;
  if (source === 'clear' || [clearId, state, clearing, completed].some((filter) => filter !== undefined)) return [];
  const found = await reportedClears(sql, table, { ...query, limit: query.limit + 1 });
  return found.map(({ sessionId, agentId, reason, ...event }) => ({
    source: 'openclaw',
    sessionId,
    clearId: null,
    agentId,
    state: 'reported',
    reason,
    messageCount: typeof event.facts.messageCount === 'number' ? event.facts.messageCount : null,
    clearedAt: event.recordedAt,
    clearedOccurredAt: event.occurredAt,
    reported: event,
    positions: { started: null, cleared: event.position },
  }));
};

const ownClears = async (
  sql: Sql,
  table: TableName,
  query: ClearQuery,
): Promise<{ readonly items: readonly SessionClearItem[]; readonly more: boolean }> => {
  const values: unknown[] = [query.account];
  const bind = (value: unknown): string => `$${String(values.push(value))}`;
  const where = ['c.account = $1'];
  const equals = (column: string, value: string | undefined): void => {
    if (value !== undefined) where.push(`${column} = ${bind(columnText(value))}`);
  };
  equals('c.session_id', query.sessionId);
  equals('c.clear_id', query.clearId);
  equals('c.agent_id', query.agentId);
  if (query.state !== undefined) where.push(`c.cleared_at is ${query.state === 'open' ? '' : 'not '}null`);
  equals('clearing.word', query.clearing);
  equals('completed.word', query.completed);
  where.push(...narrowed(table, 'sessionClearing', query.clearing));
  where.push(...narrowed(table, 'sessionClearCompleted', query.completed));
  if (query.from !== undefined) where.push(`c.began_at >= ${bind(query.from.toISOString())}::timestamptz`);
  if (query.to !== undefined) where.push(`c.began_at < ${bind(query.to.toISOString())}::timestamptz`);
  const [than, direction] = query.order === 'newest' ? ['<', 'desc'] : ['>', 'asc'];
  if (query.after !== undefined) where.push(`c.position ${than} ${bind(query.after)}::bigint`);
  const rows = await sql.query(
    `select c.*, clearing.word as clearing, completed.word as completed from ${table('session_clear')} c
       cross join lateral (${delivery(table, 'sessionClearing')}) clearing
       cross join lateral (${delivery(table, 'sessionClearCompleted')}) completed
     where ${where.join(' and ')} order by c.position ${direction} limit ${bind(query.limit + 1)}`,
    values,
  );
  const page = rows.slice(0, query.limit);
  const hooks = await hooksFiredFor(
    sql,
    table,
    query.account,
    page.map((row) => String(row.stream)),
  );
  return {
    items: page.map((row) => toClear(row, hooks.get(String(row.stream)) ?? [])),
    more: rows.length > query.limit,
  };
};

/** Said again so that an index leads there: a hook that did not come to a good end is rare. */
const narrowed = (table: TableName, hook: string, wanted: HookDelivery | undefined): readonly string[] => {
  if (wanted === undefined || wanted === 'delivered') return [];
  const fired = `${table('invocation')} where account = $1 and hook = '${hook}'`;
  if (wanted === 'none') return [`not exists (select from ${fired} and fired_for = c.stream)`];
  return [`c.stream = any (array(select fired_for from ${fired} and ${notDelivered}))`];
};

/** What became of a hook of clear `c`, over all its runs: the best of them counts. */
const delivery = (table: TableName, hook: string): string => `
  select case
    when bool_or(i.state = 'closed' and i.undecided = 0) then 'delivered' when bool_or(i.state = 'closed') then 'failed'
    when bool_or(i.state = 'open') then 'pending' when bool_or(i.state = 'lost') then 'lost' else 'none' end as word
  from ${table('invocation')} i
  where i.account = c.account and i.fired_for = c.stream and i.hook = '${hook}'`;

const toClear = (row: Row, hooks: readonly InvocationSummary[]): SessionClearItem => ({
  source: 'clear',
  sessionId: String(row.session_id),
  clearId: String(row.clear_id),
  agentId: textOrNull(row.agent_id),
  state: row.state as SessionClearItem['state'],
  trailingText: sealedOrNull(row.trailing_text),
  messageCount: numberOrNull(row.message_count),
  subagentCount: numberOrNull(row.subagent_count),
  peerThreadCount: numberOrNull(row.peer_thread_count),
  deletedMessageCount: numberOrNull(row.deleted_message_count),
  deletedSubagentCount: numberOrNull(row.deleted_subagent_count),
  deletedPeerThreadCount: numberOrNull(row.deleted_peer_thread_count),
  startedAt: instantOrNull(row.started_at),
  startedOccurredAt: instantOrNull(row.started_occurred_at),
  clearedAt: instantOrNull(row.cleared_at),
  clearedOccurredAt: instantOrNull(row.cleared_occurred_at),
  clearing: row.clearing as HookDelivery,
  completed: row.completed as HookDelivery,
  hooks,
  positions: {
    started: textOrNull(row.started_position),
    cleared: textOrNull(row.cleared_position),
  },
});
