import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunningServer, StartOptions } from './support/running-server.js';
import { ensureBuilt, freePort, startServer, testOperatorKey, until } from './support/running-server.js';

const patience = 180_000;
const root = join(import.meta.dirname, '..');
const program = join(root, 'bin/hookledger.js');

const servers: RunningServer[] = [];
const folders: string[] = [];
const children: ChildProcess[] = [];

beforeAll(ensureBuilt, patience);

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  for (const server of servers.splice(0).reverse()) await server.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}, patience);

const start = async (options: StartOptions = {}): Promise<RunningServer> => {
  const server = await startServer(options);
  servers.push(server);
  return server;
};

const newFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'hookledger-cli-'));
  // Where root tests, the database's user must get through.
  chmodSync(folder, 0o755);
  folders.push(folder);
  return folder;
};

interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly program?: string;
  readonly node?: readonly string[];
}

interface Running {
  readonly out: () => string;
  readonly err: () => string;
  readonly ended: Promise<Ran>;
  stop(): void;
}

const begin = (args: readonly string[], options: RunOptions = {}): Running => {
  const child = spawn(process.execPath, [...(options.node ?? []), options.program ?? program, ...args], {
    cwd: tmpdir(),
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH ?? '', ...options.env },
  });
  children.push(child);
  const [out, err] = [child.stdout, child.stderr].map((stream) => {
    const parts: Buffer[] = [];
    stream.on('data', (part: Buffer) => parts.push(part));
    return () => Buffer.concat(parts).toString();
  }) as [() => string, () => string];
  child.stdin.on('error', () => undefined);
  child.stdin.end(options.input ?? '');
  const ended = new Promise<Ran>((resolve) => child.once('close', (code) => resolve({ code, out: out(), err: err() })));
  return { out, err, ended, stop: () => void child.kill('SIGTERM') };
};

const run = (args: readonly string[], options?: RunOptions): Promise<Ran> => begin(args, options).ended;

const clientEnv = (server: RunningServer, key = testOperatorKey) => ({
  HOOKLEDGER_URL: server.url,
  HOOKLEDGER_KEY: key,
});

interface Report {
  readonly ok: boolean;
  readonly checks: readonly { readonly check: string; readonly state: string; readonly words: string }[];
}

const examine = async (
  dataDir: string,
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number | null; readonly report: Report }> => {
  const { code, out } = await run(['doctor', '--json'], { env: { HOOKLEDGER_DATA: dataDir, ...env } });
  return { code, report: JSON.parse(out) as Report };
};

const stateOf = (report: Report, check: string): readonly string[] =>
  report.checks.filter((found) => found.check === check).map(({ state }) => state);

const wordsOf = (report: Report, state: string): readonly string[] =>
  report.checks.filter((found) => found.state === state).map(({ words }) => words);

const newKey = async (server: RunningServer, role: string): Promise<string> => {
  const body = { role, name: role };
  const created = await server.call<{ readonly secret: string }>('POST', '/v1/accounts/default/keys', { body });
  return created.body.secret;
};

const shout = { id: 'shout', version: '1.0.0', dialect: 'middleware', language: 'javascript', reason: 'test' };

const install = (server: RunningServer, source: string) =>
  server.call('POST', '/v1/accounts/default/plugins', { body: { ...shout, name: 'Shout', source } });

const context = (systemPrompt: string): string =>
  JSON.stringify({ sessionId: '42', agentId: '7', sessionKind: 'direct', systemPrompt });

describe('the command', () => {
  it(
    'says what it is and what it can do',
    async () => {
      const [version, help, more] = await Promise.all([run(['--version']), run(['--help']), run(['fire', '--help'])]);
      const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
      expect(version).toEqual({ code: 0, out: `${manifest.version}\n`, err: '' });
      expect(help.code).toBe(0);
      for (const name of ['doctor', 'keys', 'fire', 'events', 'conformance']) expect(help.out).toContain(`  ${name} `);
      expect([more.code, more.out]).toEqual([0, expect.stringContaining('--context FILE')]);
    },
    patience,
  );

  it.each([
    ['an unknown command', ['frob'], 'there is no command "frob"'],
    ['no command', [], 'say what to do'],
    ['an unknown option', ['doctor', '--frob'], '--frob'],
    ['a missing word', ['fire'], 'HOOK is missing'],
    ['an unknown key command', ['keys', 'burn'], 'keys burn'],
  ])(
    'answers %s with help and exit code 2',
    async (_what, args, words) => {
      const { code, out, err } = await run(args);
      expect([code, out]).toEqual([2, '']);
      expect(err).toContain(words);
      expect(err).toContain('Usage: hookledger');
    },
    patience,
  );

  // What another Node says of itself; the one that is started again says the truth.
  const asNode20 = [
    '--import',
    `data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.19.0'}})`,
  ];

  const copyElsewhere = (): string => {
    const folder = newFolder();
    mkdirSync(join(folder, 'bin'));
    copyFileSync(join(root, 'package.json'), join(folder, 'package.json'));
    copyFileSync(program, join(folder, 'bin/hookledger.js'));
    return folder;
  };

  it(
    'started by another Node, goes on with its own and keeps the exit code',
    async () => {
      const [version, unknown] = await Promise.all([
        run(['--version'], { node: asNode20 }),
        run(['frob'], { node: asNode20 }),
      ]);
      expect(version).toMatchObject({ code: 0, err: '' });
      expect(unknown.code).toBe(2);
    },
    patience,
  );

  it(
    'says what is missing where it has no Node of its own, or was not built',
    async () => {
      const folder = copyElsewhere();
      const elsewhere = join(folder, 'bin/hookledger.js');
      const unbuilt = await run(['--version'], { program: elsewhere });
      expect([unbuilt.code, unbuilt.err]).toEqual([1, expect.stringContaining('npm run build')]);
      mkdirSync(join(folder, 'dist/apps/cli/src'), { recursive: true });
      writeFileSync(join(folder, 'dist/apps/cli/src/main.js'), 'console.log("ran")');
      expect(await run([], { program: elsewhere })).toEqual({ code: 0, out: 'ran\n', err: '' });
      const nodeless = await run([], { program: elsewhere, node: asNode20 });
      expect([nodeless.code, nodeless.out]).toEqual([1, '']);
      expect(nodeless.err).toMatch(/needs Node 24, and this is 20\.19\.0.*npm ci/su);
    },
    patience,
  );
});

describe('doctor', () => {
  it(
    'finds nothing wrong before the first start, and leaves nothing behind',
    async () => {
      const dataDir = join(newFolder(), 'data');
      const { code, report } = await examine(dataDir);
      expect([code, report.ok, wordsOf(report, 'problem')]).toEqual([0, true, []]);
      const checks = ['node', 'settings', 'isolated-vm', 'data', 'postgres', 'database', 'master-key', 'kafka'];
      for (const check of checks) expect([check, stateOf(report, check)]).toEqual([check, ['ok']]);
      expect(stateOf(report, 'sandbox').length).toBeGreaterThan(0);
      expect(existsSync(dataDir)).toBe(false);
    },
    patience,
  );

  it(
    'looks into the database of a running server, and warns until the master key was backed up',
    async () => {
      const server = await start();
      const before = await examine(server.dataDir);
      expect([before.code, stateOf(before.report, 'master-key')]).toEqual([0, ['warning']]);
      expect(stateOf(before.report, 'migrations')).toEqual(['ok']);
      const { code } = await run(['keys', 'backup', '--to', join(newFolder(), 'copy'), '--data', server.dataDir]);
      expect(code).toBe(0);
      const after = await examine(server.dataDir);
      expect([after.code, stateOf(after.report, 'master-key')]).toEqual([0, ['ok']]);
      const { out } = await run(['doctor', '--data', server.dataDir]);
      expect(out).toMatch(/^ok {7}The embedded database runs \(Postgres \d+\)\.$/mu);
    },
    patience,
  );

  it(
    'names what is broken in a folder, and says how to mend it',
    async () => {
      const server = await start({ dataDir: join(newFolder(), 'data') });
      const { dataDir } = server;
      await server.call('POST', '/v1/accounts/default/hooks/middleware/systemPrompt', {
        body: { context: JSON.parse(context('hello')) as unknown },
      });
      // With the old key still in the folder it is the beginning of a change of keys; without it, content is lost.
      const another = { HOOKLEDGER_MASTER_KEY: 'ab'.repeat(32) };
      const changing = await examine(dataDir, another);
      expect([changing.code, stateOf(changing.report, 'master-key')]).toEqual([0, ['warning', 'ok', 'warning']]);
      renameSync(join(dataDir, 'master.key'), join(dataDir, 'aside'));
      const lost = await examine(dataDir, another);
      expect([lost.code, stateOf(lost.report, 'master-key')]).toEqual([1, ['problem', 'ok']]);
      renameSync(join(dataDir, 'aside'), join(dataDir, 'master.key'));
      await server.stop();

      const secret = readFileSync(join(dataDir, 'master.key'), 'utf8');
      chmodSync(join(dataDir, 'master.key'), 0o644);
      chmodSync(join(dataDir, 'postgres.password'), 0o644);
      chmodSync(dataDir, 0o777);
      const open = await examine(dataDir);
      expect(open.code).toBe(1);
      const words = wordsOf(open.report, 'problem').join('\n');
      for (const mended of ['chmod go-w', 'chmod 600 on it', 'master.key']) expect(words).toContain(mended);

      chmodSync(dataDir, 0o711);
      chmodSync(join(dataDir, 'postgres.password'), 0o600);
      rmSync(join(dataDir, 'master.key'));
      const keyless = await examine(dataDir);
      expect([keyless.code, stateOf(keyless.report, 'master-key')]).toEqual([1, ['problem']]);
      expect(wordsOf(keyless.report, 'problem')).toEqual([expect.stringContaining('keys restore')]);
      expect(readdirSync(dataDir)).not.toContain('master.key');
      expect(JSON.stringify([lost, open, keyless])).not.toContain(secret.trim());
    },
    patience,
  );

  it.each([
    ['a setting that cannot be used', { PORT: 'x' }, 'PORT is "x"'],
    ['a database that is away', { DATABASE_URL: 'postgres://u:hidden-password@127.0.0.1:1/x' }, 'ECONNREFUSED'],
    ['a key that is none', { HOOKLEDGER_MASTER_KEY: 'hidden-password' }, 'is not a master key'],
    ['a Postgres that is none', { PG_BIN: '/nowhere' }, '/nowhere (PG_BIN) has no initdb'],
  ])(
    'finds %s, without a secret',
    async (_what, env, words) => {
      const { code, report } = await examine(join(newFolder(), 'data'), env);
      expect([code, report.ok]).toEqual([1, false]);
      expect(wordsOf(report, 'problem').join('\n')).toContain(words);
      expect(JSON.stringify(report)).not.toContain('hidden-password');
    },
    patience,
  );
});

describe('the master key', () => {
  it(
    'backed up and put back, opens what was sealed before, from the file and from the environment',
    async () => {
      const dataDir = join(newFolder(), 'data');
      const copy = join(newFolder(), 'copy');
      const first = await start({ dataDir });
      const text = 'sealed before the key was lost';
      const fired = await run(['fire', 'systemPrompt', '--context', '-'], {
        env: clientEnv(first),
        input: context(text),
      });
      expect(fired.code).toBe(0);
      const { invocationId } = JSON.parse(fired.out) as { invocationId: string };
      expect(await run(['keys', 'backup', '--data', dataDir, '--to', copy])).toMatchObject({ code: 0, err: '' });
      await first.stop();
      rmSync(join(dataDir, 'master.key'));

      const readBack = async (server: RunningServer): Promise<string> =>
        (await server.call('GET', `/v1/accounts/default/invocations/${invocationId}`)).text;
      const given = await start({ dataDir, env: { HOOKLEDGER_MASTER_KEY: readFileSync(copy, 'utf8').trim() } });
      expect(await readBack(given)).toContain(text);
      await given.stop();

      const restored = await run(['keys', 'restore', '--data', dataDir, '--from', copy]);
      expect(restored).toMatchObject({ code: 0, err: '' });
      expect(`${fired.out}${restored.out}`).not.toContain(readFileSync(copy, 'utf8').trim());
      expect(await readBack(await start({ dataDir }))).toContain(text);
    },
    patience,
  );

  it(
    'is not overwritten by another one',
    async () => {
      const dataDir = newFolder();
      const from = join(newFolder(), 'other');
      writeFileSync(join(dataDir, 'master.key'), 'ab'.repeat(32), { mode: 0o600 });
      writeFileSync(from, 'cd'.repeat(32));
      const { code, out, err } = await run(['keys', 'restore', '--from', from], { env: { HOOKLEDGER_DATA: dataDir } });
      expect([code, out]).toEqual([1, '']);
      expect(err).toContain('another key');
      expect(err).not.toMatch(/(?:ab|cd){8}/u);
      expect(readFileSync(join(dataDir, 'master.key'), 'utf8')).toBe('ab'.repeat(32));
    },
    patience,
  );
});

interface Line {
  readonly position: string;
  readonly type: string;
}

const linesOf = (text: string): readonly Line[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);

describe('firing and following', () => {
  it(
    'fires from a file and from standard input, and prints one line of JSON',
    async () => {
      const server = await start();
      await install(server, 'globalThis.middleware.systemPrompt = (c) => c.systemPrompt.toUpperCase();');
      const env = clientEnv(server, await newKey(server, 'runtime'));
      const file = join(newFolder(), 'context.json');
      writeFileSync(file, `${JSON.stringify(JSON.parse(context('hello\u2028there')), null, 2)}\n`);
      const words = ['--turn', 't-1', '--operation', 'op-1', '--idempotency-key', 'once'];
      const fromFile = await run(['fire', 'systemPrompt', '--context', file, ...words], { env });
      expect([fromFile.code, fromFile.err]).toEqual([0, '']);
      expect(fromFile.out.trimEnd()).not.toMatch(/[\n\u2028]/u);
      const answer = JSON.parse(fromFile.out) as { invocationId: string };
      expect(answer).toMatchObject({ outcome: 'rewritten', value: 'HELLO\u2028THERE', turnId: 't-1' });
      const again = await run(['fire', 'systemPrompt', '--context', file, ...words], { env });
      expect(JSON.parse(again.out)).toMatchObject({ invocationId: answer.invocationId });

      const fromInput = ['fire', 'systemPrompt', '--context', '-', '--url', server.url, '--key', env.HOOKLEDGER_KEY];
      expect(JSON.parse((await run(fromInput, { input: context('x') })).out)).toMatchObject({ value: 'X' });
    },
    patience,
  );

  it(
    'says what is refused, with each faulty field and no secret',
    async () => {
      const server = await start();
      const key = await newKey(server, 'runtime');
      const env = clientEnv(server, key);
      const misfit = await run(['fire', 'systemPrompt', '--context', '-'], { env, input: '{"agentId":7,"extra":1}' });
      expect([misfit.code, misfit.out]).toEqual([1, '']);
      expect(misfit.err).toMatch(/^hookledger fire: 422 [a-z_]+: /u);
      expect(misfit.err).toMatch(/^ {2}\/context\/agentId: /mu);
      expect(misfit.err).toMatch(/^ {2}\/context\/extra: /mu);
      const unknown = await run(['fire', 'frob', '--context', '-'], { env, input: '{}' });
      expect([unknown.code, unknown.err]).toEqual([1, expect.stringContaining('404 unknown_hook')]);
      const forbidden = await run(['events'], { env });
      expect([forbidden.code, forbidden.err]).toEqual([1, expect.stringContaining('403')]);
      const wrong = await run(['events', '--follow'], { env: clientEnv(server, `${key}x`) });
      expect([wrong.code, wrong.err]).toEqual([1, expect.stringContaining('401')]);
      const nobody = await run(['events', '--follow', '--url', `http://127.0.0.1:${await freePort()}`], { env });
      expect([nobody.code, nobody.err]).toEqual([1, expect.stringContaining('ECONNREFUSED')]);
      expect([misfit, unknown, forbidden, wrong, nobody].map(({ err }) => err).join()).not.toContain(key);
    },
    patience,
  );

  it(
    'prints the log, whole or filtered, sealed or open',
    async () => {
      const server = await start();
      const env = clientEnv(server);
      for (const session of ['a', 'b']) {
        await run(['fire', 'systemPrompt', '--session', session, '--context', '-'], {
          env,
          input: context('a secret'),
        });
      }
      const all = linesOf((await run(['events'], { env })).out);
      expect(all.map(({ position }) => position)).toEqual(all.map((_, index) => String(index)));
      const part = linesOf((await run(['events', '--after', '0', '--until', '2'], { env })).out);
      expect(part.map(({ position }) => position)).toEqual(['1', '2']);
      const words = ['events', '--type', 'invocation.opened', '--type', 'handler.*', '--session', 'a'];
      const sealed = await run(words, { env });
      expect(linesOf(sealed.out).map(({ type }) => type)).toEqual(['invocation.opened']);
      expect(sealed.out).not.toContain('a secret');
      expect((await run([...words, '--open'], { env })).out).toContain('a secret');
    },
    patience,
  );

  it(
    'follows the log over a server that is killed, and misses and repeats nothing',
    async () => {
      const dataDir = join(newFolder(), 'data');
      const port = await freePort();
      const first = await start({ dataDir, port });
      const env = clientEnv(first);
      const fire = (): Promise<Ran> => run(['fire', 'systemPrompt', '--context', '-'], { env, input: context('x') });
      expect((await fire()).code).toBe(0);
      const following = begin(['events', '--follow', '--after', 'start', '--type', 'invocation.*'], { env });
      await until('the follower has what there was', () => linesOf(following.out()).length === 2);
      expect((await fire()).code).toBe(0);
      await until('the follower has what came', () => linesOf(following.out()).length === 4);
      await first.kill();
      await until('the follower notices', () => following.err().includes('trying again'));
      const second = await start({ dataDir, port });
      expect((await fire()).code).toBe(0);
      await until('the follower goes on', () => linesOf(following.out()).length >= 6);
      const followed = linesOf(following.out());
      const stored = linesOf((await run(['events', '--type', 'invocation.*'], { env })).out);
      expect(followed).toEqual(stored);
      following.stop();
      await following.ended;
      expect(second.logged()).not.toContain(testOperatorKey);
    },
    patience,
  );
});
