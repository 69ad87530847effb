import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { memoryEventStore, postgresEventStore, type EventStore } from '#event-store';
import { memorySealing } from '#sealing';
import { createLedgerDatabase, type TestDatabase } from '../../../../test/support/test-postgres.js';
import { dyingAt, lifecycleTypes, lifecycleWorld, recordOf } from './testing/lifecycle-world.js';

const hooks = async (store: EventStore, hook: string) =>
  (await recordOf(store)).filter((event) => event.type === 'invocation.closed' && event.hook === hook);

const countOf = async (store: EventStore, type: string): Promise<number> =>
  (await recordOf(store)).filter((event) => event.type === type).length;

describe('a clear', () => {
  it('is started, its hook runs, it is cleared, its other hook runs, in this order (MW-92)', async () => {
    const store = memoryEventStore();
    const world = lifecycleWorld(store, memorySealing());
    const started = await world.startClear('s', 'c');
    expect(started).toMatchObject({ sessionId: 's', clearId: 'c', state: 'open' });
    const cleared = await world.completeClear('s', 'c');
    expect(cleared).toMatchObject({ state: 'cleared', deletedMessageCount: 12, deletedSubagentCount: 1 });
    const events = await recordOf(store);
    expect(events.map(({ type, hook }) => (type.startsWith('invocation.') ? `${type} ${hook ?? ''}` : type))).toEqual([
      'session.clear_started',
      'invocation.opened sessionClearing',
      'invocation.closed sessionClearing',
      'session.cleared',
      'invocation.opened sessionClearCompleted',
      'invocation.closed sessionClearCompleted',
    ]);
    const [clearing, , , , completed] = events.filter(({ type }) => type !== 'session.clear_started');
    expect(clearing).toMatchObject({ operationId: 'c', sessionId: 's', data: { firedFor: events[0]?.stream } });
    expect(completed?.invocationId).toBe(cleared.invocationId);
  });

  it('that is reported again gives the first answer, and no hook runs again', async () => {
    const store = memoryEventStore();
    const world = lifecycleWorld(store, memorySealing());
    const started = await world.startClear('s', 'c');
    expect(await world.startClear('s', 'c')).toEqual(started);
    const cleared = await world.completeClear('s', 'c', 12);
    expect(await world.completeClear('s', 'c', 99)).toEqual(cleared);
    expect(await world.startClear('s', 'c')).toEqual({ ...started, state: 'cleared' });
    expect(await lifecycleTypes(store)).toEqual(['session.clear_started', 'session.cleared']);
    expect([await hooks(store, 'sessionClearing'), await hooks(store, 'sessionClearCompleted')]).toMatchObject([
      [{}],
      [{}],
    ]);
  });

  it('of the same id in another session is another clear', async () => {
    const store = memoryEventStore();
    const world = lifecycleWorld(store, memorySealing());
    for (const session of ['s', 't']) {
      await world.startClear(session, 'c');
      await world.completeClear(session, 'c');
    }
    expect(await countOf(store, 'session.cleared')).toBe(2);
  });

  it('that was never started here is refused without its agent: nothing says whose it was', async () => {
    const world = lifecycleWorld(memoryEventStore(), memorySealing());
    await expect(world.completeClear('s', 'c')).rejects.toMatchObject({ status: 404, code: 'unknown_clear' });
  });
});

describe('a process that dies at any of its writes', () => {
  const places = [1, 2, 3, 4].flatMap((at) => (['before', 'after'] as const).map((when) => ({ at, when })));

  it.each(places)('leaves one session.cleared, whoever goes on: $when write $at', async ({ at, when }) => {
    let clock = Date.parse('2026-11-30T10:00:00.000Z');
    const store = memoryEventStore({ now: () => new Date(clock) });
    const sealing = memorySealing();
    const doomed = dyingAt(store, at, when);
    const first = lifecycleWorld(doomed.store, sealing);
    const all = async (world: typeof first): Promise<void> => {
      await world.startClear('s', 'c');
      await world.completeClear('s', 'c');
    };
    await expect(all(first)).rejects.toThrow('this process is dead');
    expect(doomed.died()).toBe(true);
    // Its claims lapse.
    clock += 60_000;
    await all(lifecycleWorld(store, sealing));
    expect(await lifecycleTypes(store)).toEqual(['session.clear_started', 'session.cleared']);
    // An attempt whose opening was committed is on record, and so is that it was tried again.
    const begun = (at % 2 === 1) === (when === 'after') ? 2 : 1;
    const hit = at <= 2 ? 'sessionClearing' : 'sessionClearCompleted';
    for (const hook of ['sessionClearing', 'sessionClearCompleted']) {
      const runs = (await recordOf(store)).filter(({ type, hook: of }) => type === 'invocation.opened' && of === hook);
      expect(await hooks(store, hook)).toHaveLength(1);
      expect(runs).toHaveLength(hook === hit ? begun : 1);
      const [one, two] = runs;
      if (two !== undefined)
        expect(two).toMatchObject({ attempt: 2, data: { previousInvocationId: one?.invocationId } });
    }
  });
});

describe('clients that race', () => {
  let database: TestDatabase;
  const replicas: EventStore[] = [];
  beforeAll(async () => {
    database = await createLedgerDatabase();
    for (let n = 0; n < 3; n += 1) replicas.push(postgresEventStore({ connectionString: database.url }));
  }, 60_000);
  afterAll(async () => {
    for (const store of replicas) await store.close();
    await database.drop();
  });

  it('clear a session once: 50 clients on three replicas over one Postgres', async () => {
    const sealing = memorySealing();
    const [store, second, third] = replicas as [EventStore, EventStore, EventStore];
    const fifty = Array.from({ length: 50 }, (_, n) => n);
    const client = (n: number) => lifecycleWorld([store, second, third][n % 3] ?? store, sealing);
    const started = await Promise.all(fifty.map((n) => client(n).startClear('racing', 'c')));
    expect(new Set(started.map((answer) => answer.invocationId)).size).toBe(1);
    const cleared = await Promise.all(fifty.map((n) => client(n).completeClear('racing', 'c', n)));
    expect(new Set(cleared.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(await lifecycleTypes(store)).toEqual(['session.clear_started', 'session.cleared']);
    expect(await hooks(store, 'sessionClearing')).toHaveLength(1);
    expect(await hooks(store, 'sessionClearCompleted')).toHaveLength(1);
  }, 60_000);
});
