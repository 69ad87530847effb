import type { Sql } from '#event-store';
import type { CheckpointRecord, DataKeyRecord, EventRecord, LogKeyRecord } from '#kafka';
import { relayName, type Ownership } from './kafka-relay-lease.js';

/** Events for one round, with whether the log ended there. */
export interface RelayBatch {
  readonly records: readonly EventRecord[];
  readonly isFull: boolean;
}

interface EventRow {
  readonly position: string;
  readonly account_position: string;
  readonly account: string;
  readonly stream: string;
  readonly id: string;
  readonly type: string;
  readonly occurred_at: Date;
  readonly session_id: string | null;
  readonly bytes: Buffer;
  readonly cut: boolean;
}

/**
 * The next events after a position, by the columns beside their bytes: the bytes are passed on unread, so an event that
 * somebody made unreadable stops nobody.
 */
export const readBatch = async (sql: Sql, after: bigint, limit: number, mostBytes: number): Promise<RelayBatch> => {
  const rows = await sql.query<EventRow>(selectEvents, [String(after), limit, mostBytes]);
  return {
    records: rows.map((row) => ({
      globalPosition: BigInt(row.position),
      position: BigInt(row.account_position),
      id: row.id,
      type: row.type,
      account: row.account,
      stream: row.stream,
      sessionId: row.session_id,
      occurredAt: row.occurred_at,
      bytes: row.bytes,
    })),
    isFull: rows.length === limit || rows.at(-1)?.cut === true,
  };
};

// The first event is always among them, however large it is.
const selectEvents = `
  select * from (
    select e.*, sum(octet_length(e.bytes)) over (order by e.position) > $3 as cut,
        sum(octet_length(e.bytes)) over (order by e.position) - octet_length(e.bytes) as before
      from (
        select position, account_position, account, stream, id, type, occurred_at, session_id, bytes
          from event where position > $1 order by position limit $2
      ) e
  ) e where before = 0 or before < $3 order by position`;

/** Id of the log; null before the first start has made it. */
export const readLogId = async (sql: Sql): Promise<string | null> => {
  const [row] = await sql.query<{ log_id: string | null }>('select log_id from log_format');
  return row?.log_id ?? null;
};

/** How far the relay is, whichever replica it works in. */
export interface RelayProgress {
  readonly position: bigint;
  readonly head: bigint;
  /** When the oldest event that is not in Kafka was recorded. */
  readonly waitingSince: Date | null;
  /** Whether some replica has the lease. */
  readonly isOwned: boolean;
}

/** Reads how far the relay is. */
export const readProgress = async (sql: Sql): Promise<RelayProgress> => {
  const [row] = await sql.query<{ position: string | null; head: string; owned: boolean | null; since: Date | null }>(
    selectProgress,
    [relayName],
  );
  return {
    position: BigInt(row?.position ?? -1),
    head: BigInt(row?.head ?? -1),
    waitingSince: row?.since ?? null,
    isOwned: row?.owned === true,
  };
};

const selectProgress = `
  select f.position, h.position as head, f.lease_until > clock_timestamp() as owned,
      (select e.recorded_at from event e where e.position > coalesce(f.position, -1) order by e.position limit 1) as since
    from head h left join follower f on f.name = $1 and f.shard = 0`;

/** A blob that the relay has put into its topic. */
export interface RelayedBlob {
  /** Hex. */
  readonly hash: string;
  readonly parts: number;
  /** Global position of the event whose bytes it is. */
  readonly ofEvent: bigint | null;
}

/** Notes how far the topic of events goes, and which blobs went before. The commit is not waited for: it may repeat. */
export const commitProgress = (ownership: Ownership, position: bigint, blobs: readonly RelayedBlob[]): Promise<void> =>
  ownership.fenced(updateProgress, [
    relayName,
    String(position),
    blobs.map(({ hash }) => Buffer.from(hash, 'hex')),
    blobs.map(({ parts }) => parts),
    blobs.map(({ ofEvent }) => (ofEvent === null ? null : String(ofEvent))),
  ]);

const updateProgress = `
  with quick as (select set_config('synchronous_commit', 'off', true)),
  mine as (
    update follower set position = $4 where name = $3 and shard = 0 and owner = $1 and epoch = $2 returning 1
  ), noted as (
    insert into relayed_blob (hash, parts, of_event)
      select distinct on (b.hash) b.hash, b.parts, b.of_event
        from unnest($5::bytea[], $6::integer[], $7::bigint[]) b(hash, parts, of_event)
        where exists (select from mine)
      on conflict (hash) do update set parts = excluded.parts, of_event = excluded.of_event, gone = false
  )
  select exists (select from mine) as held from quick`;

/** What is known of a blob that an event names. */
export interface NamedBlob {
  readonly hash: string;
  /** The topic has it. */
  readonly isSent: boolean;
  /** Bytes; null = it was removed. */
  readonly size: number | null;
}

/** Looks blobs up, and where they are. */
export const lookUpBlobs = async (sql: Sql, hashes: readonly string[]): Promise<readonly NamedBlob[]> => {
  const text = `
    select encode(h.hash, 'hex') as hash, r.hash is not null as "isSent", octet_length(b.bytes) as size
      from unnest($1::bytea[]) h(hash) left join relayed_blob r on r.hash = h.hash left join blob b on b.hash = h.hash`;
  return sql.query(text, [hashes.map((hash) => Buffer.from(hash, 'hex'))]);
};

/** Blobs as they are stored; one that was removed is not among them. */
export const readBlobs = async (
  sql: Sql,
  hashes: readonly string[],
): Promise<readonly { readonly hash: string; readonly keyId: string | null; readonly bytes: Buffer }[]> => {
  const text = `select encode(hash, 'hex') as hash, key_id as "keyId", bytes from blob where hash = any ($1)`;
  return sql.query(text, [hashes.map((hash) => Buffer.from(hash, 'hex'))]);
};

/** Blobs in the topic that are gone from the database, or whose event is. */
export const goneBlobs = async (
  sql: Sql,
): Promise<readonly { readonly hash: string; readonly parts: number; readonly back: boolean }[]> => {
  const text = `
    select encode(r.hash, 'hex') as hash, r.parts,
        exists (select from blob b where b.hash = r.hash) or exists (select from event e where e.position = r.of_event)
          as back
      from relayed_blob r where r.gone order by r.hash limit 200`;
  return sql.query(text);
};

/** Bodies of events in the topic of blobs whose event was purged: from now on they count as gone. */
export const noteGoneBodies = async (sql: Sql): Promise<void> => {
  await sql.query(`
    update relayed_blob r set gone = true
      where r.of_event is not null and not r.gone and not exists (select from event e where e.position = r.of_event)`);
};

/** After the tombstones: what is gone is forgotten, what came back is there. */
export const settleGoneBlobs = (
  ownership: Ownership,
  forgotten: readonly string[],
  back: readonly string[],
): Promise<void> =>
  ownership.fenced(settleBlobs, [
    relayName,
    forgotten.map((hash) => Buffer.from(hash, 'hex')),
    back.map((hash) => Buffer.from(hash, 'hex')),
  ]);

const ownerRow = `
  mine as (select 1 from follower where name = $3 and shard = 0 and owner = $1 and epoch = $2 for share)`;

const settleBlobs = `
  with ${ownerRow}, forgotten as (
    delete from relayed_blob where hash = any ($4::bytea[]) and gone and exists (select from mine)
  ), back as (
    update relayed_blob set gone = false where hash = any ($5::bytea[]) and exists (select from mine)
  )
  select exists (select from mine) as held`;

/** A data key of which the topic has something else, or nothing. */
export type UnsentKey =
  { readonly kind: 'living'; readonly record: DataKeyRecord } | { readonly kind: 'erased'; readonly id: string };

interface KeyRow {
  readonly id: string;
  readonly account: string;
  readonly scope: string;
  readonly wrapped: Buffer | null;
  readonly master: string;
  readonly created_at: Date;
}

/**
 * Data keys to be sent. A key is committed before the first event that it seals, so asking after events were read
 * finds every key that they need.
 */
export const unsentKeys = async (sql: Sql, limit: number): Promise<readonly UnsentKey[]> => {
  const rows = await sql.query<KeyRow>(selectKeys, [limit]);
  return rows.map(({ id, account, scope, wrapped, master, created_at: createdAt }) =>
    wrapped === null
      ? { kind: 'erased', id }
      : { kind: 'living', record: { id, account, scope, wrapped, master, createdAt: createdAt.toISOString() } },
  );
};

// In the words of the index `data_key_unrelayed`.
const selectKeys = `
  select id, account, scope, wrapped, master, created_at from data_key
    where relayed is distinct from (case when wrapped is null then 'erased' else master end)
    order by id limit $1`;

/** Notes what the topic has of these keys now. */
export const noteSentKeys = (ownership: Ownership, keys: readonly UnsentKey[]): Promise<void> =>
  ownership.fenced(updateKeys, [
    relayName,
    keys.map((key) => (key.kind === 'living' ? key.record.id : key.id)),
    keys.map((key) => (key.kind === 'living' ? key.record.master : 'erased')),
  ]);

const updateKeys = `
  with ${ownerRow}, noted as (
    update data_key d set relayed = k.relayed from unnest($4::text[], $5::text[]) k(id, relayed)
      where d.id = k.id and exists (select from mine)
  )
  select exists (select from mine) as held`;

/**
 * What an owner that was replaced may have sent too late, behind what its successor sent: the successor looks at it
 * again. Needs no lease.
 */
export const noteStale = async (sql: Sql, keys: readonly string[], blobs: readonly RelayedBlob[]): Promise<void> => {
  if (keys.length > 0) await sql.query('update data_key set relayed = null where id = any ($1)', [keys]);
  if (blobs.length === 0) return;
  const text = `insert into relayed_blob (hash, parts, of_event, gone)
    select distinct on (b.hash) b.hash, b.parts, b.of_event, true
      from unnest($1::bytea[], $2::integer[], $3::bigint[]) b(hash, parts, of_event)
    on conflict (hash) do update set gone = true`;
  await sql.query(text, [
    blobs.map(({ hash }) => Buffer.from(hash, 'hex')),
    blobs.map(({ parts }) => parts),
    blobs.map(({ ofEvent }) => (ofEvent === null ? null : String(ofEvent))),
  ]);
};

/** Checkpoints after one, in the order that they were signed in. */
export const readCheckpoints = async (
  sql: Sql,
  after: bigint,
): Promise<readonly (CheckpointRecord & { readonly sequence: bigint })[]> => {
  const text = `select account, size, root, note, signed_at, sequence from checkpoint
    where sequence > $1 order by sequence limit 500`;
  const rows = await sql.query<{
    account: string;
    size: string;
    root: Buffer;
    note: string;
    signed_at: Date;
    sequence: string;
  }>(text, [String(after)]);
  return rows.map(({ account, size, root, note, signed_at: signedAt, sequence }) => ({
    account,
    size: BigInt(size),
    root,
    note,
    signedAt: signedAt.toISOString(),
    sequence: BigInt(sequence),
  }));
};

/** Every log key. There are few. */
export const readLogKeys = async (sql: Sql): Promise<readonly LogKeyRecord[]> => {
  const rows = await sql.query<{
    id: string;
    name: string;
    public_key: Buffer;
    wrapped: Buffer | null;
    valid_from: Date | null;
    valid_until: Date | null;
  }>('select id, name, public_key, wrapped, valid_from, valid_until from log_key order by id');
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    publicKey: row.public_key,
    wrapped: row.wrapped,
    validFrom: row.valid_from?.toISOString() ?? null,
    validUntil: row.valid_until?.toISOString() ?? null,
  }));
};

/** What was noted under these names. */
export const readNotes = async (sql: Sql): Promise<ReadonlyMap<string, string>> => {
  const rows = await sql.query<{ name: string; value: string }>('select name, value from relayed_note');
  return new Map(rows.map(({ name, value }) => [name, value]));
};

/** Notes a fact. */
export const writeNote = (ownership: Ownership, name: string, value: string): Promise<void> =>
  ownership.fenced(upsertNote, [relayName, name, value]);

const upsertNote = `
  with ${ownerRow}, noted as (
    insert into relayed_note (name, value) select $4::text, $5::text where exists (select from mine)
      on conflict (name) do update set value = excluded.value
  )
  select exists (select from mine) as held`;

/** Whether anything was ever sent to the topics of blobs and keys, as far as the database knows. */
export const readSent = async (sql: Sql): Promise<{ readonly blobs: boolean; readonly keys: boolean }> => {
  const text = `select exists (select from relayed_blob) as blobs,
    exists (select from data_key where relayed is not null) as keys`;
  const [row] = await sql.query<{ blobs: boolean; keys: boolean }>(text);
  return row ?? { blobs: false, keys: false };
};

/** The topics are empty: everything is sent again, from the log's beginning. */
export const startOver = (ownership: Ownership): Promise<void> => ownership.fenced(resetAll, [relayName]);

const resetAll = `
  with mine as (
    update follower set position = -1 where name = $3 and shard = 0 and owner = $1 and epoch = $2 returning 1
  ), blobs as (
    delete from relayed_blob where exists (select from mine)
  ), keys as (
    update data_key set relayed = null where relayed is not null and exists (select from mine)
  ), notes as (
    delete from relayed_note where exists (select from mine)
  )
  select exists (select from mine) as held`;

/** Which of an account's positions are still in the log. */
export const keptPositions = async (
  sql: Sql,
  account: string,
  positions: readonly bigint[],
): Promise<ReadonlySet<bigint>> => {
  const text = 'select account_position from event where account = $1 and account_position = any ($2)';
  const rows = await sql.query<{ account_position: string }>(text, [account, positions.map(String)]);
  return new Set(rows.map(({ account_position: position }) => BigInt(position)));
};

/** Whether events that a recorded purge names are still in the log: the purger is at work. */
export const isPurging = async (sql: Sql, account: string): Promise<boolean> => {
  const text = `select exists (
    select from purged_range r join event e on e.account = r.account and e.account_position between r.first and r.last
      where r.account = $1) as purging`;
  const [row] = await sql.query<{ purging: boolean }>(text, [account]);
  return row?.purging === true;
};
