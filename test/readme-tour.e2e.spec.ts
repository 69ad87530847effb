import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readTour } from './support/readme-tour.js';
import { startServer } from './support/running-server.js';
import type { RunningServer } from './support/running-server.js';

/** The README's five minutes, typed into a shell as they stand; only the key and the port are this server's. */

const root = join(import.meta.dirname, '..');
const steps = readTour(readFileSync(join(root, 'README.md'), 'utf8'));
const marker = '--- end of step ---';

let server: RunningServer;
let shells: ChildProcess[] = [];

const shell = (): ChildProcess => {
  const child = spawn('bash', ['--noprofile', '--norc'], {
    cwd: root,
    env: { ...process.env, HOOKLEDGER_DATA: server.dataDir },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });
  shells.push(child);
  return child;
};

const setup = (): string => {
  const text = steps.find(({ kind }) => kind === 'setup')?.script ?? '';
  return text.replace('hlk_…', server.operatorKey).replace('http://127.0.0.1:3000', server.url);
};

const collected = (child: ChildProcess): (() => string) => {
  let said = '';
  child.stdout?.on('data', (chunk: Buffer) => (said += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()));
  return () => said;
};

const until = async (holds: () => boolean, said: () => string): Promise<void> => {
  for (let tries = 0; !holds(); tries += 1) {
    if (tries > 600) throw new Error(`nothing came of it; it said:\n${said()}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};

beforeAll(async () => {
  server = await startServer();
}, 120_000);

afterAll(async () => {
  for (const child of shells)
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGTERM');
  shells = [];
  await server.close();
}, 60_000);

describe("the README's tour", () => {
  it('prints what the README says it prints, while the stream shows the events', async () => {
    const follower = shell();
    const followed = collected(follower);
    follower.stdin?.write(`${setup()}\n${steps.find(({ kind }) => kind === 'follow')?.script ?? ''}\n`);
    await until(() => followed().includes('audit.read'), followed);

    const typist = shell();
    const typed = collected(typist);
    typist.stdin?.write(setup());
    let seen = 0;
    for (const { script, prints } of steps.filter(({ kind }) => kind === 'step')) {
      typist.stdin?.write(`${script}\necho '${marker}'\n`);
      await until(() => typed().includes(marker, seen), typed);
      const end = typed().indexOf(marker, seen);
      const printed = typed().slice(seen, end);
      seen = end + marker.length + 1;
      if (prints !== null) expect(printed).toBe(prints);
    }

    const types = [
      'plugin.installed',
      'plugin.configured',
      'invocation.opened',
      'handler.rewrote',
      'handler.cancelled',
    ];
    await until(() => types.every((type) => followed().includes(`"type":"${type}"`)), followed);
  }, 120_000);

  it('shows what every step prints', () => {
    const silent = steps.filter(({ kind, prints }) => kind === 'step' && prints === null);
    expect(silent).toEqual([]);
    expect(steps.length).toBeGreaterThan(6);
  });
});
