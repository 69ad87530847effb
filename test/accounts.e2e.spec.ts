import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { CallAnswer, CallOptions, RunningServer } from './support/running-server.js';
import { clusterOf, startServer } from './support/running-server.js';

let server: RunningServer;

beforeAll(async () => {
  server = await startServer();
  await server.call('POST', '/v1/accounts', { body: { id: 'acme', name: 'Acme' } });
  await server.call('POST', '/v1/accounts', { body: { id: 'other', name: 'Other' } });
}, 180_000);

afterAll(async () => {
  await server.close();
}, 60_000);

const call = (method: string, path: string, options?: CallOptions): Promise<CallAnswer<unknown>> =>
  server.call(method, path, options);

interface MadeKey {
  readonly id: string;
  readonly secret: string;
  readonly content: string;
}

const makeKey = async (role: string, account = 'acme', more: object = {}): Promise<MadeKey> => {
  const { status, body } = await call('POST', `/v1/accounts/${account}/keys`, {
    body: { role, name: `a ${role}`, ...more },
  });
  expect(status).toBe(201);
  return body as MadeKey;
};

interface Event {
  readonly type: string;
  readonly stream: string;
  readonly actor: { readonly kind: string; readonly id: string; readonly onBehalfOf?: string };
  readonly data: Readonly<Record<string, unknown>>;
}

const eventsOf = async (account: string, type: string): Promise<readonly Event[]> => {
  const { body } = await call('GET', `/v1/accounts/${account}/events?type=${type}`);
  return (body as { items: { event?: Event }[] }).items.map((item) => item.event ?? (item as unknown as Event));
};

describe('an account', () => {
  it('is made once: an id that exists is 409', async () => {
    expect((await call('POST', '/v1/accounts', { body: { id: 'acme', name: 'Again' } })).status).toBe(409);
    for (const id of ['default', 'system']) {
      expect((await call('POST', '/v1/accounts', { body: { id, name: id } })).status).toBe(409);
    }
  });

  it('is listed page by page, each once', async () => {
    for (const n of [1, 2, 3, 4, 5]) await call('POST', '/v1/accounts', { body: { id: `listed-${n}`, name: 'x' } });
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const { body }: CallAnswer<unknown> = await call(
        'GET',
        `/v1/accounts?limit=2${cursor === null ? '' : `&cursor=${cursor}`}`,
      );
      const page = body as { items: { id: string }[]; nextCursor: string | null };
      seen.push(...page.items.map(({ id }) => id));
      cursor = page.nextCursor;
    } while (cursor !== null);
    expect(seen).toEqual([...new Set(seen)].sort());
    expect(seen).toEqual(expect.arrayContaining(['acme', 'default', 'listed-1', 'listed-5', 'other', 'system']));
  });

  it.each(['.', '..'])('has no id that clients take out of a path: %s', async (id) => {
    const answer = await call('POST', '/v1/accounts', { body: { id, name: 'n' } });
    expect(answer).toMatchObject({ status: 422, body: { errors: [{ pointer: '/id' }] } });
  });

  it('is made once when fifty clients send the same idempotency key at once', async () => {
    const headers = { 'idempotency-key': 'fifty-at-once' };
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => call('POST', '/v1/accounts', { body: { id: 'fifty', name: 'Fifty' }, headers })),
    );
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers[0]?.status).toBe(201);
    expect(answers.filter((answer) => answer.headers.get('idempotency-replayed') === 'true')).toHaveLength(49);
    const other = await call('POST', '/v1/accounts', { body: { id: 'fifty', name: 'Another' }, headers });
    expect(other.status).toBe(422);
    expect(other.body).toMatchObject({ code: 'idempotency_key_reused' });
  });

  it('lets a key be used again after a refusal, which wrote nothing', async () => {
    const headers = { 'idempotency-key': 'refused-first' };
    expect((await call('POST', '/v1/accounts', { body: { id: 'acme', name: 'n' }, headers })).status).toBe(409);
    expect((await call('POST', '/v1/accounts', { body: { id: 'fresh', name: 'n' }, headers })).status).toBe(201);
  });
});

describe('a key', () => {
  it('works at once and is refused at once when revoked, both recorded', async () => {
    const { id, secret } = await makeKey('admin');
    expect((await call('GET', '/v1/accounts/acme/settings', { key: secret })).status).toBe(200);
    expect(
      (await call('DELETE', `/v1/accounts/acme/keys/${id}`, { headers: { 'hookledger-on-behalf-of': 'Zoë' } })).status,
    ).toBe(204);
    expect((await call('GET', '/v1/accounts/acme/settings', { key: secret })).status).toBe(401);
    expect((await call('DELETE', `/v1/accounts/acme/keys/${id}`)).status).toBe(404);
    const created = (await eventsOf('acme', 'key.created')).find(({ data }) => data.id === id);
    expect(created).toMatchObject({
      stream: `key/${id}`,
      actor: { kind: 'operator' },
      data: { role: 'admin', name: 'a admin' },
    });
    const revoked = (await eventsOf('acme', 'key.revoked')).find(({ data }) => data.id === id);
    expect(revoked?.actor.onBehalfOf).toBe('Zoë');
  });

  it('shows its secret once, and again only to a repetition of the request that made it', async () => {
    const headers = { 'idempotency-key': 'a-key-once' };
    const body = { role: 'runtime', name: 'r' };
    const first = await call('POST', '/v1/accounts/acme/keys', { body, headers });
    const again = await call('POST', '/v1/accounts/acme/keys', { body, headers });
    expect(again.text).toBe(first.text);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    const { secret } = first.body as MadeKey;
    const admin = await makeKey('admin', 'acme', { content: 'full' });
    const others = await call('POST', '/v1/accounts/acme/keys', { body, headers, key: admin.secret });
    expect(others).toMatchObject({ status: 422, body: { code: 'idempotency_key_reused' } });
    expect(others.text).not.toContain(secret);
    const { text } = await call('GET', '/v1/accounts/acme/keys?revoked=true&limit=500');
    expect(text).not.toContain(secret);
    expect(text).not.toContain('hash');
  });

  it('is nowhere on disk and in no log', async () => {
    const { secret } = await makeKey('admin');
    await call('GET', '/v1/accounts/acme/settings', { key: secret });
    await server.call('GET', '/health/ready');
    expect(server.logged()).not.toContain(secret);
    const log = join(clusterOf(server.dataDir), 'log');
    for (const name of readdirSync(log)) expect(readFileSync(join(log, name), 'utf8')).not.toContain(secret);
  });

  it('is refused when its time is over, and cannot be made over', async () => {
    const soon = new Date(Date.now() + 1500).toISOString();
    const { secret } = await makeKey('admin', 'acme', { expiresAt: soon });
    while (Date.now() <= Date.parse(soon)) await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await call('GET', '/v1/accounts/acme/settings', { key: secret })).status).toBe(401);
    const past = await call('POST', '/v1/accounts/acme/keys', {
      body: { role: 'admin', name: 'p', expiresAt: '2020-01-01T00:00:00Z' },
    });
    expect(past.status).toBe(422);
  });

  it('has full content by default for auditors, none for the others', async () => {
    for (const role of ['runtime', 'admin', 'approver']) expect((await makeKey(role)).content).toBe('none');
    expect((await makeKey('auditor')).content).toBe('full');
    expect((await makeKey('admin', 'acme', { content: 'full' })).content).toBe('full');
  });

  it('makes no key that sees more than itself', async () => {
    const blind = await makeKey('admin');
    const make = (key: string, body: object) =>
      call('POST', '/v1/accounts/acme/keys', { key, body: { name: 'made by an admin', ...body } });
    const refused = await make(blind.secret, { role: 'admin', content: 'full' });
    expect(refused).toMatchObject({ status: 403, body: { code: 'content_beyond_own' } });
    expect((await make(blind.secret, { role: 'auditor' })).body).toMatchObject({ role: 'auditor', content: 'none' });
    const seeing = await makeKey('admin', 'acme', { content: 'full' });
    expect((await make(seeing.secret, { role: 'admin', content: 'full' })).body).toMatchObject({ content: 'full' });
    expect((await make(seeing.secret, { role: 'auditor' })).body).toMatchObject({ content: 'full' });
  });

  it('of an operator belongs to system, spans accounts, and is made by operators only', async () => {
    const { secret } = await makeKey('operator', 'system');
    expect((await call('GET', '/v1/accounts/other/settings', { key: secret })).status).toBe(200);
    const admin = await makeKey('admin');
    for (const account of ['acme', 'system']) {
      const answer = await call('POST', `/v1/accounts/${account}/keys`, {
        key: admin.secret,
        body: { role: 'operator', name: 'o' },
      });
      expect(answer.status).toBe(account === 'acme' ? 403 : 404);
    }
    expect((await call('POST', '/v1/accounts/acme/keys', { body: { role: 'operator', name: 'o' } })).status).toBe(422);
    expect((await call('POST', '/v1/accounts/system/keys', { body: { role: 'admin', name: 'o' } })).status).toBe(422);
  });

  it.each([undefined, 'Bearer', 'Basic abc', 'Bearer nonsense', 'Bearer a b'])(
    'that is none is 401: %s',
    async (authorization) => {
      const answer = await call('GET', '/v1/accounts/acme/settings', {
        key: null,
        headers: authorization === undefined ? {} : { authorization },
      });
      expect(answer.status).toBe(401);
      expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer/u);
    },
  );
});

describe('a role', () => {
  const routes: readonly [string, string, object | undefined, readonly string[]][] = [
    ['GET', '/settings', undefined, ['admin', 'auditor', 'operator']],
    ['PATCH', '/settings', {}, ['admin', 'operator']],
    ['GET', '/keys', undefined, ['admin', 'auditor', 'operator']],
    ['POST', '/keys', { role: 'runtime', name: 'x' }, ['admin', 'operator']],
    ['PUT', '/secrets/matrix', { value: 'v' }, ['admin', 'operator']],
    ['GET', '/secrets', undefined, ['admin', 'auditor', 'operator']],
    ['POST', '/halt', { reason: 'r', failureMode: 'open' }, ['admin', 'operator']],
    ['GET', '/plugins', undefined, ['admin', 'auditor', 'operator']],
    ['POST', '/hooks/middleware/systemPrompt', {}, ['runtime', 'operator']],
  ];
  const roles = ['runtime', 'admin', 'approver', 'auditor', 'operator'];

  it.each(routes)('may call %s %s or not, and never in another account', async (method, path, body, allowed) => {
    for (const role of roles) {
      const { secret } = await makeKey(role, role === 'operator' ? 'system' : 'acme');
      const own = await call(method, `/v1/accounts/acme${path}`, { key: secret, body });
      expect([role, own.status === 403]).toEqual([role, !allowed.includes(role)]);
      if (role === 'operator') continue;
      for (const account of ['other', 'nowhere', 'system']) {
        expect((await call(method, `/v1/accounts/${account}${path}`, { key: secret, body })).status).toBe(404);
      }
    }
    await call('DELETE', '/v1/accounts/acme/halt');
  });

  it('of an account sees no list of accounts', async () => {
    const { secret } = await makeKey('admin');
    expect((await call('GET', '/v1/accounts', { key: secret })).status).toBe(403);
    expect((await call('POST', '/v1/accounts', { key: secret, body: { id: 'x', name: 'x' } })).status).toBe(403);
  });
});

describe('settings', () => {
  it('are changed on the version that was read, with before and after in the record', async () => {
    const read = await call('GET', '/v1/accounts/other/settings');
    const etag = read.headers.get('etag') ?? '';
    const patch = { timeouts: { middleware: 1234 } };
    const changed = await call('PATCH', '/v1/accounts/other/settings', { body: patch, headers: { 'if-match': etag } });
    expect(changed.body).toMatchObject(patch);
    expect(changed.headers.get('etag')).not.toBe(etag);
    const stale = await call('PATCH', '/v1/accounts/other/settings', { body: patch, headers: { 'if-match': etag } });
    expect(stale.status).toBe(412);
    const [event] = (await eventsOf('other', 'settings.changed')).slice(-1);
    expect(event?.data).toMatchObject({ before: read.body, after: changed.body, changed: ['timeouts'] });
  });

  it('lose no update when many change them at once', async () => {
    const before = (await eventsOf('fifty', 'settings.changed')).length;
    const answers = await Promise.all(
      Array.from({ length: 5 }, (_, n) =>
        call('PATCH', '/v1/accounts/fifty/settings', { body: { breadthPerRoot: n + 1 } }),
      ),
    );
    const done = answers.filter(({ status }) => status === 200).length;
    expect(answers.every(({ status }) => status === 200 || status === 409)).toBe(true);
    const events = (await eventsOf('fifty', 'settings.changed')).slice(before);
    expect(events).toHaveLength(done);
    for (const [index, event] of events.entries()) {
      if (index > 0) expect(event.data.before).toEqual(events[index - 1]?.data.after);
    }
  });

  it('that are already so write nothing and keep their version, also when the request is repeated', async () => {
    const read = await call('GET', '/v1/accounts/other/settings');
    const before = (await eventsOf('other', 'settings.changed')).length;
    const headers = { 'idempotency-key': 'nothing-to-change' };
    for (const body of [{}, { timeouts: { middleware: 1234 } }, { reason: 'only words' }]) {
      const patched = await call('PATCH', '/v1/accounts/other/settings', { body });
      expect(patched).toMatchObject({ status: 200, text: read.text });
      expect(patched.headers.get('etag')).toBe(read.headers.get('etag'));
    }
    const first = await call('PATCH', '/v1/accounts/other/settings', { body: {}, headers });
    await call('PATCH', '/v1/accounts/other/settings', { body: { breadthPerRoot: 77 } });
    const again = await call('PATCH', '/v1/accounts/other/settings', { body: {}, headers });
    expect([again.status, again.text]).toEqual([200, first.text]);
    expect(again.headers.get('etag')).toBe(read.headers.get('etag'));
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(await eventsOf('other', 'settings.changed')).toHaveLength(before + 1);
  });

  it('say which changes weaken enforcement', async () => {
    const patch = async (body: object): Promise<unknown> => {
      expect((await call('PATCH', '/v1/accounts/fifty/settings', { body })).status).toBe(200);
      return (await eventsOf('fifty', 'settings.changed')).at(-1)?.data.weakensEnforcement;
    };
    expect(await patch({ selfApproval: true })).toBe(true);
    expect(await patch({ selfApproval: false })).toBe(false);
    const { body } = await call('GET', '/v1/accounts/fifty/changes?weakening=true&limit=1');
    expect((body as { items: unknown[] }).items).toEqual([
      expect.objectContaining({ type: 'settings.changed', changed: ['selfApproval'], weakensEnforcement: true }),
    ]);
  });

  it('give exactly one of two the word when both name the same version', async () => {
    const etag = (await call('GET', '/v1/accounts/other/settings')).headers.get('etag') ?? '';
    const answers = await Promise.all(
      [1, 2].map((n) =>
        call('PATCH', '/v1/accounts/other/settings', { body: { breadthPerRoot: n }, headers: { 'if-match': etag } }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 412]);
  });
});

describe('a secret', () => {
  it('is set and set anew, shown by no one, recorded as a digest', async () => {
    const first = await call('PUT', '/v1/accounts/acme/secrets/token', { body: { value: 'hunter2-first' } });
    const again = await call('PUT', '/v1/accounts/acme/secrets/token', { body: { value: 'hunter2-second' } });
    expect([first.status, again.status]).toEqual([200, 200]);
    expect((again.body as { digest: string }).digest).not.toBe((first.body as { digest: string }).digest);
    expect((again.body as { version: number }).version).toBe(2);
    const everything = await Promise.all(
      ['/secrets', '/events?type=secret.set', '/events?type=secret.set&content=open'].map((path) =>
        call('GET', `/v1/accounts/acme${path}`),
      ),
    );
    for (const { status, text } of everything) {
      expect(status).toBe(200);
      expect(text).not.toContain('hunter2');
    }
    expect(server.logged()).not.toContain('hunter2');
    const stale = await call('PUT', '/v1/accounts/acme/secrets/token', {
      body: { value: 'x' },
      headers: { 'if-match': '"1"' },
    });
    expect(stale.status).toBe(412);
  });

  it('may be 64 KiB and no longer', async () => {
    const put = (length: number) =>
      call('PUT', '/v1/accounts/acme/secrets/long', { body: { value: 'x'.repeat(length) } });
    expect((await put(65_536)).status).toBe(200);
    expect((await put(65_537)).status).toBe(422);
  });
});

describe('a reason', () => {
  interface Change {
    readonly type: string;
    readonly reason: unknown;
  }

  it('is taken by every change of an account, kept as content, and shown to whoever may see it', async () => {
    const at = '/v1/accounts/reasons';
    await call('POST', '/v1/accounts', { body: { id: 'reasons', name: 'n' } });
    const why = (what: string): string => `TICKET-7 ${what}`;
    const made = await call('POST', `${at}/keys`, { body: { role: 'admin', name: 'k', reason: why('key.created') } });
    const { id, secret } = made.body as MadeKey;
    await call('PATCH', `${at}/settings`, { body: { breadthPerRoot: 9, reason: why('settings.changed') } });
    await call('PUT', `${at}/secrets/s`, { body: { value: 'v', reason: why('secret.set') } });
    await call('POST', `${at}/halt`, { body: { failureMode: 'open', reason: why('account.halted') } });
    await call('DELETE', `${at}/halt?reason=${encodeURIComponent(why('account.resumed'))}`);
    const types = ['key.created', 'settings.changed', 'secret.set', 'account.halted', 'account.resumed'];
    const changes = async (key?: string): Promise<readonly Change[]> => {
      const { body } = await call('GET', `${at}/changes?order=oldest`, key === undefined ? {} : { key });
      return (body as { items: Change[] }).items;
    };
    expect((await changes()).map(({ type, reason }) => [type, reason])).toEqual(types.map((type) => [type, why(type)]));
    const blind = await changes(secret);
    expect(blind.map(({ reason }) => reason)).toEqual(types.map(() => ({ hidden: true, size: expect.any(Number) })));
    for (const path of ['/keys', '/secrets', '/settings', '/events?content=sealed']) {
      expect((await call('GET', `${at}${path}`)).text).not.toContain('TICKET-7');
    }
    expect((await call('GET', `${at}/settings`)).body).not.toHaveProperty('reason');
    expect((await call('DELETE', `${at}/keys/${id}?reason=${encodeURIComponent(why('key.revoked'))}`)).status).toBe(
      204,
    );
    expect((await changes()).at(-1)).toMatchObject({ type: 'key.revoked', reason: why('key.revoked') });
  });

  it('that is no text is 422', async () => {
    for (const reason of [1, {}, 'x'.repeat(10_001)]) {
      const bodies: readonly [string, string, object][] = [
        ['PATCH', '/settings', { reason }],
        ['PUT', '/secrets/s', { value: 'v', reason }],
        ['POST', '/keys', { role: 'runtime', name: 'n', reason }],
      ];
      for (const [method, path, body] of bodies) {
        const answer = await call(method, `/v1/accounts/acme${path}`, { body });
        expect(answer).toMatchObject({ status: 422, body: { errors: [{ pointer: '/reason' }] } });
      }
    }
  });
});

describe('a halt', () => {
  it('is in force at once, ends when it is taken back, and its reason is content', async () => {
    const admin = await makeKey('admin');
    const made = await call('POST', '/v1/accounts/acme/halt', {
      key: admin.secret,
      body: { reason: 'guard is broken', failureMode: 'closed' },
    });
    expect(made).toMatchObject({
      status: 201,
      body: { halted: true, failureMode: 'closed', reason: 'guard is broken' },
    });
    const asAdmin = await call('GET', '/v1/accounts/acme/halt', { key: admin.secret });
    expect(asAdmin.body).toMatchObject({ halted: true, reason: { hidden: true, size: expect.any(Number) } });
    expect((await call('GET', '/v1/accounts/acme/halt')).body).toMatchObject({ reason: 'guard is broken' });
    expect((await call('DELETE', '/v1/accounts/acme/halt')).status).toBe(204);
    expect((await call('GET', '/v1/accounts/acme/halt')).body).toEqual({ halted: false });
    expect((await call('DELETE', '/v1/accounts/acme/halt')).status).toBe(404);
    expect((await eventsOf('acme', 'account.halted')).at(-1)?.data).toMatchObject({ weakensEnforcement: false });
    expect((await eventsOf('acme', 'account.halted')).at(-1)?.data).not.toHaveProperty('reason', 'guard is broken');
    expect((await eventsOf('acme', 'account.resumed')).length).toBeGreaterThan(0);
  });

  it('ends by itself when its time is up', async () => {
    const until = new Date(Date.now() + 700).toISOString();
    const body = { reason: 'for a moment', failureMode: 'open', until };
    expect((await call('POST', '/v1/accounts/acme/halt', { body })).status).toBe(201);
    expect((await eventsOf('acme', 'account.halted')).at(-1)?.data).toMatchObject({ until, weakensEnforcement: true });
    while (Date.now() <= Date.parse(until)) await new Promise((resolve) => setTimeout(resolve, 20));
    expect((await call('GET', '/v1/accounts/acme/halt')).body).toEqual({ halted: false });
  });
});
