import {
  handlePartition,
  joinPartitions,
  reachedPartitions,
  type Generation,
  type Handled,
  type Projection,
} from '#audit';
import type { EventStore, Sql, StoredEvent } from '#event-store';
import { decodeEvent, withBytes, type ConsumedMessage, type GroupBatch, type GroupMember, type Kafka } from '#kafka';
import { errorFacts, type Logger } from '#platform';
import type { LargeEvents } from './kafka-large-events.js';
import type { Pace } from './resting.js';

/** What a member needs to take its share of the topics into one generation. */
export interface PartitionFollowing {
  readonly kafka: Kafka;
  /** Every topic with events. */
  readonly topics: readonly string[];
  /** Name of the consumer group: all members of it share the partitions. */
  readonly group: string;
  readonly projection: Projection;
  readonly generation: Generation;
  readonly store: EventStore;
  readonly sql: Sql;
  readonly large: LargeEvents;
  readonly pace: Pace;
  readonly handled: (handled: Handled, events: readonly StoredEvent[]) => void;
  readonly logger: Logger;
}

/** A member at work. */
export interface PartitionFollower {
  /** Failures in a row; 0 while it works. */
  failures(): number;
  stop(): Promise<void>;
}

/** Events of one transaction. */
const batchEvents = 1000;

const joinTries = 5;
const joinPauseMs = 15;

/**
 * Takes a share of the topics' partitions into a generation of tables, with whoever else is in the group. The offsets
 * are kept beside the rows, in the same commit; the broker only says who reads what.
 */
export const followPartitions = (options: PartitionFollowing): PartitionFollower => {
  const member = new Member(options);
  void member.join();
  return { failures: () => member.failures, stop: () => member.stop() };
};

class Member {
  failures = 0;
  private readonly stopping = new AbortController();
  private joined: GroupMember | null = null;
  private joining: Promise<void> = Promise.resolve();
  /** Offset after what this member took, since it last joined. */
  private readonly taken = new Map<string, bigint>();
  private readonly told = new Set<string>();

  constructor(private readonly options: PartitionFollowing) {}

  join(): Promise<void> {
    this.joining = this.joinPatiently();
    return this.joining;
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    await this.joining;
    await this.joined?.stop();
  }

  /** A cluster that is not there yet is waited for. */
  private async joinPatiently(): Promise<void> {
    const { kafka, group, topics } = this.options;
    for (let waitMs = 500; !this.isStopped(); waitMs = Math.min(waitMs * 2, 10_000)) {
      try {
        this.joined = await kafka.joinGroup({
          group,
          topics,
          handle: (batch) => this.take(batch),
          from: (partitions) => this.begin(partitions),
        });
        return;
      } catch (error) {
        this.failed(error);
        await pause(waitMs, this.stopping.signal);
      }
    }
  }

  private isStopped(): boolean {
    return this.stopping.signal.aborted;
  }

  /** Where the rows say that each partition was left; at its beginning where they say nothing or what is not there. */
  private async begin(
    partitions: ReadonlyMap<string, readonly number[]>,
  ): Promise<ReadonlyMap<string, ReadonlyMap<number, bigint>>> {
    this.taken.clear();
    const reached = await reachedPartitions(this.options.sql, this.options.generation.generation);
    const asked = await this.options.kafka.topics();
    try {
      const places = new Map<string, Map<number, bigint>>();
      for (const [topic, numbers] of partitions) {
        const offsets = (await asked.offsets(topic)) ?? [];
        const own = offsets.filter(({ partition }) => numbers.includes(partition));
        places.set(
          topic,
          new Map(
            own.map(({ partition, low, high }) => {
              const row = reached.find((one) => one.topic === topic && one.partition === partition);
              const next = row?.nextOffset ?? low;
              return [partition, next < low || next > high ? low : next];
            }),
          ),
        );
      }
      return places;
    } finally {
      await asked.close();
    }
  }

  private async take(batch: GroupBatch): Promise<void> {
    try {
      for (let at = 0; at < batch.messages.length; at += batchEvents) {
        // What was taken away meanwhile is another member's; it would find these applied, and only waits for them.
        if (batch.isStale() || this.isStopped()) return;
        await this.takeSome(batch, batch.messages.slice(at, at + batchEvents));
        await batch.heartbeat();
      }
      if (this.failures > 0) this.options.logger.info(this.facts(), 'a read model is taken from Kafka again');
      this.failures = 0;
    } catch (error) {
      this.failed(error);
      throw error;
    }
  }

  private async takeSome({ topic, partition }: GroupBatch, messages: readonly ConsumedMessage[]): Promise<void> {
    const { projection, generation, sql, store, pace } = this.options;
    const last = messages.at(-1);
    if (last === undefined) return;
    const key = `${topic}/${String(partition)}`;
    const events = (await Promise.all(messages.map((message) => this.read(message)))).flatMap((event) => event ?? []);
    const end = { topic, partition, before: this.taken.get(key) ?? 0n, nextOffset: last.offset + 1n };
    await pace(events.length, async () => {
      const handled = await sql.transaction((tx) => handlePartition(projection, generation, events, end, tx, store));
      if (handled.state === 'behind') return this.rejoin();
      this.taken.set(key, end.nextOffset);
      await this.joinUp();
      this.options.handled(handled, events);
    });
  }

  /** Another member that is at it may not have seen what was just committed: then a moment later. */
  private async joinUp(): Promise<void> {
    const { sql, projection, generation } = this.options;
    for (let tries = 0; tries < joinTries; tries += 1) {
      if ((await joinPartitions(sql, projection, generation)) !== null) return;
      await pause(joinPauseMs, this.stopping.signal);
    }
  }

  /** The rows are of an earlier time than what was read: everything after them is read again. */
  private rejoin(): never {
    const left = this.joined;
    this.joined = null;
    this.taken.clear();
    this.joining = (async () => {
      await left?.stop();
      await this.joinPatiently();
    })();
    throw new Error('the tables are of an earlier time');
  }

  private async read(message: ConsumedMessage): Promise<StoredEvent | null> {
    const decoded = decodeEvent(message);
    if (decoded.kind === 'event') return decoded.stored;
    if (decoded.kind === 'foreign') return this.passOver(message, decoded.why);
    const bytes = await this.options.large.bytes(decoded.hash, message);
    const whole = bytes === null ? null : withBytes(decoded, bytes);
    if (whole?.kind === 'event') return whole.stored;
    return this.passOver(message, 'the bytes that ce_dataref names are nowhere');
  }

  /** Said once for each reason and topic: a topic that others write to would fill the log. */
  private passOver({ topic, partition, offset }: ConsumedMessage, why: string): null {
    const key = `${topic} ${why}`;
    if (!this.told.has(key)) {
      const facts = { ...this.facts(), topic, partition, offset: String(offset), why };
      this.options.logger.warn(facts, 'a message that is no event of this log was passed over');
    }
    this.told.add(key);
    return null;
  }

  private failed(error: unknown): void {
    this.failures += 1;
    if (this.failures > 1) return;
    this.options.logger.error({ ...this.facts(), ...errorFacts(error) }, 'a read model cannot be taken from Kafka');
  }

  private facts(): { readonly readModel: string; readonly generation: number } {
    return { readModel: this.options.generation.name, generation: this.options.generation.generation };
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
    signal.addEventListener('abort', done);
    if (signal.aborted) done();
  });
