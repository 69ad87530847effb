import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import { memorySealing, type KeyErasure, type Sealing } from '#sealing';
import type { Projection } from './projection.js';
import { openReading, type Reading } from './reading.js';
import { record } from './record.js';
import { catchUp, writeInvocation, type TestInvocation } from './test-record.js';

/** A log of a test's own in a real Postgres, and what reads it. */
export interface TestLedger {
  readonly sql: Sql;
  readonly store: EventStore;
  readonly sealing: Sealing & KeyErasure;
  /** Writes invocations one after another; resolves to their positions. */
  write(...told: readonly TestInvocation[]): Promise<readonly { readonly first: bigint; readonly last: bigint }[]>;
  /** Follows the log to its end and opens the record. */
  read(account?: string, projection?: Projection): Promise<Reading>;
  close(): Promise<void>;
}

/** Over a migrated database, which is dropped at the end. */
export const openTestLedger = (database: { readonly url: string; drop(): Promise<void> }): TestLedger => {
  const pool = createPool({ connectionString: database.url });
  const sql = sqlOver(pool);
  const store = postgresEventStore({ connectionString: database.url });
  const sealing = memorySealing();
  return {
    sql,
    store,
    sealing,
    write: async (...told) => {
      const positions = [];
      for (const one of told) positions.push(await writeInvocation(store, sealing, one));
      return positions;
    },
    read: async (account = 'a', projection = record) => {
      await catchUp(sql, store, [projection]);
      return openReading(sql, store, projection, account);
    },
    close: async () => {
      await store.close();
      await pool.end();
      await database.drop();
    },
  };
};
