import type { EventStore, Sql, StoredEvent } from '#event-store';
import type { Projection } from './projection.js';
import {
  dropGeneration,
  dropLoading,
  dropOthersBuilding,
  findGenerations,
  followerName,
  newGeneration,
  openRegistry,
  tableNames,
  takeOver,
  underLock,
  type Generation,
} from './read-models.js';
import { applySettingAside, type SetAside } from './set-aside.js';

/**
 * A rebuild by one process, beside the live tables: the fast way, for nobody else follows into these tables. They have
 * no indexes but those that writing needs until they are full. A process that dies leaves tables in state `loading`,
 * which the next replay and every worker drop; the live ones are never touched.
 */
export const beginLoading = (sql: Sql, projection: Projection): Promise<Generation> =>
  sql.transaction(async (tx) => {
    await openRegistry(tx);
    await dropLoading(tx, projection.name);
    return newGeneration(tx, projection, 'loading');
  });

/** Writes the next events of the log into a loading generation, in one transaction. Answers with what was set aside. */
export const loadEvents = async (
  projection: Projection,
  { name, generation }: Generation,
  events: readonly StoredEvent[],
  sql: Sql,
  store: EventStore,
): Promise<readonly SetAside[]> => {
  const last = events.at(-1);
  if (last === undefined) return [];
  const own = events.filter(({ event }) => projection.types.includes(event.type));
  return sql.transaction(async (tx) => {
    await tx.query(loadingSettings);
    const setAside = await applySettingAside(projection, { name, generation }, own, {
      sql: tx,
      table: tableNames(generation),
      store,
    });
    const moved = await tx.query(
      `update read_model set position = $3, moved_at = clock_timestamp()
       where name = $1 and generation = $2 and state = 'loading' returning 1`,
      [name, generation, last.globalPosition],
    );
    if (moved.length === 0) throw new LoadingLost(`the tables of ${name} that were being built were dropped`);
    return setAside;
  });
};

/** Somebody dropped the tables that were being built. */
export class LoadingLost extends Error {
  override readonly name = 'LoadingLost';
}

// The planner knows nothing of tables that grow; a plan that reads them whole for each batch must not be found.
const loadingSettings = `set local synchronous_commit to off; set local enable_seqscan to off;
  set local enable_hashjoin to off; set local enable_mergejoin to off; set local work_mem to '64MB'`;

/** Makes the indexes that only reading needs, and the planner's statistics. */
export const indexLoaded = async (sql: Sql, projection: Projection, { generation }: Generation): Promise<void> => {
  const table = tableNames(generation);
  await sql.transaction(async (tx) => {
    await tx.query("set local maintenance_work_mem to '256MB'");
    await projection.index?.(tx, table);
  });
  for (const name of projection.tables) await sql.query(`analyze ${table(name)}`);
};

/**
 * Hands full tables over to whoever follows the log: from here on they are a generation that is being built, which
 * holds everything up to `reached`, and takes the place of the live one as soon as it holds no less.
 */
export const endLoading = (
  sql: Sql,
  projection: Projection,
  loaded: Generation,
  reached: bigint,
): Promise<Generation> =>
  sql.transaction(async (tx) => {
    await underLock(tx);
    await dropOthersBuilding(tx, projection);
    await tx.query(
      `insert into follower (name, shard, position) values ($1, 0, $2)
       on conflict (name, shard) do update set position = excluded.position`,
      [followerName(loaded), reached],
    );
    const moved = await tx.query(
      `update read_model set state = 'building', position = $3 where name = $1 and generation = $2 and state = 'loading'
       returning 1`,
      [loaded.name, loaded.generation, reached],
    );
    if (moved.length === 0) throw new LoadingLost(`the tables of ${loaded.name} that were being built were dropped`);
    const building: Generation = { ...loaded, state: 'building', position: reached };
    const inPlace = await takeOver(projection, tx, building, 'known');
    return { ...building, state: inPlace ? 'live' : 'building' };
  });

/** Drops tables that were being loaded; nothing else was changed. */
export const abandonLoading = (sql: Sql, projection: Projection, loading: Generation): Promise<void> =>
  sql.transaction(async (tx) => {
    await underLock(tx);
    await dropGeneration(tx, loading, projection.tables);
  });

/** The live tables of a projection, if there are any. */
export const liveGeneration = async (sql: Sql, name: string): Promise<Generation | null> =>
  (await findGenerations(sql, name)).find(({ state }) => state === 'live') ?? null;

/** Whether the tables hold something beyond the position up to which they are complete: partitions progress apart. */
export const takenApart = async (sql: Sql, { generation }: Generation): Promise<boolean> =>
  (await sql.query('select 1 from read_model_span where generation = $1 limit 1', [generation])).length > 0;

/**
 * Runs `work` while no other replay of these read models runs, as one transaction that lives as long: when this process
 * dies, the database ends it. With `snapshot`, what the transaction reads stays what it was when it began. Null when
 * another replay holds one of the read models.
 */
export const whileReplaying = async <T>(
  sql: Sql,
  names: readonly string[],
  how: 'lock' | 'snapshot',
  work: (held: Sql) => Promise<T>,
): Promise<T | null> =>
  sql.transaction(async (tx) => {
    if (how === 'snapshot') await tx.query('set transaction isolation level repeatable read');
    await tx.query('set local idle_in_transaction_session_timeout to 0');
    for (const name of [...names].sort()) {
      const [row] = await tx.query<{ held: boolean }>(tryLock, [replayLock(name)]);
      if (row?.held !== true) return null;
    }
    return work(tx);
  });

const tryLock = 'select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as held';
const replayLock = (name: string): string => `hookledger replay of ${name}`;

/** Drops what replays left behind that died; one that runs holds its lock. */
export const dropAbandoned = (sql: Sql): Promise<void> =>
  sql.transaction(async (tx) => {
    const rows = await tx.query<{ name: string }>("select distinct name from read_model where state = 'loading'");
    for (const { name } of rows) {
      const [row] = await tx.query<{ held: boolean }>(tryLock, [replayLock(name)]);
      if (row?.held !== true) continue;
      await underLock(tx);
      await dropLoading(tx, name);
    }
  });
