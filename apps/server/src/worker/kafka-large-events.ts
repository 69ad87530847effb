import type { EventStore } from '#event-store';
import { findBlob, type ConsumedMessage, type Kafka } from '#kafka';

/** Bytes of events that were too large for their topic. */
export interface LargeEvents {
  /** By the hash that the message names; null = nowhere. */
  bytes(hash: string, message: ConsumedMessage): Promise<Uint8Array | null>;
}

/** From the log, which has them at hand; from the topic of blobs what was removed there. */
export const largeEvents = (store: EventStore, kafka: Kafka, blobs: string): LargeEvents => ({
  bytes: async (hash, { headers }) => {
    const position = headers.ce_globalposition ?? '';
    if (!/^\d{1,19}$/u.test(position)) return null;
    const [stored] = await store.readAll(BigInt(position) - 1n, 1);
    if (stored?.globalPosition === BigInt(position)) return stored.bytes;
    return findBlob(kafka, blobs, hash);
  },
});
