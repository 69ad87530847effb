import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import { createLogger, createMetrics, readConfig, Readiness } from '#platform';
import { readRoundLine, rowTagKey } from '#proof';
import { createLedgerDatabase, type TestDatabase } from '../../../../test/support/test-postgres.js';
import { until } from '../../../../test/support/running-server.js';
import { LogKeys } from '../control/proofs/log-keys.js';
import { Sealer } from './sealer.js';

const rootSecret = randomBytes(32);
let database: TestDatabase;
let pool: ReturnType<typeof createPool>;
let sql: Sql;
let store: EventStore;
let keys: LogKeys;
let dataDir: string;
const running: Sealer[] = [];

const start = async (): Promise<Readiness> => {
  const readiness = new Readiness();
  const own = new LogKeys({ store, sql, rootSecret });
  await own.start();
  const config = readConfig({ HOOKLEDGER_DATA: dataDir }, '/');
  const sealer = new Sealer(store, sql, config, createLogger('silent'), rootSecret, readiness, createMetrics(), own);
  sealer.onModuleInit();
  running.push(sealer);
  return readiness;
};

const append = async (account: string): Promise<void> => {
  const writes = [
    { stream: 's', expectedVersion: 'any' as const, events: [{ type: 'plugin.tried' as const, data: {} }] },
  ];
  expect((await store.append({ account, writes })).kind).toBe('appended');
};

const signedSize = async (account: string): Promise<number> => {
  const rows = await sql.query<{ size: string }>('select max(size) as size from checkpoint where account = $1', [
    account,
  ]);
  return Number(rows[0]?.size ?? 0);
};

const sealed = (account: string): Promise<void> =>
  until(`${account} is sealed`, async () => (await signedSize(account)) >= Number(await store.accountSize(account)));

const alarms = async (account: string): Promise<readonly unknown[]> =>
  (await store.readAccount(account, { types: ['alarm.raised'], limit: 50 })).map(({ event }) => event.data);

const stateOf = async (readiness: Readiness): Promise<{ sealer: unknown; why: unknown }> => {
  const report = await readiness.report();
  return { sealer: report.sealer, why: (report.details.sealer as { why?: unknown } | undefined)?.why };
};

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'hookledger-sealer-'));
  database = await createLedgerDatabase();
  pool = createPool({ connectionString: database.url, max: 20 });
  sql = sqlOver(pool);
  store = postgresEventStore({ connectionString: database.url, tagKey: rowTagKey(rootSecret) });
  keys = new LogKeys({ store, sql, rootSecret });
  await keys.start();
}, 60_000);

afterEach(async () => {
  await Promise.all(running.splice(0).map((sealer) => sealer.beforeApplicationShutdown()));
  await store.close();
  await pool.end();
  await database.drop();
  rmSync(dataDir, { recursive: true, force: true });
});

describe('the sealer', () => {
  it('raises one alarm with the position of what it refuses, whoever finds it and how often', async () => {
    await append('a');
    await append('a');
    await sql.transaction(async (inside) => {
      await inside.query("set local session_replication_role = 'replica'");
      await inside.query("update event set tag = sha256('x') where account = 'a' and account_position = 1");
    });
    const [one] = [await start(), await start(), await start()];
    await append('b');
    await sealed('b');
    await until('an alarm is raised', async () => (await alarms('a')).length > 0);
    for (const sealer of running.splice(0)) await sealer.beforeApplicationShutdown();
    const again = await start();
    await append('b');
    await sealed('b');
    await until('it is known again', async () => (await stateOf(again)).sealer === 'degraded');
    expect(await alarms('a')).toEqual([
      { code: 'not_sealed', facts: { account: 'a', position: '1', reason: 'tag_mismatch' } },
    ]);
    expect(await signedSize('a')).toBe(1);
    expect((await stateOf(one)).why).toContain('refused');
  }, 60_000);

  it('says in system that an account is gone that its folder knows', async () => {
    await append('gone');
    await start();
    await sealed('gone');
    await sealed('system');
    const lines = join(dataDir, 'checkpoints', 'checkpoints.jsonl');
    await until('it is outside', () => existsSync(lines) && readFileSync(lines, 'utf8').includes('"gone"'));
    for (const sealer of running.splice(0)) await sealer.beforeApplicationShutdown();
    await sql.transaction(async (inside) => {
      await inside.query("set local session_replication_role = 'replica'");
      for (const table of ['event', 'account_head', 'stream', 'tree', 'tile', 'checkpoint']) {
        await inside.query(`delete from ${table} where account = 'gone'`);
      }
    });
    await start();
    await until('an alarm is raised', async () => (await alarms('system')).length > 0);
    expect(await alarms('system')).toEqual([
      { code: 'not_sealed', facts: { account: 'gone', position: '0', reason: 'log_rolled_back' } },
    ]);
  }, 60_000);

  it('goes on without its folder, says so, and writes what it owes when it can', async () => {
    writeFileSync(join(dataDir, 'checkpoints'), 'a file where the folder should be');
    const readiness = await start();
    await append('a');
    await sealed('a');
    await until('it says so', async () => (await stateOf(readiness)).sealer === 'degraded');
    rmSync(join(dataDir, 'checkpoints'));
    const lines = join(dataDir, 'checkpoints', 'checkpoints.jsonl');
    await until('it writes', () => existsSync(lines));
    const [line = ''] = readFileSync(lines, 'utf8').split('\n');
    const read = readRoundLine(line, keys.verifiers());
    if (read.kind !== 'signed') throw new Error(read.kind);
    expect(read.round.accounts.map(({ account }) => account)).toEqual(['a', 'system']);
    await until('it says that too', async () => (await stateOf(readiness)).sealer === 'ok');
  }, 60_000);

  it('outlives a database that ends its sessions', async () => {
    await start();
    await append('a');
    await sealed('a');
    for (let n = 0; n < 5; n += 1) {
      await pool.query(`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`);
      await append('a');
    }
    await sealed('a');
  }, 60_000);
});
