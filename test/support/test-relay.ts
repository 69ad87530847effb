import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { EventStore, StoredEvent } from '#event-store';
import { encodeBlob, encodeEvent, eventRecord, type Kafka, type OutgoingMessage, type Producer } from '#kafka';

/** Sends the log to topics as a relay does that is often killed between a send and its checkpoint. */
export interface TestRelay {
  /** Resolves when everything that the log has now is sent. */
  caughtUp(): Promise<void>;
  stop(): Promise<void>;
}

/** How it sends. */
export interface TestRelayOptions {
  readonly kafka: Kafka;
  readonly store: EventStore;
  readonly events: string;
  readonly blobs: string;
  readonly partitions: number;
  /** Begins after this position. Default: at the beginning. */
  readonly after?: bigint;
  /** Steps back by so many events after every batch. Default 0. */
  readonly repeats?: number;
  /** Larger events go to the blobs topic. */
  readonly maxBytes?: number;
}

const batchEvents = 200;

/** Starts it; it outlives the broker. */
export const startTestRelay = (options: TestRelayOptions): TestRelay => {
  const { kafka, store, events, blobs, partitions, repeats = 0, maxBytes = 900_000 } = options;
  const topics = [events, blobs].map((name) => ({ name, partitions, maxMessageBytes: 1_000_000 }));
  const stopping = new AbortController();
  let sent = options.after ?? -1n;

  const isStopped = (): boolean => stopping.signal.aborted;
  const messageOf = (stored: StoredEvent): OutgoingMessage =>
    encodeEvent(eventRecord(stored), { source: '/hookledger/test', maxBytes });
  const sendBatch = async (producer: Producer): Promise<void> => {
    const batch = await store.readAll(sent, batchEvents);
    const last = batch.at(-1);
    if (last === undefined) {
      await delay(10);
      return;
    }
    const messages = batch.map(messageOf);
    const large = batch.filter((_, at) => messages[at]?.headers.ce_dataref !== undefined);
    const parts = large.flatMap(({ bytes }) => {
      const hash = createHash('sha256').update(bytes).digest('hex');
      return encodeBlob({ hash, keyId: null }, bytes, 100_000);
    });
    if (parts.length > 0) await producer.send(blobs, parts);
    await producer.send(events, messages);
    if (repeats > 0) await producer.send(events, messages.slice(-repeats));
    sent = last.globalPosition;
  };
  const run = async (): Promise<void> => {
    while (!isStopped()) {
      const producer = await kafka.producer(topics).catch(() => null);
      try {
        while (producer !== null && !isStopped()) await sendBatch(producer);
      } catch {
        await delay(200);
      } finally {
        await producer?.close();
      }
    }
  };
  const ended = run();
  return {
    caughtUp: async () => {
      const head = await store.head();
      while (sent < head) await delay(20);
    },
    stop: async () => {
      stopping.abort();
      await ended;
    },
  };
};
