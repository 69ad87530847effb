import type { Sql, StoredEvent } from '#event-store';
import type {
  EffectReported,
  HandlerNotRun,
  HandlerRan,
  InvocationClosed,
  InvocationLost,
  InvocationOpened,
  RecordedEvent,
} from '#record';
import {
  bytewise,
  columnArrays,
  batchOf,
  columnJsonOrNull,
  columnText,
  columnTextOrNull,
  indexedText,
  insertBatch,
  texts,
  type Column,
} from './columns.js';
import { phaseOf } from './operation-pairs.js';
import type { Projection, TableName, Target } from './projection.js';

/** What one batch of events says about one invocation. */
interface InvocationRow {
  readonly account: string;
  readonly invocationId: string;
  opened: { readonly event: RecordedEvent; readonly position: bigint } | null;
  lastPosition: bigint;
  handlers: number;
  /** Handlers that failed or could not be loaded. */
  undecided: number;
  readonly codes: Set<string>;
  withheld: boolean;
  closed: { readonly event: RecordedEvent; readonly data: InvocationClosed } | null;
  lost: { readonly event: RecordedEvent; readonly data: InvocationLost } | null;
  effect: { readonly word: EffectWord; readonly at: string } | null;
}

/** What a runtime said it did with an answer. */
export type EffectWord = 'applied' | 'not_applied' | 'different';

interface HandlerRow {
  readonly account: string;
  readonly invocationId: string;
  readonly eventPosition: bigint;
  readonly event: RecordedEvent;
  readonly outcome: string;
  readonly data: HandlerRan | HandlerNotRun;
}

/**
 * One row per invocation and one per handler run: everything that a search filters by. Content is not here in clear; a
 * cancellation's reason stands as the event has it, under its seal.
 */
export const invocations: Projection = {
  name: 'invocations',
  version: 5,
  // An effect, a hold and a loss repeat the session of their invocation: all of it stands in one order.
  order: 'session',
  types: [
    'invocation.opened',
    'session.withheld',
    'handler.started',
    'host.called',
    'host.answered',
    'host.refused',
    'handler.passed',
    'handler.rewrote',
    'handler.cancelled',
    'handler.observed',
    'handler.claimed',
    'handler.held',
    'handler.skipped',
    'handler.not_run',
    'invocation.closed',
    'invocation.lost',
    'effect.reported',
  ],
  tables: ['invocation', 'handler_run'],
  create: async (sql, table) => {
    for (const statement of tablesDdl(table)) await sql.query(bytewise(statement));
  },
  index: async (sql, table) => {
    for (const statement of indexesDdl(table)) await sql.query(statement);
  },
  apply: async (events, { sql, table }) => {
    const batch = fold(events);
    const rows = [...batch.invocations.values()];
    await lockOperations(sql, rows);
    await insertOpened(
      sql,
      table,
      rows.filter((row) => row.opened !== null),
    );
    await updateEarlier(
      sql,
      table,
      rows.filter((row) => row.opened === null),
    );
    await insertHandlers(sql, table, batch.handlers);
    await joinOperations({ sql, table }, rows);
  },
};

/** Keyset order of every search: the time asked for, then the position of `invocation.opened`. */
const keysets: readonly (readonly [name: string, columns: string, where?: string])[] = [
  ['hook', 'hook'],
  ['session', 'session_id', 'session_id is not null'],
  ['agent', 'agent_id', 'agent_id is not null'],
  ['correlation', 'correlation_id', 'correlation_id is not null'],
  ['target', 'target', 'target is not null'],
  ['subject', 'data_subject', 'data_subject is not null'],
  ['actor', 'actor_id'],
  ['behalf', 'on_behalf_of', 'on_behalf_of is not null'],
  ['outcome', 'outcome', "outcome <> 'passed'"],
  ['effect', 'effect', 'effect is not null'],
  ['hop', 'hop', 'hop > 0'],
];

const tablesDdl = (table: TableName): readonly string[] => {
  const invocation = table('invocation');
  return [
    `create table ${invocation} (
      account text not null, invocation_id text not null, position bigint not null, last_position bigint not null,
      dialect text not null, hook text not null, turn_id text, turn_inferred boolean not null, session_id text,
      agent_id text, operation_id text, correlation_id text, root text, cause text, hop int not null, target text,
      data_subject text, actor_kind text, actor_id text, on_behalf_of text, attempt int not null,
      previous_invocation_id text, chain_of text, lineage text, host_session text, fired_for text,
      occurred_at timestamptz not null, recorded_at timestamptz not null,
      state text not null, outcome text, cancel_plugin text, cancel_code text, cancel_reason text, reason_codes text[],
      closed_at timestamptz, duration_ms bigint, metered int, handlers int not null, undecided int not null,
      effect text, effect_at timestamptz, pair text, phase text, joined boolean not null default false,
      primary key (account, invocation_id)
    )`,
    // Joins the sides of an operation, so it is needed from the beginning.
    `create index on ${invocation} (account, operation_id, position) where operation_id is not null`,
    `create table ${table('handler_run')} (
      account text not null, position bigint not null, event_position bigint not null, occurred_at timestamptz not null,
      place int not null, plugin_id text not null, plugin_version text, revision int, mode text, outcome text not null,
      cause text, would_have text, reason_code text, warnings text[], duration_us bigint,
      primary key (account, position, event_position)
    )`,
  ];
};

/** Hooks that the platform fired for a clear or a cron run, and that did not come to a good end. */
export const notDelivered = "fired_for is not null and (state <> 'closed' or undecided > 0)";

const indexesDdl = (table: TableName): readonly string[] => {
  const invocation = table('invocation');
  const handler = table('handler_run');
  return [
    `create unique index on ${invocation} (account, position)`,
    `create index on ${invocation} (account, occurred_at, position)`,
    `create index on ${invocation} (account, recorded_at, position)`,
    `create index on ${invocation} (account, turn_id, position)`,
    `create index on ${invocation} (account, root, position)`,
    `create index on ${invocation} (account, cause) where cause is not null`,
    `create index on ${invocation} (account, lineage) where lineage is not null`,
    `create index on ${invocation} (account, fired_for, position) where fired_for is not null`,
    `create index on ${invocation} (account, hook, fired_for) where ${notDelivered}`,
    `create index on ${invocation} (account, occurred_at, position) where phase is not null and not joined`,
    `create index on ${invocation} using gin (reason_codes) where reason_codes is not null`,
    ...keysets.map(
      ([, columns, where]) =>
        `create index on ${invocation} (account, ${columns}, occurred_at, position)${where === undefined ? '' : ` where ${where}`}`,
    ),
    `create index on ${handler} (account, plugin_id, occurred_at, position)`,
    `create index on ${handler} (account, plugin_id, plugin_version, occurred_at, position)`,
    `create index on ${handler} (account, plugin_id, outcome, occurred_at, position) where outcome <> 'passed'`,
    `create index on ${handler} (account, outcome, occurred_at, position) where outcome <> 'passed'`,
    `create index on ${handler} (account, cause, occurred_at, position) where cause is not null`,
  ];
};

interface Batch {
  readonly invocations: ReadonlyMap<string, InvocationRow>;
  readonly handlers: readonly HandlerRow[];
}

const fold = (events: readonly StoredEvent[]): Batch => {
  const rows = new Map<string, InvocationRow>();
  const handlers: HandlerRow[] = [];
  for (const stored of events) {
    const { event, position } = stored;
    if (event.invocationId === undefined) continue;
    const row = rowOf(rows, event, event.invocationId);
    if (position > row.lastPosition) row.lastPosition = position;
    const code = reasonCodeOf(event);
    if (code !== null) row.codes.add(code);
    note(row, stored);
    const handler = handlerOf(stored, event.invocationId);
    if (handler === null) continue;
    row.handlers += 1;
    if (didNotDecide(handler)) row.undecided += 1;
    handlers.push(handler);
  }
  return { invocations: rows, handlers };
};

const didNotDecide = ({ outcome, data }: HandlerRow): boolean =>
  outcome === 'skipped' || (outcome === 'not_run' && data.cause === 'not_loaded');

const rowOf = (rows: Map<string, InvocationRow>, event: RecordedEvent, invocationId: string): InvocationRow => {
  const key = `${event.account}\0${invocationId}`;
  const found = rows.get(key);
  if (found !== undefined) return found;
  const row: InvocationRow = {
    account: event.account,
    invocationId,
    opened: null,
    lastPosition: -1n,
    handlers: 0,
    undecided: 0,
    codes: new Set(),
    withheld: false,
    closed: null,
    lost: null,
    effect: null,
  };
  rows.set(key, row);
  return row;
};

const note = (row: InvocationRow, { event, position }: StoredEvent): void => {
  switch (event.type) {
    case 'invocation.opened':
      row.opened = { event, position };
      return;
    case 'session.withheld':
      row.withheld = true;
      return;
    case 'invocation.closed': {
      const data = event.data as unknown as InvocationClosed;
      const code = data.cancellation?.code;
      if (code !== undefined && code !== null) row.codes.add(code);
      row.closed = { event, data };
      return;
    }
    case 'invocation.lost':
      row.lost = { event, data: event.data as unknown as InvocationLost };
      return;
    case 'effect.reported':
      row.effect = { word: effectWord(event.data as unknown as EffectReported), at: event.recordedAt };
      return;
    default:
  }
};

/** Applied with another digest than the answer's is `different`. */
export const effectWord = (data: EffectReported): EffectWord => {
  if (!data.applied) return 'not_applied';
  return data.matches === false ? 'different' : 'applied';
};

const ended = /^handler\.(passed|rewrote|cancelled|observed|claimed|held|skipped|not_run)$/;

const handlerOf = ({ event, position }: StoredEvent, invocationId: string): HandlerRow | null => {
  const outcome = ended.exec(event.type)?.[1];
  if (outcome === undefined) return null;
  const data = event.data as unknown as HandlerRan | HandlerNotRun;
  return { account: event.account, invocationId, eventPosition: position, event, outcome, data };
};

/**
 * The code that an event is found by. A run that did not decide has the code of the warning that says why, which stands
 * last (MW-54); events of before it was a field of its own have it there only.
 */
export const reasonCodeOf = ({ type, reasonCode, data }: RecordedEvent): string | null => {
  if (reasonCode !== undefined) return reasonCode;
  return type === 'handler.skipped' ? ((data as unknown as HandlerRan).warnings.at(-1)?.code ?? null) : null;
};

type Opened = InvocationRow & { readonly opened: NonNullable<InvocationRow['opened']> };

const openedData = (row: Opened): InvocationOpened => row.opened.event.data as unknown as InvocationOpened;

/** Columns that any event of an invocation may move: the same for a new row and for one that is there. */
const movingColumns: readonly Column<InvocationRow>[] = [
  { name: 'account', type: 'text', of: (row) => row.account },
  { name: 'invocation_id', type: 'text', of: (row) => row.invocationId },
  { name: 'last_position', type: 'bigint', of: (row) => row.lastPosition },
  { name: 'outcome', type: 'text', of: (row) => row.closed?.event.outcome ?? (row.lost === null ? null : 'lost') },
  { name: 'cancel_plugin', type: 'text', of: (row) => columnTextOrNull(row.closed?.data.cancellation?.pluginId) },
  { name: 'cancel_code', type: 'text', of: (row) => columnTextOrNull(row.closed?.data.cancellation?.code) },
  { name: 'cancel_reason', type: 'text', of: (row) => columnJsonOrNull(row.closed?.data.cancellation?.reason) },
  { name: 'reason_codes', type: 'texts', of: (row) => texts(inByteOrder(row.codes)) },
  { name: 'closed_at', type: 'timestamptz', of: (row) => row.closed?.event.recordedAt ?? null },
  { name: 'duration_ms', type: 'bigint', of: (row) => row.closed?.event.durationMs ?? null },
  { name: 'metered', type: 'int', of: (row) => row.closed?.data.metered ?? row.lost?.data.metered ?? null },
  { name: 'handlers', type: 'int', of: (row) => row.handlers },
  { name: 'undecided', type: 'int', of: (row) => row.undecided },
  { name: 'effect', type: 'text', of: (row) => row.effect?.word ?? null },
  { name: 'effect_at', type: 'timestamptz', of: (row) => row.effect?.at ?? null },
];

/** As the database orders them: how events were batched must not show. */
const inByteOrder = (codes: ReadonlySet<string>): readonly string[] =>
  [...codes].map(indexedText).sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)));

const openedColumns: readonly Column<Opened>[] = [
  ...movingColumns,
  { name: 'state', type: 'text', of: (row) => stateOf(row) ?? 'open' },
  { name: 'host_session', type: 'text', of: (row) => (row.withheld ? 'withheld' : openedData(row).hostSession) },
  { name: 'position', type: 'bigint', of: (row) => row.opened.position },
  { name: 'dialect', type: 'text', of: ({ opened }) => opened.event.dialect ?? '' },
  { name: 'hook', type: 'text', of: ({ opened }) => opened.event.hook ?? '' },
  { name: 'turn_id', type: 'text', of: ({ opened }) => columnTextOrNull(opened.event.turnId) },
  { name: 'turn_inferred', type: 'boolean', of: ({ opened }) => opened.event.turnInferred ?? false },
  { name: 'session_id', type: 'text', of: ({ opened }) => columnTextOrNull(opened.event.sessionId) },
  { name: 'agent_id', type: 'text', of: ({ opened }) => columnTextOrNull(opened.event.agentId) },
  { name: 'operation_id', type: 'text', of: ({ opened }) => columnTextOrNull(opened.event.operationId) },
  { name: 'correlation_id', type: 'text', of: ({ opened }) => columnTextOrNull(opened.event.correlationId) },
  { name: 'root', type: 'text', of: ({ opened }) => columnTextOrNull(opened.event.root) },
  { name: 'cause', type: 'text', of: ({ opened }) => columnTextOrNull(opened.event.cause) },
  { name: 'hop', type: 'int', of: ({ opened }) => opened.event.hop ?? 0 },
  {
    name: 'target',
    type: 'text',
    of: ({ opened: { event } }) => (event.target === undefined ? null : indexedText(event.target)),
  },
  { name: 'data_subject', type: 'text', of: (row) => openedData(row).dataSubject?.hmac ?? null },
  { name: 'actor_kind', type: 'text', of: ({ opened }) => opened.event.actor?.kind ?? null },
  { name: 'actor_id', type: 'text', of: ({ opened }) => columnTextOrNull(opened.event.actor?.id) },
  {
    name: 'on_behalf_of',
    type: 'text',
    of: ({ opened: { event } }) => (event.actor?.onBehalfOf === undefined ? null : indexedText(event.actor.onBehalfOf)),
  },
  { name: 'attempt', type: 'int', of: ({ opened }) => opened.event.attempt ?? 1 },
  { name: 'previous_invocation_id', type: 'text', of: (row) => columnTextOrNull(openedData(row).previousInvocationId) },
  { name: 'chain_of', type: 'text', of: (row) => columnTextOrNull(openedData(row).chainOf) },
  { name: 'lineage', type: 'text', of: (row) => columnTextOrNull(openedData(row).lineage) },
  { name: 'fired_for', type: 'text', of: (row) => columnTextOrNull(openedData(row).firedFor) },
  { name: 'occurred_at', type: 'timestamptz', of: ({ opened }) => opened.event.occurredAt },
  { name: 'recorded_at', type: 'timestamptz', of: ({ opened }) => opened.event.recordedAt },
  { name: 'pair', type: 'text', of: ({ opened: { event } }) => phaseOf(event)?.pair ?? null },
  { name: 'phase', type: 'text', of: ({ opened: { event } }) => phaseOf(event)?.phase ?? null },
];

const stateOf = (row: InvocationRow): 'closed' | 'lost' | null => {
  if (row.closed !== null) return 'closed';
  return row.lost === null ? null : 'lost';
};

const insertOpened = (sql: Sql, table: TableName, rows: readonly InvocationRow[]): Promise<void> =>
  insertBatch(sql, table('invocation'), openedColumns, rows.filter(isOpened), '');

const isOpened = (row: InvocationRow): row is Opened => row.opened !== null;

const earlierColumns: readonly Column<InvocationRow>[] = [
  ...movingColumns,
  { name: 'state', type: 'text', of: stateOf },
  { name: 'withheld', type: 'boolean', of: (row) => row.withheld },
];

/** Events of invocations that were opened in an earlier batch: a hold, host calls, an effect. */
const updateEarlier = async (sql: Sql, table: TableName, rows: readonly InvocationRow[]): Promise<void> => {
  if (rows.length === 0) return;
  await sql.query(
    `update ${table('invocation')} as t set
      last_position = greatest(t.last_position, x.last_position),
      state = coalesce(x.state, t.state),
      outcome = coalesce(x.outcome, t.outcome),
      cancel_plugin = coalesce(x.cancel_plugin, t.cancel_plugin),
      cancel_code = coalesce(x.cancel_code, t.cancel_code),
      cancel_reason = coalesce(x.cancel_reason, t.cancel_reason),
      reason_codes = case when x.reason_codes = '' then t.reason_codes
        else array(select distinct unnest(coalesce(t.reason_codes, '{}') || string_to_array(x.reason_codes, chr(31))) order by 1) end,
      closed_at = coalesce(x.closed_at, t.closed_at),
      duration_ms = coalesce(x.duration_ms, t.duration_ms),
      metered = coalesce(x.metered, t.metered),
      handlers = t.handlers + x.handlers,
      undecided = t.undecided + x.undecided,
      effect = coalesce(x.effect, t.effect),
      effect_at = coalesce(x.effect_at, t.effect_at),
      host_session = case when x.withheld then 'withheld' else t.host_session end
    from ${batchOf(earlierColumns)}
    where t.account = x.account and t.invocation_id = x.invocation_id`,
    columnArrays(earlierColumns, rows),
  );
};

const handlerColumns: readonly Column<HandlerRow>[] = [
  { name: 'account', type: 'text', of: (row) => row.account },
  { name: 'invocation_id', type: 'text', of: (row) => row.invocationId },
  { name: 'event_position', type: 'bigint', of: (row) => row.eventPosition },
  { name: 'place', type: 'int', of: (row) => row.data.index },
  { name: 'plugin_id', type: 'text', of: ({ event }) => columnTextOrNull(event.pluginId) ?? '' },
  {
    name: 'plugin_version',
    type: 'text',
    of: ({ event }) => (event.pluginVersion === undefined ? null : indexedText(event.pluginVersion)),
  },
  { name: 'revision', type: 'int', of: ({ event }) => event.pluginRevision ?? null },
  { name: 'mode', type: 'text', of: ({ data }) => ('mode' in data ? data.mode : null) },
  { name: 'outcome', type: 'text', of: (row) => row.outcome },
  { name: 'cause', type: 'text', of: ({ data }) => columnTextOrNull(data.cause) },
  {
    name: 'would_have',
    type: 'text',
    of: ({ data }) => ('wouldHave' in data ? columnTextOrNull(data.wouldHave) : null),
  },
  { name: 'reason_code', type: 'text', of: ({ event }) => columnTextOrNull(reasonCodeOf(event)) },
  {
    name: 'warnings',
    type: 'texts',
    of: ({ data }) => texts(data.warnings.map((warning) => columnTextOrNull(warning.code) ?? '')),
  },
  { name: 'duration_us', type: 'bigint', of: (row) => microseconds(row) },
];

const microseconds = ({ event, data }: HandlerRow): number | null => {
  if ('durationUs' in data) return data.durationUs;
  return event.durationMs === undefined ? null : event.durationMs * 1000;
};

const insertHandlers = async (sql: Sql, table: TableName, rows: readonly HandlerRow[]): Promise<void> => {
  if (rows.length === 0) return;
  await sql.query(
    `insert into ${table('handler_run')} (account, position, event_position, occurred_at, place, plugin_id,
        plugin_version, revision, mode, outcome, cause, would_have, reason_code, warnings, duration_us)
      select i.account, i.position, x.event_position, i.occurred_at, x.place, x.plugin_id, x.plugin_version,
        x.revision, x.mode, x.outcome, x.cause, x.would_have, x.reason_code,
        string_to_array(nullif(x.warnings, ''), chr(31)), x.duration_us
      from ${batchOf(handlerColumns)}
      join ${table('invocation')} i on i.account = x.account and i.invocation_id = x.invocation_id`,
    columnArrays(handlerColumns, rows),
  );
};

/** First key of the advisory locks, of 32 bits. */
const operationLocks = 720_411_530;

/**
 * The sides of one operation may come by different workers at the same moment, and each would miss the other. Taken
 * before any row is written, and in one order, so that no two workers wait for each other here.
 */
const lockOperations = async (sql: Sql, rows: readonly InvocationRow[]): Promise<void> => {
  const operations = rows.filter(isOpened).filter((row) => phaseOf(row.opened.event) !== null);
  if (operations.length === 0) return;
  await sql.query(
    `select pg_advisory_xact_lock($1, place) from
      (select distinct hashtext(x) & 255 as place from unnest($2::text[]) x order by 1 offset 0) places`,
    [operationLocks, operations.map(operationKey)],
  );
};

const operationKey = ({ account, opened }: Opened): string =>
  `${account} ${columnText(opened.event.operationId ?? '')}`;

/** Marks both sides of an operation as joined as soon as the second one is here. */
const joinOperations = async (
  { sql, table }: Pick<Target, 'sql' | 'table'>,
  rows: readonly InvocationRow[],
): Promise<void> => {
  const sides = rows.filter(isOpened).filter((row) => phaseOf(row.opened.event) !== null);
  if (sides.length === 0) return;
  await sql.query(
    `with touched as (select distinct account, operation_id from unnest($1::text[], $2::text[]) as x(account, operation_id)),
      whole as (
        select i.account, i.operation_id, i.pair from touched x
        join ${table('invocation')} i on i.account = x.account and i.operation_id = x.operation_id
        where i.phase is not null group by i.account, i.operation_id, i.pair having count(distinct i.phase) = 2
      )
    update ${table('invocation')} t set joined = true from whole w
    where t.account = w.account and t.operation_id = w.operation_id and t.pair = w.pair and t.phase is not null and not t.joined`,
    [sides.map((row) => row.account), sides.map((row) => columnTextOrNull(row.opened.event.operationId))],
  );
};
