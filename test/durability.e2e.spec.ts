import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { postgresPid, startServer, type CallAnswer, type RunningServer } from './support/running-server.js';

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

const send = (text: string): Promise<CallAnswer> => {
  const body = { turnId: `turn-${text}`, context: { sessionId: 's', channelId: null, text, mediaIds: [] } };
  return server.call('POST', `${base}/hooks/middleware/userMessageInbound`, { body });
};

const fireOne = async (text: string): Promise<string | null> => {
  const answer = await send(text).catch(() => null);
  return answer?.status === 200 ? (answer.body as { invocationId: string }).invocationId : null;
};

const going = new Set<() => void>();
afterEach(() => {
  // A test that failed leaves its clients firing.
  for (const stop of going) stop();
});

/** Fires from eight clients until told to stop; what was answered is what must be there. */
const burst = (label: string) => {
  const answered: string[] = [];
  let on = true;
  const stop = () => {
    on = false;
  };
  going.add(stop);
  const client = async (number: number) => {
    for (let i = 0; on; i += 1) {
      const id = await fireOne(`${label}-${String(number)}-${String(i)}`);
      if (id === null) await delay(20);
      else answered.push(id);
    }
  };
  const clients = Promise.all(Array.from({ length: 8 }, (_, number) => client(number)));
  return {
    answered,
    stop: async (): Promise<readonly string[]> => {
      stop();
      going.delete(stop);
      await clients;
      return answered;
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
    const { items } = page.body as {
      items: { position: string; type: string; invocationId?: string }[];
    };
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

/** The postmaster and its children. */
const postgresPids = (): readonly number[] => {
  const pid = postgresPid(first.dataDir) ?? 0;
  expect(pid).toBeGreaterThan(1);
  const children = readFileSync(`/proc/${String(pid)}/task/${String(pid)}/children`, 'utf8');
  return [pid, ...children.split(' ').filter(Boolean).map(Number)];
};

/** Waits for what must come about, however slow the machine is. */
const until = async (condition: () => boolean | Promise<boolean>): Promise<void> => {
  for (const end = Date.now() + 150_000; Date.now() < end;) {
    if (await condition()) return;
    await delay(50);
  }
  throw new Error('it did not come about');
};

describe('accepted means durable', () => {
  it('loses no answered firing when the program is killed, and starts again by itself', async () => {
    const answered: string[] = [];
    for (let round = 0; round < 3; round += 1) {
      const load = burst(`kill${String(round)}`);
      await until(() => load.answered.length > 20);
      await server.kill();
      answered.push(...(await load.stop()));
      server = await startServer({ dataDir: first.dataDir });
    }
    await expectWhole(answered);
  }, 180_000);

  it('goes on by itself after its Postgres was killed, and loses nothing', async () => {
    const load = burst('pg');
    await until(() => load.answered.length > 20);
    const pid = postgresPid(first.dataDir) ?? 0;
    // Its children too: left to themselves they serve their connections for a while.
    for (const one of postgresPids()) process.kill(one, 'SIGKILL');
    await until(() => (postgresPid(first.dataDir) ?? pid) !== pid);
    const before = load.answered.length;
    await until(() => load.answered.length > before + 50);
    await expectWhole(await load.stop());
  }, 180_000);

  it('answers 503 while its Postgres does not, and goes on when it does', async () => {
    const stopped = postgresPids();
    for (const one of stopped) process.kill(one, 'SIGSTOP');
    try {
      const refused = await send('while-stopped');
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
      expect((await server.call('GET', '/health/live', { key: null })).status).toBe(200);
      expect((await server.call('GET', '/health/ready', { key: null })).status).toBe(503);
    } finally {
      for (const one of stopped) process.kill(one, 'SIGCONT');
    }
    await until(async () => (await send('after')).status === 200);
    await until(async () => (await server.call('GET', '/health/ready', { key: null })).status === 200);
  }, 180_000);

  it('closes a firing that is under way when it is asked to stop', async () => {
    const load = burst('stop');
    await until(() => load.answered.length > 20);
    expect(await server.stop()).toBe(0);
    const answered = await load.stop();
    server = await startServer({ dataDir: first.dataDir });
    await expectWhole(answered);
  }, 120_000);
});
