import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What a child is started with. */
export interface ChildProgram {
  /** The folder of its program, and the file in it that is run. */
  readonly folder: string;
  readonly file: string;
  /** isolated-vm's binary. */
  readonly addon: string;
  readonly remove: () => Promise<void>;
}

/**
 * The program that a child runs. Built, it is `child/main.js` beside this file. From sources (under jest) Node cannot
 * run it as it is: its imports end in `.js`, and stripping types needs WebAssembly, which `--jitless` takes away; then
 * it is bundled once into a temporary folder.
 */
export const childProgram = async (): Promise<ChildProgram> => {
  const addon = addonPath();
  if (import.meta.url.endsWith('.js')) {
    const folder = fileURLToPath(new URL('.', import.meta.url));
    return { folder, file: 'child/main.js', addon, remove: () => Promise.resolve() };
  }
  const { build } = await import('esbuild');
  const folder = await mkdtemp(join(tmpdir(), 'hookledger-sandbox-'));
  await chmod(folder, 0o755);
  const bundle = await build({
    entryPoints: [fileURLToPath(new URL('./child/main.ts', import.meta.url))],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node24',
  });
  await writeFile(join(folder, 'main.mjs'), bundle.outputFiles[0]?.text ?? '', { mode: 0o644 });
  return { folder, file: 'main.mjs', addon, remove: () => rm(folder, { recursive: true, force: true }) };
};

/** isolated-vm finds its binary with node-gyp-build, which it brings. */
const addonPath = (): string => {
  const isolatedVm = createRequire(import.meta.url).resolve('isolated-vm');
  const { resolve } = createRequire(isolatedVm)('node-gyp-build') as { resolve: (folder: string) => string };
  return resolve(dirname(isolatedVm));
};
