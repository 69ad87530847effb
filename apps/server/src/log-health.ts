import type { EventStore } from '#event-store';
import { LogUnavailable } from '#event-store';

/** A log, and whether it took what it was last given. */
export interface WatchedLog {
  readonly store: EventStore;
  /** True while the last append failed because the log cannot be written (database away, disk full). */
  refuses(): boolean;
}

/** After so long a failure says nothing any more: with nobody sent here, no append would ever show that it is over. */
const rememberedMs = 5_000;

/** A database can answer `select 1` and have no room for an event: only appends tell. */
export const watchLog = (store: EventStore): WatchedLog => {
  let failedAt: number | null = null;
  return {
    store: {
      ...store,
      append: async (append) => {
        try {
          const result = await store.append(append);
          failedAt = null;
          return result;
        } catch (error) {
          if (error instanceof LogUnavailable) failedAt = performance.now();
          throw error;
        }
      },
    },
    refuses: () => failedAt !== null && performance.now() - failedAt < rememberedMs,
  };
};
