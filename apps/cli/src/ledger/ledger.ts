import type { EventStore, Sql } from '#event-store';
import { createPool, LogUnavailable, postgresEventStore, sqlOver } from '#event-store';
import type { ServerConfig } from '#platform';
import { programUrl, readConfig, StartFailure } from '#platform';
import type { RowTagKey } from '#proof';
import { rowTagKey } from '#proof';
import type { MasterKeys } from '#sealing';
import { loadMasterKeys, MasterKeyProblem, readRootSecret } from '#sealing';
import { dataFolderOf } from '../data-folder.js';
import { examineCluster } from '../doctor/embedded.js';
import { findMasterKey } from '../keys/key-files.js';
import { Failure } from '../words.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** The log and its database as a server of the same environment has them, without a server. */
export interface Ledger {
  readonly config: ServerConfig;
  readonly url: string;
  readonly sql: Sql;
  readonly store: EventStore;
  close(): Promise<void>;
}

/**
 * Reaches the database that a server of this environment uses: `DATABASE_URL`, else the embedded one of the data
 * folder, which must be running. Throws `Failure` with words for whoever asked; whoever means to append needs the master
 * key, for rows without a tag stop the sealer.
 */
export const openLedger = async (
  dataOption: string | undefined,
  env: Environment,
  name: string,
  intent: 'append' | 'read' = 'read',
): Promise<Ledger> => {
  const config = configOf(dataOption, env);
  const url = config.databaseUrl ?? embeddedUrl(config.dataDir);
  const pool = createPool({
    connectionString: url,
    max: 4,
    connectTimeoutMs: 5_000,
    statementTimeoutMs: 0,
    applicationName: `hookledger ${name}`,
  });
  const sql = sqlOver(pool);
  let tagKey: RowTagKey | null;
  try {
    await checkTables(sql);
    tagKey = await tagKeyOf(sql, config, intent);
  } catch (error) {
    await pool.end();
    if (error instanceof MasterKeyProblem) throw new Failure(`${error.message}.`);
    throw error instanceof LogUnavailable ? new Failure(`The database cannot be used: ${error.message}.`) : error;
  }
  const tagging = tagKey === null ? {} : { tagKey };
  const store = postgresEventStore({ connectionString: url, log: () => undefined, ...tagging });
  return {
    config,
    url,
    sql,
    store,
    close: async () => {
      await store.close();
      await pool.end();
    },
  };
};

/** The master keys that a server of this environment has; never makes one. Throws `Failure`. */
export const givenMasterKeys = ({ masterKey, masterKeyNext, dataDir }: ServerConfig): MasterKeys => {
  try {
    if (findMasterKey(dataDir, masterKey ?? undefined) === null) {
      throw new Failure(`There is no master key in ${dataDir}, and HOOKLEDGER_MASTER_KEY is not set.`);
    }
    return loadMasterKeys({
      environment: masterKey ?? undefined,
      nextEnvironment: masterKeyNext ?? undefined,
      dataDir,
    });
  } catch (error) {
    throw error instanceof MasterKeyProblem ? new Failure(`${error.message}.`) : error;
  }
};

/** What the rows of this log are tagged with; null for who only reads and has no master key. */
const tagKeyOf = async (sql: Sql, config: ServerConfig, intent: 'append' | 'read'): Promise<RowTagKey | null> => {
  try {
    const root = await readRootSecret(sql, givenMasterKeys(config));
    if (root !== null) return rowTagKey(root);
  } catch (error) {
    const isAbsent = error instanceof Failure || error instanceof MasterKeyProblem;
    if (intent === 'append' || !isAbsent) throw error;
    return null;
  }
  if (intent === 'read') return null;
  throw new Failure('No server has started on this database yet: start one, and ask again.');
};

/** The configuration of a server of this environment. Throws `Failure` for one that it would refuse. */
export const configOf = (dataOption: string | undefined, env: Environment): ServerConfig => {
  try {
    const dataDir = dataFolderOf(dataOption, env, process.cwd());
    return readConfig({ ...env, HOOKLEDGER_DATA: dataDir }, process.cwd());
  } catch (error) {
    throw error instanceof StartFailure ? new Failure(error.message) : error;
  }
};

const embeddedUrl = (dataDir: string): string => {
  const { url, finding } = examineCluster(dataDir, null);
  if (url !== null) return programUrl(url);
  if (finding.state === 'problem') throw new Failure(finding.words);
  throw new Failure(
    `The embedded database of ${dataDir} does not run. Start the server (npm start) and ask again, or set DATABASE_URL.`,
  );
};

const checkTables = async (sql: Sql): Promise<void> => {
  const [row] = await sql.query<{ found: string | null }>("select to_regclass('master_in_force')::text as found");
  if ((row?.found ?? null) === null) {
    throw new Failure("The database does not have this program's tables: start the server once, which makes them.");
  }
};
