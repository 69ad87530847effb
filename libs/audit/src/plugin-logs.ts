import type { StoredEvent } from '#event-store';
import type { HostCall } from '#record';
import { bytewise, columnText, columnTextOrNull, insertBatch, type Column } from './columns.js';
import type { Projection } from './projection.js';

/**
 * Where the lines of `host.log` are, by plugin. The lines themselves stay in the log under their seal; a row only says
 * at which position one is.
 */
export const pluginLogs: Projection = {
  name: 'plugin-logs',
  version: 2,
  reads: [1],
  types: ['host.called'],
  tables: ['plugin_log_line'],
  create: async (sql, table) => {
    await sql.query(
      bytewise(`create table ${table('plugin_log_line')} (
      account text not null, plugin_id text not null, position bigint not null, recorded_at timestamptz not null,
      session_id text, primary key (account, plugin_id, position)
    )`),
    );
  },
  apply: async (events, { sql, table }) => {
    const lines = events.filter(({ event }) => memberOf(event.data) === 'log' && event.pluginId !== undefined);
    await insertBatch(sql, table('plugin_log_line'), columns, lines, 'on conflict do nothing');
  },
};

const memberOf = (data: object): string => (data as HostCall).member;

const columns: readonly Column<StoredEvent>[] = [
  { name: 'account', type: 'text', of: ({ event }) => event.account },
  { name: 'plugin_id', type: 'text', of: ({ event }) => columnText(event.pluginId ?? '') },
  { name: 'position', type: 'bigint', of: ({ position }) => position },
  { name: 'recorded_at', type: 'timestamptz', of: ({ event }) => event.recordedAt },
  { name: 'session_id', type: 'text', of: ({ event }) => columnTextOrNull(event.sessionId) },
];
