import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import {
  allReadModels,
  compareTables,
  handleEvents,
  openReading,
  pluginLogs,
  rebuildReadModel,
  record,
  type ComparedSide,
  type Generation,
} from '#audit';
import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import { openKafka, type Kafka } from '#kafka';
import { masterKeyFrom, masterKeysOf, postgresSealing, type Sealing } from '#sealing';
import { programFile, type ChildProgram, type ProgramFile } from './support/child-program.js';
import { startTestBroker, type TestBroker } from './support/kafka-broker.js';
import { until } from './support/running-server.js';
import { createLedgerDatabase, type TestDatabase } from './support/test-postgres.js';
import { startTestRelay, type TestRelay, type TestRelayOptions } from './support/test-relay.js';

const partitions = 6;
let broker: TestBroker;
let workers: ProgramFile;
let database: TestDatabase;
let pool: ReturnType<typeof createPool>;
let sql: Sql;
let store: EventStore;
let kafka: Kafka;
let prefix = '';
let test = 0;
let sealing: Sealing;
const running = new Set<ChildProgram>();
const relays = new Set<TestRelay>();

beforeAll(async () => {
  broker = await startTestBroker();
  workers = await programFile('test/support/kafka-worker.ts');
});
afterAll(async () => {
  workers.remove();
  await broker.close();
});

beforeEach(async () => {
  test += 1;
  prefix = `t${String(test)}`;
  database = await createLedgerDatabase();
  pool = createPool({ connectionString: database.url });
  sql = sqlOver(pool);
  store = postgresEventStore({ connectionString: database.url });
  const masterKeys = masterKeysOf(masterKeyFrom(Buffer.alloc(32, 7), 'environment'));
  sealing = postgresSealing({ sql, store, masterKeys });
  kafka = openKafka({ brokers: [broker.address()], tls: null, sasl: null });
  await broker.createTopic(`${prefix}.events`, partitions);
  await broker.createTopic(`${prefix}.blobs`, partitions);
});
afterEach(async () => {
  for (const relay of relays) await relay.stop();
  relays.clear();
  for (const worker of running) worker.process.kill('SIGKILL');
  await Promise.all([...running].map(({ ended }) => ended));
  running.clear();
  await store.close();
  await pool.end();
  await database.drop();
});

const startWorker = async (from: 'kafka' | 'postgres' = 'kafka'): Promise<ChildProgram> => {
  const settings = {
    HOOKLEDGER_KAFKA_BROKERS: broker.address(),
    HOOKLEDGER_KAFKA_TOPIC_PREFIX: prefix,
    HOOKLEDGER_PROJECT_FROM: from,
  };
  const worker = workers.start([database.url, JSON.stringify(settings)]);
  running.add(worker);
  await until('the worker runs', () => worker.lines.includes('ready'));
  return worker;
};

const kill = async (worker: ChildProgram): Promise<void> => {
  worker.process.kill('SIGKILL');
  await worker.ended;
  running.delete(worker);
};

const startRelay = (options: Partial<TestRelayOptions> = {}): TestRelay => {
  const relay = startTestRelay({
    kafka,
    store,
    events: `${prefix}.events`,
    blobs: `${prefix}.blobs`,
    partitions,
    repeats: 40,
    ...options,
  });
  relays.add(relay);
  return relay;
};

let written = 0;

/** Invocations in some sessions and outside of them; the two sides of an operation lie apart. */
const writeInvocations = async (count: number): Promise<void> => {
  for (let n = 0; n < count; n += 1) {
    written += 1;
    const id = `i${String(written)}`;
    const account = written % 11 === 0 ? 'b' : 'a';
    const session = written % 3 === 0 ? {} : { sessionId: `s${String(written % 17)}` };
    const envelope = await sealing.envelope(account, { kind: 'account' });
    const common = {
      invocationId: id,
      dialect: 'middleware',
      hook: written % 2 === 0 ? 'sshCommandSending' : 'sshCommandCompleted',
      operationId: `o${String(Math.floor(written / 2))}`,
      turnId: `t${String(written % 23)}`,
      ...session,
      ...(written % 4 === 0 ? {} : { agentId: `agent${String(written % 3)}` }),
    };
    const plugin = { pluginId: `p${String(written % 5)}`, pluginVersion: '1', pluginRevision: 1 };
    const call = { callId: `c${id}`, member: written % 2 === 0 ? 'log' : 'fetch', args: envelope.seal([]) };
    await store.append({
      account,
      writes: [
        {
          stream: `invocation/${id}`,
          expectedVersion: 0,
          events: [
            {
              ...common,
              type: 'invocation.opened',
              data: { chain: [], withoutHook: 0, context: envelope.seal({}), hostSession: 'granted' },
            },
            { ...common, ...plugin, type: 'host.called', data: call },
            {
              ...common,
              ...plugin,
              type: 'handler.passed',
              data: {
                index: 0,
                input: envelope.seal(id),
                output: envelope.seal(id),
                changed: [],
                budgetMs: 1,
                durationUs: written,
                warnings: [],
                configDigest: 'c',
                mode: 'enforce',
              },
            },
            {
              ...common,
              type: 'invocation.closed',
              outcome: 'passed',
              durationMs: 1,
              data: { value: envelope.seal(id), cancellation: null, hostSession: 'granted', metered: 1 },
            },
          ],
        },
      ],
      blobs: envelope.blobs(),
    });
  }
};

const isComplete = async (): Promise<boolean> => {
  const head = await store.head();
  const rows = await sql.query<{ behind: boolean }>(
    `select greatest(m.position, f.position) < $1 as behind from read_model m
     left join follower f on f.name = 'read-model:' || m.name || ':' || m.generation where m.state = 'live'`,
    [head],
  );
  return rows.length === 3 && rows.every(({ behind }) => !behind);
};

/** Rows that a build from Postgres has otherwise than the live tables. It leaves other tables live than it found. */
const differences = async (): Promise<readonly unknown[]> => {
  const found: unknown[] = [];
  for (const projection of allReadModels(sealing, { textSearch: true })) {
    const [row] = await sql.query<{ generation: number }>(
      "select generation from read_model where name = $1 and state = 'live'",
      [projection.name],
    );
    const built = await rebuildReadModel(sql, projection);
    for (let after = -1n; ;) {
      const events = await store.readAll(after, 2000);
      const last = events.at(-1);
      if (last === undefined) break;
      await sql.transaction((tx) => handleEvents(projection, built, events, tx, store));
      after = last.globalPosition;
    }
    await sql.transaction(async (tx) => {
      const live: Generation = { ...built, generation: row?.generation ?? -1 };
      const sides = [live, built].map((generation) => ({ sql: tx, generation })) as [ComparedSide, ComparedSide];
      for await (const difference of compareTables(projection, ...sides)) found.push(difference);
    });
  }
  return found;
};

/** Stops all workers first: a build that they see is theirs to follow. */
const expectRowsOfTheLog = async (): Promise<void> => {
  for (const worker of running) await kill(worker);
  expect(await differences()).toEqual([]);
};

/** As a purge does, without its rules: the tables' owner may, where triggers do not fire. */
const removeEvents = (upTo: bigint): Promise<void> =>
  sql.transaction(async (tx) => {
    await tx.query("set local session_replication_role = 'replica'");
    await tx.query('delete from event where position <= $1', [upTo]);
  });

describe('read models that follow Kafka', () => {
  it('hold what those have that follow Postgres, though the relay repeats itself', async () => {
    await startWorker();
    const relay = startRelay();
    await writeInvocations(400);
    await relay.caughtUp();
    await until('the read models are complete', isComplete, 60);
    await expectRowsOfTheLog();
  });

  it('are shared by a group whose members come, go and are killed in the middle of a batch', async () => {
    startRelay();
    const writing = { now: true };
    const load = (async () => {
      while (writing.now) await writeInvocations(20);
    })();
    const [first, second] = await Promise.all([startWorker(), startWorker()]);
    await delay(3_000);
    await kill(first);
    await startWorker();
    await delay(2_000);
    second.process.kill('SIGTERM');
    expect(await second.ended).toBe(0);
    running.delete(second);
    for (let n = 0; n < 3; n += 1) {
      const worker = await startWorker();
      await delay(1_500);
      await kill(worker);
    }
    writing.now = false;
    await load;
    await until('the read models are complete', isComplete, 90);
    await expectRowsOfTheLog();
    const { completeUpTo } = await openReading(sql, store, record, 'a');
    expect(completeUpTo).toBe((await store.accountSize('a')) - 1n);
  });

  it('say truthfully how far they are while a partition stands still', async () => {
    await startWorker();
    const relay = startRelay();
    await writeInvocations(60);
    await relay.caughtUp();
    await until('the read models are complete', isComplete, 60);
    const before = (await store.accountSize('a')) - 1n;
    const held = await pool.connect();
    await held.query('begin');
    await held.query(
      `select 1 from read_model_partition p join read_model m using (generation)
       where m.name = 'record' and p.partition = (select min(partition) from read_model_partition) for update of p`,
    );
    await writeInvocations(200);
    await relay.caughtUp();
    const taken = async (): Promise<number> => {
      const [row] = await sql.query<{ count: string }>('select count(*) from read_model_span');
      return Number(row?.count);
    };
    await until('the other partitions are taken', async () => (await taken()) > 5, 60);
    const { completeUpTo, table } = await openReading(sql, store, record, 'a');
    const upTo = completeUpTo ?? -1n;
    expect(upTo).toBeGreaterThanOrEqual(before);
    expect(upTo).toBeLessThan((await store.accountSize('a')) - 1n);
    const inLog = (await store.readAccount('a', { until: upTo, limit: 100_000, types: ['invocation.opened'] })).length;
    const [rows] = await sql.query<{ count: string }>(
      `select count(*) from ${table('invocation')} where account = 'a' and position <= $1`,
      [upTo],
    );
    expect(Number(rows?.count)).toBe(inLog);
    await held.query('rollback');
    held.release();
    await until('the read models are complete', isComplete, 60);
    await expectRowsOfTheLog();
  });

  it('are built again beside the live ones, and take their place', async () => {
    await startWorker();
    const relay = startRelay();
    await writeInvocations(150);
    await relay.caughtUp();
    await until('the read models are complete', isComplete, 60);
    const built = [await rebuildReadModel(sql, record), await rebuildReadModel(sql, pluginLogs)];
    await writeInvocations(50);
    const isLive = async (): Promise<boolean> => {
      const rows = await sql.query("select generation from read_model where state = 'live'");
      return built.every(({ generation }) => rows.some((row) => row.generation === generation));
    };
    await until('the new tables are live', isLive, 60);
    await until('the read models are complete', isComplete, 60);
    await expectRowsOfTheLog();
  });

  it('go on from where Postgres was followed, and back, with no event applied twice', async () => {
    const relay = startRelay();
    for (const from of ['postgres', 'kafka', 'postgres', 'kafka'] as const) {
      const worker = await startWorker(from);
      await writeInvocations(60);
      await relay.caughtUp();
      if (from === 'kafka') await kill(worker);
      else {
        await until('the read models are complete', isComplete, 60);
        worker.process.kill('SIGTERM');
        await worker.ended;
      }
    }
    await Promise.all([startWorker('postgres'), startWorker('kafka')]);
    await writeInvocations(100);
    await relay.caughtUp();
    await until('the read models are complete', isComplete, 60);
    await expectRowsOfTheLog();
  });

  it('wait for a broker that is killed or stands still, and take what came', async () => {
    await startWorker();
    const relay = startRelay();
    await writeInvocations(50);
    await relay.caughtUp();
    await until('the read models are complete', isComplete, 60);
    await broker.kill();
    await writeInvocations(50);
    expect(await isComplete()).toBe(false);
    await broker.start();
    await relay.caughtUp();
    await until('the read models are complete', isComplete, 120);
    broker.pause();
    await writeInvocations(50);
    await delay(15_000);
    broker.resume();
    await relay.caughtUp();
    await until('the read models are complete', isComplete, 120);
    await expectRowsOfTheLog();
  });

  it('take an event that was too large for its topic from the log, or else from the topic of blobs', async () => {
    const relay = startRelay({ maxBytes: 700 });
    await writeInvocations(20);
    await relay.caughtUp();
    await removeEvents(39n);
    await startWorker();
    await until('the read models are complete', isComplete, 90);
    const { table } = await openReading(sql, store, record, 'a');
    const [row] = await sql.query<{ count: string }>(`select count(*) from ${table('invocation')}`);
    expect(row?.count).toBe('20');
    const [lines] = await sql.query<{ count: string }>(`select count(*) from ${table('handler_run')}`);
    expect(lines?.count).toBe('20');
  });

  it('name what Kafka lost, fill it from Postgres where the order allows, and pass over what was purged', async () => {
    await writeInvocations(10);
    const relay = startRelay({ after: 5n });
    await relay.caughtUp();
    const worker = await startWorker();
    const lost = 'positions 0 to 5 are in no topic; rebuild record from Postgres';
    await until('it says what is lost', () => worker.lines.some((line) => line.includes(lost)), 60);
    const positionOf = async (name: string): Promise<bigint> => {
      const [row] = await sql.query<{ position: string }>(
        `select greatest(m.position, f.position) as position from read_model m
         left join follower f on f.name = 'read-model:' || m.name || ':' || m.generation where m.name = $1`,
        [name],
      );
      return BigInt(row?.position ?? -2);
    };
    expect(await positionOf('record')).toBe(-1n);
    // The text search takes the topics merged, and can put what is missing in its place.
    await until(
      'the text search is complete',
      async () => (await positionOf('text-search')) === (await store.head()),
      60,
    );
    await removeEvents(5n);
    await until('what was purged is passed over', isComplete, 60);
  });
});
