import { dataFolderOf } from '../data-folder.js';
import { readOptions } from '../options.js';
import { Misuse } from '../words.js';
import { backupKey } from './backup-key.js';
import { restoreKey } from './restore-key.js';

/** `hookledger keys backup` and `hookledger keys restore`. No key is printed. */
export const keys = (args: readonly string[]): Promise<number> => {
  const [action, ...rest] = args;
  const said = action === 'backup' ? backup(rest) : action === 'restore' ? restore(rest) : misused(action);
  for (const line of said) console.log(line);
  return Promise.resolve(0);
};

const backup = (args: readonly string[]): readonly string[] => {
  const { values } = readOptions(args, { to: { type: 'string' }, data: { type: 'string' } });
  if (values.to === undefined || values.to === '') throw new Misuse('--to FILE is missing');
  return backupKey({ to: values.to, ...surroundings(values.data) });
};

const restore = (args: readonly string[]): readonly string[] => {
  const { values } = readOptions(args, { from: { type: 'string' }, data: { type: 'string' } });
  if (values.from === undefined || values.from === '') throw new Misuse('--from FILE is missing');
  return restoreKey({ from: values.from, ...surroundings(values.data) });
};

const surroundings = (data: string | undefined) => ({
  dataDir: dataFolderOf(data, process.env, process.cwd()),
  environment: process.env.HOOKLEDGER_MASTER_KEY,
  now: new Date(),
});

const misused = (action: string | undefined): never => {
  throw new Misuse(action === undefined ? 'say backup or restore' : `there is no "keys ${action}"`);
};
