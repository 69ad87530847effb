import type { Sql, StoredEvent } from '#event-store';

/**
 * What a generation has taken, as a set: everything up to a position, and spans of positions beyond it. From Kafka,
 * partitions progress apart; positions are dense, so what is complete is where the first span begins that touches.
 */
export const appliedDdl = [
  `create table if not exists read_model_span (
    generation int not null, first bigint not null, last bigint not null, primary key (generation, first)
  )`,
  `create table if not exists read_model_partition (
    generation int not null, topic text collate "C" not null, partition int not null,
    position bigint not null default -1, next_offset bigint not null default 0,
    primary key (generation, topic, partition)
  ) with (fillfactor = 50)`,
];

/** First keys of the advisory locks of generations, of 32 bits. */
const generationLocks = 720_411_531;

/**
 * Held until the transaction ends: `alone` for who takes events in the order of the log, `beside` for who takes
 * those of one partition. So a change of the source, or a repair, never applies what is being applied.
 */
export const lockGeneration = async (sql: Sql, generation: number, how: 'alone' | 'beside'): Promise<void> => {
  const lock = how === 'alone' ? 'pg_advisory_xact_lock' : 'pg_advisory_xact_lock_shared';
  await sql.query(`select ${lock}($1, $2)`, [generationLocks, generation]);
};

/** A run of neighbouring positions. */
export interface Span {
  readonly first: bigint;
  readonly last: bigint;
}

/** Positions, ascending, as runs of neighbours. */
export const spansOf = (positions: readonly bigint[]): readonly Span[] => {
  const spans: { first: bigint; last: bigint }[] = [];
  for (const position of positions) {
    const span = spans.at(-1);
    if (span !== undefined && span.last + 1n === position) span.last = position;
    else spans.push({ first: position, last: position });
  }
  return spans;
};

/** The spans beyond the complete part that touch `[first, last]`. */
export const appliedSpans = async (
  sql: Sql,
  generation: number,
  first: bigint,
  last: bigint,
): Promise<readonly Span[]> => {
  const rows = await sql.query<{ first: string; last: string }>(
    `select first, last from read_model_span
     where generation = $1 and first <= $3 and last >= $2 order by first`,
    [generation, first, last],
  );
  return rows.map((row) => ({ first: BigInt(row.first), last: BigInt(row.last) }));
};

/** Items, ascending by position, that no span holds. */
export const outside = <T extends { readonly globalPosition: bigint }>(
  spans: readonly Span[],
  items: readonly T[],
): readonly T[] => {
  if (spans.length === 0) return items;
  let at = 0;
  return items.filter(({ globalPosition }) => {
    while ((spans[at]?.last ?? globalPosition) < globalPosition) at += 1;
    const span = spans[at];
    return span === undefined || globalPosition < span.first;
  });
};

/** Adds what was just applied: positions, ascending, none of them applied before. */
export const noteApplied = async (sql: Sql, generation: number, positions: readonly bigint[]): Promise<void> => {
  const spans = spansOf(positions);
  if (spans.length === 0) return;
  await sql.query(
    `insert into read_model_span (generation, first, last) select $1, s.first, s.last
     from unnest($2::bigint[], $3::bigint[]) s(first, last)`,
    [generation, spans.map(({ first }) => String(first)), spans.map(({ last }) => String(last))],
  );
};

/** Most spans that one look goes over. */
const spansAtOnce = 5_000;

/** Drops the spans that join the complete part without a gap; answers with where that part ends now. */
export const joinSpans = async (sql: Sql, generation: number, complete: bigint): Promise<bigint> => {
  let end = await passSpans(sql, generation, complete);
  for (;;) {
    const reached = await nextEnd(sql, generation, end);
    if (reached === end) return end;
    end = reached;
  }
};

/** Drops what the complete part has reached meanwhile; it may end within a span. */
const passSpans = async (sql: Sql, generation: number, complete: bigint): Promise<bigint> => {
  const [row] = await sql.query<{ last: string | null }>(
    `with passed as (delete from read_model_span where generation = $1 and first <= $2 returning last)
     select max(last) as last from passed`,
    [generation, complete],
  );
  const last = BigInt(row?.last ?? -1);
  return last > complete ? last : complete;
};

/** Spans do not overlap, so those that lie without a gap end where the sum of their lengths says. */
const nextEnd = async (sql: Sql, generation: number, complete: bigint): Promise<bigint> => {
  const [row] = await sql.query<{ last: string | null }>(
    `with beyond as (
       select last, sum(last - first + 1) over (order by first) as covered from
         (select first, last from read_model_span where generation = $1 and first > $2 order by first limit $3) s
     ), joined as (select max(last) as last from beyond where last = $2 + covered),
     dropped as (delete from read_model_span r using joined j where r.generation = $1 and r.first <= j.last)
     select last from joined`,
    [generation, complete, spansAtOnce],
  );
  return row?.last === null || row === undefined ? complete : BigInt(row.last);
};

/**
 * Events that are still in the record. A topic keeps what was purged from the log; a read model that is built from it
 * must not bring it back.
 */
export const withoutPurged = async (sql: Sql, events: readonly StoredEvent[]): Promise<readonly StoredEvent[]> => {
  const [first] = events;
  if (first === undefined) return events;
  const rows = await sql.query<{ account: string; first: string; last: string }>(
    `select p.account, p.first, p.last
     from (select account, min(position) as least, max(position) as most
       from unnest($1::text[], $2::bigint[]) e(account, position) group by account) a
     join purged_range p on p.account = a.account and p.first <= a.most and p.last >= a.least
     order by p.account, p.first`,
    [events.map(({ event }) => event.account), events.map(({ position }) => String(position))],
  );
  if (rows.length === 0) return events;
  const ranges = rows.map((row) => ({ account: row.account, first: BigInt(row.first), last: BigInt(row.last) }));
  return events.filter(
    ({ event, position }) =>
      !ranges.some(({ account, first, last }) => account === event.account && first <= position && position <= last),
  );
};
