import {
  chownSync,
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { randomBytes } from 'node:crypto';
import { dirname, join } from 'node:path';
import { loadMasterKey, masterKeyFile, masterKeyFromFile, MasterKeyProblem } from '#sealing';
import type { MasterKey } from '#sealing';
import { Failure } from '../words.js';

/** A master key, and the text that stands for it in the environment and in files. */
export interface KeyText {
  readonly key: MasterKey;
  readonly text: string;
}

/** Where the server keeps a master key that it made. */
export const keyFileOf = (dataDir: string): string => join(dataDir, masterKeyFile);

/**
 * The master key that a server of this data folder would use, by the server's own rules; null where it would make one.
 * Throws `MasterKeyProblem` where the server would not start.
 */
export const findMasterKey = (dataDir: string, environment: string | undefined): KeyText | null => {
  const given = environment?.trim();
  if (given !== undefined && given !== '') {
    return { key: loadMasterKey({ environment: given, dataDir }), text: given };
  }
  const path = keyFileOf(dataDir);
  // Loading would make one.
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return null;
  return { key: loadMasterKey({ environment: undefined, dataDir }), text: readFileSync(path, 'utf8').trim() };
};

/** The key that a text stands for. Throws `Failure` that names `where`. */
export const keyFromText = (text: string, where: string): KeyText => {
  try {
    const given = text.trim();
    if (given === '') throw new MasterKeyProblem('empty');
    return { key: loadMasterKey({ environment: given, dataDir: '' }), text: given };
  } catch (error) {
    if (!(error instanceof MasterKeyProblem)) throw error;
    throw new Failure(`${where} holds no master key: 32 bytes as 64 hex digits or as base64 are expected.`);
  }
};

/** The key in a file of the data folder. Throws `Failure`. */
export const keyFromFile = (path: string): KeyText => {
  try {
    return { key: masterKeyFromFile(path), text: readFileSync(path, 'utf8').trim() };
  } catch (error) {
    throw error instanceof MasterKeyProblem ? new Failure(`${error.message}.`) : error;
  }
};

/** Writes a new file, durable and for its owner only; one that is there already, or a link, throws EEXIST. */
export const writeNewFile = (path: string, text: string): void => {
  const file = openSync(path, 'wx', 0o600);
  try {
    writeSync(file, text);
    fsyncSync(file);
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
  syncFolder(dirname(path));
};

/** Puts a key in its place in the data folder, whole or not at all. Throws EEXIST where there is one. */
export const placeKey = (dataDir: string, text: string): void => placeFile(dataDir, masterKeyFile, `${text}\n`);

/** Makes a file of the data folder, whole or not at all. Throws EEXIST where there is one. */
export const placeFile = (dataDir: string, name: string, text: string): void => {
  inPlace(dataDir, text, (draft) => linkSync(draft, join(dataDir, name)));
};

/** Writes a file of the data folder anew, whole or not at all. */
export const replaceFile = (dataDir: string, name: string, text: string): void => {
  inPlace(dataDir, text, (draft) => renameSync(draft, join(dataDir, name)));
};

const inPlace = (dataDir: string, text: string, put: (draft: string) => void): void => {
  const draft = join(dataDir, `.draft-${randomBytes(6).toString('hex')}`);
  writeNewFile(draft, text);
  try {
    giveToOwnerOf(dataDir, draft);
    put(draft);
    syncFolder(dataDir);
  } finally {
    rmSync(draft, { force: true });
  }
};

/** Root may work on a folder whose server runs as somebody else, who must be able to read it. */
const giveToOwnerOf = (folder: string, path: string): void => {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(folder);
  chownSync(path, uid, gid);
};

/** The data folder as the server makes it. */
export const makeDataFolder = (dataDir: string): void => {
  mkdirSync(dataDir, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 });
};

/** Makes a new name durable too. Windows has no handle of a folder. */
export const syncFolder = (path: string): void => {
  if (process.platform === 'win32') return;
  const folder = openSync(path, 'r');
  fsyncSync(folder);
  closeSync(folder);
};
