import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Problem } from '#platform';
import { startSandbox, type Sandbox } from '#sandbox';
import type { SecretValues } from './secrets.js';
import { SourceLoader, type LoadedSource, type LoadOrder } from './source-loader.js';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({});
}, 60_000);
afterAll(() => sandbox.close());

const secrets: SecretValues = {
  read: (_, name) => Promise.resolve(name === 'token' ? { value: 'sesame', digest: 'd' } : null),
};

const load = (source: string, more: Partial<LoadOrder> = {}): Promise<LoadedSource> =>
  new SourceLoader(sandbox, secrets).load({
    account: 'acme',
    id: 'p',
    version: '1',
    dialect: 'middleware',
    language: 'javascript',
    source: { source },
    config: {},
    permissions: null,
    messages: 'shown',
    ...more,
  });

const refusal = async (loading: Promise<LoadedSource>): Promise<Problem> => {
  const outcome = await loading.then(
    () => 'it was loaded',
    (error: unknown) => error,
  );
  if (outcome instanceof Problem) return outcome;
  throw outcome instanceof Error ? outcome : new Error(String(outcome));
};

const registers = 'globalThis.middleware.systemPrompt = (c) => c.systemPrompt;';

describe('a source that is loaded', () => {
  it('has its hooks, permissions, digests and code', async () => {
    const loaded = await load(
      `${registers} globalThis.middleware.todoAdded = async () => { await host.fetch('x'); return []; };`,
    );
    expect(loaded.findings).toMatchObject({
      hooks: ['systemPrompt', 'todoAdded'],
      requestedPermissions: ['host:fetch'],
      warnings: [],
    });
    expect(loaded.compiled).toContain('host.fetch');
    expect(loaded.compiler).toBeNull();
  });

  it('may replace the whole object (MW-3)', async () => {
    const { findings } = await load('globalThis.middleware = { systemPrompt: () => "" };');
    expect(findings.hooks).toEqual(['systemPrompt']);
  });

  it('may be TypeScript, whose types are stripped and not checked (MW-6)', async () => {
    const source =
      'const n: number = "text"; globalThis.middleware.systemPrompt = (c: any): string => host!.config!.x;';
    const { compiler, compiled } = await load(source, { language: 'typescript' });
    expect(compiler).toMatch(/^esbuild@/);
    expect(compiled).not.toContain('number');
  });

  it('sees its configuration with secrets in place, and only the members it was granted', async () => {
    const source = `if (host.config.key !== 'sesame') throw new Error('no key');
      if (host.llm !== undefined) throw new Error('llm');
      ${registers} async () => host.llm('x');`;
    const { findings } = await load(source, { config: { key: { $secret: 'token' } }, permissions: [] });
    expect(findings.requestedPermissions).toEqual(['host:llm']);
  });

  it('of an unknown hook alone is loaded with a warning', async () => {
    const { findings } = await load('globalThis.middleware.sytemPrompt = () => "";');
    expect(findings).toMatchObject({ hooks: [], warnings: [{ code: 'unknown_hook' }] });
  });

  it('leaves nothing behind for the next one', async () => {
    await load(`globalThis.left = 1; Object.prototype.polluted = 1; ${registers}`);
    await load(`if (globalThis.left || ({}).polluted) throw new Error('left'); ${registers}`);
  });
});

describe('a source that is not loaded', () => {
  it.each<[string, string, string, number | null]>([
    ['does not parse', 'let a = ;', 'does_not_parse', 1],
    ['does not parse further down', `${registers}\n\n  function ( {`, 'does_not_parse', 3],
    ['throws', 'const a = 1;\nthrow new Error("no");', 'throws_at_load', 2],
    ['throws within a call', 'const f = () => {\n  null.x;\n};\nf();', 'throws_at_load', 2],
    ['throws something that is no error', 'throw "text";', 'throws_at_load', null],
    [
      'throws what cannot be read',
      'throw new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 2; } });',
      'throws_at_load',
      null,
    ],
    ['nests without end', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, 'does_not_parse', null],
    ['recurses without end', 'const f = () => f() + 1; f();', 'throws_at_load', null],
    ['registers nothing', 'const quiet = 1;', 'registers_nothing', null],
    ['registers what is no function', 'globalThis.middleware.systemPrompt = "text";', 'registers_nothing', null],
    ['takes the registry away', 'delete globalThis.middleware;', 'registers_nothing', null],
    ['uses what is not there', 'setTimeout(() => {}, 1);', 'throws_at_load', 1],
  ])('because it %s is a 422 with its place', async (_, source, code, line) => {
    const problem = await refusal(load(source));
    expect([problem.status, problem.code]).toEqual([422, code]);
    expect(problem.errors[0]?.pointer).toBe('/source');
    if (line !== null) {
      expect(problem.errors[0]).toMatchObject({ line, column: expect.any(Number) });
      expect(problem.errors[0]?.reason).toContain(`at line ${String(line)}, column `);
    }
  });

  it.each<[string, string]>([
    ['loops', 'for (;;) {}'],
    ['matches without end', '/^(a+)+$/.test("a".repeat(60) + "!");'],
    ['fills the memory', 'const all = []; for (;;) all.push(new Array(1e6).fill(1));'],
  ])(
    'because it %s is a 422, and the next one is loaded',
    async (_, source) => {
      const problem = await refusal(load(source));
      expect(problem.status).toBe(422);
      expect(['hangs_at_load', 'crashes_at_load', 'throws_at_load']).toContain(problem.code);
      expect((await load(registers)).findings.hooks).toEqual(['systemPrompt']);
    },
    30_000,
  );

  it('is pointed at by its file where there are several', async () => {
    const source = { entry: 'a.js', files: { 'a.js': 'import "./b/c.js";', 'b/c.js': '\n\nlet = ;' } };
    const problem = await refusal(load('', { source }));
    expect(problem.errors[0]).toMatchObject({ pointer: '/files/b~1c.js', line: 3 });
  });

  it('cannot read files of the server', async () => {
    const source = { entry: 'a.js', files: { 'a.js': 'import x from "/etc/passwd"; import y from "node:fs";' } };
    expect((await refusal(load('', { source }))).code).toBe('does_not_parse');
  });

  it.each<[string, Partial<LoadOrder>]>([
    ['its configuration has secrets', { config: { key: { $secret: 'token' } } }],
    ['the caller may not see the configuration', { config: { key: 'sesame' }, messages: 'withheld' }],
  ])('is refused without the words that it threw where %s', async (_, order) => {
    const problem = await refusal(load('throw new Error(host.config.key);', order));
    expect(problem).toMatchObject({ code: 'throws_at_load', errors: [{ pointer: '/source', line: 1 }] });
    expect(JSON.stringify([problem.detail, problem.errors])).not.toContain('sesame');
    const silent = await refusal(load('const no = host.config.key;', order));
    expect(silent.code).toBe('registers_nothing');
  });

  it('is not even run while a secret is missing', async () => {
    const problem = await refusal(load(registers, { config: { a: { $secret: 'unset' } } }));
    expect(problem.errors[0]).toMatchObject({ pointer: '/config', reason: expect.stringContaining('unset') });
  });

  it('in a language that the dialect does not have is a 422 at /language', async () => {
    expect((await refusal(load(registers, { language: 'python' }))).errors[0]?.pointer).toBe('/language');
  });
});
