import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { MasterKeys } from '#sealing';
import { givenMasterKeys, openLedger } from '../ledger/ledger.js';
import { readOptions } from '../options.js';
import { Failure } from '../words.js';
import { exitingWith, tellExport, tellLog, type Form } from './run.js';
import { verifyDatabase } from './verify-database.js';
import { findWitnesses } from './witnesses.js';

const options = {
  account: { type: 'string' },
  checkpoints: { type: 'string' },
  export: { type: 'string' },
  'log-key': { type: 'string', multiple: true },
  'without-key': { type: 'boolean' },
  data: { type: 'string' },
  json: { type: 'boolean' },
} as const;

type Values = ReturnType<typeof readOptions<typeof options>>['values'];

/**
 * `hookledger verify`: checks the log of a database, of `DATABASE_URL` or of a data folder, and reads only; or an
 * export. Exit code 0: nothing is wrong; 1: there are faults, each on a line; 2: it could not be verified.
 */
export const verify = (args: readonly string[]): Promise<number> => {
  const { values } = readOptions(args, options);
  const form = values.json === true ? 'json' : 'words';
  return exitingWith('hookledger verify', () =>
    values.export === undefined ? verifyLedger(values, form) : verifyGivenExport(values, values.export, form),
  );
};

const verifyGivenExport = (values: Values, folder: string, form: Form): Promise<number> =>
  tellExport(folder, findWitnesses(values.checkpoints ?? null, values['log-key'] ?? []), form);

const verifyLedger = async (values: Values, form: Form): Promise<number> => {
  const ledger = await openLedger(values.data, process.env, 'verify');
  try {
    const { url, sql, config } = ledger;
    const masters = values['without-key'] === true ? null : mastersOf(config);
    const own = join(config.checkpointDir, 'checkpoints.jsonl');
    const kept = existsSync(own) ? config.checkpointDir : null;
    const witnesses = findWitnesses(values.checkpoints ?? kept, values['log-key'] ?? []);
    const account = values.account ?? null;
    return await tellLog(form, (ears) => verifyDatabase({ url, sql, masters, witnesses, account, ...ears }));
  } finally {
    await ledger.close();
  }
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
