import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql, type StoredEvent } from '#event-store';
import { memorySealing } from '#sealing';
import { allReadModels } from '../src/all-read-models.js';
import { beginLoading, endLoading, indexLoaded, loadEvents } from '../src/rebuild.js';
import { loadLongRecord } from './reads.js';

/** How fast all read models but the search of content are built from a log. */
export interface RebuildFigures {
  readonly events: number;
  readonly loadSeconds: number;
  readonly indexSeconds: number;
}

const eventsPerInvocation = 7;

/** Most events in one step. */
const atOnce = 4_000;

/** Writes a log of `events` events, and builds every read model but the text search from it. */
export const measureRebuild = async (connectionString: string, events: number): Promise<RebuildFigures> => {
  const pool = createPool({ connectionString, statementTimeoutMs: 0 });
  const store = postgresEventStore({ connectionString });
  const sql = sqlOver(pool);
  try {
    await loadLongRecord(store, memorySealing(), Math.ceil(events / eventsPerInvocation));
    return await rebuild(sql, store);
  } finally {
    await store.close();
    await pool.end();
  }
};

const rebuild = async (sql: Sql, store: EventStore): Promise<RebuildFigures> => {
  const projections = allReadModels(memorySealing(), { textSearch: false });
  const begun = performance.now();
  const models = await Promise.all(
    projections.map(async (projection) => ({ projection, generation: await beginLoading(sql, projection) })),
  );
  let reached = -1n;
  let next: Promise<readonly StoredEvent[]> = store.readAll(-1n, atOnce);
  let count = 0;
  for (;;) {
    const batch = await next;
    if (batch.length === 0) break;
    reached = batch.at(-1)?.globalPosition ?? reached;
    count += batch.length;
    next = store.readAll(reached, atOnce);
    await Promise.all(
      models.map(({ projection, generation }) => loadEvents(projection, generation, batch, sql, store)),
    );
  }
  const loaded = performance.now();
  for (const { projection, generation } of models) {
    await indexLoaded(sql, projection, generation);
    await endLoading(sql, projection, generation, reached);
  }
  return { events: count, loadSeconds: (loaded - begun) / 1000, indexSeconds: (performance.now() - loaded) / 1000 };
};
