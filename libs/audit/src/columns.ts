import { createHash } from 'node:crypto';
import type { Sql } from '#event-store';
import { canonicalJson, type Json } from '#record';

/** What the driver can put into a column, or an element of an array parameter. */
export type Cell = string | number | boolean | bigint | Buffer | null;

/** One column of a batch: its name, the type of its array parameter, and how a row gives it. */
export interface Column<R> {
  readonly name: string;
  readonly type: 'text' | 'bigint' | 'int' | 'boolean' | 'timestamptz' | 'date' | 'bytea' | 'texts';
  readonly of: (row: R) => Cell;
}

/** Separates the items of a `texts` column on their way; it is a control character, which no id holds. */
const itemSeparator = '\u001f';

/** The items of a `texts` column. */
export const texts = (items: Iterable<string>): string => [...items].join(itemSeparator);

const parameterType = (type: Column<never>['type']): string => (type === 'texts' ? 'text[]' : `${type}[]`);

const selected = (column: Column<never>): string =>
  column.type === 'texts' ? `string_to_array(nullif(x.${column.name}, ''), chr(31))` : `x.${column.name}`;

/** The columns of `rows` as array parameters, for `unnest`. */
export const columnArrays = <R>(columns: readonly Column<R>[], rows: readonly R[]): readonly (readonly Cell[])[] =>
  columns.map((column) => rows.map(column.of));

/** `unnest($1::text[], …) as x(a, …)`: a batch of rows as a table in SQL. */
export const batchOf = <R>(columns: readonly Column<R>[], alias = 'x'): string => {
  const parameters = columns.map((column, index) => `$${String(index + 1)}::${parameterType(column.type)}`);
  return `unnest(${parameters.join(', ')}) as ${alias}(${columns.map((column) => column.name).join(', ')})`;
};

/** Inserts all rows in one statement; `conflict` says what happens to those that are there. */
export const insertBatch = async <R>(
  sql: Sql,
  table: string,
  columns: readonly Column<R>[],
  rows: readonly R[],
  conflict: string,
): Promise<void> => {
  if (rows.length === 0) return;
  const names = columns.map((column) => column.name).join(', ');
  await sql.query(
    `insert into ${table} (${names}) select ${columns.map(selected).join(', ')} from ${batchOf(columns)} ${conflict}`,
    columnArrays(columns, rows),
  );
};

/** Text that a column takes: Postgres keeps neither NUL nor a lone surrogate. Only for names and codes, never content. */
export const columnText = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd');

export const columnTextOrNull = (text: string | undefined | null): string | null =>
  text === undefined || text === null ? null : columnText(text);

/** JSON as the log has it, so that an event straight from its append and one that was read back make the same row. */
export const columnJson = (value: Json | undefined): string => canonicalJson(value ?? null);

export const columnJsonOrNull = (value: unknown): string | null =>
  value === undefined || value === null ? null : canonicalJson(value as Json);

const indexedLength = 300;

/**
 * Text of any length as an index entry takes it: long ones are cut and told apart by a hash. A filter passes its value
 * through the same function.
 */
export const indexedText = (text: string): string => {
  const clean = columnText(text);
  if (clean.length <= indexedLength) return clean;
  const hash = createHash('sha256').update(clean).digest('hex');
  return `${clean.slice(0, indexedLength).toWellFormed()}…${hash}`;
};

/**
 * A table's text columns compared by bytes: ids and codes have no language, and their indexes stay right whatever the
 * database's own order is, and when that one changes.
 */
export const bytewise = (ddl: string): string => ddl.replace(/ text(?=[ ,\n])/g, ' text collate "C"');
