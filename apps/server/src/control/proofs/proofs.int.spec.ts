import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import { rowTagKey } from '#proof';
import { createLedgerDatabase, type TestDatabase } from '../../../../../test/support/test-postgres.js';
import { SealerRounds } from '../../worker/sealer-round.js';
import { LogKeys } from './log-keys.js';
import { ProofsController } from './proofs.controller.js';

const rootSecret = randomBytes(32);
const tagKey = rowTagKey(rootSecret);
let database: TestDatabase;
let pool: ReturnType<typeof createPool>;
let sql: Sql;
let store: EventStore;
let proofs: ProofsController;

const tamper = (statement: string): Promise<void> =>
  sql.transaction(async (inside) => {
    await inside.query("set local session_replication_role = 'replica'");
    await inside.query(statement);
  });

const proofOf = (position: string, size: bigint | null = null) => proofs.proof('a', position, { size });

beforeEach(async () => {
  database = await createLedgerDatabase();
  pool = createPool({ connectionString: database.url });
  sql = sqlOver(pool);
  store = postgresEventStore({ connectionString: database.url, tagKey });
  const keys = new LogKeys({ store, sql, rootSecret });
  await keys.start();
  const events = Array.from({ length: 300 }, (_, n) => ({ type: 'plugin.tried' as const, data: { n } }));
  await store.append({ account: 'a', writes: [{ stream: 's', expectedVersion: 0, events }] });
  const rounds = new SealerRounds({ sql, keys, tagKey, batch: 1000, sealMs: 0, now: () => new Date() });
  await rounds.run({ outside: new Map(), retry: false, line: 'not-yet' });
  proofs = new ProofsController(store, sql);
}, 60_000);

afterEach(async () => {
  await store.close();
  await pool.end();
  await database.drop();
});

describe('a proof over REST', () => {
  it('is given for an event that was purged, without its bytes', async () => {
    const before = await proofOf('7');
    await tamper("delete from event where account = 'a' and account_position = 7");
    expect(await proofOf('7')).toEqual({ ...before, leafBytes: null });
  });

  it.each([
    [
      'a leaf in its tile',
      "update tile set hashes = sha256('x') || substr(hashes, 33) where account = 'a' and level = 0 and idx = 0",
    ],
    ['a tile on its way', "update tile set hashes = sha256('x') where account = 'a' and level = 1"],
    [
      'the bytes of the event',
      "update event set bytes = bytes || '\\x20' where account = 'a' and account_position = 0",
    ],
    ['a tile, by removing it', "delete from tile where account = 'a' and level = 0 and idx = 1"],
  ])('is not given when somebody changed %s', async (_what, statement) => {
    expect(await proofOf('0')).toMatchObject({ size: '300' });
    await tamper(statement);
    await expect(proofOf('0')).rejects.toMatchObject({ status: 500, code: 'tree_changed' });
  });

  it('is not given yet for an event that is not sealed', async () => {
    const writes = [{ stream: 's', expectedVersion: 300, events: [{ type: 'plugin.tried' as const, data: {} }] }];
    await store.append({ account: 'a', writes });
    await expect(proofOf('300')).rejects.toMatchObject({ status: 404, code: 'not_sealed' });
    await expect(proofOf('301')).rejects.toMatchObject({ status: 404, code: 'unknown_event' });
  });
});
