import type { Row, Sql } from '#event-store';
import type { Projection } from './projection.js';
import { tableNames, type Generation } from './read-models.js';

/** A row in which two generations of a read model do not agree. Names columns and keys, never what stands in them. */
export interface RowDifference {
  readonly table: string;
  /** `missing`: the live tables lack it. `extra`: only they have it. `different`: both have it, and not alike. */
  readonly kind: 'missing' | 'extra' | 'different';
  /** Columns of the primary key, as text. */
  readonly key: Readonly<Record<string, string>>;
  /** Columns that are not alike; empty where a side has no such row. */
  readonly columns: readonly string[];
}

/** One side of a comparison: tables, and a transaction that sees them as they are to be compared. */
export interface ComparedSide {
  readonly sql: Sql;
  readonly generation: Generation;
}

const rowsAtOnce = 2_000;

/**
 * Compares the tables of two generations row by row, in the order of their primary keys, with a step of rows in memory.
 * Both sides must stand at the same position.
 */
export async function* compareTables(
  projection: Projection,
  live: ComparedSide,
  rebuilt: ComparedSide,
): AsyncGenerator<RowDifference, void> {
  for (const table of projection.tables) {
    const compared = projection.compared?.[table];
    yield* compareTable(table, {
      live: await openRows(live, table, compared),
      rebuilt: await openRows(rebuilt, table, compared),
    });
  }
}

/** A table as rows to compare, where its own columns hold numbers that differ from one generation to the next. */
export interface ComparedRows {
  /** `select` over the generation's tables. */
  readonly select: (table: (name: string) => string) => string;
  /** Columns of it that name a row. */
  readonly key: readonly string[];
}

interface Sides<T> {
  readonly live: T;
  readonly rebuilt: T;
}

interface ReadRows {
  next(): Promise<ReadRow | null>;
  /** The columns of one row by name. */
  columns(row: ReadRow): Promise<Readonly<Record<string, unknown>>>;
  readonly keyColumns: readonly KeyColumn[];
}

interface ReadRow {
  readonly key: readonly string[];
  readonly text: string;
}

interface KeyColumn {
  readonly name: string;
  readonly order: 'number' | 'bytes';
}

async function* compareTable(table: string, { live, rebuilt }: Sides<ReadRows>): AsyncGenerator<RowDifference, void> {
  let [ours, theirs] = [await live.next(), await rebuilt.next()];
  while (ours !== null || theirs !== null) {
    const order = orderOf(live.keyColumns, ours, theirs);
    const key = named(live.keyColumns, (order <= 0 ? ours : theirs) ?? ours);
    if (order < 0) yield { table, kind: 'extra', key, columns: [] };
    if (order > 0) yield { table, kind: 'missing', key, columns: [] };
    if (order === 0 && ours !== null && theirs !== null && ours.text !== theirs.text) {
      const columns = differing(await live.columns(ours), await rebuilt.columns(theirs));
      yield { table, kind: 'different', key, columns };
    }
    if (order <= 0) ours = await live.next();
    if (order >= 0) theirs = await rebuilt.next();
  }
}

/** Less than 0: the live row comes first, or is alone. */
const orderOf = (columns: readonly KeyColumn[], ours: ReadRow | null, theirs: ReadRow | null): number => {
  if (ours === null) return 1;
  if (theirs === null) return -1;
  for (const [index, { order }] of columns.entries()) {
    const [one, other] = [ours.key[index] ?? '', theirs.key[index] ?? ''];
    if (one === other) continue;
    if (order === 'bytes') return Buffer.compare(Buffer.from(one), Buffer.from(other));
    return BigInt(one) < BigInt(other) ? -1 : 1;
  }
  return 0;
};

const named = (columns: readonly KeyColumn[], row: ReadRow | null): Readonly<Record<string, string>> =>
  Object.fromEntries(columns.map(({ name }, index) => [name, row?.key[index] ?? '']));

const differing = (
  one: Readonly<Record<string, unknown>>,
  other: Readonly<Record<string, unknown>>,
): readonly string[] =>
  [...new Set([...Object.keys(one), ...Object.keys(other)])].filter(
    (name) => JSON.stringify(one[name]) !== JSON.stringify(other[name]),
  );

const openRows = async (
  { sql, generation }: ComparedSide,
  table: string,
  compared?: ComparedRows,
): Promise<ReadRows> => {
  const names = tableNames(generation.generation);
  const from = compared === undefined ? names(table) : `(${compared.select(names)})`;
  const columns = await keyColumnsOf(sql, names(table), from, compared?.key);
  const cursor = `compared_${names(table)}`;
  const sorted = columns.map(({ name, order }) => (order === 'bytes' ? `(t.${name}::text) collate "C"` : `t.${name}`));
  await sql.query(
    `declare ${cursor} no scroll cursor for select array[${columns.map(({ name }) => `t.${name}::text`).join(', ')}] as key,
       t::text as text from ${from} t order by ${sorted.join(', ')}`,
  );
  let rows: readonly ReadRow[] = [];
  let at = 0;
  return {
    keyColumns: columns,
    next: async () => {
      if (at === rows.length) {
        rows = await sql.query<{ key: string[]; text: string }>(`fetch ${String(rowsAtOnce)} from ${cursor}`);
        at = 0;
        if (rows.length === 0) await sql.query(`close ${cursor}`).catch(() => undefined);
      }
      at += 1;
      return rows[at - 1] ?? null;
    },
    columns: async ({ key }) => {
      const where = columns.map(({ name }, index) => `t.${name}::text = $${String(index + 1)}`).join(' and ');
      const [row] = await sql.query<Row & { row: Record<string, unknown> }>(
        `select to_jsonb(t) as row from ${from} t where ${where}`,
        key,
      );
      return row?.row ?? {};
    },
  };
};

/** The columns that name a row: of the primary key, or those that the projection says. */
const keyColumnsOf = async (
  sql: Sql,
  table: string,
  from: string,
  said: readonly string[] | undefined,
): Promise<readonly KeyColumn[]> => {
  const rows = await sql.query<{ name: string; type: string }>(
    said === undefined
      ? `select a.attname as name, format_type(a.atttypid, null) as type
           from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
           where i.indrelid = $1::regclass and i.indisprimary order by array_position(i.indkey::int2[], a.attnum)`
      : `select k.name, case k.name ${said.map((name) => `when '${name}' then pg_typeof(s.${name})::text`).join(' ')} end as type
           from unnest($1::text[]) with ordinality k(name, ord) left join lateral (select * from ${from} t limit 1) s on true
           order by k.ord`,
    [said ?? table],
  );
  return rows.map(({ name, type }) => ({ name, order: numbers.has(type) ? 'number' : 'bytes' }));
};

const numbers = new Set(['bigint', 'integer', 'smallint']);
