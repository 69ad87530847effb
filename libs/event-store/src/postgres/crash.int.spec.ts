import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { rowTag, rowTagKey } from '#proof';
import { leafHash } from '#record';
import type { ProgramFile } from '../../../../test/support/child-program.js';
import { programFile } from '../../../../test/support/child-program.js';
import type { TestCluster, TestDatabase } from '../../../../test/support/test-postgres.js';
import { startTestCluster } from '../../../../test/support/test-postgres.js';
import type { EventStore, StoredEvent } from '../event-store.js';
import { createPool } from './pool.js';
import { postgresEventStore } from './postgres-store.js';

interface AppendFacts {
  readonly id: string;
  readonly n: number;
  readonly of: number;
}

const factsOf = ({ event }: StoredEvent): AppendFacts => event.data as unknown as AppendFacts;

const wholeLog = async (store: EventStore): Promise<readonly StoredEvent[]> => {
  const all: StoredEvent[] = [];
  for (;;) {
    const page = await store.readAll(all.at(-1)?.globalPosition ?? -1n, 1_000);
    if (page.length === 0) return all;
    all.push(...page);
  }
};

const tagKey = rowTagKey(Buffer.alloc(32, 1));

const expectTagged = async (database: TestDatabase, log: readonly StoredEvent[]): Promise<void> => {
  const pool = createPool({ connectionString: database.url, max: 1 });
  const { rows } = await pool.query<{ tag: Buffer }>('select tag from event order by position');
  await pool.end();
  const expected = log.map(({ event, position, bytes }) => rowTag(tagKey, event.account, position, leafHash(bytes)));
  expect(rows.map(({ tag }, n) => tag.equals(expected[n] ?? Buffer.alloc(0)))).toEqual(expected.map(() => true));
};

/** What must hold of a log, whoever was killed while it was written. */
const expectSound = async (database: TestDatabase, store: EventStore, answered: readonly string[]): Promise<void> => {
  const log = await wholeLog(store);
  await expectTagged(database, log);
  expect(log.map((e) => e.globalPosition)).toEqual(log.map((_, n) => BigInt(n)));
  expect(await store.head()).toBe(BigInt(log.length) - 1n);

  const accounts = Map.groupBy(log, ({ event }) => event.account);
  for (const [account, events] of accounts) {
    expect(events.map((e) => e.position)).toEqual(events.map((_, n) => BigInt(n)));
    expect(await store.accountSize(account)).toBe(BigInt(events.length));
  }
  const streams = Map.groupBy(log, ({ event }) => `${event.account} ${event.stream}`);
  for (const events of streams.values()) {
    expect(events.map((e) => e.event.streamVersion)).toEqual(events.map((_, n) => n + 1));
  }
  const appends = Map.groupBy(log, (stored) => factsOf(stored).id);
  const partial = [...appends].filter(([, events]) => {
    const numbers = events.map((stored) => factsOf(stored).n);
    return events.some((stored) => factsOf(stored).of !== numbers.length) || numbers.some((n, at) => n !== at);
  });
  expect(partial).toEqual([]);
  expect(answered.filter((id) => !appends.has(id))).toEqual([]);
  const blobs = await Promise.all([...appends.keys()].map((id) => store.blob(id.replaceAll('-', '').repeat(2))));
  expect(blobs.filter((bytes) => bytes === null)).toEqual([]);
};

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('the log in Postgres', () => {
  let cluster: TestCluster;
  let program: ProgramFile;

  beforeAll(async () => {
    cluster = await startTestCluster();
    program = await programFile('test/support/appending-child.ts');
  }, 60_000);

  afterAll(() => {
    cluster.close();
    program.remove();
  });

  const withDatabase = async (work: (database: TestDatabase, store: EventStore) => Promise<void>): Promise<void> => {
    const database = await cluster.createLedgerDatabase();
    const store = postgresEventStore({ connectionString: database.url, tagKey });
    try {
      await work(database, store);
    } finally {
      await store.close();
      await database.drop();
    }
  };

  it('has whole, in order and without gaps, every append that was answered by a process that was killed', async () => {
    await withDatabase(async (database, store) => {
      const answered: string[] = [];
      for (let round = 0; round < 8; round += 1) {
        const child = program.start([database.url, 'a', '8']);
        while (child.lines.length < 20) await sleep(5);
        await sleep(Math.random() * 200);
        child.process.kill('SIGKILL');
        await child.ended;
        answered.push(...child.lines.filter((line) => line.length === 36));
      }
      expect(answered.length).toBeGreaterThanOrEqual(160);
      await expectSound(database, store, answered);
    });
  }, 120_000);

  it('is shared by three processes, one of which is killed, without a gap, a fork or a lost append', async () => {
    await withDatabase(async (database, store) => {
      const children = ['60', '60'].map((count) => program.start([database.url, 'a', '16', count]));
      const victim = program.start([database.url, 'a', '16']);
      while (victim.lines.length < 100) await sleep(5);
      victim.process.kill('SIGKILL');
      const codes = await Promise.all([...children, victim].map((child) => child.ended));
      expect(codes).toEqual([0, 0, null]);
      expect(children.map((child) => child.lines.length)).toEqual([960, 960]);
      await expectSound(
        database,
        store,
        [...children, victim].flatMap((child) => child.lines.filter((line) => line.length === 36)),
      );
    });
  }, 120_000);

  it('neither loses nor doubles an append when its sessions are ended under load', async () => {
    await withDatabase(async (database, store) => {
      const admin = createPool({ connectionString: database.url, max: 1 });
      const answered: string[] = [];
      let running = true;
      const client = async (): Promise<void> => {
        while (running) {
          const id = randomUUID();
          const events = [0, 1, 2].map((n) => ({ type: 'plugin.tried' as const, data: { id, n, of: 3 } }));
          const blobs = [{ hash: id.replaceAll('-', '').repeat(2), bytes: Buffer.from(id) }];
          const writes = [
            { stream: `one/${id}`, expectedVersion: 0, events: events.slice(0, 2) },
            { stream: 'shared', expectedVersion: 'any' as const, events: events.slice(2) },
          ];
          const result = await store.append({ account: 'a', writes, blobs });
          expect(result.kind).toBe('appended');
          answered.push(id);
        }
      };
      const clients = Array.from({ length: 24 }, client);
      for (let round = 0; round < 25; round += 1) {
        await sleep(20 + Math.random() * 60);
        await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name like 'hookledger append'`);
      }
      running = false;
      await Promise.all(clients);
      await admin.end();
      expect(new Set(answered).size).toBe(answered.length);
      await expectSound(database, store, answered);
    });
  }, 120_000);

  it('has every answered append after the server itself was killed, and takes more without a restart of ours', async () => {
    await withDatabase(async (database, store) => {
      const answered: string[] = [];
      for (let round = 0; round < 3; round += 1) {
        const child = program.start([database.url, 'a', '8']);
        while (child.lines.length < 20) await sleep(5);
        cluster.kill();
        cluster.start();
        const before = child.lines.length;
        while (child.lines.length < before + 20) await sleep(5);
        child.process.kill('SIGKILL');
        await child.ended;
        answered.push(...child.lines.filter((line) => line.length === 36));
      }
      await expectSound(database, store, answered);
    });
  }, 120_000);
});
