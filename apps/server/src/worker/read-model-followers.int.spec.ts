import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  openReading,
  openReadModels,
  readModelStatus,
  rebuildReadModel,
  record,
  searchInvocations,
  type TableName,
  pluginLogs,
} from '#audit';
import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import { createLogger, createMetrics, readConfig, Readiness } from '#platform';
import { asData } from '#record';
import { memorySealing } from '#sealing';
import { createLedgerDatabase, type TestDatabase } from '../../../../test/support/test-postgres.js';
import { until } from '../../../../test/support/running-server.js';
import { ReadModelFollowers } from './read-model-followers.js';

let database: TestDatabase;
let pool: ReturnType<typeof createPool>;
let sql: Sql;
let store: EventStore;
const metrics = createMetrics();
const running: ReadModelFollowers[] = [];

const start = async (
  textSearch: 'on' | 'off' = 'on',
): Promise<{ followers: ReadModelFollowers; readiness: Readiness }> => {
  const config = readConfig({ HOOKLEDGER_TEXT_SEARCH: textSearch }, '/');
  const readiness = new Readiness();
  metrics.clear();
  const followers = new ReadModelFollowers(
    store,
    sql,
    memorySealing(),
    config,
    createLogger('silent'),
    readiness,
    metrics,
  );
  await followers.onModuleInit();
  running.push(followers);
  return { followers, readiness };
};

const opening = (id: string): Promise<unknown> =>
  store.append({
    account: 'a',
    writes: [
      {
        stream: `invocation/${id}`,
        expectedVersion: 0,
        events: [
          {
            type: 'invocation.opened',
            invocationId: id,
            turnId: 't',
            dialect: 'middleware',
            hook: 'systemPrompt',
            data: asData({
              chain: [],
              withoutHook: 0,
              context: { $sealed: { v: 1, k: 'k', b: 'b' } },
              hostSession: 'absent',
            }),
          },
        ],
      },
    ],
  });

/** The record's tables once they hold the whole log, however busy the machine is. */
const complete = async (projection = record): Promise<TableName> => {
  const size = await store.accountSize('a');
  let reading = await openReading(sql, store, projection, 'a');
  await until('the read model is complete', async () => {
    reading = await openReading(sql, store, projection, 'a');
    return reading.completeUpTo === size - 1n;
  });
  return reading.table;
};

const found = async (): Promise<readonly string[]> => {
  const table = await complete();
  const { items } = await searchInvocations(sql, table, {
    account: 'a',
    clock: 'occurred',
    order: 'oldest',
    limit: 50,
  });
  return items.map(({ invocationId }) => invocationId);
};

beforeEach(async () => {
  database = await createLedgerDatabase();
  pool = createPool({ connectionString: database.url });
  sql = sqlOver(pool);
  store = postgresEventStore({ connectionString: database.url });
});

afterEach(async () => {
  for (const followers of running.splice(0)) await followers.beforeApplicationShutdown();
  await store.close();
  await pool.end();
  await database.drop();
});

describe('the followers of the read models', () => {
  it('keep them current, on two replicas at once, each event once', async () => {
    await start('off');
    await start('off');
    for (let n = 0; n < 20; n += 1) await opening(`i${String(n)}`);
    expect(await found()).toEqual(Array.from({ length: 20 }, (_, n) => `i${String(n)}`));
    const table = await complete();
    expect((await sql.query(`select invocations from ${table('turn')}`))[0]).toEqual({ invocations: 20 });
  });

  it('follow a rebuild that began elsewhere until it takes the place of the live tables', async () => {
    await start('off');
    await opening('i1');
    expect(await found()).toEqual(['i1']);
    const { generation } = await rebuildReadModel(sql, record);
    await until('the rebuilt tables are live', async () =>
      (await readModelStatus(sql)).some((model) => model.generation === generation && model.state === 'live'),
    );
    await opening('i2');
    expect(await found()).toEqual(['i1', 'i2']);
  }, 60_000);

  it('see past events that concern none of their tables, also while they are built', async () => {
    await start('off');
    await opening('i1');
    const { generation } = await rebuildReadModel(sql, pluginLogs);
    await store.append({
      account: 'a',
      writes: [{ stream: 's', expectedVersion: 'any', events: [{ type: 'alarm.raised', data: {} }] }],
    });
    await complete(record);
    await complete(pluginLogs);
    await until('the rebuilt tables are live', async () =>
      (await readModelStatus(sql)).some((model) => model.generation === generation && model.state === 'live'),
    );
  }, 60_000);

  it('drop the plaintext of the text search when it is switched off', async () => {
    await start('on');
    expect((await readModelStatus(sql)).map(({ name }) => name)).toContain('text-search');
    for (const followers of running.splice(0)) await followers.beforeApplicationShutdown();
    await start('off');
    expect((await readModelStatus(sql)).map(({ name }) => name)).not.toContain('text-search');
    expect(await sql.query(`select 1 from pg_class where relname like '%text\\_part%'`)).toEqual([]);
  });

  it('say that an event was set aside, and go on', async () => {
    await openReadModels(sql, [record]);
    await store.append({
      account: 'a',
      // Data that no writer of ours would give.
      writes: [
        {
          stream: 'invocation/bad',
          expectedVersion: 0,
          events: [{ type: 'handler.passed', invocationId: 'bad', data: {} }],
        },
      ],
    });
    await opening('good');
    const { readiness } = await start('off');
    expect(await found()).toEqual(['good']);
    const report = JSON.stringify(await readiness.report());
    expect(report).toContain('events were set aside');
    expect(await metrics.metrics()).toContain('hookledger_read_model_set_aside{read_model="record"} 1');
  });
});
