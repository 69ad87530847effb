import { Inject, Injectable } from '@nestjs/common';
import type { Dialect } from '#dialects';
import type { EventStore } from '#event-store';
import { EVENT_STORE, SEALING } from '#platform';
import type { InvocationClosed, JsonObject } from '#record';
import type { Sealing } from '#sealing';

/** Answers of a run that are looked at: those of one turn are few. */
const lookBack = 200;

/**
 * How often OpenClaw's `before_agent_finalize` asked for each retry in a run so far (openclaw.md §12). Read off the log,
 * so that every replica and every restart counts on.
 */
@Injectable()
export class FinalizeRetries {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
  ) {}

  /** Empty for every other hook, and for a run that nobody named. */
  async counted(
    account: string,
    dialect: Dialect['name'],
    hook: string,
    turnId: string | null,
    sessionId: string | null,
  ): Promise<{ readonly [key: string]: number }> {
    if (dialect !== 'openclaw' || hook !== 'before_agent_finalize') return {};
    if (turnId === null && sessionId === null) return {};
    const events = await this.store.readAccount(account, {
      ...(sessionId === null ? {} : { sessionId }),
      types: ['invocation.closed'],
      order: 'newest',
      limit: lookBack,
    });
    const counts: { [key: string]: number } = {};
    for (const { event } of events) {
      if (event.hook !== hook || (turnId !== null && event.turnId !== turnId)) continue;
      for (const key of await this.retriesIn(account, event.data as unknown as InvocationClosed)) {
        counts[key] = (counts[key] ?? 0) + 1;
      }
    }
    return counts;
  }

  private async retriesIn(account: string, { more }: InvocationClosed): Promise<readonly string[]> {
    const opened = more === undefined ? null : await this.sealing.open(account, more);
    if (opened?.kind !== 'open') return [];
    const { retries } = opened.value as JsonObject;
    return Array.isArray(retries) ? (retries as readonly string[]) : [];
  }
}
