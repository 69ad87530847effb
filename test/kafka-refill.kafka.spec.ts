/* eslint-disable @typescript-eslint/no-unsafe-member-access -- an answer is whatever the server said */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { spawn, type ChildProcess } from 'node:child_process';
import { createPool, postgresEventStore, sqlOver, type EventStore, type Row, type Sql } from '#event-store';
import { openKafka, topicNames, type ConsumedMessage, type Kafka } from '#kafka';
import { rowTagKey } from '#proof';
import { asData, invocationStream, type NewEvent } from '#record';
import { masterKeyFrom, masterKeysOf, openRootSecret, postgresSealing } from '#sealing';
import { startTestBroker, type TestBroker } from './support/kafka-broker.js';
import { startServer, until, type CallAnswer, type RunningServer } from './support/running-server.js';
import { createTestDatabase, type TestDatabase } from './support/test-postgres.js';

const base = '/v1/accounts/default';
const masterKey = Buffer.alloc(32, 7);
const root = new URL('../', import.meta.url).pathname;
const partitions = 4;
let broker: TestBroker;
let kafka: Kafka;
let lost: TestDatabase;
let lostSql: Sql;
let server: RunningServer;
let erased = '';
let kept = '';
const ends: (() => Promise<unknown>)[] = [];

const environment = (url: string, prefix = 'hookledger'): Record<string, string> => ({
  DATABASE_URL: url,
  HOOKLEDGER_MASTER_KEY: masterKey.toString('hex'),
  HOOKLEDGER_KAFKA_BROKERS: broker.address(),
  HOOKLEDGER_KAFKA_TOPIC_PREFIX: prefix,
  HOOKLEDGER_KAFKA_PARTITIONS: String(partitions),
});

const open = (database: TestDatabase): Sql => {
  const pool = createPool({ connectionString: database.url, max: 3 });
  ends.unshift(() => pool.end());
  return sqlOver(pool);
};

const emptyDatabase = async (): Promise<TestDatabase> => {
  const database = await createTestDatabase();
  ends.push(() => database.drop());
  return database;
};

beforeAll(async () => {
  broker = await startTestBroker();
  ends.push(() => broker.close());
  kafka = openKafka({ brokers: [broker.address()], tls: null, sasl: null });
  lost = await emptyDatabase();
  server = await startServer({ env: environment(lost.url) });
  lostSql = open(lost);
  await fill();
  await until('all is sealed and relayed', () => isSettled(lostSql), 90);
  await server.close();
}, 240_000);
afterAll(async () => {
  await server.close();
  for (const end of ends) await end();
}, 60_000);

const say = async (text: string, envelope: object = {}): Promise<string> => {
  const context = { sessionId: '42', channelId: null, text, mediaIds: [] };
  const body = { ...envelope, context };
  const answer = await server.call('POST', `${base}/hooks/middleware/userMessageInbound`, { body });
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
  return String(answer.body.invocationId);
};

/** What an installation goes through: plugins, content of all sizes, an erasure, a purge past a hold. */
const fill = async (): Promise<void> => {
  const plugin = {
    id: 'p',
    name: 'p',
    version: '1',
    dialect: 'middleware',
    language: 'javascript',
    source: 'globalThis.middleware.userMessageInbound = async (c) => c.text + "!";',
    reason: 'test',
  };
  expect((await server.call('POST', `${base}/plugins`, { body: plugin })).status).toBe(201);
  const words = 'long enough for a blob of its own, and more of the like; ';
  for (let n = 0; n < 40; n += 1) await say(`${String(n)} ${words.repeat(n)}`, { turnId: `t${String(n % 5)}` });
  kept = await say('a text that stays');
  erased = await say(`a text that goes ${words.repeat(40)}`, { dataSubject: 'user:42' });
  await until('the topics have it', () => isSettled(lostSql), 60);
  const erasure = { scope: { dataSubject: 'user:42' }, reason: 'they asked' };
  expect((await server.call('POST', `${base}/erasures`, { body: erasure })).status).toBe(201);
  await writeOldInvocations();
  await until('the topics have it', () => isSettled(lostSql), 60);
  const retention = { classes: { invocation: 200 } };
  expect((await server.call('PUT', `${base}/retention`, { body: retention })).status).toBe(200);
  const hold = { scope: { sessionId: 'held' } };
  expect((await server.call('POST', `${base}/holds`, { body: hold })).status).toBe(201);
  const purge = await server.call('POST', `${base}/purges`, { body: { reason: 'policy' } });
  expect([purge.status, purge.body.events]).toEqual([201, 4]);
  await say('after the purge');
};

/** What the server would have written 300 days ago. */
const writeOldInvocations = async (): Promise<void> => {
  const masterKeys = masterKeysOf(masterKeyFrom(masterKey, 'environment'));
  const past: EventStore = postgresEventStore({
    connectionString: lost.url,
    tagKey: rowTagKey(await openRootSecret(lostSql, masterKeys)),
    now: () => new Date(Date.now() - 300 * 86_400_000),
  });
  const sealing = postgresSealing({ sql: lostSql, store: past, masterKeys });
  for (const [id, sessionId] of [
    ['old-1', 'old'],
    ['old-2', 'held'],
    ['old-3', 'old'],
  ] as const) {
    const about = { invocationId: id, sessionId, turnId: 'old', dialect: 'middleware', hook: 'userMessageInbound' };
    const context = (await sealing.envelope('default', { kind: 'session', id: sessionId })).seal({ text: 'old' });
    const opened = { chain: [], withoutHook: 0, context, hostSession: 'absent' };
    const closed = { value: null, cancellation: null, hostSession: 'absent', metered: 0 };
    const events: NewEvent[] = [
      { ...about, type: 'invocation.opened', data: asData(opened) },
      { ...about, type: 'invocation.closed', outcome: 'passed', data: asData(closed) },
    ];
    await past.append({ account: 'default', writes: [{ stream: invocationStream(id), expectedVersion: 0, events }] });
  }
  await past.close();
};

/** Everything is in its tree, signed, and in its topic. */
const isSettled = async (sql: Sql): Promise<boolean> => (await unsettled(sql)).length === 0;

const unsettled = async (sql: Sql): Promise<readonly string[]> => {
  const [row] = await sql.query<Record<string, boolean>>(
    `select (select position from follower where name = 'kafka-relay') = (select position from head) as events,
       not exists (select from account_head h left join tree t using (account)
         where t.signed is distinct from h.size) as sealed,
       not exists (select from data_key
         where relayed is distinct from (case when wrapped is null then 'erased' else master end)) as keys,
       (select max(sequence)::text from checkpoint) =
         (select value from relayed_note where name = 'checkpoints') as checkpoints`,
  );
  return Object.entries(row ?? {}).flatMap(([what, settled]) => (settled ? [] : [what]));
};

interface Ran {
  readonly code: number | null;
  readonly said: string;
  /** Standard output alone. */
  readonly out: string;
}

const startCli = (args: readonly string[], env: Record<string, string>): { child: ChildProcess; ran: Promise<Ran> } => {
  const child = spawn(process.execPath, [`${root}dist/apps/cli/src/main.js`, ...args], {
    env: { PATH: process.env.PATH ?? '', HOOKLEDGER_DATA: '/tmp/hookledger-no-data-folder', ...env },
  });
  let said = '';
  let out = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (said += String(piece)));
  child.stdout.on('data', (piece) => (out += String(piece)));
  return { child, ran: new Promise((resolve) => child.once('close', (code) => resolve({ code, said, out }))) };
};

const refill = (url: string, prefix?: string, env: Record<string, string> = {}): Promise<Ran> =>
  startCli(['refill', '--from-kafka', '--json'], { ...environment(url, prefix), ...env }).ran;

const isEmpty = async (database: TestDatabase): Promise<boolean> => {
  const [row] = await open(database).query<{ rows: string }>(
    'select (select count(*) from event) + (select count(*) from data_key) + (select count(*) from blob) as rows',
  );
  return row?.rows === '0';
};

/** What must be the same, in an order of its own. */
const compared: { readonly [what: string]: string } = {
  event: 'select * from event order by position',
  stream: 'select * from stream order by account, id',
  sizes: 'select * from account_head order by account',
  head: 'select position from head',
  blob: 'select * from blob order by hash',
  keys: `select id, account, wrapped, master, wrapped is null as erased from data_key order by id`,
  checkpoint: 'select account, size, root, note, signed_at, key_id from checkpoint order by account, size',
  logKey: 'select * from log_key order by id',
  format: 'select log_id, untagged_until, mac from log_format',
  tree: 'select account, size, signed from tree order by account',
  tile: 'select * from tile order by account, level, idx',
  purged: 'select account, first, last, said_at from purged_range order by account, first',
};

const dump = async (sql: Sql): Promise<Readonly<Record<string, readonly Row[]>>> => {
  const found: Record<string, readonly Row[]> = {};
  for (const [what, text] of Object.entries(compared)) found[what] = await sql.query(text);
  return found;
};

/** Copies the topics to others of that prefix, without the events that are not wanted. */
const copyTopics = async (
  prefix: string,
  isWanted: (event: ConsumedMessage, at: bigint) => boolean,
  leaves: 'leaves' | 'none' = 'leaves',
): Promise<void> => {
  const [from, to] = [topicNames('hookledger'), topicNames(prefix)];
  const pairs = [
    [from.keys, to.keys],
    [from.blobs, to.blobs],
    [from.events, to.events],
    [from.checkpoints, to.checkpoints],
  ] as const;
  const made = pairs.map(([, name]) => ({ name, partitions, maxMessageBytes: 1_000_000 }));
  for (const { name } of made) await broker.createTopic(name, partitions);
  const producer = await kafka.producer(made);
  for (const [source, target] of pairs) {
    const messages: ConsumedMessage[] = [];
    await kafka.readTopic({
      topic: source,
      handle: (read) => {
        messages.push(...read);
        return Promise.resolve();
      },
    });
    const wanted = messages.filter((message) => {
      if (source === from.events) return isWanted(message, BigInt(message.headers.ce_globalposition ?? -1));
      return leaves === 'leaves' || message.headers.kind !== 'leaves';
    });
    await producer.send(
      target,
      wanted.map(({ key, value, headers }) => ({
        key: key ?? '',
        value,
        headers,
        ...(source === from.blobs ? { partitionKey: key?.split('/')[0] ?? '' } : {}),
      })),
    );
  }
  await producer.close();
};

const head = async (): Promise<bigint> => {
  const [row] = await lostSql.query<{ position: string }>('select position from head');
  return BigInt(row?.position ?? -1);
};

describe('a database that is lost', () => {
  it('is refilled from the topics and the master key alone, byte for byte, verifies, and goes on', async () => {
    const database = await emptyDatabase();
    const ran = await refill(database.url);
    expect([ran.code, ran.said]).toEqual([0, ran.said]);
    expect(JSON.parse(ran.out)).toMatchObject({ warnings: [], purged: 4, position: String(await head()) });
    const sql = open(database);
    expect(await dump(sql)).toEqual(await dump(lostSql));
    const verified = await startCli(['verify'], environment(database.url)).ran;
    expect([verified.code, verified.said]).toEqual([0, verified.said]);

    const sent = await broker.written('hookledger.events');
    server = await startServer({ env: environment(database.url) });
    const key: CallAnswer = await server.call('POST', `${base}/keys`, { body: { role: 'auditor', name: 'a' } });
    const read = (id: string): Promise<CallAnswer> =>
      server.call('GET', `${base}/invocations/${id}`, { key: String(key.body.secret) });
    expect((await read(kept)).body.context).toMatchObject({ text: 'a text that stays' });
    expect(JSON.stringify((await read(erased)).body.context)).toContain('erased');
    expect((await read('old-1')).status).toBe(410);
    expect((await read('old-2')).status).toBe(200);
    const next = await say('after the disaster');
    expect((await read(next)).status).toBe(200);
    const found = await server.call('GET', `${base}/invocations?text=${encodeURIComponent('text that stays')}`);
    expect(found.body.items).toHaveLength(1);
    await until('all is sealed and relayed', () => isSettled(sql), 60);
    await server.close();
    const again = await startCli(['verify'], environment(database.url)).ran;
    expect([again.code, again.said]).toEqual([0, again.said]);
    // No event was sent twice, and no position was given twice.
    const [row] = await sql.query<{ position: string }>('select position from head');
    expect((await broker.written('hookledger.events')) - sent).toBe(
      Number(BigInt(row?.position ?? 0) - (await head())),
    );
  }, 240_000);

  it('stays empty when a refill is killed, and is refilled by the next', async () => {
    await copyTopics('killed', () => true);
    const database = await emptyDatabase();
    const { child, ran } = startCli(['refill', '--from-kafka'], environment(database.url, 'killed'));
    child.stderr?.on('data', (piece) => {
      if (String(piece).includes('events')) child.kill('SIGKILL');
    });
    expect((await ran).code).toBeNull();
    expect(await isEmpty(database)).toBe(true);
    const next = await refill(database.url, 'killed');
    expect([next.code, next.said]).toEqual([0, next.said]);
  }, 120_000);

  it('is refilled without the events that were purged from the topics too, by their leaves', async () => {
    const isPurged = ({ headers }: ConsumedMessage): boolean =>
      headers.ce_subject === 'invocation/old-1' || headers.ce_subject === 'invocation/old-3';
    await copyTopics('purged', (event) => !isPurged(event));
    const database = await emptyDatabase();
    const ran = await refill(database.url, 'purged');
    expect([ran.code, ran.said]).toEqual([0, ran.said]);
    const verified = await startCli(['verify'], environment(database.url)).ran;
    expect([verified.code, verified.said]).toEqual([0, verified.said]);
    // The topics have grown since the database was lost: what they give whole is what they must give without them.
    await copyTopics('whole', () => true);
    const whole = await emptyDatabase();
    expect((await refill(whole.url, 'whole')).code).toBe(0);
    const { event, tile, checkpoint, purged } = await dump(open(whole));
    expect(await dump(open(database))).toMatchObject({ event, tile, checkpoint, purged });

    await copyTopics('leafless', (event) => !isPurged(event), 'none');
    const refused = await refill((await emptyDatabase()).url, 'leafless');
    expect([refused.code, refused.said]).toEqual([1, expect.stringMatching(/Positions \d+ to \d+/u)]);
  }, 180_000);

  it('stays empty when a position is in no topic, and is told which', async () => {
    await copyTopics('gap', (_, at) => at < 100n || at > 105n);
    const database = await emptyDatabase();
    const ran = await refill(database.url, 'gap');
    expect(ran.code).toBe(1);
    expect(ran.said).toContain('Positions 100 to 105 of the log are in no topic (gap.events)');
    expect(await isEmpty(database)).toBe(true);
  }, 120_000);

  it('stays empty when the topics end before what was signed', async () => {
    const last = (await head()) - 20n;
    await copyTopics('cut', (_, at) => at < last);
    const database = await emptyDatabase();
    const ran = await refill(database.url, 'cut');
    expect(ran.code).toBe(1);
    expect(ran.said).toMatch(/Account \w+ had \d+ events when a checkpoint was signed, and the topics have \d+/u);
    expect(await isEmpty(database)).toBe(true);
  }, 120_000);

  it('stays empty when another event stands at a position too, and is told which', async () => {
    await copyTopics('forked', () => true);
    const { events } = topicNames('forked');
    const copied: ConsumedMessage[] = [];
    const handle = (read: readonly ConsumedMessage[]): Promise<void> => Promise.resolve(void copied.push(...read));
    await kafka.readTopic({ topic: events, handle });
    const other = copied.find(({ headers }) => headers.ce_globalposition === '100');
    const producer = await kafka.producer([{ name: events, partitions, maxMessageBytes: 1_000_000 }]);
    const headers = { ...other?.headers, ce_globalposition: '99' };
    await producer.send(events, [{ key: other?.key ?? '', value: other?.value ?? null, headers }]);
    await producer.close();
    const database = await emptyDatabase();
    const ran = await refill(database.url, 'forked');
    expect([ran.code, ran.said]).toEqual([1, expect.stringContaining('two different events at position 99')]);
    expect(await isEmpty(database)).toBe(true);
  }, 120_000);

  it('stays empty under another master key', async () => {
    const database = await emptyDatabase();
    const ran = await refill(database.url, 'hookledger', { HOOKLEDGER_MASTER_KEY: 'ab'.repeat(32) });
    expect(ran.code).toBe(1);
    expect(ran.said).toMatch(/data keys are wrapped by master key \w+; the one that was given is \w+/u);
    expect(ran.said).not.toContain('abab');
    expect(await isEmpty(database)).toBe(true);
  }, 60_000);

  it('is not touched while it is not empty, and needs topics that are there', async () => {
    const before = await dump(lostSql);
    const ran = await refill(lost.url);
    expect([ran.code, ran.said]).toEqual([1, expect.stringContaining('not empty')]);
    expect(await dump(lostSql)).toEqual(before);
    const none = await refill((await emptyDatabase()).url, 'nothing');
    expect([none.code, none.said]).toEqual([1, expect.stringContaining('There is no topic nothing.keys')]);
  }, 120_000);
});
