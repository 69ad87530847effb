import type { EventType } from '#record';
import type { EventStore, StoredEvent } from './event-store.js';
import { joinTail, type LogTail } from './log-tail.js';
import type { Log } from './postgres/pool.js';
import type { Sql } from './sql.js';

/** What a follower does with the log. */
export interface FollowerOptions {
  readonly store: EventStore;
  readonly sql: Sql;
  /** Names its checkpoint. One follower of a name is at work at a time, over all replicas. */
  readonly name: string;
  /** Part of the work, each with a checkpoint of its own. Default 0. */
  readonly shard?: number;
  /** Default: every type. */
  readonly types?: readonly EventType[];
  /**
   * Takes events in order. What it writes through `sql` and the checkpoint are one commit, so every event takes effect
   * once; effects outside the database may come again after a crash. A throw writes nothing and is tried again.
   */
  readonly handle: (events: readonly StoredEvent[], sql: Sql) => Promise<void>;
  /** Where the events come from; default: the store. It is left when the follower stops. */
  readonly tail?: LogTail;
  /** Most events in one go. Default 500. */
  readonly batch?: number;
  readonly log?: Log;
}

/** How far a follower is behind. */
export interface FollowerLag {
  /** Events of the whole log that it has not seen yet. */
  readonly positions: bigint;
  /** For how long it has been behind, as this process sees it, ms. */
  readonly ms: number;
  /** The last global position whose effects are committed. */
  readonly position: bigint;
  /** Failures in a row; 0 while it works. */
  readonly failures: number;
}

/** A follower at work. */
export interface Follower {
  readonly name: string;
  lag(): FollowerLag;
  /**
   * Resolves when the effects of everything up to this global position are committed, by whichever replica. Rejects
   * when the follower is stopped before.
   */
  reached(position: bigint): Promise<void>;
  /** Finishes what it is at and stops; another replica goes on. */
  stop(): Promise<void>;
}

interface Waiter {
  readonly position: bigint;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** A busy log is followed in steps of this length rather than commit by commit, ms. */
const stepMs = 20;
/** Many events that do not concern a follower move its checkpoint no more often than this, ms. */
const unconcernedMs = 1_000;
/** So few of them move it sooner: somebody may wait to see that a read model is complete, and nothing is busy. */
const fewEvents = 50n;
const soonMs = 50;

/**
 * Follows the log from its checkpoint in table `follower`. Every replica starts it; the checkpoint's row lock, held
 * for one batch, lets one of them work at a time. So a replica that dies leaves nothing to be noticed and taken over.
 */
export const startFollower = (options: FollowerOptions): Follower => {
  const { store, sql, name, types, batch = 500 } = options;
  const key = { name, shard: options.shard ?? 0 };
  const log: Log = options.log ?? (() => undefined);
  const tail = options.tail ?? joinTail(store);
  const waiters = new Set<Waiter>();
  let position: bigint | null = null;
  /** No event of the types is after `from` up to `to`: the checkpoint, when it is put down, and where it could be. */
  let clear = { from: -1n, to: -1n };
  let steppedAt = -Infinity;
  let failures = 0;
  let behindSince: number | null = null;
  let running = true;

  const noteProgress = (reached: bigint): void => {
    position = reached;
    for (const waiter of waiters) {
      if (waiter.position > reached) continue;
      waiters.delete(waiter);
      waiter.resolve();
    }
  };

  const noteLag = (): void => {
    if (position !== null && position >= tail.seen()) behindSince = null;
    else behindSince ??= performance.now();
  };

  /** Takes one batch, unless another replica is at it, and answers with the checkpoint. */
  const step = (until: bigint): Promise<bigint> =>
    sql.transaction(async (inside) => {
      const from = await lockCheckpoint(inside, key);
      if (from === null) return readCheckpoint(inside, key);
      if (from >= until) return from;
      const after = from >= clear.from && from < clear.to ? clear.to : from;
      // After a failure one at a time, so that the events before a bad one still take effect.
      const limit = failures > 0 ? 1 : batch;
      const events = await tail.read(after, until, limit, types);
      // A batch that is not full ends where the log ended, whatever other types come before that.
      const reached = events.length < limit ? until : (events.at(-1)?.globalPosition ?? until);
      if (events.length > 0) await options.handle(events, inside);
      await moveCheckpoint(inside, key, reached);
      return reached;
    });

  /** Whether nothing up to here concerns this follower, so that its checkpoint can wait. */
  const passes = (until: bigint): boolean => {
    if (types === undefined || position === null || failures > 0) return false;
    const dueMs = until - clear.from > fewEvents ? unconcernedMs : soonMs;
    if (performance.now() - steppedAt > dueMs || !tail.lacks(position, until, types)) return false;
    clear.to = until;
    return true;
  };

  const advance = async (): Promise<void> => {
    const until = tail.seen();
    const before = position;
    try {
      if (passes(until)) noteProgress(until);
      else {
        const reached = await step(until);
        steppedAt = performance.now();
        if (reached < clear.from || reached >= clear.to) clear = { from: reached, to: reached };
        noteProgress(clear.to);
      }
      if (failures > 0) log('info', 'a follower works again', { follower: name });
      failures = 0;
    } catch (error) {
      failures += 1;
      if (failures === 1) log('error', 'a follower failed', { follower: name, error: describe(error) });
    }
    noteLag();
    if (failures > 0) await tail.pause(Math.min(50 * 2 ** Math.min(failures, 7), 5_000));
    // Behind and moving: go on at once. Otherwise a step of rest, also when another replica is at work.
    else if (position === null || position >= until || position === before) await tail.pause(stepMs);
  };

  const run = async (): Promise<void> => {
    while (running) {
      await advance();
      if (failures === 0 && clear.from === clear.to) await tail.beyond(position ?? -2n);
      noteLag();
    }
    for (const waiter of waiters) waiter.reject(new Error(`follower ${name} was stopped`));
  };

  const ended = run();

  return {
    name,
    lag: () => {
      const at = position ?? -1n;
      const behind = tail.seen() - at;
      const ms = behindSince === null ? 0 : Math.round(performance.now() - behindSince);
      return { positions: behind > 0n ? behind : 0n, ms, position: at, failures };
    },
    reached: (wanted) =>
      position !== null && position >= wanted
        ? Promise.resolve()
        : new Promise((resolve, reject) => waiters.add({ position: wanted, resolve, reject })),
    stop: async () => {
      running = false;
      tail.leave();
      await ended;
    },
  };
};

interface CheckpointKey {
  readonly name: string;
  readonly shard: number;
}

/**
 * The checkpoint, locked for this transaction; null while another replica is at work. The commit is not waited for:
 * effects and checkpoint are in it together, so a crash of the database only makes them happen again.
 */
const lockCheckpoint = async (sql: Sql, { name, shard }: CheckpointKey): Promise<bigint | null> => {
  const lock = `select position, set_config('synchronous_commit', 'off', true) from follower
    where name = $1 and shard = $2 for update skip locked`;
  const [row] = await sql.query<{ position: string }>(lock, [name, shard]);
  if (row !== undefined) return BigInt(row.position);
  const make = 'insert into follower (name, shard) values ($1, $2) on conflict do nothing returning position';
  const [made] = await sql.query<{ position: string }>(make, [name, shard]);
  return made === undefined ? null : BigInt(made.position);
};

const readCheckpoint = async (sql: Sql, { name, shard }: CheckpointKey): Promise<bigint> => {
  const text = 'select position from follower where name = $1 and shard = $2';
  const [row] = await sql.query<{ position: string }>(text, [name, shard]);
  return BigInt(row?.position ?? -1);
};

const moveCheckpoint = async (sql: Sql, { name, shard }: CheckpointKey, position: bigint): Promise<void> => {
  const text = 'update follower set position = $3 where name = $1 and shard = $2';
  await sql.query(text, [name, shard, String(position)]);
};

// An error's message may quote what a handler was given.
const describe = (error: unknown): string => {
  if (!(error instanceof Error)) return 'unknown';
  return 'code' in error && typeof error.code === 'string' ? `${error.name} ${error.code}` : error.name;
};
