import type { Row, Sql, StoredEvent } from '#event-store';
import type { InvocationOpened, JsonObject, Sealed } from '#record';
import {
  bytewise,
  columnJson,
  columnJsonOrNull,
  columnText,
  columnTextOrNull,
  insertBatch,
  texts,
  type Column,
} from './columns.js';
import type { Projection, TableName } from './projection.js';
import { instantOrNull, sealedOrNull, textOrNull } from './row-values.js';

type Observed = NonNullable<InvocationOpened['observed']>;

interface HostRow {
  readonly stored: StoredEvent;
  readonly observed: Observed;
}

/**
 * What hosts say they went through, one row for each firing that says it: ends of sessions, subagents, cron jobs. The
 * rows of one run or one subagent are joined when they are read, so the order in which they come is no matter.
 */
export const hostEvents: Projection = {
  name: 'host-events',
  version: 1,
  order: 'session',
  types: ['invocation.opened'],
  tables: ['host_event'],
  create: async (sql, table) => {
    await sql.query(
      bytewise(`create table ${table('host_event')} (
        account text not null, position bigint not null, invocation_id text not null, hook text not null,
        kind text not null, session_id text, agent_id text, sessions text[], action text, job_id text, run_key text,
        run_id text, child text, run_at timestamptz, occurred_at timestamptz not null, recorded_at timestamptz not null,
        facts text not null, content text,
        primary key (account, position)
      )`),
    );
  },
  index: async (sql, table) => {
    const rows = table('host_event');
    await sql.query(`create index on ${rows} using gin (sessions) where sessions is not null`);
    await sql.query(`create index on ${rows} (account, position) where hook = 'session_end'`);
    await sql.query(`create index on ${rows} (account, job_id, position) where job_id is not null`);
    await sql.query(`create index on ${rows} (account, run_key, position) where run_key is not null`);
    await sql.query(`create index on ${rows} (account, run_at, run_key) where run_key is not null`);
    await sql.query(`create index on ${rows} (account, child, position) where child is not null`);
    await sql.query(`create index on ${rows} (account, invocation_id)`);
  },
  apply: async (events, { sql, table }) => {
    const rows = events.flatMap((stored): HostRow[] => {
      const { observed } = stored.event.data as unknown as InvocationOpened;
      return observed === undefined ? [] : [{ stored, observed }];
    });
    await insertBatch(sql, table('host_event'), columns, rows, '');
  },
};

const fact = (row: HostRow, name: string): string | null => {
  const value = row.observed.facts[name];
  return typeof value === 'string' ? columnText(value) : null;
};

/** Every session that an event is about, by whatever name. */
const sessionsOf = (row: HostRow): readonly string[] => {
  const own = row.stored.event.sessionId;
  const named = ['sessionId', 'sessionKey', 'childSessionKey', 'targetSessionKey', 'requesterSessionKey'];
  const all = [own === undefined ? null : columnText(own), ...named.map((name) => fact(row, name))];
  return [...new Set(all.filter((name) => name !== null))];
};

const isRun = ({ observed: { kind, facts } }: HostRow): boolean =>
  kind === 'cron' && (facts.action === 'started' || facts.action === 'finished');

/** What joins the start and the end of a run: its id; else its job and when it was due; else nothing does. */
const runKeyOf = (row: HostRow): string | null => {
  if (!isRun(row)) return null;
  const job = fact(row, 'jobId') ?? '';
  const run = fact(row, 'runId');
  const { runAtMs } = row.observed.facts;
  if (run !== null) return JSON.stringify([job, run]);
  return typeof runAtMs === 'number'
    ? JSON.stringify([job, null, runAtMs])
    : JSON.stringify([job, null, null, row.stored.event.invocationId ?? '']);
};

/** Last millisecond of the year 9999. */
const lastInstant = 253_402_300_799_999;

const timeOf = (value: unknown): string | null =>
  typeof value === 'number' && value >= 0 && value <= lastInstant ? new Date(Math.floor(value)).toISOString() : null;

const columns: readonly Column<HostRow>[] = [
  { name: 'account', type: 'text', of: ({ stored }) => stored.event.account },
  { name: 'position', type: 'bigint', of: ({ stored }) => stored.position },
  { name: 'invocation_id', type: 'text', of: ({ stored }) => stored.event.invocationId ?? '' },
  { name: 'hook', type: 'text', of: ({ stored }) => stored.event.hook ?? '' },
  { name: 'kind', type: 'text', of: ({ observed }) => observed.kind },
  { name: 'session_id', type: 'text', of: ({ stored }) => columnTextOrNull(stored.event.sessionId) },
  { name: 'agent_id', type: 'text', of: ({ stored }) => columnTextOrNull(stored.event.agentId) },
  { name: 'sessions', type: 'texts', of: (row) => texts(sessionsOf(row)) },
  { name: 'action', type: 'text', of: (row) => fact(row, 'action') ?? fact(row, 'reason') },
  { name: 'job_id', type: 'text', of: (row) => (row.observed.kind === 'cron' ? fact(row, 'jobId') : null) },
  { name: 'run_key', type: 'text', of: runKeyOf },
  { name: 'run_id', type: 'text', of: (row) => fact(row, 'runId') },
  {
    name: 'child',
    type: 'text',
    of: (row) =>
      row.observed.kind === 'subagent' ? (fact(row, 'childSessionKey') ?? fact(row, 'targetSessionKey')) : null,
  },
  {
    name: 'run_at',
    type: 'timestamptz',
    of: (row) => (isRun(row) ? (timeOf(row.observed.facts.runAtMs) ?? row.stored.event.recordedAt) : null),
  },
  { name: 'occurred_at', type: 'timestamptz', of: ({ stored }) => stored.event.occurredAt },
  { name: 'recorded_at', type: 'timestamptz', of: ({ stored }) => stored.event.recordedAt },
  { name: 'facts', type: 'text', of: ({ observed }) => columnJson(observed.facts) },
  { name: 'content', type: 'text', of: ({ observed }) => columnJsonOrNull(observed.content) },
];

/** What a host said, as answers show it. */
export interface HostEvent {
  readonly invocationId: string;
  readonly hook: string;
  readonly occurredAt: string;
  readonly recordedAt: string;
  readonly position: string;
  readonly facts: JsonObject;
  readonly content: Sealed | null;
}

export const toHostEvent = (row: Row): HostEvent => ({
  invocationId: String(row.invocation_id),
  hook: String(row.hook),
  occurredAt: instantOrNull(row.occurred_at) ?? '',
  recordedAt: instantOrNull(row.recorded_at) ?? '',
  position: String(row.position),
  facts: JSON.parse(String(row.facts)) as JsonObject,
  content: sealedOrNull(row.content),
});

/** A page of rows, by position. */
interface Paged {
  readonly account: string;
  readonly order: 'newest' | 'oldest';
  readonly after?: string | undefined;
  readonly limit: number;
}

/** What a host said about a session, with what it belongs to: the start and the end of a subagent name each other. */
export type SessionHostEvent = HostEvent & {
  readonly kind: 'session' | 'subagent' | 'cron' | 'gateway';
  readonly joined: readonly JoinedHostEvent[];
};

export interface JoinedHostEvent {
  readonly invocationId: string;
  readonly hook: string;
  readonly position: string;
}

export const sessionHostEvents = async (
  sql: Sql,
  table: TableName,
  { account, order, after, limit, sessionId }: Paged & { readonly sessionId: string },
): Promise<readonly SessionHostEvent[]> => {
  const [than, direction] = order === 'newest' ? ['<', 'desc'] : ['>', 'asc'];
  const values: unknown[] = [account, [columnText(sessionId)], limit];
  if (after !== undefined) values.push(after);
  const rows = await sql.query(
    `select * from ${table('host_event')} where account = $1 and sessions @> $2::text[]
      ${after === undefined ? '' : `and position ${than} $4::bigint`} order by position ${direction} limit $3`,
    values,
  );
  const joined = await joinedTo(sql, table, account, rows);
  return rows.map((row) => ({
    ...toHostEvent(row),
    kind: row.kind as SessionHostEvent['kind'],
    joined: joined.get(String(row.invocation_id)) ?? [],
  }));
};

/** What else was said of the same subagent or the same cron run, by the invocation that asks; at most a hundred each. */
const joinedTo = async (
  sql: Sql,
  table: TableName,
  account: string,
  rows: readonly Row[],
): Promise<ReadonlyMap<string, readonly JoinedHostEvent[]>> => {
  const ids = rows.map((row) => String(row.invocation_id));
  if (ids.length === 0) return new Map();
  const events = table('host_event');
  // A reset or a deletion names no run: its session does, as long as no later run took it.
  const found = await sql.query(
    `select e.invocation_id as of, o.invocation_id, o.hook, o.position from ${events} e
      cross join lateral (
        (select p.* from ${events} p where p.account = e.account and p.child = e.child and p.position <> e.position
          and (p.run_id is null or e.run_id is null or p.run_id = e.run_id) order by p.position desc limit 100)
        union all
        (select p.* from ${events} p where p.account = e.account and p.run_key = e.run_key and p.position <> e.position
          order by p.position desc limit 100)
      ) o
     where e.account = $1 and e.invocation_id = any($2::text[]) and e.kind in ('subagent', 'cron')
     order by o.position`,
    [account, ids],
  );
  const joined = new Map<string, JoinedHostEvent[]>();
  for (const { of, invocation_id: id, hook, position } of found) {
    const own = joined.get(String(of)) ?? [];
    joined.set(String(of), own);
    own.push({ invocationId: String(id), hook: String(hook), position: String(position) });
  }
  return joined;
};

/** The same by the ids of invocations, for a tree of them. */
export const hostEventsJoined = async (
  sql: Sql,
  table: TableName,
  account: string,
  invocationIds: readonly string[],
): Promise<ReadonlyMap<string, readonly JoinedHostEvent[]>> =>
  joinedTo(
    sql,
    table,
    account,
    invocationIds.map((id) => ({ invocation_id: id })),
  );

/** Reasons of `session_end` with which a session's transcript went. */
const clearing = "('new', 'reset', 'deleted')";

/** A session whose end a host reported with a reason that leaves nothing of it; no clear of the durable protocol. */
export interface ReportedClear extends HostEvent {
  readonly sessionId: string | null;
  readonly agentId: string | null;
  readonly reason: string;
}

export const reportedClears = async (
  sql: Sql,
  table: TableName,
  query: Paged & {
    readonly sessionId?: string;
    readonly agentId?: string;
    readonly from?: Date;
    readonly to?: Date;
  },
): Promise<readonly ReportedClear[]> => {
  const values: unknown[] = [query.account];
  const bind = (value: unknown): string => `$${String(values.push(value))}`;
  const where = ['account = $1', "hook = 'session_end'", `action in ${clearing}`];
  if (query.sessionId !== undefined) where.push(`sessions @> ${bind([columnText(query.sessionId)])}::text[]`);
  if (query.agentId !== undefined) where.push(`agent_id = ${bind(columnText(query.agentId))}`);
  if (query.from !== undefined) where.push(`recorded_at >= ${bind(query.from.toISOString())}::timestamptz`);
  if (query.to !== undefined) where.push(`recorded_at < ${bind(query.to.toISOString())}::timestamptz`);
  const [than, direction] = query.order === 'newest' ? ['<', 'desc'] : ['>', 'asc'];
  if (query.after !== undefined) where.push(`position ${than} ${bind(query.after)}::bigint`);
  const rows = await sql.query(
    `select * from ${table('host_event')} where ${where.join(' and ')}
      order by position ${direction} limit ${bind(query.limit)}`,
    values,
  );
  return rows.map((row) => ({
    ...toHostEvent(row),
    sessionId: textOrNull(row.session_id),
    agentId: textOrNull(row.agent_id),
    reason: String(row.action),
  }));
};

/** A run of a host's own scheduler, put together of what it said when the run started and when it was finished. */
export interface ReportedRun {
  readonly key: string;
  readonly jobId: string;
  readonly runId: string | null;
  readonly runAt: string;
  readonly events: readonly HostEvent[];
}

export interface ReportedRunQuery {
  readonly account: string;
  readonly jobId?: string;
  readonly runId?: string;
  readonly agentId?: string;
  readonly sessionId?: string;
  readonly state?: 'open' | 'closed';
  readonly status?: string;
  readonly from?: Date;
  readonly to?: Date;
  readonly order: 'newest' | 'oldest';
  readonly after?: { readonly slotAt: string; readonly runId: string };
  readonly limit: number;
}

/** Most events of one run or one job that are shown. */
const eventsMost = 100;

export const reportedRuns = async (
  sql: Sql,
  table: TableName,
  query: ReportedRunQuery,
): Promise<readonly ReportedRun[]> => {
  const events = table('host_event');
  const values: unknown[] = [query.account];
  const bind = (value: unknown): string => `$${String(values.push(value))}`;
  const same = (alias: string): string => `${alias}.account = e.account and ${alias}.run_key = e.run_key`;
  const where = ['e.account = $1', 'e.run_key is not null'];
  where.push(`not exists (select from ${events} p where ${same('p')} and p.position < e.position)`);
  const some = (condition: string): string => `exists (select from ${events} o where ${same('o')} and ${condition})`;
  if (query.jobId !== undefined) where.push(`e.job_id = ${bind(columnText(query.jobId))}`);
  if (query.runId !== undefined) where.push(`e.run_id = ${bind(columnText(query.runId))}`);
  if (query.agentId !== undefined) where.push(some(`o.agent_id = ${bind(columnText(query.agentId))}`));
  if (query.sessionId !== undefined) where.push(some(`o.sessions @> ${bind([columnText(query.sessionId)])}::text[]`));
  if (query.status !== undefined) where.push(some(`o.facts::jsonb ->> 'status' = ${bind(columnText(query.status))}`));
  const finished = some("o.action = 'finished'");
  if (query.state !== undefined) where.push(query.state === 'closed' ? finished : `not ${finished}`);
  if (query.from !== undefined) where.push(`e.run_at >= ${bind(query.from.toISOString())}::timestamptz`);
  if (query.to !== undefined) where.push(`e.run_at < ${bind(query.to.toISOString())}::timestamptz`);
  const [than, direction] = query.order === 'newest' ? ['<', 'desc'] : ['>', 'asc'];
  if (query.after !== undefined) {
    const { slotAt, runId } = query.after;
    where.push(`(e.run_at, e.run_key) ${than} (${bind(slotAt)}::timestamptz, ${bind(runId)}::text)`);
  }
  const first = await sql.query(
    `select e.* from ${events} e where ${where.join(' and ')}
      order by e.run_at ${direction}, e.run_key ${direction} limit ${bind(query.limit)}`,
    values,
  );
  const keys = first.map((row) => String(row.run_key));
  const all = await sql.query(
    `select * from (select *, row_number() over (partition by run_key order by position) as place from ${events}
       where account = $1 and run_key = any($2::text[])) numbered
     where place <= ${String(eventsMost)} order by position`,
    [query.account, keys],
  );
  return first.map((row) => ({
    key: String(row.run_key),
    jobId: String(row.job_id),
    runId: textOrNull(row.run_id),
    runAt: instantOrNull(row.run_at) ?? '',
    events: all.filter((other) => other.run_key === row.run_key).map(toHostEvent),
  }));
};

/** A job of a host's own scheduler, as its `cron_changed` events left it. */
export interface ReportedJob {
  readonly source: 'openclaw';
  readonly jobId: string;
  /** `removed`: its last snapshot is kept. */
  readonly state: 'present' | 'removed';
  readonly agentId: string | null;
  readonly lastAction: string;
  readonly nextRunAt: string | null;
  /** The last snapshot of it that the host sent: the content of that event. */
  readonly snapshot: Sealed | null;
  readonly changes: number;
  /** The latest of them, newest first. */
  readonly events: readonly HostEvent[];
}

/** The jobs of an account that hosts told of, by their ids. */
export const reportedJobs = async (
  sql: Sql,
  table: TableName,
  query: { readonly account: string; readonly jobId?: string; readonly after?: string; readonly limit: number },
): Promise<{ readonly items: readonly ReportedJob[]; readonly next: string | null }> => {
  const events = table('host_event');
  const values: unknown[] = [query.account];
  const bind = (value: unknown): string => `$${String(values.push(value))}`;
  const where = ['account = $1', 'job_id is not null'];
  if (query.jobId !== undefined) where.push(`job_id = ${bind(columnText(query.jobId))}`);
  if (query.after !== undefined) where.push(`job_id > ${bind(query.after)}`);
  const jobs = await sql.query(
    `select job_id, count(*) as changes from ${events} where ${where.join(' and ')}
      group by job_id order by job_id limit ${bind(query.limit + 1)}`,
    values,
  );
  const page = jobs.slice(0, query.limit);
  const all = await sql.query(
    `select * from (select *, row_number() over (partition by job_id order by position desc) as place from ${events}
       where account = $1 and job_id = any($2::text[])) numbered
     where place <= ${String(eventsMost)} order by position desc`,
    [query.account, page.map((row) => String(row.job_id))],
  );
  const last = page.at(-1);
  return {
    items: page.map((row) =>
      toJob(
        row,
        all.filter((other) => other.job_id === row.job_id),
      ),
    ),
    next: jobs.length > query.limit && last !== undefined ? String(last.job_id) : null,
  };
};

/** Runs start and finish; what stands is what the others say. */
const toJob = (row: Row, events: readonly Row[]): ReportedJob => {
  const told = events.map(toHostEvent);
  const standing = told.find(({ facts }) => facts.action !== 'started' && facts.action !== 'finished');
  const agent = events.find((event) => typeof event.agent_id === 'string');
  const next = told.find(({ facts }) => facts.nextRunAtMs !== undefined)?.facts.nextRunAtMs;
  return {
    source: 'openclaw',
    jobId: String(row.job_id),
    state: standing?.facts.action === 'removed' ? 'removed' : 'present',
    agentId: textOrNull(agent?.agent_id),
    lastAction: textOrNull(told[0]?.facts.action) ?? '',
    nextRunAt: timeOf(next),
    snapshot: told.find(({ content }) => content !== null)?.content ?? null,
    changes: Number(row.changes),
    events: told,
  };
};
