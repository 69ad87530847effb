import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import type { RowTagKey } from '#proof';
import type { ClaimTry } from '../claiming.js';
import { claimEndings, claimPatiently } from '../claiming.js';
import { draftStreams } from '../drafts.js';
import type { ClaimRequest, CommandResult, EventStore, StoredEvent } from '../event-store.js';
import { LogUnavailable } from '../event-store.js';
import { listeners } from '../listeners.js';
import type { BatchItem } from './append-batch.js';
import { faultOf } from './faults.js';
import { groupCommit } from './group-commit.js';
import type { Log } from './pool.js';
import { codeOf } from './faults.js';
import { createPool } from './pool.js';
import { readAccount, readAccountSize, readAll, readBlob, readHead, readStream, readStreamVersion } from './reads.js';

/** Options of the Postgres store. */
export interface PostgresStoreOptions {
  /** A migrated database. */
  readonly connectionString: string;
  readonly log?: Log;
  /** Gives `recordedAt`. */
  readonly now?: () => Date;
  /** Connections for reads and claims. Default 8. Appends have their own. */
  readonly readConnections?: number;
  /** Batches on their way at once. Default 2. */
  readonly writers?: number;
  /** Appends that may wait, beyond it `LogBusy`. Default 10,000. */
  readonly maxQueued?: number;
  /** How long an append may take while the database is away, ms. Default 5,000. */
  readonly patienceMs?: number;
  /** How long `claim` waits for another holder, ms. Default 30,000. */
  readonly claimWaitMs?: number;
  /** Tags rows, so that the sealer knows them from forged ones. Without it rows have no tags and are never sealed. */
  readonly tagKey?: RowTagKey;
}

interface ClaimRow {
  readonly kind: 'claimed' | 'done' | 'mismatch' | 'held';
  readonly attempt: number;
  readonly previous: string | null;
  readonly result: string | null;
  readonly first: string | null;
  readonly last: string | null;
}

/**
 * The log in Postgres. Connects when it is first used, outlives restarts of the database, and shares it safely with
 * any number of other stores.
 */
export const postgresEventStore = (options: PostgresStoreOptions): EventStore => {
  const log: Log = options.log ?? (() => undefined);
  const now = options.now ?? (() => new Date());
  const patienceMs = options.patienceMs ?? 5_000;
  const writers = options.writers ?? 2;
  const shared = { connectionString: options.connectionString, log };
  const writePool = createPool({
    ...shared,
    max: writers,
    applicationName: 'hookledger append',
    connectTimeoutMs: patienceMs / 5,
    statementTimeoutMs: patienceMs,
    lockTimeoutMs: 2_000,
    queryTimeoutMs: patienceMs,
  });
  const readPool = createPool({ ...shared, max: options.readConnections ?? 8, applicationName: 'hookledger read' });
  const appended = listeners();
  const endings = claimEndings();

  const committed = (items: readonly BatchItem[], events: readonly StoredEvent[]): void => {
    for (const { account, commands } of items) for (const { key } of commands) endings.ended(account, key);
    appended.tell(events);
  };

  const commits = groupCommit({
    pool: writePool,
    log,
    writers,
    maxQueued: options.maxQueued ?? 10_000,
    patienceMs,
    tagKey: options.tagKey ?? null,
    committed,
  });

  const reading = async <T>(work: (pool: pg.Pool) => Promise<T>): Promise<T> => {
    try {
      return await work(readPool);
    } catch (error) {
      throw asLogError(error);
    }
  };

  const tryClaim = (request: ClaimRequest, token: string): Promise<ClaimTry> =>
    reading(async (pool) => {
      const { account, key, requestDigest, invocationId, leaseMs } = request;
      const text = 'select * from claim_command($1, $2, $3, $4, $5, $6)';
      const values = [account, key, requestDigest, token, invocationId, leaseMs];
      const { rows } = await pool.query<ClaimRow>({ name: 'claim_command', text, values });
      return claimOf(rows[0], token);
    });

  return {
    append: async (append) => commits.append(append, draftStreams(append, now())),
    readStream: (account, stream, from = 1) => reading((pool) => readStream(pool, account, stream, from)),
    streamVersion: (account, stream) => reading((pool) => readStreamVersion(pool, account, stream)),
    readAccount: (account, range) => reading((pool) => readAccount(pool, account, range)),
    readAll: (after, limit, types) => reading((pool) => readAll(pool, after, limit, types)),
    head: () => reading(readHead),
    accountSize: (account) => reading((pool) => readAccountSize(pool, account)),
    blob: (hash) => reading((pool) => readBlob(pool, hash)),
    claim: (request) => {
      const token = randomUUID();
      return claimPatiently(
        () => tryClaim(request, token),
        (ms) => endings.waitFor(request.account, request.key, ms),
        request.waitMs ?? options.claimWaitMs ?? 30_000,
      );
    },
    renewClaim: (account, key, token, leaseMs) =>
      reading(async (pool) => {
        const { rowCount } = await pool.query({
          name: 'renew_claim',
          text: renew,
          values: [account, key, token, leaseMs],
        });
        return rowCount === 1;
      }),
    releaseClaim: (account, key, token) =>
      reading(async (pool) => {
        await pool.query({ name: 'release_claim', text: release, values: [account, key, token] });
        endings.ended(account, key);
      }),
    onAppended: (listener) => appended.add(listener),
    close: async () => {
      await commits.close();
      await Promise.all([writePool.end(), readPool.end()]);
    },
  };
};

const renew = `update command set lease_until = clock_timestamp() + $4::integer * interval '1 millisecond'
  where account = $1 and idempotency_key = $2 and token = $3 and result is null`;

const release = `delete from command
  where account = $1 and idempotency_key = $2 and token = $3 and result is null`;

const claimOf = (row: ClaimRow | undefined, token: string): ClaimTry => {
  if (row?.kind === 'claimed') {
    return { kind: 'claimed', token, attempt: row.attempt, previousInvocationId: row.previous };
  }
  if (row?.kind === 'done') {
    const result = JSON.parse(row.result ?? '') as CommandResult;
    return { kind: 'done', result, first: BigInt(row.first ?? 0), last: BigInt(row.last ?? -1) };
  }
  return row?.kind === 'mismatch' ? { kind: 'mismatch' } : { kind: 'held' };
};

/** A database that is away is the log's own kind of error; anything else is a fault of this program. */
const asLogError = (error: unknown): unknown => {
  const fault = faultOf(error);
  if (fault !== 'away' && fault !== 'again') return error;
  return new LogUnavailable(`the log cannot be read (${codeOf(error) ?? 'unknown'})`);
};
