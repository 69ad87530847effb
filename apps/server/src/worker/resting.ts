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

/**
 * A handler that gives way to the firing of hooks: while this process commits one append after another, it rests
 * before each batch, so that batches are few and large. A single append is taken at once: who fires and reads must not
 * wait, and a log that only has to be caught up with is followed at full speed.
 */
export const resting = (
  handle: Handle,
  rest: Rest,
  fullBatch: number,
  store: Pick<EventStore, 'onAppended'>,
): Handle => {
  let commits = 0;
  let tookMs = 0;
  store.onAppended(() => {
    commits += 1;
  });
  return async (events, sql) => {
    const isBusy = commits >= busyCommits;
    commits = 0;
    const restMs = events.length < fullBatch ? rest.pauseMs : Math.min(tookMs * rest.share, longestMs);
    if (isBusy && restMs > 0) await sleep(restMs);
    const start = performance.now();
    await handle(events, sql);
    tookMs = performance.now() - start;
  };
};
