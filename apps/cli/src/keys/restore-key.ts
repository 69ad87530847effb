import { readFileSync, statSync } from 'node:fs';
import { MasterKeyProblem } from '#sealing';
import { Failure, plain } from '../words.js';
import { noteBackup } from './backup-note.js';
import type { KeyText } from './key-files.js';
import { findMasterKey, keyFileOf, keyFromText, makeDataFolder, placeKey } from './key-files.js';

/** What a restoration needs to know. */
export interface RestoreOrder {
  readonly dataDir: string;
  /** A file that `backup` wrote, or that holds what `HOOKLEDGER_MASTER_KEY` takes. */
  readonly from: string;
  /** `HOOKLEDGER_MASTER_KEY`. */
  readonly environment: string | undefined;
  readonly now: Date;
}

/** No file of a key is longer. */
const longestFile = 1_024;

/**
 * Puts a master key back into the data folder, which is made where it is missing. Throws `Failure` where another key
 * is in its place, or would be used instead.
 */
export const restoreKey = (order: RestoreOrder): readonly string[] => {
  const wanted = keyFromText(readCopy(order.from), plain(order.from));
  refuseOther(order, wanted);
  if (statSync(keyFileOf(order.dataDir), { throwIfNoEntry: false }) !== undefined) {
    return ['The data folder has this master key already.'];
  }
  try {
    makeDataFolder(order.dataDir);
    placeKey(order.dataDir, wanted.text);
    // The file that it came from is the copy.
    noteBackup(order.dataDir, { digest: wanted.key.id, at: order.now.toISOString() });
  } catch (error) {
    const { code } = error as { code?: string };
    throw new Failure(`The data folder ${order.dataDir} cannot take the key (${code ?? 'unknown error'}).`);
  }
  return [`The master key was put back into ${order.dataDir}.`];
};

const readCopy = (from: string): string => {
  try {
    if (statSync(from).size > longestFile) throw new Failure(`${plain(from)} is no file of a master key.`);
    return readFileSync(from, 'utf8');
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(`${plain(from)} cannot be read (${(error as { code?: string }).code ?? 'unknown error'}).`);
  }
};

const refuseOther = ({ dataDir, environment }: RestoreOrder, wanted: KeyText): void => {
  if (environment !== undefined && environment.trim() !== '') {
    const given = keyFromText(environment, 'HOOKLEDGER_MASTER_KEY');
    if (given.key.id !== wanted.key.id) {
      throw new Failure('HOOKLEDGER_MASTER_KEY is another key, and would be used instead. Nothing was changed.');
    }
  }
  const there = keyInPlace(dataDir);
  if (there === null || there.key.id === wanted.key.id) return;
  throw new Failure(
    `${keyFileOf(dataDir)} is another key. What was sealed under it opens under no other, so nothing was changed.`,
  );
};

const keyInPlace = (dataDir: string): KeyText | null => {
  try {
    return findMasterKey(dataDir, undefined);
  } catch (error) {
    if (error instanceof MasterKeyProblem) throw new Failure(`${error.message}. Nothing was changed.`);
    throw new Failure(
      `${keyFileOf(dataDir)} cannot be read (${(error as { code?: string }).code ?? 'unknown error'}).`,
    );
  }
};
