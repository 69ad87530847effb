/* eslint-disable @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-member-access,
   @typescript-eslint/no-unsafe-call, @typescript-eslint/no-unsafe-return, @typescript-eslint/no-unsafe-argument,
   @typescript-eslint/restrict-plus-operands -- an answer is whatever the server said; expectations say what it is */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { startServer, until, type CallAnswer, type CallOptions, type RunningServer } from './support/running-server.js';

let server: RunningServer;
const keys = { admin: '', full: '', runtime: '' };
const base = '/v1/accounts/default';

const makeKey = async (role: string, content?: string): Promise<string> => {
  const made = await server.call('POST', `${base}/keys`, { body: { role, name: role, ...(content && { content }) } });
  return String(made.body.secret);
};

beforeAll(async () => {
  server = await startServer();
  keys.admin = await makeKey('admin');
  keys.full = await makeKey('admin', 'full');
  keys.runtime = await makeKey('runtime');
}, 120_000);

afterAll(() => server.close(), 30_000);

type Options = CallOptions & { readonly ifMatch?: string };

const admin = (method: string, path: string, { ifMatch, ...options }: Options = {}): Promise<CallAnswer> =>
  server.call(method, `${base}${path}`, {
    key: keys.full,
    ...options,
    headers: { ...options.headers, ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }) },
  });

const appending = (word: string): string =>
  `globalThis.middleware.systemPrompt = (c) => c.systemPrompt + ${JSON.stringify(word)};`;

const body = (id: string, over: object = {}): object => ({
  id,
  name: id,
  version: '1.0.0',
  dialect: 'middleware',
  language: 'javascript',
  source: appending(`+${id}`),
  ...over,
});

const install = (id: string, over: object = {}): Promise<CallAnswer> =>
  admin('POST', '/plugins', { body: body(id, over) });

/** Leaves no plugin of an earlier test in the chain. */
const clear = async (): Promise<void> => {
  const replaced = await admin('PUT', '/plugins', { body: { plugins: [] } });
  expect(replaced.status).toBe(200);
};

const fire = async (text = 'x'): Promise<string> => {
  const answer = await server.call('POST', `${base}/hooks/middleware/systemPrompt`, {
    key: keys.runtime,
    body: { context: { sessionId: 's', agentId: 'a', sessionKind: 'direct', systemPrompt: text } },
  });
  expect(answer.status).toBe(200);
  return String(answer.body.value);
};

const listed = async (): Promise<readonly string[]> => {
  const list = await admin('GET', '/plugins');
  return list.body.items.map(({ id }: { id: string }) => id);
};

describe('installing a plugin', () => {
  beforeAll(clear);

  it('answers 201 with Location, ETag, hooks and permissions, and is in force at once', async () => {
    const made = await install('one', {
      source:
        'globalThis.middleware.systemPrompt = async (c) => { if (c.systemPrompt === "f") await host.fetch("http://x"); return c.systemPrompt + "+one"; };',
    });
    expect(made.status).toBe(201);
    expect(made.headers.get('location')).toBe(`${base}/plugins/one`);
    expect(made.headers.get('etag')).toBe('"1"');
    expect(made.body).toMatchObject({
      id: 'one',
      revision: 1,
      hooks: ['systemPrompt'],
      requestedPermissions: ['host:fetch'],
      permissions: ['host:fetch'],
      warnings: [],
      enabled: true,
      failureMode: 'open',
      mode: 'enforce',
    });
    expect(await fire()).toBe('x+one');
  });

  it.each(['.', '..'])('is 422 for an id that clients take out of a path: %s', async (id) => {
    const answer = await install(id);
    expect(answer.status).toBe(422);
    expect(answer.body.errors[0].pointer).toBe('/id');
  });

  it('is 409 for an id that is installed, and changes nothing', async () => {
    const again = await install('one', { source: appending('other') });
    expect(again.status).toBe(409);
    expect(await fire()).toBe('x+one');
  });

  it.each<[string, string, number | null]>([
    ['does not parse', 'globalThis.middleware.systemPrompt = (c) => {\n  return c.;\n};', 2],
    ['throws at load', 'const a = 1;\n\nthrow new Error("no");', 3],
    ['hangs at load', 'for (;;) {}', null],
    ['registers nothing at all', 'const quiet = 1;', null],
  ])(
    'is 422 for a source that %s, with nothing stored',
    async (_, source, line) => {
      const refused = await install('faulty', { source });
      expect(refused.status).toBe(422);
      expect(refused.headers.get('content-type')).toContain('application/problem+json');
      const [fault] = refused.body.errors;
      expect(fault.pointer).toBe('/source');
      if (line !== null) {
        expect(fault.line).toBe(line);
        expect(fault.column).toBeGreaterThan(0);
        expect(fault.reason).toContain(`line ${String(line)}, column ${String(fault.column)}`);
      }
      expect((await admin('GET', '/plugins/faulty')).status).toBe(404);
      expect((await admin('GET', '/plugins/faulty/history')).status).toBe(404);
    },
    30_000,
  );

  it.each<[object, string]>([
    [{ source: undefined }, '/source'],
    [{ files: { 'a.js': '' }, entry: 'a.js' }, '/files'],
    [{ source: undefined, files: { 'a.js': '' } }, '/entry'],
    [{ source: undefined, files: { 'a.js': '' }, entry: 'b.js' }, '/entry'],
  ])('is 422 for %j and says no more than where and why', async (over, pointer) => {
    const refused = await install('sourceless', over);
    expect(refused.status).toBe(422);
    expect(refused.body.errors).toEqual([{ pointer, reason: expect.any(String) }]);
  });

  it('warns of an unknown hook with the nearest name', async () => {
    const made = await install('typo', { source: `${appending('')} globalThis.middleware.sytemPrompt = () => '';` });
    expect(made.status).toBe(201);
    expect(made.body.warnings).toEqual([{ code: 'unknown_hook', detail: expect.stringContaining('systemPrompt') }]);
  });

  it.each<[string, object, string]>([
    ['an unknown field', { colour: 'red' }, '/colour'],
    ['a numeric id', { id: 7 }, '/id'],
    ['an unknown dialect', { dialect: 'none' }, '/dialect'],
    ['a permission that does not exist', { permissions: ['host:all'] }, '/permissions'],
    ['both a source and files', { files: { 'a.js': '' }, entry: 'a.js' }, '/files'],
    ['a config that its schema refuses', { configSchema: { type: 'object', required: ['a'] } }, '/config'],
    ['a schema with a pattern that does not compile', { configSchema: { pattern: '(' } }, '/configSchema/pattern'],
    ['a time limit beyond the bounds', { timeouts: { hooks: { systemPrompt: 5001 } } }, '/timeouts/hooks/systemPrompt'],
    ['a time limit for no hook', { timeouts: { hooks: { nope: 5 } } }, '/timeouts/hooks/nope'],
    ['failureMode closed where no hook can cancel', { failureMode: 'closed' }, '/failureMode'],
    ['a source over 1 MiB', { source: `//${'x'.repeat(1024 * 1024)}` }, '/source'],
    ['a secret that is not set', { config: { key: { $secret: 'unset' } } }, '/config'],
    [
      'a file path that leaves the plugin',
      { source: undefined, files: { '../a.js': 'x' }, entry: '../a.js' },
      '/files',
    ],
  ])('is 422 with a pointer for %s', async (_, over, pointer) => {
    const refused = await install('misfit', over);
    expect(refused.status).toBe(422);
    expect(refused.body.errors.map((fault: { pointer: string }) => fault.pointer)).toContain(pointer);
    expect((await admin('GET', '/plugins/misfit')).status).toBe(404);
  });

  it('takes several files and TypeScript', async () => {
    const made = await install('typed', {
      language: 'typescript',
      source: undefined,
      entry: 'index.ts',
      files: {
        'index.ts': `import { word } from './word'; globalThis.middleware.systemPrompt = (c: { systemPrompt: string }): string => c.systemPrompt + word;`,
        'word.ts': `export const word: string = '+typed';`,
      },
    });
    expect(made.status).toBe(201);
    const source = await admin('GET', '/plugins/typed/source');
    expect(source.body).toMatchObject({ revision: 1, entry: 'index.ts', files: { 'word.ts': expect.any(String) } });
    expect(source.body.compiler).toMatch(/^esbuild@/);
    expect(await fire()).toBe('x+one+typed');
  });

  it('runs once for one Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'install-twice' };
    const answers = await Promise.all([1, 2, 3].map(() => admin('POST', '/plugins', { body: body('twice'), headers })));
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(answers.filter((answer) => answer.headers.get('idempotency-replayed') === 'true')).toHaveLength(2);
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect((await admin('GET', '/plugins/twice/history')).body.items).toHaveLength(1);
  });

  it('is for administrators only', async () => {
    const refused = await server.call('POST', `${base}/plugins`, { key: keys.runtime, body: body('mine') });
    expect(refused.status).toBe(403);
  });
});

describe('what an install grants', () => {
  const source =
    'globalThis.middleware.systemPrompt = async (c) => { await host.fetch?.("http://x"); await host.llm?.("y"); return "" + (host.fetch !== undefined) + (host.llm !== undefined); };';

  beforeEach(clear);

  it('is what the source asks for where nothing is said', async () => {
    expect((await install('p', { source })).body.permissions).toEqual(['host:fetch', 'host:llm']);
  });

  it('is exactly a list, and nothing for an empty one', async () => {
    expect((await install('p', { source, permissions: ['host:llm'] })).body.permissions).toEqual(['host:llm']);
    expect((await install('q', { source, permissions: [] })).body.permissions).toEqual([]);
    expect(await fire()).toBe('falsefalse');
  });
});

describe('changing a plugin', () => {
  beforeEach(async () => {
    await clear();
    expect((await install('p')).status).toBe(201);
  });

  const patch = (change: object, options: Options = {}): Promise<CallAnswer> =>
    admin('PATCH', '/plugins/p', { body: change, ...options });
  const revision = async (): Promise<number> => Number((await admin('GET', '/plugins/p')).body.revision);

  it('takes it out of the chain and puts it back', async () => {
    expect((await patch({ enabled: false })).body.enabled).toBe(false);
    expect(await fire()).toBe('x');
    expect((await patch({ enabled: true })).body.enabled).toBe(true);
    expect(await fire()).toBe('x+p');
  });

  it('that is stale is 412 with the current ETag, and changes nothing', async () => {
    const { headers } = await admin('GET', '/plugins/p');
    const etag = headers.get('etag') ?? '';
    expect((await patch({ priority: 1 }, { ifMatch: etag })).status).toBe(200);
    const stale = await patch({ priority: 2 }, { ifMatch: etag });
    expect(stale.status).toBe(412);
    expect(stale.headers.get('etag')).not.toBe(etag);
    expect((await admin('GET', '/plugins/p')).body.priority).toBe(1);
  });

  it('at the same time by two who read the same is done by exactly one; no update is lost', async () => {
    for (let round = 0; round < 5; round += 1) {
      const etag = (await admin('GET', '/plugins/p')).headers.get('etag') ?? '';
      const answers = await Promise.all(
        [1, 2, 3, 4].map((n) => patch({ priority: round * 10 + n }, { ifMatch: etag })),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 412, 412, 412]);
      const winner = answers.find(({ status }) => status === 200);
      expect((await admin('GET', '/plugins/p')).body.priority).toBe(winner?.body.priority);
    }
    const { items } = (await admin('GET', '/plugins/p/history?order=oldest&limit=500')).body;
    for (const [index, change] of items.entries()) {
      expect(change.before).toEqual(index === 0 || items[index - 1].after === null ? null : items[index - 1].after);
    }
  });

  it('without If-Match at the same time lets every change through', async () => {
    const before = await revision();
    const answers = await Promise.all(
      [{ priority: 5 }, { mode: 'observe' }, { isolation: 'fresh' }, { config: { a: 1 } }].map((change) =>
        patch(change),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect((await admin('GET', '/plugins/p')).body).toMatchObject({
      priority: 5,
      mode: 'observe',
      isolation: 'fresh',
      config: { a: 1 },
      revision: before + 4,
    });
  });

  it('to what is already so writes nothing', async () => {
    const before = await revision();
    const same = await patch({ enabled: true, config: {}, timeouts: {}, priority: null, reason: 'again' });
    expect(same.status).toBe(200);
    expect(same.body.revision).toBe(before);
  });

  it('that changed nothing is answered the same again for its Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'nothing' };
    const first = await patch({ enabled: true }, { headers });
    await patch({ priority: 8 });
    const again = await patch({ enabled: true }, { headers });
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(again.text).toBe(first.text);
  });

  it('of a plugin that is not there is 404', async () => {
    expect((await admin('PATCH', '/plugins/none', { body: { enabled: false } })).status).toBe(404);
  });

  it('gives host.config to the next run, with secrets in place, and shows the reference only', async () => {
    await admin('POST', '/plugins/p/versions', {
      body: { version: '2', source: 'globalThis.middleware.systemPrompt = (c) => host.config.key;' },
    });
    await admin('PUT', '/secrets/token', { body: { value: 'open sesame' } });
    const changed = await patch({ config: { key: { $secret: 'token' } } });
    expect(changed.status).toBe(200);
    expect(changed.body.config).toEqual({ key: { $secret: 'token' } });
    expect(await fire()).toBe('open sesame');
    await admin('PUT', '/secrets/token', { body: { value: 'shut' } });
    await until('the new secret is in force', async () => (await fire()) === 'shut', 5);
  });

  it('is refused when the code cannot be loaded with the new configuration', async () => {
    await admin('POST', '/plugins/p/versions', {
      body: {
        version: '2',
        source:
          'if (host.config.broken) throw new Error("broken"); globalThis.middleware.systemPrompt = (c) => c.systemPrompt;',
      },
    });
    const before = await revision();
    const refused = await patch({ config: { broken: true } });
    expect([refused.status, await revision()]).toEqual([422, before]);
  });

  it('is recorded with who, on whose behalf, why, before, after and what it weakens', async () => {
    await admin('PATCH', '/plugins/p', {
      body: { mode: 'observe', priority: 3, reason: 'ticket 9' },
      headers: { 'hookledger-on-behalf-of': 'ada' },
    });
    const { items } = (await admin('GET', '/plugins/p/history')).body;
    expect(items.slice(0, 2).map(({ type }: { type: string }) => type)).toEqual([
      'plugin.mode_changed',
      'plugin.configured',
    ]);
    expect(items[0]).toMatchObject({
      actor: { kind: 'key', onBehalfOf: 'ada' },
      reason: 'ticket 9',
      changed: ['mode'],
      weakensEnforcement: true,
      before: { mode: 'enforce', priority: 3 },
      after: { mode: 'observe', priority: 3 },
      recordedAt: expect.stringMatching(/Z$/),
    });
    expect(items[1].weakensEnforcement).toBe(false);
    const weakening = (await admin('GET', '/changes?weakening=true&pluginId=p')).body.items;
    expect(weakening[0].position).toBe(items[0].position);
  });
});

describe('content', () => {
  beforeAll(async () => {
    await clear();
    await install('p', { config: { word: 'secret word' }, reason: 'a private reason' });
  });

  it('is hidden from a key without content: full, with its size', async () => {
    for (const path of ['/plugins/p', '/plugins/p/source', '/plugins/p/history', '/changes', '/plugins']) {
      const shown = await server.call('GET', `${base}${path}`, { key: keys.admin });
      expect(shown.status).toBe(200);
      expect(shown.text).not.toContain('secret word');
      expect(shown.text).not.toContain('a private reason');
      expect(shown.text).not.toContain('systemPrompt + ');
      expect(shown.text).toContain('"hidden":true');
    }
    const full = await admin('GET', '/plugins/p');
    expect(full.body.config).toEqual({ word: 'secret word' });
  });

  it('stands in the log under a seal', async () => {
    const events = await admin('GET', '/events?type=plugin.installed');
    expect(events.text).not.toContain('secret word');
    expect(events.text).not.toContain('a private reason');
  });
});

describe('versions', () => {
  beforeEach(async () => {
    await clear();
    await install('a');
    await install('p');
    await install('z');
  });

  it('are in force from the next run, keep their place, and can be rolled back', async () => {
    const made = await admin('POST', '/plugins/p/versions', {
      body: { version: '2.0.0', source: appending('+p2'), reason: 'r' },
    });
    expect(made.status).toBe(201);
    expect(await fire()).toBe('x+a+p2+z');
    const before = (await admin('GET', '/plugins/p')).body.revision;
    const back = await admin('POST', '/plugins/p/rollback', { body: { revision: before - 1 } });
    expect([back.status, back.body.version, back.body.revision]).toEqual([200, '1.0.0', before + 1]);
    expect(await fire()).toBe('x+a+p+z');
    const first = await admin('GET', `/plugins/p/source?revision=${String(before)}`);
    expect(first.body).toMatchObject({ version: '2.0.0', source: appending('+p2') });
    expect((await admin('POST', '/plugins/p/rollback', { body: { revision: 999 } })).status).toBe(422);
  });

  it('that are faulty leave the one in force alone', async () => {
    const refused = await admin('POST', '/plugins/p/versions', { body: { version: '2', source: 'throw 1' } });
    expect(refused.status).toBe(422);
    expect(await fire()).toBe('x+a+p+z');
  });
});

describe('the order', () => {
  beforeEach(async () => {
    await clear();
    for (const id of ['a', 'b', 'c']) await install(id);
  });

  it('is the order of installation until it is set; what is installed later or again goes to the end', async () => {
    expect(await fire()).toBe('x+a+b+c');
    const set = await admin('PUT', '/plugin-order', { body: { pluginIds: ['c', 'a', 'b'], reason: 'guard first' } });
    expect([set.status, set.body.pluginIds]).toEqual([200, ['c', 'a', 'b']]);
    expect(await fire()).toBe('x+c+a+b');
    await admin('DELETE', '/plugins/c?reason=over');
    await install('d');
    await install('c');
    expect(await fire()).toBe('x+a+b+d+c');
    expect(await listed()).toEqual(['a', 'b', 'd', 'c']);
  });

  it.each<[string, readonly string[]]>([
    ['an unknown id', ['a', 'b', 'c', 'x']],
    ['a missing id', ['a', 'b']],
    ['an id twice', ['a', 'b', 'c', 'c']],
  ])('with %s is 422', async (_, pluginIds) => {
    expect((await admin('PUT', '/plugin-order', { body: { pluginIds } })).status).toBe(422);
  });

  it('that is stale is 412, for an install beside it too', async () => {
    const etag = (await admin('GET', '/plugin-order')).headers.get('etag') ?? '';
    await install('d');
    const stale = await admin('PUT', '/plugin-order', { body: { pluginIds: ['d', 'c', 'b', 'a'] }, ifMatch: etag });
    expect(stale.status).toBe(412);
    expect(
      (await admin('PUT', '/plugin-order', { body: { pluginIds: ['d', 'c', 'b', 'a'] }, ifMatch: '*' })).status,
    ).toBe(200);
  });
});

describe('uninstalling', () => {
  it('leaves history, source and the numbers of revisions', async () => {
    await clear();
    await install('p', { source: appending('+first') });
    const first = (await admin('GET', '/plugins/p')).body.revision;
    const gone = await admin('DELETE', '/plugins/p', { ifMatch: `"${String(first)}"` });
    expect(gone.status).toBe(204);
    expect(await fire()).toBe('x');
    expect((await admin('GET', '/plugins/p')).status).toBe(404);
    expect((await admin('DELETE', '/plugins/p')).status).toBe(404);
    expect((await admin('GET', '/plugins/p/source')).body.source).toBe(appending('+first'));
    expect((await admin('GET', '/plugins/p/history')).body.items[0]).toMatchObject({
      type: 'plugin.uninstalled',
      after: null,
    });
    const again = await install('p');
    expect(again.body.revision).toBe(first + 1);
  });
});

describe('the chain in force', () => {
  it('is told for now, for a position and for a time', async () => {
    await clear();
    await install('a');
    const position = (await admin('GET', '/changes?limit=1')).body.items[0].position;
    const time = new Date().toISOString();
    await new Promise((resolve) => setTimeout(resolve, 20));
    await install('b');
    await admin('PUT', '/plugin-order', { body: { pluginIds: ['b', 'a'] } });
    const chain = async (asOf?: string): Promise<readonly string[]> => {
      const query = asOf === undefined ? '' : `&asOf=${encodeURIComponent(asOf)}`;
      const answer = await admin('GET', `/chain?dialect=middleware&hook=systemPrompt${query}`);
      return answer.body.plugins.map(({ id }: { id: string }) => id);
    };
    expect(await chain()).toEqual(['b', 'a']);
    expect(await chain(position)).toEqual(['a']);
    expect(await chain(time)).toEqual(['a']);
    expect((await admin('GET', '/chain?dialect=middleware')).status).toBe(400);
    expect((await admin('GET', '/chain?dialect=middleware&hook=none')).status).toBe(404);
    expect((await admin('GET', '/chain?dialect=middleware&hook=systemPrompt&asOf=soon')).status).toBe(400);
    const empty = await admin('GET', '/chain?dialect=middleware&hook=todoAdded');
    expect(empty.body).toMatchObject({ plugins: [], withoutHook: 2 });
  });
});

describe('the chain as it was', () => {
  const chain = async (asOf?: string): Promise<CallAnswer['body']> =>
    (
      await admin(
        'GET',
        `/chain?dialect=middleware&hook=systemPrompt${asOf === undefined ? '' : `&asOf=${encodeURIComponent(asOf)}`}`,
      )
    ).body;
  const newest = async (): Promise<string> => (await admin('GET', '/changes?limit=1')).body.items[0].position;

  afterAll(async () => {
    await admin('PATCH', '/settings', { body: { timeouts: null } });
    await admin('DELETE', '/halt');
  });

  it("has the account's time limits of then, behind the plugin's own and before the dialect's", async () => {
    await clear();
    await install('a');
    await install('own', { timeouts: { timeoutMs: 77 } });
    const before = await newest();
    await admin('PATCH', '/settings', { body: { timeouts: { middleware: 1234 } } });
    const then = await newest();
    const time = new Date().toISOString();
    await new Promise((resolve) => setTimeout(resolve, 20));
    await admin('PATCH', '/settings', { body: { timeouts: { middleware: 99 } } });
    const limits = async (asOf?: string): Promise<readonly number[]> =>
      (await chain(asOf)).plugins.map(({ timeoutMs }: { timeoutMs: number }) => timeoutMs);
    expect(await limits(before)).toEqual([5000, 77]);
    expect(await limits(then)).toEqual([1234, 77]);
    expect(await limits(time)).toEqual([1234, 77]);
    expect(await limits()).toEqual([99, 77]);
    expect((await chain(then)).position).toBe(then);
  });

  it('says that the account is halted, how, since when and until when', async () => {
    const before = await newest();
    expect((await chain()).halt).toBeNull();
    const until = new Date(Date.now() + 3_600_000).toISOString();
    const halted = await admin('POST', '/halt', { body: { reason: 'stop', failureMode: 'closed', until } });
    const during = await newest();
    const halt = { failureMode: 'closed', since: halted.body.since, until };
    expect((await chain()).halt).toEqual(halt);
    await admin('DELETE', '/halt');
    expect((await chain()).halt).toBeNull();
    expect((await chain(during)).halt).toEqual(halt);
    expect((await chain(halted.body.since)).halt).toEqual(halt);
    expect((await chain(before)).halt).toBeNull();
  });
});

describe('a whole set', () => {
  beforeEach(async () => {
    await clear();
    for (const id of ['a', 'b']) await install(id);
  });

  const set = { plugins: [body('c'), body('b', { mode: 'observe' })], reason: 'release 7' };

  it('is compared without writing, then made so in one commit', async () => {
    const compared = await admin('PUT', '/plugins?dryRun=true', { body: set });
    expect(compared.status).toBe(200);
    const difference = {
      installed: [{ id: 'c' }],
      changed: [{ id: 'b', changed: ['mode'], weakensEnforcement: true }],
      uninstalled: [{ id: 'a' }],
      order: { after: ['c', 'b'] },
    };
    expect(compared.body).toMatchObject({ dryRun: true, ...difference });
    expect(await listed()).toEqual(['a', 'b']);
    const written = await admin('PUT', '/plugins?dryRun=false', { body: set });
    expect(written.body).toMatchObject({ dryRun: false, ...difference });
    expect(await listed()).toEqual(['c', 'b']);
    const again = await admin('PUT', '/plugins', { body: set });
    expect(again.body).toMatchObject({
      installed: [],
      changed: [],
      uninstalled: [],
      unchanged: ['c', 'b'],
      order: null,
    });
  });

  it('is done once for one Idempotency-Key, and answered the same again, when it changes nothing too', async () => {
    for (const key of ['set-1', 'set-2']) {
      const headers = { 'idempotency-key': key };
      const first = await admin('PUT', '/plugins', { body: set, headers });
      await admin('PATCH', '/plugins/c', { body: { priority: 1 } });
      const again = await admin('PUT', '/plugins', { body: set, headers });
      expect([first.status, again.status]).toEqual([200, 200]);
      expect(again.headers.get('idempotency-replayed')).toBe('true');
      expect(again.text).toBe(first.text);
      await admin('PATCH', '/plugins/c', { body: { priority: null } });
    }
  });

  it('with one faulty plugin changes nothing and says which', async () => {
    const refused = await admin('PUT', '/plugins', {
      body: { plugins: [body('c'), body('d', { source: 'throw 1' })] },
    });
    expect(refused.status).toBe(422);
    expect(refused.body.errors[0].pointer).toBe('/plugins/1/source');
    expect(await listed()).toEqual(['a', 'b']);
  });

  it('that is stale is 412', async () => {
    const etag = (await admin('GET', '/plugins')).headers.get('etag') ?? '';
    await admin('PATCH', '/plugins/a', { body: { enabled: false } });
    expect((await admin('PUT', '/plugins', { body: set, ifMatch: etag })).status).toBe(412);
  });
});

describe('a trial', () => {
  beforeAll(async () => {
    await clear();
    await install('tried', {
      enabled: false,
      source: `globalThis.middleware.systemPrompt = async (c) => {
        host.log('info', 'seen ' + c.systemPrompt);
        const answer = await host.fetch('http://example.com').then(() => 'fetched', (e) => e.code);
        return c.systemPrompt + ':' + answer;
      };`,
    });
  });

  it('runs the one plugin, refuses its host calls, and is recorded as plugin.tried only', async () => {
    const before = (await admin('GET', '/changes?limit=1')).body.completeUpTo;
    const context = { sessionId: 's', agentId: 'a', sessionKind: 'direct', systemPrompt: 'try' };
    const tried = await admin('POST', '/plugins/tried/trial', { body: { hook: 'systemPrompt', context } });
    expect(tried.status).toBe(200);
    expect(tried.body).toMatchObject({
      outcome: 'rewrote',
      value: 'try:trial',
      refusedCalls: ['fetch'],
      logs: [['info', 'seen try']],
      warnings: [],
    });
    const events = (await admin('GET', `/events?after=${String(before)}`)).body.items;
    const types = events.map(({ type }: { type: string }) => type);
    expect(types.filter((type: string) => type !== 'audit.read')).toEqual(['plugin.tried']);
    expect((await admin('GET', '/plugins/tried/history')).body.items).toHaveLength(1);
  });

  it.each<[string, object]>([
    ['a hook that does not exist', { hook: 'nope', context: {} }],
    ['a hook that the plugin does not handle', { hook: 'todoAdded', context: {} }],
    ['a context that does not fit', { hook: 'systemPrompt', context: { systemPrompt: 7 } }],
  ])('is 422 for %s', async (_, trial) => {
    expect((await admin('POST', '/plugins/tried/trial', { body: trial })).status).toBe(422);
  });

  it('shows no content to a key without it, the first time and when it is repeated', async () => {
    await install('speaker', {
      source: `globalThis.middleware.systemPrompt = (c, t) => {
        host.log('info', 'private line');
        return c.systemPrompt === 'stop' ? t.cancel('private reason') : c.systemPrompt === 'bad' ? 7 : 'private value';
      };`,
    });
    const trial = (systemPrompt: string, key: string): Promise<CallAnswer> =>
      server.call('POST', `${base}/plugins/speaker/trial`, {
        key,
        body: { hook: 'systemPrompt', context: { sessionId: 's', agentId: 'a', sessionKind: 'direct', systemPrompt } },
        headers: { 'idempotency-key': `trial-${systemPrompt}-${key.slice(-6)}` },
      });
    const size = expect.any(Number);
    for (let n = 0; n < 2; n += 1) {
      const rewritten = await trial('go', keys.admin);
      expect(rewritten.body).toMatchObject({
        outcome: 'rewrote',
        value: { hidden: true, size: Buffer.byteLength('"private value"') },
        logs: [{ hidden: true, size }],
      });
      expect(rewritten.text).not.toContain('private');
      expect(rewritten.headers.get('idempotency-replayed')).toBe(n === 0 ? null : 'true');
    }
    expect((await trial('go', keys.full)).body).toMatchObject({ value: 'private value' });
    const malformed = await trial('bad', keys.admin);
    expect(malformed.body).toMatchObject({ outcome: 'skipped', warnings: [{ detail: { hidden: true, size } }] });
  });

  it('gives the plugin the names of its secrets, and not what they are', async () => {
    await admin('PUT', '/secrets/tok', { body: { value: 'the very secret' } });
    await install('keeper', {
      source: `globalThis.middleware.systemPrompt = (c) => {
        host.log('info', host.config.t);
        return host.config.t;
      };`,
      config: { t: { $secret: 'tok' } },
    });
    const context = { sessionId: 's', agentId: 'a', sessionKind: 'direct', systemPrompt: 'try' };
    const tried = await admin('POST', '/plugins/keeper/trial', { body: { hook: 'systemPrompt', context } });
    expect(tried.body).toMatchObject({ value: '[secret tok]', logs: [['info', '[secret tok]']] });
    expect(tried.text).not.toContain('very secret');
    expect(await fire()).toContain('the very secret');
    await admin('DELETE', '/plugins/keeper');
  });

  it('does not stand in the way of If-Match', async () => {
    const etag = (await admin('GET', '/plugins/tried')).headers.get('etag') ?? '';
    const context = { sessionId: 's', agentId: 'a', sessionKind: 'direct', systemPrompt: 'try' };
    await admin('POST', '/plugins/tried/trial', { body: { hook: 'systemPrompt', context } });
    expect((await admin('PATCH', '/plugins/tried', { body: { priority: 9 }, ifMatch: etag })).status).toBe(200);
  });
});

describe('health and log lines', () => {
  it('tell how a plugin does and what it wrote', async () => {
    await clear();
    await install('chatty', {
      source: `globalThis.middleware.systemPrompt = (c) => {
        host.log('warn', 'line ' + c.systemPrompt);
        if (c.systemPrompt === 'bad') throw new Error('bad');
        return c.systemPrompt;
      };`,
    });
    await fire('one');
    await fire('bad');
    await until('the runs are counted', async () => (await admin('GET', '/plugins/chatty')).body.health.runs === 2);
    const { health } = (await admin('GET', '/plugins/chatty')).body;
    expect(health).toMatchObject({ running: true, why: null, skips: { threw: 1 }, lastRunAt: expect.any(String) });
    expect(health.p95Ms).toBeGreaterThanOrEqual(health.p50Ms);
    const logs = await admin('GET', '/plugins/chatty/logs?order=oldest');
    expect(logs.body.items).toMatchObject([
      { level: 'warn', message: 'line one', hook: 'systemPrompt', pluginVersion: '1.0.0', revision: 1 },
      { level: 'warn', message: 'line bad', pluginVersion: '1.0.0', revision: 1 },
    ]);
    const page = await admin('GET', '/plugins/chatty/logs?limit=1');
    expect(page.body.items).toMatchObject([{ message: 'line bad' }]);
    const next = await admin('GET', `/plugins/chatty/logs?limit=1&cursor=${String(page.body.nextCursor)}`);
    expect(next.body.items).toMatchObject([{ message: 'line one' }]);
    const hidden = await server.call('GET', `${base}/plugins/chatty/logs`, { key: keys.admin });
    expect(hidden.body.items[0]).toMatchObject({ level: 'warn', message: { hidden: true } });
    expect(hidden.text).not.toContain('line one');
    const version = `globalThis.middleware.systemPrompt = (c) => { host.log('private word', 'two'); return c.systemPrompt; };`;
    await admin('POST', '/plugins/chatty/versions', { body: { version: '2', source: version } });
    await fire('two');
    const [line] = (await admin('GET', '/plugins/chatty/logs?limit=1')).body.items;
    expect(line).toMatchObject({ level: 'private word', message: 'two', pluginVersion: '2', revision: 2 });
    const blind = await server.call('GET', `${base}/plugins/chatty/logs?limit=1`, { key: keys.admin });
    expect(blind.body.items[0]).toMatchObject({ level: { hidden: true }, message: { hidden: true } });
    await admin('PATCH', '/plugins/chatty', { body: { enabled: false } });
    expect((await admin('GET', '/plugins/chatty')).body.health).toMatchObject({ running: false, why: 'disabled' });
  });
});

describe('an install policy', () => {
  afterAll(() => admin('PATCH', '/settings', { body: { installPolicy: null } }));

  it('is judged before install, version and rollback', async () => {
    await clear();
    await install('kept');
    await admin('POST', '/plugins/kept/versions', { body: { version: '2', source: appending('+2') } });
    expect((await admin('PATCH', '/settings', { body: { installPolicy: { deny: ['k*'] } } })).status).toBe(200);
    const refused = await install('ko');
    expect(refused.body).toMatchObject({ code: 'refused_by_policy', errors: [{ pointer: '/id' }] });
    const version = await admin('POST', '/plugins/kept/versions', { body: { version: '3', source: appending('+3') } });
    expect([version.status, version.body.errors]).toMatchObject([422, [{ pointer: '/source' }]]);
    const { revision } = (await admin('GET', '/plugins/kept')).body;
    const back = await admin('POST', '/plugins/kept/rollback', { body: { revision: revision - 1 } });
    expect([back.status, back.body.errors]).toMatchObject([422, [{ pointer: '/revision' }]]);
    const whole = await admin('PUT', '/plugins', { body: { plugins: [body('fine'), body('ko')] } });
    expect([whole.status, whole.body.errors]).toMatchObject([422, [{ pointer: '/plugins/1/id' }]]);
    expect((await install('allowed')).status).toBe(201);
    const digest = createHash('sha256')
      .update(JSON.stringify({ source: appending('+pinned') }))
      .digest('hex');
    await admin('PATCH', '/settings', {
      body: { installPolicy: { allow: [`sha256:${digest}`], requireDigest: true } },
    });
    const other = await install('other');
    expect([other.status, other.body.errors]).toMatchObject([422, [{ pointer: '/source' }]]);
    expect((await install('pinned', { source: appending('+pinned') })).status).toBe(201);
  });
});

describe('changes', () => {
  it('are those that weaken enforcement, those that do not, or all', async () => {
    const all = async (query: string): Promise<readonly { position: string; weakensEnforcement: boolean }[]> =>
      (await admin('GET', `/changes?limit=500${query}`)).body.items;
    await clear();
    await install('guard');
    await admin('PATCH', '/plugins/guard', { body: { mode: 'observe' } });
    const [everything, weak, other] = [await all(''), await all('&weakening=true'), await all('&weakening=false')];
    expect(everything.length).toBeLessThan(500);
    expect(weak).toEqual(everything.filter(({ weakensEnforcement }) => weakensEnforcement));
    expect(other).toEqual(everything.filter(({ weakensEnforcement }) => !weakensEnforcement));
    expect(weak.length).toBeGreaterThan(0);
    expect(other.length).toBeGreaterThan(0);
    expect((await admin('GET', '/changes?weakening=maybe')).status).toBe(400);
  });

  it('are paged by a cursor that belongs to its filter, both ways round', async () => {
    const all = (await admin('GET', '/changes?limit=500')).body.items.map(
      ({ position }: { position: string }) => position,
    );
    for (const order of ['newest', 'oldest']) {
      const seen: string[] = [];
      let cursor: string | null = null;
      do {
        const query: string = cursor === null ? '' : `&cursor=${cursor}`;
        const { body: page } = await admin('GET', `/changes?limit=7&order=${order}${query}`);
        seen.push(...page.items.map(({ position }: { position: string }) => position));
        cursor = page.nextCursor;
      } while (cursor !== null && seen.length < 500);
      const expected = order === 'newest' ? all : [...all].reverse();
      if (all.length < 500) expect(seen).toEqual(expected);
    }
    const { nextCursor } = (await admin('GET', '/changes?limit=1')).body;
    expect((await admin('GET', `/changes?limit=1&order=oldest&cursor=${String(nextCursor)}`)).status).toBe(400);
    expect((await admin('GET', '/changes?nope=1')).status).toBe(400);
    expect((await admin('GET', '/changes?from=2030-01-01&to=2020-01-01')).status).toBe(400);
  });
});

describe('a toggle', () => {
  it('is for Kohaku plugins only', async () => {
    await clear();
    await install('p');
    expect((await admin('POST', '/plugins/p/toggle', { body: { enabled: false } })).body.code).toBe(
      'not_a_kohaku_plugin',
    );
    expect((await admin('POST', '/plugins/none/toggle', { body: {} })).status).toBe(404);
  });
});

describe('after the server was killed', () => {
  it('every change that was answered is there, and none that was not', async () => {
    await clear();
    await install('p');
    const answered: number[] = [];
    const changing = (async () => {
      for (let n = 1; n < 200; n += 1) {
        const changed = await admin('PATCH', '/plugins/p', { body: { priority: n } }).catch(() => null);
        if (changed?.status !== 200) return;
        answered.push(n);
      }
    })();
    await until('some changes are answered', () => answered.length > 10);
    await server.kill();
    await changing;
    server = await startServer({ dataDir: server.dataDir });
    const read = await admin('GET', '/plugins/p');
    expect(read.status).toBe(200);
    const { priority } = read.body;
    const last = answered.at(-1) ?? 0;
    expect([last, last + 1]).toContain(priority);
    const { items } = (await admin('GET', '/plugins/p/history?limit=500&order=oldest')).body;
    expect(items.at(-1).after.priority).toBe(priority);
    expect(await fire()).toBe('x+p');
  }, 60_000);
});
