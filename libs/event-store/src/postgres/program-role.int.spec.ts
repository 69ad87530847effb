import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { migrate } from '#migrations';
import type { TestDatabase } from '../../../../test/support/test-postgres.js';
import { createTestDatabase } from '../../../../test/support/test-postgres.js';
import type { EventStore } from '../event-store.js';
import { createPool } from './pool.js';
import { postgresEventStore } from './postgres-store.js';

let database: TestDatabase;
let url: string;
const stores: EventStore[] = [];

const open = (): EventStore => {
  const store = postgresEventStore({ connectionString: url });
  stores.push(store);
  return store;
};

beforeAll(async () => {
  database = await createTestDatabase();
  const role = `program_${String(process.pid)}_${String(Date.now())}`;
  const pool = createPool({ connectionString: database.url, max: 1 });
  await pool.query(`create role ${role} login password 'program'`);
  await pool.end();
  await migrate(database.url, { appRole: role });
  const own = new URL(database.url);
  own.username = role;
  own.password = 'program';
  url = own.href;
});

afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await database.drop();
});

const append = (store: EventStore, stream: string, expectedVersion: number | 'any') =>
  store.append({
    account: 'acme',
    writes: [{ stream, expectedVersion, events: [{ type: 'account.resumed', data: {} }] }],
  });

describe('a log used by the role that the program has', () => {
  it('takes events on new streams, on known ones, and on streams that another replica wrote', async () => {
    const [one, other] = [open(), open()];
    expect(await append(one, 'a', 0)).toMatchObject({ kind: 'appended' });
    expect(await append(one, 'a', 1)).toMatchObject({ kind: 'appended' });
    expect(await append(other, 'a', 'any')).toMatchObject({ kind: 'appended' });
    expect(await append(one, 'a', 'any')).toMatchObject({ kind: 'appended' });
    expect((await one.readStream('acme', 'a')).map(({ event }) => event.streamVersion)).toEqual([1, 2, 3, 4]);
  });

  it('runs claimed commands to their end', async () => {
    const store = open();
    const request = { account: 'acme', key: 'k', requestDigest: 'd', invocationId: null, leaseMs: 10_000 };
    const claim = await store.claim(request);
    if (claim.kind !== 'claimed') throw new Error('not claimed');
    expect(await store.renewClaim('acme', 'k', claim.token, 10_000)).toBe(true);
    await store.releaseClaim('acme', 'k', claim.token);
    expect(await store.claim(request)).toMatchObject({ kind: 'claimed' });
  });

  it.each([
    "update event set type = 'x'",
    'delete from event',
    'truncate event',
    'insert into event select * from event',
    'update head set position = 0',
    'delete from stream',
    'update checkpoint set size = 0',
    'delete from checkpoint',
    'delete from tile',
    'truncate tile',
    'delete from tree',
    'delete from log_key',
    'delete from log_format',
  ])('cannot be changed by it: %s', async (statement) => {
    const pool = createPool({ connectionString: url, max: 1 });
    try {
      await expect(pool.query(statement)).rejects.toMatchObject({ code: '42501' });
    } finally {
      await pool.end();
    }
  });
});
