import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { dropPurgedRows } from '#audit';
import { startFollower, type EventStore, type Follower, type Sql, type StoredEvent } from '#event-store';
import { errorFacts, EVENT_STORE, LOGGER, SQL, type Logger } from '#platform';
import { erasedIn, ErasureWork, erasureTypes } from '../control/keeping/erasure-work.js';
import { purgeTypes, PurgeWork } from '../control/keeping/purge-work.js';

/** After this nobody seals under a key that was destroyed, ms: how long a replica believes in a key, and an append takes. */
const lateMs = 15_000;

/**
 * Brings to its end what was put on record to be erased or purged, when whoever put it there died on the way. Every step
 * may be done again, and mostly all of it is done already.
 */
@Injectable()
export class PurgerFollower implements OnModuleInit, BeforeApplicationShutdown {
  private follower: Follower | null = null;
  private sweep: NodeJS.Timeout | null = null;

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly erasures: ErasureWork,
    private readonly purges: PurgeWork,
  ) {}

  onModuleInit(): void {
    this.follower = startFollower({
      store: this.store,
      sql: this.sql,
      name: 'purger',
      types: [...erasureTypes, ...purgeTypes],
      batch: 50,
      handle: (events) => this.finish(events),
      log: (level, message, facts = {}) => this.logger[level](facts, message),
    });
    // An erasure may have been the last thing that this worker's forerunner saw.
    this.sweepSoon();
  }

  async beforeApplicationShutdown(): Promise<void> {
    if (this.sweep !== null) clearTimeout(this.sweep);
    await this.follower?.stop();
  }

  private async finish(events: readonly StoredEvent[]): Promise<void> {
    const purgedSince = new Map<string, string>();
    for (const { event, position } of events) {
      if (event.type === 'retention.purged') {
        await this.purges.removeRecorded(event.account, position);
        if (!purgedSince.has(event.account)) purgedSince.set(event.account, event.recordedAt);
      } else if (erasedIn(event).state === 'begun') {
        await this.erasures.finish(event.account, event);
        this.sweepSoon();
      }
    }
    for (const [account, since] of purgedSince) await dropPurgedRows(this.sql, account, new Date(since));
  }

  private sweepSoon(): void {
    this.sweep ??= setTimeout(() => {
      this.sweep = null;
      this.erasures.sweepLate().catch((error: unknown) => {
        this.logger.warn(errorFacts(error), 'what was sealed late under erased keys is not removed yet');
      });
    }, lateMs).unref();
  }
}
