import type { Sql } from '#event-store';
import type { Gap, MergedEvent } from '#kafka';
import { mergeTopics } from '#kafka';
import type { LogFormat, NoteVerifier, RowTagKey } from '#proof';
import { GrowingTree, logFormatMac, rawPublicKey, readVerifierKey, rowTag, rowTagKey } from '#proof';
import { leafHash, type RecordedEvent } from '#record';
import { openRefilledRoot } from './refill-root.js';
import { RefillRefused, type Refilling } from './refilling.js';

/** What the events say beside being events. */
export interface RefilledLog {
  readonly events: number;
  readonly position: bigint;
  /** Size of each account's log, by its tree. */
  readonly accounts: ReadonlyMap<string, GrowingTree>;
  readonly erasedKeys: readonly ErasedKey[];
  readonly erasedBlobs: readonly string[];
  /** Positions of `retention.purged`, oldest first. */
  readonly purges: readonly { readonly account: string; readonly position: bigint }[];
  readonly verifiers: readonly NoteVerifier[];
  readonly format: LogFormat | null;
  /** Events that stood in the topic of blobs: positions by the hash of their bytes. */
  readonly bodies: ReadonlyMap<string, bigint>;
  readonly epoch: bigint;
}

interface ErasedKey {
  readonly id: string;
  readonly account: string;
  readonly at: string;
}

interface Hole {
  readonly account: string;
  readonly first: bigint;
  readonly last: bigint;
}

interface MutableLog {
  events: number;
  /** Global positions that are in no topic. */
  readonly gaps: Gap[];
  /** What they were: account positions of which only leaves are left. */
  readonly holes: Hole[];
  readonly purgedRanges: Hole[];
  position: bigint;
  readonly accounts: Map<string, GrowingTree>;
  readonly erasedKeys: Map<string, ErasedKey>;
  readonly erasedBlobs: Set<string>;
  readonly purges: { readonly account: string; readonly position: bigint }[];
  readonly logKeys: { readonly verifier: NoteVerifier; readonly event: RecordedEvent }[];
  format: LogFormat | null;
  readonly bodies: Map<string, bigint>;
  epoch: bigint;
}

/** Events of one partition of table `event`. */
const partitionRows = 5_000_000n;

/** Reads every topic of events as one log, and writes rows, streams, heads, trees and log keys. */
export const refillEvents = async (refilling: Refilling): Promise<RefilledLog> => {
  const { sql, kafka, names, warn, read } = refilling;
  const root = await openRefilledRoot(refilling);
  const tagKey = rowTagKey(root);
  const log = emptyLog();
  let foreign = 0;
  const repeats: Repeat[] = [];
  const merge = mergeTopics({
    kafka,
    topics: names.allEvents,
    after: -1n,
    until: 'end',
    handle: async (events) => {
      for (const stored of events) {
        await fillHole(refilling, log, stored);
        note(log, stored);
      }
      await writeRows(refilling, log, events, tagKey);
      read(events.length);
    },
    largeBytes: async (hash, { headers }) => {
      log.bodies.set(hash, BigInt(headers.ce_globalposition ?? -1));
      const [row] = await sql.query<{ bytes: Buffer }>('select bytes from blob where hash = $1', [
        Buffer.from(hash, 'hex'),
      ]);
      return row?.bytes ?? null;
    },
    missing: (gap) => {
      log.gaps.push(gap);
      return Promise.resolve([]);
    },
    foreign: () => (foreign += 1),
    repeated: ({ globalPosition, bytes }) => {
      repeats.push({ position: globalPosition, leaf: leafHash(bytes) });
    },
  });
  await merge.ended;
  await checkRepeats(sql, repeats);
  checkHoles(log, names.allEvents);
  if (foreign > 0) warn(`${String(foreign)} messages are no events of a log, and were passed over.`);
  await writeEnd(refilling, log, root);
  return {
    ...log,
    erasedKeys: [...log.erasedKeys.values()],
    erasedBlobs: [...log.erasedBlobs],
    verifiers: log.logKeys.map(({ verifier }) => verifier),
  };
};

interface Repeat {
  readonly position: bigint;
  readonly leaf: Uint8Array;
}

const repeatsAtOnce = 2_000;

/** A repeat is the same event; another one at its position was written by a second database of the same log. */
const checkRepeats = async (sql: Sql, repeats: readonly Repeat[]): Promise<void> => {
  for (let at = 0; at < repeats.length; at += repeatsAtOnce) {
    const some = repeats.slice(at, at + repeatsAtOnce);
    const [other] = await sql.query<{ position: string }>(
      `select e.position from unnest($1::bigint[], $2::bytea[]) r(position, leaf)
       join event e on e.position = r.position where e.leaf <> r.leaf order by e.position limit 1`,
      [some.map(({ position }) => String(position)), some.map(({ leaf }) => Buffer.from(leaf))],
    );
    if (other !== undefined) {
      throw new RefillRefused(
        `The topics have two different events at position ${other.position} of the log. They are of two databases: one of them went on from an older copy of the other.`,
      );
    }
  }
};

const emptyLog = (): MutableLog => ({
  events: 0,
  gaps: [],
  holes: [],
  purgedRanges: [],
  position: -1n,
  accounts: new Map(),
  erasedKeys: new Map(),
  erasedBlobs: new Set(),
  purges: [],
  logKeys: [],
  format: null,
  bodies: new Map(),
  epoch: 0n,
});

/** An event that was purged is in its account's tree by its leaf, if that one is in the topic of checkpoints. */
const fillHole = async (
  { sql, names }: Refilling,
  log: MutableLog,
  { event, position }: MergedEvent,
): Promise<void> => {
  const { account } = event;
  const tree = log.accounts.get(account) ?? new GrowingTree();
  log.accounts.set(account, tree);
  if (tree.size >= position) return;
  const hole = { account, first: tree.size, last: position - 1n };
  while (tree.size < position) {
    const [row] = await sql.query<{ first: string; hashes: Buffer }>(
      'select first, hashes from refill_leaves where account = $1 and first <= $2 and last >= $2 limit 1',
      [account, tree.size],
    );
    if (row === undefined) throw new RefillRefused(gapWords(log.gaps, names.allEvents));
    for (let at = Number(tree.size - BigInt(row.first)); at * 32 < row.hashes.length && tree.size < position; at += 1) {
      tree.push(row.hashes.subarray(at * 32, (at + 1) * 32));
    }
  }
  log.holes.push(hole);
};

const gapWords = (gaps: readonly Gap[], topics: readonly string[]): string => {
  const ranges = gaps.slice(-20).map(({ first, last }) => `${String(first)} to ${String(last)}`);
  return `Positions ${ranges.join(', ')} of the log are in no topic (${topics.join(', ')}): it cannot be refilled from them.`;
};

/** What is in no topic must be what a purge on record took, all of it and nothing else. */
const checkHoles = ({ gaps, holes, purgedRanges }: MutableLog, topics: readonly string[]): void => {
  const sum = (spans: readonly Gap[]): bigint =>
    spans.reduce((total, { first, last }) => total + last - first + 1n, 0n);
  const isPurged = ({ account, first, last }: Hole): boolean => {
    let next = first;
    for (const range of purgedRanges) {
      if (range.account === account && range.first <= next && range.last >= next) next = range.last + 1n;
    }
    return next > last;
  };
  purgedRanges.sort((a, b) => (a.first < b.first ? -1 : 1));
  if (sum(gaps) === sum(holes) && holes.every(isPurged)) return;
  throw new RefillRefused(gapWords(gaps, topics));
};

/** Takes an event into the account's tree, and remembers what it says of the log itself. */
const note = (log: MutableLog, { event, position, globalPosition, bytes, place }: MergedEvent): void => {
  const { account } = event;
  const tree = log.accounts.get(account) ?? new GrowingTree();
  log.accounts.set(account, tree);
  if (tree.size !== position) {
    throw new RefillRefused(
      `Account ${account} has ${String(tree.size)} events before global position ${String(globalPosition)}, whose event says that it is number ${String(position)}: the topics are not of one log.`,
    );
  }
  tree.push(leafHash(bytes));
  log.events += 1;
  log.position = globalPosition;
  const epoch = place?.epoch ?? 0n;
  if (epoch > log.epoch) log.epoch = epoch;
  if (event.type === 'retention.purged') notePurge(log, event, position);
  if (event.type === 'payload.erased') noteErasure(log, event);
  if (event.type === 'log_key.rotated' && account === 'system') noteLogKey(log, event);
};

const notePurge = (log: MutableLog, { account, data }: RecordedEvent, position: bigint): void => {
  log.purges.push({ account, position });
  for (const hash of texts(data.blobs)) log.erasedBlobs.add(hash);
  const { ranges = [] } = data as { readonly ranges?: readonly { readonly first: string; readonly last: string }[] };
  for (const { first, last } of ranges) log.purgedRanges.push({ account, first: BigInt(first), last: BigInt(last) });
};

const noteErasure = (log: MutableLog, event: RecordedEvent): void => {
  const at = event.recordedAt;
  for (const id of texts(event.data.keys)) log.erasedKeys.set(id, { id, account: event.account, at });
  for (const hash of texts(event.data.blobHashes)) log.erasedBlobs.add(hash);
};

const noteLogKey = (log: MutableLog, event: RecordedEvent): void => {
  const { publicKey, log: id, untaggedUntil } = event.data;
  const verifier = typeof publicKey === 'string' ? readVerifierKey(publicKey) : null;
  if (verifier !== null) log.logKeys.push({ verifier, event });
  if (typeof id !== 'string' || typeof untaggedUntil !== 'string') return;
  log.format = { log: id, untaggedUntil: BigInt(untaggedUntil) };
};

const texts = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string') : [];

const writeRows = async (
  { sql }: Refilling,
  log: MutableLog,
  events: readonly MergedEvent[],
  tagKey: RowTagKey,
): Promise<void> => {
  const first = events[0]?.globalPosition ?? 0n;
  await sql.query('update head set position = $1', [log.position]);
  if (first / partitionRows !== log.position / partitionRows) await sql.query('select ensure_event_partitions()');
  const leaves = events.map(({ bytes }) => leafHash(bytes));
  await sql.query(insertEvents, [
    events.map(({ globalPosition }) => String(globalPosition)),
    events.map(({ event }) => event.account),
    events.map(({ position }) => String(position)),
    events.map(({ event }) => event.stream),
    events.map(({ event }) => event.streamVersion),
    events.map(({ event }) => event.id),
    events.map(({ event }) => event.type),
    events.map(({ event }) => event.schema),
    events.map(({ event }) => event.recordedAt),
    events.map(({ event }) => event.occurredAt),
    events.map(({ event }) => event.sessionId ?? null),
    leaves,
    events.map(({ bytes }) => bytes),
    events.map(({ event, position }, at) =>
      rowTag(tagKey, event.account, position, leaves[at] ?? leafHash(Buffer.alloc(0))),
    ),
  ]);
  await writeStreams(sql, events);
  await writeTiles(sql, log, new Set(events.map(({ event }) => event.account)));
};

const insertEvents = `
  insert into event (position, account, account_position, stream, version, id, type, schema, recorded_at, occurred_at,
      session_id, leaf, bytes, tag)
    select * from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::integer[], $6::uuid[], $7::text[],
      $8::smallint[], $9::timestamptz[], $10::timestamptz[], $11::text[], $12::bytea[], $13::bytea[], $14::bytea[])`;

const writeStreams = async (sql: Refilling['sql'], events: readonly MergedEvent[]): Promise<void> => {
  const streams = new Map<string, { account: string; stream: string; version: number; first: bigint; last: bigint }>();
  for (const { event, globalPosition } of events) {
    const { account, stream, streamVersion } = event;
    const key = `${account}\0${stream}`;
    const found = streams.get(key);
    if (found === undefined)
      streams.set(key, { account, stream, version: streamVersion, first: globalPosition, last: globalPosition });
    else Object.assign(found, { version: streamVersion, last: globalPosition });
  }
  const rows = [...streams.values()];
  await sql.query(
    `insert into stream (account, id, version, first, last)
       select * from unnest($1::text[], $2::text[], $3::integer[], $4::bigint[], $5::bigint[])
       on conflict (account, id) do update set version = excluded.version, last = excluded.last`,
    [
      rows.map(({ account }) => account),
      rows.map(({ stream }) => stream),
      rows.map(({ version }) => version),
      rows.map(({ first }) => String(first)),
      rows.map(({ last }) => String(last)),
    ],
  );
};

const writeTiles = async (sql: Refilling['sql'], log: MutableLog, accounts: ReadonlySet<string>): Promise<void> => {
  const tiles = [...accounts].flatMap((account) =>
    (log.accounts.get(account)?.takeTiles() ?? []).map((tile) => ({ account, ...tile })),
  );
  // A tile that got full while it stood at the edge is there twice: the later one counts.
  const newest = new Map(tiles.map((tile) => [`${tile.account}\0${String(tile.level)}\0${String(tile.index)}`, tile]));
  const rows = [...newest.values()];
  await sql.query(
    `insert into tile (account, level, idx, hashes)
       select * from unnest($1::text[], $2::integer[], $3::bigint[], $4::bytea[])
       on conflict (account, level, idx) do update set hashes = excluded.hashes`,
    [
      rows.map(({ account }) => account),
      rows.map(({ level }) => level),
      rows.map(({ index }) => String(index)),
      rows.map(({ hashes }) => Buffer.from(hashes)),
    ],
  );
};

const writeEnd = async ({ sql, warn }: Refilling, log: MutableLog, root: Uint8Array): Promise<void> => {
  await sql.query('select ensure_event_partitions()');
  await sql.query('insert into account_head (account, size) select * from unnest($1::text[], $2::bigint[])', [
    [...log.accounts.keys()],
    [...log.accounts.values()].map(({ size }) => String(size)),
  ]);
  for (const [at, { verifier, event }] of log.logKeys.entries()) {
    const until = log.logKeys[at + 1]?.event.recordedAt ?? null;
    await sql.query(
      `insert into log_key (id, name, public_key, wrapped, valid_from, valid_until)
         select $1, $2, $3, case when $5::timestamptz is null then (select wrapped from refill_log_key where id = $1) end, $4, $5`,
      [verifier.id, verifier.name, rawPublicKey(verifier.publicKey), event.recordedAt, until],
    );
  }
  if (log.format === null) {
    if (log.events > 0) warn('No event names the log: the next start gives it an id.');
    return;
  }
  await sql.query('update log_format set log_id = $1, untagged_until = $2, mac = $3', [
    log.format.log,
    log.format.untaggedUntil,
    logFormatMac(root, log.format),
  ]);
};
