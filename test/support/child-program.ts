import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { build, stop } from 'esbuild';

/** A program of a test's own in a process of its own, which may be killed. */
export interface ChildProgram {
  readonly process: ChildProcess;
  /** The lines it has printed so far. */
  readonly lines: readonly string[];
  /** Resolves with the exit code, or null when a signal ended it. */
  readonly ended: Promise<number | null>;
}

/** A TypeScript file that children run. */
export interface ProgramFile {
  start(args: readonly string[]): ChildProgram;
  remove(): void;
}

/** Bundles a TypeScript file with this project's libraries, so that plain Node runs it. */
export const programFile = async (entry: string): Promise<ProgramFile> => {
  // Within the project, so that packages are found from there.
  const folder = join(process.cwd(), 'node_modules', '.cache', 'hookledger-tests');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `child-${String(process.pid)}-${String((made += 1))}.mjs`);
  await build({
    entryPoints: [entry],
    outfile: file,
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    conditions: ['hookledger-source'],
    logLevel: 'error',
  });
  // Its service would keep the test run from ending.
  await stop();
  return {
    start: (args) => startChild(file, args),
    remove: () => rmSync(file, { force: true }),
  };
};

let made = 0;

const startChild = (file: string, args: readonly string[]): ChildProgram => {
  const child = spawn(process.execPath, [file, ...args], { stdio: ['ignore', 'pipe', 'inherit'], env: { PATH: '' } });
  const lines: string[] = [];
  const reader = createInterface({ input: child.stdout });
  reader.on('line', (line) => lines.push(line));
  const ended = new Promise<number | null>((resolve) => child.on('exit', resolve));
  const read = new Promise<void>((resolve) => reader.on('close', resolve));
  return { process: child, lines, ended: Promise.all([ended, read]).then(([code]) => code) };
};
