import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { connect } from 'node:net';
import type { CallAnswer, CallOptions, RunningServer } from './support/running-server.js';
import { startServer } from './support/running-server.js';

let server: RunningServer;

beforeAll(async () => {
  server = await startServer();
}, 180_000);

afterAll(async () => {
  await server.close();
}, 60_000);

const post = (raw: string | Uint8Array, headers: CallOptions['headers'] = {}): Promise<CallAnswer> =>
  server.call('POST', '/v1/accounts', { raw, headers });

const expectProblem = (answer: CallAnswer, status: number, code?: string): void => {
  expect(answer.status).toBe(status);
  expect(answer.headers.get('content-type')).toBe('application/problem+json');
  expect(answer.body).toMatchObject({
    status,
    title: expect.any(String),
    detail: expect.any(String),
    errors: expect.any(Array),
  });
  if (code !== undefined) expect((answer.body as { code: string }).code).toBe(code);
  // No stack trace, no SQL, no place in the code.
  expect(answer.text).not.toMatch(/\bat .*:\d+:\d+|node_modules|select |insert /u);
};

const firstFault = ({ body }: CallAnswer): { pointer: string; reason: string } =>
  (body as { errors: [{ pointer: string; reason: string }] }).errors[0];

/** Sends bytes as they are: what no client library would send. */
const raw = (text: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { port, hostname } = new URL(server.url);
    const socket = connect(Number(port), hostname, () => socket.end(text));
    const parts: Buffer[] = [];
    socket.on('data', (part: Buffer) => parts.push(part));
    socket.on('end', () => resolve(Buffer.concat(parts).toString()));
    socket.on('error', reject);
  });

describe('a body', () => {
  it('that is not JSON is 400 and says where', async () => {
    const answer = await post('{"id": "x", oops}');
    expectProblem(answer, 400, 'not_json');
    expect(firstFault(answer).reason).toContain('line 1');
  });

  it('is not read for somebody who has no key', async () => {
    for (const key of [null, 'not-a-key']) {
      expectProblem(await server.call('POST', '/v1/accounts', { raw: '{ not JSON', key }), 401, 'no_valid_key');
    }
  });

  it('that is empty is 400', async () => expectProblem(await post(''), 400));

  it('that is not UTF-8 is 400', async () =>
    expectProblem(await post(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d])), 400, 'not_utf8'));

  it('of 9 MiB is 413, announced or not', async () => {
    expectProblem(await post(`"${'x'.repeat(9 * 1024 * 1024)}"`), 413, 'body_too_large');
    expect((await server.call('GET', '/health/live')).status).toBe(200);
  });

  it('just below 8 MiB is read', async () => {
    const answer = await post(JSON.stringify({ id: 'x', name: 'x'.repeat(8 * 1024 * 1024 - 100) }));
    expectProblem(answer, 422, 'bad_fields');
  });

  it('nested 10,000 deep is 422', async () =>
    expectProblem(await post('['.repeat(10_000) + ']'.repeat(10_000)), 422, 'too_deep'));

  it('with duplicate keys is 422 at their pointer', async () => {
    const answer = await post('{"id":"a","id":"b","name":"n"}');
    expectProblem(answer, 422, 'duplicate_key');
    expect(firstFault(answer).pointer).toBe('/id');
  });

  it('with __proto__ or constructor keys is 422, and pollutes nothing', async () => {
    const answer = await post('{"id":"a","name":"n","__proto__":{"role":"operator"},"constructor":{}}');
    expectProblem(answer, 422, 'bad_fields');
    expect((await server.call('GET', '/v1/accounts', { key: null })).status).toBe(401);
  });

  it.each(['9007199254740993', '0.1234567890123456789', '1e400'])('with the number %s is 422', async (number) =>
    expectProblem(await post(`{"id":"a","name":${number}}`), 422, 'inexact_number'),
  );

  it('with an id that is a number is 422, never rounded', async () => {
    const answer = await post('{"id":42,"name":"n"}');
    expectProblem(answer, 422, 'bad_fields');
    expect(firstFault(answer).pointer).toBe('/id');
  });

  it.each(['[]', '5', '"text"', 'true', 'null'])('that is %s where an object belongs is 422', async (text) =>
    expectProblem(await post(text), 422),
  );

  it('of another type than JSON is 415, and one that ends in +json is read', async () => {
    expectProblem(await post('id=a', { 'content-type': 'application/x-www-form-urlencoded' }), 415);
    expectProblem(await post('{}', { 'content-type': 'text/plain' }), 415);
    expectProblem(await post('{}', { 'content-type': 'application/json; charset=utf-16' }), 415);
    expectProblem(await post('{}', { 'content-encoding': 'gzip' }), 415);
    expectProblem(await post('{}', { 'content-type': 'application/vnd.hookledger+json; charset=utf-8' }), 422);
  });

  it('may hold NUL and lone surrogates, and gives them back byte for byte', async () => {
    const made = await post(String.raw`{"id":"odd-name","name":"a\u0000b\ud83dc\u2028\u202ed"}`);
    expect(made.status).toBe(201);
    const listed = await server.call('GET', '/v1/accounts');
    const found = (listed.body as { items: { id: string; name: string }[] }).items.find(({ id }) => id === 'odd-name');
    expect(found?.name).toBe('a\0b\ud83dc\u2028\u202ed');
  });
});

describe('a path', () => {
  it('that nothing is at is 404, also with a key', async () =>
    expectProblem(await server.call('GET', '/v1/nothing'), 404));

  it('asked with a method that it does not take is 405 and names those it takes', async () => {
    const answer = await server.call('DELETE', '/v1/accounts');
    expectProblem(answer, 405);
    expect(answer.headers.get('allow')).toMatch(/GET.*POST|POST.*GET/u);
  });

  it.each(['.', '..'])('ends in no name that clients take out of it: %s', async (name) => {
    const body = '{"value":"v"}';
    const head = `PUT /v1/accounts/default/secrets/${name} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.operatorKey}`;
    const rest = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close`;
    expect(await raw(`${head}\r\n${rest}\r\n\r\n${body}`)).toMatch(/^HTTP\/1\.1 400 .*"\/path\/secret"/su);
  });

  it.each(['%00', '%0a', 'a'.repeat(201), '%c2%85'])('with an id that is none is 400: %j', async (id) =>
    expectProblem(await server.call('DELETE', `/v1/accounts/default/keys/${id}`), 400),
  );

  it.each(['%zz', '%ed%a0%80', '%ff'])('that is not percent-encoded UTF-8 is 400: %s', async (id) =>
    expectProblem(await server.call('DELETE', `/v1/accounts/default/keys/${id}`), 400),
  );

  it('may hold an id of 200 characters of any kind', async () => {
    const id = '😀'.repeat(200);
    expectProblem(
      await server.call('DELETE', `/v1/accounts/default/keys/${encodeURIComponent(id)}`),
      404,
      'unknown_key',
    );
  });

  it('of an account that is not there is 404', async () =>
    expectProblem(await server.call('GET', '/v1/accounts/nowhere/settings'), 404, 'unknown_account'));
});

describe('a query', () => {
  it.each([
    '/v1/accounts?nope=1',
    '/v1/accounts?limit=0',
    '/v1/accounts?limit=501',
    '/v1/accounts?limit=1&limit=2',
    '/v1/accounts?cursor=made-up',
    '/v1/accounts/default/settings?verbose=true',
    '/health/live?x=1',
    '/v1/accounts?cursor=%ff',
    '/v1/accounts?%zz=1',
    '/v1/accounts/default/events?stream=%00',
    '/v1/accounts/default/events/stream?stream=a%00',
    '/v1/accounts/default/usage?hook=%00',
    '/v1/accounts/default/invocations?hook=a%0ab',
    '/v1/accounts/default/invocations?target=%00',
    '/v1/accounts/default/invocations?pluginVersion=%00',
    '/v1/accounts/default/invocations?reasonCode=%00',
    '/v1/accounts/default/invocations?turnId=%ED%A0%80',
    '/v1/accounts/default/invocations?turnId=%zz',
    '/v1/accounts/default/invocations?from=9999-12-31T23:59:60Z',
    '/v1/accounts/default/invocations?to=9999-12-31T23:59:59-23:59',
    '/v1/accounts/default/changes?to=9999-12-31',
    '/v1/accounts/default/chain?dialect=middleware&hook=systemPrompt&asOf=9999-12-31T23:59:60Z',
  ])('that does not fit is 400 and points at the parameter: %s', async (path) => {
    const answer = await server.call('GET', path);
    expectProblem(answer, 400);
    expect(firstFault(answer).pointer).toMatch(/^\/query\//u);
  });

  it('may look for any text', async () => {
    for (const text of ['%00%00%00', 'a%00b', '%0a%0d%09', '%EF%BF%BF%27%25_']) {
      expect((await server.call('GET', `/v1/accounts/default/invocations?text=${text}`)).status).toBe(200);
    }
  });

  it('has a cursor that is refused when a byte of it is changed', async () => {
    for (const id of ['page-1', 'page-2', 'page-3']) {
      await server.call('POST', '/v1/accounts', { body: { id, name: id } });
    }
    const { body } = await server.call<unknown>('GET', '/v1/accounts?limit=2');
    const cursor = (body as { nextCursor: string }).nextCursor;
    expect((await server.call('GET', `/v1/accounts?limit=2&cursor=${cursor}`)).status).toBe(200);
    const changed = `${cursor.slice(0, 5)}${cursor[5] === 'A' ? 'B' : 'A'}${cursor.slice(6)}`;
    expectProblem(await server.call('GET', `/v1/accounts?limit=2&cursor=${changed}`), 400, 'bad_cursor');
    expectProblem(await server.call('GET', `/v1/accounts/default/keys?cursor=${cursor}`), 400, 'bad_cursor');
  });
});

describe('a header', () => {
  it.each(['with blank', 'x'.repeat(201), 'ü'])('Idempotency-Key that does not fit is 400: %j', async (key) =>
    expectProblem(
      await server.call('POST', '/v1/accounts', { body: { id: 'h', name: 'h' }, headers: { 'idempotency-key': key } }),
      400,
    ),
  );

  it('If-Match that is no list of tags is 400', async () =>
    expectProblem(
      await server.call('PATCH', '/v1/accounts/default/settings', { body: {}, headers: { 'if-match': 'abc' } }),
      400,
    ));

  it('of nonsense is 400 and ends no other request', async () => {
    const get = 'GET /health/live HTTP/1.1\r\n';
    const post = 'POST /v1/accounts HTTP/1.1\r\nHost: x\r\n';
    const requests: readonly [string, number][] = [
      ['NONSENSE\r\n\r\n', 400],
      ['GET / HTTP/9.9\r\nHost: x\r\n\r\n', 400],
      [`${get}Host: x\r\nBad Header: y\r\n\r\n`, 400],
      [`${get}Host: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
      [`${get}\r\n`, 400],
      [`${get}Host: x\r\nHost: y\r\n\r\n`, 400],
      [`${post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
      [`${post}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`, 400],
      [`${post}Expect: magic\r\nContent-Length: 2\r\n\r\n{}`, 417],
      ['CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', 405],
    ];
    for (const [request, status] of requests) {
      const answer = await raw(request);
      const [head = '', body = ''] = answer.split(/\r\n\r\n(?:[0-9a-f]+\r\n)?/u);
      expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `, 'u'));
      expect(head).toMatch(/^content-type: application\/problem\+json$/imu);
      expect(JSON.parse(body.split('\r\n')[0] ?? '')).toMatchObject({ status, code: expect.any(String), errors: [] });
    }
    expect(await raw('GET /health/live HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /u);
    expect((await server.call('GET', '/health/live')).status).toBe(200);
  });
});
