import { execFile } from 'node:child_process';
import { existsSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { StartFailure } from '#platform';
import type { Binaries } from './binaries.js';
import { programOf } from './binaries.js';
import type { ClusterFiles } from './cluster-files.js';
import { serverEnvironment } from './cluster-files.js';
import { exists, isAlive, ownerOf, workingFolder } from './processes.js';

/** A running server of our cluster. */
export interface Postmaster {
  readonly pid: number;
  readonly port: number;
}

/** How long a start, with the recovery after a crash, may take before we give up. */
const startMs = 120_000;

/**
 * A server of this cluster: the one that runs already (one that outlived a killed Hookledger), else a new one. A pid
 * file that a killed server left, or whose pid belongs to another program by now, is no obstacle.
 */
export const ensureRunning = async (
  files: ClusterFiles,
  binaries: Binaries,
  wantedPort: number | null,
): Promise<Postmaster> => {
  const deadline = Date.now() + startMs;
  let lastFailure = '';
  while (Date.now() < deadline) {
    const found = readPidFile(files.data);
    if (found !== null && isServerOf(found.pid, files.data)) {
      if (found.status === 'ready') return found;
      await delay(100);
      continue;
    }
    if (found !== null && exists(found.pid)) rmSync(join(files.data, 'postmaster.pid'), { force: true });
    const failure = await start(files, binaries, wantedPort ?? (await freePort()));
    if (failure === null) continue;
    lastFailure = failure;
    // After a kill the old back ends must be gone first; that takes up to a few seconds.
    await delay(300);
  }
  throw new StartFailure(
    `The embedded Postgres does not start. Its log is in ${join(files.data, 'log')}. ${lastFailure}`.trim(),
  );
};

/** Ends the server and waits for it; one that does not run is fine. */
export const stopServer = async (files: ClusterFiles, binaries: Binaries): Promise<void> => {
  const found = readPidFile(files.data);
  if (found === null || !isServerOf(found.pid, files.data)) return;
  await pgCtl(files, binaries, ['stop', '-w', '-t', '30', '-m', 'fast']);
};

interface PidFile extends Postmaster {
  readonly status: string;
}

const readPidFile = (data: string): PidFile | null => {
  const path = join(data, 'postmaster.pid');
  if (!existsSync(path)) return null;
  try {
    const lines = readFileSync(path, 'utf8').split('\n');
    const pid = Number(lines[0]);
    return Number.isInteger(pid) && pid > 0 ? { pid, port: Number(lines[3]), status: (lines[7] ?? '').trim() } : null;
  } catch {
    return null;
  }
};

/** Where the system shows whose a process is and what it works in, a pid that another program has now is told from ours. */
const isServerOf = (pid: number, data: string): boolean => {
  if (!isAlive(pid)) return false;
  const owner = ownerOf(pid);
  if (owner !== null && owner !== statSync(data).uid) return false;
  const folder = workingFolder(pid);
  return folder === null || folder === realpathSync(data);
};

const start = async (files: ClusterFiles, binaries: Binaries, port: number): Promise<string | null> => {
  // `-l`: without it the server keeps our pipes and pg_ctl never returns.
  const log = join(files.data, 'start.log');
  return pgCtl(files, binaries, ['start', '-w', '-t', '60', '-l', log, '-o', `-p ${port}`]);
};

/** Null when it worked, else what it said. */
const pgCtl = (files: ClusterFiles, binaries: Binaries, words: readonly string[]): Promise<string | null> =>
  new Promise((resolve) => {
    const options = {
      cwd: files.data,
      env: serverEnvironment(),
      ...(files.user === null ? {} : { uid: files.user.uid, gid: files.user.gid }),
    };
    execFile(programOf(binaries, 'pg_ctl'), [...words, '-D', files.data], options, (error, stdout, stderr) => {
      resolve(error === null ? null : `${stderr}${stdout}`.trim() || error.message);
    });
  });

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
