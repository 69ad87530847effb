import { describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, startTestCluster } from './test-postgres.js';

const ask = async (url: string, text: string): Promise<unknown[]> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<Record<string, unknown>>(text);
  await client.end();
  return rows;
};

describe('the test Postgres', () => {
  it('gives every test a database of its own and takes it away again', async () => {
    const [one, other] = await Promise.all([createTestDatabase(), createTestDatabase()]);
    expect(one.url).not.toBe(other.url);
    await ask(one.url, 'create table only_here(n int)');
    expect(await ask(other.url, "select to_regclass('only_here') as found")).toEqual([{ found: null }]);
    await one.drop();
    await expect(ask(one.url, 'select 1')).rejects.toThrow(/does not exist/u);
    await other.drop();
  });

  it('comes back after it was stopped and after it was killed', async () => {
    const cluster = await startTestCluster();
    try {
      const { url } = await cluster.createDatabase();
      await ask(url, 'create table kept as select 1 as n');
      cluster.stop();
      await expect(ask(url, 'select 1')).rejects.toThrow();
      cluster.start();
      expect(await ask(url, 'select n from kept')).toEqual([{ n: 1 }]);
      cluster.kill();
      cluster.start();
      expect(await ask(url, 'select n from kept')).toEqual([{ n: 1 }]);
    } finally {
      cluster.close();
    }
  }, 60_000);
});
