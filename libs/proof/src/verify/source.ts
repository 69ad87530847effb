/**
 * A hash: 32 bytes as a string with one character for each byte (latin1). In this form hashes are compared, joined and
 * hashed again faster than as buffers, and a verifier does little else.
 */
export type Hash = string;

/** What a place that holds a log gives to be verified. Positions beyond 2^53 come rounded: no real log has them. */
export interface LogSource {
  facts(): Promise<LogFacts>;
  /** Every account that anything is known of, each once: the heads', the events', the tiles', the checkpoints'. */
  accounts(): AsyncIterable<AccountRow>;
  /** An account's rows by account position, then by global position. */
  events(account: string): AsyncIterable<readonly EventRow[]>;
  /** The same, but only rows whose `type` column has one of these values. */
  eventsOfTypes(account: string, types: readonly string[]): AsyncIterable<readonly EventRow[]>;
  /** Global positions of all rows, ascending, repeated ones as often as they stand. */
  positions(): AsyncIterable<readonly number[]>;
  /** The stream rows of an account by their `last`, then by id. */
  streamsByLast(account: string): AsyncIterable<readonly StreamRow[]>;
  /** The stream rows of an account by id, in the order of their UTF-8 bytes. */
  streamsById(account: string): AsyncIterable<readonly StreamRow[]>;
  /** Where each event of an account stands in its stream: by stream (UTF-8 bytes), then by version. */
  streamSteps(account: string): AsyncIterable<readonly StreamStep[]>;
  /** Tiles of an account and a level by their index. */
  tiles(account: string, level: number): AsyncIterable<readonly TileRow[]>;
  tileExtent(account: string): Promise<TileExtent>;
  /** Checkpoints of an account by size. */
  checkpoints(account: string): AsyncIterable<readonly CheckpointRow[]>;
  /** Roots by account and size, where there is such a checkpoint; in the order of the question, else null. */
  checkpointRoots(wanted: readonly SizeOfAccount[]): Promise<readonly (Buffer | null)[]>;
  logKeys(): Promise<readonly LogKeyRow[]>;
  blobs(): AsyncIterable<readonly BlobRow[]>;
  /** Those of these blobs (hex) that are there, with the data key that their row names. */
  blobsThere(hashes: readonly string[]): Promise<ReadonlyMap<string, string | null>>;
  dataKeys(): AsyncIterable<readonly DataKeyRow[]>;
  /** Those of these data keys that are there, without the wrapped key. */
  dataKeysThere(ids: readonly string[]): Promise<ReadonlyMap<string, DataKeyState>>;
}

/** What is said of the log as a whole. */
export interface LogFacts {
  /** The head row's position, -1 for an empty log; null where there is no such row. */
  readonly head: number | null;
  /** The log's id as the database says; null where it names none. */
  readonly logId: string | null;
  /** Rows up to this global position were written before rows had tags; -1 for none. */
  readonly untaggedUntil: number;
  /** The program's own word for the log's id and `untaggedUntil`; null before its first start. */
  readonly mac: Buffer | null;
  /** Ids of the master keys that data keys may be wrapped by: the one in force, and the one before it. */
  readonly masters: readonly string[];
}

/** An account, with the sizes that its head row and its newest checkpoint say; null without one. */
export interface AccountRow {
  readonly account: string;
  readonly size: number | null;
  readonly sealed: number | null;
  /** What the sealer notes of how far it has come; null without such a row. */
  readonly tree: TreeRow | null;
}

/** A row of `tree`. */
export interface TreeRow {
  readonly size: number;
  readonly signed: number;
  /** The position that the sealer refused; null for none. */
  readonly refused: number | null;
}

/** How far the tiles of an account reach: the number of levels, and of leaf hashes up to the last one. */
export interface TileExtent {
  readonly levels: number;
  readonly leaves: number;
}

/** A place in an account's log. */
export interface SizeOfAccount {
  readonly account: string;
  readonly size: number;
}

/** A row of `event`. Times are in ms since 1970, NaN for one that is no time. */
export interface EventRow {
  readonly position: number;
  readonly account: string;
  readonly accountPosition: number;
  readonly stream: string;
  readonly version: number;
  readonly id: string;
  readonly type: string;
  readonly schema: number;
  readonly recordedAt: number;
  readonly occurredAt: number;
  readonly sessionId: string | null;
  /** Null where the column is null. A hash that is not 32 bytes long is given as it is. */
  readonly leaf: Hash | null;
  readonly tag: Hash | null;
  /** A zero byte and the stored bytes: what the leaf is the hash of, in one piece. Valid until the next batch. */
  readonly prefixed: Buffer;
}

/** A row of `stream`. */
export interface StreamRow {
  readonly id: string;
  readonly version: number;
  readonly first: number;
  readonly last: number;
}

/** An event's place in its stream. */
export interface StreamStep {
  readonly stream: string;
  readonly version: number;
  readonly position: number;
  readonly accountPosition: number;
}

/** A row of `tile`. */
export interface TileRow {
  readonly index: number;
  readonly hashes: Buffer;
}

/** A row of `checkpoint`. */
export interface CheckpointRow {
  readonly size: number;
  readonly root: Buffer;
  readonly note: string;
  readonly signedAt: number;
  /** The key that the row says signed it; null where nothing says so beside the note. */
  readonly keyId: string | null;
}

/** A row of `log_key`. */
export interface LogKeyRow {
  readonly id: string;
  readonly name: string;
  readonly publicKey: Buffer;
  readonly wrapped: Buffer | null;
  /** Null for a key that was never in force. */
  readonly validFrom: number | null;
  readonly validUntil: number | null;
}

/** A row of `blob`. */
export interface BlobRow {
  /** Hex. */
  readonly hash: string;
  readonly keyId: string | null;
  readonly bytes: Buffer;
}

/** Whether a data key still opens anything, and whose it is. */
export interface DataKeyState {
  readonly account: string;
  readonly isErased: boolean;
}

/** A row of `data_key`. */
export interface DataKeyRow {
  readonly id: string;
  readonly account: string;
  readonly scope: string;
  readonly wrapped: Buffer | null;
  readonly master: string;
  readonly erasedAt: number | null;
}
