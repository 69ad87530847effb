import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { build } from 'esbuild';
import type { CallAnswer, Sandbox, SandboxOptions } from './index.js';
import { startSandbox } from './index.js';
import { childProgram } from './child-program.js';
import { SandboxChild } from './child-process.js';
import { nodeFlags, startLines } from './start-line.js';
import { testGuest } from './testing/guest.js';
import { changedTo, handlerOf, outcomesOf, realmOf, said } from './testing/harness.js';
import { descendants, isAlive, read, sandboxPids, until } from './testing/processes.js';

// Only so that a slow machine does not fail what has no time in it.
jest.setTimeout(60_000);

const open: Sandbox[] = [];
const start = async (options: SandboxOptions = {}): Promise<Sandbox> => {
  const sandbox = await startSandbox(options);
  open.push(sandbox);
  return sandbox;
};
afterEach(async () => {
  await Promise.all(open.splice(0).map((sandbox) => sandbox.close()));
});

const isRoot = process.getuid?.() === 0;
const answered = (json: string): CallAnswer => ({ kind: 'value', json });
const of = (account: string) => ({ account });

describe('a child that is killed from outside', () => {
  it('in the middle of a handler: that handler crashed, the rest runs elsewhere', async () => {
    const sandbox = await start();
    await until(() => sandboxPids(process.pid).length > 0);
    const before = new Set(sandboxPids(process.pid));
    const chain = [
      handlerOf('(v) => v + "b"'),
      handlerOf('() => { for (;;); }', { timeoutMs: 20_000 }),
      handlerOf('(v) => v + "c"'),
    ];
    const running = outcomesOf(sandbox, chain);
    // The spare that was ready takes the account; it is the one that burns the processor.
    await until(() => [...before].some((pid) => busyTicks(pid) > 30));
    for (const pid of before) if (busyTicks(pid) > 30) process.kill(pid, 'SIGKILL');
    expect((await running).map(said)).toEqual([changedTo('ab'), 'crashed killed', changedTo('abc')]);
  });

  it('while a handler waits: it begins again and does not ask again', async () => {
    const sandbox = await start();
    const asked: string[] = [];
    let answer: (given: CallAnswer) => void = () => undefined;
    const code = 'async (v, t) => { const a = await t.ask(1); const b = await t.ask(2); return v + a + b; }';
    const running = outcomesOf(
      sandbox,
      [handlerOf('(v) => v + "-"'), handlerOf(code, { timeoutMs: 20_000 }), handlerOf('(v) => v + "!"')],
      {
        onCall: ({ args }) => {
          asked.push(args ?? '');
          if (args === '[1]') return Promise.resolve(answered('"x"'));
          return new Promise((resolve) => {
            answer = resolve;
          });
        },
      },
    );
    await until(() => asked.length === 2);
    for (let kill = 0; kill < 2; kill++) {
      const pids = sandboxPids(process.pid);
      for (const pid of pids) process.kill(pid, 'SIGKILL');
      await until(() => pids.every((pid) => !isAlive(pid)));
      await until(() => sandboxPids(process.pid).length > 0);
    }
    answer(answered('"y"'));
    expect((await running).map(said)).toEqual([changedTo('a-'), changedTo('a-xy'), changedTo('a-xy!')]);
    expect(asked).toEqual(['[1]', '[2]']);
  });

  it('a handler that begins again and asks for something else is refused, and nothing is asked twice', async () => {
    const sandbox = await start();
    const asked: string[] = [];
    const code = `async (v, t) => { try { await t.ask(Math.random()); } catch (e) { return e.code; } await t.ask('second'); }`;
    const running = outcomesOf(sandbox, [handlerOf(code, { timeoutMs: 20_000 })], {
      onCall: ({ args }) => {
        asked.push(args ?? '');
        return args === '["second"]' ? new Promise(() => undefined) : Promise.resolve(answered('1'));
      },
    });
    await until(() => asked.length === 2);
    for (const pid of sandboxPids(process.pid)) process.kill(pid, 'SIGKILL');
    expect((await running).map(said)).toEqual([changedTo('handler_restarted')]);
    expect(asked).toHaveLength(2);
  });

  it('during a load: the load is tried again', async () => {
    const sandbox = await start();
    await outcomesOf(sandbox, [handlerOf('(v) => v')]);
    const pids = sandboxPids(process.pid);
    const loading = sandbox.load(realmOf('on.it = () => 1'), 5_000);
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    expect(await loading).toMatchObject({ kind: 'loaded' });
  });
});

describe('children and accounts', () => {
  it('the loop of one account does not hold up another', async () => {
    const sandbox = await start();
    const order: string[] = [];
    const loop = outcomesOf(sandbox, [handlerOf('() => { for (;;); }', { timeoutMs: 3_000 }, of('a'))]).then(() =>
      order.push('loop'),
    );
    for (let round = 0; round < 20; round++) {
      const outcomes = await outcomesOf(sandbox, [
        handlerOf('async (v, t) => v + await t.ask()', { timeoutMs: 20_000 }, of('b')),
      ]);
      expect(outcomes.map(said)).toEqual([changedTo('aok')]);
    }
    order.push('neighbour');
    await loop;
    expect(order).toEqual(['neighbour', 'loop']);
  });

  it('no two accounts share a process', async () => {
    const sandbox = await start();
    const accounts = ['a', 'b', 'c'];
    await Promise.all(accounts.map((account) => outcomesOf(sandbox, [handlerOf('(v) => v', {}, of(account))])));
    expect(sandbox.health().children).toBeGreaterThanOrEqual(accounts.length);
  });

  it('accounts share a few processes where the operator allows it, each in an isolate of its own', async () => {
    const sandbox = await start({ shared: true });
    const accounts = Array.from({ length: 8 }, (_, n) => `account ${n}`);
    const counter = (account: string) => handlerOf('((n) => () => ++n)(0)', {}, of(account));
    const counts = await Promise.all(accounts.map((account) => outcomesOf(sandbox, [counter(account)])));
    expect(counts.map(([outcome]) => said(outcome))).toEqual(accounts.map(() => changedTo(1)));
    expect(sandbox.health().children).toBeLessThanOrEqual(3);
    const bomb = handlerOf(
      '() => { const a = []; for (;;) a.push(new Array(1000).fill("x")); }',
      { timeoutMs: 20_000 },
      of('account 0'),
    );
    const beside = accounts
      .slice(1)
      .map((account) =>
        outcomesOf(sandbox, [handlerOf('async (v, t) => v + await t.ask()', { timeoutMs: 60_000 }, of(account))]),
      );
    expect(said((await outcomesOf(sandbox, [bomb]))[0])).toBe('crashed memory');
    expect((await Promise.all(beside)).map(([outcome]) => said(outcome))).toEqual(
      accounts.slice(1).map(() => changedTo('aok')),
    );
  });

  it('more accounts than children take turns, busy ones too, and nothing is lost', async () => {
    const sandbox = await start({ maxChildren: 2 });
    const accounts = Array.from({ length: 7 }, (_, n) => `account ${n}`);
    const all = accounts.flatMap((account) =>
      [1, 2, 3].map(() =>
        outcomesOf(sandbox, [handlerOf('async (v, t) => v + await t.ask()', { timeoutMs: 60_000 }, of(account))], {
          onCall: () => new Promise((resolve) => setTimeout(() => resolve(answered('"ok"')), 30)),
        }),
      ),
    );
    expect((await Promise.all(all)).every(([outcome]) => said(outcome) === changedTo('aok'))).toBe(true);
    expect(sandbox.health().children).toBeLessThanOrEqual(3);
  });

  it('close ends every process and every chain', async () => {
    const sandbox = await start();
    const running = outcomesOf(sandbox, [handlerOf('() => { for (;;); }', { timeoutMs: 60_000 })]);
    await until(() => sandboxPids(process.pid).length > 0);
    const pids = descendants(process.pid).filter((pid) => read(`/proc/${pid}/cmdline`).includes('no-node-snapshot'));
    await sandbox.close();
    expect((await running).map(said)).toEqual(['not_run']);
    await until(() => pids.every((pid) => !isAlive(pid)));
    expect(await outcomesOf(sandbox, [handlerOf('(v) => v')])).toEqual([{ kind: 'not_run' }]);
  });

  (isRoot ? it : it.skip)('a child that is busy lets others go first, and only while it is', async () => {
    const sandbox = await start();
    await outcomesOf(sandbox, [handlerOf('(v) => v')]);
    const [pid = 0] = sandboxPids(process.pid);
    const loop = outcomesOf(sandbox, [handlerOf('() => { for (;;); }', { timeoutMs: 1_500 })]);
    await until(() => sandboxPids(process.pid).some((each) => niceOf(each) === 10));
    expect((await loop).map(said)).toEqual(['timed_out sync']);
    await until(() => sandboxPids(process.pid).every((each) => niceOf(each) === 0));
    expect(isAlive(pid)).toBe(true);
  });

  it('two thousand chains leave the same process, with plugins coming and going', async () => {
    const sandbox = await start();
    await outcomesOf(sandbox, [handlerOf('(v) => v')]);
    const before = sandboxPids(process.pid);
    expect(before.length).toBeGreaterThan(0);
    const more = { timeoutMs: 20_000 };
    let plugins = [1, 2, 3].map(() => handlerOf('async (v, t) => v + await t.ask()', more));
    for (let round = 0; round < 40; round++) {
      const all = Array.from({ length: 50 }, () => outcomesOf(sandbox, plugins));
      const last = (await Promise.all(all)).map((outcomes) => said(outcomes[2]));
      expect(new Set(last)).toEqual(new Set([changedTo('aokokok')]));
      const [oldest, ...rest] = plugins;
      if (oldest !== undefined) sandbox.forget('acme', oldest.realm.pluginId);
      plugins = [...rest, handlerOf('async (v, t) => v + await t.ask()', more)];
    }
    expect(before.every(isAlive)).toBe(true);
  });

  it('a thousand chains at once, of which some die, all end right', async () => {
    const sandbox = await start();
    const good = handlerOf('async (v, t) => v + await t.ask(v)', { timeoutMs: 60_000 });
    const quick = handlerOf('(v) => v * 2', { timeoutMs: 60_000 });
    const bad = handlerOf('() => { for (;;); }', { timeoutMs: 60 });
    const all = Array.from({ length: 1000 }, (_, n) =>
      outcomesOf(sandbox, n % 250 === 249 ? [quick, bad, good] : [quick, good], {
        value: n,
        onCall: ({ args }) => Promise.resolve(answered(`${args?.slice(1, -1)}`)),
      }),
    );
    const outcomes = await Promise.all(all);
    outcomes.forEach((chain, n) => {
      const last = changedTo(n * 4);
      expect(chain.map(said)).toEqual(
        n % 250 === 249 ? [changedTo(n * 2), 'timed_out sync', last] : n === 0 ? ['=', '='] : [changedTo(n * 2), last],
      );
    });
  }, 60_000);
});

describe('the start line', () => {
  const inLinux = process.platform === 'linux' ? it : it.skip;

  inLinux('leaves a child nothing: no rights, no environment, no network, no way back', async () => {
    const sandbox = await start();
    if (sandbox.health().state === 'degraded') return;
    await outcomesOf(sandbox, [handlerOf('(v) => v')]);
    const pids = sandboxPids(process.pid);
    expect(pids.length).toBeGreaterThan(0);
    for (const pid of pids) {
      const status = read(`/proc/${pid}/status`);
      expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
      expect(status).toMatch(/^CapEff:\s+0+$/m);
      expect(status).toMatch(/^CapPrm:\s+0+$/m);
      if (isRoot) expect(status).toMatch(/^Uid:\s+65534\s+65534\s+65534\s+65534$/m);
      expect(read(`/proc/${pid}/environ`)).toBe('');
      expect(read(`/proc/${pid}/limits`)).toMatch(/^Max core file size\s+0\s+0/m);
      for (const space of ['net', 'ipc', 'uts', 'mnt', 'pid']) {
        expect([space, readlinkSync(`/proc/${pid}/ns/${space}`) === readlinkSync(`/proc/self/ns/${space}`)]).toEqual([
          space,
          false,
        ]);
      }
      // Its root is its own: Node, the program, the libraries.
      expect(readdirSync(`/proc/${pid}/root`).sort()).toEqual(expect.arrayContaining(['sandbox', 'usr']));
      expect(readdirSync(`/proc/${pid}/root`)).not.toEqual(expect.arrayContaining(['proc']));
      expect(readdirSync(`/proc/${pid}/root/sandbox`).sort()).toEqual([
        'addon.node',
        'node',
        'package.json',
        'prlimit',
        'program',
        'setpriv',
      ]);
    }
  });

  it.each(startLines(isRoot, 512 * 1024 * 1024, false).map((line) => [line.name, line] as const))(
    'starts a child, or leaves it to a softer one: %s',
    async (_, line) => {
      const program = await childProgram();
      const command = line.command({
        ...program,
        node: process.execPath,
        flags: () => nodeFlags(false),
        isolateMiB: 128,
      });
      const child = new SandboxChild({ command, maxBytes: 512 * 1024 * 1024, mayRenice: false });
      const isReady = await child.ready.then(
        () => true,
        () => false,
      );
      if (isRoot || line.name === 'nothing') expect([line.name, isReady]).toEqual([line.name, true]);
      if (isReady) expect(sandboxPids(process.pid)).toContain(child.pid);
      child.kill('asked');
      await child.ended;
      await program.remove();
    },
  );

  it('is jitless unless the operator wants the JIT', async () => {
    const sandboxes = [await start(), await start({ jit: true })];
    await Promise.all(sandboxes.map((sandbox) => outcomesOf(sandbox, [handlerOf('(v) => v')])));
    const commands = sandboxPids(process.pid).map((pid) => read(`/proc/${pid}/cmdline`).includes('--jitless'));
    expect(new Set(commands)).toEqual(new Set([true, false]));
  });
});

describe('a child', () => {
  const project = fileURLToPath(new URL('../../../', import.meta.url));
  const inLinux = process.platform === 'linux' ? it : it.skip;

  inLinux.each([
    ['idle', '(v) => v'],
    ['in a loop', '() => { for (;;); }'],
    ['in what nothing interrupts', '() => [].indexOf.call({ length: 2 ** 53 - 1 }, 1)'],
  ])(
    'dies with a server that is killed: %s',
    async (name, code) => {
      const cache = join(project, 'node_modules', '.cache');
      mkdirSync(cache, { recursive: true });
      const folder = mkdtempSync(join(cache, 'hookledger-sandbox-'));
      try {
        const sources = readdirSync(new URL('.', import.meta.url), { recursive: true, encoding: 'utf8' })
          .filter((file) => file.endsWith('.ts') && !file.endsWith('.spec.ts'))
          .map((file) => fileURLToPath(new URL(file, import.meta.url)));
        await build({ entryPoints: sources, outdir: folder, format: 'esm', platform: 'node', target: 'node24' });
        writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
        const program = `import { startSandbox } from './index.js';
        const sandbox = await startSandbox({});
        const realm = { account: 'a', pluginId: 'p', digest: 'd', code: ${JSON.stringify(`on.it = ${code}`)}, fileName: 'p.js', guest: ${JSON.stringify(testGuest)}, setup: '{}', isolation: 'warm' };
        const chain = sandbox.run({ account: 'a', invocationId: 'i', input: '{"value":1}', pausingMembers: [], onCall: async () => ({ kind: 'value', json: '1' }),
          handlers: [{ realm, handler: 'it', timeoutMs: 600000, args: '{}', advances: true, stopsOn: [] }] });
        chain.result(0).then(() => console.log('done'));
        setTimeout(() => console.log('started'), 500);
        setInterval(() => {}, 1000);`;
        writeFileSync(join(folder, 'server.js'), program);
        const server = spawn(process.execPath, [join(folder, 'server.js')], { stdio: ['ignore', 'pipe', 'inherit'] });
        let output = '';
        server.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
        await until(
          () => output.includes(name === 'idle' ? 'done' : 'started') && sandboxPids(server.pid ?? 0).length > 0,
        );
        const below = descendants(server.pid ?? 0);
        server.kill('SIGKILL');
        await until(() => below.every((pid) => !isAlive(pid)));
        expect(below.length).toBeGreaterThan(0);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
    30_000,
  );
});

/** Clock ticks that a process has run. */
const busyTicks = (pid: number): number => Number(read(`/proc/${pid}/stat`).split(') ')[1]?.split(' ')[11] ?? 0);

/** The number by which a process lets others go first. */
const niceOf = (pid: number): number => Number(read(`/proc/${pid}/stat`).split(') ')[1]?.split(' ')[16] ?? 0);
