import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { build, stop, type Plugin } from 'esbuild';

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

/** A change of this project's source, as a later version would have it. */
export interface SourceChange {
  /** Path from the project's folder. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/** Bundles a TypeScript file with this project's libraries, so that plain Node runs it. */
export const programFile = async (entry: string, changes: readonly SourceChange[] = []): Promise<ProgramFile> => {
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
    plugins: changes.map(changing),
  });
  // Its service would keep the test run from ending.
  await stop();
  return {
    start: (args) => startChild(file, args),
    remove: () => rmSync(file, { force: true }),
  };
};

const changing = ({ file, from, to }: SourceChange): Plugin => ({
  name: `change of ${file}`,
  setup: (bundle) => {
    // The filter is a regular expression of Go, which knows no flags of ours.

    const filter = new RegExp(`${file.replaceAll('.', '\\.')}$`);
    bundle.onLoad({ filter }, ({ path }) => {
      const source = readFileSync(path, 'utf8');
      if (!source.includes(from)) throw new Error(`${file} does not say ${from}`);
      return { contents: source.replace(from, to), loader: 'ts' };
    });
  },
});

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
