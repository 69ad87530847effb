import type { Row, Sql } from '#event-store';
import { columnText } from './columns.js';
import { invocationStream, type JsonObject, type Sealed } from '#record';
import { sessionHostEvents, type JoinedHostEvent, type SessionHostEvent } from './host-events.js';
import type { TableName } from './projection.js';

/** A turn with how its invocations ended. */
export interface TurnSummary {
  readonly turnId: string;
  readonly sessionId: string | null;
  /** True when the platform assigned the turn, since the runtime named none. */
  readonly turnInferred: boolean;
  readonly agentId: string | null;
  readonly invocations: number;
  readonly outcomes: { readonly [outcome: string]: number };
  /** Invocations that were lost, and handler runs that did not decide. */
  readonly lost: number;
  readonly undecided: number;
  readonly firstOccurredAt: string;
  readonly lastOccurredAt: string;
  readonly firstRecordedAt: string;
  readonly lastRecordedAt: string;
  readonly positions: { readonly first: string; readonly last: string };
}

const outcomes = ['passed', 'rewritten', 'cancelled', 'observed', 'claimed', 'held'] as const;

const toTurn = (row: Row): TurnSummary => ({
  turnId: String(row.turn_id),
  sessionId: row.session_id === '' ? null : String(row.session_id),
  turnInferred: row.inferred === true,
  agentId: typeof row.agent_id === 'string' ? row.agent_id : null,
  invocations: Number(row.invocations),
  outcomes: Object.fromEntries(outcomes.map((outcome) => [outcome, Number(row[outcome])])),
  lost: Number(row.lost),
  undecided: Number(row.undecided),
  firstOccurredAt: instant(row.first_occurred_at),
  lastOccurredAt: instant(row.last_occurred_at),
  firstRecordedAt: instant(row.first_recorded_at),
  lastRecordedAt: instant(row.last_recorded_at),
  positions: { first: String(row.first_position), last: String(row.last_position) },
});

const instant = (value: unknown): string => (value as Date).toISOString();

/** One page and where the next one begins, by position. */
export interface PositionPage<T> {
  readonly items: readonly T[];
  readonly next: string | null;
}

interface PositionQuery {
  readonly account: string;
  readonly order: 'newest' | 'oldest';
  /** Position where the page before ended. */
  readonly after?: string;
  readonly limit: number;
}

const pageOf = <T>(rows: readonly Row[], limit: number, column: string, to: (row: Row) => T): PositionPage<T> => {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { items: page.map(to), next: rows.length > limit && last !== undefined ? String(last[column]) : null };
};

/** The turns of a session, by their first event. */
export const sessionTurns = async (
  sql: Sql,
  table: TableName,
  query: PositionQuery & { readonly sessionId: string; readonly from?: Date; readonly to?: Date },
): Promise<PositionPage<TurnSummary>> => {
  const values: unknown[] = [query.account, columnText(query.sessionId)];
  const bind = (value: unknown): string => `$${String(values.push(value))}`;
  const where = ['account = $1', 'session_id = $2'];
  if (query.from !== undefined) where.push(`first_recorded_at >= ${bind(query.from.toISOString())}::timestamptz`);
  if (query.to !== undefined) where.push(`first_recorded_at < ${bind(query.to.toISOString())}::timestamptz`);
  const [than, direction] = query.order === 'newest' ? ['<', 'desc'] : ['>', 'asc'];
  if (query.after !== undefined) where.push(`first_position ${than} ${bind(query.after)}::bigint`);
  const rows = await sql.query(
    `select * from ${table('turn')} where ${where.join(' and ')} order by first_position ${direction} limit ${bind(query.limit + 1)}`,
    values,
  );
  return pageOf(rows, query.limit, 'first_position', toTurn);
};

/** What a session holds in all. */
export interface SessionSummary {
  readonly turns: number;
  readonly inferredTurns: number;
  readonly invocations: number;
  readonly firstRecordedAt: string | null;
  readonly lastRecordedAt: string | null;
}

export const sessionSummary = async (
  sql: Sql,
  table: TableName,
  account: string,
  sessionId: string,
): Promise<SessionSummary> => {
  const [row] = await sql.query(
    `select count(*) as turns, count(*) filter (where inferred) as inferred, coalesce(sum(invocations), 0) as invocations,
       min(first_recorded_at) as first_at, max(last_recorded_at) as last_at
     from ${table('turn')} where account = $1 and session_id = $2`,
    [account, columnText(sessionId)],
  );
  return {
    turns: Number(row?.turns ?? 0),
    inferredTurns: Number(row?.inferred ?? 0),
    invocations: Number(row?.invocations ?? 0),
    firstRecordedAt: row?.first_at instanceof Date ? row.first_at.toISOString() : null,
    lastRecordedAt: row?.last_at instanceof Date ? row.last_at.toISOString() : null,
  };
};

/** A turn in each session that has one of this name, in the order in which they began. */
export const turnsNamed = async (
  sql: Sql,
  table: TableName,
  account: string,
  turnId: string,
  sessionId: string | null,
): Promise<readonly TurnSummary[]> => {
  const values: unknown[] = [account, columnText(turnId)];
  if (sessionId !== null) values.push(columnText(sessionId));
  const rows = await sql.query(
    `select * from ${table('turn')} where account = $1 and turn_id = $2${sessionId === null ? '' : ' and session_id = $3'}
     order by first_position limit 500`,
    values,
  );
  return rows.map(toTurn);
};

/** Where an invocation stands in a turn: its session's place first, so that a page never tears a session apart. */
export interface TurnPlace {
  readonly sessionBegan: string;
  readonly position: string;
}

export interface TurnInvocation extends TurnPlace {
  readonly invocationId: string;
}

/** The invocations of a turn: session by session, in order within each. */
export const turnInvocations = async (
  sql: Sql,
  table: TableName,
  query: {
    readonly account: string;
    readonly turnId: string;
    readonly sessionId: string | null;
    readonly after?: TurnPlace;
    readonly limit: number;
  },
): Promise<{ readonly items: readonly TurnInvocation[]; readonly next: TurnPlace | null }> => {
  const values: unknown[] = [query.account, columnText(query.turnId)];
  const bind = (value: unknown): string => `$${String(values.push(value))}`;
  const where = ['t.account = $1', 't.turn_id = $2'];
  if (query.sessionId !== null) where.push(`t.session_id = ${bind(columnText(query.sessionId))}`);
  if (query.after !== undefined) {
    where.push(
      `(t.first_position, i.position) > (${bind(query.after.sessionBegan)}::bigint, ${bind(query.after.position)}::bigint)`,
    );
  }
  const rows = await sql.query(
    `select i.invocation_id, i.position, t.first_position from ${table('turn')} t
     join ${table('invocation')} i on i.account = t.account and i.turn_id = t.turn_id and coalesce(i.session_id, '') = t.session_id
     where ${where.join(' and ')} order by t.first_position, i.position limit ${bind(query.limit + 1)}`,
    values,
  );
  const items = rows.slice(0, query.limit).map((row) => ({
    invocationId: String(row.invocation_id),
    sessionBegan: String(row.first_position),
    position: String(row.position),
  }));
  const last = items.at(-1);
  return { items, next: rows.length > query.limit && last !== undefined ? last : null };
};

/** A line of a session's timeline: a turn, or an event of the session itself. */
export type TimelineItem =
  | { readonly kind: 'turn'; readonly position: string; readonly turn: TurnSummary }
  | {
      readonly kind: 'clear' | 'injection' | 'extension' | 'cron';
      readonly position: string;
      readonly type: string;
      readonly stream: string;
      readonly occurredAt: string;
      readonly recordedAt: string;
      /** What the event is about, as it is now. */
      readonly clear?: { readonly clearId: string; readonly state: string };
      readonly run?: {
        readonly runId: string;
        readonly jobId: string;
        readonly slotAt: string;
        readonly state: string;
        readonly status: string | null;
      };
    }
  /** What a host reported by a hook of its own. */
  | {
      readonly kind: 'host-session' | 'subagent' | 'host-cron' | 'gateway';
      readonly position: string;
      readonly type: string;
      readonly stream: string;
      readonly occurredAt: string;
      readonly recordedAt: string;
      readonly host: {
        readonly invocationId: string;
        readonly facts: JsonObject;
        readonly content: Sealed | null;
        readonly joined: readonly JoinedHostEvent[];
      };
    };

/** Turns, clears, injections, extensions and cron runs of a session on one line, by position. */
export const sessionTimeline = async (
  sql: Sql,
  table: TableName,
  query: PositionQuery & { readonly sessionId: string },
): Promise<PositionPage<TimelineItem>> => {
  const values: unknown[] = [query.account, columnText(query.sessionId), query.limit + 1];
  const [than, direction] = query.order === 'newest' ? ['<', 'desc'] : ['>', 'asc'];
  const after = (column: string): string => (query.after === undefined ? '' : ` and ${column} ${than} $4::bigint`);
  if (query.after !== undefined) values.push(query.after);
  const part = (rows: string, alias: string, column: string): Promise<readonly Row[]> =>
    sql.query(
      `${rows} where ${alias}.account = $1 and ${alias}.session_id = $2${after(`${alias}.${column}`)}
       order by ${alias}.${column} ${direction} limit $3`,
      values,
    );
  const turnRows = await part(`select t.* from ${table('turn')} t`, 't', 'first_position');
  const eventRows = await part(sessionEventRows(table), 'e', 'position');
  const { account, sessionId, order, after: from, limit } = query;
  const hostRows = await sessionHostEvents(sql, table, { account, sessionId, order, after: from, limit: limit + 1 });
  const items = [...turnRows.map(turnItem), ...eventRows.map(eventItem), ...hostRows.map(hostItem)].sort(
    byPosition(query.order),
  );
  const page = items.slice(0, query.limit);
  const last = page.at(-1);
  return { items: page, next: items.length > query.limit && last !== undefined ? last.position : null };
};

const sessionEventRows = (table: TableName): string => `
  select e.*, c.clear_id, c.state as clear_state, r.run_id, r.job_id, r.slot_at, r.state as run_state, r.status
  from ${table('session_event')} e
    left join ${table('session_clear')} c
      on c.account = e.account and c.session_id = e.session_id and c.stream = e.stream
    left join ${table('cron_run')} r
      on e.stream like 'cron-run/%' and r.account = e.account and r.run_id = substr(e.stream, 10)`;

const turnItem = (row: Row): TimelineItem => ({
  kind: 'turn',
  position: String(row.first_position),
  turn: toTurn(row),
});

const eventItem = (row: Row): TimelineItem => ({
  kind: kindOf(String(row.type)),
  position: String(row.position),
  type: String(row.type),
  stream: String(row.stream),
  occurredAt: instant(row.occurred_at),
  recordedAt: instant(row.recorded_at),
  ...(typeof row.clear_id === 'string' ? { clear: { clearId: row.clear_id, state: String(row.clear_state) } } : {}),
  ...(typeof row.run_id === 'string' ? { run: runOf(row, row.run_id) } : {}),
});

const hostItem = (event: SessionHostEvent): TimelineItem => ({
  kind: hostKinds[event.kind],
  position: event.position,
  type: `openclaw/${event.hook}`,
  stream: invocationStream(event.invocationId),
  occurredAt: event.occurredAt,
  recordedAt: event.recordedAt,
  host: { invocationId: event.invocationId, facts: event.facts, content: event.content, joined: event.joined },
});

const hostKinds = { session: 'host-session', subagent: 'subagent', cron: 'host-cron', gateway: 'gateway' } as const;

const runOf = (row: Row, runId: string) => ({
  runId,
  jobId: String(row.job_id),
  slotAt: instant(row.slot_at),
  state: String(row.run_state),
  status: typeof row.status === 'string' ? row.status : null,
});

const kindOf = (type: string): 'clear' | 'injection' | 'extension' | 'cron' => {
  if (type.startsWith('session.')) return 'clear';
  if (type.startsWith('extension.')) return 'extension';
  return type.startsWith('injection.') ? 'injection' : 'cron';
};

const byPosition =
  (order: 'newest' | 'oldest') =>
  (a: TimelineItem, b: TimelineItem): number => {
    const rising = BigInt(a.position) < BigInt(b.position) ? -1 : 1;
    return order === 'newest' ? -rising : rising;
  };
