/* eslint-disable @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-member-access,
   @typescript-eslint/no-unsafe-call, @typescript-eslint/no-unsafe-return -- an answer is whatever the server said; expectations say what it is */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { installPlugin, lifecycleClients, type LifecycleClients } from './support/lifecycle-clients.js';
import { startServer, until, type RunningServer } from './support/running-server.js';
import { createTestDatabase, type TestDatabase } from './support/test-postgres.js';

const counts = { messageCount: 12, subagentCount: 1, peerThreadCount: 0 };
const deleted = { deletedMessageCount: 12, deletedSubagentCount: 1, deletedPeerThreadCount: 0 };
const clear = (clearId: string, more: object = {}): object => ({
  clearId,
  agentId: '7',
  trailingText: 'and start over',
  ...counts,
  ...more,
});

/** Busy for a second and a half where the agent is called slow, and at odds with agents called bad. */
const source = `
  const work = (c) => {
    if (c.agentId === 'bad') throw new Error('no');
    const end = Date.now() + (c.agentId === 'slow' ? 1500 : 0);
    while (Date.now() < end);
  };
  globalThis.middleware.sessionClearing = async (c) => { work(c); host.log('info', 'saved ' + c.messageCount); };
  globalThis.middleware.sessionClearCompleted = async (c) => { work(c); };`;

let first: RunningServer;
let server: RunningServer;
let clients: LifecycleClients;

beforeAll(async () => {
  first = await startServer();
  server = first;
  clients = await lifecycleClients(server);
  await installPlugin(server, 'saver', source);
}, 120_000);
afterAll(async () => {
  await server.stop();
  await first.close();
});

/** The one clear of a session, as the view shows it. */
const shown = async (sessionId: string) => {
  const answer = await clients.read(`/session-clears?sessionId=${encodeURIComponent(sessionId)}`);
  expect([answer.status, answer.body.items?.length]).toEqual([200, 1]);
  return answer.body.items[0];
};

const start = (sessionId: string, body: object) =>
  clients.post(`/sessions/${encodeURIComponent(sessionId)}/clears`, body);
const complete = (sessionId: string, clearId: string, body: object = deleted) =>
  clients.post(`/sessions/${encodeURIComponent(sessionId)}/clears/${encodeURIComponent(clearId)}/completion`, body);

describe('a clear', () => {
  it.each(['.', '..'])('has no id that clients take out of a path, or it could never be completed: %s', async (id) => {
    const refused = await start('dots', clear(id));
    expect([refused.status, refused.body.errors[0].pointer]).toEqual([422, '/clearId']);
  });

  it('runs its hooks around what is deleted and stands in the view with all of it', async () => {
    const started = await start('one', clear('c-1', { turnId: 't-9', occurredAt: '2026-11-30T10:00:00+01:00' }));
    expect([started.status, started.body.state]).toEqual([200, 'open']);
    expect(await shown('one')).toMatchObject({ state: 'open', completed: 'none', clearing: 'delivered' });
    const done = await complete('one', 'c-1');
    expect([done.status, done.body]).toMatchObject([200, { state: 'cleared', ...deleted, sessionId: 'one' }]);
    expect(await shown('one')).toMatchObject({
      clearId: 'c-1',
      agentId: '7',
      state: 'cleared',
      trailingText: 'and start over',
      ...counts,
      ...deleted,
      startedOccurredAt: '2026-11-30T09:00:00.000Z',
      clearing: 'delivered',
      completed: 'delivered',
      hooks: [
        {
          hook: 'sessionClearing',
          turnId: 't-9',
          operationId: 'c-1',
          handlers: [{ pluginId: 'saver', outcome: 'observed' }],
        },
        { hook: 'sessionClearCompleted', operationId: 'c-1', invocationId: done.body.invocationId },
      ],
      positions: { cleared: done.body.position },
    });
    const timeline = await clients.read('/sessions/one/timeline?order=oldest');
    expect(timeline.body.items.filter(({ kind }: { kind: string }) => kind === 'clear')).toMatchObject([
      { type: 'session.clear_started', clear: { clearId: 'c-1', state: 'cleared' } },
      { type: 'session.cleared' },
    ]);
  });

  it('shows what people typed only to keys that see content', async () => {
    await start('hidden', clear('c-1'));
    const answer = await clients.readBlind('/session-clears?sessionId=hidden');
    expect(answer.body.items[0].trailingText).toEqual({ hidden: true, size: expect.any(Number) });
    expect(answer.text).not.toContain('start over');
  });

  it('that is repeated gives the first answer, with a key or without, and is cleared once', async () => {
    const key = { 'idempotency-key': 'clear-two' };
    const body = clear('c-2');
    const answers = [
      await clients.post('/sessions/two/clears', body, key),
      await clients.post('/sessions/two/clears', body, key),
    ];
    expect(answers.map(({ headers }) => headers.get('idempotency-replayed'))).toEqual([null, 'true']);
    expect(answers[1]?.body).toEqual(answers[0]?.body);
    expect((await start('two', body)).body).toEqual(answers[0]?.body);
    const done = await complete('two', 'c-2');
    expect((await complete('two', 'c-2', { ...deleted, deletedMessageCount: 1 })).body).toEqual(done.body);
    expect((await shown('two')).hooks).toHaveLength(2);
  });

  it('whose handler fails is cleared all the same, and is seen to have failed (MW-90)', async () => {
    expect((await start('failing', clear('c', { agentId: 'bad' }))).status).toBe(200);
    expect((await complete('failing', 'c')).status).toBe(200);
    expect(await shown('failing')).toMatchObject({ state: 'cleared', clearing: 'failed', completed: 'failed' });
    const failed = await clients.read('/session-clears?completed=failed');
    expect(failed.body.items.map(({ sessionId }: { sessionId: string }) => sessionId)).toEqual(['failing']);
  });

  it('that does not fit is refused field by field, and so is one of nobody', async () => {
    const misfit = await start('bad', { clearId: 7, agentId: '7', messageCount: -1, subagentCount: 1.5, extra: true });
    expect(misfit.status).toBe(422);
    const pointers = (misfit.body.errors as { pointer: string }[]).map(({ pointer }) => pointer).sort();
    expect(pointers).toEqual(['/clearId', '/extra', '/messageCount', '/peerThreadCount', '/subagentCount']);
    expect((await complete('never', 'c')).body).toMatchObject({ status: 404, code: 'unknown_clear' });
    expect((await complete('never', 'c', { ...deleted, agentId: '7' })).status).toBe(200);
    expect(await shown('never')).toMatchObject({ state: 'cleared', startedAt: null, clearing: 'none' });
    await start('whose', clear('c'));
    expect((await start('whose', clear('c', { agentId: '8' }))).body).toMatchObject({
      status: 409,
      code: 'clear_differs',
    });
  });

  it('is for runtimes to report and for auditors to read', async () => {
    const path = '/v1/accounts/default/session-clears';
    expect((await server.call('GET', path, { key: null })).status).toBe(401);
    expect((await clients.post('/session-clears')).status).toBe(405);
    const query = await clients.read('/session-clears?state=gone&x=1');
    expect([query.status, query.body.errors?.length]).toEqual([400, 2]);
  });
});

/** The hook of this session's clear is on record as begun. */
const begun = async (hook: string, many: number): Promise<void> => {
  await until(`${hook} begins`, async () => {
    const opened = await clients.events('invocation.opened');
    return opened.filter((event) => event.hook === hook).length === many;
  });
};

const opened = async (hook: string): Promise<number> =>
  (await clients.events('invocation.opened')).filter((event) => event.hook === hook).length;

const restart = async (): Promise<void> => {
  await server.kill();
  server = await startServer({ dataDir: first.dataDir });
  clients = clients.at(server);
};

describe('a server that is killed', () => {
  it('while sessionClearing runs: it runs again, both are seen, and the session is cleared once (MW-91)', async () => {
    const before = await opened('sessionClearing');
    const lost = start('crash-1', clear('c', { agentId: 'slow' })).catch(() => null);
    await begun('sessionClearing', before + 1);
    await restart();
    expect(await lost).toBeNull();
    expect((await start('crash-1', clear('c', { agentId: 'slow' }))).status).toBe(200);
    expect((await complete('crash-1', 'c')).status).toBe(200);
    await until('the lost attempt is on record', async () => (await shown('crash-1')).hooks[0].state === 'lost');
    const seen = await shown('crash-1');
    expect(seen).toMatchObject({ state: 'cleared', clearing: 'delivered', completed: 'delivered' });
    expect(seen.hooks).toMatchObject([
      { hook: 'sessionClearing', state: 'lost', attempt: 1 },
      { hook: 'sessionClearing', state: 'closed', attempt: 2, previousInvocationId: seen.hooks[0].invocationId },
      { hook: 'sessionClearCompleted', state: 'closed' },
    ]);
  }, 120_000);

  it('while sessionClearCompleted runs: session.cleared stands, once, and who repeats the call is answered', async () => {
    await start('crash-2', clear('c', { agentId: 'slow' }));
    const before = await opened('sessionClearCompleted');
    const lost = complete('crash-2', 'c').catch(() => null);
    await begun('sessionClearCompleted', before + 1);
    await restart();
    expect(await lost).toBeNull();
    const cleared = (await clients.events('session.cleared')).length;
    expect((await complete('crash-2', 'c')).status).toBe(200);
    expect((await clients.events('session.cleared')).length).toBe(cleared);
    await until('the lost attempt is on record', async () => (await shown('crash-2')).hooks[1].state === 'lost');
    expect(await shown('crash-2')).toMatchObject({ state: 'cleared', completed: 'delivered' });
  }, 120_000);

  it('and whose runtime never comes back: the clear shows what was lost', async () => {
    await start('crash-3', clear('c', { agentId: 'slow' }));
    const before = await opened('sessionClearCompleted');
    const lost = complete('crash-3', 'c').catch(() => null);
    await begun('sessionClearCompleted', before + 1);
    await restart();
    await lost;
    await until('it is seen to be lost', async () => (await shown('crash-3')).completed === 'lost');
    const list = await clients.read('/session-clears?completed=lost');
    expect(list.body.items).toMatchObject([{ sessionId: 'crash-3', state: 'cleared' }]);
  }, 120_000);
});

describe('three replicas', () => {
  let database: TestDatabase;
  const replicas: RunningServer[] = [];
  beforeAll(async () => {
    database = await createTestDatabase();
    const env = { DATABASE_URL: database.url, HOOKLEDGER_MASTER_KEY: '11'.repeat(32) };
    for (let n = 0; n < 3; n += 1) replicas.push(await startServer({ env }));
  }, 180_000);
  afterAll(async () => {
    for (const replica of replicas) await replica.close();
    await database.drop();
  });

  it('clear a session once for fifty clients at once', async () => {
    const [one] = replicas;
    if (one === undefined) throw new Error('no replica started');
    const own = await lifecycleClients(one);
    await installPlugin(one, 'saver', source);
    const fifty = Array.from({ length: 50 }, (_, n) => own.at(replicas[n % 3] ?? one));
    const started = await Promise.all(fifty.map((client) => client.post('/sessions/s/clears', clear('c'))));
    expect(new Set(started.map(({ status, text }) => `${String(status)} ${text}`)).size).toBe(1);
    const done = await Promise.all(
      fifty.map((client, n) => client.post('/sessions/s/clears/c/completion', { ...deleted, deletedMessageCount: n })),
    );
    expect(new Set(done.map(({ status, text }) => `${String(status)} ${text}`)).size).toBe(1);
    expect(done[0]?.status).toBe(200);
    expect(await own.events('session.clear_started', 'session.cleared')).toHaveLength(2);
    const seen = await own.read('/session-clears');
    expect(seen.body.items).toMatchObject([{ state: 'cleared', clearing: 'delivered', completed: 'delivered' }]);
    expect(seen.body.items[0].hooks).toHaveLength(2);
  }, 120_000);
});
