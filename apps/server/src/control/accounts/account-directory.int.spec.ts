import { afterEach, beforeAll, afterAll, describe, expect, it } from '@jest/globals';
import type { EventStore, Sql } from '#event-store';
import { createPool, memoryEventStore, sqlOver } from '#event-store';
import { createLogger } from '#platform';
import type { NewEvent } from '#record';
import { createLedgerDatabase } from '../../../../../test/support/test-postgres.js';
import type { TestDatabase } from '../../../../../test/support/test-postgres.js';
import { AccountDirectory } from './account-directory.js';
import { AccountRules } from './account-rules.js';
import { ensureDefaultAccount, ensureOperatorKey } from './first-start.js';

const masterKey = Buffer.alloc(32, 3);
const logger = createLogger('silent');

let database: TestDatabase;
let pool: ReturnType<typeof createPool>;
let sql: Sql;
const directories: AccountDirectory[] = [];

beforeAll(async () => {
  database = await createLedgerDatabase();
  pool = createPool({ connectionString: database.url, max: 2 });
  sql = sqlOver(pool);
});

afterEach(async () => {
  for (const directory of directories.splice(0)) await directory.stop();
  await sql.query('delete from directory_snapshot');
});

afterAll(async () => {
  await pool.end();
  await database.drop();
});

const open = async (store: EventStore, key = masterKey): Promise<AccountDirectory> => {
  const directory = new AccountDirectory({ store, sql, masterKey: key, logger, pollMs: 20 });
  directories.push(directory);
  await directory.start();
  return directory;
};

const write = (store: EventStore, account: string, stream: string, event: NewEvent) =>
  store.append({ account, writes: [{ stream, expectedVersion: 'any', events: [event] }] });

const bear = (store: EventStore, id: string) =>
  write(store, 'system', `account/${id}`, { type: 'account.created', data: { id, name: id } });

const makeKey = (store: EventStore, id: string, hash: string) =>
  write(store, 'acme', `key/${id}`, {
    type: 'key.created',
    data: { id, role: 'admin', name: 'k', content: 'none', expiresAt: null, hash },
  });

/** A store that counts what is read of it. */
const counted = (store: EventStore): { readonly store: EventStore; readonly reads: () => number } => {
  let reads = 0;
  return {
    store: {
      ...store,
      readAll: async (after, limit, types) => {
        const events = await store.readAll(after, limit, types);
        reads += events.length;
        return events;
      },
    },
    reads: () => reads,
  };
};

describe('the account directory', () => {
  it('knows what was committed before it is asked, though it was written elsewhere', async () => {
    const store = memoryEventStore();
    const directory = await open(store);
    await bear(store, 'acme');
    await makeKey(store, 'k1', 'h1');
    expect(await directory.keyByHash('h1')).toMatchObject({ id: 'k1', account: 'acme', role: 'admin' });
    expect(await directory.accountExists('acme')).toBe(true);
    expect(await directory.accountExists('nowhere')).toBe(false);
    await write(store, 'acme', 'key/k1', { type: 'key.revoked', data: { id: 'k1', role: 'admin', name: 'k' } });
    await directory.catchUp();
    expect(await directory.keyByHash('h1')).toBeNull();
  });

  it('never misses an event, whoever writes while it reads', async () => {
    const store = memoryEventStore();
    const directory = await open(store);
    await bear(store, 'acme');
    await Promise.all(
      Array.from({ length: 1200 }, async (_, n) => {
        await makeKey(store, `k${n}`, `h${n}`);
        if (n % 100 === 0) await directory.catchUp();
      }),
    );
    await directory.catchUp();
    expect(directory.account('acme')?.keys.size).toBe(1200);
  });

  it('starts from its snapshot and reads only what came after', async () => {
    const store = memoryEventStore();
    const first = await open(store);
    await bear(store, 'acme');
    await makeKey(store, 'k1', 'h1');
    await first.catchUp();
    await first.stop();
    await makeKey(store, 'k2', 'h2');
    const { store: watched, reads } = counted(store);
    const second = await open(watched);
    expect(reads()).toBe(1);
    expect([...(second.account('acme')?.keys.keys() ?? [])]).toEqual(['k1', 'k2']);
    expect(await second.keyByHash('h1')).not.toBeNull();
  });

  it('reads the log where its snapshot was changed, or made under another master key', async () => {
    const store = memoryEventStore();
    const first = await open(store);
    await bear(store, 'acme');
    await makeKey(store, 'k1', 'h1');
    await first.catchUp();
    await first.stop();
    const { store: watched, reads } = counted(store);
    await open(watched, Buffer.alloc(32, 4));
    expect(reads()).toBe(2);
    await sql.query(`update directory_snapshot set state = replace(state, '"h1"', '"forged"')`);
    const third = await open(store);
    expect(await third.keyByHash('forged')).toBeNull();
    expect(await third.keyByHash('h1')).not.toBeNull();
  });

  it('tells settings and halts of an account, and defaults where nothing was said', async () => {
    const store = memoryEventStore();
    const directory = await open(store);
    const rules = new AccountRules(directory);
    await bear(store, 'acme');
    await write(store, 'acme', 'account', {
      type: 'settings.changed',
      data: { version: 1, before: {}, after: { timeouts: { middleware: 9 } }, changed: ['timeouts'] },
    });
    await write(store, 'acme', 'account', {
      type: 'account.halted',
      data: { failureMode: 'closed', until: null, reason: null },
    });
    await directory.catchUp();
    expect(rules.timeoutMs('acme', 'middleware')).toBe(9);
    expect(rules.timeoutMs('acme', 'kohaku')).toBeNull();
    expect(rules.settings('acme').approvalGrants).toBe(true);
    expect(rules.halted('acme')).toBe('closed');
    const past = new Date(Date.now() - 1).toISOString();
    await write(store, 'acme', 'account', {
      type: 'account.halted',
      data: { failureMode: 'closed', until: past, reason: null },
    });
    await directory.catchUp();
    expect(rules.halted('acme')).toBeNull();
  });
});

describe('a first start', () => {
  it('makes the default account and one operator key, however many start at once', async () => {
    const store = memoryEventStore();
    const replicas = await Promise.all([open(store), open(store), open(store)]);
    const keys = await Promise.all(
      replicas.map(async (directory) => {
        await ensureDefaultAccount(store, directory);
        return ensureOperatorKey(store, directory, null);
      }),
    );
    expect(keys.filter((key) => key !== null)).toHaveLength(1);
    expect((await store.readStream('system', 'account/default')).length).toBe(1);
    expect((await store.readStream('system', 'operator-key')).length).toBe(1);
  });

  it('agrees on the key that the environment gives, however many start at once', async () => {
    const store = memoryEventStore();
    const replicas = await Promise.all([open(store), open(store), open(store)]);
    await Promise.all(replicas.map((directory) => ensureOperatorKey(store, directory, 'the-given-key')));
    expect((await store.readStream('system', 'operator-key')).length).toBe(1);
    await Promise.all(replicas.map((directory) => ensureOperatorKey(store, directory, 'another-key')));
    expect((await store.readStream('system', 'operator-key')).map(({ event }) => event.type)).toEqual([
      'key.created',
      'key.revoked',
      'key.created',
    ]);
  });
});
