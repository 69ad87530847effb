import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createPool, LogUnavailable, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import { memorySealing, type Sealing } from '#sealing';
import { createLedgerDatabase, type TestDatabase } from '../../../test/support/test-postgres.js';
import { searchInvocations, type InvocationQuery } from './invocation-search.js';
import type { Projection } from './projection.js';
import { dropRetired, handleEvents, openReadModels, readModelStatus, rebuildReadModel } from './read-models.js';
import { openReading, ReadModelMissing } from './reading.js';
import { record } from './record.js';
import { catchUp, writeInvocation } from './test-record.js';

let database: TestDatabase;
let pool: ReturnType<typeof createPool>;
let sql: Sql;
let store: EventStore;
let sealing: Sealing;

beforeEach(async () => {
  database = await createLedgerDatabase();
  pool = createPool({ connectionString: database.url });
  sql = sqlOver(pool);
  store = postgresEventStore({ connectionString: database.url });
  sealing = memorySealing();
});

afterEach(async () => {
  await store.close();
  await pool.end();
  await database.drop();
});

const all: InvocationQuery = { account: 'a', clock: 'occurred', order: 'oldest', limit: 100 };

const ids = async (): Promise<readonly string[]> => {
  const { table } = await openReading(sql, store, record, 'a');
  return (await searchInvocations(sql, table, all)).items.map(({ invocationId }) => invocationId);
};

describe('read models', () => {
  it('hold the same whatever the batches were', async () => {
    for (let n = 0; n < 5; n += 1) {
      await writeInvocation(store, sealing, {
        id: `i${String(n)}`,
        turnId: 't',
        sessionId: 's',
        handlers: [
          {
            pluginId: 'p',
            outcome: 'rewrote',
            output: 'x',
            hostCalls: [{ callId: `c${String(n)}`, member: 'fetch', answer: 1 }],
          },
        ],
        outcome: 'rewritten',
        value: 'v',
      });
    }
    await catchUp(sql, store, [record], 1000);
    const dump = async (): Promise<unknown> => {
      const { table } = await openReading(sql, store, record, 'a');
      const rows = (name: string): Promise<unknown> => sql.query(`select * from ${table(name)} order by 1, 2, 3`);
      return {
        i: await rows('invocation'),
        h: await rows('handler_run'),
        t: await rows('turn'),
        u: await rows('usage_day'),
        c: await rows('host_call'),
      };
    };
    const whole = await dump();
    for (const batch of [1, 2, 3, 7]) {
      await rebuildReadModel(sql, record);
      await catchUp(sql, store, [record], batch);
      expect(await dump()).toEqual(whole);
      await dropRetired(sql, -1000);
    }
  });

  it('take no event twice', async () => {
    await writeInvocation(store, sealing, { id: 'i1', handlers: [{ pluginId: 'p' }] });
    const [generation] = await openReadModels(sql, [record]);
    if (generation === undefined) throw new Error('no generation');
    const events = await store.readAll(-1n, 100);
    for (let n = 0; n < 2; n += 1) await sql.transaction((tx) => handleEvents(record, generation, events, tx, store));
    const { table } = await openReading(sql, store, record, 'a');
    expect((await sql.query(`select runs from ${table('usage_day')}`))[0]?.runs).toBe('1');
  });

  it('are rebuilt beside the live tables, which are read until the new ones hold as much', async () => {
    for (const id of ['i1', 'i2']) await writeInvocation(store, sealing, { id });
    await catchUp(sql, store, [record]);
    const building = await rebuildReadModel(sql, record);
    const events = await store.readAll(-1n, 100);
    const half = events.slice(0, 2);
    const first = await sql.transaction((tx) => handleEvents(record, building, half, tx, store));
    expect(first.state).toBe('building');
    expect(await ids()).toEqual(['i1', 'i2']);
    const second = await sql.transaction((tx) => handleEvents(record, building, events, tx, store));
    expect(second.state).toBe('live');
    expect(await ids()).toEqual(['i1', 'i2']);
    expect((await readModelStatus(sql)).map(({ generation, state }) => ({ generation, state }))).toEqual([
      { generation: building.generation, state: 'live' },
    ]);
  });

  it('stop when other tables took their place, and the old ones are dropped', async () => {
    await writeInvocation(store, sealing, { id: 'i1' });
    const [old] = await openReadModels(sql, [record]);
    if (old === undefined) throw new Error('no generation');
    await catchUp(sql, store, [record]);
    await rebuildReadModel(sql, record);
    await catchUp(sql, store, [record]);
    const events = await store.readAll(-1n, 100);
    expect((await sql.transaction((tx) => handleEvents(record, old, events, tx, store))).state).toBe('retired');
    await dropRetired(sql, -1000);
    const left = await sql.query(`select to_regclass($1) as found`, [`rm${String(old.generation)}_invocation`]);
    expect(left[0]?.found).toBeNull();
  });

  it('serve the old version while the new one is built, where its queries can read it, and only there', async () => {
    await writeInvocation(store, sealing, { id: 'i1' });
    await catchUp(sql, store, [record]);
    const next: Projection = { ...record, version: record.version + 1, reads: [record.version] };
    const unreadable: Projection = { ...record, version: record.version + 2 };
    const [building] = await openReadModels(sql, [next]);
    expect(building?.state).toBe('building');
    const { table } = await openReading(sql, store, next, 'a');
    expect((await searchInvocations(sql, table, all)).items).toHaveLength(1);
    await expect(openReading(sql, store, unreadable, 'a')).rejects.toThrow(ReadModelMissing);
  });

  it('set an event aside that they cannot take, say so, and go on', async () => {
    for (const id of ['i1', 'i2', 'i3']) await writeInvocation(store, sealing, { id });
    const poisoned: Projection = {
      ...record,
      apply: async (events, target) => {
        if (events.some(({ event }) => event.invocationId === 'i2' && event.type === 'invocation.opened')) {
          await target.sql.query(`select 1/0`);
        }
        await record.apply(events, target);
      },
    };
    const handled = await catchUp(sql, store, [poisoned]);
    expect(handled.flatMap(({ setAside }) => setAside).map(({ fault }) => fault)).toEqual(['error 22012']);
    expect(await ids()).toEqual(['i1', 'i3']);
    expect((await readModelStatus(sql))[0]?.setAside).toBe(1);
  });

  it('blame no event for a fault of the database', async () => {
    await writeInvocation(store, sealing, { id: 'i1' });
    const failing: Projection = {
      ...record,
      apply: () => Promise.reject(Object.assign(new Error('lost'), { code: '57P01' })),
    };
    await expect(catchUp(sql, store, [failing])).rejects.toThrow(LogUnavailable);
    expect((await readModelStatus(sql))[0]).toMatchObject({ setAside: 0, position: -1n });
  });

  it('are opened once by replicas that start together', async () => {
    const opened = await Promise.all([1, 2, 3, 4].map(() => openReadModels(sql, [record])));
    expect(new Set(opened.flat().map(({ generation }) => generation)).size).toBe(1);
  });

  it('say up to which position of an account they are complete', async () => {
    await writeInvocation(store, sealing, { id: 'i1' });
    await writeInvocation(store, sealing, { account: 'b', id: 'j1' });
    await catchUp(sql, store, [record]);
    expect((await openReading(sql, store, record, 'a')).completeUpTo).toBe(1n);
    expect((await openReading(sql, store, record, 'nobody')).completeUpTo).toBeNull();
    await writeInvocation(store, sealing, { id: 'i2' });
    await writeInvocation(store, sealing, { account: 'b', id: 'j2' });
    expect((await openReading(sql, store, record, 'a')).completeUpTo).toBe(1n);
    expect((await openReading(sql, store, record, 'b')).completeUpTo).toBe(1n);
    await catchUp(sql, store, [record]);
    expect((await openReading(sql, store, record, 'a')).completeUpTo).toBe(3n);
  });

  it('hold what was in the log when a read came', async () => {
    await openReadModels(sql, [record]);
    await writeInvocation(store, sealing, { id: 'i1' });
    const reading = openReading(sql, store, record, 'a');
    await catchUp(sql, store, [record]);
    expect((await reading).completeUpTo).toBe(1n);
  });
});
