import type { EventStore, StoredEvent } from '#event-store';
import type { EventType } from '#record';

export interface LiveQuery {
  readonly account: string;
  /** Begins after this position. */
  readonly after: bigint;
  readonly types?: readonly EventType[];
  readonly sessionId?: string;
  readonly stream?: string;
}

/** The next events, or how far there are none. */
export type LiveStep =
  | { readonly kind: 'events'; readonly events: readonly StoredEvent[] }
  /** Everything up to here was looked at: where a reader that comes back may begin. */
  | { readonly kind: 'nothing'; readonly upTo: bigint };

/** Events that one step holds at most: what a slow reader keeps in memory. */
const stepEvents = 100;

/**
 * An account's log from a position on, as it grows: every event once, in order, without end. It reads the next step
 * only when it is asked for it, so a slow reader waits in the log, not in memory. Ends when `signal` aborts.
 * @param idleMs how long a step waits before it says that there is nothing
 */
export const followAccount = async function* (
  store: EventStore,
  query: LiveQuery,
  signal: AbortSignal,
  idleMs: number,
): AsyncGenerator<LiveStep> {
  const { account, types, sessionId, stream } = query;
  const filter = {
    ...(types === undefined ? {} : { types }),
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(stream === undefined ? {} : { stream }),
  };
  let at = query.after;
  let saidAt = Date.now();
  while (!signal.aborted) {
    const until = (await store.accountSize(account)) - 1n;
    if (until > at) {
      const events = await store.readAccount(account, { ...filter, after: at, until, limit: stepEvents });
      const last = events.at(-1);
      // A page that is not full has seen everything up to `until`, whatever the filter left out.
      at = events.length === stepEvents && last !== undefined ? last.position : until;
      if (events.length > 0) {
        yield { kind: 'events', events };
        saidAt = Date.now();
        continue;
      }
    }
    const wait = idleMs - (Date.now() - saidAt);
    if (wait <= 0) {
      yield { kind: 'nothing', upTo: at };
      saidAt = Date.now();
    } else await appended(store, Math.min(wait, lookEveryMs), signal);
  }
};

/** How often a quiet log is looked at, ms: another replica may have written. */
const lookEveryMs = 100;

const appended = (store: EventStore, atMostMs: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      stop();
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, atMostMs);
    const stop = store.onAppended(done);
    signal.addEventListener('abort', done, { once: true });
  });
