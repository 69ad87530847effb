import type { Message } from 'kafkajs';
import { endWithin, type Connections } from './kafkajs-connections.js';
import { failureOf, named } from './kafkajs-failures.js';
import { messageSize } from './messages.js';
import { partitionOf } from './partitions.js';
import { KafkaFailure, type OutgoingMessage, type ProducedTopic, type Producer } from './port.js';

/** A record batch's own header, and room to spare, bytes. */
const batchOverhead = 128;

/** Bytes of one request, over all partitions. */
const requestBytes = 4 * 1024 * 1024;

/** How long a broker may wait for its replicas, ms. */
const ackMs = 8_000;

/** See `Kafka.producer`. */
export const connectProducer = async (
  connections: Connections,
  topics: readonly ProducedTopic[],
): Promise<Producer> => {
  const known = new Map(topics.map((topic) => [topic.name, topic]));
  const producer = connections.client.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    // Every message names its partition.
    createPartitioner:
      () =>
      ({ message }) =>
        message.partition ?? 0,
  });
  const close = (): Promise<void> => endWithin(connections, () => producer.disconnect());
  try {
    await producer.connect();
  } catch (error) {
    await close();
    throw failureOf(error);
  }
  let before: Promise<unknown> = Promise.resolve();

  const sendAll = async (topic: string, messages: readonly OutgoingMessage[]): Promise<void> => {
    const target = known.get(topic);
    if (target === undefined)
      throw new KafkaFailure('refused', `this producer does not know ${topic}`, 'UNKNOWN_TOPIC');
    for (const round of rounds(messages, target)) {
      await named(() => producer.send({ topic, acks: -1, timeout: ackMs, messages: [...round] }));
    }
  };

  return {
    send: (topic, messages) => {
      const sent = before.then(() => sendAll(topic, messages));
      before = sent.catch(() => undefined);
      return sent;
    },
    close,
  };
};

/**
 * Messages in the order given, in requests that the topic takes: kafkajs makes one record batch of all that a request
 * has for a partition, and the topic's limit is the batch's.
 */
export const rounds = function* (
  messages: readonly OutgoingMessage[],
  { partitions, maxMessageBytes }: ProducedTopic,
): Generator<readonly Message[]> {
  const limit = maxMessageBytes - batchOverhead;
  const inBatch = new Map<number, number>();
  let round: Message[] = [];
  let total = 0;
  for (const message of messages) {
    const partition = partitionOf(message.partitionKey ?? message.key, partitions);
    const size = messageSize(message);
    const taken = inBatch.get(partition) ?? 0;
    if (round.length > 0 && (taken + size > limit || total + size > requestBytes)) {
      yield round;
      round = [];
      total = 0;
      inBatch.clear();
    }
    inBatch.set(partition, (inBatch.get(partition) ?? 0) + size);
    total += size;
    const { key, value, headers } = message;
    round.push({ key, value: value === null ? null : asBuffer(value), headers, partition });
  }
  if (round.length > 0) yield round;
};

const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
