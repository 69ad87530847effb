import { measureReads } from '../libs/audit/bench/reads.js';
import { startTestCluster } from '../test/support/test-postgres.js';
import type { Figure } from './figures.js';
import { atMost, rounded } from './figures.js';

/** Reads over a long record. */
export const measureReading = async (events: number): Promise<readonly Figure[]> => {
  const cluster = await startTestCluster({ durable: true });
  try {
    const { url } = await cluster.createLedgerDatabase();
    const figures = await measureReads(url, events);
    const size = `${rounded(figures.events / 1e6)} M events`;
    return figures.reads.map(({ name, reads, p50Ms, p95Ms }) =>
      atMost(`${name}, ${size}: p95`, 50, p95Ms, 'ms', `${reads} reads, p50 ${rounded(p50Ms)} ms`),
    );
  } finally {
    cluster.close();
  }
};
