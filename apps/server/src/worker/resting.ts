import { setTimeout as sleep } from 'node:timers/promises';
import type { EventStore, Sql, StoredEvent } from '#event-store';

/** How much a follower holds back while this process appends. */
export interface Rest {
  /** Before a batch that is not full: the next one is larger for it. */
  readonly pauseMs: number;
  /** Before a full batch, for each unit of time that the last one took: 0 = a follower that is behind does not rest. */
  readonly share: number;
}

type Handle = (events: readonly StoredEvent[], sql: Sql) => Promise<void>;

/** Longest rest before a full batch, ms. */
const longestMs = 1_000;

/** Commits of this process between two batches that mean that hooks are being fired one after another. */
const busyCommits = 4;

/** Runs work on so many events, after the rest that is due. */
export type Pace = (events: number, work: () => Promise<void>) => Promise<void>;

/**
 * Gives way to the firing of hooks: while this process commits one append after another, it rests before each batch, so
 * that batches are few and large. A single append is taken at once: who fires and reads must not wait, and a log that
 * only has to be caught up with is followed at full speed.
 */
export const pacing = (rest: Rest, fullBatch: number, store: Pick<EventStore, 'onAppended'>): Pace => {
  let commits = 0;
  let tookMs = 0;
  store.onAppended(() => {
    commits += 1;
  });
  return async (events, work) => {
    const isBusy = commits >= busyCommits;
    commits = 0;
    const restMs = events < fullBatch ? rest.pauseMs : Math.min(tookMs * rest.share, longestMs);
    if (isBusy && restMs > 0) await sleep(restMs);
    const start = performance.now();
    await work();
    tookMs = performance.now() - start;
  };
};

/** A handler at such a pace. */
export const resting = (
  handle: Handle,
  rest: Rest,
  fullBatch: number,
  store: Pick<EventStore, 'onAppended'>,
): Handle => {
  const pace = pacing(rest, fullBatch, store);
  return (events, sql) => pace(events.length, () => handle(events, sql));
};
