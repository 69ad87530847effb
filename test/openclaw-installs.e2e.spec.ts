import { rmSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startServer, until, type CallAnswer, type CallOptions, type RunningServer } from './support/running-server.js';

let server: RunningServer;
beforeAll(async () => {
  server = await startServer();
}, 120_000);
afterAll(async () => {
  await server.close();
  // One that was started on a folder that was there leaves it.
  rmSync(server.dataDir, { recursive: true, force: true });
});

let accounts = 0;
const newAccount = async (): Promise<string> => {
  const id = `inst-${String((accounts += 1))}`;
  expect((await server.call('POST', '/v1/accounts', { body: { id, name: id } })).status).toBe(201);
  return `/v1/accounts/${id}`;
};

const entry = (id: string, register: string): string => `
  import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
  export default definePluginEntry({ id: ${JSON.stringify(id)}, name: "A plugin", register(api) { ${register} } });
`;

const plugin = (id: string, register: string, more: object = {}): object => ({
  id,
  dialect: 'openclaw',
  language: 'typescript',
  source: entry(id, register),
  enabled: true,
  ...more,
});

/** What these tests read of an answer. */
interface Body {
  readonly items: readonly { readonly id: string; readonly cause?: string }[];
  readonly code: string;
  readonly detail: string;
  readonly invocationId: string;
  readonly findings: readonly object[];
  readonly errors: readonly { readonly pointer: string }[];
  readonly revision: number;
  readonly beforeInstall: object;
}

const call = (method: string, path: string, options: CallOptions = {}): Promise<CallAnswer<Body>> =>
  server.call<Body>(method, path, options);

const post = (path: string, body: object, headers: Record<string, string> = {}): Promise<CallAnswer<Body>> =>
  call('POST', path, { body, headers });

const scanner = (handler: string): object => plugin('scanner', `api.on("before_install", ${handler});`);

const harmless = plugin('harmless', 'api.on("message_received", () => {});');
const evil = plugin('evil', '/* steal */ api.on("message_received", () => {});');

/** Stops what has the word in its code, and says where. */
const wary = scanner(`(event) => {
  const findings = [];
  for (const [file, text] of Object.entries(event.files)) {
    const line = text.split("\\n").findIndex((one) => one.includes("steal")) + 1;
    if (line > 0) findings.push({ ruleId: "steals", severity: "critical", file, line, message: "it steals" });
  }
  return findings.length === 0 ? undefined : { findings, block: true, blockReason: event.targetName + " steals" };
}`);

const installed = async (base: string): Promise<readonly string[]> =>
  (await call('GET', `${base}/plugins`)).body.items.map(({ id }) => id);

interface Fired {
  readonly invocationId: string;
  readonly outcome: string;
  readonly target: string;
  readonly state: string;
  readonly attempt: number;
}

/** The invocations of `before_install` on record, oldest first, as soon as there are as many as that. */
const scans = async (base: string, count: number): Promise<readonly Fired[]> => {
  let items: readonly Fired[] = [];
  await until(`${String(count)} scans are on record`, async () => {
    const answer = await call('GET', `${base}/invocations?hook=before_install&order=oldest`);
    items = answer.body.items as unknown as readonly Fired[];
    return items.length >= count && items.every(({ state }) => state !== 'open');
  });
  expect(items).toHaveLength(count);
  return items;
};

describe('an install', () => {
  it('is stopped by a plugin of the account, with its reason and findings, and nothing of it is installed', async () => {
    const base = await newAccount();
    expect((await post(`${base}/plugins`, wary)).status).toBe(201);
    const answer = await post(`${base}/plugins`, evil);
    expect(answer.status).toBe(422);
    expect(answer.body).toMatchObject({
      code: 'security_scan_blocked',
      detail: 'evil steals',
      pluginId: 'scanner',
      findings: [{ ruleId: 'steals', severity: 'critical', file: 'plugin.ts', message: 'it steals' }],
    });
    expect(await installed(base)).toEqual(['scanner']);
    const [scan] = await scans(base, 1);
    expect(scan).toMatchObject({
      invocationId: answer.body.invocationId,
      outcome: 'cancelled',
      target: 'evil',
    });
  });

  it('shows what was found where that stopped nothing, the same when it is asked again, and names its scan', async () => {
    const base = await newAccount();
    const finding = { ruleId: 'odd', severity: 'warn', file: 'plugin.ts', line: 3, message: 'odd' };
    await post(`${base}/plugins`, scanner(`() => ({ findings: [${JSON.stringify(finding)}] })`));
    const first = await post(`${base}/plugins`, harmless, { 'Idempotency-Key': 'once' });
    expect(first.status).toBe(201);
    expect(first.body.beforeInstall).toMatchObject({ pluginId: 'harmless', findings: [finding] });
    const again = await post(`${base}/plugins`, harmless, { 'Idempotency-Key': 'once' });
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(again.body).toEqual(first.body);
    const [scan] = await scans(base, 1);
    const { items } = (await call('GET', `${base}/events?type=plugin.installed`)).body;
    expect(items.map(({ cause }) => cause)).toEqual([undefined, scan?.invocationId]);
  });

  it.each([
    ['throws', '() => { throw new Error("scanner offline"); }'],
    ['runs out of time', '() => new Promise(() => {})'],
    ['crashes', '() => { for (;;); }'],
  ])('is stopped by a plugin that %s', async (_, handler) => {
    const base = await newAccount();
    const timed = { ...scanner(handler), timeouts: { hooks: { before_install: 300 } } };
    expect((await post(`${base}/plugins`, timed)).status).toBe(201);
    const answer = await post(`${base}/plugins`, harmless);
    expect([answer.status, answer.body.code]).toEqual([422, 'security_scan_failed']);
    expect(answer.body.detail).toMatch(/^Installation blocked because before_install hook failed: plugin scanner/u);
    expect(await installed(base)).toEqual(['scanner']);
  });

  it('is judged by the policy before any plugin is asked', async () => {
    const base = await newAccount();
    await post(`${base}/plugins`, wary);
    const settings = await call('PATCH', `${base}/settings`, { body: { installPolicy: { deny: ['evil'] } } });
    expect(settings.status).toBe(200);
    const answer = await post(`${base}/plugins`, evil);
    expect([answer.status, answer.body.code]).toEqual([422, 'refused_by_policy']);
    await scans(base, 0);
  });

  it('gives handlers the fields of the real host and the files, of which the record has digests alone', async () => {
    const base = await newAccount();
    await post(
      `${base}/plugins`,
      scanner('(event, context) => ({ block: true, blockReason: JSON.stringify([event, context]) })'),
    );
    const files = {
      'index.ts': entry('packed', 'api.on("message_received", () => {});'),
      'openclaw.plugin.json': JSON.stringify({ id: 'packed', configSchema: {} }),
      'package.json': JSON.stringify({ name: '@some/packed' }),
      __proto__x: 'odd',
    };
    const body = {
      id: 'packed',
      dialect: 'openclaw',
      language: 'typescript',
      version: '1.2.3',
      files,
      entry: 'index.ts',
    };
    const answer = await post(`${base}/plugins`, body);
    const [event, context] = JSON.parse(answer.body.detail) as [object, object];
    expect(context).toEqual({ targetType: 'plugin', requestKind: 'plugin-dir', origin: 'hookledger' });
    expect(event).toMatchObject({
      targetType: 'plugin',
      targetName: 'packed',
      sourcePath: '/plugin',
      sourcePathKind: 'directory',
      request: { kind: 'plugin-dir', mode: 'install', requestedSpecifier: 'packed@1.2.3' },
      builtinScan: { status: 'ok', scannedFiles: 0, critical: 0, warn: 0, info: 0, findings: [] },
      plugin: {
        pluginId: 'packed',
        contentType: 'package',
        packageName: '@some/packed',
        manifestId: 'packed',
        version: '1.2.3',
        extensions: ['index.ts'],
      },
      files,
    });
    const [scan] = await scans(base, 1);
    const detail = await call('GET', `${base}/invocations/${scan?.invocationId ?? ''}`);
    const { context: recorded } = detail.body as unknown as { context: { event: { files: Record<string, string> } } };
    expect(Object.keys(recorded.event.files).sort()).toEqual(Object.keys(files).sort());
    expect(Object.values(recorded.event.files).every((text) => /^sha256:[0-9a-f]{64}$/u.test(text))).toBe(true);
  });

  it('of a plugin of another dialect is scanned as well', async () => {
    const base = await newAccount();
    await post(`${base}/plugins`, wary);
    const source = 'globalThis.middleware.systemPrompt = async (c) => c.systemPrompt + " steal";';
    const answer = await post(`${base}/plugins`, { id: 'mw', dialect: 'middleware', language: 'javascript', source });
    expect([answer.status, answer.body.code]).toEqual([422, 'security_scan_blocked']);
  });

  it('asks a plugin no more that is disabled, which is the way out of one that stops everything', async () => {
    const base = await newAccount();
    await post(`${base}/plugins`, scanner('() => { throw new Error("broken"); }'));
    expect((await post(`${base}/plugins`, harmless)).status).toBe(422);
    const off = await call('PATCH', `${base}/plugins/scanner`, { body: { enabled: false } });
    expect(off.status).toBe(200);
    expect((await post(`${base}/plugins`, harmless)).status).toBe(201);
  });
});

describe('a server that fires no hooks for runtimes', () => {
  it('asks the plugins all the same', async () => {
    const control = await startServer({ env: { HOOKLEDGER_ROLES: 'control' } });
    try {
      const path = '/v1/accounts/default/plugins';
      expect((await control.call('POST', path, { body: wary })).status).toBe(201);
      const answer = await control.call<Body>('POST', path, { body: evil });
      expect([answer.status, answer.body.code]).toEqual([422, 'security_scan_blocked']);
    } finally {
      await control.close();
    }
  }, 60_000);
});

describe('what a plugin says of a candidate', () => {
  it.each([
    ['a lone surrogate and NUL', '"\\ud800\\u0000bad"'],
    ['a million characters', '"x".repeat(1 << 20)'],
  ])('is shown cut and well formed: %s', async (_, text) => {
    const base = await newAccount();
    const odd = `{ ruleId: ${text}, severity: ${text}, file: "__proto__", line: "1", message: ${text} }`;
    await post(
      `${base}/plugins`,
      scanner(`() => ({ findings: [${odd}, null, 7], block: true, blockReason: ${text} })`),
    );
    const answer = await post(`${base}/plugins`, harmless);
    expect([answer.status, answer.body.code]).toEqual([422, 'security_scan_blocked']);
    expect(answer.body.detail.isWellFormed()).toBe(true);
    expect(answer.body.findings).toHaveLength(1);
    expect(answer.text.length).toBeLessThan(20_000);
  });
});

describe('new code of a plugin that is there', () => {
  it('is scanned when it is a version, and stays away', async () => {
    const base = await newAccount();
    await post(`${base}/plugins`, wary);
    await post(`${base}/plugins`, harmless);
    const source = entry('harmless', '/* steal */ api.on("message_received", () => {});');
    const answer = await post(`${base}/plugins/harmless/versions`, { version: '2.0.0', source, reason: 'more' });
    expect([answer.status, answer.body.code]).toEqual([422, 'security_scan_blocked']);
    expect((await call('GET', `${base}/plugins/harmless`)).body.revision).toBe(1);
    const fine = entry('harmless', 'api.on("message_sent", () => {});');
    const made = await post(`${base}/plugins/harmless/versions`, { version: '2.0.0', source: fine, reason: 'more' });
    expect(made.status).toBe(201);
    expect((await scans(base, 3)).map(({ outcome }) => outcome)).toEqual(['passed', 'cancelled', 'passed']);
  });

  it('is scanned when it comes back', async () => {
    const base = await newAccount();
    await post(`${base}/plugins`, evil);
    const fine = entry('evil', 'api.on("message_received", () => {});');
    expect((await post(`${base}/plugins/evil/versions`, { version: '2.0.0', source: fine, reason: 'x' })).status).toBe(
      201,
    );
    await post(`${base}/plugins`, wary);
    const back = await post(`${base}/plugins/evil/rollback`, { revision: 1, reason: 'back' });
    expect([back.status, back.body.code]).toEqual([422, 'security_scan_blocked']);
    expect((await call('GET', `${base}/plugins/evil`)).body.revision).toBe(2);
    expect((await post(`${base}/plugins/evil/rollback`, { revision: 9, reason: 'back' })).body.code).toBe(
      'unknown_revision',
    );
    await scans(base, 1);
  });
});

describe('a whole set of plugins', () => {
  it('comes in whole or not at all: one that is stopped stops them all, also where the set drops who stops it', async () => {
    const base = await newAccount();
    await post(`${base}/plugins`, wary);
    const answer = await call('PUT', `${base}/plugins`, { body: { plugins: [harmless, evil] } });
    expect(answer.status).toBe(422);
    expect(answer.body).toMatchObject({ code: 'security_scan_blocked', detail: 'evil steals', pluginId: 'scanner' });
    expect(answer.body.errors[0]?.pointer).toBe('/plugins/1');
    expect(await installed(base)).toEqual(['scanner']);
  });

  it('is not scanned where it is only compared, nor is code that is there already', async () => {
    const base = await newAccount();
    await post(`${base}/plugins`, wary);
    const set = { plugins: [wary, harmless] };
    const compared = await call('PUT', `${base}/plugins?dryRun=true`, { body: set });
    expect([compared.status, compared.body.beforeInstall]).toEqual([200, []]);
    await scans(base, 0);
    const headers = { 'Idempotency-Key': 'set' };
    const made = await call('PUT', `${base}/plugins`, { body: set, headers });
    expect(made.body.beforeInstall).toMatchObject([{ pluginId: 'harmless', findings: [] }]);
    const again = await call('PUT', `${base}/plugins`, { body: set, headers });
    expect(again.body).toEqual(made.body);
    expect((await call('PUT', `${base}/plugins`, { body: set })).body.beforeInstall).toEqual([]);
    await scans(base, 1);
  });
});

describe('a server that is killed in the middle of a scan', () => {
  it('has installed nothing; the same request with the same key scans again, and installs once', async () => {
    const base = await newAccount();
    const slow = scanner('async () => { await new Promise((resolve) => setTimeout(resolve, 1500)); }');
    expect((await post(`${base}/plugins`, slow)).status).toBe(201);
    const headers = { 'Idempotency-Key': 'through-a-crash' };
    const dying = post(`${base}/plugins`, harmless, headers).catch(() => null);
    await until('the scan is open on record', async () => {
      const { items } = (await call('GET', `${base}/events?type=invocation.opened`)).body;
      return items.length === 1;
    });
    await server.kill();
    await dying;
    const { dataDir } = server;
    server = await startServer({ dataDir });
    expect(await installed(base)).toEqual(['scanner']);
    const answer = await post(`${base}/plugins`, harmless, headers);
    expect(answer.status).toBe(201);
    expect(await installed(base)).toEqual(['scanner', 'harmless']);
    const two = await scans(base, 2);
    expect(two.map(({ state, attempt }) => [state, attempt])).toEqual([
      ['lost', 1],
      ['closed', 2],
    ]);
  }, 90_000);
});
