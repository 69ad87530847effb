import { measureRebuild } from '../libs/audit/bench/rebuild.js';
import { startTestCluster } from '../test/support/test-postgres.js';
import type { Figure } from './figures.js';
import { atLeast, rounded } from './figures.js';

/** Every read model but the search of content, built from a long log as `hookledger replay` does it. */
export const measureRebuilding = async (events: number): Promise<readonly Figure[]> => {
  const cluster = await startTestCluster({ durable: true });
  try {
    const { url } = await cluster.createLedgerDatabase();
    const { events: count, loadSeconds, indexSeconds } = await measureRebuild(url, events);
    const from = `${rounded(count / 1e6)} M events: ${rounded(loadSeconds)} s for the rows, ${rounded(indexSeconds)} s for the indexes`;
    return [
      atLeast(
        'rebuild of all read models but content search',
        15_000,
        count / (loadSeconds + indexSeconds),
        'events/s',
        from,
      ),
    ];
  } finally {
    cluster.close();
  }
};
