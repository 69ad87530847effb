import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { postgresPid, startServer, type RunningServer } from './support/running-server.js';

const base = '/v1/accounts/default';
const first = await startServer();
let server: RunningServer = first;

const source = 'globalThis.middleware.userMessageInbound = async (c) => c.text + "!";';

beforeAll(async () => {
  const body = {
    id: 'p',
    name: 'p',
    version: '1',
    dialect: 'middleware',
    language: 'javascript',
    source,
    reason: 'test',
  };
  expect((await server.call('POST', `${base}/plugins`, { body })).status).toBe(201);
}, 60_000);
afterAll(async () => {
  await server.stop();
  await first.close();
});

const fireOne = async (text: string): Promise<string | null> => {
  const body = { turnId: `turn-${text}`, context: { sessionId: 's', channelId: null, text, mediaIds: [] } };
  const answer = await server.call('POST', `${base}/hooks/middleware/userMessageInbound`, { body }).catch(() => null);
  return answer?.status === 200 ? (answer.body as { invocationId: string }).invocationId : null;
};

/** Fires from eight clients until told to stop; returns what was answered, and how many were not. */
const burst = (label: string) => {
  let going = true;
  const answered: string[] = [];
  let refused = 0;
  const client = async (number: number) => {
    for (let i = 0; going; i += 1) {
      const id = await fireOne(`${label}-${String(number)}-${String(i)}`);
      if (id === null) refused += 1;
      else answered.push(id);
      if (id === null) await delay(20);
    }
  };
  const clients = Promise.all(Array.from({ length: 8 }, (_, number) => client(number)));
  return {
    answered,
    refused: () => refused,
    stop: async () => {
      going = false;
      await clients;
      return { answered, refused };
    },
  };
};

/** Every answered invocation is whole in the log: opened, one verdict, closed; and no other is there in part. */
const expectWhole = async (answered: readonly string[]): Promise<void> => {
  const seen = new Map<string, string[]>();
  let after = '';
  let expected = 0n;
  for (;;) {
    const page = await server.call('GET', `${base}/events?limit=500${after === '' ? '' : `&after=${after}`}`);
    expect(page.status).toBe(200);
    const items = page.body.items as { position: string; type: string; invocationId?: string }[];
    for (const { position, type, invocationId } of items) {
      expect(BigInt(position)).toBe(expected);
      expected += 1n;
      if (invocationId === undefined) continue;
      seen.set(invocationId, [...(seen.get(invocationId) ?? []), type]);
    }
    const last = items.at(-1);
    if (last === undefined) break;
    after = last.position;
  }
  const whole = ['invocation.opened', 'handler.rewrote', 'invocation.closed'];
  for (const id of answered) expect(seen.get(id)).toEqual(whole);
  for (const types of seen.values()) expect(types).toEqual(whole);
};

const childrenOf = (pid: number): readonly number[] =>
  readFileSync(`/proc/${String(pid)}/task/${String(pid)}/children`, 'utf8')
    .split(' ')
    .filter((text) => text !== '')
    .map(Number);

const until = async (condition: () => Promise<boolean>): Promise<void> => {
  for (const end = Date.now() + 60_000; Date.now() < end; await delay(100)) if (await condition()) return;
  throw new Error('it did not come about within a minute');
};

describe('accepted means durable', () => {
  it('loses no answered firing when the program is killed, and starts again by itself', async () => {
    const answered: string[] = [];
    for (let round = 0; round < 3; round += 1) {
      const load = burst(`kill${String(round)}`);
      await until(() => Promise.resolve(load.answered.length > 20));
      await server.kill();
      answered.push(...(await load.stop()).answered);
      server = await startServer({ dataDir: first.dataDir });
    }
    await expectWhole(answered);
  }, 180_000);

  it('answers 503 while its Postgres is dead, recovers without a restart, and loses nothing', async () => {
    const load = burst('pg');
    await until(() => Promise.resolve(load.answered.length > 20));
    const pid = postgresPid(first.dataDir) ?? 0;
    expect(pid).toBeGreaterThan(1);
    // Its children too: left to themselves they serve their connections for a while.
    for (const one of [pid, ...childrenOf(pid)]) process.kill(one, 'SIGKILL');
    await until(() => Promise.resolve(load.refused() > 0 && (postgresPid(first.dataDir) ?? pid) !== pid));
    const before = load.answered.length;
    await until(() => Promise.resolve(load.answered.length > before + 50));
    const { answered, refused } = await load.stop();
    expect(refused).toBeGreaterThan(0);
    expect((await server.call('GET', '/health/live', { key: null })).status).toBe(200);
    await expectWhole(answered);
  }, 180_000);

  it('closes a firing that is under way when it is asked to stop', async () => {
    const load = burst('stop');
    await until(() => Promise.resolve(load.answered.length > 20));
    expect(await server.stop()).toBe(0);
    const { answered } = await load.stop();
    server = await startServer({ dataDir: first.dataDir });
    await expectWhole(answered);
  }, 120_000);
});
