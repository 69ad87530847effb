import { spawn } from 'node:child_process';

/** What a program of plain Node said and how it ended. */
export interface RanProgram {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Starts `node file …` with this environment beside PATH; `ended` resolves with all of what it said. */
export const startNodeProgram = (
  file: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  node: string = process.execPath,
): { readonly said: () => string; readonly stop: () => void; readonly ended: Promise<RanProgram> } => {
  const child = spawn(node, [file, ...args], {
    env: { PATH: process.env.PATH ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.stderr += text));
  const ended = new Promise<RanProgram>((resolve) => {
    child.once('close', (code) => resolve({ code, ...said }));
  });
  return { said: () => said.stdout, stop: () => void child.kill('SIGTERM'), ended };
};
