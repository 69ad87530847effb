import type { EventStore, StoredEvent } from '#event-store';
import type { Kafka, TopicNames } from '#kafka';
import { mergeTopics } from '#kafka';
import type { ReplayFilter } from './order.js';

/** A stretch of a log, read once in its order. Its end was fixed when it was opened. */
export interface ReplaySource {
  /** Positions that it covers, for progress: with a filter fewer events come. */
  readonly positions: number;
  /** Last global position that it covers. */
  readonly until: bigint;
  /**
   * Hands out events in order; the next ones come when `handle` resolves, with how many of the positions are behind it.
   * Ends early, without an error, when the signal says so.
   */
  read(handle: (events: readonly StoredEvent[], covered: number) => Promise<void>, signal: AbortSignal): Promise<void>;
}

/** Most events that are handed out at once. */
const eventsAtOnce = 4_000;

/** Reads the log in Postgres up to where it ends now. The next events are read while these are handled. */
export const postgresSource = async (store: EventStore, filter: ReplayFilter): Promise<ReplaySource> => {
  const until = await store.head();
  const { account } = filter;
  const end = account === null ? until : (await store.accountSize(account)) - 1n;
  const first = filter.from ?? 0n;
  const last = filter.to === null || filter.to > end ? end : filter.to;
  const placeOf = (stored: StoredEvent): bigint => (account === null ? stored.globalPosition : stored.position);
  const page = async (after: bigint): Promise<readonly StoredEvent[]> => {
    if (after >= last) return [];
    if (account === null) {
      const events = await store.readAll(after, eventsAtOnce, filter.types ?? undefined);
      return events.filter((stored) => placeOf(stored) <= last);
    }
    return store.readAccount(account, {
      after,
      until: last,
      limit: eventsAtOnce,
      ...(filter.types === null ? {} : { types: filter.types }),
      ...(filter.session === null ? {} : { sessionId: filter.session }),
      ...(filter.stream === null ? {} : { stream: filter.stream }),
    });
  };
  return {
    positions: Math.max(0, Number(last - first + 1n)),
    until,
    read: async (handle, signal) => {
      let next = page(first - 1n);
      while (!signal.aborted) {
        const events = await next;
        const at = events.at(-1);
        if (at === undefined) return;
        next = page(placeOf(at));
        // A failure of the next page is told when it is its turn.
        next.catch(() => undefined);
        const wanted = account === null ? events : events.filter((stored) => isWanted(stored, filter));
        await handle(wanted, Number(placeOf(at) - first + 1n));
      }
    },
  };
};

/** Topics of a cluster that were opened. */
export interface KafkaLog {
  readonly kafka: Kafka;
  readonly names: TopicNames;
}

/**
 * Reads the topics of events up to where they end now, merged into one log. What they lack in between is taken from
 * Postgres where it has it, and counted with `lacking`: it should have been relayed. With `whole`, what the relay has
 * not sent yet comes from Postgres too, so that a read model is compared at the place where it stands.
 */
export const kafkaSource = async (
  { kafka, names }: KafkaLog,
  store: EventStore,
  filter: ReplayFilter,
  lacking: (count: number) => void,
  extent: 'whole' | 'topics',
): Promise<ReplaySource> => {
  const until = await store.head();
  const { account } = filter;
  const isIn = (stored: StoredEvent): boolean => {
    const place = account === null ? stored.globalPosition : stored.position;
    return place >= (filter.from ?? 0n) && (filter.to === null || place <= filter.to) && isWanted(stored, filter);
  };
  return {
    positions: Number(until + 1n),
    until,
    read: async (handle, signal) => {
      let reached = -1n;
      const merge = mergeTopics({
        kafka,
        topics: account === null ? names.allEvents : [...new Set([names.eventsOf(account), names.events])],
        after: -1n,
        until: 'end',
        handle: async (events) => {
          reached = events.at(-1)?.globalPosition ?? reached;
          await handle(events.filter(isIn), Number(reached + 1n));
        },
        largeBytes: async (_hash, message) => {
          const [stored] = await store.readAll(BigInt(message.headers.ce_globalposition ?? '0') - 1n, 1);
          return stored?.bytes ?? null;
        },
        missing: async ({ first, last }) => {
          // The topics that one account needs lack what others have in theirs.
          if (account !== null) return [];
          const found: StoredEvent[] = [];
          for (let after = first - 1n; after < last;) {
            const events = await store.readAll(after, eventsAtOnce);
            found.push(...events.filter(({ globalPosition }) => globalPosition <= last));
            after = events.at(-1)?.globalPosition ?? last;
          }
          lacking(found.length);
          return found;
        },
        signal,
      });
      await merge.ended;
      while (extent === 'whole' && reached < until && !signal.aborted) {
        const events = await store.readAll(reached, eventsAtOnce);
        reached = events.at(-1)?.globalPosition ?? until;
        await handle(events.filter(isIn), Number(reached + 1n));
      }
    },
  };
};

const isWanted = ({ event }: StoredEvent, { account, types, session, stream }: ReplayFilter): boolean =>
  (account === null || event.account === account) &&
  (types === null || types.includes(event.type)) &&
  (session === null || event.sessionId === session) &&
  (stream === null || event.stream === stream);
