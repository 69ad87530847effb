#!/usr/bin/env node
// Starts the command on Node 24, whatever Node it was started with. Plain enough for any Node that knows modules.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const wanted = '24';
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const program = join(root, 'dist', 'apps', 'cli', 'src', 'main.js');

const refuse = (words) => {
  process.stderr.write(`hookledger: ${words}\n`);
  process.exit(1);
};

/** The Node that `npm ci` brings: its link, or on Windows, where the link is a script, the file itself. */
const ownNode = () =>
  [
    join(root, 'node_modules', '.bin', 'node'),
    join(root, 'node_modules', `node-win-${process.arch}`, 'bin', 'node.exe'),
  ].find((path) => (process.platform === 'win32' ? path.endsWith('.exe') : true) && existsSync(path));

const startAgain = (node) => {
  const words = [fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  const child = spawn(node, words, { stdio: 'inherit', env: { ...process.env, HOOKLEDGER_STARTED_AGAIN: '1' } });
  // A terminal's Ctrl-C reaches both; a signal to this process alone is passed on.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => refuse(`${node} cannot be started (${error.code ?? 'unknown error'}).`));
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
};

const [major] = process.versions.node.split('.');
if (!existsSync(program)) {
  refuse('it is not built yet. Run npm run build in its folder.');
} else if (major === wanted) {
  await import(pathToFileURL(program).href);
} else {
  const node = ownNode();
  if (node === undefined || process.env.HOOKLEDGER_STARTED_AGAIN === '1') {
    refuse(
      `it needs Node ${wanted}, and this is ${process.versions.node}. ` +
        `There is no Node ${wanted} in ${join(root, 'node_modules')}: run npm ci there without --omit=optional, ` +
        `or start it with a Node ${wanted} of your own.`,
    );
  } else {
    startAgain(node);
  }
}
