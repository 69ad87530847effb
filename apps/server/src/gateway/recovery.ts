import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Counter, type Registry } from 'prom-client';
import type { EventStore, Sql } from '#event-store';
import { errorFacts, EVENT_STORE, INSTANCE, LOGGER, METRICS, SQL, type Logger } from '#platform';
import { LostInvocations } from './lost-invocations.js';
import { processMark, releaseLease, renewLease, renewMs } from './recovery-lease.js';
import { RunningInvocations } from './running-invocations.js';

/** How often it looks for what the dead left open, ms. */
const lookMs = 2_000;

/** Keeps this process's lease, and closes what others left open when they died. */
@Injectable()
export class Recovery implements OnModuleInit, OnApplicationShutdown {
  private readonly mark = processMark();
  private readonly lost: LostInvocations;
  private timers: readonly NodeJS.Timeout[] = [];
  private work: Promise<void> = Promise.resolve();
  private faulty = false;

  constructor(
    @Inject(EVENT_STORE) store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(INSTANCE) private readonly instance: string,
    @Inject(RunningInvocations) running: RunningInvocations,
    @Inject(METRICS) metrics: Registry,
  ) {
    const counter = new Counter({
      name: 'hookledger_invocations_lost_total',
      help: 'Invocations that this process closed as lost, by why.',
      labelNames: ['cause'],
      registers: [metrics],
    });
    this.lost = new LostInvocations({
      store,
      sql,
      instance,
      isRunning: (account, id) => running.has(account, id),
      onLost: (account, invocationId, cause) => {
        counter.inc({ cause });
        logger.warn({ account, invocationId, cause }, 'an invocation was lost: its chain did not come to its end');
      },
    });
  }

  /** The lease stands before the first firing is taken. */
  async onModuleInit(): Promise<void> {
    await renewLease(this.sql, this.instance, this.mark);
    this.timers = [
      // A sign of life waits for nothing else.
      setInterval(() => void this.attempt(() => renewLease(this.sql, this.instance, this.mark)), renewMs),
      setInterval(() => {
        this.work = this.work.then(() => this.attempt(() => this.lost.look()));
      }, lookMs),
    ];
    for (const timer of this.timers) timer.unref();
  }

  async onApplicationShutdown(): Promise<void> {
    for (const timer of this.timers) clearInterval(timer);
    await this.work;
    await this.attempt(() => releaseLease(this.sql, this.instance));
  }

  private async attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.faulty = false;
    } catch (error) {
      if (!this.faulty) this.logger.warn(errorFacts(error), 'lost invocations cannot be looked for; tried again');
      this.faulty = true;
    }
  }
}
