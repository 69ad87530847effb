import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestBroker, type TestBroker } from '../../../test/support/kafka-broker.js';
import { until } from '../../../test/support/running-server.js';
import {
  encodeBlob,
  KafkaFailure,
  openKafka,
  type ConsumedMessage,
  type Kafka,
  type KafkaSettings,
  type OutgoingMessage,
  type TopicSpec,
} from './index.js';

const plain = (broker: TestBroker): KafkaSettings => ({ brokers: [broker.address()], tls: null, sasl: null });
const newTopic = (): TopicSpec => ({ name: `t-${randomUUID()}`, policy: 'keep', partitions: 3, replicas: null });
const message = (key: string, value: string): OutgoingMessage => ({
  key,
  value: Buffer.from(value),
  headers: { h: 'v' },
});
const text = ({ value }: ConsumedMessage): string | null => (value === null ? null : Buffer.from(value).toString());

const failureOf = async (work: Promise<unknown>): Promise<KafkaFailure> => {
  const error = await work.then(
    () => new Error('it did not fail'),
    (caught: unknown) => caught,
  );
  if (!(error instanceof KafkaFailure)) throw error;
  return error;
};

describe('Kafka', () => {
  let broker: TestBroker;
  let kafka: Kafka;
  beforeAll(async () => {
    broker = await startTestBroker({ listeners: ['tls', 'sasl', 'saslTls'] });
    kafka = openKafka(plain(broker));
  });
  afterAll(() => broker.close());

  const ensure = async (...specs: readonly TopicSpec[]) => {
    const topics = await kafka.topics();
    return topics.ensure(specs).finally(() => topics.close());
  };

  const readAll = async (topic: string): Promise<ConsumedMessage[]> => {
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

  const send = async (spec: TopicSpec, messages: readonly OutgoingMessage[]): Promise<void> => {
    const producer = await kafka.producer(await ensure(spec));
    await producer.send(spec.name, messages).finally(() => producer.close());
  };

  it('makes a topic once, with unlimited retention, and says what is not so of one that was there', async () => {
    const spec = newTopic();
    expect(await ensure(spec)).toEqual([
      { name: spec.name, partitions: 3, maxMessageBytes: 1_048_588, isNew: true, findings: [] },
    ]);
    expect(await ensure(spec)).toMatchObject([{ isNew: false, findings: [] }]);
    const other = newTopic();
    await broker.createTopic(other.name, 2, { 'retention.ms': '60000', 'max.message.bytes': '5000' });
    const [state] = await ensure({ ...other, policy: 'compact' });
    expect(state).toMatchObject({ partitions: 2, maxMessageBytes: 5000, isNew: false });
    expect(state?.findings).toEqual([
      `${other.name} has 2 partitions, not the 3 that are set`,
      expect.stringContaining('forgets what is old (retention.ms)'),
      expect.stringContaining('is not compacted'),
    ]);
  });

  it('keeps each key in order and in the partition that it has, with headers and tombstones', async () => {
    const spec = newTopic();
    const messages = Array.from({ length: 300 }, (_, n) => message(`k${String(n % 7)}`, String(n)));
    await send(spec, [...messages, { key: 'k0', value: null, headers: {} }]);
    const read = await readAll(spec.name);
    expect(read).toHaveLength(301);
    for (const key of new Set(messages.map((sent) => sent.key))) {
      const ofKey = read.filter((one) => one.key === key);
      const sent = messages.filter((one) => one.key === key).map(({ value }) => Buffer.from(value ?? '').toString());
      expect(ofKey.map(text)).toEqual(key === 'k0' ? [...sent, null] : sent);
      expect(new Set(ofKey.map(({ partition }) => partition)).size).toBe(1);
    }
    expect(read[0]?.headers).toEqual({ h: 'v' });
  });

  it('sends more for one partition than its topic takes at once, and says so of one message', async () => {
    const spec = newTopic();
    await broker.createTopic(spec.name, 3, { 'max.message.bytes': '20000' });
    await send(
      spec,
      Array.from({ length: 30 }, () => message('k', 'x'.repeat(5_000))),
    );
    expect(await readAll(spec.name)).toHaveLength(30);
    const failure = await failureOf(send(spec, [message('k', 'x'.repeat(50_000))]));
    expect(failure.kind).toBe('too-large');
  });

  it('keeps the parts of a blob together', async () => {
    const spec = newTopic();
    await send(spec, encodeBlob({ hash: 'a'.repeat(64), keyId: null }, Buffer.alloc(1000), 10));
    const read = await readAll(spec.name);
    expect(read).toHaveLength(100);
    expect(new Set(read.map(({ partition }) => partition)).size).toBe(1);
  });

  it('reads from offsets and up to offsets, and passes on what its reader throws', async () => {
    const spec = { ...newTopic(), partitions: 1 };
    await send(
      spec,
      Array.from({ length: 10 }, (_, n) => message('k', String(n))),
    );
    const read: (string | null)[] = [];
    await kafka.readTopic({
      topic: spec.name,
      from: new Map([[0, 3n]]),
      until: new Map([[0, 6n]]),
      handle: (messages) => {
        read.push(...messages.map(text));
        return Promise.resolve();
      },
    });
    expect(read).toEqual(['3', '4', '5']);
    const thrown = kafka.readTopic({ topic: spec.name, handle: () => Promise.reject(new RangeError('mine')) });
    await expect(thrown).rejects.toThrow(RangeError);
    const missing = await failureOf(readAll('no-such-topic'));
    expect(missing.code).toBe('UNKNOWN_TOPIC_OR_PARTITION');
  });

  it('forgets records below an offset', async () => {
    const spec = { ...newTopic(), partitions: 1 };
    await send(
      spec,
      Array.from({ length: 10 }, (_, n) => message('k', String(n))),
    );
    const topics = await kafka.topics();
    await topics.deleteBefore(spec.name, [{ partition: 0, offset: 7n }]);
    expect(await topics.offsets(spec.name)).toEqual([{ partition: 0, low: 7n, high: 10n }]);
    expect(await topics.offsets('no-such-topic')).toBeNull();
    await topics.close();
    expect((await readAll(spec.name)).map(text)).toEqual(['7', '8', '9']);
  });

  it('brings a group what it has not committed, again where its handler failed', async () => {
    const spec = newTopic();
    await send(
      spec,
      Array.from({ length: 20 }, (_, n) => message(`k${String(n)}`, String(n))),
    );
    const group = `g-${randomUUID()}`;
    const read = new Set<string>();
    let failures = 0;
    const join = () =>
      kafka.joinGroup({
        group,
        topics: [spec.name],
        handle: ({ messages }) => {
          if (failures === 0) {
            failures += 1;
            return Promise.reject(new Error('once'));
          }
          for (const one of messages) read.add(text(one) ?? '');
          return Promise.resolve();
        },
      });
    const first = await join();
    await until('all is read', () => read.size === 20);
    await first.stop();
    read.clear();
    await send(spec, [message('k', 'new')]);
    const second = await join();
    await until('the new one is read', () => read.has('new'));
    await second.stop();
    expect([...read]).toEqual(['new']);
  });

  describe('behind TLS and names', () => {
    const tls = (): NonNullable<KafkaSettings['tls']> => ({ ca: broker.authority, cert: null, key: null });
    const connectFailing = async (settings: Partial<KafkaSettings>): Promise<KafkaFailure> =>
      failureOf(openKafka({ ...plain(broker), ...settings }).topics());

    it.each(['plain', 'scram-sha-256', 'scram-sha-512'] as const)(
      'lets in who shows by %s who it is',
      async (mechanism) => {
        const sasl = { mechanism, ...broker.user };
        const secure = openKafka({ brokers: [broker.address('saslTls')], tls: tls(), sasl });
        const topics = await secure.topics();
        const spec = newTopic();
        const states = await topics.ensure([spec]);
        await topics.close();
        const producer = await secure.producer(states);
        await producer.send(spec.name, [message('k', 'v')]);
        await producer.close();
        expect(await readAll(spec.name)).toHaveLength(1);
      },
    );

    it('says which setting is wrong, and no secret', async () => {
      const wrong = { mechanism: 'scram-sha-256', username: broker.user.username, password: 'hunter2' } as const;
      const failures = {
        untrusted: await connectFailing({ brokers: [broker.address('tls')], tls: { ca: null, cert: null, key: null } }),
        toPlain: await connectFailing({ tls: tls() }),
        password: await connectFailing({ brokers: [broker.address('sasl')], sasl: wrong }),
        nobody: await connectFailing({ brokers: ['127.0.0.1:1'] }),
        unknown: await connectFailing({ brokers: ['no-such-host.invalid:9092'] }),
      };
      const told = Object.fromEntries(Object.entries(failures).map(([name, { message: words }]) => [name, words]));
      expect(told).toEqual({
        untrusted: expect.stringContaining('HOOKLEDGER_KAFKA_SSL_CA'),
        toPlain: expect.stringContaining('HOOKLEDGER_KAFKA_SSL'),
        password: expect.stringContaining('HOOKLEDGER_KAFKA_SASL_USERNAME'),
        nobody: expect.stringContaining('ECONNREFUSED'),
        unknown: expect.stringContaining('HOOKLEDGER_KAFKA_BROKERS'),
      });
      expect(JSON.stringify(told)).not.toContain('hunter2');
    });

    it('names the file that it cannot use', () => {
      const open = (ca: string) => (): Kafka => openKafka({ ...plain(broker), tls: { ca, cert: null, key: null } });
      expect(open('/no/such/file.pem')).toThrow('/no/such/file.pem cannot be read (ENOENT)');
      expect(open(import.meta.filename)).toThrow('holds no PEM');
    });

    it('does not wait for ever for a port that accepts and never answers', async () => {
      const silent: Server = createServer((socket) => socket.on('error', () => undefined).resume());
      await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
      const address = silent.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      const failure = await connectFailing({ brokers: [`127.0.0.1:${String(port)}`] });
      expect(failure.kind).toBe('unavailable');
      await new Promise((resolve) => silent.close(resolve));
    });
  });
});
