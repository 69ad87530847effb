import { statSync } from 'node:fs';
import { createPool, sqlOver } from '#event-store';
import { verifyCheckpointFile } from '#proof';
import type { MasterKeys } from '#sealing';
import { loadMasterKey, MasterKeyProblem, masterKeysOf } from '#sealing';
import { readOptions } from '../options.js';
import { Failure, Misuse, plain } from '../words.js';
import { isExport } from './export-files.js';
import { reportFaults } from './report.js';
import type { Form } from './run.js';
import { exitingWith, tellExport, tellLog } from './run.js';
import { verifyDatabase } from './verify-database.js';
import type { OutsideWitnesses } from './witnesses.js';
import { findWitnesses } from './witnesses.js';

const help = `Usage: node hookledger-verify.mjs WHAT [options]

  Verifies a record of Hookledger by itself: no server, no network (but to a database that you name).

  WHAT                 an export, as a tar or a folder; a sealer's folder of checkpoints, or its checkpoints.jsonl;
                       or postgres://… of a database (read only; HOOKLEDGER_MASTER_KEY lets it check tags and keys)
  --checkpoints PATH   a checkpoints.jsonl, or its folder, that somebody kept
  --log-key KEY|FILE   a public key of the log, or a log-keys.json; may be repeated
  --account ID         of a database: only this account
  --json               a line of JSON for each fault, the last one is the sum

  Exit code 0: no fault; 1: faults, a line each; 2: it could not be verified.`;

const options = {
  checkpoints: { type: 'string' },
  'log-key': { type: 'string', multiple: true },
  account: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

type Values = ReturnType<typeof readOptions<typeof options>>['values'];

const run = async (args: readonly string[]): Promise<number> => {
  if (args.length === 0 || args.includes('--help') || args.includes('-h')) {
    console.log(help);
    return args.length === 0 ? 2 : 0;
  }
  const { values, positionals } = readOptions(args, options, ['WHAT']);
  const [what = ''] = positionals;
  const form: Form = values.json === true ? 'json' : 'words';
  if (/^postgres(?:ql)?:\/\//u.test(what)) return verifyUrl(what, values, form);
  const place = statSync(what, { throwIfNoEntry: false });
  if (place === undefined) throw new Misuse(`there is no ${what}`);
  if (isExport(what)) {
    return tellExport(what, findWitnesses(values.checkpoints ?? null, values['log-key'] ?? []), form);
  }
  return verifyFile(findWitnesses(what, values['log-key'] ?? []), form);
};

const verifyUrl = async (url: string, values: Values, form: Form): Promise<number> => {
  const pool = createPool({ connectionString: url, max: 1, connectTimeoutMs: 5_000 });
  try {
    const witnesses = findWitnesses(values.checkpoints ?? null, values['log-key'] ?? []);
    const question = { url, sql: sqlOver(pool), masters: masterKeys(), witnesses, account: values.account ?? null };
    return await tellLog(form, (ears) => verifyDatabase({ ...question, ...ears }));
  } finally {
    await pool.end();
  }
};

const masterKeys = (): MasterKeys | null => {
  const environment = process.env.HOOKLEDGER_MASTER_KEY ?? '';
  if (environment === '') return null;
  try {
    return masterKeysOf(loadMasterKey({ environment, dataDir: '' }));
  } catch (error) {
    throw error instanceof MasterKeyProblem ? new Failure(`${error.message}.`) : error;
  }
};

const verifyFile = async ({ lines, logKeys }: OutsideWitnesses, form: Form): Promise<number> => {
  if (logKeys.length === 0) throw new Misuse('no log-keys.json is beside it: give the public keys with --log-key');
  const faults = reportFaults((line) => console.log(line), form);
  const summary = await verifyCheckpointFile(lines ?? nothing(), logKeys, (fault) => faults.add(fault));
  faults.end();
  if (form === 'json') console.log(JSON.stringify({ kind: 'summary', ok: summary.faults === 0, ...summary }));
  else {
    for (const { account, size } of summary.accounts) console.log(`${plain(account)}  ${size} events`);
    console.log(
      `Checked ${summary.lines} lines, the newest of ${summary.newest ?? 'no time'}: ${summary.faults} faults.`,
    );
  }
  return summary.faults === 0 ? 0 : 1;
};

// eslint-disable-next-line @typescript-eslint/no-empty-function -- a file without lines
async function* nothing(): AsyncGenerator<never> {}

process.exitCode = await exitingWith('hookledger-verify', async () => {
  try {
    return await run(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof Misuse)) throw error;
    throw new Failure(`${error.message}\n\n${help}`);
  }
});
