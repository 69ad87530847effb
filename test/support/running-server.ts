import type { ChildProcess } from 'node:child_process';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** The built program, running as a process of its own. */
export interface RunningServer {
  readonly url: string;
  readonly pid: number;
  readonly dataDir: string;
  readonly operatorKey: string;
  /** What it said so far: stdout, and its log. */
  readonly said: () => string;
  readonly logged: () => string;
  /** A request with the operator key, or another one; `null` sends none. JSON in, JSON out. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- an answer is whatever the server said
  call<T = any>(method: string, path: string, options?: CallOptions): Promise<CallAnswer<T>>;
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
  /** SIGKILL of the program alone; its Postgres goes on. */
  kill(): Promise<void>;
  /** Stops it and its Postgres and removes the data folder. */
  close(): Promise<void>;
}

export interface CallOptions {
  readonly key?: string | null;
  /** Sent as JSON; `raw` sends these bytes as they are. */
  readonly body?: unknown;
  readonly raw?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- an answer is whatever the server said
export interface CallAnswer<T = any> {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; undefined when it is empty or no JSON. Tests say what they expect of it. */
  readonly body: T;
}

export interface StartOptions {
  /** An existing data folder; default: a new one, removed by `close`. */
  readonly dataDir?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Run as this user (only root can). */
  readonly user?: { readonly uid: number; readonly gid: number };
  readonly port?: number;
  /** Working folder. */
  readonly cwd?: string;
}

/** The project's folder, wherever this file was compiled to. */
const root = ((): string => {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'nest-cli.json'))) folder = dirname(folder);
  return folder;
})();

/** Builds the program where its sources changed; a build that is under way in another process is waited for. */
export const ensureBuilt = (): void => {
  const built = spawnSync(process.execPath, [join(root, 'scripts/ensure-built.js')], {
    encoding: 'utf8',
    env: cleanEnv(),
  });
  if (built.status !== 0) throw new Error(`the program cannot be built:\n${built.stdout}${built.stderr}`);
};

/** The operator key that test servers are given, so that a restart needs no reading of what the first one said. */
export const testOperatorKey = 'operator-key-of-the-tests';

/** Starts the built program and waits until it listens. Rejects with what it said when it ends instead. */
export const startServer = async (options: StartOptions = {}): Promise<RunningServer> => {
  ensureBuilt();
  const dataDir = options.dataDir ?? newDataDir();
  const child = spawnServer(dataDir, options);
  const said = collect(child.stdout);
  const logged = collect(child.stderr);
  const exited = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  const url = await listening(said, exited);
  if (url === null) throw new Error(`the server ended with ${String(await exited)}:\n${said()}${logged()}`);
  const operatorKey = options.env?.HOOKLEDGER_OPERATOR_KEY ?? testOperatorKey;
  const server: RunningServer = {
    url,
    pid: child.pid ?? -1,
    dataDir,
    operatorKey,
    said,
    logged,
    call: (method, path, callOptions = {}) => call(url, operatorKey, method, path, callOptions),
    stop: async () => {
      child.kill('SIGTERM');
      return exited;
    },
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
    close: async () => {
      await server.stop();
      await endPostgres(dataDir);
      if (options.dataDir === undefined) removeData(dataDir);
    },
  };
  return server;
};

/** A temporary folder is its maker's alone; where root tests, the database's user must get through. */
const newDataDir = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'hookledger-e2e-'));
  chmodSync(folder, 0o755);
  return folder;
};

/** Runs the program where it is expected to refuse; resolves with its exit code and words. */
export const startExpectingRefusal = async (
  options: StartOptions & { readonly dataDir: string },
): Promise<{ readonly code: number | null; readonly words: string }> => {
  ensureBuilt();
  const child = spawnServer(options.dataDir, options);
  const said = collect(child.stdout);
  const logged = collect(child.stderr);
  const code = await new Promise<number | null>((resolve) => child.once('exit', (status) => resolve(status)));
  return { code, words: said() + logged() };
};

/** Pid of the embedded Postgres of a data folder; null when none runs. */
export const postgresPid = (dataDir: string): number | null => {
  const file = join(clusterOf(dataDir), 'postmaster.pid');
  if (!existsSync(file)) return null;
  const pid = Number(readFileSync(file, 'utf8').split('\n')[0]);
  return isAlive(pid) ? pid : null;
};

/** Where the embedded cluster of a data folder is. */
export const clusterOf = (dataDir: string): string => {
  const elsewhere = join(dataDir, 'postgres.location');
  return existsSync(elsewhere) ? readFileSync(elsewhere, 'utf8').trim() : join(dataDir, 'postgres');
};

/** A port that is free now. */
export const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });

/** Waits until it is so; fails after `seconds`. */
export const until = async (what: string, holds: () => boolean | Promise<boolean>, seconds = 30): Promise<void> => {
  const deadline = Date.now() + seconds * 1000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`not so within ${seconds} s: ${what}`);
    await delay(50);
  }
};

// Jest's own flags are none of the program's business.
const cleanEnv = (): NodeJS.ProcessEnv => {
  const { NODE_OPTIONS: _, JEST_WORKER_ID: __, ...env } = process.env;
  return env;
};

const spawnServer = (dataDir: string, options: StartOptions): ChildProcess & { stdout: Readable; stderr: Readable } => {
  const { user } = options;
  const child = spawn(process.execPath, [join(root, 'dist/apps/server/src/main.js')], {
    cwd: options.cwd ?? tmpdir(),
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...cleanEnv(),
      HOST: '127.0.0.1',
      PORT: String(options.port ?? 0),
      HOOKLEDGER_DATA: dataDir,
      HOOKLEDGER_OPERATOR_KEY: testOperatorKey,
      ...options.env,
    },
    ...(user === undefined ? {} : { uid: user.uid, gid: user.gid }),
  });
  return child;
};

type Readable = NodeJS.ReadableStream;

const collect = (stream: Readable): (() => string) => {
  const parts: string[] = [];
  stream.setEncoding('utf8');
  stream.on('data', (part: string) => parts.push(part));
  return () => parts.join('');
};

/** Where it listens; null when it ended before. */
const listening = async (said: () => string, exited: Promise<unknown>): Promise<string | null> => {
  const ended = exited.then(() => 'ended' as const);
  for (;;) {
    const found = /listens on (http:\/\/\S+)/u.exec(said())?.[1];
    if (found !== undefined) return found;
    if ((await Promise.race([ended, delay(20)])) === 'ended') return null;
  }
};

const call = async (
  url: string,
  operatorKey: string,
  method: string,
  path: string,
  options: CallOptions,
): Promise<CallAnswer> => {
  const key = options.key === undefined ? operatorKey : options.key;
  const body = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...(body === undefined ? {} : { body: body as string }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: parsed(text) };
};

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
};

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** A server that was killed leaves its Postgres behind. */
const endPostgres = async (dataDir: string): Promise<void> => {
  const pid = postgresPid(dataDir);
  if (pid === null) return;
  process.kill(pid, 'SIGINT');
  await until('the embedded Postgres ends', () => !isAlive(pid)).catch(() => process.kill(pid, 'SIGKILL'));
};

const removeData = (dataDir: string): void => {
  const cluster = clusterOf(dataDir);
  if (!cluster.startsWith(dataDir) && statSync(cluster, { throwIfNoEntry: false }) !== undefined) {
    rmSync(join(cluster, '..'), { recursive: true, force: true });
  }
  rmSync(dataDir, { recursive: true, force: true });
};
