import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type pg from 'pg';
import type { TestDatabase } from '../../../../test/support/test-postgres.js';
import { createLedgerDatabase } from '../../../../test/support/test-postgres.js';
import type { ReadRange } from '../event-store.js';
import { createPool } from './pool.js';
import { accountQuery } from './reads.js';

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly Plans?: readonly PlanNode[];
}

const nodesOf = (node: PlanNode): readonly PlanNode[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)];

/** Rows that a plan touched, whether it gave them on or not. */
const touched = (plan: PlanNode): number =>
  nodesOf(plan)
    .filter((node) => node['Node Type'].includes('Scan'))
    .reduce(
      (sum, node) => sum + (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'],
      0,
    );

describe('reading an account’s log of many events', () => {
  let database: TestDatabase;
  let pool: pg.Pool;

  beforeAll(async () => {
    database = await createLedgerDatabase();
    pool = createPool({ connectionString: database.url });
    // Three accounts, 60,000 events: sessions of 300, invocations of 7, one rare type.
    await pool.query(`
      insert into event
        select g, 'a' || g % 3, g / 3, 'invocation/' || g / 21, g % 7 + 1, gen_random_uuid(),
            case when g % 20000 = 1 then 'plugin.installed' when g % 7 = 0 then 'invocation.opened' else 'handler.passed' end,
            1, now(), now(), 's-' || g / 900, decode(repeat('ab', 32), 'hex'), convert_to('{}', 'utf8')
          from generate_series(0, 59999) g;
      analyze event`);
  }, 60_000);

  afterAll(async () => {
    await pool.end();
    await database.drop();
  });

  it.each<[string, ReadRange, number]>([
    ['the oldest', { limit: 50 }, 50],
    ['the newest', { limit: 50, order: 'newest' }, 50],
    ['a page in the middle', { limit: 50, after: 10_000n }, 50],
    ['a short range', { limit: 50, after: 10_000n, until: 10_005n }, 5],
    ['one stream', { limit: 50, stream: 'invocation/700' }, 7],
    ['one session', { limit: 500, sessionId: 's-7' }, 300],
    ['one type in one session', { limit: 50, sessionId: 's-7', types: ['invocation.opened'] }, 300],
    ['a rare type', { limit: 50, types: ['plugin.installed'] }, 6],
    ['a type that never was', { limit: 50, types: ['approval.requested'] }, 1],
    ['a rare and a frequent type', { limit: 50, types: ['plugin.installed', 'handler.passed'] }, 110],
    ['a frequent type, newest', { limit: 50, order: 'newest', types: ['invocation.opened'] }, 55],
    ['a session that never was', { limit: 50, sessionId: 'none' }, 0],
  ])('reads %s by index and little more than it gives', async (_what, range, most) => {
    const { text, values } = accountQuery('a1', range);
    const { rows } = await pool.query<{ 'QUERY PLAN': readonly { readonly Plan: PlanNode }[] }>(
      `explain (analyze, format json) ${text}`,
      values,
    );
    const plan = rows[0]?.['QUERY PLAN'][0]?.Plan;
    if (plan === undefined) throw new Error('no plan');
    expect(touched(plan)).toBeLessThanOrEqual(most + 5);
  });
});
