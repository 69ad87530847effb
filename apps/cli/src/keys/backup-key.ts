import { existsSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { MasterKeyProblem } from '#sealing';
import { Failure, plain } from '../words.js';
import { noteBackup } from './backup-note.js';
import type { KeyText } from './key-files.js';
import { findMasterKey, keyFromText, writeNewFile } from './key-files.js';

/** What a backup needs to know. */
export interface BackupOrder {
  readonly dataDir: string;
  /** Where the copy goes. */
  readonly to: string;
  /** `HOOKLEDGER_MASTER_KEY`. */
  readonly environment: string | undefined;
  readonly now: Date;
}

/**
 * Writes the master key to a new file outside the data folder, mode 0600, and notes in the data folder that it was.
 * Answers with sentences for whoever asked. Throws `Failure`, and then has left nothing behind but, at most, the note
 * unwritten.
 */
export const backupKey = (order: BackupOrder): readonly string[] => {
  const found = masterKeyOf(order);
  const to = placeOutside(order);
  writeCopy(to, found);
  const said = [`The master key was written to ${plain(to)}. Keep that file apart from the database.`];
  if (isOpenToOthers(to)) said.push('That place keeps no file modes: others may be able to read it there.');
  if (!existsSync(order.dataDir)) return said;
  try {
    noteBackup(order.dataDir, { digest: found.key.id, at: order.now.toISOString() });
  } catch (error) {
    throw new Failure(`${said.join(' ')} The data folder could not take a note of it (${codeOf(error)}).`);
  }
  return said;
};

const masterKeyOf = ({ dataDir, environment }: BackupOrder): KeyText => {
  try {
    const found = findMasterKey(dataDir, environment);
    if (found !== null) return found;
  } catch (error) {
    if (error instanceof MasterKeyProblem) throw new Failure(`${error.message}.`);
    throw new Failure(`The master key in ${dataDir} cannot be read (${codeOf(error)}).`);
  }
  throw new Failure(`There is no master key in ${dataDir}: the first start makes it.`);
};

/** The place with links resolved, so that no link leads back into the data folder. */
const placeOutside = ({ dataDir, to }: BackupOrder): string => {
  const wanted = resolve(to);
  const folder = realOf(dirname(wanted));
  if (folder === null) throw new Failure(`The folder ${plain(dirname(wanted))} does not exist.`);
  for (const inside of [dataDir, clusterFolder(dataDir)]) {
    const real = inside === null ? null : realOf(inside);
    if (real !== null && isWithin(real, folder)) {
      throw new Failure(`${plain(to)} is inside the data folder, and would be lost with it. Name a place outside.`);
    }
  }
  return join(folder, basename(wanted));
};

/** Where the embedded database is when it cannot be in the data folder. */
const clusterFolder = (dataDir: string): string | null => {
  try {
    return readFileSync(join(dataDir, 'postgres.location'), 'utf8').trim();
  } catch {
    return null;
  }
};

const realOf = (path: string): string | null => {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
};

const isWithin = (folder: string, path: string): boolean => {
  const way = relative(folder, path);
  return way === '' || !(way.startsWith('..') || resolve(way) === way);
};

const writeCopy = (to: string, { key, text }: KeyText): void => {
  try {
    writeNewFile(to, `${text}\n`);
  } catch (error) {
    const code = codeOf(error);
    if (code === 'EEXIST') throw new Failure(`${plain(to)} exists already and was not touched. Name a new file.`);
    throw new Failure(`${plain(to)} cannot be written (${code}).`);
  }
  // A copy that does not read back is worse than none.
  if (keyFromText(readFileSync(to, 'utf8'), to).key.id === key.id) return;
  rmSync(to, { force: true });
  throw new Failure(`${plain(to)} did not read back as it was written, and was removed.`);
};

const isOpenToOthers = (path: string): boolean => process.platform !== 'win32' && (statSync(path).mode & 0o077) !== 0;

const codeOf = (error: unknown): string => (error as { code?: string }).code ?? 'unknown error';
