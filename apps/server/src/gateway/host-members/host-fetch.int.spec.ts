import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { HostAnswer } from '#firing';
import type { Json } from '#record';
import { isPublicAddress } from './addresses.js';
import { hostFetch } from './host-fetch.js';
import { hostDecide, hostLlm } from './model-endpoint.js';
import { outbound, type OutboundOptions } from './outbound.js';

/** A server of this machine: what a plugin must never reach, and stands for the public internet where a test says so. */
let port = 0;
let seen: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[] = [];
let reply: (request: IncomingMessage, response: ServerResponse, body: string) => void = (_, response) =>
  response.end('hello');
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks).toString('utf8');
    seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body });
    reply(request, response, body);
  });
});

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  seen = [];
  reply = (_, response) => response.end('hello');
});

const never = new AbortController().signal;

/** Names of this test, all at this machine; the machine itself is public for it. */
const open: OutboundOptions = {
  isAllowedAddress: () => true,
  resolve: () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]),
};

const fetched = (
  url: string,
  options: Json | null = null,
  {
    hosts = ['*.test', `*.test:${String(port)}`],
    through = open,
  }: { hosts?: readonly string[]; through?: OutboundOptions } = {},
): Promise<HostAnswer> =>
  hostFetch(
    { args: options === null ? [url] : [url, options], pluginId: 'p', signal: never },
    { fetchHosts: hosts, pluginFetchHosts: {} },
    outbound(through),
  );

const valueOf = (answer: HostAnswer): Json => {
  if (answer.kind !== 'value') throw new Error(JSON.stringify(answer));
  return JSON.parse(answer.json) as Json;
};

const at = (path: string, host = 'a.test'): string => `http://${host}:${String(port)}${path}`;

describe('host.fetch', () => {
  it('sends what the plugin asked for and nothing of the server’s', async () => {
    process.env.HTTP_PROXY = 'http://127.0.0.1:1';
    const answer = valueOf(
      await fetched(at('/p?q=1#frag'), {
        method: 'post',
        headers: { 'X-A': 'b', authorization: 'Bearer own' },
        body: 'tëxt',
      }),
    );
    delete process.env.HTTP_PROXY;
    expect(answer).toMatchObject({ status: 200, body: 'hello', isBase64: false });
    expect(seen).toMatchObject([
      {
        method: 'POST',
        url: '/p?q=1',
        body: 'tëxt',
        headers: {
          'x-a': 'b',
          authorization: 'Bearer own',
          host: `a.test:${String(port)}`,
          'accept-encoding': 'identity',
        },
      },
    ]);
    expect(Object.keys(seen[0]?.headers ?? {})).not.toEqual(expect.arrayContaining(['cookie']));
  });

  it('gives bytes that are no text as base64', async () => {
    reply = (_, response) => response.end(Buffer.from([0xff, 0x00]));
    expect(valueOf(await fetched(at('/')))).toMatchObject({ body: '/wA=', isBase64: true });
  });

  it.each([
    ['another host', 'http://other.example/', 'host_not_allowed'],
    ['another port', 'http://a.test:1/', 'host_not_allowed'],
    ['another scheme', 'ftp://a.test/', 'scheme_not_allowed'],
    ['a file', 'file:///etc/passwd', 'scheme_not_allowed'],
    ['a name and a password', 'http://u:p@a.test/', 'credentials_in_url'],
    ['no URL', 'not a url', 'bad_url'],
  ])('refuses %s before anything is looked up', async (_, url, code) => {
    const looked: string[] = [];
    const through: OutboundOptions = {
      resolve: (host) => {
        looked.push(host);
        return Promise.resolve([]);
      },
    };
    expect(await fetched(url, null, { through })).toMatchObject({ kind: 'refused', code });
    expect([looked, seen]).toEqual([[], []]);
  });

  it.each([
    ['host', { host: 'b.test' }],
    ['transfer-encoding', { 'Transfer-Encoding': 'chunked' }],
    ['content-length', { 'content-length': '5' }],
    ['a line break', { 'x-a': 'b\r\nx-c: d' }],
    ['a bad name', { 'x a': 'b' }],
    ['no text', { 'x-a': 5 }],
    ['of a proxy', { 'proxy-authorization': 'x' }],
  ])('refuses a header: %s', async (_, headers) => {
    expect(await fetched(at('/'), { headers })).toMatchObject({ kind: 'refused', code: 'bad_argument' });
    expect(seen).toEqual([]);
  });

  it.each(['CONNECT', 'TRACE', 'GET /x HTTP/1.1\r\nx: y'])('refuses the method %j', async (method) => {
    expect(await fetched(at('/'), { method })).toMatchObject({ kind: 'refused', code: 'bad_argument' });
  });
});

/** What the platform itself uses, with names that lead where a test says. */
const guarded = (resolve: NonNullable<OutboundOptions['resolve']>): OutboundOptions => ({ resolve });

describe('host.fetch never reaches an address that is not public', () => {
  it.each([
    'http://127.0.0.1:PORT/',
    'http://127.1:PORT/',
    'http://0x7f.1:PORT/',
    'http://0x7f000001:PORT/',
    'http://2130706433:PORT/',
    'http://017700000001:PORT/',
    'http://0:PORT/',
    'http://[::1]:PORT/',
    'http://[::ffff:127.0.0.1]:PORT/',
    'http://[::ffff:7f00:1]:PORT/',
    'http://[::127.0.0.1]:PORT/',
    'http://[64:ff9b::7f00:1]:PORT/',
    'http://localhost:PORT/',
    'http://169.254.169.254:PORT/',
  ])('by its own form: %s', async (form) => {
    const url = form.replace('PORT', String(port));
    const { hostname } = new URL(url);
    const hosts = [`${hostname.replace(/^\[|\]$/gu, '')}:${String(port)}`];
    const answer = await hostFetch(
      { args: [url], pluginId: 'p', signal: never },
      { fetchHosts: hosts, pluginFetchHosts: {} },
      outbound(),
    );
    expect(answer).toMatchObject({ kind: 'refused', code: 'address_not_allowed' });
    expect(seen).toEqual([]);
  });

  it('by a name that leads there, also among public addresses', async () => {
    for (const addresses of [
      ['127.0.0.1'],
      ['8.8.8.8', '127.0.0.1'],
      ['::ffff:127.0.0.1'],
      ['10.0.0.1'],
      ['fe80::1'],
    ]) {
      const resolve = () =>
        Promise.resolve(addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })));
      expect(await fetched(at('/'), null, { through: guarded(resolve) })).toMatchObject({
        kind: 'refused',
        code: 'address_not_allowed',
      });
    }
    expect(seen).toEqual([]);
  });

  it('by a name that changes between the look and the connection: it is looked up once', async () => {
    let looks = 0;
    const through: OutboundOptions = {
      // The first answer is judged and connected to; a second one would lead elsewhere.
      isAllowedAddress: (address) => address === '127.0.0.1',
      resolve: () => {
        looks += 1;
        return Promise.resolve([{ address: looks === 1 ? '127.0.0.1' : '127.0.0.2', family: 4 }]);
      },
    };
    expect(valueOf(await fetched(at('/'), null, { through }))).toMatchObject({ status: 200 });
    expect([looks, seen.length]).toEqual([1, 1]);
  });

  it('by a redirect, whatever form it takes', async () => {
    for (const location of [
      `http://127.0.0.1:${String(port)}/in`,
      `//localhost:${String(port)}/in`,
      'http://other.example/',
      'file:///etc/passwd',
      'http://[::1]/',
    ]) {
      seen = [];
      reply = (request, response) => response.writeHead(request.url === '/out' ? 302 : 200, { location }).end();
      const answer = await fetched(at('/out'));
      expect(answer.kind).toBe('refused');
      expect(seen.map(({ url }) => url)).toEqual(['/out']);
    }
  });

  it('by a redirect to an allowed name that leads there', async () => {
    reply = (_, response) => response.writeHead(302, { location: at('/in', 'b.test') }).end();
    const through: OutboundOptions = {
      isAllowedAddress: (address, url) => url.hostname === 'a.test' || isPublicAddress(address),
      resolve: () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]),
    };
    expect(await fetched(at('/out'), null, { through })).toMatchObject({
      kind: 'refused',
      code: 'address_not_allowed',
    });
    expect(seen.map(({ url }) => url)).toEqual(['/out']);
  });
});

describe('host.fetch follows redirects', () => {
  it('five of them, without credentials across origins', async () => {
    reply = (request, response) => {
      const step = Number(request.url?.slice(1));
      if (step < 5)
        response.writeHead(307, { location: at(`/${String(step + 1)}`, step === 2 ? 'b.test' : 'a.test') }).end();
      else response.end('there');
    };
    const answer = valueOf(await fetched(at('/0'), { headers: { authorization: 'secret', cookie: 'c' } }));
    expect(answer).toMatchObject({ status: 200, body: 'there' });
    expect(seen.map(({ headers }) => headers.authorization ?? null)).toEqual([
      'secret',
      'secret',
      'secret',
      null,
      null,
      null,
    ]);
    expect(seen.at(-1)?.headers.cookie).toBeUndefined();
  });

  it('and no more', async () => {
    reply = (_, response) => response.writeHead(302, { location: '/' }).end();
    expect(await fetched(at('/'))).toMatchObject({ kind: 'error', code: 'too_many_redirects' });
    expect(seen).toHaveLength(6);
  });

  it('as a GET after 303 and after a POST that moved', async () => {
    reply = (request, response) => response.writeHead(request.url === '/' ? 303 : 200, { location: '/next' }).end();
    await fetched(at('/'), { method: 'PUT', body: 'x' });
    expect(seen.map(({ method, body }) => [method, body])).toEqual([
      ['PUT', 'x'],
      ['GET', ''],
    ]);
  });
});

describe('host.fetch ends', () => {
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
  it.each([
    [
      'a body without end',
      (response: ServerResponse) => {
        const more = (): void => {
          while (response.writable && response.write(Buffer.alloc(65_536))) continue;
        };
        response.on('drain', more);
        more();
      },
    ],
    ['a packed bomb', (response: ServerResponse) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb)],
    [
      'another one',
      (response: ServerResponse) =>
        response.writeHead(200, { 'content-encoding': 'br' }).end(brotliCompressSync(Buffer.alloc(64 * 1024 * 1024))),
    ],
  ])('%s as too large', async (_, act) => {
    reply = (__, response) => act(response);
    expect(await fetched(at('/'))).toMatchObject({ kind: 'error', code: 'response_too_large' });
  });

  it('unpacks what it did not ask to be packed', async () => {
    reply = (_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('text'));
    expect(valueOf(await fetched(at('/')))).toMatchObject({ body: 'text' });
  });

  it.each([
    ['is packed in an unknown way', { 'content-encoding': 'zip9' }, 'unknown_encoding'],
    ['is not what it says', { 'content-encoding': 'gzip' }, 'bad_encoding'],
  ])('an answer that %s', async (_, headers, code) => {
    reply = (__, response) => response.writeHead(200, headers).end('plain');
    expect(await fetched(at('/'))).toMatchObject({ kind: 'error', code });
  });

  it('with the run that asked, and when nobody is there', async () => {
    reply = () => undefined;
    const run = new AbortController();
    const waiting = hostFetch(
      { args: [at('/')], pluginId: 'p', signal: run.signal },
      { fetchHosts: [`a.test:${String(port)}`], pluginFetchHosts: {} },
      outbound(open),
    );
    setTimeout(() => run.abort(), 50);
    expect(await waiting).toMatchObject({ kind: 'error', code: 'closed' });
    expect(await fetched('http://a.test:1/', null, { hosts: ['a.test:1'] })).toMatchObject({
      kind: 'error',
      code: 'unreachable',
    });
    const nowhere = { isAllowedAddress: () => true, resolve: () => Promise.resolve([]) };
    expect(await fetched(at('/'), null, { through: nowhere })).toMatchObject({ kind: 'error', code: 'host_not_found' });
  });
});

describe('a model endpoint', () => {
  const endpoint = () => ({ url: `http://m.test:${String(port)}/v1`, model: 'm-1', apiKey: 'k' });
  const asked = (args: readonly Json[]) => ({ args, signal: never });
  const says = (content: string): void => {
    reply = (_, response) =>
      response.end(
        JSON.stringify({ choices: [{ message: { content }, finish_reason: 'stop' }], usage: { total_tokens: 3 } }),
      );
  };

  it('completes with the account’s model and key, whatever the plugin says', async () => {
    says('hi');
    expect(valueOf(await hostLlm(asked(['hello']), endpoint(), outbound(open)))).toEqual({
      text: 'hi',
      finishReason: 'stop',
      usage: { total_tokens: 3 },
    });
    expect(seen[0]).toMatchObject({ url: '/v1/chat/completions', headers: { authorization: 'Bearer k' } });
    expect(JSON.parse(seen[0]?.body ?? '')).toEqual({
      messages: [{ role: 'user', content: 'hello' }],
      model: 'm-1',
      stream: false,
    });
    expect(await hostLlm(asked([{ prompt: 'x', model: 'dear' }]), endpoint(), outbound(open))).toMatchObject({
      kind: 'refused',
    });
    expect(await hostLlm(asked([{ prompt: 'x', stream: true }]), endpoint(), outbound(open))).toMatchObject({
      kind: 'refused',
    });
  });

  it.each([
    ['{"allow":true,"why":"fine"}', { question: 'run?' }, { allow: true, why: 'fine' }],
    ['```json\n{"allow":false}\n```', { question: 'run?' }, { allow: false }],
    ['{"choice":"b"}', { question: 'which?', options: ['a', 'b'] }, { choice: 'b' }],
    ['{"score":1}', { question: 'how?', schema: { type: 'object' } }, { score: 1 }],
  ])('decides: %s', async (content, request, decision) => {
    says(content);
    expect(valueOf(await hostDecide(asked([request]), endpoint(), outbound(open)))).toEqual(decision);
  });

  it.each([
    ['yes', { question: 'run?' }],
    ['{"allow":"yes"}', { question: 'run?' }],
    ['{"choice":"c"}', { question: 'which?', options: ['a', 'b'] }],
    ['[true]', { question: 'run?' }],
  ])('does not guess a decision from %s', async (content, request) => {
    says(content);
    expect(await hostDecide(asked([request]), endpoint(), outbound(open))).toMatchObject({
      kind: 'error',
      code: 'no_decision',
    });
  });

  it('takes its key nowhere else', async () => {
    reply = (request, response) =>
      response
        .writeHead(request.url === '/v1/chat/completions' ? 307 : 200, { location: at('/elsewhere', 'evil.test') })
        .end('{}');
    expect(await hostLlm(asked(['x']), endpoint(), outbound(open))).toMatchObject({
      kind: 'error',
      code: 'model_failed',
    });
    expect(seen).toHaveLength(1);
  });

  it('must be at a public address', async () => {
    expect(
      await hostLlm(asked(['x']), { ...endpoint(), url: `http://127.0.0.1:${String(port)}` }, outbound()),
    ).toMatchObject({ kind: 'refused', code: 'address_not_allowed' });
    expect(seen).toEqual([]);
  });
});
