import { createPool, sqlOver } from '#event-store';
import type { Logger, ServerConfig } from '#platform';
import { programPassword, programRole, programUrl, StartFailure } from '#platform';
import { migrate } from '#migrations';
import { setTimeout as delay } from 'node:timers/promises';
import type { EmbeddedPostgres } from './embedded/embedded-postgres.js';
import { startEmbeddedPostgres } from './embedded/embedded-postgres.js';

/** A migrated database. */
export interface Database {
  /** As the program uses it: the log can be added to and not changed. */
  readonly url: string;
  stop(): Promise<void>;
}

const oldestServer = 150_000;
const patienceMs = 15_000;

/** Starts or reaches the database that the configuration names, and brings its tables to this program's. */
export const openDatabase = async (config: ServerConfig, logger: Logger): Promise<Database> => {
  if (config.databaseUrl === null) return openEmbedded(config, logger);
  await checkServer(config.migrationUrl ?? config.databaseUrl);
  await prepare(
    config.migrationUrl ?? config.databaseUrl,
    config.migrationUrl === null ? null : roleIn(config.databaseUrl),
  );
  return { url: config.databaseUrl, stop: () => Promise.resolve() };
};

const openEmbedded = async (config: ServerConfig, logger: Logger): Promise<Database> => {
  const postgres = await startEmbeddedPostgres(config.dataDir, logger);
  try {
    await makeProgramRole(postgres);
    await prepare(postgres.url, programRole);
    return { url: programUrl(postgres.url), stop: () => postgres.stop() };
  } catch (error) {
    await postgres.stop();
    throw error;
  }
};

const makeProgramRole = async (postgres: EmbeddedPostgres): Promise<void> => {
  const pool = createPool({ connectionString: postgres.url, max: 1 });
  try {
    const sql = sqlOver(pool);
    const password = programPassword(postgres.url);
    const found = await sql.query('select 1 from pg_roles where rolname = $1', [programRole]);
    if (found.length === 0) await sql.query(`create role ${programRole} login password '${password}'`);
  } finally {
    await pool.end();
  }
};

const roleIn = (url: string): string => decodeURIComponent(new URL(url).username);

const prepare = async (url: string, appRole: string | null): Promise<void> => {
  try {
    await migrate(url, appRole === null ? {} : { appRole });
  } catch (error) {
    const { code, message } = error as { code?: string; message?: string };
    throw new StartFailure(
      `The database cannot be brought to this program's tables (${code ?? 'error'}: ${message ?? 'unknown'}). ` +
        'Its user needs the right to create tables; HOOKLEDGER_MIGRATION_URL may name another one for that.',
    );
  }
};

/** Waits for a database that is still starting; says what is wrong with one that does not answer. */
const checkServer = async (url: string): Promise<void> => {
  const pool = createPool({ connectionString: url, max: 1 });
  const deadline = Date.now() + patienceMs;
  try {
    for (;;) {
      try {
        const [row] = await sqlOver(pool).query<{ version: string }>(
          "select current_setting('server_version_num') as version",
        );
        checkVersion(Number(row?.version));
        return;
      } catch (error) {
        if (error instanceof StartFailure) throw error;
        if (Date.now() > deadline || !mayPass(error)) throw unreachable(url, error);
        await delay(500);
      }
    }
  } finally {
    await pool.end();
  }
};

const checkVersion = (version: number): void => {
  if (version >= oldestServer) return;
  throw new StartFailure(`The database is Postgres ${Math.floor(version / 10_000)}; Hookledger needs 15 or newer.`);
};

const mayPass = (error: unknown): boolean => {
  const code = codeOf(error);
  return code === null || ['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', '57P03'].includes(code);
};

/** The driver's code, also where the error was given another name. */
const codeOf = (error: unknown): string | null => {
  const { code, cause } = error as { code?: string; cause?: unknown };
  if (code !== undefined) return code;
  return cause === undefined ? null : codeOf(cause);
};

const unreachable = (url: string, error: unknown): StartFailure => {
  const { host, pathname } = new URL(url);
  return new StartFailure(
    `The database at ${host}${pathname} (DATABASE_URL) cannot be used: ${codeOf(error) ?? 'no answer'}.`,
  );
};
