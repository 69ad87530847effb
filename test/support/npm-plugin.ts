import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';
import { promisify } from 'node:util';

/** A published plugin as an install takes it. */
export interface NpmPlugin {
  readonly id: string;
  readonly version: string;
  readonly entry: string;
  readonly files: Readonly<Record<string, string>>;
}

const run = promisify(execFile);

/** The packages cannot be fetched, and nobody said that this is to be. */
export const isOffline = process.env.HOOKLEDGER_OFFLINE !== undefined;

/** Fetches a package from the npm registry and takes of it what its entry imports of its own files. */
export const npmPlugin = async (name: string, version: string): Promise<NpmPlugin> => {
  const folder = mkdtempSync(join(tmpdir(), 'hookledger-npm-'));
  try {
    const root = await unpacked(folder, `${name}@${version}`);
    const pack = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Package;
    const manifest = JSON.parse(readFileSync(join(root, 'openclaw.plugin.json'), 'utf8')) as { readonly id: string };
    const entry = normalize(pack.openclaw?.extensions?.[0] ?? pack.main ?? 'index.js');
    const files = new Map<string, string>();
    for (const path of ['package.json', 'openclaw.plugin.json'])
      files.set(path, readFileSync(join(root, path), 'utf8'));
    collect(root, entry, files);
    return { id: manifest.id, version, entry, files: Object.fromEntries(files) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

interface Package {
  readonly main?: string;
  readonly openclaw?: { readonly extensions?: readonly string[] };
}

const unpacked = async (folder: string, wanted: string): Promise<string> => {
  try {
    const { stdout } = await run('npm', ['pack', wanted, '--silent'], { cwd: folder, env: npmEnv() });
    await run('tar', ['-xzf', join(folder, stdout.trim().split('\n').at(-1) ?? ''), '-C', folder]);
    return join(folder, 'package');
  } catch (error) {
    const why = error instanceof Error ? error.message : 'unknown';
    throw new Error(
      `${wanted} cannot be fetched from the npm registry; set HOOKLEDGER_OFFLINE to leave these tests out: ${why}`,
      { cause: error },
    );
  }
};

/** Without what Jest gives to programs of node. */
const npmEnv = (): NodeJS.ProcessEnv => {
  const { NODE_OPTIONS: _, ...env } = process.env;
  return env;
};

const imports = /(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*)["'](\.{1,2}\/[^"']+)["']/gu;

/** A module and all that it imports by a path of its own. */
const collect = (root: string, path: string, files: Map<string, string>): void => {
  if (files.has(path)) return;
  const text = readFileSync(join(root, path), 'utf8');
  files.set(path, text);
  for (const [, wanted = ''] of text.matchAll(imports)) {
    const found = candidates(join(dirname(path), wanted)).find((each) => isFile(join(root, each)));
    if (found !== undefined) collect(root, found, files);
  }
};

const isFile = (path: string): boolean => existsSync(path) && statSync(path).isFile();

const candidates = (path: string): readonly string[] => [
  path,
  ...['.ts', '.js', '.mjs', '.json', '/index.ts', '/index.js'].map((end) => `${path}${end}`),
  path.replace(/\.([cm]?)js$/u, '.$1ts'),
];
