import type { EventStore, Sql } from '#event-store';
import type { Logger } from '#platform';
import { errorFacts } from '#platform';
import { asData } from '#record';
import { systemAccount } from './control/accounts/directory-state.js';

interface Parts {
  readonly store: EventStore;
  readonly sql: Sql;
  readonly logger: Logger;
  /** Names this process. */
  readonly instance: string;
  readonly everyMs: number;
}

/**
 * Records that this process is there, with the size of every account's log: what was cut off or vanished is missed by
 * a log that is itself sealed (events.md §2). Answers with the way to stop.
 */
export const startHeartbeat = (parts: Parts): (() => Promise<void>) => {
  const started = performance.now();
  let beating: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    beating = beating.then(() => beat(parts, Math.floor((performance.now() - started) / 1000)));
  }, parts.everyMs);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await beating;
  };
};

const beat = async ({ store, sql, logger, instance }: Parts, uptimeSeconds: number): Promise<void> => {
  try {
    const rows = await sql.query<{ account: string; size: string }>('select account, size from account_head');
    const sizes = Object.fromEntries(rows.map(({ account, size }) => [account, size]));
    const actor = { kind: 'system', id: instance } as const;
    await store.append({
      account: systemAccount,
      writes: [
        {
          stream: `instance/${instance}`,
          expectedVersion: 'any',
          events: [{ type: 'instance.heartbeat', actor, data: asData({ instance, sizes, uptimeSeconds }) }],
        },
      ],
    });
  } catch (error) {
    logger.warn(errorFacts(error), 'a heartbeat could not be recorded');
  }
};
