import type { Row, Sql, StoredEvent } from '#event-store';
import type { RecordedEvent, Sealed } from '#record';
import {
  bytewise,
  columnJson,
  columnJsonOrNull,
  columnText,
  columnTextOrNull,
  indexedText,
  insertBatch,
  type Cell,
  type Column,
} from './columns.js';
import { hooksFiredFor } from './fired-hooks.js';
import { reportedRuns, type HostEvent, type ReportedRun } from './host-events.js';
import type { InvocationSummary } from './invocation-search.js';
import type { Projection, TableName } from './projection.js';
import { instantOrNull, numberOrNull, sealedOrNull, textOrNull } from './row-values.js';

/**
 * What a batch says of one slot and its run. Each fact is said by one event; what several say (lease, session) is
 * taken from the latest in the run's stream. So the order in which a run's events come is no matter.
 */
interface RunRow {
  readonly account: string;
  readonly runId: string;
  readonly jobId: string;
  readonly slotAt: string;
  first: bigint;
  last: bigint;
  readonly facts: Record<string, Cell>;
  lease: { readonly version: number; readonly until: string } | null;
  session: { readonly version: number; readonly id: string } | null;
}

/**
 * One row per slot of a cron job: whether it ran, was cancelled, overlapped or missed, and what became of its run
 * (MW-93 to MW-96). Its hooks stand among the invocations.
 */
export const cronRuns: Projection = {
  name: 'cron-runs',
  version: 2,
  order: 'session',
  types: [
    'cron.slot_overlapped',
    'cron.slot_missed',
    'cron.run_started',
    'cron.run_leased',
    'cron.run_cancelled',
    'cron.run_closed',
    'cron.run_notified',
    'cron.run_lost',
  ],
  tables: ['cron_run'],
  create: async (sql, table) => {
    await sql.query(
      bytewise(`create table ${table('cron_run')} (
        account text not null, run_id text not null, job_id text not null, slot_at timestamptz not null,
        first_position bigint not null, last_position bigint not null,
        kind text, name text, prompt text, final_prompt text, fired_by text, open_run text,
        cancel_plugin text, cancel_code text, cancel_reason text, schedule text, time_zone text,
        lease_version int, lease_until timestamptz, session_version int, session_id text,
        ran_agent text, expected_agent text, status text, told_by text, handlers int, undecided int,
        missed_at timestamptz, started_at timestamptz, overlapped_at timestamptz, cancelled_at timestamptz,
        closed_at timestamptz, notified_at timestamptz, lost_at timestamptz,
        agent_id text generated always as (coalesce(ran_agent, expected_agent)) stored,
        decision text not null generated always as (case when overlapped_at is not null then 'overlapped'
          when cancelled_at is not null then 'cancelled'
          when missed_at is not null and started_at is null and lease_until is null then 'missed'
          else 'run' end) stored,
        state text not null generated always as (case when closed_at is not null then 'closed'
          when lost_at is not null then 'lost' when overlapped_at is not null then 'overlapped'
          when cancelled_at is not null then 'cancelled'
          when missed_at is not null and started_at is null and lease_until is null then 'missed'
          else 'open' end) stored,
        primary key (account, run_id)
      )`),
    );
  },
  index: async (sql, table) => {
    const runs = table('cron_run');
    for (const by of ['', 'job_id, ', 'agent_id, ', 'session_id, ', 'status, ', 'kind, ', 'decision, ']) {
      await sql.query(`create index on ${runs} (account, ${by}slot_at, run_id)`);
    }
    await sql.query(`create index on ${runs} (account, state, slot_at, run_id) where state <> 'closed'`);
    await sql.query(
      `create index on ${runs} (account, cancel_plugin, slot_at, run_id) where cancel_plugin is not null`,
    );
    const untold = 'closed_at is not null and (notified_at is null or undecided > 0)';
    await sql.query(`create index on ${runs} (account, slot_at, run_id) where ${untold}`);
  },
  apply: async (events, { sql, table }) => {
    await insertBatch(sql, `${table('cron_run')} as t`, columns, fold(events), merge);
  },
};

const fold = (events: readonly StoredEvent[]): readonly RunRow[] => {
  const rows = new Map<string, RunRow>();
  for (const { event, position } of events) {
    const { runId, jobId, slotAt } = event.data as {
      readonly runId: string;
      readonly jobId: string;
      readonly slotAt: string;
    };
    const key = `${event.account}\0${runId}`;
    const row = rows.get(key) ?? {
      account: event.account,
      runId: columnText(runId),
      jobId: columnText(jobId),
      slotAt,
      first: position,
      last: position,
      facts: {},
      lease: null,
      session: null,
    };
    rows.set(key, row);
    if (position < row.first) row.first = position;
    if (position > row.last) row.last = position;
    note(row, event);
  }
  // In one order, so that two workers never wait for each other in a circle.
  return [...rows.values()].sort((a, b) => (a.account + a.runId < b.account + b.runId ? -1 : 1));
};

const note = (row: RunRow, event: RecordedEvent): void => {
  const { type, data, recordedAt, streamVersion, sessionId, agentId } = event;
  if (sessionId !== undefined && (row.session === null || row.session.version < streamVersion)) {
    row.session = { version: streamVersion, id: columnText(sessionId) };
  }
  switch (type) {
    case 'cron.slot_missed':
      Object.assign(row.facts, { missed_at: recordedAt, ...named(data, 'schedule'), time_zone: data.timeZone });
      row.facts.expected_agent = columnTextOrNull(agentId);
      return;
    case 'cron.slot_overlapped':
      Object.assign(row.facts, { overlapped_at: recordedAt, ...mission(data), open_run: data.openRun });
      break;
    case 'cron.run_started':
      Object.assign(row.facts, { started_at: recordedAt, ...mission(data), fired_by: data.firedBy });
      row.facts.final_prompt = columnJson(data.finalPrompt);
      break;
    case 'cron.run_cancelled':
      Object.assign(row.facts, { cancelled_at: recordedAt, ...mission(data), fired_by: data.firedBy });
      row.facts.cancel_plugin = columnTextOrNull(event.pluginId);
      row.facts.cancel_code = columnTextOrNull(event.reasonCode);
      row.facts.cancel_reason = columnJsonOrNull(data.reason);
      break;
    case 'cron.run_leased':
      if (row.lease === null || row.lease.version < streamVersion) {
        row.lease = { version: streamVersion, until: data.leaseUntil as string };
      }
      break;
    case 'cron.run_closed':
      Object.assign(row.facts, {
        closed_at: recordedAt,
        status: indexedText(data.status as string),
        told_by: data.firedBy,
      });
      break;
    case 'cron.run_notified':
      Object.assign(row.facts, { notified_at: recordedAt, ...named(data, 'handlers', 'undecided') });
      break;
    case 'cron.run_lost':
      row.facts.lost_at = recordedAt;
      break;
    default:
  }
  row.facts.ran_agent ??= columnTextOrNull(agentId);
};

type Data = RecordedEvent['data'];

const named = (data: Data, ...names: readonly string[]): Record<string, Cell> =>
  Object.fromEntries(names.map((name) => [name, data[name] as Cell]));

const mission = (data: Data): Record<string, Cell> => ({
  kind: columnText(data.kind as string),
  name: columnJson(data.name),
  prompt: columnJson(data.prompt),
});

const fact = (name: string, type: Column<RunRow>['type']): Column<RunRow> => ({
  name,
  type,
  of: ({ facts }) => facts[name] ?? null,
});

const texts = ['kind', 'name', 'prompt', 'final_prompt', 'fired_by', 'open_run', 'cancel_plugin', 'cancel_code'].concat(
  ['cancel_reason', 'schedule', 'time_zone', 'ran_agent', 'expected_agent', 'status', 'told_by'],
);
const times = ['missed_at', 'started_at', 'overlapped_at', 'cancelled_at', 'closed_at', 'notified_at', 'lost_at'];

const facts: readonly Column<RunRow>[] = [
  ...texts.map((name) => fact(name, 'text')),
  ...times.map((name) => fact(name, 'timestamptz')),
  ...['handlers', 'undecided'].map((name) => fact(name, 'int')),
];

const columns: readonly Column<RunRow>[] = [
  { name: 'account', type: 'text', of: (row) => row.account },
  { name: 'run_id', type: 'text', of: (row) => row.runId },
  { name: 'job_id', type: 'text', of: (row) => row.jobId },
  { name: 'slot_at', type: 'timestamptz', of: (row) => row.slotAt },
  { name: 'first_position', type: 'bigint', of: (row) => row.first },
  { name: 'last_position', type: 'bigint', of: (row) => row.last },
  { name: 'lease_version', type: 'int', of: ({ lease }) => lease?.version ?? null },
  { name: 'lease_until', type: 'timestamptz', of: ({ lease }) => lease?.until ?? null },
  { name: 'session_version', type: 'int', of: ({ session }) => session?.version ?? null },
  { name: 'session_id', type: 'text', of: ({ session }) => session?.id ?? null },
  ...facts,
];

const latest = (version: string, column: string): string =>
  `${column} = case when coalesce(t.${version}, -1) >= coalesce(excluded.${version}, -1) then t.${column} else excluded.${column} end`;

const merge = `on conflict (account, run_id) do update set
  first_position = least(t.first_position, excluded.first_position),
  last_position = greatest(t.last_position, excluded.last_position),
  ${latest('lease_version', 'lease_until')}, ${latest('session_version', 'session_id')},
  lease_version = greatest(t.lease_version, excluded.lease_version),
  session_version = greatest(t.session_version, excluded.session_version),
  ${facts.map(({ name }) => `${name} = coalesce(t.${name}, excluded.${name})`).join(', ')}`;

export const cronDecisions = ['run', 'cancelled', 'overlapped', 'missed'] as const;
export const cronStates = ['open', 'closed', 'lost', 'cancelled', 'overlapped', 'missed'] as const;
/** What came of telling that a run closed: `none` while nobody was to be told. */
export const cronNotifications = ['delivered', 'failed', 'pending', 'lost', 'none'] as const;

/** One slot and everything that became of it. */
export interface CronRunItem {
  /** The cron runs of the platform; `openclaw`: what a host's own scheduler reported. */
  readonly source: 'cron';
  readonly runId: string;
  readonly jobId: string;
  readonly slotAt: string;
  readonly decision: (typeof cronDecisions)[number];
  readonly state: (typeof cronStates)[number];
  readonly kind: string | null;
  readonly name: Sealed | null;
  readonly agentId: string | null;
  readonly sessionId: string | null;
  /** As it was scheduled, and as the handlers left it. */
  readonly prompt: Sealed | null;
  readonly finalPrompt: Sealed | null;
  readonly cancellation: {
    readonly pluginId: string | null;
    readonly reason: Sealed | null;
    readonly code: string | null;
  } | null;
  /** Overlapped: the run that was still open. */
  readonly openRun: string | null;
  /** When its slot came and was decided; null where it never did. */
  readonly decidedAt: string | null;
  /** When it was put down as missed; with another decision than `missed` it came late. */
  readonly missedAt: string | null;
  readonly leaseUntil: string | null;
  readonly closedAt: string | null;
  readonly status: string | null;
  readonly lostAt: string | null;
  readonly notification: {
    readonly state: (typeof cronNotifications)[number];
    readonly invocationId: string | null;
    readonly at: string | null;
    readonly handlers: number | null;
    readonly undecided: number | null;
  };
  /** Every run of its hooks, lost ones and repetitions too. */
  readonly hooks: readonly InvocationSummary[];
  readonly positions: { readonly first: string; readonly last: string };
}

/** A run of a host's own scheduler, joined of what `cron_changed` said when it started and when it was finished. */
export interface ReportedRunItem {
  readonly source: 'openclaw';
  readonly runId: string | null;
  readonly jobId: string;
  readonly slotAt: string;
  readonly decision: 'run';
  readonly state: 'open' | 'closed';
  readonly agentId: string | null;
  readonly sessionId: string | null;
  readonly closedAt: string | null;
  readonly status: string | null;
  readonly durationMs: number | null;
  readonly delivery: string | null;
  readonly reported: readonly HostEvent[];
  readonly positions: { readonly first: string; readonly last: string };
}

export const cronSources = ['cron', 'openclaw'] as const;

/** Where a page ended. */
export interface CronPlace {
  readonly slotAt: string;
  readonly runId: string;
}

export interface CronQuery {
  readonly account: string;
  readonly source?: (typeof cronSources)[number];
  readonly runId?: string;
  readonly jobId?: string;
  readonly agentId?: string;
  readonly sessionId?: string;
  readonly kind?: string;
  readonly decision?: CronRunItem['decision'];
  readonly state?: CronRunItem['state'];
  readonly status?: string;
  readonly notification?: CronRunItem['notification']['state'];
  /** The plugin that cancelled. */
  readonly pluginId?: string;
  /** Of the slot. */
  readonly from?: Date;
  readonly to?: Date;
  readonly order: 'newest' | 'oldest';
  readonly after?: CronPlace;
  readonly limit: number;
}

/** A run is told of by the invocation that its closing names; it is lost when that was (MW-96). */
const notification = `case when r.closed_at is null then 'none'
  when r.undecided > 0 then 'failed' when r.notified_at is not null then 'delivered'
  when told.state = 'lost' then 'lost' else 'pending' end`;

/** The slots of an account's cron jobs and the runs that hosts report, by when they were due. */
export const findCronRuns = async (
  sql: Sql,
  table: TableName,
  query: CronQuery,
): Promise<{ readonly items: readonly (CronRunItem | ReportedRunItem)[]; readonly next: CronPlace | null }> => {
  const own = query.source === 'openclaw' ? { items: [], more: false } : await ownRuns(sql, table, query);
  const reported = await reportedItems(sql, table, query);
  const rising = query.order === 'newest' ? -1 : 1;
  const all = [
    ...own.items.map((item) => ({ item, place: { slotAt: item.slotAt, runId: item.runId } })),
    ...reported.map((run) => ({ item: toReported(run), place: { slotAt: run.runAt, runId: run.key } })),
  ].sort((a, b) => (isBefore(a.place, b.place) ? -rising : rising));
  const page = all.slice(0, query.limit);
  const isMore = all.length > page.length || own.more;
  return { items: page.map(({ item }) => item), next: isMore ? (page.at(-1)?.place ?? null) : null };
};

/** In the database's order: by bytes. */
const isBefore = (a: CronPlace, b: CronPlace): boolean =>
  a.slotAt === b.slotAt ? Buffer.compare(Buffer.from(a.runId), Buffer.from(b.runId)) < 0 : a.slotAt < b.slotAt;

/** A filter by what only the platform's own runs have leaves out what was only reported. */
const reportedItems = async (sql: Sql, table: TableName, query: CronQuery): Promise<readonly ReportedRun[]> => {
  const { source, state, decision, kind, notification, pluginId, ...shared } = query;
  if (source === 'cron' || [kind, notification, pluginId].some((filter) => filter !== undefined)) return [];
  if (decision !== undefined && decision !== 'run') return [];
  if (state !== undefined && state !== 'open' && state !== 'closed') return [];
  return reportedRuns(sql, table, { ...shared, ...(state === undefined ? {} : { state }), limit: query.limit + 1 });
};

const toReported = ({ jobId, runId, runAt, events }: ReportedRun): ReportedRunItem => {
  const finished = events.findLast(({ facts }) => facts.action === 'finished');
  const said = (name: string): unknown => events.findLast(({ facts }) => facts[name] !== undefined)?.facts[name];
  const durationMs = finished?.facts.durationMs;
  return {
    source: 'openclaw',
    runId,
    jobId,
    slotAt: runAt,
    decision: 'run',
    state: finished === undefined ? 'open' : 'closed',
    agentId: textOrNull(said('agentId')),
    sessionId: textOrNull(said('sessionId') ?? said('sessionKey')),
    closedAt: finished?.recordedAt ?? null,
    status: textOrNull(finished?.facts.status),
    durationMs: typeof durationMs === 'number' ? durationMs : null,
    delivery: textOrNull(finished?.facts.deliveryStatus),
    reported: events,
    positions: { first: events[0]?.position ?? '', last: events.at(-1)?.position ?? '' },
  };
};

const ownRuns = async (
  sql: Sql,
  table: TableName,
  query: CronQuery,
): Promise<{ readonly items: readonly CronRunItem[]; readonly more: boolean }> => {
  const values: unknown[] = [query.account];
  const bind = (value: unknown): string => `$${String(values.push(value))}`;
  const where = ['r.account = $1'];
  const equals = (column: string, value: string | undefined): void => {
    if (value !== undefined) where.push(`${column} = ${bind(columnText(value))}`);
  };
  equals('r.run_id', query.runId);
  equals('r.job_id', query.jobId);
  equals('r.agent_id', query.agentId);
  equals('r.session_id', query.sessionId);
  equals('r.kind', query.kind);
  equals('r.decision', query.decision);
  equals('r.state', query.state);
  // Said again without a parameter: that is how the planner knows that the partial index holds the answer.
  if (query.state !== undefined && query.state !== 'closed') where.push("r.state <> 'closed'");
  if (query.status !== undefined) where.push(`r.status = ${bind(indexedText(query.status))}`);
  equals('r.cancel_plugin', query.pluginId);
  if (query.notification !== undefined) {
    where.push(`${notification} = ${bind(query.notification)}`);
    if (!['delivered', 'none'].includes(query.notification)) {
      where.push('r.closed_at is not null and (r.notified_at is null or r.undecided > 0)');
    }
  }
  if (query.from !== undefined) where.push(`r.slot_at >= ${bind(query.from.toISOString())}::timestamptz`);
  if (query.to !== undefined) where.push(`r.slot_at < ${bind(query.to.toISOString())}::timestamptz`);
  const [than, direction] = query.order === 'newest' ? ['<', 'desc'] : ['>', 'asc'];
  if (query.after !== undefined) {
    const { slotAt, runId } = query.after;
    where.push(`(r.slot_at, r.run_id) ${than} (${bind(slotAt)}::timestamptz, ${bind(runId)}::text)`);
  }
  const rows = await sql.query(
    `select r.*, ${notification} as notification from ${table('cron_run')} r
       left join ${table('invocation')} told on told.account = r.account and told.invocation_id = r.told_by
     where ${where.join(' and ')} order by r.slot_at ${direction}, r.run_id ${direction} limit ${bind(query.limit + 1)}`,
    values,
  );
  const page = rows.slice(0, query.limit);
  const streamOf = (row: Row): string => `cron-run/${String(row.run_id)}`;
  const hooks = await hooksFiredFor(sql, table, query.account, page.map(streamOf));
  const items = page.map((row) => toRun(row, hooks.get(streamOf(row)) ?? []));
  return { items, more: rows.length > query.limit };
};

const toRun = (row: Row, hooks: readonly InvocationSummary[]): CronRunItem => ({
  source: 'cron',
  runId: String(row.run_id),
  jobId: String(row.job_id),
  slotAt: instantOrNull(row.slot_at) ?? '',
  decision: row.decision as CronRunItem['decision'],
  state: row.state as CronRunItem['state'],
  kind: textOrNull(row.kind),
  name: sealedOrNull(row.name),
  agentId: textOrNull(row.agent_id),
  sessionId: textOrNull(row.session_id),
  prompt: sealedOrNull(row.prompt),
  finalPrompt: sealedOrNull(row.final_prompt),
  cancellation:
    row.cancelled_at === null
      ? null
      : {
          pluginId: textOrNull(row.cancel_plugin),
          reason: sealedOrNull(row.cancel_reason),
          code: textOrNull(row.cancel_code),
        },
  openRun: textOrNull(row.open_run),
  decidedAt: instantOrNull(row.started_at ?? row.cancelled_at ?? row.overlapped_at),
  missedAt: instantOrNull(row.missed_at),
  leaseUntil: instantOrNull(row.lease_until),
  closedAt: instantOrNull(row.closed_at),
  status: textOrNull(row.status),
  lostAt: instantOrNull(row.lost_at),
  notification: {
    state: row.notification as CronRunItem['notification']['state'],
    invocationId: textOrNull(row.told_by),
    at: instantOrNull(row.notified_at),
    handlers: numberOrNull(row.handlers),
    undecided: numberOrNull(row.undecided),
  },
  hooks,
  positions: { first: String(row.first_position), last: String(row.last_position) },
});
