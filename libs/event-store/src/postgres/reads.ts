import type pg from 'pg';
import type { EventType } from '#record';
import { readEvent } from '#record';
import type { ReadRange, StoredEvent } from '../event-store.js';
import { plain } from './append-batch.js';

interface EventRow {
  readonly position: string;
  readonly account_position: string;
  readonly bytes: Buffer;
}

/** A stream's events from a version on. */
export const readStream = async (
  pool: pg.Pool,
  account: string,
  stream: string,
  from: number,
): Promise<readonly StoredEvent[]> =>
  run(pool, {
    name: 'read_stream',
    text: `select position, account_position, bytes from event
      where account = $1 and stream = $2 and version >= $3 order by version`,
    values: [account, stream, from],
  });

/** Number of events that a stream was ever given. */
export const readStreamVersion = async (pool: pg.Pool, account: string, stream: string): Promise<number> => {
  const text = 'select version from stream where account = $1 and id = $2';
  const values = [account, stream];
  const { rows } = await pool.query<{ version: number }>({ name: 'read_stream_version', text, values });
  return rows[0]?.version ?? 0;
};

/** A page of an account's log. */
export const readAccount = (pool: pg.Pool, account: string, range: ReadRange): Promise<readonly StoredEvent[]> =>
  run(pool, accountQuery(account, range));

/** The query of a page. Whatever the filter, an index leads to it: nothing is read to be skipped. */
export const accountQuery = (account: string, range: ReadRange): pg.QueryConfig => {
  const direction = range.order === 'newest' ? 'desc' : 'asc';
  const values: unknown[] = [account, range.limit, String(range.after ?? -1n), String(range.until ?? maxPosition)];
  const place = (value: unknown): string => `$${String(values.push(value))}`;
  const conditions = ['account = $1', 'account_position > $3::bigint', 'account_position <= $4::bigint'];
  if (range.stream !== undefined) conditions.push(`stream = ${place(range.stream)}`);
  if (range.sessionId !== undefined) conditions.push(`session_id = ${place(range.sessionId)}`);
  const types = range.types === undefined ? null : place(plain(range.types));
  // In a stream or a session the events of a type are found among the rest; in a whole account each type has its own
  // stretch of an index, and the pages of all are merged.
  const narrow = range.stream !== undefined || range.sessionId !== undefined;
  const byType = types !== null && !narrow;
  if (types !== null) conditions.push(byType ? 'type = wanted.type' : `type = any (${types}::text[])`);
  // Within a stream, version and position rise together, and only the version is in the stream's index.
  const order = range.stream === undefined ? 'account_position' : 'version';
  const page = `select position, account_position, bytes from event where ${conditions.join(' and ')}
    order by ${order} ${direction} limit $2`;
  const text = byType
    ? `select p.* from unnest(${types}::text[]) wanted(type) cross join lateral (${page}) p
        order by p.account_position ${direction} limit $2`
    : page;
  const filters = [
    range.stream === undefined ? '' : '_stream',
    range.sessionId === undefined ? '' : '_session',
    types === null ? '' : '_types',
  ];
  return { name: `read_account_${direction}${filters.join('')}`, text, values };
};

const maxPosition = 2n ** 63n - 1n;

/** The whole log after a position. */
export const readAll = async (
  pool: pg.Pool,
  after: bigint,
  limit: number,
  types: readonly EventType[] | undefined,
): Promise<readonly StoredEvent[]> => {
  if (types === undefined) {
    const text = 'select position, account_position, bytes from event where position > $1 order by position limit $2';
    return run(pool, { name: 'read_all', text, values: [String(after), limit] });
  }
  const text = `select position, account_position, bytes from event
    where position > $1 and type = any ($3::text[]) order by position limit $2`;
  return run(pool, { name: 'read_all_of_types', text, values: [String(after), limit, plain(types)] });
};

/** Highest global position. */
export const readHead = async (pool: pg.Pool): Promise<bigint> => {
  const { rows } = await pool.query<{ position: string }>({ name: 'read_head', text: 'select position from head' });
  return BigInt(rows[0]?.position ?? -1);
};

/** Number of events of an account. */
export const readAccountSize = async (pool: pg.Pool, account: string): Promise<bigint> => {
  const text = 'select size from account_head where account = $1';
  const { rows } = await pool.query<{ size: string }>({ name: 'read_account_size', text, values: [account] });
  return BigInt(rows[0]?.size ?? 0);
};

/** A blob's bytes. */
export const readBlob = async (pool: pg.Pool, hash: string): Promise<Uint8Array | null> => {
  const text = 'select bytes from blob where hash = $1';
  const { rows } = await pool.query<{ bytes: Buffer }>({ name: 'read_blob', text, values: [Buffer.from(hash, 'hex')] });
  return rows[0]?.bytes ?? null;
};

const run = async (pool: pg.Pool, query: pg.QueryConfig): Promise<readonly StoredEvent[]> =>
  (await pool.query<EventRow>(query)).rows.map((row) => ({
    globalPosition: BigInt(row.position),
    position: BigInt(row.account_position),
    event: readEvent(row.bytes),
    bytes: row.bytes,
  }));
