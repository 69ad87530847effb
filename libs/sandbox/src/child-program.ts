import { createRequire } from 'node:module';
import { mkdtemp, rm, writeFile, chmod } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface ChildProgram {
  readonly path: string;
  /** Where isolated-vm is; the child loads it from there. */
  readonly isolatedVm: string;
  readonly remove: () => Promise<void>;
}

/**
 * The program that a child runs. Built, it is `child/main.js` beside this file. From sources (under jest) Node cannot
 * run it as it is: its imports end in `.js`, and stripping types needs WebAssembly, which `--jitless` takes away; then
 * it is bundled once into a temporary folder.
 */
export const childProgram = async (): Promise<ChildProgram> => {
  const isolatedVm = createRequire(import.meta.url).resolve('isolated-vm');
  if (import.meta.url.endsWith('.js')) {
    return {
      path: fileURLToPath(new URL('./child/main.js', import.meta.url)),
      isolatedVm,
      remove: () => Promise.resolve(),
    };
  }
  const { build } = await import('esbuild');
  const bundle = await build({
    entryPoints: [fileURLToPath(new URL('./child/main.ts', import.meta.url))],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node24',
  });
  const folder = await mkdtemp(join(tmpdir(), 'hookledger-sandbox-'));
  const path = join(folder, 'main.mjs');
  await writeFile(path, bundle.outputFiles[0]?.text ?? '');
  await chmod(folder, 0o755);
  await chmod(path, 0o644);
  return { path, isolatedVm, remove: () => rm(folder, { recursive: true, force: true }) };
};
