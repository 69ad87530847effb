import type { Sql, StoredEvent } from '#event-store';
import type { HostCall } from '#record';
import { callState } from './invocation-detail.js';
import { bytewise, batchOf, columnArrays, columnText, columnTextOrNull, insertBatch, type Column } from './columns.js';
import type { Projection, TableName } from './projection.js';

/**
 * One row per host call: what joins the invocation that made it to those that it led to. Lines of `host.log` lead
 * nowhere and are read with their invocation.
 */
export const hostCalls: Projection = {
  name: 'host-calls',
  version: 3,
  order: 'session',
  types: ['host.called', 'host.answered', 'host.refused', 'invocation.lost'],
  tables: ['host_call'],
  create: async (sql, table) => {
    await sql.query(
      bytewise(`create table ${table('host_call')} (
      account text not null, call_id text not null, invocation_id text not null, plugin_id text, member text not null,
      position bigint not null, called_at timestamptz not null, state text not null, code text,
      primary key (account, invocation_id, call_id)
    )`),
    );
  },
  index: async (sql, table) => {
    await sql.query(`create index on ${table('host_call')} (account, call_id)`);
  },
  apply: async (events, { sql, table }) => {
    const calls = new Map<string, CallRow>();
    const ends: StoredEvent[] = [];
    const lost = events.filter(({ event }) => event.type === 'invocation.lost');
    for (const stored of events) {
      if (stored.event.type === 'invocation.lost' || dataOf(stored).member === 'log') continue;
      const begun = stored.event.type !== 'host.answered';
      const key = keyOf(stored);
      const row = calls.get(key);
      if (row === undefined && begun) calls.set(key, { stored, state: stateOf(stored), code: codeOf(stored) });
      else if (row === undefined) ends.push(stored);
      else {
        row.state = stateOf(stored);
        row.code = codeOf(stored) ?? row.code;
      }
    }
    await insertBatch(sql, `${table('host_call')} as t`, callColumns, [...calls.values()], endEarlier);
    if (ends.length > 0) {
      await sql.query(
        `update ${table('host_call')} t set state = x.state from ${batchOf(endColumns)}
         where t.account = x.account and t.invocation_id = x.invocation_id and t.call_id = x.call_id`,
        columnArrays(endColumns, ends),
      );
    }
    await leaveUnknown(sql, table, lost);
  },
};

/** A call that was asked in an invocation that was lost may have had its effect. */
const leaveUnknown = async (sql: Sql, table: TableName, lost: readonly StoredEvent[]): Promise<void> => {
  if (lost.length === 0) return;
  await sql.query(
    `update ${table('host_call')} t set state = 'unknown' from unnest($1::text[], $2::text[]) x(account, invocation_id)
     where t.account = x.account and t.invocation_id = x.invocation_id and t.state = 'asked'`,
    [lost.map(({ event }) => event.account), lost.map(({ event }) => columnText(event.invocationId ?? ''))],
  );
};

interface CallRow {
  readonly stored: StoredEvent;
  state: string;
  code: string | null;
}

const codeOf = (stored: StoredEvent): string | null => columnTextOrNull(dataOf(stored).code);

const dataOf = ({ event }: StoredEvent): HostCall => event.data as unknown as HostCall;

const keyOf = (stored: StoredEvent): string =>
  [stored.event.account, stored.event.invocationId ?? '', dataOf(stored).callId].join('\0');

const stateOf = (stored: StoredEvent): string => callState(stored.event, dataOf(stored));

const keyColumns: readonly Column<StoredEvent>[] = [
  { name: 'account', type: 'text', of: ({ event }) => event.account },
  { name: 'invocation_id', type: 'text', of: ({ event }) => columnText(event.invocationId ?? '') },
  { name: 'call_id', type: 'text', of: (stored) => columnText(dataOf(stored).callId) },
];

const endColumns: readonly Column<StoredEvent>[] = [...keyColumns, { name: 'state', type: 'text', of: stateOf }];

const callColumns: readonly Column<CallRow>[] = [
  ...keyColumns.map((column): Column<CallRow> => ({ ...column, of: (row) => column.of(row.stored) })),
  { name: 'plugin_id', type: 'text', of: ({ stored }) => columnTextOrNull(stored.event.pluginId) },
  { name: 'member', type: 'text', of: ({ stored }) => columnText(dataOf(stored).member) },
  { name: 'position', type: 'bigint', of: ({ stored }) => stored.position },
  { name: 'called_at', type: 'timestamptz', of: ({ stored }) => stored.event.recordedAt },
  { name: 'state', type: 'text', of: (row) => row.state },
  { name: 'code', type: 'text', of: ({ code }) => code },
];

/** A call may be recorded as asked and, in a later batch, as refused. */
const endEarlier = `on conflict (account, invocation_id, call_id) do update set
  state = excluded.state, code = coalesce(excluded.code, t.code)`;
