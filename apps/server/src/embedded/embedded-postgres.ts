import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from '#platform';
import { errorFacts } from '#platform';
import { findBinaries } from './binaries.js';
import { clusterUser, makeDataDir, openCluster } from './cluster-files.js';
import { ensureRunning, stopServer } from './postmaster.js';
import { isAlive } from './processes.js';

/** The database that came with the program, running. */
export interface EmbeddedPostgres {
  /** Connection string, as its superuser. */
  readonly url: string;
  /** Where its files are. */
  readonly data: string;
  /** Stops it, unless another Hookledger works on the same data. */
  stop(): Promise<void>;
}

const watchMs = 250;

/**
 * Starts the embedded Postgres of a data directory, or joins the one that runs already, and brings it back whenever it
 * dies. It is a daemon of its own: when this process is killed it goes on, and the next start joins it. fsync is on.
 */
export const startEmbeddedPostgres = async (dataDir: string, logger: Logger): Promise<EmbeddedPostgres> => {
  makeDataDir(dataDir);
  const { files, binaries } = await openCluster(dataDir, (user) => findBinaries(process.env, user));
  const users = noteUse(dataDir);
  const { port, pid } = await ensureRunning(files, binaries, null);
  const watch = watchServer(
    pid,
    async () => {
      logger.warn({ pid }, 'the embedded Postgres is gone; starting it again');
      // The same port: the pools know it.
      const revived = await ensureRunning(files, binaries, port);
      logger.info({ pid: revived.pid }, 'the embedded Postgres runs again');
      return revived.pid;
    },
    logger,
  );
  return {
    url: `postgres://${clusterUser}:${files.password}@127.0.0.1:${port}/postgres`,
    data: files.data,
    stop: async () => {
      await watch.end();
      if (users.leave() === 'last') await stopServer(files, binaries);
    },
  };
};

const watchServer = (first: number, revive: () => Promise<number>, logger: Logger): { end(): Promise<void> } => {
  let pid = first;
  let ended = false;
  let reviving: Promise<void> | null = null;
  const look = (): void => {
    if (ended || reviving !== null || isAlive(pid)) return;
    reviving = revive()
      .then((next) => {
        pid = next;
      })
      .catch((error: unknown) => {
        logger.error(errorFacts(error), 'the embedded Postgres could not be started; trying again');
      })
      .finally(() => {
        reviving = null;
      });
  };
  const timer = setInterval(look, watchMs);
  return {
    end: async () => {
      ended = true;
      clearInterval(timer);
      await reviving;
    },
  };
};

/** Notes which processes use a data directory, so that the last one to leave stops the server. */
const noteUse = (dataDir: string): { leave(): 'last' | 'others' } => {
  const folder = join(dataDir, 'running');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const own = String(process.pid);
  writeFileSync(join(folder, own), '');
  return {
    leave: () => {
      rmSync(join(folder, own), { force: true });
      const others = readdirSync(folder).filter((name) => {
        if (isAlive(Number(name))) return true;
        // Left by a process that was killed.
        rmSync(join(folder, name), { force: true });
        return false;
      });
      return others.length === 0 ? 'last' : 'others';
    },
  };
};
