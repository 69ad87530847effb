import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { memoryEventStore, postgresEventStore, type EventStore } from '#event-store';
import { cronRunStream } from '#lifecycles';
import { memorySealing } from '#sealing';
import { eventFaults } from '../../../../test/support/event-faults.js';
import { createLedgerDatabase, type TestDatabase } from '../../../../test/support/test-postgres.js';
import { account, dyingAt, lifecycleTypes, lifecycleWorld, recordOf } from './testing/lifecycle-world.js';

const ten = '2026-11-30T10:00:00.000Z';
const eleven = '2026-11-30T11:00:00.000Z';

const fired = async (store: EventStore, hook: string) =>
  (await recordOf(store)).filter((event) => event.type === 'invocation.closed' && event.hook === hook);

const fresh = () => {
  const store = memoryEventStore();
  const sealing = memorySealing();
  return { store, sealing, world: lifecycleWorld(store, sealing) };
};

describe('a slot', () => {
  it('runs, and the hook, the run and its lease are one commit', async () => {
    const { store, world } = fresh();
    const answer = await world.slot('j', ten);
    expect(answer).toMatchObject({ jobId: 'j', slotAt: ten, decision: 'run', prompt: 'report', cancellation: null });
    const events = await recordOf(store);
    expect(events.map(({ type }) => type)).toEqual([
      'invocation.opened',
      'invocation.closed',
      'cron.run_started',
      'cron.run_leased',
    ]);
    expect(events[0]).toMatchObject({
      invocationId: answer.invocationId,
      operationId: answer.runId,
      target: 'j',
      data: { firedFor: cronRunStream(answer.runId) },
    });
    expect(events[2]).toMatchObject({ stream: 'cron/j', data: { runId: answer.runId, firedBy: answer.invocationId } });
  });

  it('that comes again gives the same answer, and no hook fires (MW-94)', async () => {
    const { store, world } = fresh();
    const answer = await world.slot('j', ten);
    expect(await world.slot('j', '2026-11-30T12:00:00+02:00')).toEqual(answer);
    expect(await world.slot('j', '2026-11-30T10:00:00.000917Z')).toEqual(answer);
    await world.complete(answer.runId);
    expect(await world.slot('j', ten)).toEqual(answer);
    expect(await fired(store, 'cronJobFiring')).toHaveLength(1);
  });

  it('whose job has an open run is overlapped, fires no hook, and stays so (MW-94)', async () => {
    const { store, world } = fresh();
    const running = await world.slot('j', ten);
    const overlapped = await world.slot('j', eleven);
    expect(overlapped).toMatchObject({ decision: 'overlapped', prompt: null, invocationId: null });
    await world.complete(running.runId);
    expect(await world.slot('j', eleven)).toEqual(overlapped);
    expect(await fired(store, 'cronJobFiring')).toHaveLength(1);
    expect(await lifecycleTypes(store)).toContain('cron.slot_overlapped');
    expect(await world.slot('other', eleven)).toMatchObject({ decision: 'run' });
  });

  it('finds its way past a run whose lease has lapsed, without a worker', async () => {
    const { store, world } = fresh();
    const silent = await world.slot('j', ten, 1);
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    expect(await world.slot('j', eleven)).toMatchObject({ decision: 'run' });
    const types = await lifecycleTypes(store);
    expect(types.filter((type) => type === 'cron.run_lost')).toHaveLength(1);
    await expect(world.complete(silent.runId)).rejects.toMatchObject({ status: 409, code: 'run_not_open' });
  });
});

describe('a run', () => {
  it('is closed, then told of, and what comes again is told what came of it (MW-96)', async () => {
    const { store, world } = fresh();
    const { runId } = await world.slot('j', ten);
    const done = await world.complete(runId);
    expect(done).toMatchObject({ runId, state: 'closed', status: 'Succeeded', notified: true });
    expect(await world.complete(runId, 'Failed')).toEqual(done);
    const events = await recordOf(store);
    expect(events.slice(4).map(({ type }) => type)).toEqual([
      'cron.run_closed',
      'invocation.opened',
      'invocation.closed',
      'cron.run_notified',
    ]);
    expect(events[5]).toMatchObject({ hook: 'cronJobCompleted', sessionId: 'mission', operationId: runId });
  });

  it('that never was is 404, and one that never ran is told of to nobody (MW-95)', async () => {
    const { store, world } = fresh();
    await expect(world.complete('none')).rejects.toMatchObject({ status: 404, code: 'unknown_run' });
    await world.slot('j', ten);
    const { runId } = await world.slot('j', eleven);
    await expect(world.complete(runId)).rejects.toMatchObject({ status: 409, code: 'run_not_open' });
    await expect(world.heartbeat(runId)).rejects.toMatchObject({ status: 409 });
    expect(await fired(store, 'cronJobCompleted')).toEqual([]);
  });

  it('lives on by its heartbeats, and knows its session', async () => {
    const { world } = fresh();
    const { runId } = await world.slot('j', ten);
    expect(await world.session(runId, 'mission')).toMatchObject({ state: 'open', sessionId: 'mission' });
    expect(await world.heartbeat(runId)).toMatchObject({ state: 'open', sessionId: 'mission' });
  });

  it('is found at the end of its job’s stream, however long that is', async () => {
    const { store, world } = fresh();
    for (let n = 0; n < 300; n += 1) {
      const slotAt = new Date(Date.parse(ten) + n * 60_000).toISOString();
      const { runId, decision } = await world.slot('j', slotAt);
      expect(decision).toBe('run');
      await world.complete(runId);
    }
    let read = 0;
    const counting: EventStore = {
      ...store,
      readAccount: async (of, range) => {
        const found = await store.readAccount(of, range);
        read += range.stream === undefined ? 0 : found.length;
        return found;
      },
      readStream: async (of, stream, from) => {
        const found = await store.readStream(of, stream, from);
        if (stream.startsWith('cron')) read += found.length;
        return found;
      },
    };
    const late = lifecycleWorld(counting, memorySealing());
    expect(await late.slot('j', '2027-01-01T00:00:00.000Z')).toMatchObject({ decision: 'run' });
    expect(read).toBeLessThan(40);
  });
});

describe('what is past its retention', () => {
  /** The log after a purge: it still counts the events of a stream that it no longer has. */
  const purged = (store: EventStore, isGone: (stream: string) => boolean): EventStore => ({
    ...store,
    readAccount: async (of, range) => {
      const found = await store.readAccount(of, range);
      return found.filter(({ event }) => !isGone(event.stream));
    },
    readStream: async (of, stream) => (isGone(stream) ? [] : store.readStream(of, stream)),
  });

  it('is not done a second time: a slot and a clear of which nothing is left are gone', async () => {
    const { store, sealing, world } = fresh();
    const { runId } = await world.slot('j', ten);
    await world.startClear('s', 'c');
    const late = lifecycleWorld(
      purged(store, (stream) => !stream.startsWith('cron/')),
      sealing,
    );
    await expect(late.slot('j', ten)).rejects.toMatchObject({ status: 410, code: 'purged' });
    await expect(late.complete(runId)).rejects.toMatchObject({ status: 410 });
    await expect(late.completeClear('s', 'c')).rejects.toMatchObject({ status: 410 });
  });

  it('does not keep its job from running', async () => {
    const { store, sealing, world } = fresh();
    const { runId } = await world.slot('j', ten);
    await world.complete(runId);
    const late = lifecycleWorld(
      purged(store, (stream) => stream === 'cron/j'),
      sealing,
    );
    expect(await late.slot('j', eleven)).toMatchObject({ decision: 'run' });
  });
});

describe('everything that is written', () => {
  it('is described by the published schemas', async () => {
    const { store, world } = fresh();
    await world.startClear('s', 'c');
    await world.completeClear('s', 'c');
    const { runId } = await world.slot('j', ten, 1);
    await world.slot('j', eleven);
    await world.session(runId, 'mission');
    await world.complete(runId);
    const silent = await world.slot('k', ten, 1);
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    await world.slot('k', eleven);
    expect(silent.decision).toBe('run');
    const events = await recordOf(store);
    expect(new Set(events.map(({ type }) => type)).size).toBe(10);
    for (const event of events) expect([event.type, eventFaults(event)]).toEqual([event.type, []]);
  });
});

describe('a process that dies at any of its writes', () => {
  const places = [1, 2, 3].flatMap((at) => (['before', 'after'] as const).map((when) => ({ at, when })));

  it.each(places)('starts a slot once and tells of its run at most once: $when write $at', async ({ at, when }) => {
    let clock = Date.parse(ten);
    const store = memoryEventStore({ now: () => new Date(clock) });
    const sealing = memorySealing();
    const doomed = dyingAt(store, at, when);
    const all = async (world: ReturnType<typeof lifecycleWorld>) => {
      const { runId } = await world.slot('j', ten);
      return world.complete(runId);
    };
    await expect(all(lifecycleWorld(doomed.store, sealing))).rejects.toThrow('this process is dead');
    expect(doomed.died()).toBe(true);
    clock += 60_000;
    const next = lifecycleWorld(store, sealing);
    // Who would have told is dead; nobody waits for it longer than that is known.
    const lost = at === 2 ? when === 'after' : at === 3 && when === 'before';
    if (lost) await markLost(store);
    const done = await all(next);
    expect(done).toMatchObject({ state: 'closed', status: 'Succeeded', notified: !lost });
    const types = await lifecycleTypes(store);
    expect(types.filter((type) => type !== 'cron.run_notified')).toEqual([
      'cron.run_started',
      'cron.run_leased',
      'cron.run_closed',
    ]);
    const told = (await recordOf(store)).filter(
      ({ type, hook }) => type === 'invocation.opened' && hook === 'cronJobCompleted',
    );
    expect(told).toHaveLength(1);
    expect(types.includes('cron.run_notified')).toBe(!lost);
  });

  /** What recovery writes of a chain whose process is gone. */
  const markLost = async (store: EventStore): Promise<void> => {
    const open = (await recordOf(store)).filter(({ type }) => type === 'invocation.opened').at(-1);
    if (open === undefined) throw new Error('no invocation is open');
    const events = [{ type: 'invocation.lost', invocationId: open.invocationId ?? '', data: {} } as const];
    await store.append({ account, writes: [{ stream: open.stream, expectedVersion: 'any', events }] });
  };
});

describe('replicas that race', () => {
  let database: TestDatabase;
  const replicas: EventStore[] = [];
  beforeAll(async () => {
    database = await createLedgerDatabase();
    for (let n = 0; n < 20; n += 1) {
      replicas.push(postgresEventStore({ connectionString: database.url, readConnections: 2 }));
    }
  }, 60_000);
  afterAll(async () => {
    for (const store of replicas) await store.close();
    await database.drop();
  });

  const sealing = memorySealing();
  const worlds = (): readonly ReturnType<typeof lifecycleWorld>[] =>
    replicas.map((store) => lifecycleWorld(store, sealing));

  const one = (): EventStore => {
    const [first] = replicas;
    if (first === undefined) throw new Error('no replica was started');
    return first;
  };
  const ofJob = async (jobId: string, type: string): Promise<number> =>
    (await recordOf(one())).filter((event) => event.type === type && event.data.jobId === jobId).length;

  it('for one slot start one run, and all get the same answer: twenty replicas', async () => {
    const answers = await Promise.all(worlds().map((world) => world.slot('same', ten)));
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(answers[0]).toMatchObject({ decision: 'run' });
    expect(await ofJob('same', 'cron.run_started')).toBe(1);
    expect((await fired(one(), 'cronJobFiring')).filter(({ target }) => target === 'same')).toHaveLength(1);
  }, 60_000);

  it('for twenty slots of one job start one run, and the others fire no hook (MW-94)', async () => {
    const slots = worlds().map((world, n) => world.slot('many', new Date(Date.parse(ten) + n * 1000).toISOString()));
    const answers = await Promise.all(slots);
    const decisions = answers.map(({ decision }) => decision).sort();
    expect(decisions).toEqual([...Array.from({ length: 19 }, () => 'overlapped'), 'run']);
    expect(await ofJob('many', 'cron.run_started')).toBe(1);
    expect((await fired(one(), 'cronJobFiring')).filter(({ target }) => target === 'many')).toHaveLength(1);
  }, 60_000);

  it('without waiting for one another start one run all the same: the version of the job decides', async () => {
    // Claims that everybody gets: what a process sees that was paused for longer than its claim held.
    const unordered = replicas.map((store) => ({
      ...store,
      claim: () => Promise.resolve({ kind: 'claimed', token: 'mine', attempt: 1, previousInvocationId: null } as const),
      renewClaim: () => Promise.resolve(true),
      releaseClaim: () => Promise.resolve(),
    }));
    const answers = await Promise.all(unordered.map((store) => lifecycleWorld(store, sealing).slot('wild', ten)));
    expect(new Set(answers.map(({ runId, decision }) => `${runId} ${decision}`)).size).toBe(1);
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(await ofJob('wild', 'cron.run_started')).toBe(1);

    const others = await Promise.all(
      unordered.map((store, n) =>
        lifecycleWorld(store, sealing).slot('wilder', new Date(Date.parse(ten) + n * 1000).toISOString()),
      ),
    );
    expect(others.filter(({ decision }) => decision === 'run')).toHaveLength(1);
    expect(await ofJob('wilder', 'cron.run_started')).toBe(1);
  }, 60_000);

  it('to close one run tell of it once, and all get the same answer', async () => {
    const { runId } = (await worlds()[0]?.slot('closing', ten)) ?? { runId: '' };
    const answers = await Promise.all(worlds().map((world, n) => world.complete(runId, `status ${String(n)}`)));
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(answers[0]).toMatchObject({ notified: true });
    expect(await ofJob('closing', 'cron.run_closed')).toBe(1);
    expect(await ofJob('closing', 'cron.run_notified')).toBe(1);
  }, 60_000);
});
