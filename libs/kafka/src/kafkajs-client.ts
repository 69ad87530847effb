import { connections, readTls, type Connections, type KafkaSettings, type Patience } from './kafkajs-connections.js';
import { connectProducer } from './kafkajs-producer.js';
import { joinGroup, noSuchTopic, readTopic } from './kafkajs-readers.js';
import { connectTopics } from './kafkajs-topics.js';
import type { Kafka } from './port.js';

/** Those who send try again themselves, with a producer that knows nothing of the failed one. */
const sending: Patience = { connectMs: 5_000, requestMs: 10_000, retries: 2 };
const asking: Patience = { connectMs: 5_000, requestMs: 10_000, retries: 2 };
const reading: Patience = { connectMs: 5_000, requestMs: 30_000, retries: 5 };

/**
 * Kafka by kafkajs. Connects to nothing yet; throws `KafkaFailure` when a file of the settings cannot be read.
 */
export const openKafka = (settings: KafkaSettings): Kafka => {
  const tls = readTls(settings);
  const connect = (patience: Patience): Connections => connections(settings, tls, patience);
  const topics: Kafka['topics'] = () => connectTopics(connect(asking));
  return {
    producer: (known) => connectProducer(connect(sending), known),
    topics,
    readTopic: async (options) => {
      const asked = await topics();
      const offsets = await asked.offsets(options.topic).finally(() => asked.close());
      if (offsets === null) throw noSuchTopic(options.topic);
      await readTopic(() => connect(reading), offsets, options);
    },
    joinGroup: (options) => joinGroup(() => connect(reading), options),
  };
};
