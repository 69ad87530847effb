import type { EventType, NewEvent, RecordedEvent } from '#record';

/** Events for one stream, written only if the stream still has the version the writer decided on. */
export interface StreamWrite {
  readonly stream: string;
  /** Number of events the stream had when the writer decided; 0 = a new stream. `any` appends whatever it has. */
  readonly expectedVersion: number | 'any';
  readonly events: readonly NewEvent[];
}

/** A blob that must be stored no later than the events that name it. */
export interface BlobWrite {
  /** SHA-256 of `bytes`, hex. */
  readonly hash: string;
  readonly bytes: Uint8Array;
  /** The data key that sealed it, so that erasure finds a scope's blobs. */
  readonly keyId?: string;
}

/** All or nothing: every stream of an append is written in one commit, at neighbouring positions. */
export interface Append {
  readonly account: string;
  readonly writes: readonly StreamWrite[];
  readonly blobs?: readonly BlobWrite[];
  /** Marks claimed commands as done in the same commit; the append is refused when a claim was lost. */
  readonly commands?: readonly CompletedCommand[];
}

/** A claimed command that an append completes. */
export interface CompletedCommand {
  readonly key: string;
  readonly token: string;
  readonly result: CommandResult;
}

/** What an idempotent command keeps: where its events are, never the answer itself (api.md, idempotency). */
export interface CommandResult {
  readonly stream: string;
  /** HTTP status of the first answer. */
  readonly status: number;
  /** Small facts needed to rebuild the answer that no event has; never content, never a secret. */
  readonly note?: { readonly [key: string]: string | number | boolean | null };
}

/** An event where it stands. Positions are dense, from 0. */
export interface StoredEvent {
  /** Place in the whole log: the cursor of followers. */
  readonly globalPosition: bigint;
  /** Place in the account's log: what people see and proofs index. */
  readonly position: bigint;
  readonly event: RecordedEvent;
  /** The stored canonical bytes. */
  readonly bytes: Uint8Array;
}

export type AppendResult =
  | {
      readonly kind: 'appended';
      readonly first: bigint;
      readonly last: bigint;
      readonly events: readonly StoredEvent[];
    }
  /** A stream had another version than expected: nothing of this append was written. */
  | { readonly kind: 'conflict'; readonly stream: string; readonly version: number }
  /** The command's claim was taken over or already completed: nothing was written. */
  | { readonly kind: 'claim-lost' };

export type Claim =
  /** Ours: run it, then append with `token`. `attempt` counts from 1; `previous` is what a lost attempt noted. */
  | {
      readonly kind: 'claimed';
      readonly token: string;
      readonly attempt: number;
      readonly previousInvocationId: string | null;
    }
  | { readonly kind: 'done'; readonly result: CommandResult; readonly first: bigint; readonly last: bigint }
  /** Same key, other request. */
  | { readonly kind: 'mismatch' };

export interface ClaimRequest {
  readonly account: string;
  readonly key: string;
  /** Digest of method, path and body. */
  readonly requestDigest: string;
  /** Noted with the claim, handed to a later attempt as `previousInvocationId` if this one is lost. */
  readonly invocationId: string | null;
  readonly leaseMs: number;
  /** Longest wait for another holder, ms; omitted = the store's `claimWaitMs`. */
  readonly waitMs?: number;
}

export interface ReadRange {
  /** Account positions `(after, until]`; `after` omitted = from the beginning. */
  readonly after?: bigint;
  readonly until?: bigint;
  readonly limit: number;
  readonly types?: readonly EventType[];
  readonly stream?: string;
  readonly sessionId?: string;
  readonly order?: 'oldest' | 'newest';
}

/**
 * The log. Accepted means durable: when `append` resolves with `appended`, the events survive the death of this
 * process and of the database server (events.md §1.1).
 */
export interface EventStore {
  /**
   * Group-committed. Rejects with `LogUnavailable` (database away, disk full), `LogBusy` (queue full) or `LogRefused`
   * (no log could hold it).
   */
  append(append: Append): Promise<AppendResult>;
  /** One stream, oldest first, from the event whose `streamVersion` is `fromVersion` (default 1). */
  readStream(account: string, stream: string, fromVersion?: number): Promise<readonly StoredEvent[]>;
  /** Number of events that a stream was ever given, purged ones too; 0 = there is no such stream. */
  streamVersion(account: string, stream: string): Promise<number>;
  /** An account's log. */
  readAccount(account: string, range: ReadRange): Promise<readonly StoredEvent[]>;
  /** The whole log after a global position, oldest first: for followers. */
  readAll(after: bigint, limit: number, types?: readonly EventType[]): Promise<readonly StoredEvent[]>;
  /** Highest global position, -1 when the log is empty. */
  head(): Promise<bigint>;
  /** Number of events of an account. */
  accountSize(account: string): Promise<bigint>;
  blob(hash: string): Promise<Uint8Array | null>;
  /**
   * Claims an idempotency key before anything runs; waits while another holder's lease lives (api.md, idempotency).
   * Rejects with `LogBusy` when that takes longer than the store's `claimWaitMs`.
   */
  claim(request: ClaimRequest): Promise<Claim>;
  /** Prolongs a lease; false when it was lost. */
  renewClaim(account: string, key: string, token: string, leaseMs: number): Promise<boolean>;
  /** Gives a claim up when the command was refused and wrote nothing, so that a corrected retry may use the key. */
  releaseClaim(account: string, key: string, token: string): Promise<void>;
  /**
   * Called after this process committed events, with those of one commit in order; returns the way to stop. Commits may
   * be told of in another order than they were made. Followers poll anyway.
   */
  onAppended(listener: (events: readonly StoredEvent[]) => void): () => void;
  close(): Promise<void>;
}

/** The log cannot be written or read now; nothing was half-recorded. HTTP: 503. */
export class LogUnavailable extends Error {
  override readonly name = 'LogUnavailable';
}

/** The append queue is full. HTTP: 503 with Retry-After. */
export class LogBusy extends Error {
  override readonly name = 'LogBusy';
}

/**
 * This append can never be stored as it is (an id with NUL, a time that is none, a value the database refuses):
 * nothing was written, and a retry will not help. The message holds no content. HTTP: 422.
 */
export class LogRefused extends Error {
  override readonly name = 'LogRefused';
}
