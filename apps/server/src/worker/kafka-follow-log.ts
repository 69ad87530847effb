import { setTimeout as delay } from 'node:timers/promises';
import type { EventStore, LogTail, StoredEvent } from '#event-store';
import { lowerPlace, mergeTopics, type Kafka, type Merge, type MergedEvent, type TopicPlaces } from '#kafka';
import { errorFacts, type Logger } from '#platform';
import type { EventType } from '#record';
import type { LargeEvents } from './kafka-large-events.js';

/** The topics as one log, for one follower. */
export interface MergedTailOptions {
  readonly kafka: Kafka;
  readonly topics: readonly string[];
  readonly store: EventStore;
  readonly large: LargeEvents;
  /** Where the follower left the topics; read when the first events are wanted. */
  readonly left: () => Promise<{ readonly position: bigint; readonly places: TopicPlaces }>;
  readonly logger: Logger;
  /** Of the follower, for the log. */
  readonly name: string;
}

/** A log's end as Kafka has it. */
export interface MergedTail extends LogTail {
  /** From where to read on once everything up to `position` is taken. */
  places(position: bigint): TopicPlaces;
}

/** Events that wait to be taken; more are not read. */
const keptEvents = 4_000;

/**
 * Events of all topics in the order of the log, for read models that need it. Positions that no topic has are taken
 * from the log in Postgres; those that were purged there are passed over.
 */
export const mergedTail = (options: MergedTailOptions): MergedTail => new KafkaTail(options);

class KafkaTail implements MergedTail {
  private readonly left = new AbortController();
  private merge: Merge | null = null;
  private starting = false;
  private reached = -1n;
  private kept: MergedEvent[] = [];
  private readonly waiting = new Set<() => void>();
  private readonly foreign = new Set<string>();

  constructor(private readonly options: MergedTailOptions) {}

  seen(): bigint {
    return this.reached;
  }

  async beyond(position: bigint): Promise<void> {
    if (!this.starting) {
      this.starting = true;
      void this.start();
    }
    this.forget(position);
    while (this.reached <= position && !this.left.signal.aborted) await this.changed();
  }

  async read(
    after: bigint,
    until: bigint,
    limit: number,
    types: readonly EventType[] | undefined,
  ): Promise<readonly StoredEvent[]> {
    this.forget(after);
    const first = this.kept[0]?.globalPosition ?? this.reached + 1n;
    if (first > after + 1n) {
      // Before where the topics were read from: another worker gave the tables back to an earlier time.
      const events = await this.options.store.readAll(after, limit, types);
      return events.filter(({ globalPosition }) => globalPosition <= until);
    }
    const found: StoredEvent[] = [];
    for (const stored of this.kept) {
      if (stored.globalPosition > until || found.length === limit) break;
      if (types === undefined || types.includes(stored.event.type)) found.push(stored);
    }
    return found;
  }

  /** Never said: every step also puts down from where the topics are to be read. */
  lacks(): boolean {
    return false;
  }

  async pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.left.signal, ref: false }).catch(() => undefined);
  }

  leave(): void {
    this.left.abort();
    this.wake();
  }

  places(position: bigint): TopicPlaces {
    const places = this.merge?.places() ?? new Map<string, Map<number, bigint>>();
    for (const { globalPosition, place } of this.kept) {
      if (globalPosition > position && place !== null) lowerPlace(places, place);
    }
    return places;
  }

  private async start(): Promise<void> {
    for (let waitMs = 500; !this.left.signal.aborted; waitMs = Math.min(waitMs * 2, 10_000)) {
      try {
        await this.run();
        return;
      } catch (error) {
        this.say('the topics cannot be read as one log; tried again', errorFacts(error));
        await this.pause(waitMs);
      }
    }
  }

  private async run(): Promise<void> {
    const { kafka, topics, large, left } = this.options;
    const { position, places } = await left();
    // Begun anew after a failure, it goes on after what is kept.
    const after = this.reached > position ? this.reached : position;
    this.reached = after;
    this.merge = mergeTopics({
      kafka,
      topics,
      after,
      from: places,
      until: 'never',
      signal: this.left.signal,
      handle: (events) => this.keep(events),
      largeBytes: (hash, message) => large.bytes(hash, message),
      missing: (gap) => this.fill(gap.first, gap.last),
      foreign: ({ topic }, why) => {
        const key = `${topic} ${why}`;
        if (!this.foreign.has(key)) this.say('a message that is no event of this log was passed over', { topic, why });
        this.foreign.add(key);
      },
      trouble: (error) => this.say('the topics cannot be read; tried again', errorFacts(error)),
    });
    await this.merge.ended;
  }

  private async keep(events: readonly MergedEvent[]): Promise<void> {
    while (this.kept.length > keptEvents && !this.left.signal.aborted) await this.changed();
    for (const event of events) this.kept.push(event);
    this.reached = events.at(-1)?.globalPosition ?? this.reached;
    this.wake();
  }

  private async fill(first: bigint, last: bigint): Promise<readonly StoredEvent[]> {
    const found: StoredEvent[] = [];
    for (let after = first - 1n; ;) {
      const events = await this.options.store.readAll(after, 500);
      const wanted = events.filter(({ globalPosition }) => globalPosition <= last);
      found.push(...wanted);
      const end = wanted.at(-1)?.globalPosition;
      if (end === undefined || wanted.length < events.length) break;
      after = end;
    }
    const facts = { first: String(first), last: String(last), found: found.length };
    this.say('positions are in no topic; taken from the log', facts);
    return found;
  }

  /** What was taken, or is another worker's to take. */
  private forget(position: bigint): void {
    let count = 0;
    while ((this.kept[count]?.globalPosition ?? position + 1n) <= position) count += 1;
    if (count === 0) return;
    this.kept = this.kept.slice(count);
    this.wake();
  }

  private changed(): Promise<void> {
    return new Promise((resolve) => this.waiting.add(resolve));
  }

  private wake(): void {
    const woken = [...this.waiting];
    this.waiting.clear();
    for (const resolve of woken) resolve();
  }

  private say(message: string, facts: object): void {
    this.options.logger.warn({ follower: this.options.name, ...facts }, message);
  }
}
