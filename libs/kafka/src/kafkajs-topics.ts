import type { Admin } from 'kafkajs';
import { endWithin, type Connections } from './kafkajs-connections.js';
import { failureOf, named } from './kafkajs-failures.js';
import { kafkajs } from './kafkajs-module.js';
import type { PartitionOffsets, Topics, TopicSpec, TopicState } from './port.js';

/** Where a topic does not say how large its batches may be: Kafka's default. */
const usualMaxMessageBytes = 1_048_588;

/** See `Kafka.topics`. */
export const connectTopics = async (connections: Connections): Promise<Topics> => {
  const admin = connections.client.admin();
  const close = (): Promise<void> => endWithin(connections, () => admin.disconnect());
  try {
    await admin.connect();
    // Of a port that accepts and never answers, kafkajs says that it is connected.
    await admin.describeCluster();
  } catch (error) {
    await close();
    throw failureOf(error);
  }
  return {
    ensure: (specs) => named(() => ensure(admin, specs)),
    offsets: (topic) => named(() => offsetsOf(admin, topic)),
    deleteBefore: (topic, before) =>
      named(async () => {
        const partitions = before.map(({ partition, offset }) => ({ partition, offset: String(offset) }));
        if (partitions.length === 0) return;
        // kafkajs deletes only in topics whose leaders it has looked up.
        await admin.fetchTopicOffsets(topic);
        await admin.deleteTopicRecords({ topic, partitions });
      }),
    close,
  };
};

const ensure = async (admin: Admin, specs: readonly TopicSpec[]): Promise<readonly TopicState[]> => {
  const there = new Set(await admin.listTopics());
  const made = new Set<string>();
  for (const spec of specs) {
    if (!there.has(spec.name) && (await make(admin, spec))) made.add(spec.name);
  }
  const names = specs.map(({ name }) => name);
  const { topics } = await admin.fetchTopicMetadata({ topics: names });
  const settings = await settingsOf(admin, names);
  return specs.map((spec) => {
    const partitions = topics.find(({ name }) => name === spec.name)?.partitions.length ?? 0;
    const found = settings?.get(spec.name) ?? null;
    const limit = Number(found?.get('max.message.bytes') ?? usualMaxMessageBytes);
    return {
      name: spec.name,
      partitions,
      maxMessageBytes: Number.isSafeInteger(limit) && limit > 0 ? limit : usualMaxMessageBytes,
      isNew: made.has(spec.name),
      findings: findingsOf(spec, partitions, found),
    };
  });
};

/** False where another replica was faster. */
const make = async (admin: Admin, { name, policy, partitions, replicas }: TopicSpec): Promise<boolean> =>
  admin.createTopics({
    waitForLeaders: true,
    topics: [
      {
        topic: name,
        numPartitions: partitions,
        // -1 = the broker's default.
        replicationFactor: replicas ?? -1,
        configEntries: [
          { name: 'cleanup.policy', value: policy === 'compact' ? 'compact' : 'delete' },
          { name: 'retention.ms', value: '-1' },
          { name: 'retention.bytes', value: '-1' },
        ],
      },
    ],
  });

type Settings = ReadonlyMap<string, string>;

/** Null where this user may not see them. */
const settingsOf = async (admin: Admin, names: readonly string[]): Promise<ReadonlyMap<string, Settings> | null> => {
  try {
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: names.map((name) => ({
        type: kafkajs.ConfigResourceTypes.TOPIC,
        name,
        configNames: ['cleanup.policy', 'retention.ms', 'retention.bytes', 'max.message.bytes'],
      })),
    });
    return new Map(
      resources.map(({ resourceName, configEntries }) => [
        resourceName,
        new Map(configEntries.map(({ configName, configValue }) => [configName, configValue])),
      ]),
    );
  } catch (error) {
    if (failureOf(error).kind === 'refused') return null;
    throw error;
  }
};

const findingsOf = (spec: TopicSpec, partitions: number, found: Settings | null): readonly string[] => {
  const { name, policy } = spec;
  const findings: string[] = [];
  if (partitions !== spec.partitions) {
    findings.push(`${name} has ${String(partitions)} partitions, not the ${String(spec.partitions)} that are set`);
  }
  if (found === null) return [...findings, `the settings of ${name} may not be read: its retention is not known`];
  const cleanup = found.get('cleanup.policy') ?? '';
  const removes = cleanup.includes('delete');
  const finite = ['retention.ms', 'retention.bytes'].filter((setting) => found.get(setting) !== '-1');
  if (removes && finite.length > 0) {
    findings.push(`${name} forgets what is old (${finite.join(', ')}): it cannot stand in for the log`);
  }
  if (policy === 'keep' && cleanup.includes('compact')) {
    findings.push(`${name} is compacted: all but the newest event of each session get lost`);
  }
  if (policy === 'compact' && !cleanup.includes('compact')) {
    findings.push(`${name} is not compacted: what is erased stays in it`);
  }
  return findings;
};

const offsetsOf = async (admin: Admin, topic: string): Promise<readonly PartitionOffsets[] | null> => {
  if (!(await admin.listTopics()).includes(topic)) return null;
  const offsets = await admin.fetchTopicOffsets(topic);
  return offsets
    .map(({ partition, low, high }) => ({ partition, low: BigInt(low), high: BigInt(high) }))
    .sort((a, b) => a.partition - b.partition);
};
