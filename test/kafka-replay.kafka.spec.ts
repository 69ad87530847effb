import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { decodeEvent, openKafka, type ConsumedMessage } from '#kafka';
import { startServer, until, type RunningServer } from './support/running-server.js';
import { startTestBroker, type TestBroker } from './support/kafka-broker.js';

const program = join(import.meta.dirname, '../bin/hookledger.js');
const base = '/v1/accounts/default';
const prefix = `r-${randomBytes(4).toString('hex')}`;
let broker: TestBroker;
let server: RunningServer;

const settings = (): Record<string, string> => ({
  HOOKLEDGER_KAFKA_BROKERS: broker.address(),
  HOOKLEDGER_KAFKA_TOPIC_PREFIX: prefix,
  HOOKLEDGER_KAFKA_PARTITIONS: '3',
});

beforeAll(async () => {
  broker = await startTestBroker();
  server = await startServer({ env: settings() });
  for (let n = 0; n < 40; n += 1) await say(n);
  await relayed();
}, 180_000);

afterAll(async () => {
  await server.close();
  await broker.close();
});

const say = async (n: number): Promise<void> => {
  const context = { sessionId: `s-${String(n % 5)}`, channelId: null, text: `word ${String(n)}`, mediaIds: [] };
  const answer = await server.call('POST', `${base}/hooks/middleware/userMessageInbound`, { body: { context } });
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
};

const relayed = (): Promise<void> =>
  until('everything is on Kafka', async () => {
    const { body } = await server.call<{ relayLag: number | null }>('GET', '/health/ready', { key: null });
    return body.relayLag === 0;
  });

interface Summary {
  readonly replayId: string;
  readonly events: number;
  readonly differences: number;
  readonly missingOnKafka: number;
  readonly swapped: readonly string[];
}

const replay = (...args: readonly string[]): Promise<{ code: number | null; out: string; err: string }> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [program, 'replay', ...args, '--json'], {
      env: { PATH: process.env.PATH ?? '', HOOKLEDGER_DATA: server.dataDir, ...settings() },
    });
    let [out, err] = ['', ''];
    child.stdout.on('data', (piece) => (out += String(piece)));
    child.stderr.on('data', (piece) => (err += String(piece)));
    child.once('close', (code) => resolve({ code, out, err }));
  });

const messagesOf = async (topic: string): Promise<readonly ConsumedMessage[]> => {
  const messages: ConsumedMessage[] = [];
  const kafka = openKafka({ brokers: [broker.address()], tls: null, sasl: null });
  await kafka.readTopic({ topic, handle: (some) => Promise.resolve(void messages.push(...some)) });
  return messages;
};

describe('a replay into a topic', () => {
  it('sends every event once more, marked, in order for each session, and to a topic of its own', async () => {
    const { code, out, err } = await replay('--to', 'topic:copies', '--account', 'default');
    expect([code, err]).toEqual([0, '']);
    const summary = JSON.parse(out) as Summary;
    const copies = await messagesOf('copies');
    expect(copies).toHaveLength(summary.events);
    expect(new Set(copies.map(({ headers }) => headers.ce_replay))).toEqual(new Set([summary.replayId]));
    const first = await messagesOf(`${prefix}.events`);
    expect(first.some(({ headers }) => headers.ce_replay !== undefined)).toBe(false);
    const bytesOf = (messages: readonly ConsumedMessage[]) =>
      new Map(
        messages.map(({ headers, key, value }) => [headers.ce_id, [key, Buffer.from(value ?? []).toString('hex')]]),
      );
    const originals = bytesOf(first);
    for (const [id, copy] of bytesOf(copies)) expect(copy).toEqual(originals.get(id));
    const last = new Map<string, bigint>();
    for (const message of copies) {
      const decoded = decodeEvent(message);
      if (decoded.kind !== 'event') throw new Error(decoded.kind);
      expect(decoded.stored.position > (last.get(message.key ?? '') ?? -1n)).toBe(true);
      last.set(message.key ?? '', decoded.stored.position);
    }
  }, 120_000);

  it('refuses the topics of the log, which consumers would take for it', async () => {
    for (const name of ['events', 'events.another-account', 'blobs', 'keys', 'checkpoints']) {
      const { code, err } = await replay('--to', `topic:${prefix}.${name}`);
      expect([code, err]).toEqual([1, expect.stringContaining('the relay')]);
    }
  }, 120_000);
});

describe('a replay from Kafka', () => {
  it('builds the rows that following Postgres built', async () => {
    await relayed();
    const { code, out, err } = await replay('--to', 'projection:all', '--source', 'kafka', '--check');
    expect([code, err, out]).toEqual([0, '', expect.stringContaining('"differences":0')]);
    const summary = JSON.parse(out) as Summary;
    expect(summary.swapped).toContain('record');
    const found = await server.call<{ items: unknown[] }>('GET', `${base}/invocations?limit=100`);
    expect(found.body.items).toHaveLength(40);
  }, 120_000);
});
