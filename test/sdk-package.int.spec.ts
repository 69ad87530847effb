import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { canonicalJson as sdkCanonical, digestOf as sdkDigest, type Json } from '#sdk';
import { canonicalJson, digestOf } from '#record';
import { hookTypes } from '../tools/sdk-types/hook-types.js';
import { startNodeProgram } from './support/node-program.js';

/** The client as others get it: a package in a project of their own. */

const root = join(import.meta.dirname, '..');
const project = mkdtempSync(join(tmpdir(), 'hookledger-sdk-package-'));
let server: Server;
let url: string;

// Jest's own flags are none of npm's business.
const env = (() => {
  const { NODE_OPTIONS: _, ...rest } = process.env;
  return rest;
})();
const run = (command: string, args: readonly string[], cwd: string): string =>
  execFileSync(command, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

beforeAll(async () => {
  run(process.execPath, [join(root, 'scripts/build-sdk.js')], root);
  const packed = JSON.parse(run('npm', ['pack', '--json', '--pack-destination', project], join(root, 'dist/sdk'))) as [
    { filename: string },
  ];
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'a-runtime', private: true, type: 'module' }));
  const file = join(project, packed[0].filename);
  run('npm', ['install', '--offline', '--no-audit', '--no-fund', '--omit=peer', file], project);
  server = createServer((request, response) => {
    const answer = { invocationId: 'i-1', outcome: 'rewritten', value: `to ${request.url ?? ''}`, handlers: [] };
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  url = `http://127.0.0.1:${String(typeof address === 'object' && address !== null ? address.port : 0)}`;
}, 120_000);

afterAll(async () => {
  await new Promise((resolve) => server.close(resolve));
  rmSync(project, { recursive: true, force: true });
});

const program = `
import { createClient, HookledgerProblem } from '@hookledger/sdk';
import { fileCheckpoints, fileOutbox } from '@hookledger/sdk/node';

const client = createClient({
  url: process.env.URL ?? '',
  key: 'k',
  outbox: fileOutbox('outbox'),
  checkpoints: fileCheckpoints('positions'),
});
const answer = await client.fire('middleware/systemPrompt', {
  context: { sessionId: '42', agentId: '7', sessionKind: 'direct', systemPrompt: 'x' },
});
console.log(answer.outcome, answer.value, typeof HookledgerProblem);
await client.close();
`;

describe('the package', () => {
  it('brings nothing with it, and nothing but its build, its README and its licence', () => {
    expect(existsSync(join(project, 'node_modules/ws'))).toBe(false);
    const files = run('npm', ['ls', '--all', '--json'], project);
    expect(Object.keys((JSON.parse(files) as { dependencies: object }).dependencies)).toEqual(['@hookledger/sdk']);
    const folder = join(project, 'node_modules/@hookledger/sdk');
    for (const file of ['README.md', 'LICENSE', 'index.js', 'index.d.ts', 'node/index.js']) {
      expect([file, existsSync(join(folder, file))]).toEqual([file, true]);
    }
    expect(existsSync(join(folder, 'sse.spec.js'))).toBe(false);
  });

  it('runs from plain JavaScript', async () => {
    writeFileSync(join(project, 'plain.mjs'), program);
    const ran = await startNodeProgram(join(project, 'plain.mjs'), [], { URL: url }).ended;
    expect([ran.code, ran.stderr]).toEqual([0, '']);
    expect(ran.stdout).toBe('rewritten to /v1/accounts/default/hooks/middleware/systemPrompt?wait=25 function\n');
  });

  const check = (name: string, text: string, more: object): string => {
    const folder = join(project, name);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'runtime.ts'), text);
    const compilerOptions = {
      target: 'es2022',
      module: 'nodenext',
      moduleResolution: 'nodenext',
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      noEmit: true,
      types: [],
      ...more,
    };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['.'] }));
    try {
      return run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder], project);
    } catch (error) {
      return (error as { stdout: string }).stdout;
    }
  };

  const browser = { lib: ['es2022', 'dom'] };

  it('has types that hold in strict projects, for Node and for runtimes that are none', () => {
    const typeRoots = { typeRoots: [join(root, 'node_modules/@types')], types: ['node'], lib: ['es2022'] };
    expect(check('node', program, typeRoots)).toBe('');
    const universal = program.replace(/^.*sdk\/node.*$/mu, '').replace(/^ {2}(?:outbox|checkpoints):.*$/gmu, '');
    expect(check('browser', universal.replace("process.env.URL ?? ''", "'http://x'"), browser)).toBe('');
  }, 120_000);

  it('refuses hooks, arguments and outcomes that do not exist', () => {
    const text = `
      import { createClient } from '@hookledger/sdk';
      const client = createClient({ url: 'http://x', key: 'k' });
      const context = { sessionId: '42', agentId: '7', sessionKind: 'direct', systemPrompt: 'x' };
      // @ts-expect-error there is no such hook
      await client.fire('middleware/systemprompt', { context });
      // @ts-expect-error ids are texts
      await client.fire('middleware/systemPrompt', { context: { ...context, sessionId: 42 } });
      // @ts-expect-error a field is missing
      await client.fire('middleware/systemPrompt', { context: { sessionId: '42' } });
      // @ts-expect-error middleware takes no event
      await client.fire('middleware/systemPrompt', { context, event: {} });
      const prompt = await client.fire('middleware/systemPrompt', { context });
      const text: string = prompt.value;
      // @ts-expect-error a system prompt is never cancelled
      if (prompt.outcome === 'cancelled') throw new Error(text);
      // @ts-expect-error and nobody holds it
      if (prompt.outcome === 'held') throw new Error(text);
      const tool = await client.fire('openclaw/before_tool_call', { event: { toolName: 't', params: {}, more: [1] } });
      const blocked: boolean = tool.gate.blocked;
      if (tool.held) await client.waitForAnswer({ invocationId: tool.approvalId, hookName: tool.hookName });
      const [first, second] = await client.batch([
        { hook: 'middleware/systemPrompt', context },
        { hook: 'kohaku/post_llm_call', input: { value: 'x' } },
      ]);
      const one: string = 'value' in first ? first.value : first.problem.code;
      const two: string = 'value' in second ? second.value : second.problem.code;
      // @ts-expect-error a gate belongs to tool calls
      prompt.gate;
      export { blocked, one, two };
    `;
    expect(check('refused', text, browser)).toBe('');
  }, 120_000);

  it('has the types of the hooks that the catalogues have: npm run sdk-types', async () => {
    const path = 'libs/sdk/src/generated/hooks.ts';
    expect(readFileSync(join(root, path), 'utf8')).toBe(await hookTypes(path));
  }, 60_000);

  it('digests values as the server does', async () => {
    const values: readonly Json[] = [
      null,
      0,
      -0,
      1e21,
      0.1,
      'text \ud800 \u2028 "\\\u0000',
      [],
      {},
      { b: 1, a: [true, { '\ud83d\ude00': 1, '\ufb33': 2, z: null }] },
      JSON.parse('{"__proto__": {"a": 1}, "constructor": 2}') as Json,
    ];
    for (const value of values) {
      expect(sdkCanonical(value)).toBe(canonicalJson(value));
      expect(await sdkDigest(value)).toBe(digestOf(canonicalJson(value)));
    }
  });
});
