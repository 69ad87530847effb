import { createPool, postgresEventStore, sqlOver } from '#event-store';
import { createLogger, createMetrics, readConfig, Readiness } from '#platform';
import { masterKeyFrom, masterKeysOf, postgresSealing } from '#sealing';
import { ReadModelFollowers } from '../../apps/server/src/worker/read-model-followers.js';

/**
 * A worker that takes the read models from where the settings say, in a process that may be killed. Arguments: the
 * database, and the settings as JSON. Prints `ready`, and then again and again what is wrong, if anything is.
 */
const [url = '', settings = '{}'] = process.argv.slice(2);
const config = readConfig(JSON.parse(settings) as Record<string, string>, '/');
const log = (level: string, message: string, facts: object = {}): void => {
  process.stderr.write(`${level} ${message} ${JSON.stringify(facts)}\n`);
};
const pool = createPool({ connectionString: url, max: 8 });
const sql = sqlOver(pool);
const store = postgresEventStore({ connectionString: url, log });
const readiness = new Readiness();
const followers = new ReadModelFollowers(
  store,
  sql,
  postgresSealing({ sql, store, masterKeys: masterKeysOf(masterKeyFrom(Buffer.alloc(32, 7), 'environment')) }),
  config,
  createLogger('error'),
  readiness,
  createMetrics(),
);
await followers.onModuleInit();
process.stdout.write('ready\n');
setInterval(() => {
  void readiness.report().then(({ details }) => {
    const { why } = (details.projectionLag ?? {}) as { why?: string };
    if (why !== undefined) process.stdout.write(`${why}\n`);
  });
}, 500).unref();
process.on('SIGTERM', () => {
  void (async () => {
    await followers.beforeApplicationShutdown();
    await store.close();
    await pool.end();
    process.exit(0);
  })();
});
