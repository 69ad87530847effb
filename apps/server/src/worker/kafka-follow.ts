import {
  completePosition,
  findGap,
  followerName,
  handleEvents,
  joinPartitions,
  passGap,
  reachedPartitions,
  savePlaces,
  withoutPurged,
  type Generation,
  type Handled,
  type Projection,
  type Span,
} from '#audit';
import { startFollower, type EventStore, type FollowerLag, type Sql, type StoredEvent } from '#event-store';
import { openKafka, topicNames, type Kafka, type TopicNames } from '#kafka';
import { type KafkaConfig, type Logger } from '#platform';
import { mergedTail } from './kafka-follow-log.js';
import { followPartitions } from './kafka-follow-partitions.js';
import { largeEvents } from './kafka-large-events.js';
import { pacing, resting, type Rest } from './resting.js';

/** A generation of tables that this process keeps current. */
export interface Following {
  lag(): Promise<FollowerLag>;
  /** What cannot come by itself any more, in words for an operator; null = nothing. */
  trouble(): string | null;
  /** Looked after every few seconds. */
  look(): Promise<void>;
  stop(): Promise<void>;
}

/** What a generation is followed with. */
export interface KafkaFollowing {
  readonly config: KafkaConfig;
  readonly projection: Projection;
  readonly generation: Generation;
  readonly store: EventStore;
  readonly sql: Sql;
  readonly rest: Rest;
  readonly handled: (handled: Handled, events: readonly StoredEvent[]) => void;
  readonly logger: Logger;
}

/** Events that go into a read model in one transaction. */
const batchEvents = 1000;

/** How often the places in the topics are noted, ms: after a start, so much is read again for nothing. */
const placesEveryMs = 1_000;

/**
 * Follows Kafka in place of the log's table: the same events into the same tables. A read model that needs only the
 * order of each session is shared by a consumer group; one that needs the order of the log takes the topics merged.
 */
export const followKafka = (options: KafkaFollowing): Following => {
  const kafka = openKafka(options.config);
  const names = topicNames(options.config.topicPrefix, options.config.accountTopics);
  return options.projection.order === 'session' ? byPartition(options, kafka, names) : asOneLog(options, kafka, names);
};

const byPartition = (options: KafkaFollowing, kafka: Kafka, names: TopicNames): Following => {
  const { config, projection, generation, store, sql, rest, handled, logger } = options;
  const member = followPartitions({
    kafka,
    topics: names.allEvents,
    group: `${config.topicPrefix}.read-model.${generation.name}.${String(generation.generation)}`,
    projection,
    generation,
    store,
    sql,
    large: largeEvents(store, kafka, names.blobs),
    pace: pacing(rest, batchEvents, store),
    handled,
    logger,
  });
  const gaps = new GapWatch(options, kafka, names.allEvents);
  return {
    lag: () => lagOf(options, member.failures()),
    trouble: () => gaps.trouble,
    look: async () => {
      await joinPartitions(sql, projection, generation);
      await gaps.look();
    },
    stop: () => member.stop(),
  };
};

const asOneLog = (options: KafkaFollowing, kafka: Kafka, names: TopicNames): Following => {
  const { projection, generation, store, sql, rest, handled, logger } = options;
  const name = followerName(generation);
  const tail = mergedTail({
    kafka,
    topics: names.allEvents,
    store,
    large: largeEvents(store, kafka, names.blobs),
    left: () => placesLeft(sql, generation),
    logger,
    name,
  });
  let notedAt = 0;
  const take = async (events: readonly StoredEvent[], tx: Sql): Promise<void> => {
    const kept = await withoutPurged(tx, events);
    const result = await handleEvents(projection, generation, kept, tx, store);
    const last = events.at(-1);
    if (last !== undefined && performance.now() - notedAt > placesEveryMs) {
      await savePlaces(tx, generation.generation, last.globalPosition, tail.places(last.globalPosition));
      notedAt = performance.now();
    }
    handled(result, events);
  };
  const follower = startFollower({
    store,
    sql,
    tail,
    name,
    types: projection.types,
    batch: batchEvents,
    handle: resting(take, rest, batchEvents, store),
    log: (level, message, facts = {}) => logger[level](facts, message),
  });
  return {
    lag: () => lagOf(options, follower.lag().failures),
    trouble: () => null,
    look: () => Promise.resolve(),
    stop: () => follower.stop(),
  };
};

const placesLeft = async (sql: Sql, { generation }: Generation) => {
  const reached = await reachedPartitions(sql, generation);
  const places = new Map<string, Map<number, bigint>>();
  for (const { topic, partition, nextOffset } of reached) {
    places.set(topic, (places.get(topic) ?? new Map<number, bigint>()).set(partition, nextOffset));
  }
  const positions = reached.map(({ position }) => position);
  return { position: positions.reduce((least, one) => (one < least ? one : least), positions[0] ?? -1n), places };
};

/** Measured at the log, not at the topics: what the relay has not sent yet is missing in the tables too. */
const lagOf = async ({ store, sql, generation }: KafkaFollowing, failures: number): Promise<FollowerLag> => {
  const position = await completePosition(sql, generation);
  const head = await store.head();
  if (head <= position) return { positions: 0n, ms: 0, position, failures };
  const [oldest] = await store.readAll(position, 1);
  const ms = oldest === undefined ? 0 : Math.max(0, Date.now() - Date.parse(oldest.event.recordedAt));
  return { positions: head - position, ms, position, failures };
};

/** Looks that a gap must outlive before the cluster is asked about it. */
const patientLooks = 2;

/**
 * Watches for positions that no partition will bring any more. Those that were purged count as complete. One that the
 * log still has was lost in Kafka: later events of its session were applied without it, so the tables are complete up
 * to there only, and say so until they are built again from Postgres.
 */
class GapWatch {
  trouble: string | null = null;
  private seen: Span | null = null;
  private looks = 0;

  constructor(
    private readonly following: KafkaFollowing,
    private readonly kafka: Kafka,
    private readonly topics: readonly string[],
  ) {}

  async look(): Promise<void> {
    const { sql, generation } = this.following;
    const gap = await findGap(sql, generation);
    const isSame = gap !== null && gap.first === this.seen?.first && gap.last === this.seen.last;
    this.looks = isSame ? this.looks + 1 : 0;
    this.seen = gap;
    if (gap === null) this.trouble = null;
    if (gap === null || this.looks < patientLooks || !(await this.isLost(gap))) return;
    await this.passPurged(gap);
  }

  /** Every partition was read beyond the gap, or to its end. */
  private async isLost(gap: Span): Promise<boolean> {
    const reached = await reachedPartitions(this.following.sql, this.following.generation.generation);
    const asked = await this.kafka.topics();
    try {
      for (const topic of this.topics) {
        for (const { partition, low, high } of (await asked.offsets(topic)) ?? []) {
          const row = reached.find((one) => one.topic === topic && one.partition === partition);
          const next = row?.nextOffset ?? 0n;
          if (low < high && next < high && (row?.position ?? -1n) < gap.last) return false;
        }
      }
      return true;
    } finally {
      await asked.close();
    }
  }

  private async passPurged(gap: Span): Promise<void> {
    const { sql, projection, generation, store, logger } = this.following;
    const [stored] = await store.readAll(gap.first - 1n, 1);
    const end = stored === undefined || stored.globalPosition > gap.last ? gap.last : stored.globalPosition - 1n;
    if (end >= gap.first) {
      await passGap(sql, generation, { first: gap.first, last: end });
      await joinPartitions(sql, projection, generation);
      const facts = { readModel: generation.name, first: String(gap.first), last: String(end) };
      logger.info(facts, 'purged positions are in no topic; passed over');
      return;
    }
    if (this.trouble === null) {
      const facts = { readModel: generation.name, first: String(gap.first), last: String(gap.last) };
      logger.error(facts, 'positions of the log are in no topic; the read model stays incomplete until it is rebuilt');
    }
    this.trouble = `positions ${String(gap.first)} to ${String(gap.last)} are in no topic; rebuild ${generation.name} from Postgres`;
  }
}
