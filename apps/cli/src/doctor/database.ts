import { createPool, LogUnavailable, sqlOver } from '#event-store';
import type { Sql } from '#event-store';
import { migrations } from '#migrations';
import type { Finding } from './finding.js';
import { codeOf, fine, problem, warning } from './finding.js';

/** What a database told. */
export interface FoundDatabase {
  readonly findings: readonly Finding[];
  /** Ids of the master keys that living data keys are wrapped by; null where that cannot be known. */
  readonly masters: readonly string[] | null;
}

/** A database to ask. */
export interface DatabaseQuestion {
  readonly url: string;
  /** The name of the setting that holds the URL, or what else it is. */
  readonly from: string;
  /** Whether the server makes its tables over this connection. */
  readonly migrates: boolean;
}

const oldestServer = 150_000;

/** Asks a database for its version, its tables and its keys; changes nothing. */
export const examineDatabase = async (question: DatabaseQuestion): Promise<FoundDatabase> => {
  const pool = createPool({
    connectionString: question.url,
    max: 1,
    connectTimeoutMs: 5_000,
    statementTimeoutMs: 10_000,
    queryTimeoutMs: 11_000,
    applicationName: 'hookledger doctor',
  });
  try {
    return await ask(sqlOver(pool), question);
  } catch (error) {
    const words = error instanceof LogUnavailable ? error.message : codeOf(error);
    return {
      findings: [problem('database', `The database (${question.from}) cannot be used: ${words}.`)],
      masters: null,
    };
  } finally {
    await pool.end();
  }
};

const ask = async (sql: Sql, question: DatabaseQuestion): Promise<FoundDatabase> => {
  const [row] = await sql.query<{ version: string }>("select current_setting('server_version_num') as version");
  const version = Number(row?.version);
  const major = Math.floor(version / 10_000);
  if (version < oldestServer) {
    const words = `The database (${question.from}) is Postgres ${major}; Hookledger needs 15 or newer.`;
    return { findings: [problem('database', words)], masters: null };
  }
  const reached = fine('database', `The database (${question.from}) is reached, and is Postgres ${major}.`);
  const done = await migrationsIn(sql);
  const findings = [reached, examineMigrations(done), ...(await examineRights(sql, question, done))];
  return { findings, masters: await mastersIn(sql) };
};

const tableIsThere = async (sql: Sql, name: string): Promise<boolean> => {
  const [row] = await sql.query<{ found: string | null }>('select to_regclass($1)::text as found', [name]);
  return (row?.found ?? null) !== null;
};

const migrationsIn = async (sql: Sql): Promise<readonly string[]> => {
  if (!(await tableIsThere(sql, 'migration'))) return [];
  return (await sql.query<{ name: string }>('select name from migration')).map(({ name }) => name);
};

/** What was done to a database, held against what this program would do. */
export const examineMigrations = (done: readonly string[]): Finding => {
  const known = migrations.map((migration) => new migration().name ?? migration.name);
  const unknown = done.filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    return problem(
      'migrations',
      `The database was made by a newer Hookledger (${unknown.join(', ')}): update this one.`,
    );
  }
  const open = known.filter((name) => !done.includes(name));
  if (open.length === 0) return fine('migrations', 'Its tables are up to date.');
  if (done.length === 0) return fine('migrations', 'It has no tables yet; the first start makes them.');
  return warning('migrations', `Its tables are those of an older Hookledger; the next start runs ${open.join(', ')}.`);
};

const examineRights = async (
  sql: Sql,
  { from, migrates }: DatabaseQuestion,
  done: readonly string[],
): Promise<readonly Finding[]> => {
  if (!migrates || done.length === migrations.length) return [];
  const [row] = await sql.query<{ may: boolean | null }>(
    "select has_schema_privilege(current_schema(), 'create') as may",
  );
  if (row?.may === true) return [];
  return [
    problem(
      'migrations',
      `The user of the database (${from}) may not create tables. Grant it, or name one who may in HOOKLEDGER_MIGRATION_URL.`,
    ),
  ];
};

const mastersIn = async (sql: Sql): Promise<readonly string[]> => {
  if (!(await tableIsThere(sql, 'data_key'))) return [];
  const rows = await sql.query<{ master: string }>('select distinct master from data_key where wrapped is not null');
  return rows.map(({ master }) => master);
};
