// Builds what is not built, or was built from other sources: `npm start` after a pull must not run old code.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
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
  return [...nested, join(root, 'migrations')].filter((folder) => existsSync(folder));
};

const settings = ['package.json', 'package-lock.json', 'tsconfig.json', 'nest-cli.json']
  .map((name) => join(root, name))
  .filter((path) => existsSync(path));

const digest = () => {
  const hash = createHash('sha256');
  for (const path of [...settings, ...sourceFolders().flatMap(filesBelow).sort()]) {
    hash.update(path.slice(root.length)).update('\0').update(readFileSync(path)).update('\0');
  }
  return hash.digest('hex');
};

const build = () => {
  const nest = createRequire(import.meta.url).resolve('@nestjs/cli/bin/nest.js');
  // --all: two programs share dist, and a build of one may not remove the other.
  const built = spawnSync(process.execPath, [nest, 'build', '--all'], { cwd: root, stdio: 'inherit' });
  if (built.status !== 0) {
    process.stderr.write('Hookledger could not be built; see above.\n');
    process.exit(built.status ?? 1);
  }
};

const wanted = digest();
const found = existsSync(stamp) ? readFileSync(stamp, 'utf8') : null;
if (found !== wanted || process.argv.includes('--force')) {
  build();
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, wanted);
}
