import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  appendFileSync,
  accessSync,
  constants,
} from 'node:fs';
import { randomBytes, randomUUID } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { StartFailure } from '#platform';
import type { Binaries } from './binaries.js';
import { programOf } from './binaries.js';
import { isAlive } from './processes.js';
import type { ServerUser } from './server-user.js';
import { closedFolder, serverUser } from './server-user.js';

/** Where a cluster is and who runs it. */
export interface ClusterFiles {
  /** The data folder that Postgres knows. */
  readonly data: string;
  readonly password: string;
  readonly user: ServerUser | null;
}

/** Superuser and database of the embedded cluster. */
export const clusterUser = 'hookledger';

const settings = [
  "listen_addresses = '127.0.0.1'",
  "unix_socket_directories = ''",
  'max_connections = 200',
  // Statements hold content: the server's own log names none of it.
  'log_min_error_statement = panic',
  'log_error_verbosity = terse',
  'log_parameter_max_length_on_error = 0',
  'logging_collector = on',
  "log_directory = 'log'",
  "log_filename = 'postgres-%u.log'",
  'log_rotation_age = 1d',
  'log_rotation_size = 10MB',
  'log_truncate_on_rotation = on',
  'idle_in_transaction_session_timeout = 60s',
];

/** Makes the data directory itself, for keys and the cluster. Throws `StartFailure` that says what is in the way. */
export const makeDataDir = (dataDir: string): void => {
  try {
    // Root hands the cluster to another user, who must get through; what is secret inside has modes of its own.
    mkdirSync(dataDir, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 });
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw notOurs(dataDir, error);
  }
};

const notOurs = (path: string, error: unknown): StartFailure => {
  const { code } = error as { code?: string };
  const owner = existsSync(path)
    ? ` It belongs to user ${statSync(path).uid}; this is user ${process.getuid?.() ?? '?'}.`
    : '';
  return new StartFailure(
    `The data folder ${path} cannot be used (${code ?? 'unknown error'}).${owner} ` +
      'Start as the user who made it, give it to this one (chown -R), or set HOOKLEDGER_DATA to another folder.',
  );
};

/** The cluster in this data directory: found, or made now. Throws `StartFailure` that says what is in the way. */
export const openCluster = async (
  dataDir: string,
  findBinaries: (user: ServerUser | null) => Binaries,
): Promise<{ readonly files: ClusterFiles; readonly binaries: Binaries }> => {
  try {
    return await alone(dataDir, () => findOrMake(dataDir, findBinaries));
  } catch (error) {
    const { code } = error as { code?: string };
    if (error instanceof StartFailure || code === undefined || !isOfTheSystem(code)) throw error;
    throw notOurs((error as { path?: string }).path ?? dataDir, error);
  }
};

const isOfTheSystem = (code: string): boolean => ['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EDQUOT'].includes(code);

const findOrMake = (
  dataDir: string,
  findBinaries: (user: ServerUser | null) => Binaries,
): { readonly files: ClusterFiles; readonly binaries: Binaries } => {
  const known = locate(dataDir);
  const user = serverUser(existsSync(known) ? statSync(known).uid : null);
  const data = existsSync(known) ? known : placeFor(dataDir, known, user);
  const binaries = findBinaries(user);
  const passwordFile = join(dataDir, 'postgres.password');
  if (isMissing(data)) initialise(data, passwordFile, binaries, user);
  // Root sees what is there; others learn first that it is not theirs.
  if (process.getuid?.() === 0) checkIsCluster(data);
  checkOwner(data, user);
  checkIsCluster(data);
  checkMajor(data, binaries);
  return { files: { data, password: readPassword(passwordFile), user }, binaries };
};

/** A cluster appears whole or not at all: a folder that holds something else is somebody else's and stays as it is. */
const isMissing = (data: string): boolean => !existsSync(data) || readdirSync(data).length === 0;

/** One start at a time looks for the cluster and makes it: two first starts may come at once. */
const alone = async <T>(dataDir: string, work: () => T): Promise<T> => {
  const lock = join(dataDir, 'starting');
  while (!tryLock(lock)) {
    const holder = existsSync(lock) ? Number(readFileSync(lock, 'utf8')) : 0;
    if (holder > 0 && !isAlive(holder)) rmSync(lock, { force: true });
    else await delay(50);
  }
  try {
    return work();
  } finally {
    rmSync(lock, { force: true });
  }
};

const tryLock = (lock: string): boolean => {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error;
    return false;
  }
};

const locationFile = (dataDir: string): string => join(dataDir, 'postgres.location');

const locate = (dataDir: string): string => {
  const file = locationFile(dataDir);
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : join(dataDir, 'postgres');
};

/**
 * Postgres refuses to run as root, and the user that it runs as cannot enter a folder such as /root. The files are then
 * kept in /var/lib/hookledger, under a name of their own, and the data directory notes where.
 */
const placeFor = (dataDir: string, wanted: string, user: ServerUser | null): string => {
  if (user === null) return wanted;
  if (closedFolder(wanted, user) === null) return wanted;
  const elsewhere = join('/var/lib/hookledger', randomUUID(), 'postgres');
  try {
    mkdirSync(dirname(elsewhere), { recursive: true, mode: 0o711 });
  } catch {
    const closed = closedFolder(wanted, user) ?? dataDir;
    throw new StartFailure(
      `Postgres cannot run as root, and its user ${user.name} cannot enter ${closed}. ` +
        'Start as an ordinary user, or set HOOKLEDGER_DATA to a folder outside, such as /var/lib/hookledger.',
    );
  }
  writeFileSync(locationFile(dataDir), `${elsewhere}\n`, { mode: 0o644 });
  return elsewhere;
};

const initialise = (data: string, passwordFile: string, binaries: Binaries, user: ServerUser | null): void => {
  const home = dirname(data);
  // What a killed start left half-made is no cluster: nothing was ever answered from it.
  for (const name of readdirSync(home))
    if (name.startsWith('postgres.new-')) rmSync(join(home, name), { recursive: true });
  const half = join(home, `postgres.new-${process.pid}`);
  const password = randomBytes(24).toString('hex');
  const handed = join(home, `postgres.new-${process.pid}.password`);
  mkdirSync(half, { mode: 0o700 });
  writeFileSync(handed, password, { mode: 0o600 });
  if (user !== null) for (const path of [half, handed]) chownSync(path, user.uid, user.gid);
  const flags = [
    '--encoding=UTF8',
    ...localeFlags(binaries.major),
    '--auth=scram-sha-256',
    '--data-checksums',
    '--no-instructions',
  ];
  const made = spawnSync(
    programOf(binaries, 'initdb'),
    ['-D', half, '-U', clusterUser, `--pwfile=${handed}`, ...flags],
    {
      encoding: 'utf8',
      cwd: half,
      env: serverEnvironment(),
      ...(user === null ? {} : { uid: user.uid, gid: user.gid }),
    },
  );
  rmSync(handed, { force: true });
  if (made.status !== 0) {
    rmSync(half, { recursive: true, force: true });
    const words = ((made.stderr || made.error?.message) ?? 'initdb failed').trim();
    const hint = words.includes('effective user ID')
      ? ' This user has no entry in /etc/passwd, which Postgres needs: add one, or set DATABASE_URL.'
      : '';
    throw new StartFailure(`The database could not be made in ${data}: ${words}${hint}`);
  }
  appendFileSync(join(half, 'postgresql.conf'), `\n# Hookledger\n${settings.join('\n')}\n`);
  writeFileSync(passwordFile, password, { mode: 0o600 });
  chmodSync(passwordFile, 0o600);
  // The cluster appears whole or not at all.
  renameSync(half, data);
};

/** Code point order everywhere. From 17 on Postgres brings it along; before, the system must have it. */
const localeFlags = (major: number): readonly string[] =>
  major >= 17 ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C'] : ['--locale=C.UTF-8'];

const checkIsCluster = (data: string): void => {
  if (existsSync(join(data, 'PG_VERSION'))) return;
  throw new StartFailure(
    `${data} holds something that is no Postgres data. Nothing was changed. Move it away, or set HOOKLEDGER_DATA.`,
  );
};

const checkMajor = (data: string, { major, folder }: Binaries): void => {
  const found = readFileSync(join(data, 'PG_VERSION'), 'utf8').trim();
  if (found === String(major)) return;
  throw new StartFailure(
    `The data in ${data} was made by Postgres ${found}; the Postgres in ${folder} is ${major} and cannot read it. ` +
      `Nothing was changed. Either start with PG_BIN set to the bin folder of a Postgres ${found}, ` +
      `or dump it with Postgres ${found} (pg_dump), load the dump into a Postgres ${major}, and set DATABASE_URL to that one.`,
  );
};

const checkOwner = (data: string, user: ServerUser | null): void => {
  const owner = statSync(data).uid;
  const ours = user?.uid ?? process.getuid?.() ?? owner;
  if (owner !== ours) throw notOurs(data, { code: 'EACCES' });
};

const readPassword = (file: string): string => {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    const { code } = error as { code?: string };
    if (code !== 'ENOENT') throw notOurs(file, error);
    throw new StartFailure(
      `The password of the embedded database is gone: ${file} is missing. Put it back from a backup of the data folder.`,
    );
  }
};

/** What a server process gets from our environment: nothing but where programs and words are. */
export const serverEnvironment = (): NodeJS.ProcessEnv => ({
  PATH: process.env.PATH ?? '/usr/bin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
});
