import type { EventStore, Sql, StoredEvent } from '#event-store';
import type { EventType } from '#record';
import type { ComparedRows } from './compare-tables.js';

/** Full name of one of a projection's tables in the generation at hand. */
export type TableName = (table: string) => string;

/** Where a projection writes: inside the transaction that also moves its position. */
export interface Target {
  readonly sql: Sql;
  readonly table: TableName;
  /** For the rare event that can only be understood with the rest of its stream. */
  readonly store: EventStore;
}

/**
 * A read model that follows the log. It owns its tables: `create` makes them under the names it is given, so that a
 * new version is built beside the one that is being read.
 */
export interface Projection {
  readonly name: string;
  /** Goes up when the tables or their contents change; the tables are then rebuilt from the log. */
  readonly version: number;
  /** Older versions whose tables the queries of this one can read while it is being built. */
  readonly reads?: readonly number[];
  readonly types: readonly EventType[];
  readonly tables: readonly string[];
  /**
   * What order its rows need. `log`, the default: that of the whole log. `session`: only that of each session's events,
   * and of each stream's outside of sessions; then several workers may take the partitions of a topic side by side.
   */
  readonly order?: 'log' | 'session';
  /** How a table is compared with that of another generation, where it is not by its primary key. */
  readonly compared?: Readonly<Record<string, ComparedRows>>;
  /** Makes the tables, with the indexes that `apply` needs. */
  create(sql: Sql, table: TableName): Promise<void>;
  /** Makes the indexes that only reading needs: a rebuild makes them when the tables are full. */
  index?(sql: Sql, table: TableName): Promise<void>;
  /** Events in the order that it needs, of `types` only. The same event is never given twice to one generation. */
  apply(events: readonly StoredEvent[], target: Target): Promise<void>;
}

/** What a projection throws when the event itself cannot be taken: it is set aside, and no retry would mend it. */
export class EventFault extends Error {
  override readonly name = 'EventFault';
}

/**
 * Several projections behind one checkpoint: the log is read once, and what they say of an event appears at the same
 * moment. A change of any of them rebuilds all.
 */
export const together = (name: string, parts: readonly Projection[]): Projection => ({
  name,
  version: parts.reduce((sum, part) => sum + part.version, 0),
  types: [...new Set(parts.flatMap((part) => part.types))],
  tables: parts.flatMap((part) => part.tables),
  order: parts.every(({ order }) => order === 'session') ? 'session' : 'log',
  create: async (sql, table) => {
    for (const part of parts) await part.create(sql, table);
  },
  index: async (sql, table) => {
    for (const part of parts) await part.index?.(sql, table);
  },
  apply: async (events, target) => {
    for (const part of parts) {
      const own = events.filter(({ event }) => part.types.includes(event.type));
      if (own.length > 0) await part.apply(own, target);
    }
  },
});
