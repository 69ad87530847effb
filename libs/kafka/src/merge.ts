import { setTimeout as delay } from 'node:timers/promises';
import type { StoredEvent } from '#event-store';
import { decodeEvent, withBytes } from './messages.js';
import { KafkaFailure, type ConsumedMessage, type Kafka, type PartitionOffsets } from './port.js';

/** Global positions, first and last. */
export interface Gap {
  readonly first: bigint;
  readonly last: bigint;
}

/** Offsets by topic and partition. */
export type TopicPlaces = Map<string, Map<number, bigint>>;

/** Where a message was, and under which epoch of the relay it was sent. */
export interface MessagePlace {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  /** `ce_epoch`; 0 where it says none. */
  readonly epoch: bigint;
}

/** An event, and where its message was; null for one that came from elsewhere. */
export interface MergedEvent extends StoredEvent {
  readonly place: MessagePlace | null;
}

/** How topics of events are read as one log. */
export interface MergeOptions {
  readonly kafka: Kafka;
  readonly topics: readonly string[];
  /** The last global position that is not wanted; -1 = everything is. */
  readonly after: bigint;
  /** Where to begin in each partition: nothing after `after` lies before. Default: at the beginning. */
  readonly from?: TopicPlaces;
  /** `end`: stops where the topics ended when it began. `never`: goes on, through outages. */
  readonly until: 'end' | 'never';
  /** Events in the order of the log, without gap and without repeats. The next ones come when it resolves. */
  readonly handle: (events: readonly MergedEvent[]) => Promise<void>;
  /** Bytes of an event that was too large for its topic, found by their hash; null = nowhere. */
  readonly largeBytes: (hash: string, message: ConsumedMessage) => Promise<Uint8Array | null>;
  /**
   * Positions that lie in no topic although later ones do. Answers with those of them that another place has; the rest
   * is passed over. A throw ends the merge.
   */
  readonly missing: (gap: Gap) => Promise<readonly StoredEvent[]>;
  /** A message that is no event of this program is passed over. */
  readonly foreign?: (message: ConsumedMessage, why: string) => void;
  /** An event at a position that another message had already; it is passed over. A repeat of the relay is the same event. */
  readonly repeated?: (stored: StoredEvent) => void;
  /** With `never`: the cluster was lost, and is tried again. */
  readonly trouble?: (error: unknown) => void;
  readonly signal?: AbortSignal;
}

/** Topics that are being read as one log. */
export interface Merge {
  /** Resolves at the end, or when the signal says so; rejects with what ended it before. */
  readonly ended: Promise<void>;
  /** Where everything lies that was not handed over yet, or later; for a later `from`. */
  places(): TopicPlaces;
}

/** What a partition may hold ready before it is read on: messages, and bytes. */
const heldMessages = 2_000;
const heldBytes = 8 * 1024 * 1024;

/** Most events that are handled at once. */
const batchEvents = 2_000;

/** How long a position may be awaited before the cluster is asked whether it can still come, ms. */
const patienceMs = 3_000;

interface Waiting {
  readonly event: MergedEvent;
  readonly partition: PartitionReading;
}

interface PartitionReading {
  readonly topic: string;
  readonly partition: number;
  /** Offset of the message after the last one that came. */
  next: bigint;
  /** Where the reading ends; null = it does not. */
  readonly end: bigint | null;
  /** Highest global position that came. */
  seen: bigint;
  messages: number;
  bytes: number;
  release: (() => void) | null;
}

/**
 * Reads topics of events as one log. Positions are dense, and each partition has its own in rising order: so the next
 * event is at the head of some partition, and one that no partition can still bring is missing.
 */
export const mergeTopics = (options: MergeOptions): Merge => {
  const merging = new TopicMerge(options);
  return { ended: merging.run(), places: () => merging.places() };
};

class TopicMerge {
  private readonly partitions = new Map<string, PartitionReading>();
  private readonly waiting = new Map<bigint, Waiting>();
  private readonly stopping = new AbortController();
  private expected: bigint;
  private ready: MergedEvent[] = [];
  private handling: Promise<void> = Promise.resolve();
  private isHandling = false;
  private movedAt = performance.now();

  constructor(private readonly options: MergeOptions) {
    this.expected = options.after + 1n;
  }

  async run(): Promise<void> {
    const { topics, until, signal } = this.options;
    const stop = (): void => this.stopping.abort();
    signal?.addEventListener('abort', stop, { once: true });
    if (signal?.aborted === true) stop();
    const failed = Promise.withResolvers<never>();
    failed.promise.catch(() => undefined);
    this.fail = (error) => {
      failed.reject(error);
      stop();
    };
    const watching = until === 'never' ? this.watch() : Promise.resolve();
    try {
      if (until === 'end') await this.openAll();
      await Promise.race([Promise.all(topics.map((topic) => this.readTopic(topic))), failed.promise]);
      await Promise.race([this.handling, failed.promise]);
      if (until === 'end' && !this.stopping.signal.aborted) await this.finish();
    } finally {
      stop();
      for (const partition of this.partitions.values()) partition.release?.();
      await watching;
      signal?.removeEventListener('abort', stop);
    }
  }

  places(): TopicPlaces {
    const places = new Map<string, Map<number, bigint>>();
    for (const { topic, partition, next } of this.partitions.values()) setPlace(places, topic, partition, next);
    for (const { place } of [...this.ready, ...[...this.waiting.values()].map(({ event }) => event)]) {
      if (place !== null) lowerPlace(places, place);
    }
    return places;
  }

  private fail: (error: unknown) => void = () => undefined;

  /** The ends of all topics are asked for before anything is read, so that they are of one moment. */
  private async openAll(): Promise<void> {
    for (const topic of this.options.topics) await this.open(topic);
  }

  private async open(topic: string): Promise<void> {
    const offsets = await this.offsetsOf(topic);
    if (offsets === null) throw new KafkaFailure('refused', `there is no topic ${topic}`, 'UNKNOWN_TOPIC_OR_PARTITION');
    for (const { partition, low, high } of offsets) {
      const key = `${topic}/${String(partition)}`;
      const known = this.partitions.get(key);
      if (known !== undefined) {
        // A topic that was made anew begins at nothing again.
        if (known.next > high) known.next = low;
        continue;
      }
      const wanted = this.options.from?.get(topic)?.get(partition) ?? low;
      const next = wanted < low || wanted > high ? low : wanted;
      const end = this.options.until === 'end' ? high : null;
      this.partitions.set(key, { topic, partition, next, end, seen: -1n, messages: 0, bytes: 0, release: null });
    }
  }

  private async offsetsOf(topic: string): Promise<readonly PartitionOffsets[] | null> {
    const asked = await this.options.kafka.topics();
    return asked.offsets(topic).finally(() => asked.close());
  }

  private async readTopic(topic: string): Promise<void> {
    if (this.options.until === 'end') return this.readOnce(topic);
    for (let waitMs = 500; !this.stopping.signal.aborted; waitMs = Math.min(waitMs * 2, 5_000)) {
      try {
        await this.open(topic);
        await this.readOnce(topic);
      } catch (error) {
        if (!(error instanceof KafkaFailure)) throw error;
        this.options.trouble?.(error);
      }
      await delay(waitMs, undefined, { signal: this.stopping.signal }).catch(() => undefined);
    }
  }

  private async readOnce(topic: string): Promise<void> {
    const own = [...this.partitions.values()].filter((partition) => partition.topic === topic);
    const ends = own.flatMap(({ partition, end }) => (end === null ? [] : [[partition, end] as const]));
    await this.options.kafka.readTopic({
      topic,
      from: new Map(own.map(({ partition, next }) => [partition, next])),
      until: this.options.until === 'never' ? 'never' : new Map(ends),
      signal: this.stopping.signal,
      handle: (messages) => this.take(messages),
      hold: (partition) => this.hold(`${topic}/${String(partition)}`),
    });
    if (this.stopping.signal.aborted) return;
    for (const partition of own) if (partition.end !== null) partition.next = partition.end;
    await this.passCertainGaps();
  }

  private async take(messages: readonly ConsumedMessage[]): Promise<void> {
    for (const message of messages) {
      const partition = this.partitions.get(`${message.topic}/${String(message.partition)}`);
      if (partition === undefined) continue;
      const stored = await this.read(message);
      partition.next = message.offset + 1n;
      if (stored === null) continue;
      const { globalPosition } = stored;
      if (globalPosition > partition.seen) partition.seen = globalPosition;
      if (globalPosition < this.expected || this.waiting.has(globalPosition)) {
        this.options.repeated?.(stored);
        continue;
      }
      const place = placeOf(message);
      this.waiting.set(globalPosition, { event: { ...stored, place }, partition });
      partition.messages += 1;
      partition.bytes += stored.bytes.length;
    }
    this.collect();
    await this.passCertainGaps();
  }

  private async read(message: ConsumedMessage): Promise<StoredEvent | null> {
    let decoded = decodeEvent(message);
    if (decoded.kind === 'reference') {
      const bytes = await this.options.largeBytes(decoded.hash, message);
      decoded =
        bytes === null
          ? { kind: 'foreign', message, why: 'the bytes that ce_dataref names are nowhere' }
          : withBytes(decoded, bytes);
    }
    if (decoded.kind === 'event') return decoded.stored;
    if (decoded.kind === 'foreign') this.options.foreign?.(message, decoded.why);
    return null;
  }

  /** Moves on over all that lies without a gap. */
  private collect(): void {
    for (;;) {
      const next = this.waiting.get(this.expected);
      if (next === undefined) break;
      this.ready.push(next.event);
      this.waiting.delete(this.expected);
      next.partition.messages -= 1;
      next.partition.bytes -= next.event.bytes.length;
      this.expected += 1n;
      this.movedAt = performance.now();
      if (next.partition.release !== null && !isFull(next.partition, 2)) next.partition.release();
    }
    if (!this.isHandling && this.ready.length > 0) this.handling = this.handleReady();
  }

  private async handleReady(): Promise<void> {
    this.isHandling = true;
    try {
      while (this.ready.length > 0 && !this.stopping.signal.aborted) {
        await this.options.handle(this.ready.splice(0, batchEvents));
        for (const partition of this.partitions.values()) {
          if (partition.release !== null && !isFull(partition, 2) && !this.isBehind()) partition.release();
        }
      }
    } catch (error) {
      this.fail(error);
    } finally {
      this.isHandling = false;
    }
  }

  /** More is ready than is handled. */
  private isBehind(): boolean {
    return this.ready.length > 2 * batchEvents;
  }

  /** A partition that is far ahead of the others, or of who handles, is not read on for now. */
  private hold(key: string): Promise<void> | null {
    const partition = this.partitions.get(key);
    if (partition === undefined || this.stopping.signal.aborted) return null;
    if (!isFull(partition, 1) && !this.isBehind()) return null;
    return new Promise((resolve) => {
      partition.release = () => {
        partition.release = null;
        resolve();
      };
    });
  }

  /** A position is missing for certain when every partition is beyond it or at its end. */
  private async passCertainGaps(): Promise<void> {
    while (this.waiting.size > 0 && !this.waiting.has(this.expected)) {
      const canStillCome = [...this.partitions.values()].some(
        ({ seen, next, end }) => seen < this.expected && (end === null || next < end),
      );
      if (canStillCome) return;
      await this.passGap();
    }
  }

  private passing: Promise<void> | null = null;

  private passGap(): Promise<void> {
    this.passing ??= this.passGapNow().finally(() => (this.passing = null));
    return this.passing;
  }

  private async passGapNow(): Promise<void> {
    let first: bigint | null = null;
    for (const position of this.waiting.keys()) if (first === null || position < first) first = position;
    if (first === null || first <= this.expected) return;
    const found = await this.options.missing({ first: this.expected, last: first - 1n });
    for (const stored of found) this.ready.push({ ...stored, place: null });
    this.expected = first;
    this.collect();
  }

  /** What is left when everything was read. */
  private async finish(): Promise<void> {
    this.collect();
    await this.passCertainGaps();
    while (this.isHandling || this.ready.length > 0) {
      if (!this.isHandling) this.handling = this.handleReady();
      await this.handling;
      if (this.stopping.signal.aborted) return;
    }
  }

  /** While it goes on, only the cluster knows whether an idle partition can still bring a position. */
  private async watch(): Promise<void> {
    while (!this.stopping.signal.aborted) {
      await delay(patienceMs, undefined, { signal: this.stopping.signal }).catch(() => undefined);
      if (this.waiting.size === 0 || performance.now() - this.movedAt < patienceMs) continue;
      try {
        if (await this.isLost(this.expected)) await this.passGap();
      } catch (error) {
        if (error instanceof KafkaFailure) this.options.trouble?.(error);
        else this.fail(error);
      }
    }
  }

  private async isLost(position: bigint): Promise<boolean> {
    for (const topic of this.options.topics) {
      for (const { partition, high } of (await this.offsetsOf(topic)) ?? []) {
        const reading = this.partitions.get(`${topic}/${String(partition)}`);
        if (reading === undefined) return false;
        if (reading.seen < position && reading.next < high) return false;
      }
    }
    return this.expected === position;
  }
}

const placeOf = ({ topic, partition, offset, headers }: ConsumedMessage): MessagePlace => {
  const epoch = headers.ce_epoch ?? '';
  return { topic, partition, offset, epoch: /^\d{1,18}$/u.test(epoch) ? BigInt(epoch) : 0n };
};

const setPlace = (places: TopicPlaces, topic: string, partition: number, offset: bigint): void => {
  const found = places.get(topic) ?? new Map<number, bigint>();
  places.set(topic, found.set(partition, offset));
};

/** Moves a place back to where an event lies that is still wanted. */
export const lowerPlace = (places: TopicPlaces, { topic, partition, offset }: Omit<MessagePlace, 'epoch'>): void => {
  const found = places.get(topic)?.get(partition);
  if (found === undefined || offset < found) setPlace(places, topic, partition, offset);
};

const isFull = ({ messages, bytes }: PartitionReading, part: number): boolean =>
  messages * part > heldMessages || bytes * part > heldBytes;
