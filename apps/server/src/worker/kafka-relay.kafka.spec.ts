import { createHash, randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import {
  BlobParts,
  decodeBlobPart,
  decodeEvent,
  decodeKey,
  openKafka,
  topicNames,
  withBytes,
  type ConsumedMessage,
  type Kafka,
  type TopicNames,
} from '#kafka';
import type { NewEvent } from '#record';
import { createLedgerDatabase, type TestDatabase } from '../../../../test/support/test-postgres.js';
import { startTestBroker, type TestBroker } from '../../../../test/support/kafka-broker.js';
import { until } from '../../../../test/support/running-server.js';
import { takeOwnership } from './kafka-relay-lease.js';
import { readProgress } from './kafka-relay-tables.js';
import { startRelay, type Relay } from './kafka-relay-work.js';
import type { RelayOptions } from './kafka-relay-turn.js';

describe('the relay', () => {
  let broker: TestBroker;
  let kafka: Kafka;
  let database: TestDatabase;
  let store: EventStore;
  let sql: Sql;
  let names: TopicNames;
  let endPool: () => Promise<void>;
  const running: Relay[] = [];

  beforeAll(async () => {
    broker = await startTestBroker();
    kafka = openKafka({ brokers: [broker.address()], tls: null, sasl: null });
  });
  afterAll(() => broker.close());

  beforeEach(async () => {
    database = await createLedgerDatabase();
    const pool = createPool({ connectionString: database.url });
    sql = sqlOver(pool);
    endPool = () => pool.end();
    store = postgresEventStore({ connectionString: database.url });
    names = topicNames(`t-${randomUUID()}`);
    await sql.query('update log_format set log_id = $1', [randomUUID()]);
  });
  afterEach(async () => {
    for (const relay of running.splice(0)) await relay.stop();
    await store.close();
    await endPool();
    await database.drop();
  });

  const start = (options: Partial<RelayOptions> = {}): Relay => {
    const relay = startRelay({
      sql,
      store,
      kafka,
      names,
      partitions: 3,
      replicas: null,
      ownTopics: [],
      leaseMs: 2_000,
      ...options,
    });
    running.push(relay);
    return relay;
  };

  const event = (session: string, n: number, data: NewEvent['data'] = {}): NewEvent => ({
    type: 'invocation.opened',
    sessionId: session,
    data: { n, ...data },
  });

  const append = async (count: number, account = 'a', data: NewEvent['data'] = {}): Promise<void> => {
    const events = Array.from({ length: count }, (_, n) => event(`s${String(n % 5)}`, n, data));
    const writes = [{ stream: `invocation/${randomUUID()}`, expectedVersion: 0, events }];
    expect((await store.append({ account, writes })).kind).toBe('appended');
  };

  const caughtUp = (): Promise<void> =>
    until('everything is in Kafka', async () => {
      const { head, position } = await readProgress(sql);
      return head === position;
    });

  const readTopic = async (topic: string): Promise<readonly ConsumedMessage[]> => {
    const read: ConsumedMessage[] = [];
    await kafka.readTopic({
      topic,
      handle: (messages) => {
        read.push(...messages);
        return Promise.resolve();
      },
    });
    return read;
  };

  /** Holds what is in the topic against the log: everything, in order per key, repeats aside. */
  const expectWholeLog = async (topic = names.events): Promise<{ readonly repeats: number }> => {
    const log = await store.readAll(-1n, 100_000);
    const messages = await readTopic(topic);
    const firsts = new Map<string, ConsumedMessage>();
    for (const message of messages) {
      const id = message.headers.ce_id ?? '';
      if (!firsts.has(id)) firsts.set(id, message);
    }
    const lastOfKey = new Map<string, bigint>();
    for (const message of firsts.values()) {
      const decoded = decodeEvent(message);
      if (decoded.kind !== 'event') throw new Error(decoded.kind);
      const { stored } = decoded;
      expect(stored.globalPosition).toBeGreaterThan(lastOfKey.get(message.key ?? '') ?? -1n);
      lastOfKey.set(message.key ?? '', stored.globalPosition);
      expect(Buffer.from(stored.bytes)).toEqual(log[Number(stored.globalPosition)]?.bytes);
    }
    expect(firsts.size).toBe(log.length);
    return { repeats: messages.length - firsts.size };
  };

  it('brings every event, in order per key, and goes on where it stopped', async () => {
    await append(2_500);
    const relay = start();
    await caughtUp();
    await append(10);
    await caughtUp();
    await relay.stop();
    await append(10);
    start();
    await caughtUp();
    expect(await expectWholeLog()).toEqual({ repeats: 0 });
    expect(relay.state().findings).toEqual([]);
  });

  it('brings an event that nobody can read any more, and those behind it', async () => {
    await append(1);
    await sql.query('alter table event disable trigger event_is_final');
    await sql.query(`update event set bytes = 'no JSON at all'`);
    await sql.query('alter table event enable trigger event_is_final');
    await append(1);
    start();
    await caughtUp();
    const kinds = (await readTopic(names.events)).map((message) => decodeEvent(message).kind);
    expect(kinds.sort()).toEqual(['event', 'foreign']);
  });

  it('sends an event that the topic does not take as a blob, before the event that names it', async () => {
    await broker.createTopic(names.events, 3, { 'max.message.bytes': '5000', 'retention.ms': '-1' });
    await broker.createTopic(names.blobs, 3, { 'max.message.bytes': '4000', 'cleanup.policy': 'compact' });
    await append(3, 'a', { text: 'x'.repeat(20_000) });
    await append(1);
    let large = 0;
    start({
      watch: {
        sent: () => undefined,
        failed: () => undefined,
        fenced: () => undefined,
        large: (count) => (large += count),
      },
    });
    await caughtUp();
    const parts = new BlobParts();
    const blobs = new Map<string, Uint8Array>();
    for (const message of await readTopic(names.blobs)) {
      const whole = parts.take(message);
      if (whole !== null) blobs.set(whole.hash, whole.bytes);
    }
    const read = (await readTopic(names.events)).map((message) => decodeEvent(message));
    const whole = read.map((one) =>
      one.kind === 'reference' ? withBytes(one, blobs.get(one.hash) ?? Buffer.alloc(0)) : one,
    );
    expect(read.map(({ kind }) => kind).sort()).toEqual(['event', 'reference', 'reference', 'reference']);
    expect(whole.map(({ kind }) => kind)).toEqual(['event', 'event', 'event', 'event']);
    expect(large).toBe(3);
  });

  const blobOf = (text: string): { readonly hash: string; readonly bytes: Buffer; readonly keyId: string } => {
    const bytes = Buffer.from(text);
    return { hash: createHash('sha256').update(bytes).digest('hex'), bytes, keyId: 'k-1' };
  };

  const appendNaming = async (blob: ReturnType<typeof blobOf>): Promise<void> => {
    const events = [event('s', 0, { text: { $blob: blob.hash, k: blob.keyId, size: blob.bytes.length } })];
    await store.append({
      account: 'a',
      writes: [{ stream: `invocation/${randomUUID()}`, expectedVersion: 0, events }],
      blobs: [blob],
    });
  };

  const blobsInTopic = async (): Promise<readonly string[]> => {
    const there = new Set<string>();
    for (const message of await readTopic(names.blobs)) {
      const part = decodeBlobPart(message);
      if (part.kind === 'part') there.add(part.hash);
      if (part.kind === 'tombstone') there.delete(part.hash);
    }
    return [...there];
  };

  it('sends a blob once, forgets it when it is removed, and sends it again when it comes back', async () => {
    const blob = blobOf('a system prompt');
    await appendNaming(blob);
    await appendNaming(blob);
    start();
    await caughtUp();
    await appendNaming(blob);
    await caughtUp();
    expect(await readTopic(names.blobs)).toHaveLength(1);
    await sql.query('delete from blob where hash = $1', [Buffer.from(blob.hash, 'hex')]);
    await until('it is forgotten', async () => (await blobsInTopic()).length === 0);
    await appendNaming(blob);
    await caughtUp();
    expect(await blobsInTopic()).toEqual([blob.hash]);
  });

  it('has each data key in its topic as the table has it: wrapped anew, erased', async () => {
    const insert = `insert into data_key (id, account, scope, wrapped, master) values ($1, 'a', $1, 'wrapped', 'm-1')`;
    for (const id of ['k-1', 'k-2', 'k-3']) await sql.query(insert, [id]);
    start();
    const keys = async (): Promise<object> => {
      const there = new Map<string, string>();
      for (const message of await readTopic(names.keys)) {
        const key = decodeKey(message);
        if (key.kind === 'data-key') there.set(key.record.id, key.record.master);
        if (key.kind === 'tombstone') there.delete(key.id);
      }
      return Object.fromEntries(there);
    };
    const isSettled = async (): Promise<boolean> =>
      (
        await sql.query(
          `select 1 from data_key where relayed is distinct from coalesce(case when wrapped is not null then master end, 'erased')`,
        )
      ).length === 0;
    await until('all are sent', isSettled);
    expect(await keys()).toEqual({ 'k-1': 'm-1', 'k-2': 'm-1', 'k-3': 'm-1' });
    await sql.query(`update data_key set master = 'm-2' where id = 'k-2'`);
    await sql.query(`update data_key set wrapped = null, erased_at = now() where id = 'k-3'`);
    await until('the changes are sent', isSettled);
    expect(await keys()).toEqual({ 'k-1': 'm-1', 'k-2': 'm-2' });
  });

  it('has one owner; another takes over within the lease when it falls silent, and nothing is reordered', async () => {
    await append(500);
    // An owner that took the lease and stands still.
    const still = await takeOwnership(sql, 1_500);
    still?.abandon();
    const first = start({ leaseMs: 1_500 });
    const second = start({ leaseMs: 1_500 });
    expect(first.state().role === 'owner' && second.state().role === 'owner').toBe(false);
    await caughtUp();
    const roles = [first.state().role, second.state().role].sort();
    expect(roles).toEqual(['owner', 'standby']);
    const owner = first.state().role === 'owner' ? first : second;
    for (let round = 0; round < 10; round += 1) await append(100);
    await owner.stop();
    for (let round = 0; round < 10; round += 1) await append(100);
    await caughtUp();
    await expectWholeLog();
  });

  it('notes nothing for an owner that stood still, says so, and has its successor look after what it sent late', async () => {
    await append(10);
    await sql.query(`insert into data_key (id, account, scope, wrapped, master) values ('k-1', 'a', 's', 'w', 'm-1')`);
    // A Kafka whose every send lasts longer than the lease, with a clock that does not notice.
    let fenced = 0;
    const successor = (): Promise<unknown> =>
      sql.query(`update follower set owner = 'another', epoch = epoch + 1,
        lease_until = clock_timestamp() + interval '2 seconds' where name = 'kafka-relay'`);
    let isSlow = true;
    const slow: Kafka = {
      ...kafka,
      producer: async (topics) => {
        const producer = await kafka.producer(topics);
        const send: typeof producer.send = async (topic, messages) => {
          await producer.send(topic, messages);
          if (!isSlow) return;
          isSlow = false;
          await successor();
        };
        return { ...producer, send };
      },
    };
    const watch = {
      sent: () => undefined,
      failed: () => undefined,
      large: () => undefined,
      fenced: () => (fenced += 1),
    };
    start({ kafka: slow, watch });
    await until('it is told that it was replaced', () => fenced === 1);
    expect((await readProgress(sql)).position).toBe(-1n);
    expect(await sql.query('select relayed from data_key')).toEqual([{ relayed: null }]);
    await caughtUp();
    expect(await sql.query('select relayed from data_key')).toEqual([{ relayed: 'm-1' }]);
    await expectWholeLog();
  });

  it('sends the whole log again to a broker that lost it', async () => {
    await append(50);
    await appendNaming(blobOf('a text'));
    const relay = start();
    await caughtUp();
    await relay.stop();
    for (const topic of [names.events, names.blobs, names.keys, names.checkpoints]) await broker.deleteTopic(topic);
    await append(50);
    start();
    await until(
      'it has all',
      async () => (await readProgress(sql)).position === 100n && (await broker.written(names.events)) >= 101,
    );
    await expectWholeLog();
    expect(await blobsInTopic()).toHaveLength(1);
  });

  it('removes purged events from the topic that their account has of its own, and from no other', async () => {
    names = topicNames(`t-${randomUUID()}`, ['own']);
    await append(300, 'own');
    await append(10, 'a');
    start({ ownTopics: ['own'] });
    await caughtUp();
    const positions = async (topic: string): Promise<readonly number[]> =>
      (await readTopic(topic)).map(({ headers }) => Number(headers.ce_position)).sort((one, other) => one - other);
    expect(await positions(names.eventsOf('own'))).toHaveLength(300);
    expect(await positions(names.events)).toHaveLength(10);
    const purge = async (first: number, last: number): Promise<void> => {
      await sql.query('alter table event disable trigger event_is_final');
      await sql.query(`delete from event where account = 'own' and account_position between $1 and $2`, [first, last]);
      await sql.query('alter table event enable trigger event_is_final');
      const data = { ranges: [{ first, last }] };
      const events: NewEvent[] = [{ type: 'retention.purged', data }];
      await store.append({ account: 'own', writes: [{ stream: 'retention', expectedVersion: 'any', events }] });
    };
    await purge(0, 199);
    await until('they are gone', async () => (await positions(names.eventsOf('own'))).length === 101);
    expect((await positions(names.eventsOf('own')))[0]).toBe(200);
    // Behind records that are kept: these stay until those go.
    await purge(250, 259);
    await caughtUp();
    await purge(200, 249);
    await until('all are gone', async () => (await positions(names.eventsOf('own')))[0] === 260);
    expect(await positions(names.events)).toHaveLength(10);
  });

  it('says what is wrong with a topic that was there', async () => {
    await broker.createTopic(names.events, 5, { 'retention.ms': '1000' });
    const relay = start();
    await until('it is found', () => relay.state().findings.length > 0);
    expect(relay.state().findings).toEqual([
      `${names.events} has 5 partitions, not the 3 that are set`,
      expect.stringContaining('forgets what is old'),
    ]);
  });
});
