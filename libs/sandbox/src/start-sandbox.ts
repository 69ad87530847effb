import { setPriority } from 'node:os';
import { AccountChild } from './account-child.js';
import type { Leftovers } from './account-child.js';
import { ChainState } from './chain-state.js';
import { childProgram } from './child-program.js';
import type { ChildProgram } from './child-program.js';
import { SandboxChild } from './child-process.js';
import type { ChildSettings } from './child-process.js';
import { FatalRealms } from './plans.js';
import { monotonicMs } from './marker.js';
import type { ChainRun, LoadOutcome, Realm, RunningChain, Sandbox, SandboxHealth, SandboxOptions } from './sandbox.js';
import { pythonProgram } from './python/python-program.js';
import { splitSandbox } from './split-sandbox.js';
import { nodeFlags, pythonFlags, startLines } from './start-line.js';
import type { StartLine, Started } from './start-line.js';

const MIB = 1024 * 1024;
/** Children that accounts share where the operator allows it. */
const SHARDS = 2;
/** A child without work for so long is ended, ms. */
const IDLE_MS = 60_000;
/** A Python interpreter takes longer to start, so it is kept for longer. */
const PYTHON_IDLE_MS = 10 * 60_000;
/** The spare is started when whoever took the last one is under way. */
const SPARE_AFTER_MS = 200;
/** After a child that ended before it was ready, ms. */
const RESTART_MS = 250;
const MAX_SOURCE = MIB;
const NODE_MAJOR = 24;

/**
 * Starts the sandbox: finds the hardest start line that works here and keeps one child ready. Throws when no child can
 * be started at all, or, with `require`, when the machine cannot harden it. Python has a pool of its own, which is
 * started when the first Python plugin comes.
 */
export const startSandbox = async (options: SandboxOptions): Promise<Sandbox> => {
  const major = Number(process.versions.node.split('.')[0]);
  if (major < NODE_MAJOR) {
    throw new Error(
      `The sandbox needs Node ${NODE_MAJOR} or newer and this is ${process.versions.node}. ` +
        'Run the program through npm, which brings its own Node, or install a newer one.',
    );
  }
  const jit = options.jit ?? false;
  const scripts = await startPool(options, {
    program: await childProgram(),
    flags: () => nodeFlags(jit),
    jit,
    baseMiB: 256 + (options.isolateMiB ?? 128),
    isolateMiB: options.isolateMiB ?? 128,
    most: options.maxChildren ?? 32,
    idleMs: IDLE_MS,
    perPlugin: false,
    homeOf: ({ account }) => (options.shared === true ? `shard ${shardOf(account)}` : account),
  });
  return splitSandbox(scripts, () => startPython(options));
};

/** One interpreter per plugin revision: what a plugin does to it, it does to itself. */
const startPython = async (options: SandboxOptions): Promise<Sandbox> =>
  startPool(options, {
    program: await pythonProgram(),
    flags: pythonFlags,
    jit: true,
    baseMiB: 320,
    isolateMiB: options.pythonMiB ?? 128,
    most: options.maxPython ?? 16,
    idleMs: PYTHON_IDLE_MS,
    perPlugin: true,
    homeOf: ({ account, pluginId, digest }) => `${account}\0${pluginId}\0${digest}`,
  });

/** What tells one pool of children from another. */
interface PoolKind {
  readonly program: ChildProgram;
  readonly flags: (folder: string, addon: string) => readonly string[];
  readonly jit: boolean;
  /** Memory that a child takes beside what plugins may take. */
  readonly baseMiB: number;
  readonly isolateMiB: number;
  readonly most: number;
  readonly idleMs: number;
  /** A home is one plugin's, and goes with it. */
  readonly perPlugin: boolean;
  /** Realms of the same home share a child. */
  readonly homeOf: (realm: Pick<Realm, 'account' | 'pluginId' | 'digest'>) => string;
}

const startPool = async (options: SandboxOptions, kind: PoolKind): Promise<Sandbox> => {
  const { program, isolateMiB, jit } = kind;
  const maxBytes = (kind.baseMiB + isolateMiB) * MIB;
  const { folder, file, addon } = program;
  const started: Started = { folder, file, addon, node: process.execPath, flags: kind.flags, isolateMiB };
  const settingsFor = (line: StartLine, mayRenice: boolean): ChildSettings => ({
    command: line.command(started),
    maxBytes,
    mayRenice,
  });
  const faults: string[] = [];
  for (const line of startLines(process.getuid?.() === 0, maxBytes, jit)) {
    if (options.require === true && line.missing.length > 0) break;
    const child = new SandboxChild(settingsFor(line, false));
    try {
      await child.ready;
    } catch (error) {
      faults.push(`${line.name}: ${error instanceof Error ? error.message : String(error)}`);
      continue;
    }
    const mayRenice = canRenice(child.pid);
    child.kill('asked');
    if (line.missing.length > 0) {
      options.log?.('warn', 'This machine cannot harden the sandbox fully; plugin code is less contained.', {
        missing: line.missing,
        tried: faults,
      });
    }
    return new Pool(kind, settingsFor(line, mayRenice), line.missing);
  }
  await program.remove();
  throw new Error(
    options.require === true
      ? `This machine cannot harden the sandbox, and it was told to refuse then. Tried: ${faults.join('; ') || 'nothing: util-linux is missing'}`
      : `No sandbox process could be started. Tried: ${faults.join('; ')}`,
  );
};

const canRenice = (pid: number): boolean => {
  try {
    setPriority(pid, 1);
    setPriority(pid, 0);
    return true;
  } catch {
    return false;
  }
};

type Waiting = (home: AccountChild) => void;

class Pool implements Sandbox {
  readonly #kind: PoolKind;
  readonly #settings: ChildSettings;
  readonly #missing: readonly string[];
  readonly #most: number;
  readonly #homes = new Map<string, AccountChild>();
  /** Ending, but still at work: they count, since they take memory. */
  readonly #retiring = new Set<AccountChild>();
  readonly #line: { readonly key: string; readonly use: Waiting }[] = [];
  #spare: SandboxChild | null = null;
  #spareTimer: NodeJS.Timeout | undefined;
  readonly #reaper: NodeJS.Timeout;
  readonly #fatal = new FatalRealms();
  #isClosed = false;

  constructor(kind: PoolKind, settings: ChildSettings, missing: readonly string[]) {
    this.#kind = kind;
    this.#missing = missing;
    this.#settings = settings;
    this.#most = Math.max(1, kind.most);
    this.#reaper = setInterval(() => this.#reap(), kind.idleMs / 4);
    this.#reaper.unref();
    this.#startSpare();
  }

  load(realm: Realm, budgetMs: number): Promise<LoadOutcome> {
    if (realm.code.length > MAX_SOURCE) {
      const message = 'The source is larger than 1 MiB.';
      return Promise.resolve({ kind: 'failed', cause: 'syntax', message, line: null, column: null });
    }
    return new Promise((settle) => {
      const load = { realm, budgetMs, settle, dispatches: 0 };
      this.#withHome(realm, (home) => home.load(load));
    });
  }

  run(chain: ChainRun): RunningChain {
    const state = new ChainState(chain);
    if (chain.handlers.length === 0 || this.#isClosed || chain.signal?.aborted === true) {
      state.end();
      return state;
    }
    const [first] = chain.handlers;
    if (first !== undefined) this.#withHome(first.realm, (home) => home.run(state));
    return state;
  }

  forget(account: string, pluginId: string): void {
    for (const home of [...this.#homes.values(), ...this.#retiring]) home.forget(account, pluginId);
    const prefix = this.#kind.perPlugin ? `${account}\0${pluginId}\0` : null;
    if (prefix === null) return;
    for (const [key, home] of [...this.#homes]) {
      if (!key.startsWith(prefix)) continue;
      this.#homes.delete(key);
      this.#retire(home);
    }
  }

  health(): SandboxHealth {
    const missing = this.#missing;
    const children = this.#homes.size + this.#retiring.size + (this.#spare === null ? 0 : 1);
    return { state: missing.length === 0 ? 'ok' : 'degraded', missing, children };
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#reaper);
    clearTimeout(this.#spareTimer);
    this.#spare?.kill('asked');
    const ended = [...this.#homes.values(), ...this.#retiring].map(({ child }) => child.ended);
    if (this.#spare !== null) ended.push(this.#spare.ended);
    for (const { child } of [...this.#homes.values(), ...this.#retiring]) child.kill('asked');
    await Promise.all(ended);
    await this.#kind.program.remove();
  }

  /** Calls back with the realm's child, at once unless all children are busy with others. */
  #withHome(realm: Realm, use: Waiting): void {
    const key = this.#kind.homeOf(realm);
    const home = this.#homes.get(key);
    if (home !== undefined && !home.child.hasEnded) {
      use(home);
      return;
    }
    this.#line.push({ key, use });
    this.#serve();
  }

  /** Gives children to those who wait for one, in the order of their coming. */
  #serve(): void {
    for (let first = this.#line[0]; first !== undefined; first = this.#line[0]) {
      const home = this.#homes.get(first.key);
      const isThere = home !== undefined && !home.child.hasEnded;
      if (!isThere && this.#homes.size + this.#retiring.size >= this.#most && !this.#makeRoom()) return;
      this.#line.shift();
      first.use(isThere ? home : this.#settle(first.key));
    }
  }

  #settle(key: string): AccountChild {
    const child = this.#spare ?? new SandboxChild(this.#settings);
    this.#spare = null;
    clearTimeout(this.#spareTimer);
    this.#spareTimer = setTimeout(() => this.#startSpare(), SPARE_AFTER_MS);
    this.#spareTimer.unref();
    const home: AccountChild = new AccountChild(
      child,
      this.#fatal,
      () => this.#idle(home),
      (left) => this.#lost(key, home, left),
    );
    this.#homes.set(key, home);
    return home;
  }

  /** Ends the least recently used idle child. Where none is idle, lets one finish what it has and then go. */
  #makeRoom(): boolean {
    if (this.#retiring.size > 0) return false;
    const byAge = [...this.#homes].sort(([, a], [, b]) => a.lastUsed - b.lastUsed);
    const idle = byAge.find(([, home]) => home.isIdle);
    const [key, home] = idle ?? byAge[0] ?? [];
    if (key === undefined || home === undefined) return false;
    this.#homes.delete(key);
    if (idle !== undefined) {
      home.child.kill('asked');
      return true;
    }
    home.isRetiring = true;
    this.#retiring.add(home);
    return false;
  }

  /** Ends a child as soon as it has nothing left to do. */
  #retire(home: AccountChild): void {
    if (home.isIdle) {
      home.child.kill('asked');
      return;
    }
    home.isRetiring = true;
    this.#retiring.add(home);
  }

  #idle(home: AccountChild): void {
    if (home.isRetiring) home.child.kill('asked');
    else this.#serve();
  }

  #lost(key: string, home: AccountChild, left: Leftovers): void {
    if (this.#homes.get(key) === home) this.#homes.delete(key);
    this.#retiring.delete(home);
    // What cannot even start will not start better at once.
    if (!home.child.wasReady) {
      setTimeout(() => this.#resume(left), RESTART_MS);
      return;
    }
    this.#resume(left);
  }

  #resume(left: Leftovers): void {
    if (this.#isClosed) {
      for (const chain of left.chains) chain.end();
      for (const load of left.loads) load.settle(gone);
      return;
    }
    for (const chain of left.chains) {
      const [first] = chain.run.handlers;
      if (first !== undefined) this.#withHome(first.realm, (next) => next.run(chain));
    }
    for (const load of left.loads) {
      if (load.dispatches > 3) load.settle(gone);
      else this.#withHome(load.realm, (next) => next.load(load));
    }
    this.#serve();
  }

  #startSpare(): void {
    if (this.#isClosed || this.#spare !== null) return;
    const spare = new SandboxChild(this.#settings);
    this.#spare = spare;
    spare.attach({
      onMessage: () => undefined,
      onEnd: () => {
        if (this.#spare === spare) this.#spare = null;
      },
    });
  }

  #reap(): void {
    const before = monotonicMs() - this.#kind.idleMs;
    for (const [key, home] of this.#homes) {
      if (!home.isIdle || home.lastUsed > before) continue;
      this.#homes.delete(key);
      home.child.kill('asked');
    }
  }
}

const gone: LoadOutcome = {
  kind: 'failed',
  cause: 'crashed',
  message: 'The sandbox ended before the plugin was loaded.',
  line: null,
  column: null,
};

const shardOf = (account: string): number => {
  let hash = 0;
  for (let i = 0; i < account.length; i++) hash = (hash * 31 + account.charCodeAt(i)) >>> 0;
  return hash % SHARDS;
};
