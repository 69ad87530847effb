import { afterEach, describe, expect, it } from '@jest/globals';
import { createPool, sqlOver } from '#event-store';
import { createLedgerDatabase, createTestDatabase } from '../../../../test/support/test-postgres.js';
import type { TestDatabase } from '../../../../test/support/test-postgres.js';
import { examineDatabase } from './database.js';
import type { FoundDatabase } from './database.js';

const patience = 60_000;
const databases: TestDatabase[] = [];

afterEach(async () => {
  for (const database of databases.splice(0)) await database.drop();
}, patience);

const open = async (making: Promise<TestDatabase>): Promise<string> => {
  const database = await making;
  databases.push(database);
  return database.url;
};

const examine = (url: string, migrates = true): Promise<FoundDatabase> =>
  examineDatabase({ url, from: 'DATABASE_URL', migrates });

const states = ({ findings }: FoundDatabase): readonly string[] =>
  findings.map(({ check, state }) => `${check} ${state}`);

const change = async (url: string, ...statements: readonly string[]): Promise<void> => {
  const pool = createPool({ connectionString: url, max: 1 });
  for (const statement of statements) await sqlOver(pool).query(statement);
  await pool.end();
};

describe('a database', () => {
  it(
    'may be empty, and stays so',
    async () => {
      const url = await open(createTestDatabase());
      const found = await examine(url);
      expect([states(found), found.masters]).toEqual([['database ok', 'migrations ok'], []]);
      expect((await examine(url)).findings[1]?.words).toContain('no tables yet');
    },
    patience,
  );

  it(
    'is up to date after a start, and tells which master keys it needs',
    async () => {
      const url = await open(createLedgerDatabase());
      await change(
        url,
        "insert into data_key (id, account, scope, wrapped, master) values ('k', 'a', 's', 'x', 'master-1')",
        "insert into data_key (id, account, scope, master, erased_at) values ('e', 'a', 't', 'master-0', now())",
      );
      const found = await examine(url);
      expect(states(found)).toEqual(['database ok', 'migrations ok']);
      expect(found.findings[1]?.words).toBe('Its tables are up to date.');
      expect(found.masters).toEqual(['master-1']);
    },
    patience,
  );

  it(
    'is a warning when the next start has to change it, and a problem when a newer program did',
    async () => {
      const url = await open(createLedgerDatabase());
      await change(url, 'delete from migration where id = (select max(id) from migration)');
      expect(states(await examine(url))).toEqual(['database ok', 'migrations warning']);
      await change(url, `insert into migration (timestamp, name) values (1, 'OfTheFuture1')`);
      const found = await examine(url);
      expect(states(found)).toEqual(['database ok', 'migrations problem']);
      expect(found.findings[1]?.words).toContain('OfTheFuture1');
    },
    patience,
  );

  it(
    'must let its user make tables, unless another user makes them',
    async () => {
      const url = await open(createTestDatabase());
      const role = `reader_${String(Date.now())}`;
      await change(url, `create role ${role} login password 'p'`, 'revoke create on schema public from public');
      const asReader = new URL(url);
      asReader.username = role;
      asReader.password = 'p';
      expect(states(await examine(asReader.href))).toEqual(['database ok', 'migrations ok', 'migrations problem']);
      expect(states(await examine(asReader.href, false))).toEqual(['database ok', 'migrations ok']);
      await change(url, `drop role ${role}`);
    },
    patience,
  );

  it(
    'is a problem when it does not let us in, without the password',
    async () => {
      const url = new URL(await open(createTestDatabase()));
      url.password = 'wrong-and-not-to-be-shown';
      const { findings } = await examine(url.href);
      expect(findings).toEqual([{ check: 'database', state: 'problem', words: expect.stringContaining('28P01') }]);
      expect(JSON.stringify(findings)).not.toContain(url.password);
    },
    patience,
  );

  it('is a problem when nobody listens', async () => {
    const { findings, masters } = await examine('postgres://u:secret@127.0.0.1:1/x');
    expect(findings).toEqual([{ check: 'database', state: 'problem', words: expect.stringContaining('ECONNREFUSED') }]);
    expect(masters).toBeNull();
  });
});
