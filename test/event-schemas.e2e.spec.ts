import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { EventStore } from '#event-store';
import { postgresEventStore } from '#event-store';
import { eventFaults } from './support/event-faults.js';
import type { CallAnswer, RunningServer } from './support/running-server.js';
import { startServer } from './support/running-server.js';
import type { TestDatabase } from './support/test-postgres.js';
import { createTestDatabase } from './support/test-postgres.js';

let database: TestDatabase;
let server: RunningServer;
let store: EventStore;

beforeAll(async () => {
  database = await createTestDatabase();
  server = await startServer({ env: { DATABASE_URL: database.url } });
  store = postgresEventStore({ connectionString: database.url });
}, 120_000);

afterAll(async () => {
  await store.close();
  await server.close();
  await database.drop();
}, 30_000);

const base = '/v1/accounts/default';

const act = async (
  method: string,
  path: string,
  body?: object,
  headers: Record<string, string> = {},
): Promise<CallAnswer> => {
  const answer = await server.call(method, `${base}${path}`, {
    ...(body && { body }),
    headers: { ...(path.startsWith('/secrets') ? {} : { 'if-match': '*' }), ...headers },
  });
  expect([path, answer.status < 300 ? 'done' : answer.text]).toEqual([path, 'done']);
  return answer;
};

const plugin = (id: string, source: string): object => ({
  id,
  name: id,
  version: '1.0.0',
  dialect: 'middleware',
  language: 'typescript',
  source,
  reason: 'because',
});

const long = 'a long text '.repeat(300);

it('records nothing that its published schema does not describe', async () => {
  const handlers = `
    globalThis.middleware.systemPrompt = async (c) => { host.log('info', 'line'); return c.systemPrompt + '!'; };
    globalThis.middleware.userMessageInbound = (c, tools) => tools.cancel('no');`;
  await act('POST', '/plugins', plugin('one', handlers));
  await act(
    'POST',
    '/plugins',
    plugin('two', 'globalThis.middleware.systemPrompt = (c: any) => c.systemPrompt.slice(1);'),
  );
  await act('POST', '/plugins', plugin('bad', "globalThis.middleware.systemPrompt = () => { throw new Error('x'); };"));
  await act('POST', '/plugins', plugin('odd', 'globalThis.middleware.systemPrompt = () => 42;'));
  await act('PATCH', '/plugins/two', { mode: 'observe', reason: 'try it first' });
  await act('PATCH', '/plugins/two', { config: { a: 1 }, timeouts: { hooks: { systemPrompt: 700 } } });
  await act('PUT', '/plugin-order', { pluginIds: ['two', 'one', 'bad', 'odd'] });

  const prompt = { context: { sessionId: 's', agentId: 'a', sessionKind: 'direct', systemPrompt: long } };
  const fired = await act('POST', '/hooks/middleware/systemPrompt', prompt);
  const inbound = { context: { sessionId: 's', channelId: null, text: 'hello', mediaIds: [] } };
  await act('POST', '/hooks/middleware/userMessageInbound', { ...inbound, dataSubject: 'ada@example.com' });
  await act('POST', '/plugins/one/trial', { hook: 'systemPrompt', context: prompt.context });

  await act('PATCH', '/plugins/one', { failureMode: 'closed' });
  await act('PATCH', '/plugins/one', { permissions: [] });
  await act('PATCH', '/plugins/one', { enabled: false });
  await act('PATCH', '/plugins/one', { enabled: true });
  await act('POST', '/plugins/two/versions', {
    version: '2.0.0',
    source: 'globalThis.middleware.systemPrompt = () => undefined;',
  });
  await act('POST', '/plugins/two/rollback', { revision: 1, reason: 'the old one was better' });
  await act('DELETE', '/plugins/odd');

  const { id } = (await act('POST', '/keys', { role: 'auditor', name: 'Ada' })).body as { readonly id: string };
  await act('DELETE', `/keys/${id}`);
  await act('PUT', '/secrets/token', { value: 'hush' });
  await act('PATCH', '/settings', { selfApproval: true });
  await act('POST', '/halt', { reason: 'a fire drill', failureMode: 'open' });
  await act('POST', '/hooks/middleware/systemPrompt', prompt);
  await act('DELETE', '/halt');
  await act('POST', `/invocations/${(fired.body as { invocationId: string }).invocationId}/effect`, { applied: true });
  await server.stop();

  const events = await store.readAll(-1n, 10_000);
  const faults = events.flatMap(({ event }) => eventFaults(event).map((fault) => `${event.type} ${fault}`));
  expect(faults).toEqual([]);
  const types = new Set(events.map(({ event }) => event.type));
  // What the record of a chain is made of must have been among them.
  for (const type of ['handler.rewrote', 'handler.cancelled', 'handler.observed', 'handler.skipped', 'host.called']) {
    expect(types).toContain(type);
  }
  expect(types.size).toBeGreaterThan(20);
}, 120_000);
