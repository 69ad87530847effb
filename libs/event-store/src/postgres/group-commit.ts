import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import type { StreamDraft } from '../drafts.js';
import { writeEvents } from '../drafts.js';
import type { Append, AppendResult, StoredEvent } from '../event-store.js';
import { LogBusy, LogRefused, LogUnavailable } from '../event-store.js';
import type { RowTagKey } from '#proof';
import type { BatchItem, BatchOutcome, ItemOutcome, WrittenStream } from './append-batch.js';
import { appendCall, blobsCall, eventsByAccount, outcomesOf } from './append-batch.js';
import { codeOf, faultOf, isUncertain } from './faults.js';
import type { Flight } from './account-sizes.js';
import { accountSizes } from './account-sizes.js';
import { findAppended } from './find-appended.js';
import type { Log } from './pool.js';

/** How appends are grouped and how long they may wait. */
export interface GroupCommitOptions {
  readonly pool: pg.Pool;
  readonly log: Log;
  /** Batches on their way at once: while one waits for its commit, the next waits for the head. */
  readonly writers: number;
  /** Appends that may wait; beyond it `LogBusy`. */
  readonly maxQueued: number;
  /** How long an append may take while the database is away, ms; then `LogUnavailable`. */
  readonly patienceMs: number;
  /** Tags rows; null = rows have none, which no sealer takes. */
  readonly tagKey: RowTagKey | null;
  /** Told of every commit: its items, and their events as they stand. */
  readonly committed: (items: readonly BatchItem[], events: readonly StoredEvent[]) => void;
}

/** Appends from many callers, committed together. */
export interface GroupCommit {
  append(append: Append, drafts: readonly StreamDraft[]): Promise<AppendResult>;
  /** Resolves when everything that was taken has been answered; takes nothing more. */
  close(): Promise<void>;
}

interface Pending {
  readonly append: Append;
  readonly drafts: readonly StreamDraft[];
  readonly deadline: number;
  readonly streamKeys: readonly string[];
  readonly resolve: (result: AppendResult) => void;
  readonly reject: (error: Error) => void;
  /** As last sent, or ready to be sent. */
  item: BatchItem;
  readonly bytes: number;
  /** `taken` into a batch: its streams are busy on its behalf. */
  state: 'queued' | 'taken' | 'answered';
  /** Another process was faster on a stream whose version does not matter: next time under the head's lock. */
  outrun: boolean;
  /** What was sent without an answer: it may yet turn out to be committed. */
  unanswered: BatchItem[];
}

type Lost = Extract<ItemOutcome, { kind: 'moved' | 'claim-lost' }>;

const maxBatchItems = 256;
const maxBatchBytes = 4 * 1024 * 1024;
const maxQueuedBytes = 128 * 1024 * 1024;

/**
 * Appends that arrive while a commit is under way go together into the next. No two of a batch, or of two batches on
 * their way, touch the same stream, so appends to one stream keep the order they came in.
 */
export const groupCommit = (options: GroupCommitOptions): GroupCommit => {
  const queue: Pending[] = [];
  const busyStreams = new Set<string>();
  // Where streams stood when this process last saw them: what `any` guesses from.
  const versions = new LRUCache<string, number>({ max: 20_000 });
  const sizes = accountSizes();
  let queuedBytes = 0;
  let writing = 0;
  let scheduled = false;
  let closed = false;
  let awaySince: number | null = null;
  let drained: (() => void) | null = null;

  const submit = (append: Append, drafts: readonly StreamDraft[]): Promise<AppendResult> => {
    if (closed) return Promise.reject(new LogUnavailable('the log is closed'));
    if (queue.length >= options.maxQueued || queuedBytes >= maxQueuedBytes) {
      return Promise.reject(new LogBusy('too many appends are waiting'));
    }
    return new Promise((resolve, reject) => {
      const streamKeys = drafts.map((draft) => keyOf(draft.account, draft.stream));
      const deadline = performance.now() + options.patienceMs;
      // Serialised now, while the database works for others; what cannot be serialised throws here, to its own caller.
      const item = itemOf(append, drafts);
      const bytes = sizeOf(item);
      queue.push({
        append,
        drafts,
        deadline,
        streamKeys,
        resolve,
        reject,
        item,
        bytes,
        state: 'queued',
        outrun: false,
        unanswered: [],
      });
      queuedBytes += bytes;
      schedule();
    });
  };

  const itemOf = (append: Append, drafts: readonly StreamDraft[]): BatchItem => ({
    account: append.account,
    streams: drafts.map((draft) => writtenAt(draft, believedVersion(draft))),
    blobs: append.blobs ?? [],
    commands: append.commands ?? [],
  });

  const believedVersion = ({ account, stream, expectedVersion }: StreamDraft): number =>
    expectedVersion === 'any' ? (versions.get(keyOf(account, stream)) ?? 0) : expectedVersion;

  /** Serialises again what was meant for a place that has been taken since. */
  const refresh = (pending: Pending): BatchItem => {
    const stale = pending.item.streams.some(({ draft, version }) => version !== believedVersion(draft));
    return stale ? itemOf(pending.append, pending.drafts) : pending.item;
  };

  // One turn of the loop later, so that everybody who was woken by a commit can join the next one.
  const schedule = (): void => {
    if (scheduled || writing >= options.writers) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      while (writing < options.writers && startBatch());
    });
  };

  const startBatch = (): boolean => {
    const batch = takeBatch();
    if (batch.length === 0) return false;
    writing += 1;
    void writeBatch(batch)
      .catch((error: unknown) => {
        for (const pending of batch) fail(pending, unavailable(error));
      })
      .finally(() => {
        writing -= 1;
        if (queue.length > 0) schedule();
        else if (writing === 0) drained?.();
      });
    return true;
  };

  const takeBatch = (): readonly Pending[] => {
    const batch: Pending[] = [];
    const left: Pending[] = [];
    const waiting = new Set<string>();
    let bytes = 0;
    for (const pending of queue) {
      const full = batch.length >= maxBatchItems || bytes >= maxBatchBytes;
      if (full || pending.streamKeys.some((key) => busyStreams.has(key) || waiting.has(key))) {
        for (const key of pending.streamKeys) waiting.add(key);
        left.push(pending);
        continue;
      }
      pending.state = 'taken';
      bytes += pending.bytes;
      batch.push(pending);
      for (const key of pending.streamKeys) busyStreams.add(key);
    }
    keepQueued(left);
    return batch;
  };

  const keepQueued = (left: readonly Pending[]): void => {
    queue.splice(0, queue.length, ...left);
    queuedBytes = left.reduce((sum, { bytes }) => sum + bytes, 0);
  };

  /** Answers everyone in the batch. */
  const writeBatch = async (batch: readonly Pending[]): Promise<void> => {
    let open = batch;
    for (let tries = 0; open.length > 0; tries += 1) {
      open = (await attempt(open)).filter((pending) => pending.state !== 'answered' && !expired(pending));
      if (awaySince !== null) keepQueued(queue.filter((pending) => !expired(pending)));
      // Those that were outrun try again at once; a database that cannot write is given time.
      if (open.length > 0 && awaySince !== null) await pause(backoff(tries));
    }
  };

  /** Sends once; answers with those that must be tried again. */
  const attempt = async (batch: readonly Pending[]): Promise<readonly Pending[]> => {
    let client: pg.PoolClient;
    try {
      client = await options.pool.connect();
    } catch (error) {
      return becameAway(batch, error);
    }
    let release: Error | boolean = false;
    try {
      await answerFound(client, batch);
      const open = batch.filter((pending) => pending.state !== 'answered');
      return open.length === 0 ? [] : await send(client, open);
    } catch (error) {
      release = error instanceof Error ? error : true;
      return becameAway(batch, error);
    } finally {
      client.release(release);
    }
  };

  const send = async (client: pg.PoolClient, batch: readonly Pending[]): Promise<readonly Pending[]> => {
    let items: readonly BatchItem[] = [];
    const call = async (sizeOf: (account: string) => bigint): Promise<BatchOutcome> => {
      const tags = options.tagKey === null ? null : { key: options.tagKey, sizeOf };
      items = batch.map((pending) => (pending.item = refresh(pending)));
      const { rows } = await client.query<object>(appendCall(items, tags, options.patienceMs * 0.8));
      return outcomesOf(rows, items);
    };
    const flight = sizes.depart(eventsByAccount(batch.map(({ item }) => item)));
    try {
      const locked = batch.some((pending) => pending.outrun) || (options.tagKey !== null && sizes.contended());
      const outcome = await (locked ? underLock(client, batch, flight, call) : call(flight.sizeOf));
      becameReachable();
      const again = await settle(client, batch, outcome.items);
      if (outcome.moved.size > 0) await flight.missed(outcome.moved);
      return again;
    } catch (error) {
      // What follows may send parts of the batch again.
      flight.land();
      const fault = faultOf(error);
      if (fault === 'again') return becameAway(batch, error);
      if (fault === 'no-partition') return await nextPartition(client, batch);
      if (fault === 'refused') return await isolate(client, batch, error);
      if (fault === 'broken') {
        for (const pending of batch) fail(pending, unavailable(error));
        return [];
      }
      if (!isUncertain(error)) return becameAway(batch, error);
      batch.forEach((pending, index) => {
        const item = items[index];
        if (item !== undefined && !pending.unanswered.includes(item)) pending.unanswered.push(item);
      });
      throw error;
    } finally {
      flight.land();
    }
  };

  /**
   * Under the head's lock nobody can be faster, so what is read here is still so when the call comes. Blobs go before
   * the lock, as everywhere.
   */
  const underLock = async (
    client: pg.PoolClient,
    batch: readonly Pending[],
    flight: Flight,
    call: (sizeOf: (account: string) => bigint) => Promise<BatchOutcome>,
  ): Promise<BatchOutcome> => {
    const streams = batch.flatMap(({ drafts }) => drafts.filter((draft) => draft.expectedVersion === 'any'));
    await client.query('begin');
    try {
      await client.query(blobsCall(batch.map(({ item }) => item)));
      await client.query('select lock_head()');
      const { rows } = await client.query<{ account: string; id: string; version: number }>(
        `select s.account, s.id, s.version from unnest($1::text[], $2::text[]) wanted(account, id)
          join stream s using (account, id)`,
        [streams.map(({ account }) => account), streams.map(({ stream }) => stream)],
      );
      for (const { account, id, version } of rows) versions.set(keyOf(account, id), version);
      const found = await readSizes(client, batch);
      flight.looked(found);
      const outcome = await call((account) => found.get(account) ?? 0n);
      await client.query('commit');
      return outcome;
    } catch (error) {
      await client.query('rollback').catch(() => undefined);
      throw error;
    }
  };

  const settle = async (
    client: pg.PoolClient,
    batch: readonly Pending[],
    outcomes: readonly ItemOutcome[],
  ): Promise<readonly Pending[]> => {
    const committed: BatchItem[] = [];
    const stored: StoredEvent[] = [];
    const again: Pending[] = [];
    const losers: [Pending, Lost][] = [];
    for (const [index, pending] of batch.entries()) {
      const outcome = outcomes[index] ?? { kind: 'held-back' };
      if (outcome.kind === 'appended') {
        committed.push(pending.item);
        stored.push(...answer(pending, pending.item, outcome));
      } else if (outcome.kind === 'held-back') again.push(pending);
      else losers.push([pending, outcome]);
    }
    if (committed.length > 0) options.committed(committed, stored);
    // Who was sent before without an answer may have lost against itself.
    await answerFound(
      client,
      losers.map(([pending]) => pending),
    );
    for (const [pending, outcome] of losers) {
      if (pending.state === 'taken' && !lost(pending, outcome)) again.push(pending);
    }
    return again;
  };

  /** Answers an append that lost; false when it may try again because it did not care for the version. */
  const lost = (pending: Pending, outcome: Lost): boolean => {
    if (outcome.kind === 'claim-lost') {
      finish(pending, { kind: 'claim-lost' });
      return true;
    }
    if (isGuess(pending, outcome.stream)) {
      versions.set(keyOf(pending.append.account, outcome.stream), outcome.version);
      pending.outrun = true;
      return false;
    }
    finish(pending, { kind: 'conflict', stream: outcome.stream, version: outcome.version });
    return true;
  };

  const answer = (
    pending: Pending,
    item: BatchItem,
    at: { readonly globalFirst: bigint; readonly first: bigint },
  ): readonly StoredEvent[] => {
    const events: StoredEvent[] = [];
    for (const { draft, version, events: written } of item.streams) {
      if (draft.expectedVersion === 'any') versions.set(keyOf(draft.account, draft.stream), version + written.length);
      for (const { event, bytes } of written) {
        const offset = BigInt(events.length);
        events.push({ globalPosition: at.globalFirst + offset, position: at.first + offset, event, bytes });
      }
    }
    sizes.reached(pending.append.account, at.first + BigInt(events.length));
    finish(pending, { kind: 'appended', first: at.first, last: at.first + BigInt(events.length) - 1n, events });
    return events;
  };

  /** Answers those whose commit was not answered and that are there after all. */
  const answerFound = async (client: pg.PoolClient, batch: readonly Pending[]): Promise<void> => {
    const unanswered = batch.flatMap((pending) => pending.unanswered);
    if (unanswered.length === 0) return;
    const places = await findAppended(client, unanswered);
    for (const pending of batch) {
      const item = pending.unanswered.find((sent) => places.has(sent));
      const place = item && places.get(item);
      if (item !== undefined && place !== undefined) options.committed([item], answer(pending, item, place));
    }
  };

  /** One of them cannot be stored: halves are tried until it stands alone. */
  const isolate = async (
    client: pg.PoolClient,
    batch: readonly Pending[],
    error: unknown,
  ): Promise<readonly Pending[]> => {
    const [only] = batch;
    if (batch.length === 1 && only !== undefined) {
      options.log('error', 'the log refused an append', { code: codeOf(error) });
      fail(only, new LogRefused(`the database refused it (${codeOf(error) ?? 'unknown'})`));
      return [];
    }
    const half = Math.ceil(batch.length / 2);
    const again = await send(client, batch.slice(0, half));
    return [...again, ...(await send(client, batch.slice(half)))];
  };

  const nextPartition = async (client: pg.PoolClient, batch: readonly Pending[]): Promise<readonly Pending[]> => {
    await client.query('select ensure_event_partitions()');
    return batch;
  };

  const becameAway = (batch: readonly Pending[], error: unknown): readonly Pending[] => {
    if (awaySince === null)
      options.log('warn', 'the log could not be written and is tried again', { code: codeOf(error) });
    awaySince ??= performance.now();
    return batch;
  };

  const becameReachable = (): void => {
    if (awaySince !== null) options.log('info', 'the log can be written again');
    awaySince = null;
  };

  /** While the database is known to be away for long, nobody waits for it in vain. */
  const expired = (pending: Pending): boolean => {
    const now = performance.now();
    const known = awaySince !== null && now - awaySince >= options.patienceMs;
    if (!known && now < pending.deadline) return false;
    fail(pending, new LogUnavailable('the log cannot be written now'));
    return true;
  };

  const finish = (pending: Pending, result: AppendResult): void => {
    freeStreams(pending);
    pending.resolve(result);
  };

  const fail = (pending: Pending, error: Error): void => {
    freeStreams(pending);
    pending.reject(error);
  };

  const freeStreams = (pending: Pending): void => {
    if (pending.state === 'taken') for (const key of pending.streamKeys) busyStreams.delete(key);
    pending.state = 'answered';
  };

  return {
    append: submit,
    close: async () => {
      closed = true;
      if (writing === 0 && queue.length === 0) return;
      await new Promise<void>((resolve) => {
        drained = resolve;
      });
    },
  };
};

/** The sizes of a batch's accounts. */
const readSizes = async (client: pg.PoolClient, batch: readonly Pending[]): Promise<ReadonlyMap<string, bigint>> => {
  const accounts = [...new Set(batch.map(({ append }) => append.account))];
  const { rows } = await client.query<{ account: string; size: string }>(
    `select a.account, coalesce(h.size, 0) as size from unnest($1::text[]) a(account)
      left join account_head h using (account)`,
    [accounts],
  );
  return new Map(rows.map(({ account, size }) => [account, BigInt(size)]));
};

const unavailable = (error: unknown): LogUnavailable =>
  new LogUnavailable(`the log cannot be written (${codeOf(error) ?? 'unknown'})`);

const keyOf = (account: string, stream: string): string => `${account}\0${stream}`;

const isGuess = (pending: Pending, stream: string): boolean =>
  pending.drafts.some((draft) => draft.stream === stream && draft.expectedVersion === 'any');

const sizeOf = (item: BatchItem): number => {
  let bytes = 0;
  for (const blob of item.blobs) bytes += blob.bytes.length;
  for (const { events } of item.streams) for (const event of events) bytes += event.bytes.length;
  return bytes;
};

const writtenAt = (draft: StreamDraft, version: number): WrittenStream => ({
  draft,
  version,
  events: writeEvents(draft, version),
});

const backoff = (tries: number): number => Math.min(10 * 2 ** Math.min(tries, 5), 250) * (0.5 + Math.random());

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
