import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { dialectOf } from '#dialects';
import { startFollower, type EventStore, type Follower, type Sql, type StoredEvent } from '#event-store';
import { EVENT_STORE, LOGGER, SEALING, SQL, type Logger } from '#platform';
import { decide, foldPlugin, type DialectFacts } from '#plugins';
import { pluginStream, type NewEvent, type PluginSnapshot } from '#record';
import type { Sealing } from '#sealing';
import { AccountRules } from '../control/accounts/account-rules.js';

/** When a breaker trips. */
export interface Threshold {
  readonly failures: number;
  readonly windowSeconds: number;
}

/** A handler run that did not decide. */
export type Failure = Pick<StoredEvent['event'], 'pluginId' | 'pluginRevision' | 'recordedAt'>;

/** Failures of one revision within the window that ends with the newest of them. Another revision begins anew. */
export const failuresWithin = (newest: Failure, all: readonly Failure[], { windowSeconds }: Threshold): number => {
  const since = Date.parse(newest.recordedAt) - windowSeconds * 1000;
  return all.filter(
    ({ pluginId, pluginRevision, recordedAt }) =>
      pluginId === newest.pluginId && pluginRevision === newest.pluginRevision && Date.parse(recordedAt) > since,
  ).length;
};

/** Failures looked at; as many as a threshold can ask for. */
const lookBack = 500;

/**
 * Disables plugins that keep failing, in accounts that asked for it (`circuitBreaker`; off by default, MW-58a). It
 * follows the log and decides from the log alone, so that a repetition after a crash finds the plugin disabled and
 * does nothing.
 */
@Injectable()
export class CircuitBreaker implements OnModuleInit, BeforeApplicationShutdown {
  private follower: Follower | null = null;

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(AccountRules) private readonly rules: AccountRules,
  ) {}

  onModuleInit(): void {
    this.follower = startFollower({
      store: this.store,
      sql: this.sql,
      name: 'circuit-breaker',
      types: ['handler.skipped'],
      handle: (events) => this.judge(events),
      log: (level, message, facts = {}) => this.logger[level](facts, message),
    });
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.follower?.stop();
  }

  private async judge(events: readonly StoredEvent[]): Promise<void> {
    const judged = new Set<string>();
    // The newest failure of a revision speaks for those before it.
    for (const { event } of [...events].reverse()) {
      const threshold = this.rules.settings(event.account).circuitBreaker;
      const about = JSON.stringify([event.account, event.pluginId, event.pluginRevision]);
      if (threshold === 'off' || judged.has(about)) continue;
      judged.add(about);
      const failures = await this.count(event, threshold);
      if (failures >= threshold.failures) await this.trip(event, failures, threshold);
    }
  }

  private async count(newest: StoredEvent['event'], threshold: Threshold): Promise<number> {
    const skipped = await this.store.readAccount(newest.account, {
      types: ['handler.skipped'],
      order: 'newest',
      limit: lookBack,
    });
    return failuresWithin(
      newest,
      skipped.map(({ event }) => event),
      threshold,
    );
  }

  private async trip(newest: StoredEvent['event'], failures: number, threshold: Threshold): Promise<void> {
    const { account, pluginId = '' } = newest;
    const stream = pluginStream(pluginId);
    const events = await this.store.readStream(account, stream);
    const history = foldPlugin(events.map(({ event }) => event));
    const plugin = history.current;
    if (plugin === null || !plugin.enabled || plugin.revision !== newest.pluginRevision) return;
    const envelope = await this.sealing.envelope(account, { kind: 'account' });
    const decision = decide({ kind: 'change', patch: { enabled: false } }, history, {
      actor: breaker,
      reason: envelope.seal(`${String(failures)} failures within ${String(threshold.windowSeconds)} s`),
      factsOf,
    });
    if (decision.kind === 'refused') return;
    const result = await this.store.append({
      account,
      writes: [
        {
          stream,
          expectedVersion: events.at(-1)?.event.streamVersion ?? 0,
          events: [tripped(plugin, failures, threshold), ...decision.events],
        },
      ],
      blobs: envelope.blobs(),
    });
    // Somebody changed the plugin meanwhile; if it goes on failing, its next failure is judged again.
    if (result.kind !== 'appended') return;
    this.logger.warn({ account, pluginId, failures }, 'a plugin kept failing and was disabled, as its account asks');
  }
}

const breaker = { kind: 'system', id: 'circuit-breaker' } as const;

const tripped = (plugin: PluginSnapshot, failures: number, threshold: Threshold): NewEvent => ({
  type: 'plugin.tripped',
  actor: breaker,
  pluginId: plugin.id,
  pluginVersion: plugin.version,
  pluginRevision: plugin.revision,
  dialect: plugin.dialect,
  data: { failures, windowMs: threshold.windowSeconds * 1000, threshold: threshold.failures },
});

const factsOf = (name: PluginSnapshot['dialect']): DialectFacts => {
  const dialect = dialectOf(name);
  if (dialect === undefined) throw new Error(`no dialect ${name}`);
  return dialect;
};
