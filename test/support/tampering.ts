import { randomUUID } from 'node:crypto';
import pg from 'pg';
import type { EventStore, Sql } from '#event-store';
import { createPool, openLogSource, postgresEventStore, sqlOver } from '#event-store';
import type { Fault, LogKey, OutsideLine, VerifySummary } from '#proof';
import { rowTagKey, verifyLog } from '#proof';
import type { Json, NewEvent } from '#record';
import type { MasterKeys, Sealing } from '#sealing';
import { masterKeyFrom, masterKeysOf, openRootSecret, postgresSealing, tryDataKey } from '#sealing';
import type { TestDatabase } from './test-postgres.js';

/** A log that a test writes, seals, tampers with and verifies. */
export interface TestLog {
  readonly database: TestDatabase;
  readonly store: EventStore;
  readonly sql: Sql;
  readonly sealing: Sealing;
  readonly masters: MasterKeys;
  readonly rootSecret: Buffer;
  close(): Promise<void>;
}

/** The master key of test logs. */
export const testMaster = masterKeyFrom(Buffer.alloc(32, 7), 'environment');

/** A log over a migrated database, with the keys and the store of the product. */
export const openTestLog = async (database: TestDatabase): Promise<TestLog> => {
  const pool = createPool({ connectionString: database.url, max: 4 });
  const sql = sqlOver(pool);
  const masters = masterKeysOf(testMaster);
  const rootSecret = await openRootSecret(sql, masters);
  const store = postgresEventStore({
    connectionString: database.url,
    tagKey: rowTagKey(rootSecret),
    readConnections: 2,
  });
  const sealing = postgresSealing({ sql, store, masterKeys: masters });
  return {
    database,
    store,
    sql,
    sealing,
    masters,
    rootSecret,
    close: async () => {
      await store.close();
      await pool.end();
    },
  };
};

/** An invocation as it is recorded: what stands in it is sealed, the longer texts in blobs. */
export const appendInvocation = async (log: TestLog, account: string, session: string): Promise<void> => {
  const invocationId = randomUUID();
  const envelope = await log.sealing.envelope(account, { kind: 'session', id: session });
  const value = envelope.seal({ systemPrompt: `${invocationId} ${'a long prompt '.repeat(120)}` });
  const common = { invocationId, sessionId: session, dialect: 'middleware', hook: 'systemPrompt', hop: 0 };
  const event = (type: NewEvent['type'], data: { readonly [key: string]: Json }): NewEvent => ({
    ...common,
    type,
    data,
  });
  await log.store.append({
    account,
    writes: [
      {
        stream: `invocation/${invocationId}`,
        expectedVersion: 0,
        events: [
          event('invocation.opened', {
            chain: [],
            withoutHook: 0,
            context: value as unknown as Json,
            hostSession: 'absent',
          }),
          event('handler.passed', {
            index: 0,
            input: value as unknown as Json,
            note: envelope.seal('short') as unknown as Json,
          }),
          event('invocation.closed', { value: value as unknown as Json, cancellation: null, metered: 1 }),
        ],
      },
      { stream: 'plugin/p', expectedVersion: 'any', events: [{ type: 'plugin.tried', data: { n: 1 } }] },
    ],
    blobs: envelope.blobs(),
  });
};

/** What a verification is given beside the log. */
export interface Witnesses {
  readonly masterKey?: 'given' | 'absent';
  readonly account?: string;
  readonly logKeys?: readonly LogKey[];
  readonly outside?: AsyncIterable<OutsideLine> | null;
}

/** A verification's faults and sum. */
export interface Verified {
  readonly summary: VerifySummary;
  readonly faults: readonly Fault[];
  /** Each fault as `code account position`, for expectations. */
  readonly named: readonly string[];
}

/** Verifies a database as the command does. */
export const verifyDatabase = async (log: TestLog, witnesses: Witnesses = {}): Promise<Verified> => {
  const opened = await openLogSource(log.database.url);
  const faults: Fault[] = [];
  const hasKey = witnesses.masterKey !== 'absent';
  try {
    const summary = await verifyLog(opened.source, {
      account: witnesses.account ?? null,
      rootSecret: hasKey ? log.rootSecret : null,
      openDataKey: hasKey ? (row) => tryDataKey(log.masters, row) : null,
      logKeys: witnesses.logKeys ?? [],
      outside: witnesses.outside ?? null,
      onFault: (fault) => faults.push(fault),
      onProgress: () => undefined,
    });
    return { summary, faults, named: faults.map(nameOf) };
  } finally {
    await opened.close();
  }
};

const nameOf = ({ code, account, position, last }: Fault): string =>
  [code, account ?? '-', `${position ?? '-'}${last === undefined ? '' : `..${last}`}`].join(' ');

/** What somebody with all rights over the database does to it: no trigger and no constraint stops them. */
export const tamper = async (log: TestLog, ...statements: readonly string[]): Promise<void> => {
  const client = new pg.Client({ connectionString: log.database.url });
  await client.connect();
  try {
    await client.query('begin');
    await client.query("set local session_replication_role = 'replica'");
    for (const statement of statements) {
      const { rowCount, command } = await client.query(statement);
      if (command !== 'ALTER' && command !== 'CREATE' && (rowCount ?? 0) === 0)
        throw new Error(`nothing was changed: ${statement}`);
    }
    await client.query('commit');
  } finally {
    await client.end();
  }
};
