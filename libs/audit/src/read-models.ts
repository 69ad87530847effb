import type { EventStore, Sql, StoredEvent } from '#event-store';
import { appliedDdl, appliedSpans, lockGeneration, outside } from './applied.js';
import type { Projection, TableName } from './projection.js';
import { applySettingAside, setAsideDdl, type SetAside } from './set-aside.js';

/** A projection's tables as they were built at one time: their number is part of their names. */
export interface Generation {
  readonly name: string;
  readonly generation: number;
  readonly version: number;
  /** `loading`: a replay fills the tables by itself; nobody else writes or reads them, and they have no indexes yet. */
  readonly state: 'loading' | 'building' | 'live' | 'retired';
  /** Global position up to which everything is in the tables; -1 = nothing yet. */
  readonly position: bigint;
}

/** How far a read model is, for health and metrics. */
export interface ReadModelStatus extends Generation {
  readonly setAside: number;
  /** When it last moved. */
  readonly movedAt: Date;
}

/** Name of a table in a generation. */
export const tableNames =
  (generation: number): TableName =>
  (table) =>
    `rm${String(generation)}_${table}`;

/** Name under which a generation follows the log. */
export const followerName = ({ name, generation }: Pick<Generation, 'name' | 'generation'>): string =>
  `read-model:${name}:${String(generation)}`;

/** How long tables that were replaced stay, for queries that are under way, ms. */
export const retiredTablesStayMs = 60_000;

const lockKey = 7_204_115_301;

/**
 * Makes the registry of read models and, for every projection whose version has no tables yet, a generation of tables:
 * the live one at the first start, else one that is built beside it. Returns those that this program is to follow the
 * log with. Safe to run on many replicas at once.
 */
export const openReadModels = (sql: Sql, projections: readonly Projection[]): Promise<readonly Generation[]> =>
  sql.transaction(async (tx) => {
    await openRegistry(tx);
    const open: Generation[] = [];
    for (const projection of projections) open.push(...(await generationsOf(tx, projection)));
    return open;
  });

/** Begins to build a projection again from the log, beside the tables that are being read. */
export const rebuildReadModel = (sql: Sql, projection: Projection): Promise<Generation> =>
  sql.transaction(async (tx) => {
    await underLock(tx);
    await dropOthersBuilding(tx, projection);
    return newGeneration(tx, projection, 'building');
  });

/** A build that is begun again goes on from nothing: what was built before is dropped. */
export const dropOthersBuilding = async (sql: Sql, projection: Projection): Promise<void> => {
  for (const old of await findGenerations(sql, projection.name)) {
    if (old.state === 'building') await dropGeneration(sql, old, projection.tables);
  }
};

/** Drops what a replay of this read model left behind. */
export const dropLoading = async (sql: Sql, name: string): Promise<void> => {
  const rows = await sql.query(
    `select ${generationColumns}, tables from read_model where name = $1 and state = 'loading'`,
    [name],
  );
  for (const row of rows) await dropGeneration(sql, toGeneration(row), row.tables as readonly string[]);
};

/** Makes the registry where it is missing, and holds its lock. */
export const openRegistry = async (sql: Sql): Promise<void> => {
  await underLock(sql);
  for (const statement of registryDdl) await sql.query(statement);
};

/** Held by whoever makes or drops tables of read models, until the transaction ends. */
export const underLock = async (sql: Sql): Promise<void> => {
  await sql.query('select pg_advisory_xact_lock($1)', [String(lockKey)]);
};

const registryDdl = [
  `create table if not exists read_model (
    name text not null, generation int not null, version int not null, state text not null, position bigint not null,
    tables text[] not null, moved_at timestamptz not null default now(), retired_at timestamptz,
    primary key (name, generation)
  ) with (fillfactor = 10)`,
  "create unique index if not exists read_model_live on read_model (name) where state = 'live'",
  'create sequence if not exists read_model_generation as int',
  setAsideDdl,
  ...appliedDdl,
];

/** Usually one; while a version is built again, the live tables and those beside them. */
const generationsOf = async (sql: Sql, projection: Projection): Promise<readonly Generation[]> => {
  const all = await findGenerations(sql, projection.name);
  const own = all.filter(({ version, state }) => version === projection.version && isOpen(state));
  if (own.length > 0) return own;
  return [await newGeneration(sql, projection, all.some(({ state }) => state === 'live') ? 'building' : 'live')];
};

const isOpen = (state: Generation['state']): boolean => state === 'live' || state === 'building';

/** Makes a generation's tables. */
export const newGeneration = async (
  sql: Sql,
  projection: Projection,
  state: Generation['state'],
): Promise<Generation> => {
  const [numbered] = await sql.query(`select nextval('read_model_generation')::int as generation`);
  const generation = Number(numbered?.generation);
  await projection.create(sql, tableNames(generation));
  if (state !== 'loading') await projection.index?.(sql, tableNames(generation));
  await sql.query(
    'insert into read_model (name, generation, version, state, position, tables) values ($1, $2, $3, $4, -1, $5)',
    [projection.name, generation, projection.version, state, projection.tables],
  );
  return { name: projection.name, generation, version: projection.version, state, position: -1n };
};

export const generationColumns = 'name, generation, version, state, position';

export const toGeneration = (row: Record<string, unknown>): Generation => ({
  name: String(row.name),
  generation: Number(row.generation),
  version: Number(row.version),
  state: row.state as Generation['state'],
  position: BigInt(String(row.position)),
});

/** All generations of a read model, newest first. */
export const findGenerations = async (sql: Sql, name: string): Promise<readonly Generation[]> =>
  (await sql.query(`select ${generationColumns} from read_model where name = $1 order by generation desc`, [name])).map(
    toGeneration,
  );

/** Drops a generation's tables, and what is noted of it. */
export const dropGeneration = async (
  sql: Sql,
  { name, generation }: Generation,
  tables: readonly string[],
): Promise<void> => {
  for (const table of tables) await sql.query(`drop table if exists ${tableNames(generation)(table)}`);
  await sql.query('delete from read_model where name = $1 and generation = $2', [name, generation]);
  await sql.query('delete from read_model_set_aside where name = $1 and generation = $2', [name, generation]);
  await sql.query('delete from read_model_span where generation = $1', [generation]);
  await sql.query('delete from read_model_partition where generation = $1', [generation]);
};

/** What became of a batch. */
export interface Handled {
  /** `retired`: other tables took this generation's place; stop following. */
  readonly state: Generation['state'];
  readonly setAside: readonly SetAside[];
}

/**
 * Takes the next events of the log into a generation's tables, inside the transaction of the follower's checkpoint. An
 * event that cannot be applied is set aside by itself (ADR 6). A generation that was being built takes the live
 * one's place as soon as it holds no less.
 */
export const handleEvents = async (
  projection: Projection,
  { name, generation }: Pick<Generation, 'name' | 'generation'>,
  events: readonly StoredEvent[],
  sql: Sql,
  store: EventStore,
): Promise<Handled> => {
  // The log is the truth: after a crash the last rows are written again, so their commit need not wait for the disk.
  await sql.query('set local synchronous_commit to off');
  await lockGeneration(sql, generation, 'alone');
  const [row] = await sql.query(
    `select ${generationColumns} from read_model where name = $1 and generation = $2 for update`,
    [name, generation],
  );
  if (row === undefined || row.state === 'retired' || row.state === 'loading')
    return { state: 'retired', setAside: [] };
  const at = toGeneration(row);
  const fresh = events.filter(({ globalPosition }) => globalPosition > at.position);
  const last = fresh.at(-1);
  if (last === undefined) return { state: at.state, setAside: [] };
  const spans = await appliedSpans(sql, generation, fresh[0]?.globalPosition ?? 0n, last.globalPosition);
  const own = outside(spans, fresh).filter(({ event }) => projection.types.includes(event.type));
  const target = { sql, table: tableNames(generation), store };
  const setAside = await applySettingAside(projection, { name, generation }, own, target);
  await sql.query(
    'update read_model set position = $3, moved_at = clock_timestamp() where name = $1 and generation = $2',
    [name, generation, last.globalPosition],
  );
  const live = at.state === 'live' || (await takeOver(projection, sql, { ...at, position: last.globalPosition }));
  return { state: live ? 'live' : 'building', setAside };
};

/** Swaps the building generation in when it has reached the live one; false while it is behind. */
export const takeOver = async (
  projection: Projection,
  sql: Sql,
  building: Generation,
  statistics: 'analyze' | 'known' = 'analyze',
): Promise<boolean> => {
  const [row] = await sql.query(
    `select ${generationColumns} from read_model where name = $1 and state = 'live' for update`,
    [building.name],
  );
  const live = row === undefined ? null : toGeneration(row);
  if (live !== null && live.position > building.position) return false;
  if (live !== null) {
    await sql.query(`update read_model set state = 'retired', retired_at = now() where name = $1 and generation = $2`, [
      live.name,
      live.generation,
    ]);
  }
  await sql.query(`update read_model set state = 'live' where name = $1 and generation = $2`, [
    building.name,
    building.generation,
  ]);
  // Fresh tables have no statistics yet, and the first searches would be planned blindly.
  if (statistics === 'known') return true;
  for (const table of projection.tables) await sql.query(`analyze ${tableNames(building.generation)(table)}`);
  return true;
};

/**
 * What this program is to follow now: a rebuild that another process began is among it. A build that has reached the
 * live tables takes their place here too: none of its events may have come since.
 */
export const openGenerations = async (sql: Sql, projections: readonly Projection[]): Promise<readonly Generation[]> => {
  const open: Generation[] = [];
  for (const projection of projections) {
    for (const generation of await reachedGenerations(sql, projection.name)) {
      if (generation.version !== projection.version) continue;
      open.push(generation);
      if (generation.state === 'building') await sql.transaction((tx) => takeOver(projection, tx, generation));
    }
  }
  return open;
};

/**
 * The generations of a read model that are followed or read, with how far they are: up to where the follower has seen
 * everything, which is further than the last event that concerned them.
 */
export const reachedGenerations = async (sql: Sql, name: string): Promise<readonly Generation[]> => {
  const rows = await sql.query(
    `select m.name, m.generation, m.version, m.state, greatest(m.position, f.position) as position
     from read_model m
     left join follower f on f.name = 'read-model:' || m.name || ':' || m.generation and f.shard = 0
     where m.name = $1 and m.state in ('building', 'live') order by m.generation`,
    [name],
  );
  return rows.map(toGeneration);
};

/** Drops a read model altogether, in all its generations. */
export const dropReadModel = (sql: Sql, name: string): Promise<void> =>
  sql.transaction(async (tx) => {
    await openRegistry(tx);
    const rows = await tx.query(`select ${generationColumns}, tables from read_model where name = $1`, [name]);
    for (const row of rows) await dropGeneration(tx, toGeneration(row), row.tables as readonly string[]);
  });

/** Drops tables whose place was taken more than `retiredTablesStayMs` ago. */
export const dropRetired = (sql: Sql, stayMs = retiredTablesStayMs): Promise<void> =>
  sql.transaction(async (tx) => {
    await underLock(tx);
    const rows = await tx.query(
      `select ${generationColumns}, tables from read_model where state = 'retired' and retired_at < now() - make_interval(secs => $1)`,
      [stayMs / 1000],
    );
    for (const row of rows) await dropGeneration(tx, toGeneration(row), row.tables as readonly string[]);
  });

/** Every read model that is followed or built, with how far it is. */
export const readModelStatus = async (sql: Sql): Promise<readonly ReadModelStatus[]> => {
  const rows = await sql.query(
    `select m.name, m.generation, m.version, m.state, m.position, m.moved_at,
       (select count(*) from read_model_set_aside s where s.name = m.name and s.generation = m.generation) as set_aside
     from read_model m where m.state in ('building', 'live') order by m.name, m.generation`,
  );
  return rows.map((row) => ({
    ...toGeneration(row),
    setAside: Number(row.set_aside),
    movedAt: row.moved_at as Date,
  }));
};
