import type { StoredEvent } from '#event-store';
import type { EventType, RecordedEvent } from '#record';
import { bytewise, columnText, insertBatch, type Column } from './columns.js';
import type { Projection } from './projection.js';

const outcomes = ['passed', 'rewritten', 'cancelled', 'observed', 'claimed', 'held'] as const;

interface TurnRow {
  readonly account: string;
  readonly sessionId: string;
  readonly turnId: string;
  readonly inferred: boolean;
  agentId: string | null;
  /** Of the event that named the agent. */
  agentPosition: bigint | null;
  readonly firstPosition: bigint;
  lastPosition: bigint;
  firstOccurredAt: string;
  lastOccurredAt: string;
  readonly firstRecordedAt: string;
  lastRecordedAt: string;
  invocations: number;
  lost: number;
  undecided: number;
  readonly counts: Record<(typeof outcomes)[number], number>;
}

/** What a session went through beside its turns (api.md, timeline). */
const sessionEvents: readonly EventType[] = [
  'session.clear_started',
  'session.cleared',
  'injection.enqueued',
  'injection.drained',
  'injection.expired',
  'injection.dropped',
  'extension.patched',
  'extension.cleaned',
  'extension.cleanup_called',
  'cron.run_started',
  'cron.run_leased',
  'cron.run_cancelled',
  'cron.run_closed',
  'cron.run_notified',
  'cron.run_lost',
];

/**
 * One row per turn of a session (a turn without a session stands under the empty name), and the session's other events.
 * Events of a turn without a session may come in any order between their streams: what counts is their positions.
 */
export const turns: Projection = {
  name: 'turns',
  version: 4,
  order: 'session',
  types: ['invocation.opened', 'invocation.closed', 'invocation.lost', 'handler.skipped', ...sessionEvents],
  tables: ['turn', 'session_event'],
  create: async (sql, table) => {
    await sql.query(
      bytewise(`create table ${table('turn')} (
      account text not null, session_id text not null, turn_id text not null, inferred boolean not null, agent_id text,
      agent_position bigint,
      first_position bigint not null, last_position bigint not null,
      first_occurred_at timestamptz not null, last_occurred_at timestamptz not null,
      first_recorded_at timestamptz not null, last_recorded_at timestamptz not null,
      invocations int not null, lost int not null, undecided int not null,
      ${outcomes.map((outcome) => `${outcome} int not null`).join(', ')},
      primary key (account, session_id, turn_id)
    )`),
    );
    await sql.query(
      bytewise(`create table ${table('session_event')} (
      account text not null, session_id text not null, position bigint not null, type text not null,
      occurred_at timestamptz not null, recorded_at timestamptz not null, stream text not null,
      primary key (account, session_id, position)
    )`),
    );
  },
  index: async (sql, table) => {
    await sql.query(`create index on ${table('turn')} (account, session_id, first_position)`);
    await sql.query(`create index on ${table('turn')} (account, turn_id, first_position)`);
  },
  apply: async (events, { sql, table }) => {
    await insertBatch(sql, `${table('turn')} as t`, turnColumns, foldTurns(events), mergeTurn);
    const others = events.filter(isOfSession);
    await insertBatch(sql, table('session_event'), sessionEventColumns, others, '');
  },
};

/** A heartbeat is nothing that a session went through; that it became the session of a run is. */
const isOfSession = ({ event }: StoredEvent): boolean =>
  event.sessionId !== undefined &&
  sessionEvents.includes(event.type) &&
  (event.type !== 'cron.run_leased' || event.data.by === 'session');

const foldTurns = (events: readonly StoredEvent[]): readonly TurnRow[] => {
  const rows = new Map<string, TurnRow>();
  for (const { event, position } of events) {
    if (event.turnId === undefined) continue;
    const key = `${event.account}\0${event.sessionId ?? ''}\0${event.turnId}`;
    const row = rows.get(key) ?? newTurn(event, event.turnId, position);
    rows.set(key, row);
    count(row, event);
    noteAgent(row, event, position);
    row.lastPosition = position;
    row.lastRecordedAt = event.recordedAt;
    if (event.occurredAt > row.lastOccurredAt) row.lastOccurredAt = event.occurredAt;
    if (event.occurredAt < row.firstOccurredAt) row.firstOccurredAt = event.occurredAt;
  }
  // In one order, so that workers which count in the same turns do not wait for each other in a ring.
  return [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
};

/** The agent of a turn is the one that is named first. */
const noteAgent = (row: TurnRow, event: RecordedEvent, position: bigint): void => {
  if (row.agentPosition !== null || event.agentId === undefined) return;
  row.agentId = columnText(event.agentId);
  row.agentPosition = position;
};

const newTurn = (event: RecordedEvent, turnId: string, position: bigint): TurnRow => ({
  account: event.account,
  sessionId: columnText(event.sessionId ?? ''),
  turnId: columnText(turnId),
  inferred: event.turnInferred ?? false,
  agentId: null,
  agentPosition: null,
  firstPosition: position,
  lastPosition: position,
  firstOccurredAt: event.occurredAt,
  lastOccurredAt: event.occurredAt,
  firstRecordedAt: event.recordedAt,
  lastRecordedAt: event.recordedAt,
  invocations: 0,
  lost: 0,
  undecided: 0,
  counts: { passed: 0, rewritten: 0, cancelled: 0, observed: 0, claimed: 0, held: 0 },
});

const count = (row: TurnRow, event: RecordedEvent): void => {
  if (event.type === 'invocation.opened') row.invocations += 1;
  if (event.type === 'invocation.lost') row.lost += 1;
  if (event.type === 'handler.skipped') row.undecided += 1;
  if (event.type !== 'invocation.closed') return;
  const outcome = outcomes.find((word) => word === event.outcome);
  if (outcome !== undefined) row.counts[outcome] += 1;
};

const turnColumns: readonly Column<TurnRow>[] = [
  { name: 'account', type: 'text', of: (row) => row.account },
  { name: 'session_id', type: 'text', of: (row) => row.sessionId },
  { name: 'turn_id', type: 'text', of: (row) => row.turnId },
  { name: 'inferred', type: 'boolean', of: (row) => row.inferred },
  { name: 'agent_id', type: 'text', of: (row) => row.agentId },
  { name: 'agent_position', type: 'bigint', of: (row) => row.agentPosition },
  { name: 'first_position', type: 'bigint', of: (row) => row.firstPosition },
  { name: 'last_position', type: 'bigint', of: (row) => row.lastPosition },
  { name: 'first_occurred_at', type: 'timestamptz', of: (row) => row.firstOccurredAt },
  { name: 'last_occurred_at', type: 'timestamptz', of: (row) => row.lastOccurredAt },
  { name: 'first_recorded_at', type: 'timestamptz', of: (row) => row.firstRecordedAt },
  { name: 'last_recorded_at', type: 'timestamptz', of: (row) => row.lastRecordedAt },
  { name: 'invocations', type: 'int', of: (row) => row.invocations },
  { name: 'lost', type: 'int', of: (row) => row.lost },
  { name: 'undecided', type: 'int', of: (row) => row.undecided },
  ...outcomes.map((outcome): Column<TurnRow> => ({ name: outcome, type: 'int', of: (row) => row.counts[outcome] })),
];

const added = ['invocations', 'lost', 'undecided', ...outcomes];

const mergeTurn = `on conflict (account, session_id, turn_id) do update set
  agent_id = case when excluded.agent_position < t.agent_position or t.agent_position is null
    then excluded.agent_id else t.agent_id end,
  agent_position = least(t.agent_position, excluded.agent_position),
  inferred = case when excluded.first_position < t.first_position then excluded.inferred else t.inferred end,
  first_position = least(t.first_position, excluded.first_position),
  first_recorded_at = case when excluded.first_position < t.first_position
    then excluded.first_recorded_at else t.first_recorded_at end,
  last_position = greatest(t.last_position, excluded.last_position),
  first_occurred_at = least(t.first_occurred_at, excluded.first_occurred_at),
  last_occurred_at = greatest(t.last_occurred_at, excluded.last_occurred_at),
  last_recorded_at = case when excluded.last_position > t.last_position
    then excluded.last_recorded_at else t.last_recorded_at end,
  ${added.map((column) => `${column} = t.${column} + excluded.${column}`).join(', ')}`;

const sessionEventColumns: readonly Column<StoredEvent>[] = [
  { name: 'account', type: 'text', of: ({ event }) => event.account },
  { name: 'session_id', type: 'text', of: ({ event }) => columnText(event.sessionId ?? '') },
  { name: 'position', type: 'bigint', of: ({ position }) => position },
  { name: 'type', type: 'text', of: ({ event }) => event.type },
  { name: 'occurred_at', type: 'timestamptz', of: ({ event }) => event.occurredAt },
  { name: 'recorded_at', type: 'timestamptz', of: ({ event }) => event.recordedAt },
  { name: 'stream', type: 'text', of: ({ event }) => columnText(event.stream) },
];
