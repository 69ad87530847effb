import { generateKeyPairSync, randomUUID } from 'node:crypto';
import pg from 'pg';
import { LogKeys } from '../../apps/server/src/control/proofs/log-keys.js';
import { SealerRounds } from '../../apps/server/src/worker/sealer-round.js';
import type { EventStore, Sql } from '#event-store';
import { createPool, openLogSource, postgresEventStore, sqlOver } from '#event-store';
import type { Fault, LogKey, NoteSigner, OutsideLine, VerifySummary } from '#proof';
import { logKeyName, noteSigner, rowTagKey, verifyLog } from '#proof';
import type { Json, NewEvent } from '#record';
import type { KeyErasure, Sealing } from '#sealing';
import { masterKeyFrom, masterKeysOf, openRootSecret, postgresSealing, tryDataKey } from '#sealing';
import type { TestDatabase } from './test-postgres.js';
import { sharedCluster } from './test-postgres.js';

const masters = masterKeysOf(masterKeyFrom(Buffer.alloc(32, 7), 'environment'));

/** A log that a test writes and seals with the parts of the product. */
export interface TestLog {
  readonly url: string;
  readonly store: EventStore;
  readonly sql: Sql;
  readonly sealing: Sealing & KeyErasure;
  readonly keys: LogKeys;
  readonly rootSecret: Buffer;
  /** Seals everything; answers with the line that goes outside of the database. */
  seal(): Promise<string>;
  close(): Promise<void>;
}

/** Opens a log over a migrated database. */
export const openTestLog = async (url: string, now = () => new Date()): Promise<TestLog> => {
  const pool = createPool({ connectionString: url, max: 4 });
  const sql = sqlOver(pool);
  const rootSecret = await openRootSecret(sql, masters);
  const tagKey = rowTagKey(rootSecret);
  const store = postgresEventStore({ connectionString: url, tagKey, readConnections: 2, now });
  const keys = new LogKeys({ store, sql, rootSecret });
  await keys.start();
  const rounds = new SealerRounds({ sql, keys, tagKey, batch: 10_000, sealMs: 0, now: () => new Date() });
  return {
    url,
    store,
    sql,
    sealing: postgresSealing({ sql, store, masterKeys: masters }),
    keys,
    rootSecret,
    seal: async () => {
      for (;;) {
        const round = await rounds.run({ outside: new Map(), retry: false, line: 'owed' });
        if (round.kind === 'sealed' && round.position === round.head) return round.line ?? '';
      }
    },
    close: async () => {
      await store.close();
      await pool.end();
    },
  };
};

/** Four events as a firing leaves them: three of an invocation, what they hold sealed in blobs, one of a shared stream. */
export const appendInvocation = async (log: TestLog, account: string, session: string): Promise<void> => {
  const invocationId = randomUUID();
  const envelope = await log.sealing.envelope(account, { kind: 'session', id: session });
  const seal = (value: Json): Json => envelope.seal(value);
  const value = seal({ systemPrompt: `${invocationId} ${'a long prompt '.repeat(120)}` });
  const common = { invocationId, sessionId: session, dialect: 'middleware', hook: 'systemPrompt', hop: 0 };
  const event = (type: NewEvent['type'], data: { readonly [key: string]: Json }): NewEvent => ({
    ...common,
    type,
    data,
  });
  const events = [
    event('invocation.opened', { chain: [], withoutHook: 0, context: value, hostSession: 'absent' }),
    event('handler.passed', { index: 0, input: value, output: seal('short'), changed: [], budgetMs: 5 }),
    event('invocation.closed', { value, cancellation: null, metered: 1 }),
  ];
  const result = await log.store.append({
    account,
    writes: [
      { stream: `invocation/${invocationId}`, expectedVersion: 0, events },
      { stream: 'plugin/p', expectedVersion: 'any', events: [{ type: 'plugin.tried', data: { n: 1 } }] },
    ],
    blobs: envelope.blobs(),
  });
  if (result.kind !== 'appended') throw new Error(`not appended: ${result.kind}`);
};

/** Lines of a checkpoint file. */
export async function* linesOf(...texts: readonly string[]): AsyncIterable<OutsideLine> {
  for (const text of texts) yield await Promise.resolve({ text, ends: true });
}

/** What a verification is given beside the log. */
export interface Witnesses {
  /** Null: without the master key. */
  readonly rootSecret: Buffer | null;
  readonly account?: string;
  readonly logKeys?: readonly LogKey[];
  readonly outside?: readonly string[];
}

/** A verification's faults and sum. */
export interface Verified {
  readonly summary: VerifySummary;
  readonly faults: readonly Fault[];
  /** Each fault as `code account position`, or `code account first..last`, sorted. */
  readonly named: readonly string[];
}

/** Verifies a database as the command does. */
export const verifyAt = async (url: string, witnesses: Witnesses): Promise<Verified> => {
  const opened = await openLogSource(url);
  const faults: Fault[] = [];
  try {
    const summary = await verifyLog(opened.source, {
      account: witnesses.account ?? null,
      rootSecret: witnesses.rootSecret,
      openDataKey: witnesses.rootSecret === null ? null : (row) => tryDataKey(masters, row),
      logKeys: witnesses.logKeys ?? [],
      outside: witnesses.outside === undefined ? null : linesOf(...witnesses.outside),
      onFault: (fault) => faults.push(fault),
      onProgress: () => undefined,
    });
    return { summary, faults, named: faults.map(nameOf).sort() };
  } finally {
    await opened.close();
  }
};

const nameOf = ({ code, account, position, last }: Fault): string =>
  [code, account ?? '-', `${position ?? '-'}${last === undefined ? '' : `..${last}`}`].join(' ');

/** A copy of a database that nobody is connected to. */
export const copyDatabase = async (url: string): Promise<TestDatabase> => {
  const cluster = await sharedCluster();
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  const from = new URL(url).pathname.slice(1);
  await asSuperuser(cluster.url(), [`create database ${name} template ${from} strategy file_copy`]);
  return {
    url: cluster.url(name),
    drop: () => asSuperuser(cluster.url(), [`drop database ${name} with (force)`]),
  };
};

/**
 * What somebody with all rights over a database does to it: no trigger stops them, and constraints that would are gone.
 * Fails where a statement changes nothing.
 */
export const tamper = (url: string, ...statements: readonly string[]): Promise<void> =>
  asSuperuser(url, [
    'begin',
    "set local session_replication_role = 'replica'",
    'alter table data_key drop constraint if exists data_key_check',
    'alter table tree drop constraint if exists tree_check',
    ...statements,
    'commit',
  ]);

const asSuperuser = async (url: string, statements: readonly string[]): Promise<void> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    for (const statement of statements) {
      const { rowCount, command } = await client.query(statement);
      if (['UPDATE', 'DELETE', 'INSERT'].includes(command) && rowCount === 0) {
        throw new Error(`nothing was changed by ${statement}`);
      }
    }
  } finally {
    await client.end();
  }
};

/** A key of somebody else that goes by the log's name. */
export const strangersKey = (logId: string): NoteSigner =>
  noteSigner(logKeyName(logId), generateKeyPairSync('ed25519').privateKey);
