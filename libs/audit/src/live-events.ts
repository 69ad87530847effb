import { setTimeout as sleep } from 'node:timers/promises';
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
  const growth = watchGrowth(store, signal);
  let at = query.after;
  let saidAt = Date.now();
  try {
    while (!signal.aborted) {
      growth.look();
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
      if (wait > 0) await growth.since(Math.min(wait, lookEveryMs));
      else {
        yield { kind: 'nothing', upTo: at };
        saidAt = Date.now();
      }
    }
  } finally {
    growth.stop();
  }
};

/** How often a quiet log is looked at, ms: another replica may have written. */
const lookEveryMs = 250;

/** How long after one look the next one is, at least, ms: every commit wakes every reader of every account. */
const restMs = 20;

interface Growth {
  /** From here on growth counts. */
  look(): void;
  /** Resolves when this process has appended since the look, or after a while. */
  since(atMostMs: number): Promise<void>;
  stop(): void;
}

const watchGrowth = (store: EventStore, signal: AbortSignal): Growth => {
  let lookedAt = 0;
  let grown = false;
  let wake: (() => void) | null = null;
  const tell = (): void => {
    grown = true;
    wake?.();
  };
  const stopListening = store.onAppended(tell);
  signal.addEventListener('abort', tell, { once: true });
  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  return {
    look: () => {
      lookedAt = Date.now();
      grown = false;
    },
    since: async (atMostMs) => {
      if (!grown) await pause(atMostMs);
      const rest = restMs - (Date.now() - lookedAt);
      if (rest > 0 && !signal.aborted) await sleep(rest);
    },
    stop: () => {
      stopListening();
      signal.removeEventListener('abort', tell);
      wake?.();
    },
  };
};
