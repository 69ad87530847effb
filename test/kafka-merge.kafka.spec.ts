import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { encodeEvent, mergeTopics, openKafka, type EventRecord, type Gap, type Kafka } from '#kafka';
import { canonicalJson } from '#record';
import { startTestBroker, type TestBroker } from './support/kafka-broker.js';

const partitions = 5;
const count = 24_000;
let broker: TestBroker;
let kafka: Kafka;

beforeAll(async () => {
  broker = await startTestBroker();
  kafka = openKafka({ brokers: [broker.address()], tls: null, sasl: null });
  for (const topic of ['log.events', 'log.events.own']) await broker.createTopic(topic, partitions);
  const producer = await kafka.producer(
    ['log.events', 'log.events.own'].map((name) => ({ name, partitions, maxMessageBytes: 1_000_000 })),
  );
  for (let at = 0; at < count; at += 2_000) {
    const records = Array.from({ length: 2_000 }, (_, n) => recordAt(at + n));
    for (const topic of ['log.events', 'log.events.own']) {
      const own = records.filter(({ account }) => (account === 'own') === (topic === 'log.events.own'));
      await producer.send(
        topic,
        own.map((record) => encodeEvent(record, { source: '/hookledger/x', epoch: 3n })),
      );
    }
  }
  await producer.close();
}, 180_000);
afterAll(() => broker.close());

/** For a long time everything is of one session, so that one partition is far ahead of the rest. */
const recordAt = (at: number): EventRecord => {
  const account = at % 10 === 0 ? 'own' : 'a';
  const sessionId = at < 16_000 ? 'long' : `s${String(at % 50)}`;
  const event = {
    id: `019a0c4e-7c00-7abc-8def-${String(at).padStart(12, '0')}`,
    type: 'invocation.opened',
    schema: 1,
    account,
    stream: `invocation/${String(at)}`,
    streamVersion: 1,
    recordedAt: '2026-03-01T10:00:00.000Z',
    occurredAt: '2026-03-01T10:00:00.000Z',
    sessionId,
    data: {},
  };
  const { id, type, stream } = event;
  const bytes = Buffer.from(canonicalJson(event));
  const occurredAt = new Date(event.occurredAt);
  return { globalPosition: BigInt(at), position: BigInt(at), id, type, account, stream, sessionId, occurredAt, bytes };
};

describe('topics of a real broker, read as one log', () => {
  it('give every event in the order of the log, also to a handler that is slower than they are', async () => {
    const positions: bigint[] = [];
    const gaps: Gap[] = [];
    const merge = mergeTopics({
      kafka,
      topics: ['log.events', 'log.events.own'],
      after: -1n,
      until: 'end',
      handle: async (events) => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        expect(events.every(({ place }) => place?.epoch === 3n)).toBe(true);
        positions.push(...events.map(({ globalPosition }) => globalPosition));
      },
      largeBytes: () => Promise.resolve(null),
      missing: (gap) => {
        gaps.push(gap);
        return Promise.resolve([]);
      },
    });
    await merge.ended;
    expect(gaps).toEqual([]);
    expect(positions).toEqual(Array.from({ length: count }, (_, at) => BigInt(at)));
  });
});
