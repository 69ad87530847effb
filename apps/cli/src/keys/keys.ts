import { dataFolderOf } from '../data-folder.js';
import { readOptions } from '../options.js';
import { openLedger } from '../ledger/ledger.js';
import { showProgress } from '../progress.js';
import { Misuse, plain } from '../words.js';
import { backupKey } from './backup-key.js';
import { restoreKey } from './restore-key.js';
import type { Rotated } from './rotate-key.js';
import { rotateKey } from './rotate-key.js';

/** `hookledger keys backup`, `restore` and `rotate`. No key is printed. */
export const keys = async (args: readonly string[]): Promise<number> => {
  const [action, ...rest] = args;
  const act = actions.get(action ?? '');
  if (act === undefined) {
    throw new Misuse(action === undefined ? 'say backup, restore or rotate' : `there is no "keys ${action}"`);
  }
  for (const line of await act(rest)) console.log(line);
  return 0;
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

const rotate = async (args: readonly string[]): Promise<readonly string[]> => {
  const { values } = readOptions(args, { data: { type: 'string' }, json: { type: 'boolean' } });
  const { dataDir, environment } = surroundings(values.data);
  const ledger = await openLedger(values.data, process.env, 'keys rotate', 'append');
  const progress = showProgress({ unit: 'keys', show: values.json === true ? 'none' : 'auto' });
  try {
    const nextEnvironment = process.env.HOOKLEDGER_MASTER_KEY_NEXT;
    const { sql, store } = ledger;
    const onProgress = (done: number, total: number): void => progress.update(done, total);
    const done = await rotateKey({ dataDir, environment, nextEnvironment, sql, store, onProgress });
    progress.stop();
    return values.json === true ? [JSON.stringify(done)] : rotated(done);
  } finally {
    progress.stop();
    await ledger.close();
  }
};

const rotated = ({ from, to, keys: count, formerFile }: Rotated): readonly string[] => [
  `Master key ${to} took the place of ${from}: ${String(count)} data keys are under it.`,
  ...(formerFile === null
    ? ['Start every server with it as HOOKLEDGER_MASTER_KEY, and without HOOKLEDGER_MASTER_KEY_NEXT.']
    : [
        `The key of before is kept as ${plain(formerFile)}: only copies of the database from before this need it.`,
        'The new key exists in one place only: run hookledger keys backup --to FILE.',
      ]),
  'With Kafka, the rewrapped keys go to its topic of keys as well; keep the key of before until they are there.',
];

type Action = (args: readonly string[]) => readonly string[] | Promise<readonly string[]>;

const actions: ReadonlyMap<string, Action> = new Map<string, Action>([
  ['backup', backup],
  ['restore', restore],
  ['rotate', rotate],
]);
