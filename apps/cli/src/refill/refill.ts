import { LogUnavailable, createPool, sqlOver } from '#event-store';
import { KafkaFailure, openKafka, topicNames } from '#kafka';
import { migrate } from '#migrations';
import type { ServerConfig } from '#platform';
import { programRole } from '#platform';
import { MasterKeyProblem } from '#sealing';
import { examineCluster } from '../doctor/embedded.js';
import { configOf, givenMasterKeys } from '../ledger/ledger.js';
import { readOptions } from '../options.js';
import { showProgress } from '../progress.js';
import { Failure, Misuse, plain } from '../words.js';
import { refillLog, type Refilled } from './refill-log.js';
import { RefillRefused } from './refilling.js';

const options = {
  'from-kafka': { type: 'boolean' },
  data: { type: 'string' },
  json: { type: 'boolean' },
} as const;

/**
 * `hookledger refill --from-kafka`: fills an empty database from the topics and the master key alone (events.md §6).
 * All or nothing: whatever stops it leaves the database as empty as it was.
 */
export const refill = async (args: readonly string[]): Promise<number> => {
  const { values } = readOptions(args, options);
  if (values['from-kafka'] !== true) throw new Misuse('say from where: --from-kafka');
  const config = configOf(values.data, process.env);
  const { kafka } = config;
  if (kafka === null) throw new Failure('Kafka is not configured: set HOOKLEDGER_KAFKA_BROKERS, as for the server.');
  const masters = givenMasterKeys(config);
  const database = ownerOf(config);
  await migrate(database.url, database.appRole === null ? {} : { appRole: database.appRole });
  const pool = createPool({
    connectionString: database.url,
    max: 2,
    statementTimeoutMs: 0,
    applicationName: 'hookledger refill',
  });
  const progress = showProgress({ unit: 'messages', show: values.json === true ? 'none' : 'auto' });
  try {
    const refilled = await refillLog({
      sql: sqlOver(pool),
      kafka: openKafka(kafka),
      names: topicNames(kafka.topicPrefix, kafka.accountTopics),
      masters,
      progress,
    });
    progress.stop();
    print(refilled, values.json === true);
    return 0;
  } catch (error) {
    throw inWords(error);
  } finally {
    progress.stop();
    await pool.end();
  }
};

const inWords = (error: unknown): unknown => {
  if (error instanceof RefillRefused) return new Failure(error.message);
  if (error instanceof KafkaFailure) return new Failure(`Kafka: ${error.message}.`);
  if (error instanceof MasterKeyProblem) return new Failure(`${error.message}.`);
  return error instanceof LogUnavailable ? new Failure(`The database cannot be used: ${error.message}.`) : error;
};

/** Whoever may write to the tables of the log, and the role of the program where that is another one. */
const ownerOf = (config: ServerConfig): { readonly url: string; readonly appRole: string | null } => {
  const { databaseUrl, migrationUrl, dataDir } = config;
  if (databaseUrl !== null) {
    const appRole = migrationUrl === null ? null : decodeURIComponent(new URL(databaseUrl).username);
    return { url: migrationUrl ?? databaseUrl, appRole };
  }
  const { url } = examineCluster(dataDir, null);
  if (url !== null) return { url, appRole: programRole };
  throw new Failure(
    'Set DATABASE_URL to the empty database that is to be filled (and HOOKLEDGER_MIGRATION_URL where its owner is another user).',
  );
};

const print = (refilled: Refilled, asJson: boolean): void => {
  if (asJson) {
    console.log(JSON.stringify(refilled));
    return;
  }
  const count = (number: number, what: string): string => `${number.toLocaleString('en-US')} ${what}`;
  console.log(
    `${count(refilled.events, 'events')} of ${count(refilled.accounts, 'accounts')}, ${count(refilled.keys, 'data keys')}, ` +
      `${count(refilled.blobs, 'blobs')}, ${count(refilled.checkpoints, 'checkpoints')}.`,
  );
  if (refilled.purged > 0) console.log(`${count(refilled.purged, 'events')} were purged, and stay so.`);
  for (const warning of refilled.warnings) console.log(`Note: ${plain(warning)}`);
  console.log('Now run hookledger verify, and start the server.');
};
