import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from './support/test-postgres.js';
import { startServer, type CallAnswer, type RunningServer } from './support/running-server.js';

/** `POST …/unreachable`: what a runtime decided while it could not ask. */

const base = '/v1/accounts/default';
const keys: Record<string, string> = {};
let server: RunningServer;
let other: RunningServer;
let database: TestDatabase;

const start = (): Promise<RunningServer> =>
  startServer({ env: { DATABASE_URL: database.url, HOOKLEDGER_MASTER_KEY: '7a'.repeat(32) } });

beforeAll(async () => {
  database = await createTestDatabase();
  server = await start();
  other = await start();
  for (const role of ['runtime', 'admin', 'approver', 'auditor']) {
    const { body } = await server.call<{ secret: string }>('POST', `${base}/keys`, { body: { role, name: role } });
    keys[role] = body.secret;
  }
  const { body } = await server.call<{ secret: string }>('POST', `${base}/keys`, {
    body: { role: 'auditor', name: 'blind', content: 'none' },
  });
  keys.blind = body.secret;
  expect((await server.call('POST', '/v1/accounts', { body: { id: 'others', name: 'others' } })).status).toBe(201);
}, 120_000);

afterAll(async () => {
  await server.close();
  await other.close();
  await database.drop();
}, 60_000);

/** What these tests look at of an answer. */
interface Told {
  readonly arrivedAs: string | null;
  readonly invocationId: string;
  readonly code: string;
  readonly errors: readonly { readonly pointer: string }[];
  readonly items: readonly { readonly invocationId: string }[];
}

const context = { sessionId: '42', agentId: '7', sessionKind: 'direct', systemPrompt: 'You help.' };

const report = (
  more: object = {},
  options: { key?: string; headers?: Record<string, string> } = {},
): Promise<CallAnswer<Told>> =>
  server.call('POST', `${base}/unreachable`, {
    key: options.key ?? keys.runtime ?? '',
    headers: options.headers ?? {},
    body: {
      dialect: 'middleware',
      hook: 'systemPrompt',
      decision: 'open',
      attempts: 2,
      firing: { context, turnId: 't-1', dataSubject: 'user:1', occurredAt: '2026-11-30T10:00:00.123Z' },
      ...more,
    },
  });

const missed = async (
  key = server.operatorKey,
  query = 'content=open',
): Promise<readonly { data: Record<string, unknown> }[]> => {
  const path = `${base}/events?type=invocation.missed&limit=500&${query}`;
  return (await server.call<{ items: { data: Record<string, unknown> }[] }>('GET', path, { key })).body.items;
};

describe('a report of what was decided alone', () => {
  it('is on record once for a key, sealed under whose data it is', async () => {
    const headers = { 'idempotency-key': 'r-1' };
    const first = await report({}, { headers });
    const again = await report({}, { headers });
    expect([first.status, again.status, again.headers.get('idempotency-replayed')]).toEqual([200, 200, 'true']);
    expect(again.body).toEqual(first.body);
    const events = await missed();
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      sessionId: '42',
      turnId: 't-1',
      hook: 'systemPrompt',
      occurredAt: '2026-11-30T10:00:00.123Z',
      reasonCode: 'unreachable',
      data: { decision: 'open', attempts: 2, context, dataSubject: { sealed: 'user:1' } },
    });
    const [sealed] = await missed(keys.blind, 'content=sealed');
    expect(JSON.stringify(sealed)).not.toContain('You help.');
    const erased = await server.call('POST', `${base}/erasures`, {
      body: { scope: { dataSubject: 'user:1' }, reason: 'asked' },
    });
    expect([erased.status < 300, erased.text]).toEqual([true, erased.text]);
  });

  it('takes nobody but runtimes of the account and operators', async () => {
    const statuses = await Promise.all(
      ['admin', 'approver', 'auditor'].map(async (role) => (await report({}, { key: keys[role] ?? '' })).status),
    );
    expect(statuses).toEqual([403, 403, 403]);
    const foreign = await server.call('POST', '/v1/accounts/others/unreachable', { key: keys.runtime ?? '', body: {} });
    expect(foreign.status).toBe(404);
  });

  it('fits the hook, or is refused with a pointer into what would have been fired', async () => {
    const pointers = async (more: object): Promise<unknown> => {
      const { status, body } = await report(more);
      return [status, body.errors.map(({ pointer }) => pointer)];
    };
    expect(await pointers({ firing: { context: { ...context, sessionId: 7 } } })).toEqual([
      422,
      ['/firing/context/sessionId'],
    ]);
    expect(await pointers({ firing: { context, turnId: 'a\u0000b' } })).toEqual([422, ['/firing/turnId']]);
    expect(await pointers({ firing: [] })).toEqual([422, ['/firing']]);
    expect(await pointers({ decision: 'maybe' })).toEqual([422, ['/decision']]);
    expect(await pointers({ attempts: -1 })).toEqual([422, ['/attempts']]);
    expect(await pointers({ firingKey: 'a b' })).toEqual([422, ['/firingKey']]);
    expect(await pointers({ batchIndex: 100 })).toEqual([422, ['/batchIndex']]);
    expect(await pointers({ surprise: 1 })).toEqual([422, ['/surprise']]);
    expect((await report({ hook: 'noSuchHook' })).status).toBe(404);
    expect((await report({ dialect: '__proto__' })).status).toBe(404);
    const raw = `{"dialect":"middleware","hook":"systemPrompt","decision":"open","attempts":1,"firing":{"__proto__":{"context":{}}}}`;
    const odd = await server.call('POST', `${base}/unreachable`, {
      key: keys.runtime ?? '',
      raw,
      headers: { 'content-type': 'application/json' },
    });
    expect(odd.status).toBe(422);
  });

  it('keeps any text as it came', async () => {
    const systemPrompt = `\u0000 \ud800 ${'x'.repeat(1024 * 1024)}`;
    expect((await report({ firing: { context: { ...context, sessionId: '43', systemPrompt } } })).status).toBe(200);
    const events = await missed();
    expect((events.at(-1)?.data.context as { systemPrompt: string }).systemPrompt).toBe(systemPrompt);
  });

  it('uses the key of the firing up, and of a batch the one of its item', async () => {
    const fire = (key: string): Promise<CallAnswer<Told>> =>
      server.call('POST', `${base}/hooks/middleware/systemPrompt`, {
        key: keys.runtime ?? '',
        headers: { 'idempotency-key': key },
        body: { context },
      });
    const before = await fire('f-1');
    expect((await report({ firingKey: 'f-1' })).body.arrivedAs).toBe(before.body.invocationId);
    expect((await report({ firingKey: 'f-2' })).body.arrivedAs).toBe(null);
    expect((await fire('f-2')).body.code).toBe('idempotency_key_reused');
    expect((await fire('f-1')).body.invocationId).toBe(before.body.invocationId);
    // Told twice under other keys of its own: the firing's key is used up already, by no invocation.
    expect((await report({ firingKey: 'f-2' })).body.arrivedAs).toBe(null);
    const item = { dialect: 'middleware', hook: 'systemPrompt', context };
    const batch = await server.call<Told>('POST', `${base}/hooks/batch`, {
      key: keys.runtime ?? '',
      headers: { 'idempotency-key': 'b-1' },
      body: { items: [item, item] },
    });
    const told = await report({ firingKey: 'b-1', batchIndex: 1 });
    expect(told.body.arrivedAs).toBe(batch.body.items[1]?.invocationId);
  });

  it('is one of two, where a firing and its report come at once at two replicas', async () => {
    for (let n = 0; n < 10; n += 1) {
      const headers = { 'idempotency-key': `race-${String(n)}` };
      const [answer, told] = await Promise.all([
        other.call<Told>('POST', `${base}/hooks/middleware/systemPrompt`, {
          key: keys.runtime ?? '',
          headers,
          body: { context },
        }),
        report({ firingKey: `race-${String(n)}` }),
      ]);
      expect(told.status).toBe(200);
      if (answer.status === 200) expect(told.body.arrivedAs).toBe(answer.body.invocationId);
      else expect([answer.body.code, told.body.arrivedAs]).toEqual(['idempotency_key_reused', null]);
    }
  }, 60_000);
});
