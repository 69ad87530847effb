import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ChildProgram } from '../child-program.js';

/** What an interpreter is made of. */
const parts = ['pyodide.mjs', 'pyodide.asm.mjs', 'pyodide.asm.wasm', 'python_stdlib.zip', 'pyodide-lock.json'];

/** Longest that making a snapshot may take, ms; it takes some three seconds. */
const MAKE_MS = 120_000;

/**
 * The program of children that run Python: one folder with the program as one file and Pyodide beside it, and a memory
 * snapshot of a started interpreter (`addon`), which makes the start six times as fast. The snapshot fits one build of
 * Pyodide, Node and the kit; it is made once and kept beside the packages where that can be written.
 */
export const pythonProgram = async (): Promise<ChildProgram> => {
  const { build } = await import('esbuild');
  const folder = await mkdtemp(join(tmpdir(), 'hookledger-python-'));
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true });
  try {
    await chmod(folder, 0o755);
    const isBuilt = import.meta.url.endsWith('.js');
    const bundle = await build({
      entryPoints: [fileURLToPath(new URL(isBuilt ? './python-main.js' : './python-main.ts', import.meta.url))],
      bundle: true,
      write: false,
      format: 'esm',
      platform: 'node',
      target: 'node24',
    });
    const code = bundle.outputFiles[0]?.text ?? '';
    await writeFile(join(folder, 'main.mjs'), code, { mode: 0o644 });
    const pyodide = dirname(createRequire(import.meta.url).resolve('pyodide/package.json'));
    for (const part of parts) {
      await copyFile(join(pyodide, part), join(folder, part));
      await chmod(join(folder, part), 0o644);
    }
    const snapshot = join(folder, 'snapshot.bin');
    await takeSnapshot(folder, snapshot, cachedAs(pyodide, await digestOf(pyodide, code)));
    return { folder, file: 'main.mjs', addon: snapshot, remove };
  } catch (error) {
    await remove();
    throw error;
  }
};

const digestOf = async (pyodide: string, code: string): Promise<string> => {
  const hash = createHash('sha256').update(process.version).update(code);
  for (const part of parts) hash.update(await readFile(join(pyodide, part)));
  return hash.digest('hex');
};

const cachedAs = (pyodide: string, digest: string): string =>
  join(dirname(pyodide), '.cache', 'hookledger', `python-${digest.slice(0, 32)}.bin`);

const takeSnapshot = async (folder: string, to: string, cached: string): Promise<void> => {
  if (await isFile(cached)) {
    await copyFile(cached, to);
  } else {
    await make(folder, to);
    await keep(to, cached);
  }
  await chmod(to, 0o644);
};

const isFile = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isFile() && found.size > 0,
    () => false,
  );

/** Where packages cannot be written to, every process makes its own. */
const keep = async (from: string, cached: string): Promise<void> => {
  const part = `${cached}.${String(process.pid)}`;
  try {
    await mkdir(dirname(cached), { recursive: true });
    await copyFile(from, part);
    await rename(part, cached);
  } catch {
    await rm(part, { force: true }).catch(() => undefined);
  }
};

const make = (folder: string, to: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(folder, 'main.mjs'), 'make', to], {
      env: {},
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: MAKE_MS,
      killSignal: 'SIGKILL',
    });
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => {
      if (said.length < 2000) said += chunk.toString();
    });
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`no snapshot of the Python interpreter could be made: ${said.trim().slice(0, 500)}`));
    });
  });
