import { v7 as uuidv7 } from 'uuid';
import type { Sql } from '#event-store';
import { createPool, listenForNotices, postgresEventStore, sqlOver } from '#event-store';
import type { Listen, Logger, ServerConfig } from '#platform';
import { createMetrics, Readiness, StartFailure } from '#platform';
import { rowTagKey } from '#proof';
import { startSandbox } from '#sandbox';
import { loadMasterKeys, MasterKeyProblem, openRootSecret, postgresSealing } from '#sealing';
import type { MasterKeys } from '#sealing';
import type { AppServices } from './app.module.js';
import { AccountDirectory } from './control/accounts/account-directory.js';
import { ensureDefaultAccount } from './control/accounts/first-start.js';
import { LogKeys } from './control/proofs/log-keys.js';
import { openDatabase } from './database.js';
import { makeDataDir } from './embedded/cluster-files.js';
import { watchLog } from './log-health.js';
import { noteReadiness } from './noted-readiness.js';

/** How long a statement of a read model may take, ms; and of data keys, which firings wait for. */
const readPatienceMs = 30_000;
const hotPatienceMs = 4_000;

/** Connections for data keys, which are looked up once and then known. */
const sealingPool = 4;

/** What the roles share, running. */
export interface StartedServices {
  readonly services: AppServices;
  /** In reverse order of the start; the database last. */
  stop(): Promise<void>;
}

/** Starts everything that Nest is handed. What was started is stopped again when a later part fails. */
export const startServices = async (
  config: ServerConfig,
  logger: Logger,
  stopping: AbortSignal,
): Promise<StartedServices> => {
  const stops: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (const end of stops.splice(0).reverse()) await end();
  };
  try {
    makeDataDir(config.dataDir);
    const masterKeys = readMasterKeys(config);
    const database = await openDatabase(config, logger);
    stops.push(() => database.stop());
    const log = (level: 'info' | 'warn' | 'error', message: string, facts: object = {}): void =>
      logger[level](facts, message);
    const poolOf = (max: number, patienceMs: number): Sql => {
      const pool = createPool({
        connectionString: database.url,
        max,
        statementTimeoutMs: patienceMs,
        // A database that stands still answers nothing at all: then the driver gives up.
        queryTimeoutMs: patienceMs + 1000,
        log,
      });
      stops.push(() => pool.end());
      return sqlOver(pool);
    };
    const sql = poolOf(config.databasePool, readPatienceMs);
    const keySql = poolOf(sealingPool, hotPatienceMs);
    const masterKey = await rootSecret(keySql, masterKeys);
    const tagKey = rowTagKey(masterKey);
    const watched = watchLog(postgresEventStore({ connectionString: database.url, log, tagKey }));
    const { store } = watched;
    stops.push(() => store.close());
    const sealing = postgresSealing({ sql: keySql, store, masterKeys });
    const sandbox = await startSandbox({ ...config.sandbox, log });
    stops.push(() => sandbox.close());
    const onErased = (keys: readonly string[]): void => sealing.forgetKeys(keys);
    const directory = new AccountDirectory({ store, sql, masterKey, logger, onErased });
    stops.push(() => directory.stop());
    await directory.start();
    await ensureDefaultAccount(store, directory);
    const logKeys = new LogKeys({ store, sql, rootSecret: masterKey });
    await logKeys.start();
    const readiness = new Readiness();
    noteReadiness(readiness, { sql, log: watched, sandbox });
    const metrics = createMetrics();
    const listen: Listen = (options) => listenForNotices({ connectionString: database.url, log, ...options });
    const services = {
      config,
      listen,
      logger,
      metrics,
      store,
      sealing,
      sql,
      sandbox,
      keyRing: directory,
      masterKey,
      readiness,
      stopping,
      instance: uuidv7(),
      directory,
      logKeys,
    };
    return { services, stop };
  } catch (error) {
    await stop();
    throw error;
  }
};

const readMasterKeys = ({ masterKey, masterKeyNext, dataDir }: ServerConfig): MasterKeys => {
  try {
    return loadMasterKeys({
      environment: masterKey ?? undefined,
      nextEnvironment: masterKeyNext ?? undefined,
      dataDir,
    });
  } catch (error) {
    throw startFailureOf(error);
  }
};

/** What signs and tags: it outlives the master key that wraps it (ADR 8). */
const rootSecret = async (sql: Sql, masterKeys: MasterKeys): Promise<Buffer> => {
  try {
    return await openRootSecret(sql, masterKeys);
  } catch (error) {
    throw startFailureOf(error);
  }
};

const startFailureOf = (error: unknown): unknown =>
  error instanceof MasterKeyProblem ? new StartFailure(`${error.message}.`) : error;
