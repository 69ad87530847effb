import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunningServer } from './support/running-server.js';
import { startServer } from './support/running-server.js';

let server: RunningServer;

beforeAll(async () => {
  server = await startServer();
}, 180_000);

afterAll(async () => {
  await server.close();
}, 60_000);

describe('the running program', () => {
  it('is live and ready without a key, and lists its parts', async () => {
    expect((await server.call('GET', '/health/live', { key: null })).body).toEqual({ status: 'live' });
    const { status, body } = await server.call<unknown>('GET', '/health/ready', { key: null });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      status: 'ready',
      database: 'ok',
      kafka: 'disabled',
      relayLag: null,
      projectionLag: expect.any(Number),
      sandbox: expect.stringMatching(/^(?:ok|degraded)$/u),
      details: expect.any(Object),
    });
  });

  it('counts requests by route pattern, never by path', async () => {
    await server.call('GET', '/v1/accounts/default/settings');
    const { text, headers } = await server.call('GET', '/metrics', { key: null });
    expect(headers.get('content-type')).toMatch(/^text\/plain/u);
    expect(text).toContain('route="/v1/accounts/:account/settings"');
    expect(text).not.toContain('/v1/accounts/default');
    expect(text).toContain('hookledger_command_duration_seconds');
  });

  it('logs one line a request, with its id, and no path, key or content', async () => {
    const id = 'request-of-the-test';
    const answer = await server.call('POST', '/v1/accounts/default/halt', {
      body: { reason: 'words of a person', failureMode: 'open' },
      headers: { 'x-request-id': id },
    });
    expect(answer.headers.get('x-request-id')).toBe(id);
    await server.call('DELETE', '/v1/accounts/default/halt');
    const linesOfIt = (): readonly string[] =>
      server
        .logged()
        .split('\n')
        .filter((line) => line.includes(id));
    // Lines go out together, a little later.
    while (linesOfIt().length === 0) await delay(20);
    const lines = linesOfIt();
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      requestId: id,
      method: 'POST',
      route: '/v1/accounts/:account/halt',
      status: 201,
      ms: expect.any(Number),
      account: 'default',
      role: 'operator',
    });
    expect(server.logged()).not.toContain('words of a person');
    expect(server.logged()).not.toContain(server.operatorKey);
  });

  it('publishes the description that is committed; npm run openapi writes it anew', async () => {
    const committed = JSON.parse(readFileSync(join(import.meta.dirname, '..', 'openapi.json'), 'utf8')) as unknown;
    expect((await server.call('GET', '/openapi.json', { key: null })).body).toEqual(committed);
  });

  it('describes every parameter of every path', async () => {
    const { body } = await server.call<unknown>('GET', '/openapi.json', { key: null });
    const { paths } = body as {
      paths: Record<string, Record<string, { parameters?: { name: string; in: string }[] }>>;
    };
    for (const [path, operations] of Object.entries(paths)) {
      const wanted = [...path.matchAll(/\{(\w+)\}/gu)].map(([, name]) => name);
      for (const [method, { parameters = [] }] of Object.entries(operations)) {
        const named = parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name);
        expect([method, path, named.sort()]).toEqual([method, path, wanted.sort()]);
      }
    }
  });

  it('publishes a schema for every version of every event type, and says in the log that it started', async () => {
    const { status, body } = await server.call<unknown>('GET', '/v1/event-schemas', { key: null });
    expect(status).toBe(200);
    const { items } = body as { items: { type: string; version: number; schema: { $schema: string } }[] };
    expect(items.map(({ type }) => type)).toEqual(expect.arrayContaining(['invocation.opened', 'key.created']));
    const events = await server.call<unknown>('GET', '/v1/accounts/system/events?type=instance.started');
    expect(events.text).toContain('"roles":["gateway","control","worker"]');
  });

  it('can be browsed', async () => {
    const { status, text } = await server.call('GET', '/docs', { key: null });
    expect(status).toBe(200);
    expect(text).toContain('swagger');
  });
});
