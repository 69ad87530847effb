import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Consumer, EachBatchPayload, IHeaders, KafkaMessage } from 'kafkajs';
import { endWithin, type Connections } from './kafkajs-connections.js';
import { failureOf } from './kafkajs-failures.js';
import {
  KafkaFailure,
  type ConsumedMessage,
  type GroupMember,
  type GroupOptions,
  type PartitionOffsets,
  type ReadTopicOptions,
} from './port.js';

/** Where a reading of a topic is, so that a new client can go on after a failure. */
interface Reading {
  readonly options: ReadTopicOptions;
  /** Where each partition ends; null = never. */
  readonly ends: ReadonlyMap<number, bigint | null>;
  /** The next offset of each partition. */
  readonly next: Map<number, bigint>;
}

/** Tries in a row that read nothing. */
const idleTries = 4;

/** See `Kafka.readTopic`. kafkajs reads in groups only: this one has a name of its own and commits nothing. */
export const readTopic = async (
  connect: () => Connections,
  offsets: readonly PartitionOffsets[],
  options: ReadTopicOptions,
): Promise<void> => {
  const { from, until, signal } = options;
  const ends = new Map(
    offsets.map(({ partition, high }) => [partition, until === 'never' ? null : (until?.get(partition) ?? high)]),
  );
  const next = new Map(offsets.map(({ partition, low }) => [partition, max(low, from?.get(partition) ?? low)]));
  const reading = { options, ends, next };
  const progress = (): bigint => [...next.values()].reduce((sum, offset) => sum + offset, 0n);
  for (let tries = 1; signal?.aborted !== true && !isAllRead(reading); tries += 1) {
    const before = progress();
    try {
      await readOn(connect(), reading);
      return;
    } catch (error) {
      if (progress() > before) tries = 1;
      const mayPass = error instanceof KafkaFailure && error.kind === 'unavailable';
      if (!mayPass || tries === idleTries) throw error;
      // A broker that has just started takes a moment to have groups.
      await delay(500 * tries, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
    }
  }
};

const isRead = ({ ends, next }: Reading, partition: number): boolean => {
  const end = ends.get(partition) ?? null;
  return end !== null && (next.get(partition) ?? 0n) >= end;
};

const isAllRead = (reading: Reading): boolean =>
  [...reading.ends.keys()].every((partition) => isRead(reading, partition));

/** What the caller's own handler threw. */
class HandlerFailure extends Error {
  override readonly name = 'HandlerFailure';

  constructor(readonly thrown: unknown) {
    super('the handler of a topic failed');
  }
}

const readOn = async (connections: Connections, reading: Reading): Promise<void> => {
  const { ends, next } = reading;
  const { topic, handle, signal } = reading.options;
  const ending = Promise.withResolvers<undefined>();
  // It may fail before it is waited for.
  ending.promise.catch(() => undefined);
  const consumer = connections.client.consumer({
    groupId: `hookledger-read-${randomUUID()}`,
    allowAutoTopicCreation: false,
    retry: { restartOnFailure: () => Promise.resolve(false) },
    ...fetchSizes,
  });
  const stop = (): void => ending.resolve(undefined);
  consumer.on(consumer.events.CRASH, ({ payload }) => ending.reject(failureOf(payload.error)));
  signal?.addEventListener('abort', stop, { once: true });

  const holdBack = (partition: number): void => {
    const held = reading.options.hold?.(partition) ?? null;
    if (held === null) return;
    const place = [{ topic, partitions: [partition] }];
    consumer.pause(place);
    held.then(() => consumer.resume(place)).catch((error: unknown) => ending.reject(error));
  };

  const eachBatch = async (payload: EachBatchPayload): Promise<void> => {
    const { batch } = payload;
    const { partition } = batch;
    const end = ends.get(partition) ?? null;
    const wanted = batch.messages
      .map((message) => consumed(topic, partition, message))
      .filter(({ offset }) => offset >= (next.get(partition) ?? 0n) && (end === null || offset < end));
    try {
      if (signal?.aborted === true) return;
      if (wanted.length > 0) await handle(wanted);
    } catch (error) {
      ending.reject(new HandlerFailure(error));
      return;
    }
    payload.resolveOffset(batch.lastOffset());
    next.set(partition, BigInt(batch.lastOffset()) + 1n);
    if (isRead(reading, partition)) consumer.pause([{ topic, partitions: [partition] }]);
    else holdBack(partition);
    if (isAllRead(reading)) ending.resolve(undefined);
    else await payload.heartbeat();
  };

  try {
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: 4,
      eachBatch,
    });
    for (const [partition, offset] of next) consumer.seek({ topic, partition, offset: String(offset) });
    await ending.promise;
  } catch (error) {
    throw error instanceof HandlerFailure ? error.thrown : failureOf(error);
  } finally {
    signal?.removeEventListener('abort', stop);
    await endConsumer(connections, consumer);
  }
};

const fetchSizes = { maxBytesPerPartition: 4 * 1024 * 1024, maxBytes: 16 * 1024 * 1024, maxWaitTimeInMs: 500 };

const max = (one: bigint, other: bigint): bigint => (one > other ? one : other);

const endConsumer = (connections: Connections, consumer: Consumer): Promise<void> =>
  endWithin(connections, () => consumer.disconnect());

/** Sees what became of a member. */
interface Membership {
  /** Resolves when it crashed or is silent: then a new one takes its place. */
  readonly ended: Promise<void>;
  readonly end: () => Promise<void>;
}

/** See `Kafka.joinGroup`. */
export const joinGroup = async (connect: () => Connections, options: GroupOptions): Promise<GroupMember> => {
  const stopping = new AbortController();
  const membership = await enter(connect(), options, stopping.signal);

  /** kafkajs members stop in silence or loop after some failures: a new client is the only way that always helps. */
  const enterAgain = async (): Promise<Membership | null> => {
    for (let waitMs = 500; ; waitMs = Math.min(waitMs * 2, 10_000)) {
      await pause(waitMs, stopping.signal);
      if (stopping.signal.aborted) return null;
      const entered = await enter(connect(), options, stopping.signal).catch(() => null);
      if (entered !== null) return entered;
    }
  };
  const stayIn = async (): Promise<void> => {
    for (let member: Membership | null = membership; member !== null; member = await enterAgain()) {
      await Promise.race([member.ended, aborted(stopping.signal)]);
      await member.end();
    }
  };
  const staying = stayIn();
  return {
    stop: async () => {
      stopping.abort();
      await staying;
    },
  };
};

const enter = async (connections: Connections, options: GroupOptions, stopping: AbortSignal): Promise<Membership> => {
  const { group, topics, handle, assigned, sessionMs = 10_000 } = options;
  const ended = Promise.withResolvers<undefined>();
  let heardAt = performance.now();
  const heard = (): void => {
    heardAt = performance.now();
  };
  const consumer = connections.client.consumer({
    groupId: group,
    sessionTimeout: sessionMs,
    heartbeatInterval: Math.floor(sessionMs / 4),
    rebalanceTimeout: sessionMs * 3,
    allowAutoTopicCreation: false,
    retry: { restartOnFailure: () => Promise.resolve(false) },
    ...fetchSizes,
  });
  consumer.on(consumer.events.CRASH, () => ended.resolve(undefined));
  consumer.on(consumer.events.HEARTBEAT, heard);
  consumer.on(consumer.events.FETCH, heard);
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    heard();
    const partitions = new Map(Object.entries(payload.memberAssignment));
    assigned?.(partitions);
    if (options.from !== undefined) beginAt(partitions, options.from);
  });
  let joins = 0;
  /** The event comes before the first fetch, so a pause now holds until the places are known. */
  const beginAt = (partitions: ReadonlyMap<string, number[]>, from: NonNullable<GroupOptions['from']>): void => {
    joins += 1;
    const own = joins;
    const all = [...partitions].map(([topic, numbers]) => ({ topic, partitions: numbers }));
    consumer.pause(all);
    from(partitions)
      .then((places) => {
        if (own !== joins) return;
        for (const [topic, offsets] of places) {
          for (const [partition, offset] of offsets) consumer.seek({ topic, partition, offset: String(offset) });
        }
        consumer.resume(all);
      })
      .catch(() => ended.resolve(undefined));
  };
  const watching = setInterval(() => {
    if (performance.now() - heardAt > sessionMs * 4) ended.resolve(undefined);
  }, sessionMs);
  const end = async (): Promise<void> => {
    clearInterval(watching);
    await endConsumer(connections, consumer);
  };

  const eachBatch = async (payload: EachBatchPayload): Promise<void> => {
    const { batch } = payload;
    const { topic, partition } = batch;
    const messages = batch.messages.map((message) => consumed(topic, partition, message));
    const isStale = (): boolean => payload.isStale() || !payload.isRunning();
    const beating = setInterval(
      () => {
        heard();
        payload.heartbeat().catch(() => undefined);
      },
      Math.floor(sessionMs / 4),
    );
    try {
      await handle({
        topic,
        partition,
        messages,
        high: BigInt(batch.highWatermark),
        heartbeat: () => payload.heartbeat(),
        isStale,
      });
    } catch {
      // Not resolved: the same messages come again.
      await pause(failurePauseMs, stopping);
      return;
    } finally {
      clearInterval(beating);
    }
    if (isStale()) return;
    payload.resolveOffset(batch.lastOffset());
    const offset = String(BigInt(batch.lastOffset()) + 1n);
    await payload.commitOffsetsIfNecessary({ topics: [{ topic, partitions: [{ partition, offset }] }] });
  };

  try {
    await consumer.connect();
    await consumer.subscribe({ topics: [...topics], fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: 4,
      eachBatch,
    });
  } catch (error) {
    await end();
    throw failureOf(error);
  }
  return { ended: ended.promise.then(() => undefined), end };
};

/** After a handler failed, ms. */
const failurePauseMs = 500;

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  delay(ms, undefined, { signal }).catch(() => undefined);

const consumed = (topic: string, partition: number, message: KafkaMessage): ConsumedMessage => ({
  topic,
  partition,
  offset: BigInt(message.offset),
  timestamp: Number(message.timestamp),
  key: message.key === null ? null : message.key.toString('utf8'),
  value: message.value,
  headers: headersOf(message.headers),
});

/** A header that came twice says nothing: the first one counts. */
const headersOf = (headers: IHeaders | undefined): Readonly<Record<string, string>> => {
  const read: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers ?? {})) {
    const first = Array.isArray(value) ? value[0] : value;
    if (first !== undefined) read[name] = typeof first === 'string' ? first : first.toString('utf8');
  }
  return read;
};

/** A topic that is asked for and is not there. */
export const noSuchTopic = (topic: string): KafkaFailure =>
  new KafkaFailure('refused', `there is no topic ${topic}`, 'UNKNOWN_TOPIC_OR_PARTITION');
