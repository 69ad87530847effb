// Builds what is not built, or was built from other sources: `npm start` after a pull must not run old code.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const stamp = join(root, 'dist', '.built-from');

const filesBelow = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.spec.ts'))
    .map((entry) => join(entry.parentPath, entry.name));

const sourceFolders = () => {
  const nested = ['apps', 'libs'].flatMap((parent) =>
    readdirSync(join(root, parent)).map((name) => join(root, parent, name, 'src')),
  );
  return [...nested, join(root, 'migrations'), join(root, 'bench')].filter((folder) => existsSync(folder));
};

const settings = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json']
  .map((name) => join(root, name))
  .filter((path) => existsSync(path));

const digest = () => {
  const hash = createHash('sha256');
  for (const path of [...settings, ...sourceFolders().flatMap(filesBelow).sort()]) {
    hash.update(path.slice(root.length)).update('\0').update(readFileSync(path)).update('\0');
  }
  return hash.digest('hex');
};

/** Without the type checks, which `npm run check` makes: a start should not wait for them. */
const build = () => {
  const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  const built = spawnSync(process.execPath, [tsc, '-p', join(root, 'tsconfig.build.json')], { stdio: 'inherit' });
  if (built.status === 0) return;
  process.stderr.write('Hookledger could not be built; see above.\n');
  process.exit(built.status ?? 1);
};

const isAlive = (pid) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
};

const tryLock = (lock) => {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    return false;
  }
};

/** One build at a time: two starts, or two test files, may find the same stale build. */
const alone = async (work) => {
  const lock = join(root, 'dist', '.building');
  mkdirSync(dirname(lock), { recursive: true });
  while (!tryLock(lock)) {
    const holder = existsSync(lock) ? Number(readFileSync(lock, 'utf8')) : 0;
    if (holder > 0 && !isAlive(holder)) rmSync(lock, { force: true });
    else await delay(100);
  }
  process.on('exit', () => rmSync(lock, { force: true }));
  work();
};

const isStale = () => {
  const wanted = digest();
  const found = existsSync(stamp) ? readFileSync(stamp, 'utf8') : null;
  return found === wanted ? null : wanted;
};

if (isStale() !== null || process.argv.includes('--force')) {
  await alone(() => {
    const wanted = isStale() ?? (process.argv.includes('--force') ? digest() : null);
    // Somebody else built it while we waited.
    if (wanted === null) return;
    build();
    writeFileSync(stamp, wanted);
  });
}
