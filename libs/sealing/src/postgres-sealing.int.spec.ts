import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { EventStore, Sql } from '#event-store';
import { createPool, postgresEventStore, sqlOver } from '#event-store';
import type { Sealed } from '#record';
import type { TestDatabase } from '../../../test/support/test-postgres.js';
import { createLedgerDatabase } from '../../../test/support/test-postgres.js';
import { sealingContract } from './contract.js';
import { openRootSecret, putMasterInForce, readMasterInForce, readRootSecret, rewrapDataKeys } from './data-keys.js';
import type { MasterKey } from './master-key.js';
import { masterKeyFrom, MasterKeyProblem } from './master-key.js';
import { masterKeysOf } from './master-keys.js';
import { postgresSealing } from './postgres-sealing.js';
import type { Envelope, KeyErasure, Scope, Sealing } from './sealing.js';

interface Bench {
  readonly database: TestDatabase;
  readonly sql: Sql;
  readonly store: EventStore;
  close(): Promise<void>;
}

const openBench = async (): Promise<Bench> => {
  const database = await createLedgerDatabase();
  const pool = createPool({ connectionString: database.url });
  const store = postgresEventStore({ connectionString: database.url });
  return {
    database,
    sql: sqlOver(pool),
    store,
    close: async () => {
      await store.close();
      await pool.end();
      await database.drop();
    },
  };
};

const newMaster = (): MasterKey => masterKeyFrom(randomBytes(32), 'environment');

/** The append that carries an envelope's blobs. */
const storeBlobs = async (store: EventStore, blobs: ReturnType<Envelope['blobs']>): Promise<void> => {
  if (blobs.length === 0) return;
  const events = [{ type: 'plugin.tried' as const, data: {} }];
  await store.append({ account: 'a', writes: [{ stream: randomUUID(), expectedVersion: 0, events }], blobs });
};

sealingContract('Postgres', async () => {
  const bench = await openBench();
  const { sql, store } = bench;
  const sealing = postgresSealing({ sql, store, masterKeys: masterKeysOf(newMaster()) });
  return { sealing, store: (blobs) => storeBlobs(store, blobs), close: () => bench.close() };
});

describe('data keys in Postgres', () => {
  const masterKey = newMaster();
  const scope: Scope = { kind: 'session', id: 's' };
  let bench: Bench;

  beforeAll(async () => {
    bench = await openBench();
  });

  afterAll(() => bench.close());

  const replica = (): Sealing & KeyErasure => postgresSealing({ ...bench, masterKeys: masterKeysOf(masterKey) });
  const sealIn = async (sealing: Sealing, account: string, value: string, at: Scope = scope): Promise<Sealed> => {
    const envelope = await sealing.envelope(account, at);
    const sealed = envelope.seal(value);
    await storeBlobs(bench.store, envelope.blobs());
    return sealed;
  };
  const keyIdOf = (sealed: Sealed): string => ('$blob' in sealed ? sealed.k : sealed.$sealed.k);

  it('are agreed on by replicas that need a new one at the same moment', async () => {
    const account = randomUUID();
    const sealed = await Promise.all(Array.from({ length: 12 }, () => sealIn(replica(), account, 'x')));
    expect(new Set(sealed.map(keyIdOf)).size).toBe(1);
    const found = await bench.sql.query('select id from data_key where account = $1', [account]);
    expect(found).toEqual(sealed.slice(0, 1).map((each) => ({ id: keyIdOf(each) })));
  });

  it('are in the table before they are used, and open on every replica', async () => {
    const account = randomUUID();
    const envelope = await replica().envelope(account, scope);
    const [row] = await bench.sql.query<{ id: string }>('select id from data_key where account = $1', [account]);
    const sealed = envelope.seal('x'.repeat(3_000));
    expect(keyIdOf(sealed)).toBe(row?.id);
    await storeBlobs(bench.store, envelope.blobs());
    expect(await replica().open(account, sealed)).toEqual({ kind: 'open', value: 'x'.repeat(3_000) });
  });

  it('never stand in the table as they are, and people never by name', async () => {
    const account = randomUUID();
    await sealIn(replica(), account, 'x', { kind: 'subject', id: 'alice@example.com' });
    const rows = await bench.sql.query<{ scope: string; wrapped: Buffer }>(
      `select scope, wrapped from data_key where account = $1 and scope like 'subject:%'`,
      [account],
    );
    expect(rows).toHaveLength(1);
    expect(rows[0]?.scope).toMatch(/^subject:[\da-f]{64}$/u);
    expect(rows[0]?.wrapped).toHaveLength(12 + 32 + 16);
  });

  it('name the blobs they sealed', async () => {
    const account = randomUUID();
    const sealed = await sealIn(replica(), account, 'y'.repeat(3_000));
    if (!('$blob' in sealed)) throw new Error('not a blob');
    const [row] = await bench.sql.query('select key_id from blob where hash = $1', [Buffer.from(sealed.$blob, 'hex')]);
    expect(row).toEqual({ key_id: sealed.k });
  });

  it('that were destroyed by one replica are gone on another that never met them', async () => {
    const account = randomUUID();
    const one = replica();
    const sealed = await sealIn(one, account, 'secret');
    expect(await one.erase(account, scope)).toEqual([keyIdOf(sealed)]);
    expect(await replica().open(account, sealed)).toEqual({ kind: 'erased', size: 8 });
  });

  it('cannot be moved to another scope or account in the table', async () => {
    const account = randomUUID();
    const sealed = await sealIn(replica(), account, 'secret');
    await bench.sql.query('update data_key set account = $2 where id = $1', [keyIdOf(sealed), 'thief']);
    await expect(replica().open('thief', sealed)).rejects.toThrow('its row was changed');
    await expect(rewrapDataKeys(bench.sql, masterKey, masterKey)).rejects.toThrow(keyIdOf(sealed));
    await bench.sql.query('update data_key set account = $2 where id = $1', [keyIdOf(sealed), account]);
    expect(await replica().open(account, sealed)).toEqual({ kind: 'open', value: 'secret' });
  });

  it('cannot be used without their master key, and the message names it without giving it away', async () => {
    const account = randomUUID();
    const sealed = await sealIn(replica(), account, 'secret');
    const stranger = postgresSealing({ ...bench, masterKeys: masterKeysOf(newMaster()) });
    await expect(stranger.open(account, sealed)).rejects.toThrow(MasterKeyProblem);
    await expect(stranger.open(account, sealed)).rejects.toThrow(masterKey.id);
  });

  it('go over to a new master key, while both work, without a change to what they sealed', async () => {
    const account = randomUUID();
    const sealed = await sealIn(replica(), account, 'secret');
    const next = newMaster();
    const knowsBoth = postgresSealing({ ...bench, masterKeys: masterKeysOf(masterKey, next) });
    expect(await putMasterInForce(bench.sql, masterKey, next)).toBe(true);
    // A replica that began with the old key makes new keys under the new one from this moment on.
    const sealedDuring = await sealIn(knowsBoth, account, 'during', { kind: 'session', id: 'new' });
    expect(await knowsBoth.open(account, sealed)).toEqual({ kind: 'open', value: 'secret' });

    expect(await rewrapDataKeys(bench.sql, masterKey, next)).toBeGreaterThan(0);
    expect(await rewrapDataKeys(bench.sql, masterKey, next)).toBe(0);
    const { id, former, keys } = await readMasterInForce(bench.sql);
    expect([id, former, [...keys.keys()]]).toEqual([next.id, masterKey.id, [next.id]]);
    const after = postgresSealing({ ...bench, masterKeys: masterKeysOf(next) });
    expect(await after.open(account, sealed)).toEqual({ kind: 'open', value: 'secret' });
    expect(await after.open(account, sealedDuring)).toEqual({ kind: 'open', value: 'during' });
    await expect(replica().open(account, sealed)).rejects.toThrow(MasterKeyProblem);
    await putMasterInForce(bench.sql, next, masterKey);
    await rewrapDataKeys(bench.sql, next, masterKey);
  });

  it('are under the key in force, however many are being made while it changes', async () => {
    const next = newMaster();
    const both = masterKeysOf(masterKey, next);
    const account = randomUUID();
    const making = Array.from({ length: 60 }, async (_, n) => {
      const sealing = postgresSealing({ ...bench, masterKeys: both });
      return sealIn(sealing, account, 'x', { kind: 'session', id: `s-${String(n % 30)}` });
    });
    await putMasterInForce(bench.sql, masterKey, next);
    await rewrapDataKeys(bench.sql, masterKey, next);
    await Promise.all(making);
    expect([...(await readMasterInForce(bench.sql)).keys.keys()]).toEqual([next.id]);
    await putMasterInForce(bench.sql, next, masterKey);
    await rewrapDataKeys(bench.sql, next, masterKey);
  });
});

describe('the root secret', () => {
  let bench: Bench;
  const master = newMaster();

  beforeAll(async () => {
    bench = await openBench();
  });

  afterAll(() => bench.close());

  it('is one for all replicas, and outlives its master key', async () => {
    expect(await readRootSecret(bench.sql, masterKeysOf(master))).toBeNull();
    const opened = await Promise.all(Array.from({ length: 8 }, () => openRootSecret(bench.sql, masterKeysOf(master))));
    const root = opened[0] ?? Buffer.alloc(0);
    expect(root).toHaveLength(32);
    expect(new Set(opened.map((bytes) => bytes.toString('hex'))).size).toBe(1);
    const next = newMaster();
    await putMasterInForce(bench.sql, master, next);
    await rewrapDataKeys(bench.sql, master, next);
    expect(await openRootSecret(bench.sql, masterKeysOf(next))).toEqual(root);
    await expect(openRootSecret(bench.sql, masterKeysOf(master))).rejects.toThrow(next.id);
    await putMasterInForce(bench.sql, next, master);
    await rewrapDataKeys(bench.sql, next, master);
  });

  it('is never made where the database is under a key that was not given', async () => {
    await bench.sql.query("delete from data_key where scope = 'root'");
    await expect(openRootSecret(bench.sql, masterKeysOf(newMaster()))).rejects.toThrow(MasterKeyProblem);
    expect(await bench.sql.query("select 1 from data_key where scope = 'root'")).toEqual([]);
  });

  it('cannot be reached by an erasure', async () => {
    await openRootSecret(bench.sql, masterKeysOf(master));
    const sealing = postgresSealing({ ...bench, masterKeys: masterKeysOf(master) });
    await sealing.erase('system', { kind: 'account' });
    await sealing.erase('system', { kind: 'session', id: 'root' });
    expect(await readRootSecret(bench.sql, masterKeysOf(master))).toHaveLength(32);
  });
});
