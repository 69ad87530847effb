import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { EventStore, Sql } from '#event-store';
import { KafkaFailure, openKafka, topicNames, type Kafka } from '#kafka';
import {
  CONFIG,
  EVENT_STORE,
  LOGGER,
  METRICS,
  Readiness,
  SQL,
  StartFailure,
  type KafkaConfig,
  type Logger,
  type PartState,
  type ServerConfig,
} from '#platform';
import { readProgress, type RelayProgress } from './kafka-relay-tables.js';
import { batchEvents, type RelayWatch } from './kafka-relay-turn.js';
import { startRelay, type Relay, type RelayState } from './kafka-relay-work.js';
import { pacing } from './resting.js';

/** A broker that owes an answer for so long is not well, ms. */
const patienceMs = 5_000;

/** Where another replica is at work, and what it should have sent has waited for so long, it has trouble, ms. */
const longWaitMs = 30_000;

/** Gives way while this process fires hooks. */
const rest = { pauseMs: 100, share: 1 };

/** Follows the log to Kafka, where Kafka is set up. Nothing that answers a hook ever waits for it. */
@Injectable()
export class KafkaRelay implements OnModuleInit, BeforeApplicationShutdown {
  private relay: Relay | null = null;

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(CONFIG) private readonly config: ServerConfig,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(Readiness) private readonly readiness: Readiness,
    @Inject(METRICS) private readonly metrics: Registry,
  ) {}

  onModuleInit(): void {
    const { kafka } = this.config;
    if (kafka === null) return;
    const relay = startRelay({
      sql: this.sql,
      store: this.store,
      kafka: clientOf(kafka),
      names: topicNames(kafka.topicPrefix, kafka.accountTopics),
      partitions: kafka.partitions,
      replicas: kafka.replicas,
      ownTopics: kafka.accountTopics,
      leaseMs: kafka.leaseMs,
      pace: pacing(rest, batchEvents, this.store),
      watch: this.watch(),
      log: (level, message, facts = {}) => this.logger[level](facts, message),
    });
    this.relay = relay;
    this.measure(relay);
    this.readiness.register('kafka', async () =>
      stateOf(relay.state(), await readProgress(this.sql).catch(() => null)),
    );
    this.readiness.register('relayLag', async () => lagOf(await readProgress(this.sql)));
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.relay?.stop();
  }

  private watch(): RelayWatch {
    const registers = [this.metrics];
    const events = new Counter({
      name: 'hookledger_relay_events_total',
      help: 'Events that this process sent to Kafka, repeats among them.',
      registers,
    });
    const bytes = new Counter({
      name: 'hookledger_relay_bytes_total',
      help: 'Bytes of these events.',
      registers,
    });
    const seconds = new Histogram({
      name: 'hookledger_relay_batch_seconds',
      help: 'Time from a batch of events to its acknowledgement by all replicas of its topic.',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    });
    const failures = new Counter({
      name: 'hookledger_relay_failures_total',
      help: 'Batches that did not get through, by why.',
      labelNames: ['why'],
      registers,
    });
    const fenced = new Counter({
      name: 'hookledger_relay_fenced_total',
      help: 'Times that another replica had taken over while this process was sending.',
      registers,
    });
    const large = new Counter({
      name: 'hookledger_relay_large_events_total',
      help: 'Events that their topic does not take, whose bytes went to the topic of blobs.',
      registers,
    });
    return {
      sent: (count, size, ms) => {
        events.inc(count);
        bytes.inc(size);
        seconds.observe(ms / 1000);
      },
      failed: (why) => failures.inc({ why }),
      fenced: () => fenced.inc(),
      large: (count) => large.inc(count),
    };
  }

  private measure(relay: Relay): void {
    const registers = [this.metrics];
    const { sql } = this;
    let asked: Promise<RelayProgress | null> | null = null;
    // The gauges of one scrape share a look at the database.
    const progress = (): Promise<RelayProgress | null> => {
      asked ??= readProgress(sql)
        .catch(() => null)
        .finally(() => setImmediate(() => (asked = null)));
      return asked;
    };
    new Gauge({
      name: 'hookledger_relay_lag_events',
      help: 'Events of the log that are not in Kafka yet.',
      registers,
      async collect() {
        const now = await progress();
        if (now !== null) this.set(Number(now.head - now.position));
      },
    });
    new Gauge({
      name: 'hookledger_relay_lag_seconds',
      help: 'How long the oldest of them has waited.',
      registers,
      async collect() {
        const now = await progress();
        if (now !== null) this.set(waitedMs(now) / 1000);
      },
    });
    new Gauge({
      name: 'hookledger_relay_owner',
      help: '1 where this process relays, 0 where it stands by.',
      registers,
      collect() {
        this.set(relay.state().role === 'owner' ? 1 : 0);
      },
    });
  }
}

const clientOf = (config: KafkaConfig): Kafka => {
  try {
    return openKafka(config);
  } catch (error) {
    throw error instanceof KafkaFailure ? new StartFailure(`Kafka cannot be used: ${error.message}.`) : error;
  }
};

const waitedMs = ({ waitingSince }: RelayProgress): number =>
  waitingSince === null ? 0 : Math.max(0, Date.now() - waitingSince.getTime());

const stateOf = ({ role, trouble, unansweredMs, findings }: RelayState, progress: RelayProgress | null): PartState => {
  const why = [
    ...(trouble === null ? [] : [`${trouble}; events wait, and hooks are answered all the same`]),
    ...(trouble === null && unansweredMs > patienceMs
      ? [`a broker has not answered for ${String(Math.round(unansweredMs / 1000))} s; events wait`]
      : []),
    ...(role === 'standby' && progress !== null && waitedMs(progress) > longWaitMs
      ? ['another replica relays, and events wait there']
      : []),
    ...findings,
  ];
  return {
    state: why.length === 0 ? 'ok' : 'degraded',
    ...(why.length === 0 ? {} : { why: why.join('; ') }),
    role,
  };
};

const lagOf = (progress: RelayProgress): PartState => ({
  state: 'ok',
  value: Number(progress.head - progress.position),
  ms: waitedMs(progress),
  position: String(progress.position),
  isOwned: progress.isOwned,
});
