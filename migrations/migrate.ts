import pg from 'pg';
import type { MigrationInterface } from 'typeorm';
import { DataSource } from 'typeorm';

/** Options of `migrate`. */
export interface MigrateOptions {
  /** The role that the server runs as, where it is not the one that migrates. It gets what it needs and no more. */
  readonly appRole?: string;
}

/** See `migrate`. */
export const migrateWith = async (
  migrations: Migrations,
  connectionString: string,
  options: MigrateOptions,
): Promise<void> => {
  const client = new pg.Client({ connectionString });
  // A broken connection shows in the next query; without a listener it would end the process.
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query("select pg_advisory_lock(hashtextextended('hookledger migrations', 0))");
    await runMigrations(migrations, connectionString);
    await client.query('select ensure_event_partitions()');
    if (options.appRole !== undefined) await grantTo(client, options.appRole);
  } finally {
    await client.end();
  }
};

type Migrations = readonly (new () => MigrationInterface)[];

const runMigrations = async (migrations: Migrations, url: string): Promise<void> => {
  const source = new DataSource({
    type: 'postgres',
    url,
    migrations: [...migrations],
    migrationsTableName: 'migration',
    poolSize: 1,
  });
  await source.initialize();
  try {
    await source.runMigrations({ transaction: 'each' });
  } finally {
    await source.destroy();
  }
};

/** Reading and adding, everywhere; changing and removing, everywhere but in the log. Read models make own tables. */
const grantTo = async (client: pg.Client, role: string): Promise<void> => {
  const name = client.escapeIdentifier(role);
  const { rows } = await client.query<{ schema: string; tables: string[] }>(
    `select current_schema() as schema, array_agg(c.oid::regclass::text) as tables from pg_class c
      where c.oid = 'event'::regclass or c.oid in (select inhrelid from pg_inherits where inhparent = 'event'::regclass)`,
  );
  const schema = client.escapeIdentifier(rows[0]?.schema ?? 'public');
  const log = (rows[0]?.tables ?? ['event']).join(', ');
  await client.query(`
    grant usage, create on schema ${schema} to ${name};
    grant select, insert, update, delete on all tables in schema ${schema} to ${name};
    revoke insert, update, delete, truncate on ${log} from ${name};
    revoke insert, update, delete, truncate on head, account_head, stream, purged_range from ${name};
    revoke update, delete, truncate on checkpoint from ${name};
    revoke delete, truncate on tile, tree, log_key, log_format from ${name}`);
};
