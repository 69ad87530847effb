import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql, type StoredEvent } from '#event-store';
import { asData, invocationStream, type NewEvent } from '#record';
import { programFile, type ChildProgram, type ProgramFile } from '../../../../test/support/child-program.js';
import { createLedgerDatabase, type TestDatabase } from '../../../../test/support/test-postgres.js';
import { noteOpenInvocations } from '../worker/open-invocations.js';
import { LostInvocations, type LossCause } from './lost-invocations.js';
import { isGone, processMark, renewLease, seeLease } from './recovery-lease.js';

let database: TestDatabase;
let store: EventStore;
let sql: Sql;
let program: ProgramFile;
const ends: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  database = await createLedgerDatabase();
  const pool = createPool({ connectionString: database.url });
  sql = sqlOver(pool);
  store = postgresEventStore({ connectionString: database.url });
  program = await programFile('test/support/dying-chain-child.ts');
  ends.push(
    () => store.close(),
    () => pool.end(),
    () => database.drop(),
  );
}, 60_000);
afterAll(async () => {
  program.remove();
  for (const end of ends) await end();
});

let seen = -1n;
/** Takes what is new in the log into the list of open invocations, as the worker does. */
const follow = async (): Promise<void> => {
  const events = await store.readAll(seen, 1_000);
  seen = events.at(-1)?.globalPosition ?? seen;
  await noteOpenInvocations(events, sql);
};

beforeEach(async () => {
  await follow();
  await sql.query('delete from open_invocation');
});

let said: LossCause[] = [];
const looker = (more: { watchMs?: number; instance?: string; running?: readonly string[] } = {}): LostInvocations => {
  said = [];
  const { watchMs, instance = randomUUID(), running = [] } = more;
  return new LostInvocations({
    store,
    sql,
    instance,
    isRunning: (_, id) => running.includes(id),
    onLost: (_account, _id, cause) => said.push(cause),
    ...(watchMs === undefined ? {} : { watchMs }),
  });
};

const streamOf = (id: string): Promise<readonly StoredEvent[]> => store.readStream('a', invocationStream(id));
const typesOf = async (id: string): Promise<readonly string[]> => (await streamOf(id)).map(({ event }) => event.type);

/** A process whose chain hangs in its second host call. */
const hangingChain = async (): Promise<{ child: ChildProgram; id: string; instance: string }> => {
  const [id, instance] = [randomUUID(), randomUUID()];
  const child = program.start([database.url, 'a', id, instance]);
  while (!child.lines.includes('asked') && child.process.exitCode === null) await delay(10);
  expect(child.lines).toEqual(['asked']);
  await follow();
  return { child, id, instance };
};

/** An invocation that is on record as open, run by `instance`. */
const openInvocation = async (instance: string | null, more: readonly NewEvent[] = []): Promise<string> => {
  const id = randomUUID();
  const data = {
    chain: [],
    withoutHook: 0,
    context: null,
    hostSession: 'absent',
    ...(instance === null ? {} : { instance }),
  };
  const opened: NewEvent = { type: 'invocation.opened', invocationId: id, data: asData(data) };
  const events = [opened, ...more.map((event) => ({ ...event, invocationId: id }))];
  await store.append({ account: 'a', writes: [{ stream: invocationStream(id), expectedVersion: 0, events }] });
  await follow();
  return id;
};

const lapse = (instance: string): Promise<unknown> =>
  sql.query("update instance_lease set lease_until = clock_timestamp() - interval '1 second' where id::text = $1", [
    instance,
  ]);

describe('an invocation whose process was killed in the middle of a host call', () => {
  it('is closed as lost by whoever looks next, with what had run and how far each call had got, once', async () => {
    const { child, id, instance } = await hangingChain();
    expect(await typesOf(id)).toEqual([
      'invocation.opened',
      'handler.rewrote',
      'handler.started',
      'host.called',
      'host.answered',
      'host.called',
    ]);
    await looker().look();
    expect(said).toEqual([]);

    child.process.kill('SIGKILL');
    await child.ended;
    const both = [looker(), looker()];
    await Promise.all(both.map((one) => one.look()));
    await both[0]?.look();
    const events = (await streamOf(id)).map(({ event }) => event);
    const lost = events.filter(({ type }) => type === 'invocation.lost');
    expect(lost).toHaveLength(1);
    expect(lost[0]).toMatchObject({
      outcome: 'lost',
      reasonCode: 'instance_gone',
      invocationId: id,
      sessionId: 's',
      turnId: 't',
      hook: 'userMessageInbound',
      data: {
        metered: 2,
        handlerIndex: 1,
        cause: 'instance_gone',
        instance,
        handlers: [
          { index: 0, pluginId: 'first', state: 'ended' },
          { index: 1, pluginId: 'caller', state: 'lost' },
          { index: 2, pluginId: 'last', state: 'unknown' },
        ],
        hostCalls: [
          { member: 'fetch', pluginId: 'caller', state: 'done' },
          { member: 'fetch', pluginId: 'caller', state: 'unknown' },
        ],
      },
    });
    expect(await sql.query('select * from open_invocation')).toEqual([]);
  }, 60_000);
});

describe('a process that was only paused', () => {
  it('cannot close its chain again after another closed it as lost', async () => {
    const { child, id, instance } = await hangingChain();
    child.process.kill('SIGSTOP');
    await lapse(instance);
    const other = looker({ watchMs: 0 });
    await other.look();
    expect(said).toEqual([]);
    await delay(5);
    await other.look();
    expect(said).toEqual(['instance_gone']);
    child.process.kill('SIGCONT');
    // The chain goes on to its end, and the end is refused.
    child.process.kill('SIGUSR1');
    expect(await child.ended).toBe(0);
    expect(child.lines.at(-1)).toBe('FiringSuperseded');
    expect((await typesOf(id)).filter((type) => /closed|lost/u.test(type))).toEqual(['invocation.lost']);
  }, 60_000);

  it('begins a new epoch of its lease, and what it runs is its own again', async () => {
    const instance = randomUUID();
    await renewLease(sql, instance, null);
    const id = await openInvocation(instance);
    await lapse(instance);
    const other = looker({ watchMs: 0 });
    await other.look();
    await renewLease(sql, instance, null);
    await delay(5);
    await other.look();
    expect(await seeLease(sql, instance)).toMatchObject({ epoch: '2', lapsed: false });
    expect(await typesOf(id)).toEqual(['invocation.opened']);
  });
});

describe('an open invocation', () => {
  it('is left alone while a lapsed lease has not been watched for longer than a sign of life takes', async () => {
    const instance = randomUUID();
    await renewLease(sql, instance, null);
    const id = await openInvocation(instance);
    await lapse(instance);
    const other = looker();
    await other.look();
    await other.look();
    expect(await typesOf(id)).toEqual(['invocation.opened']);
  });

  it('is not lost while it waits for a person', async () => {
    const held: NewEvent = { type: 'handler.held', pluginId: 'p', data: { index: 0 } };
    const waits: NewEvent = { type: 'invocation.held', data: { approvalId: 'plugin:1' } };
    const id = await openInvocation(randomUUID(), [held, waits]);
    // Even when the list does not know yet.
    await sql.query('update open_invocation set held = false');
    const other = looker({ watchMs: 0 });
    await other.look();
    await delay(5);
    await other.look();
    expect(await typesOf(id)).toEqual(['invocation.opened', 'handler.held', 'invocation.held']);
  });

  it('is closed by its own process when that gave it up, and left alone while it runs', async () => {
    const instance = randomUUID();
    await renewLease(sql, instance, processMark());
    const [id, runs] = [await openInvocation(instance), await openInvocation(instance)];
    await looker({ instance, running: [runs] }).look();
    expect(said).toEqual(['given_up']);
    expect(await typesOf(id)).toEqual(['invocation.opened', 'invocation.lost']);
    expect(await typesOf(runs)).toEqual(['invocation.opened']);
  });

  it('that names no process is closed once no chain can still run', async () => {
    const id = await openInvocation(null);
    await looker().look();
    expect(await typesOf(id)).toEqual(['invocation.opened']);
    await sql.query("update open_invocation set opened_at = now() - interval '2 hours'");
    await looker().look();
    expect(await typesOf(id)).toEqual(['invocation.opened', 'invocation.lost']);
  });
});

describe('the mark of a process', () => {
  it('tells a living process from one that is gone, and says nothing of another machine', () => {
    const mark = processMark();
    if (process.platform !== 'linux') return;
    expect(isGone(mark)).toBe(false);
    expect(isGone(`${String(mark)}0`)).toBe(true);
    expect(isGone(String(mark).replace(/ \d+ \d+$/u, ' 99999999 1'))).toBe(true);
    expect(isGone(`another-boot pid:[1] 1 1`)).toBe(false);
    expect(isGone(null)).toBe(false);
  });
});
