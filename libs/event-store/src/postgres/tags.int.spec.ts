import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type pg from 'pg';
import { rowTag, rowTagKey } from '#proof';
import { leafHash } from '#record';
import type { TestDatabase } from '../../../../test/support/test-postgres.js';
import { createLedgerDatabase } from '../../../../test/support/test-postgres.js';
import type { Append, EventStore } from '../event-store.js';
import { createPool } from './pool.js';
import { postgresEventStore } from './postgres-store.js';

const tagKey = rowTagKey(Buffer.alloc(32, 1));
let database: TestDatabase;
let pool: pg.Pool;
const stores: EventStore[] = [];

const open = (): EventStore => {
  const store = postgresEventStore({ connectionString: database.url, tagKey, patienceMs: 10_000 });
  stores.push(store);
  return store;
};

const appendOf = (account: string, events = 1, stream = `s/${randomUUID()}`): Append => ({
  account,
  writes: [
    {
      stream,
      expectedVersion: 'any',
      events: Array.from({ length: events }, (_, n) => ({ type: 'plugin.tried' as const, data: { n } })),
    },
  ],
});

interface Row {
  readonly account: string;
  readonly account_position: string;
  readonly bytes: Buffer;
  readonly tag: Buffer | null;
}

/** Rows whose tag is not that of their account, place and bytes. */
const badRows = async (): Promise<{ readonly bad: readonly string[]; readonly all: number }> => {
  const { rows } = await pool.query<Row>('select account, account_position, bytes, tag from event order by position');
  const bad = rows.filter(({ account, account_position: at, bytes, tag }) => {
    return tag?.equals(rowTag(tagKey, account, BigInt(at), leafHash(bytes))) !== true;
  });
  return { bad: bad.map(({ account, account_position: at }) => `${account} ${at}`), all: rows.length };
};

beforeAll(async () => {
  database = await createLedgerDatabase();
  pool = createPool({ connectionString: database.url, max: 2 });
});

afterEach(async () => {
  await Promise.all(stores.splice(0).map((store) => store.close()));
});

afterAll(async () => {
  await pool.end();
  await database.drop();
});

describe('the tag of a stored event', () => {
  it('fits its account, place and bytes, in appends of many accounts at once', async () => {
    const store = open();
    const accounts = ['a', 'b', 'ü', `x${'y'.repeat(150)}`];
    const appends = Array.from({ length: 200 }, (_, n) => store.append(appendOf(accounts[n % 4] ?? '', 1 + (n % 5))));
    for (const result of await Promise.all(appends)) expect(result.kind).toBe('appended');
    const { bad, all } = await badRows();
    expect(bad).toEqual([]);
    expect(all).toBeGreaterThanOrEqual(600);
  });

  it('fits where a store knew nothing of what others had written', async () => {
    for (let n = 0; n < 5; n += 1) expect(await open().append(appendOf('a', 3))).toMatchObject({ kind: 'appended' });
    expect((await badRows()).bad).toEqual([]);
  });

  it('fits where replicas write to one account as fast as they can, and every append is taken once', async () => {
    const [one, other, third] = [open(), open(), open()];
    const before = await one.accountSize('busy');
    const writing = [one, other, third].flatMap((store) =>
      Array.from({ length: 12 }, async () => {
        for (let n = 0; n < 20; n += 1) {
          const result = await store.append(appendOf('busy', 2, n % 4 === 0 ? 'shared' : undefined));
          expect(result.kind).toBe('appended');
        }
      }),
    );
    await Promise.all(writing);
    expect((await one.accountSize('busy')) - before).toBe(3n * 12n * 20n * 2n);
    expect((await badRows()).bad).toEqual([]);
  });

  it('fits where a batch was overtaken by the next one of the same store', async () => {
    const store = open();
    await store.append(appendOf('a'));
    // Who holds the blob's place keeps the first batch from the head; the second one has no blob and goes past it.
    const hash = Buffer.alloc(32, 3);
    const holder = await pool.connect();
    await holder.query('begin');
    await holder.query("insert into blob (hash, bytes) values ($1, 'x')", [hash]);
    const first = store.append({
      ...appendOf('a', 4),
      blobs: [{ hash: hash.toString('hex'), bytes: Buffer.from('x') }],
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    const second = store.append(appendOf('a', 3));
    await new Promise((resolve) => setTimeout(resolve, 50));
    await holder.query('rollback');
    holder.release();
    expect([(await first).kind, (await second).kind]).toEqual(['appended', 'appended']);
    expect((await badRows()).bad).toEqual([]);
  });

  it('fits where one of a batch lost, and where one could not be stored', async () => {
    const store = open();
    await store.append(appendOf('a', 1, 'taken'));
    const losing = {
      ...appendOf('a'),
      writes: [{ ...(appendOf('a').writes[0] ?? never()), stream: 'taken', expectedVersion: 0 }],
    };
    const poison = appendOf('a', 1, `long/${'x'.repeat(900)}${randomUUID()}`);
    const results = await Promise.allSettled([
      ...Array.from({ length: 20 }, () => store.append(appendOf('a', 2))),
      store.append(losing),
      store.append(poison),
      ...Array.from({ length: 20 }, () => store.append(appendOf('b', 2))),
    ]);
    expect(
      results.filter((r) => r.status === 'fulfilled' && r.value.kind === 'appended').length,
    ).toBeGreaterThanOrEqual(40);
    expect(results[20]).toMatchObject({ status: 'fulfilled', value: { kind: 'conflict' } });
    expect((await badRows()).bad).toEqual([]);
  });

  it('fits where the database went back to an older copy of itself under a running store', async () => {
    const store = open();
    for (let n = 0; n < 5; n += 1) await store.append(appendOf('back'));
    await pool.query(`begin;
      set local session_replication_role = 'replica';
      delete from event where account = 'back' and account_position >= 3;
      update account_head set size = 3 where account = 'back';
      update head set position = (select max(position) from event);
      commit`);
    const results = await Promise.all(Array.from({ length: 8 }, () => store.append(appendOf('back', 2))));
    expect(results.map(({ kind }) => kind)).toEqual(results.map(() => 'appended'));
    expect(await store.accountSize('back')).toBe(19n);
    expect((await badRows()).bad).toEqual([]);
  });

  it('is not there for a store without a key', async () => {
    const store = postgresEventStore({ connectionString: database.url });
    stores.push(store);
    await store.append(appendOf('untagged'));
    const { rows } = await pool.query<Row>("select tag from event where account = 'untagged'");
    expect(rows).toEqual([{ tag: null }]);
  });
});

const never = (): never => {
  throw new Error('an append without a write');
};
