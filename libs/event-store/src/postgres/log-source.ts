import pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import type {
  AccountRow,
  BlobRow,
  CheckpointRow,
  DataKeyRow,
  DataKeyState,
  EventRow,
  LogFacts,
  LogKeyRow,
  LogSource,
  SizeOfAccount,
  StreamRow,
  StreamStep,
  TileExtent,
  TileRow,
} from '#proof';
import { LogUnavailable } from '../event-store.js';
import type { CopiedRow } from './copy-rows.js';
import {
  bytesAt,
  int2At,
  int4At,
  int8At,
  isNullAt,
  latin1At,
  prefixedAt,
  readCopiedRows,
  repeatingText,
  textAt,
  timeAt,
  uuidAt,
} from './copy-rows.js';
import { codeOf } from './faults.js';

/** A log in Postgres, open to be read as it was at one moment. */
export interface OpenLogSource {
  readonly source: LogSource;
  close(): Promise<void>;
}

/** The database is no log, or not one that this version can read; the words say what to do. */
export class NoLog extends Error {
  override readonly name = 'NoLog';
}

const tables = [
  'event',
  'head',
  'account_head',
  'stream',
  'blob',
  'data_key',
  'tile',
  'tree',
  'checkpoint',
  'log_key',
  'log_format',
  'master_in_force',
];

/**
 * Opens a log to be verified. Everything is read in one snapshot, so that what is written meanwhile raises no alarm; the
 * database needs to grant nothing but reading. Rejects with `NoLog` or `LogUnavailable`.
 */
export const openLogSource = async (connectionString: string): Promise<OpenLogSource> => {
  const clients: pg.Client[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(clients.map((client) => client.end().catch(() => undefined)));
  };
  try {
    const scans = await connect(connectionString, clients);
    const lookups = await connect(connectionString, clients);
    await checkTables(scans);
    await shareSnapshot(scans, lookups);
    return { source: new PostgresLogSource(scans, lookups), close };
  } catch (error) {
    await close();
    if (error instanceof NoLog) throw error;
    throw new LogUnavailable(`the log cannot be read (${codeOf(error) ?? 'unknown'})`);
  }
};

const connect = async (connectionString: string, clients: pg.Client[]): Promise<pg.Client> => {
  const client = new pg.Client({
    connectionString,
    application_name: 'hookledger verify',
    connectionTimeoutMillis: 10_000,
    statement_timeout: 0,
    idle_in_transaction_session_timeout: 0,
  });
  // A connection that breaks fails the query that runs, or the next.
  client.on('error', () => undefined);
  clients.push(client);
  await client.connect();
  return client;
};

const checkTables = async (client: pg.Client): Promise<void> => {
  const { rows } = await client.query<{ name: string; kind: string | null; veiled: boolean | null }>(
    `select t.name, c.relkind::text as kind, c.relrowsecurity or c.relhasrules as veiled
      from unnest($1::text[]) t(name) left join pg_class c on c.oid = to_regclass(t.name)`,
    [tables],
  );
  const missing = rows.filter(({ kind }) => kind === null).map(({ name }) => name);
  if (missing.includes('event')) throw new NoLog('there is no log of Hookledger in this database');
  if (missing.length > 0) {
    throw new NoLog(`the database has no ${missing.join(', ')}: start this version of the server on it once`);
  }
  // What such a table shows to a verifier need not be what it shows to others.
  const veiled = rows.filter((row) => row.veiled === true || !['r', 'p'].includes(row.kind ?? ''));
  if (veiled.length === 0) return;
  const names = veiled.map(({ name }) => name).join(', ');
  throw new NoLog(`${names} is a view, or has rules or row security: what it shows may not be what is stored`);
};

const shareSnapshot = async (one: pg.Client, other: pg.Client): Promise<void> => {
  for (const client of [one, other]) await client.query('begin isolation level repeatable read, read only');
  const { rows } = await one.query<{ id: string }>('select pg_export_snapshot() as id');
  await other.query(`set transaction snapshot ${other.escapeLiteral(rows[0]?.id ?? '')}`);
  for (const client of [one, other]) await client.query("set local datestyle = 'ISO'; set local jit = off");
  // An index gives the order. Sorting the whole log would write all of it to disk first.
  await one.query('set local enable_sort = off');
  await other.query('set local cursor_tuple_fraction = 1');
};

const eventColumns = `position, account_position, stream, version, id, type, schema, recorded_at, occurred_at,
  session_id, leaf, tag, bytes`;

class PostgresLogSource implements LogSource {
  private cursors = 0;

  constructor(
    /** Carries one COPY at a time. */
    private readonly scans: pg.Client,
    /** Carries what is asked for meanwhile. */
    private readonly lookups: pg.Client,
  ) {}

  async facts(): Promise<LogFacts> {
    const [row] = await this.ask<{ head: string | null; untagged: string | null; log_id: string; mac: Buffer }>(
      `select (select position from head) as head, f.untagged_until as untagged, f.log_id, f.mac
        from (select) one left join log_format f on true`,
    );
    const masters = await this.ask<{ id: string; former: string | null }>('select id, former from master_in_force');
    return {
      head: numberOf(row?.head ?? null),
      logId: row?.log_id ?? null,
      untaggedUntil: numberOf(row?.untagged ?? null) ?? -1,
      mac: row?.mac ?? null,
      masters: masters.flatMap(({ id, former }) => (former === null ? [id] : [id, former])),
    };
  }

  async *accounts(): AsyncIterable<AccountRow> {
    const batches = this.walk<AccountSizes>(
      `with recursive of_events as (${skipping('event')}), of_tiles as (${skipping('tile')}),
          of_checkpoints as (${skipping('checkpoint')}), of_streams as (${skipping('stream')}),
          accounts as (
            select account from account_head union select account from tree union select account from of_events
            union select account from of_tiles union select account from of_checkpoints
            union select account from of_streams
          )
        select a.account, h.size, (select max(c.size) from checkpoint c where c.account = a.account) as sealed,
            t.size as tree_size, t.signed as tree_signed, t.refused as tree_refused
          from accounts a left join account_head h using (account) left join tree t using (account)
          where a.account is not null order by a.account`,
      [],
    );
    for await (const rows of batches) for (const row of rows) yield accountOf(row);
  }

  events(account: string): AsyncIterable<readonly EventRow[]> {
    return this.copy(`${this.eventsOf(account)} order by account_position, position`, eventReader(account));
  }

  async *eventsOfTypes(account: string, types: readonly string[]): AsyncIterable<readonly EventRow[]> {
    const wanted = types.map((type) => this.scans.escapeLiteral(type)).join(', ');
    const [found] = await this.ask('select from event where account = $1 and type = any ($2) limit 1', [
      account,
      types,
    ]);
    if (found === undefined) return;
    yield* this.copy(
      `${this.eventsOf(account)} and type in (${wanted}) order by account_position, position`,
      eventReader(account),
    );
  }

  private eventsOf(account: string): string {
    return `select ${eventColumns} from event where account = ${this.scans.escapeLiteral(account)}`;
  }

  positions(): AsyncIterable<readonly number[]> {
    return this.copy('select position from event order by position', (row) => int8At(row, 0));
  }

  streamsByLast(account: string): AsyncIterable<readonly StreamRow[]> {
    return this.streams(account, 'last, id');
  }

  streamsById(account: string): AsyncIterable<readonly StreamRow[]> {
    return this.streams(account, 'id');
  }

  private streams(account: string, order: string): AsyncIterable<readonly StreamRow[]> {
    return this.walk<Texts<StreamRow>, StreamRow>(
      `select id, version::text, first::text, last::text from stream where account = $1 order by ${order}`,
      [account],
      ({ id, version, first, last }) => ({ id, version: Number(version), first: Number(first), last: Number(last) }),
    );
  }

  streamSteps(account: string): AsyncIterable<readonly StreamStep[]> {
    return this.copy(
      `select stream, version, position, account_position from event
        where account = ${this.scans.escapeLiteral(account)} order by stream, version, position`,
      (row) => ({
        stream: textAt(row, 0),
        version: int4At(row, 1),
        position: int8At(row, 2),
        accountPosition: int8At(row, 3),
      }),
    );
  }

  tiles(account: string, level: number): AsyncIterable<readonly TileRow[]> {
    return this.walk<{ idx: string; hashes: Buffer }, TileRow>(
      'select idx, hashes from tile where account = $1 and level = $2 order by idx',
      [account, level],
      ({ idx, hashes }) => ({ index: Number(idx), hashes }),
      200,
    );
  }

  async tileExtent(account: string): Promise<TileExtent> {
    const [row] = await this.ask<{ levels: string | null; leaves: string | null }>(
      `select (select max(level) + 1 from tile where account = $1) as levels,
          (select idx * 256 + octet_length(hashes) / 32 from tile where account = $1 and level = 0
            order by idx desc limit 1) as leaves`,
      [account],
    );
    return { levels: Number(row?.levels ?? 0), leaves: Number(row?.leaves ?? 0) };
  }

  checkpoints(account: string): AsyncIterable<readonly CheckpointRow[]> {
    return this.walk<StoredCheckpoint, CheckpointRow>(
      'select size, root, note, signed_at, key_id from checkpoint where account = $1 order by size',
      [account],
      ({ size, root, note, signed_at, key_id }) => ({
        size: Number(size),
        root,
        note,
        signedAt: msOf(signed_at) ?? Number.NaN,
        keyId: key_id,
      }),
      500,
    );
  }

  async checkpointRoots(wanted: readonly SizeOfAccount[]): Promise<readonly (Buffer | null)[]> {
    const rows = await this.ask<{ root: Buffer | null }>(
      `select c.root from unnest($1::text[], $2::bigint[]) with ordinality w(account, size, ord)
        left join checkpoint c on c.account = w.account and c.size = w.size order by w.ord`,
      [wanted.map(({ account }) => account), wanted.map(({ size }) => size)],
    );
    return rows.map(({ root }) => root);
  }

  async logKeys(): Promise<readonly LogKeyRow[]> {
    const rows = await this.ask<StoredLogKey>(
      'select id, name, public_key, wrapped, valid_from, valid_until from log_key order by id',
    );
    return rows.map((row) => ({
      id: row.id,
      name: row.name,
      publicKey: row.public_key,
      wrapped: row.wrapped,
      validFrom: msOf(row.valid_from),
      validUntil: msOf(row.valid_until),
    }));
  }

  blobs(): AsyncIterable<readonly BlobRow[]> {
    return this.copy('select hash, key_id, bytes from blob', (row) => ({
      hash: bytesAt(row, 0).toString('hex'),
      keyId: isNullAt(row, 1) ? null : textAt(row, 1),
      bytes: bytesAt(row, 2),
    }));
  }

  async blobsThere(hashes: readonly string[]): Promise<ReadonlyMap<string, string | null>> {
    const rows = await this.ask<{ hash: string; key_id: string | null }>(
      `select encode(hash, 'hex') as hash, key_id from blob
        where hash in (select decode(w.hash, 'hex') from unnest($1::text[]) w(hash))`,
      [hashes],
    );
    return new Map(rows.map(({ hash, key_id }) => [hash, key_id]));
  }

  dataKeys(): AsyncIterable<readonly DataKeyRow[]> {
    return this.copy('select id, account, scope, wrapped, master, erased_at from data_key', (row) => ({
      id: textAt(row, 0),
      account: textAt(row, 1),
      scope: textAt(row, 2),
      wrapped: isNullAt(row, 3) ? null : Buffer.from(bytesAt(row, 3)),
      master: textAt(row, 4),
      erasedAt: isNullAt(row, 5) ? null : timeAt(row, 5),
    }));
  }

  async dataKeysThere(ids: readonly string[]): Promise<ReadonlyMap<string, DataKeyState>> {
    const rows = await this.ask<{ id: string; account: string; erased: boolean }>(
      'select id, account, wrapped is null as erased from data_key where id = any ($1)',
      [ids],
    );
    return new Map(rows.map(({ id, account, erased }) => [id, { account, isErased: erased }]));
  }

  private async ask<R extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<readonly R[]> {
    return (await this.lookups.query<R>(text, [...values])).rows;
  }

  private async *copy<T>(query: string, read: (row: CopiedRow) => T): AsyncIterable<readonly T[]> {
    const stream = this.scans.query(
      copyTo(`copy (${query}) to stdout (format binary)`, { highWaterMark: 1024 * 1024 }),
    );
    yield* readCopiedRows(stream as AsyncIterable<Buffer>, read);
  }

  /** A cursor of the database: several may be open at once, each at its own place. */
  private async *walk<R extends pg.QueryResultRow, T = R>(
    query: string,
    values: readonly unknown[],
    read: (row: R) => T = (row) => row as unknown as T,
    batch = 2_000,
  ): AsyncIterable<readonly T[]> {
    this.cursors += 1;
    const name = `walk_${this.cursors}`;
    await this.lookups.query(`declare ${name} no scroll cursor for ${query}`, [...values]);
    try {
      for (;;) {
        const { rows } = await this.lookups.query<R>(`fetch forward ${batch} from ${name}`);
        if (rows.length > 0) yield rows.map(read);
        if (rows.length < batch) return;
      }
    } finally {
      await this.lookups.query(`close ${name}`).catch(() => undefined);
    }
  }
}

/** Each account of a table once, from index entry to index entry: not by going through all rows. */
const skipping = (table: string): string => `
  (select account from ${table} order by account limit 1)
  union all
  select (select e.account from ${table} e where e.account > of_${table}s.account order by e.account limit 1)
    from of_${table}s where of_${table}s.account is not null`;

interface AccountSizes {
  readonly account: string;
  readonly size: string | null;
  readonly sealed: string | null;
  readonly tree_size: string | null;
  readonly tree_signed: string | null;
  readonly tree_refused: string | null;
}

const accountOf = (row: AccountSizes): AccountRow => ({
  account: row.account,
  size: numberOf(row.size),
  sealed: numberOf(row.sealed),
  tree:
    row.tree_size === null
      ? null
      : {
          size: Number(row.tree_size),
          signed: Number(row.tree_signed),
          refused: numberOf(row.tree_refused),
        },
});

interface StoredCheckpoint {
  readonly size: string;
  readonly root: Buffer;
  readonly note: string;
  readonly signed_at: Date | number;
  readonly key_id: string;
}

interface StoredLogKey {
  readonly id: string;
  readonly name: string;
  readonly public_key: Buffer;
  readonly wrapped: Buffer | null;
  readonly valid_from: Date | number | null;
  readonly valid_until: Date | number | null;
}

type Texts<T> = { readonly [K in keyof T]: string };

const numberOf = (text: string | null): number | null => (text === null ? null : Number(text));

/** The driver gives times without an end as numbers. */
const msOf = (time: Date | number | null): number | null => (time === null ? null : Number(time));

const eventReader = (account: string): ((row: CopiedRow) => EventRow) => {
  const [streamAt, typeAt, sessionAt] = [repeatingText(), repeatingText(), repeatingText()];
  return (row) => ({
    position: int8At(row, 0),
    account,
    accountPosition: int8At(row, 1),
    stream: streamAt(row, 2),
    version: int4At(row, 3),
    id: uuidAt(row, 4),
    type: typeAt(row, 5),
    schema: int2At(row, 6),
    recordedAt: timeAt(row, 7),
    occurredAt: timeAt(row, 8),
    sessionId: isNullAt(row, 9) ? null : sessionAt(row, 9),
    leaf: latin1At(row, 10),
    tag: latin1At(row, 11),
    prefixed: prefixedAt(row, 12),
  });
};
