import { createHash } from 'node:crypto';
import { decodeBlobPart } from './messages.js';
import { partitionOf } from './partitions.js';
import type { ConsumedMessage, Kafka } from './port.js';

/** A blob whose parts are all there. */
export interface WholeBlob {
  readonly hash: string;
  readonly keyId: string | null;
  readonly bytes: Uint8Array;
  /** In how many messages it was sent. */
  readonly parts: number;
}

interface Gathered {
  readonly keyId: string | null;
  readonly parts: (Uint8Array | undefined)[];
}

/** Puts parts of blobs together. A blob that was erased, or whose parts do not make its hash, never gets whole. */
export class BlobParts {
  private readonly gathered = new Map<string, Gathered>();

  /** Takes a message of the blobs topic; answers with the blob that it completes. */
  take(message: ConsumedMessage): WholeBlob | null {
    const decoded = decodeBlobPart(message);
    if (decoded.kind === 'foreign') return null;
    const { hash, part } = decoded;
    if (decoded.kind === 'tombstone') {
      this.gathered.delete(hash);
      return null;
    }
    const found = this.gathered.get(hash);
    // Sent again in parts of another size: the newer ones count.
    const gathered =
      found?.parts.length === decoded.parts
        ? found
        : { keyId: decoded.keyId, parts: new Array<Uint8Array | undefined>(decoded.parts).fill(undefined) };
    this.gathered.set(hash, gathered);
    gathered.parts[part] = decoded.bytes;
    if (gathered.parts.some((bytes) => bytes === undefined)) return null;
    const bytes = Buffer.concat(gathered.parts as Uint8Array[]);
    if (createHash('sha256').update(bytes).digest('hex') !== hash) return null;
    this.gathered.delete(hash);
    return { hash, keyId: gathered.keyId, bytes, parts: gathered.parts.length };
  }

  /** Hashes of blobs of which parts are missing, or wrong. */
  get unfinished(): readonly string[] {
    return [...this.gathered.keys()];
  }
}

/** Looks for one blob in the topic of blobs, all of whose parts share a partition; null = it is not there. */
export const findBlob = async (kafka: Kafka, topic: string, hash: string): Promise<Uint8Array | null> => {
  const topics = await kafka.topics();
  const offsets = await topics.offsets(topic).finally(() => topics.close());
  if (offsets === null) return null;
  const wanted = partitionOf(hash, offsets.length);
  const parts = new BlobParts();
  let found: Uint8Array | null = null;
  await kafka.readTopic({
    topic,
    from: new Map(
      offsets.filter(({ partition }) => partition !== wanted).map(({ partition, high }) => [partition, high]),
    ),
    until: new Map(offsets.map(({ partition, high }) => [partition, high])),
    handle: (messages) => {
      for (const message of messages) {
        if (message.key?.startsWith(`${hash}/`) !== true) continue;
        if (message.value === null) found = null;
        found = parts.take(message)?.bytes ?? found;
      }
      return Promise.resolve();
    },
  });
  return found;
};
