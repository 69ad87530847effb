import type { EventStore, Sql, StoredEvent } from '#event-store';
import { appliedSpans, joinSpans, lockGeneration, noteApplied, outside, withoutPurged, type Span } from './applied.js';
import type { Projection } from './projection.js';
import {
  followerName,
  generationColumns,
  reachedGenerations,
  tableNames,
  takeOver,
  toGeneration,
  type Generation,
  type Handled,
} from './read-models.js';
import { applySettingAside } from './set-aside.js';

/** Where a partition's events end. */
export interface PartitionEnd {
  readonly topic: string;
  readonly partition: number;
  /** Offset up to which this member knows the partition to be taken already. */
  readonly before: bigint;
  /** Offset of the message after the last one. */
  readonly nextOffset: bigint;
}

/** What became of events of a partition. */
export type PartitionHandled =
  | Handled
  /**
   * The database says that less of the partition was taken than this member knows of: it lost its last commits. Read
   * on from there.
   */
  | { readonly state: 'behind' };

/**
 * Takes events of one partition into a generation's tables, in a transaction of the caller's; several workers may do
 * so at once with different partitions. Which positions were applied is noted in the same commit, so what comes again
 * (a repeat of the relay, another owner after a rebalance, a crash) has no second effect. The rows of a partition are
 * one worker's at a time, whoever the broker thinks owns it. Only for projections of order `session`.
 */
export const handlePartition = async (
  projection: Projection,
  { name, generation }: Pick<Generation, 'name' | 'generation'>,
  events: readonly StoredEvent[],
  end: PartitionEnd,
  sql: Sql,
  store: EventStore,
): Promise<PartitionHandled> => {
  await lockGeneration(sql, generation, 'beside');
  if ((await lockPartition(sql, generation, end)) < end.before) return { state: 'behind' };
  const given = inOrder(events);
  // Before the complete part: what is joined to it meanwhile is in one of the two, and never in neither.
  const spans = await appliedSpans(
    sql,
    generation,
    given[0]?.globalPosition ?? 0n,
    given.at(-1)?.globalPosition ?? -1n,
  );
  const found = (await reachedGenerations(sql, name)).find((one) => one.generation === generation);
  if (found === undefined) return { state: 'retired', setAside: [] };
  const fresh = given.filter(({ globalPosition }) => globalPosition > found.position);
  const unapplied = outside(spans, fresh);
  const wanted = unapplied.filter(({ event }) => projection.types.includes(event.type));
  const own = await withoutPurged(sql, wanted);
  const target = { sql, table: tableNames(generation), store };
  const setAside = await applySettingAside(projection, { name, generation }, own, target);
  await noteApplied(
    sql,
    generation,
    unapplied.map(({ globalPosition }) => globalPosition),
  );
  await movePartition(sql, generation, end, given.at(-1)?.globalPosition ?? -1n);
  return { state: found.state === 'live' ? 'live' : 'building', setAside };
};

/** A repeat follows what it repeats; each event once, ascending. */
const inOrder = (events: readonly StoredEvent[]): readonly StoredEvent[] => {
  const isRising = events.every(
    (stored, at) => at === 0 || stored.globalPosition > (events[at - 1]?.globalPosition ?? 0n),
  );
  if (isRising) return events;
  const byPosition = new Map(events.map((stored) => [stored.globalPosition, stored]));
  return [...byPosition.values()].sort((a, b) => (a.globalPosition < b.globalPosition ? -1 : 1));
};

/** Answers with the offset up to which the partition was taken. */
const lockPartition = async (sql: Sql, generation: number, { topic, partition }: PartitionEnd): Promise<bigint> => {
  const key = [generation, topic, partition];
  const lock = `select next_offset from read_model_partition
    where generation = $1 and topic = $2 and partition = $3 for update`;
  const [row] = await sql.query<{ next_offset: string }>(lock, key);
  if (row !== undefined) return BigInt(row.next_offset);
  await sql.query(
    'insert into read_model_partition (generation, topic, partition) values ($1, $2, $3) on conflict do nothing',
    key,
  );
  const [made] = await sql.query<{ next_offset: string }>(lock, key);
  return BigInt(made?.next_offset ?? 0);
};

const movePartition = async (
  sql: Sql,
  generation: number,
  { topic, partition, nextOffset }: PartitionEnd,
  position: bigint,
): Promise<void> => {
  await sql.query(
    `update read_model_partition set next_offset = $4, position = greatest(position, $5)
     where generation = $1 and topic = $2 and partition = $3`,
    [generation, topic, partition, nextOffset, position],
  );
};

/** A partition of a topic, as far as a generation has taken it. */
export interface PartitionReached {
  readonly topic: string;
  readonly partition: number;
  /** Highest global position that was taken from it; -1 = none. */
  readonly position: bigint;
  readonly nextOffset: bigint;
}

/** How far a generation has taken each partition that it was given events of. */
export const reachedPartitions = async (sql: Sql, generation: number): Promise<readonly PartitionReached[]> => {
  const rows = await sql.query(
    `select topic, partition, position, next_offset from read_model_partition
     where generation = $1 order by topic, partition`,
    [generation],
  );
  return rows.map((row) => ({
    topic: String(row.topic),
    partition: Number(row.partition),
    position: BigInt(String(row.position)),
    nextOffset: BigInt(String(row.next_offset)),
  }));
};

/**
 * Joins what the partitions brought: answers with the position up to which the generation is complete now, null when
 * it is gone or another worker is at it. A build that has reached the live tables takes their place.
 */
export const joinPartitions = (
  sql: Sql,
  projection: Projection,
  generation: Pick<Generation, 'name' | 'generation'>,
): Promise<bigint | null> =>
  sql.transaction(async (tx) => {
    await tx.query('set local synchronous_commit to off');
    const at = await lockReached(tx, generation);
    if (at === null) return null;
    const position = await joinSpans(tx, generation.generation, at.position);
    if (position === at.position) return position;
    await tx.query(
      `with model as (
         update read_model set position = $3, moved_at = clock_timestamp() where name = $1 and generation = $2
       ) update follower set position = $3 where name = $4 and shard = 0`,
      [generation.name, generation.generation, position, followerName(generation)],
    );
    if (at.state === 'building') await takeOver(projection, tx, { ...at, position });
    return position;
  });

/** The generation, locked as its follower and `handleEvents` lock it, and in their order. */
const lockReached = async (
  sql: Sql,
  { name, generation }: Pick<Generation, 'name' | 'generation'>,
): Promise<Generation | null> => {
  const follower = followerName({ name, generation });
  await sql.query('insert into follower (name, shard) values ($1, 0) on conflict do nothing', [follower]);
  const [checkpoint] = await sql.query<{ position: string }>(
    'select position from follower where name = $1 and shard = 0 for update skip locked',
    [follower],
  );
  const [row] = await sql.query(
    `select ${generationColumns} from read_model where name = $1 and generation = $2 and state <> 'retired' for update skip locked`,
    [name, generation],
  );
  if (checkpoint === undefined || row === undefined) return null;
  const at = toGeneration(row);
  const reached = BigInt(checkpoint.position);
  return { ...at, position: reached > at.position ? reached : at.position };
};

/** Global position up to which everything is in a generation's tables; -1 = nothing yet, or it is gone. */
export const completePosition = async (
  sql: Sql,
  { name, generation }: Pick<Generation, 'name' | 'generation'>,
): Promise<bigint> =>
  (await reachedGenerations(sql, name)).find((one) => one.generation === generation)?.position ?? -1n;

/** What lies between the complete part of a generation and what was applied beyond it; null when nothing does. */
export const findGap = async (
  sql: Sql,
  { name, generation }: Pick<Generation, 'name' | 'generation'>,
): Promise<Span | null> => {
  const [row] = await sql.query<{ position: string; next: string | null }>(
    `select m.position, (select min(s.first) from read_model_span s
         where s.generation = m.generation and s.first > m.position) as next
     from (select m.generation, greatest(m.position, f.position) as position from read_model m
       left join follower f on f.name = $2 and f.shard = 0 where m.generation = $1) m`,
    [generation, followerName({ name, generation })],
  );
  if (row === undefined || row.next === null) return null;
  const [position, next] = [BigInt(row.position), BigInt(row.next)];
  return next > position + 1n ? { first: position + 1n, last: next - 1n } : null;
};

/** Counts a gap as complete: its events are in no topic, because they were removed from the record. */
export const passGap = (sql: Sql, { generation }: Pick<Generation, 'generation'>, gap: Span): Promise<void> =>
  sql.transaction(async (tx) => {
    await lockGeneration(tx, generation, 'alone');
    if ((await appliedSpans(tx, generation, gap.first, gap.last)).length > 0) return;
    await tx.query('insert into read_model_span (generation, first, last) values ($1, $2, $3) on conflict do nothing', [
      generation,
      gap.first,
      gap.last,
    ]);
  });

/** Offsets by topic and partition. */
type Places = ReadonlyMap<string, ReadonlyMap<number, bigint>>;

/**
 * Notes from where the topics have to be read on by who takes them in the order of the log: in the transaction that
 * takes everything up to `position`.
 */
export const savePlaces = async (sql: Sql, generation: number, position: bigint, places: Places): Promise<void> => {
  const rows = [...places].flatMap(([topic, offsets]) => [...offsets].map(([at, offset]) => ({ topic, at, offset })));
  await sql.query(
    `insert into read_model_partition (generation, topic, partition, position, next_offset)
     select $1, p.topic, p.partition, $2, p.next_offset
     from unnest($3::text[], $4::int[], $5::bigint[]) p(topic, partition, next_offset)
     on conflict (generation, topic, partition)
     do update set position = excluded.position, next_offset = excluded.next_offset`,
    [
      generation,
      position,
      rows.map(({ topic }) => topic),
      rows.map(({ at }) => at),
      rows.map(({ offset }) => String(offset)),
    ],
  );
};
