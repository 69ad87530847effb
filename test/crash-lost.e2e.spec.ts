/* eslint-disable @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-member-access
   -- an answer is whatever the server said; expectations say what it is */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startServer, until, type CallAnswer, type RunningServer } from './support/running-server.js';

const base = '/v1/accounts/default';
const first = await startServer();
let server: RunningServer = first;

// Until its time is up, which is long after the server was killed.
const source = 'globalThis.middleware.userMessageInbound = async (c) => { for (;;); };';

beforeAll(async () => {
  const plugin = {
    id: 'p',
    name: 'p',
    version: '1',
    dialect: 'middleware',
    language: 'javascript',
    source,
    timeouts: { timeoutMs: 5000 },
  };
  expect((await server.call('POST', `${base}/plugins`, { body: plugin })).status).toBe(201);
}, 60_000);
afterAll(async () => {
  await server.stop();
  await first.close();
}, 60_000);

const fire = (text: string, key: string): Promise<CallAnswer> =>
  server.call('POST', `${base}/hooks/middleware/userMessageInbound?wait=0`, {
    body: { turnId: 'the-turn', context: { sessionId: 's', channelId: null, text, mediaIds: [] } },
    headers: { 'idempotency-key': key },
  });
const read = (path: string): Promise<CallAnswer> => server.call('GET', `${base}${path}`);

describe('an invocation that its server died in, kept open for a caller who would not wait', () => {
  it('is closed as lost after the next start, is told so wherever it is read, and runs again by its key', async () => {
    const running = await fire('slow', 'key-1');
    expect([running.status, running.body.running]).toEqual([202, true]);
    const id = String(running.body.invocationId);
    await until(
      'the list of open invocations has it',
      async () => (await read(`/invocations/${id}`)).body?.state === 'open',
    );
    await server.kill();
    server = await startServer({ dataDir: first.dataDir });
    await until('it is lost', async () => (await read(`/invocations/${id}`)).body?.state === 'lost', 60);

    const detail = (await read(`/invocations/${id}`)).body;
    expect(detail).toMatchObject({ outcome: 'lost', lost: { cause: 'instance_gone' }, metered: false, value: null });
    const answer = await read(`/answers/${id}?wait=0`);
    expect([answer.status, answer.body.code]).toEqual([410, 'invocation_lost']);
    const effect = await server.call('POST', `${base}/invocations/${id}/effect`, { body: { applied: true } });
    expect([effect.status, effect.body.code]).toEqual([409, 'invocation_lost']);
    const lost = (await read('/invocations?outcome=lost')).body.items;
    expect(lost).toMatchObject([{ invocationId: id, state: 'lost', outcome: 'lost' }]);
    expect((await read('/turns/the-turn')).body.sessions).toMatchObject([{ invocations: 1, lost: 1, purged: 0 }]);
    expect((await read('/operations?side=no_after')).body.items).toEqual([]);
    const events = (await read(`/events?stream=invocation/${id}`)).body.items;
    expect(events).toMatchObject([
      { type: 'invocation.opened', data: { instance: expect.any(String) } },
      { type: 'invocation.lost', data: { handlers: [{ pluginId: 'p', state: 'unknown' }], hostCalls: [] } },
    ]);

    // The key is free once the dead server's lease on it has ended.
    let again: CallAnswer = await fire('slow', 'key-1');
    await until(
      'it runs again',
      async () => {
        if (again.status !== 202) again = await fire('slow', 'key-1');
        return again.status === 202;
      },
      90,
    );
    const retried = String(again.body.invocationId);
    expect(retried).not.toBe(id);
    await until('it is there', async () => (await read(`/invocations/${retried}`)).status === 200);
    expect((await read(`/invocations/${retried}`)).body).toMatchObject({
      attempt: 2,
      previousInvocationId: id,
      state: 'open',
    });
  }, 240_000);
});
