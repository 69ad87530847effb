import type { LogKey } from '#proof';
import type { TestDatabase } from './test-postgres.js';
import { createLedgerDatabase } from './test-postgres.js';
import type { Verified, Witnesses } from './tampering.js';
import { appendInvocation, copyDatabase, openTestLog, tamper, verifyAt } from './tampering.js';

/**
 * A sealed log to tamper with. Account `acme`: 288 events, four for each invocation (three of its own stream, one of
 * stream `plugin/p`), sealed at 120, 240 and 280. Account `other`: 12 events, sealed. Account `system`: the log's key.
 */
export interface SealedLog {
  readonly url: string;
  readonly rootSecret: Buffer;
  readonly logId: string;
  /** The key that signed, as somebody has it who noted it down. */
  readonly logKey: LogKey;
  /** What was written outside of the database, oldest first. */
  readonly outside: readonly string[];
  /** The database as it was at the second line. */
  readonly earlier: TestDatabase;
  drop(): Promise<void>;
}

/** Writes and seals the log with the parts of the product. */
export const writeSealedLog = async (): Promise<SealedLog> => {
  const base = await createLedgerDatabase();
  const outside: string[] = [];
  let log = await openTestLog(base.url);
  let earlier: TestDatabase | null = null;
  for (let n = 0; n < 72; n += 1) {
    if ([30, 60, 70].includes(n)) outside.push(await log.seal());
    if (n === 60) {
      await log.close();
      earlier = await copyDatabase(base.url);
      log = await openTestLog(base.url);
    }
    await appendInvocation(log, 'acme', `s-${n % 2}`);
    if (n < 3) await appendInvocation(log, 'other', 's');
  }
  const [key] = log.keys.all();
  const { rootSecret, keys } = log;
  await log.close();
  if (key === undefined || earlier === null) throw new Error('the log was not sealed');
  const copy = earlier;
  return {
    url: base.url,
    rootSecret,
    logId: keys.log,
    logKey: { verifier: key.verifier, validFrom: Date.parse(key.validFrom), validUntil: null },
    outside,
    earlier: copy,
    drop: async () => {
      await copy.drop();
      await base.drop();
    },
  };
};

/** What an act of tampering is given, and what a verification. */
export type Act = readonly string[] | ((url: string) => Promise<void>);

/** Who verifies: with the master key or without; with more witnesses or none. */
export type Verifier = 'with' | 'without' | Partial<Witnesses>;

/** Tampers with a copy of the log and verifies it. */
export const verifyAfter = async (log: SealedLog, by: Verifier, act: Act): Promise<Verified> => {
  const copy = await copyDatabase(log.url);
  try {
    if (typeof act === 'function') await act(copy.url);
    else if (act.length > 0) await tamper(copy.url, ...act);
    const witnesses = typeof by === 'string' ? { rootSecret: by === 'with' ? log.rootSecret : null } : by;
    return await verifyAt(copy.url, { rootSecret: log.rootSecret, ...witnesses });
  } finally {
    await copy.drop();
  }
};
