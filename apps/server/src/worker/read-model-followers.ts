import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Gauge, type Registry } from 'prom-client';
import {
  allReadModels,
  dropAbandoned,
  dropReadModel,
  dropRetired,
  followerName,
  handleEvents,
  openGenerations,
  openReadModels,
  readModelStatus,
  type Generation,
  type Handled,
  type Projection,
} from '#audit';
import { startFollower, type EventStore, type FollowerLag, type Sql, type StoredEvent } from '#event-store';
import { KafkaFailure } from '#kafka';
import {
  CONFIG,
  errorFacts,
  EVENT_STORE,
  LOGGER,
  METRICS,
  Readiness,
  SEALING,
  SQL,
  type KafkaConfig,
  type Logger,
  type PartState,
  type ServerConfig,
} from '#platform';
import type { Sealing } from '#sealing';
import { followKafka, type Following } from './kafka-follow.js';
import { resting, type Rest } from './resting.js';

/** Events that go into a read model in one transaction. */
const batchEvents = 1000;

/** How often rebuilds that began elsewhere are looked for, and replaced tables dropped, ms. */
const lookEveryMs = 5_000;

/** What people wait for comes soonest; the rest may lag while hooks are fired. */
const restsOf: { readonly [name: string]: Rest } = { record: { pauseMs: 80, share: 0 } };
const easy: Rest = { pauseMs: 250, share: 1 };
const restOf = ({ name }: Projection): Rest => restsOf[name] ?? easy;

/** How one read model does, as `/health/ready` tells it. */
interface ModelLag {
  readonly positions: string;
  readonly ms: number;
  readonly failures: number;
  readonly setAside: number;
  readonly state: string;
}

/** Keeps the read models current: one follower for each generation of tables. */
@Injectable()
export class ReadModelFollowers implements OnModuleInit, BeforeApplicationShutdown {
  private readonly projections: readonly Projection[];
  private readonly followers = new Map<number, Following>();
  /** When the last event that a generation took was recorded. */
  private readonly takenUpTo = new Map<number, number>();
  private refused: string | null = null;
  private timer: NodeJS.Timeout | null = null;
  private looking: Promise<void> = Promise.resolve();

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(SEALING) sealing: Sealing,
    @Inject(CONFIG) private readonly config: ServerConfig,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(Readiness) private readonly readiness: Readiness,
    @Inject(METRICS) private readonly metrics: Registry,
  ) {
    this.projections = allReadModels(sealing, config);
  }

  async onModuleInit(): Promise<void> {
    if (!this.config.textSearch) await dropReadModel(this.sql, 'text-search');
    for (const generation of await openReadModels(this.sql, this.projections)) this.follow(generation);
    this.readiness.register('projectionLag', () => this.state());
    this.measure();
    this.timer = setInterval(() => {
      this.looking = this.looking.then(() => this.look());
    }, lookEveryMs);
    this.timer.unref();
  }

  async beforeApplicationShutdown(): Promise<void> {
    if (this.timer !== null) clearInterval(this.timer);
    await this.looking;
    await Promise.all([...this.followers.values()].map((follower) => follower.stop()));
  }

  private async look(): Promise<void> {
    try {
      await dropRetired(this.sql);
      await dropAbandoned(this.sql);
      for (const generation of await openGenerations(this.sql, this.projections)) this.follow(generation);
      for (const following of this.followers.values()) await following.look();
    } catch (error) {
      this.logger.warn(errorFacts(error), 'read models could not be looked after; tried again');
    }
  }

  private follow(generation: Generation): void {
    const projection = this.projections.find(({ name }) => name === generation.name);
    if (projection === undefined || this.followers.has(generation.generation)) return;
    const { kafka, projectFrom } = this.config;
    const following =
      kafka === null || projectFrom === 'postgres'
        ? this.followLog(projection, generation)
        : this.followTopics(kafka, projection, generation);
    if (following !== null) this.followers.set(generation.generation, following);
  }

  /** Null where the client cannot be set up (a file of its settings is not there): hooks are fired all the same. */
  private followTopics(config: KafkaConfig, projection: Projection, generation: Generation): Following | null {
    try {
      const following = followKafka({
        config,
        projection,
        generation,
        store: this.store,
        sql: this.sql,
        rest: restOf(projection),
        handled: (handled, events) => this.handled(generation, handled, events),
        logger: this.logger,
      });
      this.refused = null;
      return following;
    } catch (error) {
      if (!(error instanceof KafkaFailure)) throw error;
      if (this.refused === null) this.logger.error({ why: error.message }, 'read models cannot be taken from Kafka');
      this.refused = error.message;
      return null;
    }
  }

  private followLog(projection: Projection, generation: Generation): Following {
    const take = async (events: readonly StoredEvent[], sql: Sql): Promise<void> =>
      this.handled(generation, await handleEvents(projection, generation, events, sql, this.store), events);
    const follower = startFollower({
      store: this.store,
      sql: this.sql,
      name: followerName(generation),
      types: projection.types,
      batch: batchEvents,
      handle: resting(take, restOf(projection), batchEvents, this.store),
      log: (level, message, facts = {}) => this.logger[level](facts, message),
    });
    return {
      lag: () => {
        const lag = follower.lag();
        return Promise.resolve({ ...lag, ms: this.waitingMs(generation.generation, lag) });
      },
      trouble: () => null,
      look: () => Promise.resolve(),
      stop: () => follower.stop(),
    };
  }

  private handled(generation: Generation, { state, setAside }: Handled, events: readonly StoredEvent[]): void {
    for (const { stored, fault } of setAside) {
      const { event, position } = stored;
      const facts = {
        readModel: generation.name,
        account: event.account,
        position: String(position),
        type: event.type,
      };
      this.logger.error({ ...facts, fault }, 'an event was set aside: a read model could not take it');
    }
    const last = events.at(-1);
    if (last !== undefined) this.takenUpTo.set(generation.generation, Date.parse(last.event.recordedAt));
    if (state === 'retired') this.leave(generation);
  }

  /** Other tables took this generation's place. */
  private leave({ generation }: Generation): void {
    const follower = this.followers.get(generation);
    this.followers.delete(generation);
    this.takenUpTo.delete(generation);
    // Not awaited: the follower waits for the batch that it is told from.
    void follower?.stop();
  }

  private async state(): Promise<PartState> {
    const lags = await this.lags();
    const all = Object.values(lags);
    const why = [
      ...(all.some(({ failures }) => failures > 0)
        ? ['a read model cannot be written; searches show less than there is']
        : []),
      ...(all.some(({ setAside }) => setAside > 0) ? ['events were set aside; see read_model_set_aside'] : []),
      ...(this.refused === null ? [] : [`read models cannot be taken from Kafka: ${this.refused}`]),
      ...[...this.followers.values()].flatMap((following) => following.trouble() ?? []),
    ];
    return {
      state: why.length === 0 ? 'ok' : 'degraded',
      value: Math.max(0, ...all.map(({ positions }) => Number(positions))),
      ...(why.length === 0 ? {} : { why: why.join('; ') }),
      ...lags,
    };
  }

  private async lags(): Promise<Readonly<Record<string, ModelLag>>> {
    const models = await readModelStatus(this.sql);
    const entries: [string, ModelLag][] = [];
    for (const { name, generation, state, setAside } of models) {
      const lag = await this.followers.get(generation)?.lag();
      if (lag === undefined) continue;
      const { positions, ms, failures } = lag;
      const title = state === 'live' ? name : `${name} (${state})`;
      entries.push([title, { positions: String(positions), ms, failures, setAside, state }]);
    }
    return Object.fromEntries(entries);
  }

  /**
   * How long the oldest event has waited. Under steady load a follower is never quite at the end, and only since when
   * it has not been there is known; then what it took last says more.
   */
  private waitingMs(generation: number, { positions, ms }: FollowerLag): number {
    if (positions === 0n) return 0;
    const takenUpTo = this.takenUpTo.get(generation);
    return takenUpTo === undefined ? ms : Math.max(0, Math.min(ms, Date.now() - takenUpTo));
  }

  /** The gauges of one scrape share a look at the database. */
  private lagsOnce(): () => Promise<Readonly<Record<string, ModelLag>>> {
    let last: Promise<Readonly<Record<string, ModelLag>>> | null = null;
    return () => {
      last ??= this.lags()
        .catch(() => ({}))
        .finally(() => setImmediate(() => (last = null)));
      return last;
    };
  }

  private measure(): void {
    const lags = this.lagsOnce();
    const gauge = (name: string, help: string, of: (lag: ModelLag) => number): void => {
      new Gauge({
        name,
        help,
        labelNames: ['read_model'],
        registers: [this.metrics],
        async collect() {
          this.reset();
          for (const [model, lag] of Object.entries(await lags())) this.set({ read_model: model }, of(lag));
        },
      });
    };
    gauge(
      'hookledger_read_model_lag_events',
      'Events of the log that a read model has not taken yet.',
      ({ positions }) => Number(positions),
    );
    gauge('hookledger_read_model_lag_seconds', 'How long the oldest of them has waited.', ({ ms }) => ms / 1000);
    gauge(
      'hookledger_read_model_failures',
      'Failures in a row of a read model; 0 while it works.',
      ({ failures }) => failures,
    );
    gauge('hookledger_read_model_set_aside', 'Events that a read model could not take.', ({ setAside }) => setAside);
  }
}
