import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { LogUnavailable, NoLog } from '#event-store';
import type { VerifyProgress, VerifySummary } from '#proof';
import type { MasterKeys } from '#sealing';
import { givenMasterKeys, openLedger } from '../ledger/ledger.js';
import { readOptions } from '../options.js';
import type { Progress } from '../progress.js';
import { showProgress } from '../progress.js';
import { Failure } from '../words.js';
import { reportFaults, summaryJson, summaryLines } from './report.js';
import { verifyDatabase } from './verify-database.js';
import type { OutsideWitnesses } from './witnesses.js';
import { findWitnesses } from './witnesses.js';

const options = {
  account: { type: 'string' },
  checkpoints: { type: 'string' },
  'log-key': { type: 'string', multiple: true },
  'without-key': { type: 'boolean' },
  data: { type: 'string' },
  json: { type: 'boolean' },
} as const;

/**
 * `hookledger verify`: checks the log of a database, of `DATABASE_URL` or of a data folder, and reads only. Exit code
 * 0: nothing is wrong; 1: there are faults, each on a line; 2: it could not be verified.
 */
export const verify = async (args: readonly string[]): Promise<number> => {
  const { values } = readOptions(args, options);
  try {
    return await run(values);
  } catch (error) {
    if (error instanceof NoLog || error instanceof LogUnavailable) return unverified(`${error.message}.`);
    if (error instanceof Failure) return unverified(error.message);
    throw error;
  }
};

const unverified = (words: string): number => {
  console.error(`hookledger verify: ${words}`);
  return 2;
};

type Values = ReturnType<typeof readOptions<typeof options>>['values'];

const run = async (values: Values): Promise<number> => {
  const form = values.json === true ? 'json' : 'words';
  const ledger = await openLedger(values.data, process.env, 'verify');
  try {
    const masters = values['without-key'] === true ? null : mastersOf(ledger.config);
    const witnesses = witnessesOf(values, ledger.config.checkpointDir);
    const faults = reportFaults((line) => console.log(line), form);
    const progress = progressOf(values.json === true);
    const summary = await verifyDatabase({
      url: ledger.url,
      sql: ledger.sql,
      masters,
      witnesses,
      account: values.account ?? null,
      onFault: (fault) => faults.add(fault),
      onProgress: progress.update,
    }).finally(() => progress.stop());
    faults.end();
    return tell(summary, form);
  } finally {
    await ledger.close();
  }
};

/** Writes the sum; answers with the exit code. */
export const tell = (summary: VerifySummary, form: 'words' | 'json'): number => {
  for (const line of form === 'json' ? [summaryJson(summary)] : summaryLines(summary)) console.log(line);
  return summary.ok ? 0 : 1;
};

const mastersOf = (config: Parameters<typeof givenMasterKeys>[0]): MasterKeys | null => {
  try {
    return givenMasterKeys(config);
  } catch (error) {
    // An auditor has none: what cannot be checked without it is said.
    if (error instanceof Failure && config.masterKey === null) return null;
    throw error;
  }
};

const witnessesOf = (values: Values, folder: string): OutsideWitnesses => {
  const own = existsSync(join(folder, 'checkpoints.jsonl')) ? folder : null;
  return findWitnesses(values.checkpoints ?? own, values['log-key'] ?? []);
};

/** One bar for each part of the work. */
export const progressOf = (
  isQuiet: boolean,
): { readonly update: (progress: VerifyProgress) => void; readonly stop: () => void } => {
  let doing: VerifyProgress['doing'] | null = null;
  let shown: Progress | null = null;
  let saidAt = 0;
  return {
    update: (progress) => {
      const now = performance.now();
      if (doing === progress.doing && now - saidAt < 100) return;
      saidAt = now;
      if (doing !== progress.doing) {
        shown?.stop();
        shown = showProgress({ unit: progress.doing, show: isQuiet ? 'none' : 'auto' });
        doing = progress.doing;
      }
      shown?.update(progress.done, Math.max(progress.of ?? progress.done, progress.done));
    },
    stop: () => shown?.stop(),
  };
};
