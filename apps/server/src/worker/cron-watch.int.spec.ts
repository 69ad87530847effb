import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import { cronRunStream, cronStream, runIdOf } from '#lifecycles';
import { asData, type NewEvent, type RecordedEvent, type Sealed } from '#record';
import { createLedgerDatabase, type TestDatabase } from '../../../../test/support/test-postgres.js';
import { lookAtTheClock, noteWatched } from './cron-watch.js';

let database: TestDatabase;
let store: EventStore;
let sql: Sql;
const ends: (() => Promise<unknown>)[] = [];

/** What the log takes for now: declarations hold from when they are recorded. */
let clock = new Date();

beforeAll(async () => {
  database = await createLedgerDatabase();
  const pool = createPool({ connectionString: database.url });
  sql = sqlOver(pool);
  store = postgresEventStore({ connectionString: database.url, now: () => clock });
  ends.push(
    () => store.close(),
    () => pool.end(),
    () => database.drop(),
  );
}, 60_000);
afterAll(async () => {
  for (const end of ends) await end();
});

let account = '';
let accounts = 0;
beforeEach(async () => {
  accounts += 1;
  account = `a${String(accounts)}`;
  await sql.query('delete from cron_expectation');
  await sql.query('delete from cron_open_run');
});

const at = (time: string): Date => new Date(`2026-11-30T${time}.000Z`);
const name: Sealed = { $sealed: { v: 1, k: 'k', b: 'b' } };

let seen = -1n;
const follow = async (): Promise<void> => {
  const events = await store.readAll(seen, 10_000);
  seen = events.at(-1)?.globalPosition ?? seen;
  const types = ['cron.job_declared', 'cron.run_leased', 'cron.run_closed', 'cron.run_lost'];
  await noteWatched(
    events.filter(({ event }) => types.includes(event.type)),
    sql,
  );
};

const write = async (stream: string, ...events: readonly NewEvent[]): Promise<void> => {
  await store.append({ account, writes: [{ stream, expectedVersion: 'any', events }] });
  await follow();
};

const declare = async (when: string, schedule: string | null, graceSeconds = 60, timeZone = 'UTC'): Promise<void> => {
  clock = at(when);
  const data = { jobId: 'j', name, kind: 'cron_job', schedule, timeZone, graceSeconds };
  await write(cronStream('j'), { type: 'cron.job_declared', agentId: '7', data: asData(data) });
};

const slotOf = (slotAt: string) => ({ runId: runIdOf(account, 'j', slotAt), jobId: 'j', slotAt });

const leased = async (slotAt: string, leaseUntil: string): Promise<void> => {
  const data = { ...slotOf(slotAt), leaseUntil, leaseSeconds: 60, by: 'start', firedBy: 'f' };
  await write(cronRunStream(slotOf(slotAt).runId), { type: 'cron.run_leased', agentId: '7', data });
};

const closed = async (slotAt: string): Promise<void> => {
  const data = { ...slotOf(slotAt), status: 'Succeeded', firedBy: 'f' };
  await write(cronRunStream(slotOf(slotAt).runId), { type: 'cron.run_closed', agentId: '7', data });
};

const recorded = async (type: string): Promise<readonly RecordedEvent[]> =>
  (await store.readAccount(account, { limit: 10_000 }))
    .map(({ event }) => event)
    .filter((event) => event.type === type);

const missed = async (): Promise<readonly string[]> =>
  (await recorded('cron.slot_missed')).map(({ data }) => (data.slotAt as string).slice(11, 19));

const look = async (when: string) => {
  clock = at(when);
  const done = await lookAtTheClock(store, sql, clock);
  await follow();
  return done;
};

describe('slots that never come', () => {
  it('are missed when their grace is over, once each, and not those that come', async () => {
    await declare('10:00:00', '*/10 * * * *');
    await leased('2026-11-30T10:20:00.000Z', '2026-11-30T23:00:00.000Z');
    await look('10:10:59');
    expect(await missed()).toEqual([]);
    await look('10:11:00');
    expect(await missed()).toEqual(['10:10:00']);
    await look('10:45:00');
    await look('10:45:00');
    expect(await missed()).toEqual(['10:10:00', '10:30:00', '10:40:00']);
    expect(await recorded('cron.slot_missed')).toMatchObject([{ agentId: '7', actor: { kind: 'system' } }, {}, {}]);
  });

  it('are those of the schedule that was in force when they were due', async () => {
    await declare('10:05:00', '*/10 * * * *');
    await declare('10:25:00', '0 * * * *');
    await look('12:30:00');
    expect(await missed()).toEqual(['10:10:00', '10:20:00', '11:00:00', '12:00:00']);
    expect(await sql.query('select version from cron_expectation')).toHaveLength(1);
  });

  it('are expected no longer once the job has no schedule', async () => {
    await declare('10:05:00', '*/10 * * * *');
    await declare('10:25:00', null);
    await look('12:30:00');
    expect(await missed()).toEqual(['10:10:00', '10:20:00']);
    expect(await sql.query('select version from cron_expectation')).toEqual([]);
  });

  it('are reckoned by the clock of their time zone', async () => {
    await declare('00:00:00', '0 7 * * *', 60, 'Europe/Berlin');
    await look('23:00:00');
    expect(await missed()).toEqual(['06:00:00']);
  });

  it('of a long outage are put down step by step, and none twice', async () => {
    await declare('10:00:00', '* * * * * *', 1);
    let looks = 0;
    while ((await look('10:20:00')).missed > 0) looks += 1;
    expect(looks).toBeGreaterThan(1);
    const slots = await missed();
    expect(slots).toHaveLength(1199);
    expect(new Set(slots).size).toBe(1199);
    expect([slots[0], slots.at(-1)]).toEqual(['10:00:01', '10:19:59']);
  }, 60_000);

  it('from longer ago than a record need be kept are not judged', async () => {
    await declare('10:00:00', '0 0 1 * *');
    clock = new Date('2027-11-30T10:00:00.000Z');
    await lookAtTheClock(store, sql, clock);
    const slots = (await recorded('cron.slot_missed')).map(({ data }) => (data.slotAt as string).slice(0, 7));
    // The first of June 2027 is 182 days ago.
    expect(slots).toEqual(['2027-07', '2027-08', '2027-09', '2027-10', '2027-11']);
  });

  it('are each put down once, though several replicas look at once and what they watch for is lost', async () => {
    await declare('10:00:00', '* * * * *');
    clock = at('10:30:30');
    const looks = Array.from({ length: 5 }, () => lookAtTheClock(store, sql, clock));
    await Promise.all(looks);
    expect(await missed()).toHaveLength(29);
    // Built again from the beginning of the log: the slots' own streams know.
    await sql.query('delete from cron_expectation');
    seen = -1n;
    await follow();
    await look('10:30:30');
    expect((await missed()).length).toBe(29);
  });
});

describe('runs whose lease has lapsed', () => {
  it('are lost once, and those that renewed or closed are not', async () => {
    await leased('2026-11-30T10:00:00.000Z', '2026-11-30T10:01:00.000Z');
    await leased('2026-11-30T10:00:01.000Z', '2026-11-30T10:01:00.000Z');
    await leased('2026-11-30T10:00:01.000Z', '2026-11-30T10:09:00.000Z');
    await leased('2026-11-30T10:00:02.000Z', '2026-11-30T10:01:00.000Z');
    await closed('2026-11-30T10:00:02.000Z');
    expect(await look('10:00:59')).toEqual({ lost: 0, missed: 0 });
    const both = await Promise.all([look('10:01:00'), look('10:01:00')]);
    expect(both.map(({ lost }) => lost).sort()).toEqual([0, 1]);
    expect(await look('10:01:01')).toEqual({ lost: 0, missed: 0 });
    expect((await recorded('cron.run_lost')).map(({ data }) => data.slotAt)).toEqual(['2026-11-30T10:00:00.000Z']);
    expect(await sql.query('select run_id from cron_open_run')).toHaveLength(1);
  });

  it('are judged by the log, though what is watched for lags behind it', async () => {
    await leased('2026-11-30T10:00:00.000Z', '2026-11-30T10:01:00.000Z');
    const data = { ...slotOf('2026-11-30T10:00:00.000Z'), status: 'Succeeded', firedBy: 'f' };
    const stream = cronRunStream(slotOf('2026-11-30T10:00:00.000Z').runId);
    const events = [{ type: 'cron.run_closed', data } as const];
    await store.append({ account, writes: [{ stream, expectedVersion: 'any', events }] });
    clock = at('10:02:00');
    expect(await lookAtTheClock(store, sql, clock)).toEqual({ lost: 0, missed: 0 });
  });
});
