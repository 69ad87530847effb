import pg from 'pg';
import { LogUnavailable } from '../event-store.js';
import type { Row, Sql } from '../sql.js';
import { codeOf, isDatabaseAway } from './faults.js';

/** Says what happened; never content. */
export type Log = (
  level: 'info' | 'warn' | 'error',
  message: string,
  facts?: Readonly<Record<string, unknown>>,
) => void;

/** Options of `createPool`. */
export interface PoolOptions {
  readonly connectionString: string;
  /** Most connections. Default 10. */
  readonly max?: number;
  /** The server ends a statement after this, ms. Default 30,000; 0 = never. */
  readonly statementTimeoutMs?: number;
  /** The server ends a wait for a lock after this, ms. Default 10,000. */
  readonly lockTimeoutMs?: number;
  /** The driver gives a statement up after this, ms, answer or not. Default: never. */
  readonly queryTimeoutMs?: number;
  /** How long to wait for a connection, ms. Default 2,000. */
  readonly connectTimeoutMs?: number;
  /** Shown in `pg_stat_activity`. */
  readonly applicationName?: string;
  readonly log?: Log;
}

/**
 * A pool that outlives its connections: a session that the server ends, idle or at work, is a failed query and never
 * an uncaught error.
 */
export const createPool = (options: PoolOptions): pg.Pool => {
  const pool = new pg.Pool({
    connectionString: options.connectionString,
    max: options.max ?? 10,
    connectionTimeoutMillis: options.connectTimeoutMs ?? 2_000,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    application_name: options.applicationName ?? 'hookledger',
    statement_timeout: options.statementTimeoutMs ?? 30_000,
    ...(options.queryTimeoutMs === undefined ? {} : { query_timeout: options.queryTimeoutMs }),
    lock_timeout: options.lockTimeoutMs ?? 10_000,
    // A transaction that stands still keeps locks which everybody needs.
    idle_in_transaction_session_timeout: 30_000,
  });
  const lost = (error: Error): void => {
    options.log?.('warn', 'a database connection was lost', { code: codeOf(error) });
  };
  pool.on('error', lost);
  // The pool's own listener leaves a client while it is checked out.
  pool.on('connect', (client) => {
    client.on('error', lost);
  });
  return pool;
};

/**
 * The handle that read models and keys get. Rejects with `LogUnavailable` when the database is away, does not answer in
 * time, or cannot write; other errors are the driver's own.
 */
export const sqlOver = (pool: pg.Pool): Sql => ({
  query: <R extends object>(text: string, values?: readonly unknown[]) => rowsOf<R>(pool, text, values).catch(named),
  transaction: (work) => inTransaction(pool, work).catch(named),
});

const named = (error: unknown): never => {
  if (isDatabaseAway(error)) throw new LogUnavailable(`the database is away (${codeOf(error) ?? 'unknown'})`);
  throw error;
};

const rowsOf = async <R extends object>(
  at: pg.Pool | pg.PoolClient,
  text: string,
  values: readonly unknown[] | undefined,
): Promise<readonly R[]> => (await at.query<R & Row>(text, values === undefined ? [] : [...values])).rows;

const inTransaction = async <T>(pool: pg.Pool, work: (sql: Sql) => Promise<T>): Promise<T> => {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const result = await work(sqlInside(client));
    await client.query('commit');
    client.release();
    return result;
  } catch (error) {
    // A connection whose transaction could not be ended is of no use to the next one.
    const ended = await client.query('rollback').then(
      () => true,
      () => false,
    );
    client.release(!ended);
    throw error;
  }
};

const sqlInside = (client: pg.PoolClient): Sql => ({
  query: (text, values) => rowsOf(client, text, values),
  transaction: async (work) => {
    const name = `inner_${String((savepoints += 1))}`;
    await client.query(`savepoint ${name}`);
    try {
      const result = await work(sqlInside(client));
      await client.query(`release savepoint ${name}`);
      return result;
    } catch (error) {
      await client.query(`rollback to savepoint ${name}`);
      throw error;
    }
  },
});

let savepoints = 0;
