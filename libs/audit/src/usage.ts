import type { Sql, StoredEvent } from '#event-store';
import type { HandlerRan, RecordedEvent } from '#record';
import { bytewise, columnText, indexedText, insertBatch, type Column } from './columns.js';
import type { Projection, Target } from './projection.js';

const outcomes = ['passed', 'rewrote', 'cancelled', 'observed', 'claimed', 'held', 'skipped', 'lost'] as const;

interface UsageRow {
  readonly account: string;
  /** Day of the record's clock, UTC. */
  readonly day: string;
  readonly pluginId: string;
  readonly pluginVersion: string;
  readonly dialect: string;
  readonly hook: string;
  readonly counts: Record<(typeof outcomes)[number], number>;
  durationUs: number;
}

/**
 * Metering (MW-55, MW-56): one run for every handler that started, skipped, cancelled and lost ones included; none for
 * what did not run. Counted per day of the record's clock, so that a day that is over does not change.
 */
export const usage: Projection = {
  name: 'usage',
  version: 1,
  // Sums, and a lost attempt is read off its stream: in whatever order.
  order: 'session',
  types: [
    'handler.passed',
    'handler.rewrote',
    'handler.cancelled',
    'handler.observed',
    'handler.claimed',
    'handler.held',
    'handler.skipped',
    'invocation.lost',
  ],
  tables: ['usage_day'],
  create: async (sql, table) => {
    await sql.query(
      bytewise(`create table ${table('usage_day')} (
      account text not null, day date not null, plugin_id text not null, plugin_version text not null,
      dialect text not null, hook text not null, runs bigint not null, duration_us bigint not null,
      ${outcomes.map((outcome) => `${outcome} bigint not null`).join(', ')},
      primary key (account, day, plugin_id, plugin_version, dialect, hook)
    )`),
    );
  },
  apply: async (events, target) => {
    const rows = new Map<string, UsageRow>();
    for (const { event } of events) {
      if (event.type === 'invocation.lost') await countLost(rows, event, target);
      else if (isMetered(event)) count(rows, event, wordOf(event), runTime(event));
    }
    // In one order, so that workers which count in the same rows do not wait for each other in a ring.
    const ordered = [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
    await insertBatch(target.sql, `${target.table('usage_day')} as t`, columns, ordered, merge);
  },
};

/** A handler that was not loaded did not run, even where its failure mode made it decide. */
const isMetered = (event: RecordedEvent): boolean => (event.data as unknown as HandlerRan).cause !== 'not_loaded';

const wordOf = (event: RecordedEvent): (typeof outcomes)[number] => {
  const word = event.type.slice('handler.'.length);
  return outcomes.find((outcome) => outcome === word) ?? 'passed';
};

const runTime = (event: RecordedEvent): number => {
  const { durationUs } = event.data as unknown as Partial<HandlerRan>;
  return durationUs ?? (event.durationMs ?? 0) * 1000;
};

/** Runs of a lost attempt that had started and never ended. */
const countLost = async (rows: Map<string, UsageRow>, lost: RecordedEvent, { store }: Target): Promise<void> => {
  const events = (await store.readStream(lost.account, lost.stream)).filter(
    ({ event }) => event.streamVersion <= lost.streamVersion,
  );
  for (const { event } of unfinished(events)) count(rows, event, 'lost', 0, lost.recordedAt);
};

const unfinished = (events: readonly StoredEvent[]): readonly StoredEvent[] => {
  const placeOf = ({ event }: StoredEvent): unknown => event.data.index ?? event.pluginId;
  const over = new Set(
    events.filter(({ event }) => /^handler\.(?!started)/.test(event.type)).map((stored) => placeOf(stored)),
  );
  return events.filter((stored) => stored.event.type === 'handler.started' && !over.has(placeOf(stored)));
};

const count = (
  rows: Map<string, UsageRow>,
  event: RecordedEvent,
  word: (typeof outcomes)[number],
  durationUs: number,
  recordedAt = event.recordedAt,
): void => {
  const row: UsageRow = {
    account: event.account,
    day: recordedAt.slice(0, 10),
    pluginId: columnText(event.pluginId ?? ''),
    pluginVersion: indexedText(event.pluginVersion ?? ''),
    dialect: event.dialect ?? '',
    hook: event.hook ?? '',
    counts: { passed: 0, rewrote: 0, cancelled: 0, observed: 0, claimed: 0, held: 0, skipped: 0, lost: 0 },
    durationUs: 0,
  };
  const key = [row.account, row.day, row.pluginId, row.pluginVersion, row.dialect, row.hook].join('\0');
  const found = rows.get(key) ?? row;
  rows.set(key, found);
  found.counts[word] += 1;
  found.durationUs += durationUs;
};

const columns: readonly Column<UsageRow>[] = [
  { name: 'account', type: 'text', of: (row) => row.account },
  { name: 'day', type: 'date', of: (row) => row.day },
  { name: 'plugin_id', type: 'text', of: (row) => row.pluginId },
  { name: 'plugin_version', type: 'text', of: (row) => row.pluginVersion },
  { name: 'dialect', type: 'text', of: (row) => row.dialect },
  { name: 'hook', type: 'text', of: (row) => row.hook },
  { name: 'runs', type: 'bigint', of: (row) => outcomes.reduce((sum, outcome) => sum + row.counts[outcome], 0) },
  { name: 'duration_us', type: 'bigint', of: (row) => row.durationUs },
  ...outcomes.map((outcome): Column<UsageRow> => ({ name: outcome, type: 'bigint', of: (row) => row.counts[outcome] })),
];

const merge = `on conflict (account, day, plugin_id, plugin_version, dialect, hook) do update set
  ${['runs', 'duration_us', ...outcomes].map((column) => `${column} = t.${column} + excluded.${column}`).join(', ')}`;

/** By what usage may be summed. */
export const usageGroups = ['day', 'pluginId', 'pluginVersion', 'dialect', 'hook'] as const;

export type UsageGroup = (typeof usageGroups)[number];

export interface UsageQuery {
  readonly account: string;
  readonly pluginId?: string;
  readonly dialect?: string;
  readonly hook?: string;
  /** Whole days, UTC, `[fromDay, toDay)`. */
  readonly fromDay?: string;
  readonly toDay?: string;
  readonly groupBy: readonly UsageGroup[];
  readonly limit: number;
  readonly after?: readonly string[];
}

/** Metered runs of one group. */
export interface UsageItem {
  readonly group: { readonly [by in UsageGroup]?: string };
  readonly runs: number;
  readonly outcomes: { readonly [outcome in (typeof outcomes)[number]]: number };
  readonly durationMs: number;
}

const groupColumns: { readonly [by in UsageGroup]: string } = {
  day: 'day::text',
  pluginId: 'plugin_id',
  pluginVersion: 'plugin_version',
  dialect: 'dialect',
  hook: 'hook',
};

/** Sums of metered runs, in the order of the groups' names, after `after`. */
export const usageItems = async (
  sql: Sql,
  table: (name: string) => string,
  query: UsageQuery,
): Promise<readonly UsageItem[]> => {
  const values: unknown[] = [query.account];
  const bind = (value: unknown): string => `$${String(values.push(value))}`;
  const where = ['account = $1'];
  if (query.pluginId !== undefined) where.push(`plugin_id = ${bind(query.pluginId)}`);
  if (query.dialect !== undefined) where.push(`dialect = ${bind(query.dialect)}`);
  if (query.hook !== undefined) where.push(`hook = ${bind(query.hook)}`);
  if (query.fromDay !== undefined) where.push(`day >= ${bind(query.fromDay)}::date`);
  if (query.toDay !== undefined) where.push(`day < ${bind(query.toDay)}::date`);
  const by = query.groupBy.map((group) => `${groupColumns[group]} collate "C"`);
  if (query.after !== undefined && by.length > 0) {
    where.push(`(${by.join(', ')}) > (${query.after.map((key) => `${bind(key)}::text`).join(', ')})`);
  }
  const grouped = by.length === 0 ? '' : `group by ${by.join(', ')} order by ${by.join(', ')}`;
  const rows = await sql.query(
    `select ${by.map((column, index) => `${column} as g${String(index)}, `).join('')}
       coalesce(sum(runs), 0)::text as runs, coalesce(sum(duration_us), 0)::text as duration_us,
       ${outcomes.map((outcome) => `coalesce(sum(${outcome}), 0)::text as ${outcome}`).join(', ')}
     from ${table('usage_day')} where ${where.join(' and ')} ${grouped} limit ${bind(query.limit)}`,
    values,
  );
  return rows.map((row) => ({
    group: Object.fromEntries(query.groupBy.map((group, index) => [group, String(row[`g${String(index)}`])])),
    runs: Number(row.runs),
    outcomes: Object.fromEntries(outcomes.map((outcome) => [outcome, Number(row[outcome])])) as UsageItem['outcomes'],
    durationMs: Number(row.duration_us) / 1000,
  }));
};
