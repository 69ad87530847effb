import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { startServer, type CallAnswer, type CallOptions, type RunningServer } from './support/running-server.js';

let server: RunningServer;
beforeAll(async () => {
  server = await startServer();
}, 120_000);
afterAll(() => server.close());

const base = '/v1/accounts/default';

/** What these tests read of an answer. */
interface Body {
  readonly invocationId: string;
  readonly turnId: string;
  readonly turnInferred: boolean;
  readonly outcome: string;
  readonly value: unknown;
  readonly repeated?: boolean;
  readonly matches: boolean | null;
  readonly positions: { readonly first: string; readonly last: string };
  readonly errors: readonly { readonly pointer: string }[];
  readonly items: readonly {
    readonly invocationId: string;
    readonly value?: string;
    readonly problem?: { readonly status: number };
  }[];
}
type Answer = Omit<CallAnswer, 'body'> & { readonly body: Body };

const call = (...given: Parameters<RunningServer['call']>): Promise<Answer> => server.call(...given) as Promise<Answer>;

const fire = (hook: string, body: unknown, more: CallOptions & { readonly query?: string } = {}): Promise<Answer> => {
  const { query = '', ...options } = more;
  return call('POST', `${base}/hooks/middleware/${hook}${query}`, { body, ...options });
};

const install = async (id: string, source: string, more: object = {}): Promise<void> => {
  const body = {
    id,
    name: id,
    version: '1.0.0',
    dialect: 'middleware',
    language: 'javascript',
    source,
    reason: 'test',
    ...more,
  };
  const answer = await server.call('POST', `${base}/plugins`, { body });
  expect([answer.status, answer.text]).toEqual([201, answer.text]);
};

const message = (text: string, sessionId = 's-1') => ({ context: { sessionId, channelId: null, text, mediaIds: [] } });
const opening = (sshHostId: string) => ({
  sessionId: 's-ssh',
  agentId: '7',
  sshHostId,
  hostDisplayName: 'web',
  hostname: '127.0.0.1',
  port: 22,
  connectionType: 'direct',
  username: 'deploy',
});

const newKey = async (role: string, more: object = {}): Promise<{ id: string; secret: string }> => {
  const answer = await server.call('POST', `${base}/keys`, { body: { role, name: role, ...more } });
  expect(answer.status).toBe(201);
  return answer.body as { id: string; secret: string };
};

const problem = ({ status, headers, body }: Answer) => ({
  status,
  type: headers.get('content-type'),
  pointers: body.errors.map(({ pointer }) => pointer),
});

describe('a firing over HTTP', () => {
  beforeAll(async () => {
    await install(
      'echo',
      `globalThis.middleware.userMessageInbound = async (c, tools) => {
         if (c.text === 'stop') return tools.cancel('stopped');
         if (c.text === 'slow') { for (const end = Date.now() + 1500; Date.now() < end;); }
         return c.text === 'same' ? c.text : c.text + '!';
       };
       let opened = 0;
       globalThis.middleware.sshConnectionOpening = async (c, tools) => {
         opened += 1;
         host.log('info', 'opened ' + opened);
         if (c.sshHostId === 'closed') return tools.cancel('host is closed');
       };`,
    );
  });

  it('answers after its events are committed, with their positions', async () => {
    const answer = await fire('userMessageInbound', { turnId: 't-1', ...message('hi') });
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      dialect: 'middleware',
      hook: 'userMessageInbound',
      turnId: 't-1',
      turnInferred: false,
      outcome: 'rewritten',
      value: 'hi!',
      cancellation: null,
      hop: 0,
      hostSession: 'granted',
      metered: true,
      attempt: 1,
    });
    const { first, last } = answer.body.positions;
    expect(BigInt(last) - BigInt(first)).toBe(2n);
  });

  it('tells a cancel from a pass', async () => {
    expect((await fire('userMessageInbound', message('stop'))).body).toMatchObject({
      outcome: 'cancelled',
      value: null,
      cancellation: { pluginId: 'echo', reason: 'stopped', code: null },
    });
    expect((await fire('userMessageInbound', message('same'))).body).toMatchObject({
      outcome: 'passed',
      value: 'same',
    });
  });

  it('carries any text byte for byte', async () => {
    const raw = '{"context":{"sessionId":"s","channelId":null,"text":"a\\u0000b\\ud800c\\u2028\\udc00","mediaIds":[]}}';
    const answer = await call('POST', `${base}/hooks/middleware/userMessageInbound`, { raw });
    expect(answer.status).toBe(200);
    expect(answer.body.value).toBe('a\u0000b\ud800c\u2028\udc00!');
  });

  it.each([
    ['an unknown dialect', '/hooks/nope/systemPrompt'],
    ['an unknown hook', '/hooks/middleware/nope'],
    ['an inherited name', '/hooks/middleware/constructor'],
  ])('knows no %s', async (_, path) => {
    expect((await call('POST', base + path, { body: message('x') })).status).toBe(404);
  });

  it.each([
    ['a missing field', { context: { sessionId: 's', channelId: null, mediaIds: [] } }, '/context/text'],
    ['an extra field', { context: { ...message('x').context, hop: 0 } }, '/context/hop'],
    ['a mistyped field', { context: { ...message('x').context, text: 5 } }, '/context/text'],
    ['an id that is a number', { context: { ...message('x').context, sessionId: 42 } }, '/context/sessionId'],
    ['an envelope id that is a number', { turnId: 1, ...message('x') }, '/turnId'],
    ['an unknown envelope field', { turn: 't', ...message('x') }, '/turn'],
    ['a token of nobody', { cause: 'abc.def', ...message('x') }, '/cause'],
    ['a chain of no invocation', { chainOf: 'nobody', ...message('x') }, '/chainOf'],
    ['a time without a zone', { occurredAt: '2026-11-30T10:00:00', ...message('x') }, '/occurredAt'],
  ])('refuses %s and names it', async (_, body, pointer) => {
    const answer = await fire('userMessageInbound', body);
    expect(problem(answer)).toEqual({ status: 422, type: 'application/problem+json', pointers: [pointer] });
  });

  it('runs once for one idempotency key sent by fifty clients at once', async () => {
    const headers = { 'idempotency-key': 'fifty' };
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => fire('userMessageInbound', { turnId: 't-50', ...message('x') }, { headers })),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers.filter(({ headers: given }) => given.get('idempotency-replayed') === 'true')).toHaveLength(49);
    const other = await fire('userMessageInbound', { turnId: 't-50', ...message('y') }, { headers });
    expect(other.status).toBe(422);
  });

  it('opens a server once per turn, also for those who ask at the same time', async () => {
    const ask = (turnId: string, host: string) => fire('sshConnectionOpening', { turnId, context: opening(host) });
    const first = await Promise.all(Array.from({ length: 8 }, () => ask('turn-a', 'closed')));
    expect(new Set(first.map(({ body }) => body.invocationId)).size).toBe(1);
    expect(first.filter(({ body }) => body.repeated === true)).toHaveLength(7);
    expect(first.every(({ body }) => body.outcome === 'cancelled')).toBe(true);
    const next = await ask('turn-b', 'closed');
    expect(next.body.repeated).toBeUndefined();
    expect(next.body.invocationId).not.toBe(first[0]?.body.invocationId);
  });

  it('gives a session that names no turn one, and a new one with the next message', async () => {
    const prompt = () =>
      fire('systemPrompt', { context: { sessionId: 's-9', agentId: '7', sessionKind: 'direct', systemPrompt: 'p' } });
    const a = await fire('userMessageInbound', message('1', 's-9'));
    const b = await prompt();
    const c = await prompt();
    const d = await fire('userMessageInbound', message('2', 's-9'));
    expect(a.body.turnInferred).toBe(true);
    expect(b.body.turnId).toBe(a.body.turnId);
    expect(new Set([a, c, d].map(({ body }) => body.turnId)).size).toBe(3);
  });

  it('gives firings of a session that come at once one turn', async () => {
    const add = () => fire('todoAdded', { context: { sessionId: 's-at-once', texts: ['a'] } });
    const all = await Promise.all(Array.from({ length: 8 }, add));
    expect(new Set(all.map(({ body }) => body.turnId)).size).toBe(1);
  });

  it('takes a leap second and an offset, and says what cannot be', async () => {
    const at = (occurredAt: string) => fire('userMessageInbound', { occurredAt, ...message('x') });
    expect((await at('2026-12-31T23:59:60Z')).status).toBe(200);
    expect((await at('2026-12-31T12:00:00+02:00')).status).toBe(200);
    expect(problem(await at('9999-12-31T23:59:59-23:59'))).toMatchObject({ status: 422, pointers: ['/occurredAt'] });
  });

  it('answers later for a chain that outlasts the wait', async () => {
    const early = await fire('userMessageInbound', message('slow'), { query: '?wait=0' });
    expect(early.status).toBe(202);
    const { invocationId } = early.body;
    const late = await call('GET', `${base}/answers/${invocationId}?wait=20`);
    expect([late.status, late.body.value]).toEqual([200, 'slow!']);
  });

  it("shows a runtime its own answers and nobody else's", async () => {
    const [mine, other] = [await newKey('runtime'), await newKey('runtime')];
    const fired = await fire('userMessageInbound', message('mine'), { key: mine.secret });
    const path = `${base}/answers/${fired.body.invocationId}`;
    expect((await call('GET', path, { key: mine.secret })).text).toBe(fired.text);
    expect((await call('GET', path, { key: other.secret })).status).toBe(404);
    expect((await call('GET', `${base}/invocations`, { key: mine.secret })).status).toBe(403);
  });

  it('fires a batch in order, an answer or a problem per item', async () => {
    const items = [
      { dialect: 'middleware', hook: 'userMessageInbound', ...message('1') },
      { dialect: 'middleware', hook: 'userMessageInbound', context: {} },
      { dialect: 'middleware', hook: 'userMessageInbound', ...message('3') },
    ];
    const send = (given: readonly unknown[]) =>
      call('POST', `${base}/hooks/batch`, { body: { items: given }, headers: { 'idempotency-key': 'batch-1' } });
    const answer = await send(items);
    expect(answer.status).toBe(200);
    expect(answer.body.items.map((item) => item.value ?? item.problem?.status)).toEqual(['1!', 422, '3!']);
    const again = await send(items);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(again.body.items.map((item) => item.invocationId)).toEqual(
      answer.body.items.map((item) => item.invocationId),
    );
    // The key is the whole batch's: with other items nothing runs.
    expect((await send([...items, items[0]])).status).toBe(422);
    expect((await fire('userMessageInbound', message('1'), { headers: { 'idempotency-key': 'batch-1' } })).status).toBe(
      422,
    );
  });

  it('records what the runtime did with an answer, and whether it is what was answered', async () => {
    const fired = await fire('userMessageInbound', message('effect'));
    const path = `${base}/invocations/${fired.body.invocationId}/effect`;
    const digest = '5a5c7a0b9b5a38a7b0f4c5a8f2b2c8a2a63f3a5c0c6b7ac1a9d7f7f1d2e3b4c5';
    const answer = await call('POST', path, { body: { applied: true, digest } });
    expect([answer.status, answer.body.matches]).toEqual([200, false]);
    expect((await call('POST', path, { body: { applied: 'yes' } })).status).toBe(422);
    expect((await call('POST', `${base}/invocations/nobody/effect`, { body: { applied: true } })).status).toBe(404);
  });

  it('uses a change of the chain from the next firing on', async () => {
    await install('late', 'globalThis.middleware.assistantMessageOutbound = (c) => c.text + " (late)";');
    const out = () => fire('assistantMessageOutbound', { context: { sessionId: 's', channelId: null, text: 'a' } });
    expect((await out()).body.value).toBe('a (late)');
    const off = await call('PATCH', `${base}/plugins/late`, { body: { enabled: false, reason: 'test' } });
    expect(off.status).toBe(200);
    expect((await out()).body).toMatchObject({ value: 'a', handlers: [], metered: false });
  });

  it('runs nothing of a halted account, and goes on when it is resumed', async () => {
    const halt = await call('POST', `${base}/halt`, { body: { reason: 'incident', failureMode: 'closed' } });
    expect([200, 201]).toContain(halt.status);
    expect((await fire('userMessageInbound', message('x'))).body).toMatchObject({
      outcome: 'cancelled',
      cancellation: { code: 'account_halted' },
      handlers: [],
    });
    await call('DELETE', `${base}/halt`, {});
    expect((await fire('userMessageInbound', message('x'))).body.value).toBe('x!');
  });

  it('disables a plugin that keeps failing only in an account that asks for it', async () => {
    await install('bad', 'globalThis.middleware.notifyDelivered = () => { throw new Error("bug"); };');
    const wake = () => fire('notifyDelivered', { context: { sessionId: 's', notifyId: '1', message: 'wake' } });
    const enabled = async () => (await server.call('GET', `${base}/plugins/bad`)).body as { enabled: boolean };
    await wake();
    await wake();
    const settings = { circuitBreaker: { failures: 4, windowSeconds: 600 } };
    expect((await call('PATCH', `${base}/settings`, { body: settings })).status).toBe(200);
    await wake();
    expect((await enabled()).enabled).toBe(true);
    await wake();
    for (const end = Date.now() + 30_000; (await enabled()).enabled && Date.now() < end;) await delay(100);
    expect((await enabled()).enabled).toBe(false);
    const history = await server.call('GET', `${base}/plugins/bad/history`);
    expect(history.text).toContain('plugin.tripped');
    expect((await wake()).body).toMatchObject({ value: 'wake', handlers: [] });
  });
});
