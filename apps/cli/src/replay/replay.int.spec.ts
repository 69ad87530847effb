import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Projection } from '#audit';
import { allReadModels, beginLoading, dropAbandoned, handleEvents, openReadModels, readModelStatus } from '#audit';
import type { EventStore, Sql } from '#event-store';
import { createPool, postgresEventStore, sqlOver } from '#event-store';
import type { NewEvent } from '#record';
import { asData } from '#record';
import { memorySealing } from '#sealing';
import type { TestDatabase } from '../../../../test/support/test-postgres.js';
import { createLedgerDatabase } from '../../../../test/support/test-postgres.js';
import { readReplay } from './order.js';
import { fileOutput } from './outputs.js';
import type { RebuildOrder } from './rebuild.js';
import { rebuildModels } from './rebuild.js';
import { postgresSource } from './source.js';

let database: TestDatabase;
let pool: ReturnType<typeof createPool>;
let sql: Sql;
let store: EventStore;
let folder: string;
const sealing = memorySealing();
const models = allReadModels(sealing, { textSearch: true });
const modelNamed = (name: string): Projection => {
  const found = models.find((model) => model.name === name);
  if (found === undefined) throw new Error(name);
  return found;
};

beforeEach(async () => {
  database = await createLedgerDatabase();
  pool = createPool({ connectionString: database.url, statementTimeoutMs: 0 });
  sql = sqlOver(pool);
  store = postgresEventStore({ connectionString: database.url });
  folder = mkdtempSync(join(tmpdir(), 'hookledger-replay-'));
}, 60_000);

afterEach(async () => {
  await store.close();
  await pool.end();
  await database.drop();
  rmSync(folder, { recursive: true });
});

/** An invocation that is opened, runs two handlers, asks its host, and is closed or left open. */
const fire = async (n: number, account = 'a'): Promise<void> => {
  const envelope = await sealing.envelope(account, { kind: 'session', id: `s-${String(n % 3)}` });
  const common = {
    invocationId: `i-${String(n)}`,
    sessionId: `s-${String(n % 3)}`,
    turnId: `t-${String(n % 5)}`,
    dialect: 'middleware',
    hook: n % 2 === 0 ? 'sshCommandSending' : 'sshCommandCompleted',
    operationId: `o-${String(n % 4)}`,
    ...(n % 4 === 0 ? {} : { agentId: 'g' }),
  };
  const ran = (index: number, pluginId: string): NewEvent => ({
    ...common,
    type: n % 7 === 3 && index === 1 ? 'handler.skipped' : 'handler.passed',
    pluginId,
    pluginVersion: '1',
    ...(n % 7 === 3 && index === 1 ? { reasonCode: `code-${String(9 - (n % 2))}` } : {}),
    data: asData({
      index,
      input: envelope.seal(`seen ${String(n)}`),
      output: envelope.seal('x'),
      changed: [],
      budgetMs: 1,
      durationUs: 5,
      warnings: [{ code: 'z' }, { code: 'b' }],
      configDigest: 'c',
      mode: 'enforce',
    }),
  });
  const call = (type: 'host.called' | 'host.answered' | 'host.refused', callId: string, code?: string): NewEvent => ({
    ...common,
    type,
    pluginId: 'p',
    data: asData({ callId, member: n % 6 === 0 ? 'log' : 'fetch', ok: true, ...(code === undefined ? {} : { code }) }),
  });
  const events: NewEvent[] = [
    {
      ...common,
      type: 'invocation.opened',
      data: asData({ chain: [], withoutHook: 0, context: envelope.seal({ n }), hostSession: 'granted' }),
    },
    call('host.called', 'c-1'),
    n % 2 === 0 ? call('host.answered', 'c-1') : call('host.refused', 'c-1', 'limit'),
    ran(0, 'p'),
    ran(1, 'q'),
  ];
  if (n % 9 !== 8) {
    const cancellation = n % 5 === 0 ? { pluginId: 'p', reason: null, code: 'aa' } : null;
    const data = asData({ value: null, cancellation, hostSession: 'granted', metered: 2 });
    events.push({ ...common, type: 'invocation.closed', outcome: 'passed', data });
  }
  const writes = [{ stream: `invocation/i-${String(n)}`, expectedVersion: 'any' as const, events }];
  await store.append({ account, writes, blobs: envelope.blobs() });
};

const fireMany = async (from: number, to: number): Promise<void> => {
  for (let n = from; n < to; n += 1) await fire(n, n % 11 === 0 ? 'b' : 'a');
};

/** Follows the log as the server does, in batches of this size. */
const follow = async (batch: number): Promise<void> => {
  for (const generation of await openReadModels(sql, models)) {
    const projection = modelNamed(generation.name);
    let after = generation.position;
    for (;;) {
      const events = await store.readAll(after, batch);
      const last = events.at(-1);
      if (last === undefined) break;
      after = last.globalPosition;
      await sql.transaction((tx) => handleEvents(projection, generation, events, tx, store));
    }
  }
};

const nothingFiltered = { account: null, from: null, to: null, types: null, session: null, stream: null };

const rebuild = async (more: Partial<RebuildOrder> = {}) =>
  rebuildModels({
    sql,
    store,
    projections: models,
    source: await postgresSource(store, nothingFiltered),
    check: true,
    swap: true,
    covered: () => Promise.resolve(),
    phase: () => undefined,
    signal: new AbortController().signal,
    ...more,
  });

const liveOf = async (name: string): Promise<number> =>
  (await readModelStatus(sql)).find((model) => model.name === name && model.state === 'live')?.generation ?? -1;

describe('a replay into read models', () => {
  it.each([1, 3, 1000])(
    'gives the rows that following in batches of %d gave, and takes their place',
    async (batch) => {
      await fireMany(0, 60);
      await follow(batch);
      const before = await liveOf('record');
      await fireMany(60, 66);
      const done = await rebuild();
      expect(done).toEqual({
        differences: { count: 0, shown: [] },
        setAside: 0,
        swapped: models.map(({ name }) => name),
      });
      const after = await liveOf('record');
      expect(after).not.toBe(before);
      const [row] = await sql.query<{ n: string }>(`select count(*) as n from rm${String(after)}_invocation`);
      expect(Number(row?.n)).toBe(66);
      // The indexes that a new table has are there too.
      const indexes = (generation: number) =>
        sql.query(`select regexp_replace(indexdef, 'rm\\d+_', '', 'g') as def from pg_indexes
        where tablename = 'rm${String(generation)}_invocation' order by 1`);
      expect(await indexes(after)).toEqual(await indexes(before));
      expect((await readModelStatus(sql)).every(({ state }) => state === 'live')).toBe(true);
    },
    60_000,
  );

  it('lists every row that does not agree, by table and key, and shows no content', async () => {
    await fireMany(0, 20);
    await follow(500);
    const table = (name: string, of: string): Promise<string> => liveOf(of).then((n) => `rm${String(n)}_${name}`);
    const invocation = await table('invocation', 'record');
    await sql.query(`update ${invocation} set outcome = 'cancelled', hop = 7 where invocation_id = 'i-3'`);
    await sql.query(`delete from ${invocation} where invocation_id = 'i-4'`);
    await sql.query(`insert into ${await table('plugin_log_line', 'plugin-logs')}
      (account, plugin_id, position, recorded_at) values ('a', 'forged', 99, now())`);
    await sql.query(`update ${await table('text_part', 'text-search')} set body = body || ' secret'
      where id = (select min(id) from ${await table('text_part', 'text-search')})`);
    const done = await rebuild({ swap: false });
    const rows = done.differences?.shown ?? [];
    expect(rows).toContainEqual({
      table: 'invocation',
      kind: 'different',
      key: { account: 'a', invocation_id: 'i-3' },
      columns: ['hop', 'outcome'],
    });
    expect(rows).toContainEqual({
      table: 'invocation',
      kind: 'missing',
      key: { account: 'a', invocation_id: 'i-4' },
      columns: [],
    });
    expect(rows.filter(({ kind }) => kind === 'extra')).toHaveLength(1);
    expect(rows.filter(({ table: name }) => name === 'text_part').length).toBeGreaterThan(0);
    expect(JSON.stringify(rows)).not.toContain('secret');
    expect(done.differences?.count).toBe(rows.length);
    // Only compared: the same tables are live, and nothing is left of the others.
    expect(done.swapped).toEqual([]);
    expect(await sql.query("select 1 from read_model where state <> 'live'")).toEqual([]);
    // Put in place, what was wrong is mended.
    await rebuild();
    expect((await rebuild()).differences?.count).toBe(0);
  }, 60_000);

  it('leaves the live tables as they are when it is interrupted, wherever that is', async () => {
    await fireMany(0, 10);
    await follow(500);
    const before = (await readModelStatus(sql)).map(({ generation }) => generation);
    for (const phase of ['reading', 'comparing', 'making', 'putting']) {
      const stop = new AbortController();
      const interrupted = rebuild({
        signal: stop.signal,
        phase: (words) => {
          if (words.startsWith(phase)) stop.abort(new Error('interrupted'));
        },
      });
      if (phase === 'putting') {
        // From here on each read model is put in place whole.
        await interrupted;
        expect(await sql.query("select 1 from read_model where state in ('loading', 'building')")).toEqual([]);
        continue;
      }
      await expect(interrupted).rejects.toThrow('interrupted');
      expect((await readModelStatus(sql)).map(({ generation }) => generation)).toEqual(before);
      expect(await sql.query("select 1 from read_model where state = 'loading'")).toEqual([]);
    }
  }, 60_000);

  it('is one at a time for a read model', async () => {
    await fireMany(0, 4);
    await follow(500);
    let second: unknown = null;
    await rebuild({
      covered: async () => {
        second ??= await rebuild({ projections: [modelNamed('record')] }).catch((error: unknown) => String(error));
      },
    });
    expect(second).toContain('under way');
  }, 60_000);

  it('leaves tables behind when it is killed, which the next replay and every worker drop', async () => {
    await fireMany(0, 4);
    await follow(500);
    const [left] = [await beginLoading(sql, modelNamed('record'))];
    const loading = () =>
      sql.query<{ generation: number }>("select generation from read_model where state = 'loading'");
    expect(await loading()).toEqual([{ generation: left.generation }]);
    // While a replay runs, its tables are nobody else's to drop.
    await rebuild({
      covered: async () => {
        await dropAbandoned(sql);
        expect(await loading()).toHaveLength(models.length);
      },
    });
    expect(await loading()).toEqual([]);
    await beginLoading(sql, modelNamed('record'));
    await dropAbandoned(sql);
    expect(await loading()).toEqual([]);
    expect(
      await sql.query('select 1 from pg_class where relname = $1', [`rm${String(left.generation)}_invocation`]),
    ).toEqual([]);
  }, 60_000);

  it('puts nothing in the place of tables that a newer program made', async () => {
    await fireMany(0, 2);
    await follow(500);
    await sql.query("update read_model set version = version + 1 where name = 'record'");
    await expect(rebuild({ check: false })).rejects.toThrow('newer Hookledger');
    await sql.query("update read_model set version = version - 2 where name = 'record'");
    await expect(rebuild()).rejects.toThrow('cannot be compared');
    expect((await rebuild({ check: false })).swapped).toContain('record');
  }, 60_000);

  it('needs no live tables where nothing is compared', async () => {
    await fireMany(0, 6);
    await expect(rebuild()).rejects.toThrow('no live tables');
    expect((await rebuild({ check: false })).swapped).toEqual(models.map(({ name }) => name));
    await follow(500);
    expect((await rebuild()).differences?.count).toBe(0);
  }, 60_000);
});

describe('a replay into a file', () => {
  const filtered = (words: string) =>
    readReplay(['--to', 'file:x', ...words.split(' ').filter(Boolean)], folder).filter;
  const write = async (path: string, words = ''): Promise<readonly string[]> => {
    const output = await fileOutput(path);
    const source = await postgresSource(store, filtered(words));
    await source.read((events) => output.write(events), new AbortController().signal);
    const facts = await output.finish();
    const bytes = readFileSync(path);
    expect(facts.sha256).toBe(createHash('sha256').update(bytes).digest('hex'));
    return bytes.toString('utf8').split('\n').slice(0, -1);
  };

  it('writes the stored bytes, every event once, in the order of the log', async () => {
    await fireMany(0, 25);
    const lines = await write(join(folder, 'all.jsonl'));
    const rows = await sql.query<{ bytes: Buffer }>('select bytes from event order by position');
    expect(lines).toEqual(rows.map(({ bytes }) => bytes.toString('utf8')));
  });

  it.each([
    ['--account b', "account = 'b'"],
    ['--account a --from 3 --to-position 17', "account = 'a' and account_position between 3 and 17"],
    ['--from 5 --to-position 40', 'position between 5 and 40'],
    ['--type handler.*', "type like 'handler.%'"],
    [
      '--account a --type invocation.closed --type handler.skipped',
      "account = 'a' and type in ('invocation.closed', 'handler.skipped')",
    ],
    ['--account a --session s-1 --from 10', "account = 'a' and session_id = 's-1' and account_position >= 10"],
    ['--account a --stream invocation/i-4', "account = 'a' and stream = 'invocation/i-4'"],
    ['--account a --stream invocation/i-4 --session s-0', 'false'],
    ['--account nobody', 'false'],
  ])('takes only what %s says', async (words, where) => {
    await fireMany(0, 25);
    const lines = await write(join(folder, 'some.jsonl'), words);
    const rows = await sql.query<{ bytes: Buffer }>(`select bytes from event where ${where} order by position`);
    expect(lines).toEqual(rows.map(({ bytes }) => bytes.toString('utf8')));
  });

  it('leaves nothing behind when it is abandoned, and touches no file that is there', async () => {
    const path = join(folder, 'x.jsonl');
    const output = await fileOutput(path);
    await output.write(await store.readAll(-1n, 10));
    expect(existsSync(path)).toBe(false);
    await output.abandon();
    expect(existsSync(`${path}.partial`)).toBe(false);
    await write(path);
    await expect(fileOutput(path)).rejects.toThrow('exists already');
  });
});
