import type { Sql } from '#event-store';
import { openLogSource } from '#event-store';
import type { Fault, VerifyProgress, VerifySummary } from '#proof';
import { verifyLog } from '#proof';
import type { MasterKeys } from '#sealing';
import { MasterKeyProblem, readRootSecret, tryDataKey } from '#sealing';
import { Failure } from '../words.js';
import type { OutsideWitnesses } from './witnesses.js';

/** A database to verify, and what with. */
export interface DatabaseQuestion {
  readonly url: string;
  readonly sql: Sql;
  /** Null without a master key. */
  readonly masters: MasterKeys | null;
  readonly witnesses: OutsideWitnesses;
  readonly account: string | null;
  readonly onFault: (fault: Fault) => void;
  readonly onProgress: (progress: VerifyProgress) => void;
}

/** Verifies the log of a database in one snapshot. Throws `Failure` where it cannot be. */
export const verifyDatabase = async (question: DatabaseQuestion): Promise<VerifySummary> => {
  const { masters, witnesses } = question;
  const rootSecret = masters === null ? null : await rootSecretOf(question.sql, masters);
  const opened = await openLogSource(question.url);
  try {
    const summary = await verifyLog(opened.source, {
      account: question.account,
      rootSecret,
      openDataKey: masters === null ? null : (row) => tryDataKey(masters, row),
      logKeys: witnesses.logKeys,
      outside: witnesses.lines,
      onFault: question.onFault,
      onProgress: question.onProgress,
    });
    // Nothing wrong with nothing at all is no answer to somebody who named it.
    if (summary.ok && question.account !== null && summary.accounts.length === 0) {
      throw new Failure(`There is no account "${question.account}" in this log.`);
    }
    return summary;
  } finally {
    await opened.close();
  }
};

const rootSecretOf = async (sql: Sql, masters: MasterKeys): Promise<Buffer | null> => {
  try {
    return await readRootSecret(sql, masters);
  } catch (error) {
    if (!(error instanceof MasterKeyProblem)) throw error;
    throw new Failure(
      `The key that rows are tagged under does not open (${error.message}). Give the master key of this log in ` +
        'HOOKLEDGER_MASTER_KEY; or, where it is the right one, the row of that key was changed: verify with --without-key.',
    );
  }
};
