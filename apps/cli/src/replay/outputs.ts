import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { StoredEvent } from '#event-store';
import type { Kafka, TopicNames } from '#kafka';
import { encodeBlob, encodeEvent, eventRecord, eventSource, topicNames } from '#kafka';
import type { KafkaConfig } from '#platform';
import { Failure, jsonLine, plain } from '../words.js';

/** Where events of a replay go. Nothing is left half-done: without `finish` there is nothing. */
export interface ReplayOutput {
  write(events: readonly StoredEvent[]): Promise<void>;
  /** Makes it whole and durable. Answers with what is worth telling, for the summary. */
  finish(): Promise<Readonly<Record<string, string | number>>>;
  /** Takes away what was begun. */
  abandon(): Promise<void>;
}

/** The stored bytes, one line each, in a new file that has its name only when it is whole. */
export const fileOutput = async (path: string): Promise<ReplayOutput> => {
  const draft = `${path}.partial`;
  if ((await stat(path).catch(() => null)) !== null) {
    throw new Failure(`${plain(path)} exists already and was not touched. Name a new file.`);
  }
  const file = await open(draft, 'w', 0o600).catch((error: unknown) => {
    throw new Failure(`${plain(draft)} cannot be written (${(error as { code?: string }).code ?? 'unknown error'}).`);
  });
  const hash = createHash('sha256');
  let bytes = 0;
  return {
    write: async (events) => {
      const chunk = Buffer.concat(events.flatMap((stored) => [stored.bytes, newline]));
      hash.update(chunk);
      bytes += chunk.length;
      await file.writeFile(chunk);
    },
    finish: async () => {
      await file.sync();
      await file.close();
      await rename(draft, path);
      const folder = await open(dirname(path), 'r').catch(() => null);
      await folder?.sync().catch(() => undefined);
      await folder?.close();
      return { file: path, bytes, sha256: hash.digest('hex') };
    },
    abandon: async () => {
      await file.close().catch(() => undefined);
      await rm(draft, { force: true });
    },
  };
};

const newline = Buffer.from('\n');

/** The stored bytes, one line each; on a terminal with escapes for what a terminal would obey. */
export const stdoutOutput = (stream: NodeJS.WriteStream = process.stdout): ReplayOutput => ({
  write: async (events) => {
    const chunk = stream.isTTY
      ? events.map(({ bytes }) => `${jsonLine(Buffer.from(bytes).toString('utf8'))}\n`).join('')
      : Buffer.concat(events.flatMap((stored) => [stored.bytes, newline]));
    if (!stream.write(chunk)) await once(stream, 'drain');
  },
  finish: () => Promise.resolve({}),
  abandon: () => Promise.resolve(),
});

/** Most events in one send. */
const sentAtOnce = 500;

/** What a topic is written with. */
export interface TopicOrder {
  readonly kafka: Kafka;
  readonly config: KafkaConfig;
  readonly topic: string;
  readonly logId: string;
  readonly replayId: string;
}

/**
 * Events as the relay sends them, each with `ce_replay`, so that no consumer takes a replay for the first time. The
 * topics of the log itself are refused: the relay alone writes them.
 */
export const topicOutput = async ({ kafka, config, topic, logId, replayId }: TopicOrder): Promise<ReplayOutput> => {
  const names = topicNames(config.topicPrefix, config.accountTopics);
  refuseOwnTopic(topic, names);
  const { partitions, replicas } = config;
  const admin = await kafka.topics();
  const states = await admin
    .ensure([
      { name: topic, policy: 'keep', partitions, replicas },
      { name: names.blobs, policy: 'compact', partitions, replicas },
    ])
    .finally(() => admin.close());
  const producer = await kafka.producer(states);
  const room = (name: string): number =>
    (states.find((state) => state.name === name)?.maxMessageBytes ?? 1_000_000) - 8_192;
  const source = eventSource(logId);
  const sendSome = async (events: readonly StoredEvent[]): Promise<void> => {
    const messages = events.map((stored) =>
      encodeEvent(eventRecord(stored), { source, replay: replayId, maxBytes: room(topic) }),
    );
    for (const [index, message] of messages.entries()) {
      const reference = message.headers.ce_dataref;
      const bytes = events[index]?.bytes;
      if (reference === undefined || bytes === undefined) continue;
      const hash = reference.slice('blob:'.length);
      await producer.send(names.blobs, encodeBlob({ hash, keyId: null }, bytes, room(names.blobs) - 1_024));
    }
    await producer.send(topic, messages);
  };
  return {
    write: async (events) => {
      for (let at = 0; at < events.length; at += sentAtOnce) await sendSome(events.slice(at, at + sentAtOnce));
    },
    finish: async () => {
      await producer.close();
      return { topic };
    },
    abandon: () => producer.close(),
  };
};

const refuseOwnTopic = (topic: string, { events, allEvents, blobs, keys, checkpoints }: TopicNames): void => {
  const own = [...allEvents, blobs, keys, checkpoints].includes(topic);
  // Of any account: one that has no topic of its own today gets it under this name.
  if (!own && !topic.startsWith(`${events}.`)) return;
  throw new Failure(
    `${topic} is a topic that the relay writes; a replay into it would be taken for the log. Name another.`,
  );
};
