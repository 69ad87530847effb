import { setTimeout as sleep } from 'node:timers/promises';
import type { EventStore, Sql, StoredEvent } from '#event-store';

/** How much a follower holds back while this process appends. */
export interface Rest {
  /** Rest for each unit of work. */
  readonly share: number;
  readonly leastMs: number;
  readonly mostMs: number;
}

type Handle = (events: readonly StoredEvent[], sql: Sql) => Promise<void>;

/** Commits of this process between two batches that mean that hooks are being fired one after another. */
const busyCommits = 4;

/**
 * A handler that gives way to the firing of hooks: while this process commits one append after another, it rests
 * before each batch, so that batches are few and large. A single append is taken at once: who fires and reads must not
 * wait, and a log that only has to be caught up with is followed at full speed.
 */
export const resting = (handle: Handle, rest: Rest, store: Pick<EventStore, 'onAppended'>): Handle => {
  let commits = 0;
  let tookMs = 0;
  store.onAppended(() => {
    commits += 1;
  });
  return async (events, sql) => {
    const isBusy = commits >= busyCommits;
    commits = 0;
    if (isBusy) await sleep(Math.min(Math.max(tookMs * rest.share, rest.leastMs), rest.mostMs));
    const start = performance.now();
    await handle(events, sql);
    tookMs = performance.now() - start;
  };
};
