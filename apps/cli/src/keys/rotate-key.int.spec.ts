import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { EventStore, Sql } from '#event-store';
import { createPool, postgresEventStore, sqlOver } from '#event-store';
import type { Sealed } from '#record';
import type { Sealing } from '#sealing';
import { loadMasterKeys, openRootSecret, postgresSealing, readMasterInForce } from '#sealing';
import type { TestDatabase } from '../../../../test/support/test-postgres.js';
import { createLedgerDatabase } from '../../../../test/support/test-postgres.js';
import { Failure } from '../words.js';
import { rotateKey } from './rotate-key.js';

const hex = (digit: string): string => digit.repeat(64);

/** Lets this many statements pass, then fails every one: the process is gone, as far as the database sees. */
const dyingAfter = (sql: Sql, statements: number): Sql => {
  let left = statements;
  const count = (over: Sql): Sql => ({
    query: (text, values) => {
      left -= 1;
      return left < 0 ? Promise.reject(new Error('killed')) : over.query(text, values);
    },
    transaction: (work) => over.transaction((inside) => work(count(inside))),
  });
  return count(sql);
};

describe('a rotation of the master key', () => {
  let database: TestDatabase;
  let pool: ReturnType<typeof createPool>;
  let sql: Sql;
  let store: EventStore;
  let dataDir: string;

  beforeEach(async () => {
    database = await createLedgerDatabase();
    pool = createPool({ connectionString: database.url });
    sql = sqlOver(pool);
    store = postgresEventStore({ connectionString: database.url });
    dataDir = mkdtempSync(join(tmpdir(), 'hookledger-rotate-'));
  }, 60_000);

  afterEach(async () => {
    await store.close();
    await pool.end();
    await database.drop();
    rmSync(dataDir, { recursive: true });
  });

  interface Environment {
    readonly environment?: string;
    readonly nextEnvironment?: string;
  }
  const keysOf = ({ environment, nextEnvironment }: Environment = {}) =>
    loadMasterKeys({ environment, nextEnvironment, dataDir });
  const sealingOf = (given?: Environment) => postgresSealing({ sql, store, masterKeys: keysOf(given) });
  const rotate = ({ environment, nextEnvironment }: Environment = {}, over = sql) =>
    rotateKey({ dataDir, environment, nextEnvironment, sql: over, store, onProgress: () => undefined });
  /** Seals this many values, each under a key of its own, and opens the last one again. */
  const sealSome = async (count: number, given?: Environment) => {
    const sealing = sealingOf(given);
    await openRootSecret(sql, keysOf(given));
    const values: Sealed[] = [];
    for (let n = 1; n <= count; n += 1) {
      values.push((await sealing.envelope('a', { kind: 'session', id: `s-${String(n)}` })).seal('sealed'));
    }
    const opens = async (server: Sealing): Promise<void> => {
      for (const value of values) expect(await server.open('a', value)).toEqual({ kind: 'open', value: 'sealed' });
    };
    return opens;
  };
  const rotations = async () =>
    (await store.readStream('system', 'keys')).filter(({ event }) => event.type === 'master_key.rotated');

  it('gives every key to a new one, keeps the one of before, and is recorded', async () => {
    const opens = await sealSome(3);
    const root = await openRootSecret(sql, keysOf());
    const before = keysOf().first.id;
    const done = await rotate();
    expect([done.from, done.keys]).toEqual([before, 4]);
    expect(keysOf().first.id).toBe(done.to);
    expect(readdirSync(dataDir).sort()).toEqual([`master.${before}.key`, 'master.key'].sort());
    expect(statSync(join(dataDir, 'master.key')).mode & 0o777).toBe(0o600);
    await opens(sealingOf());
    expect(await openRootSecret(sql, keysOf())).toEqual(root);
    expect((await rotations()).map(({ event }) => event.data)).toEqual([{ from: before, to: done.to, rewrapped: 4 }]);
    // And once more: the next rotation begins from the new one.
    expect((await rotate()).from).toBe(done.to);
    expect(await rotations()).toHaveLength(2);
  });

  it('may be killed after any of its steps, works all the while, and ends once when it is run again', async () => {
    const opens = await sealSome(5);
    const running = sealingOf();
    const began = keysOf().first.id;
    let last: string = began;
    for (let statements = 0; ; statements += 1) {
      const from = keysOf().first.id;
      const survived = await rotate({}, dyingAfter(sql, statements)).catch((error: unknown) => String(error));
      // A server that runs, and one that starts now, open what there is and make new keys.
      for (const server of [running, sealingOf()]) {
        await opens(server);
        const fresh = (await server.envelope(`b-${String(statements)}`, { kind: 'account' })).seal('new');
        expect(await sealingOf().open(`b-${String(statements)}`, fresh)).toEqual({ kind: 'open', value: 'new' });
      }
      if (typeof survived !== 'string') break;
      expect(survived).toContain('killed');
      const done = await rotate();
      expect([done.from, [...(await readMasterInForce(sql)).keys.keys()]]).toEqual([from, [done.to]]);
      last = done.to;
    }
    expect(last).not.toBe(began);
    const recorded = (await rotations()).map(({ event }) => event.data.to);
    expect(new Set(recorded).size).toBe(recorded.length);
  }, 120_000);

  it('is one at a time', async () => {
    const opens = await sealSome(20);
    const ended = await Promise.allSettled([rotate(), rotate(), rotate()]);
    const done = ended.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const refused = ended.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []));
    expect(refused.every((words) => words.includes('under way'))).toBe(true);
    expect(await rotations()).toHaveLength(done.length);
    expect(done.map(({ to }) => to)).toContain(keysOf().first.id);
    await opens(sealingOf());
  });

  it('goes from one key of the environment to the next', async () => {
    const [old, next] = [{ environment: hex('a') }, { environment: hex('b') }];
    const opens = await sealSome(2, old);
    await expect(rotate(old)).rejects.toThrow('HOOKLEDGER_MASTER_KEY_NEXT');
    const done = await rotate({ ...old, nextEnvironment: hex('b') });
    expect(done.formerFile).toBeNull();
    expect(readdirSync(dataDir)).toEqual([]);
    await opens(sealingOf(next));
    await expect(openRootSecret(sql, keysOf(old))).rejects.toThrow(keysOf(next).first.id);
    // A repetition changes nothing and says the same.
    expect(await rotate({ ...old, nextEnvironment: hex('b') })).toEqual(done);
    expect(await rotations()).toHaveLength(1);
  });

  it.each<[string, Environment]>([
    ['the key in use', { environment: hex('a'), nextEnvironment: hex('a') }],
    ['two keys of which the database knows neither', { environment: hex('c'), nextEnvironment: hex('d') }],
    ['a next key that is none', { environment: hex('a'), nextEnvironment: 'short' }],
  ])('refuses %s, and changes nothing', async (_what, given) => {
    await sealSome(1, { environment: hex('a') });
    const before = await sql.query('select * from data_key order by id');
    await expect(rotate(given)).rejects.toThrow(Failure);
    expect(await sql.query('select * from data_key order by id')).toEqual(before);
    expect(await rotations()).toEqual([]);
  });

  it('goes from a key in the data folder to none that its servers would not find', async () => {
    const opens = await sealSome(1);
    await expect(rotate({ nextEnvironment: hex('b') })).rejects.toThrow('Nothing was changed');
    await opens(sealingOf());
    expect(await rotations()).toEqual([]);
    // Given to every server by the environment first, it goes on from there.
    const current = { environment: readFileSync(join(dataDir, 'master.key'), 'utf8').trim() };
    expect((await rotate({ ...current, nextEnvironment: hex('b') })).formerFile).toBeNull();
    await opens(sealingOf({ environment: hex('b') }));
  });

  it('does not make another next key where the one in force is lost', async () => {
    await sealSome(1);
    await expect(rotate({}, dyingAfter(sql, 6))).rejects.toThrow();
    const next = readFileSync(join(dataDir, 'master.next.key'), 'utf8');
    rmSync(join(dataDir, 'master.next.key'));
    await expect(rotate()).rejects.toThrow('master.next.key is missing');
    writeFileSync(join(dataDir, 'master.next.key'), next, { mode: 0o600 });
    expect((await rotate()).keys).toBe(2);
  });
});
