import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { dropPurgedRows } from '#audit';
import type { EventStore, Sql } from '#event-store';
import { CONFIG, errorFacts, EVENT_STORE, LOGGER, SQL, type Logger, type ServerConfig } from '#platform';
import { AccountDirectory } from '../control/accounts/account-directory.js';
import { systemAccount } from '../control/accounts/directory-state.js';
import { PurgeWork } from '../control/keeping/purge-work.js';

/** How often it looks whether a day has begun that nobody has purged on, ms. */
const lookMs = 600_000;
const leaseMs = 120_000;

/** Purges once a day (UTC), on one replica, every account that has a retention; only where settings say so. */
@Injectable()
export class Purger implements OnModuleInit, BeforeApplicationShutdown {
  private timer: NodeJS.Timeout | null = null;
  private work: Promise<void> = Promise.resolve();
  private stopping = false;

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(CONFIG) private readonly config: ServerConfig,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(AccountDirectory) private readonly directory: AccountDirectory,
    private readonly purges: PurgeWork,
  ) {}

  onModuleInit(): void {
    if (this.config.purge === 'off') return;
    const look = (): void => {
      this.work = this.work.then(() => this.look());
    };
    this.timer = setInterval(look, lookMs);
    this.timer.unref();
    look();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping = true;
    if (this.timer !== null) clearInterval(this.timer);
    await this.work;
  }

  private async look(): Promise<void> {
    try {
      await this.purgeToday();
    } catch (error) {
      if (!this.stopping)
        this.logger.warn(errorFacts(error), 'what is past its retention could not be purged; tried again');
    }
  }

  /** The day is a command that is done once; a replica that dies on it leaves it to the next that looks. */
  private async purgeToday(): Promise<void> {
    const key = `keeping purge of ${new Date().toISOString().slice(0, 10)}`;
    const request = { account: systemAccount, key, requestDigest: key, invocationId: null, leaseMs };
    const claim = await this.store.claim(request);
    if (claim.kind !== 'claimed') return;
    const { token } = claim;
    const renewal = setInterval(() => {
      this.store.renewClaim(systemAccount, key, token, leaseMs).catch(() => undefined);
    }, leaseMs / 3);
    try {
      for (const { id } of this.directory.accounts()) await this.purge(id);
      const result = { stream: 'purges', status: 200 };
      await this.store.append({ account: systemAccount, writes: [], commands: [{ key, token, result }] });
    } finally {
      clearInterval(renewal);
    }
  }

  private async purge(account: string): Promise<void> {
    if (this.stopping) return;
    const actor = { kind: 'system', id: 'purger' } as const;
    const { events, held } = await this.purges.run({ account, actor, cause: 'scheduled' });
    // Rows that were built from events which went while they were read.
    await dropPurgedRows(this.sql, account, null);
    if (events > 0) this.logger.info({ account, events, held }, 'events past their retention were purged');
  }
}
