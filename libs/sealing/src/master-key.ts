import type { KeyObject } from 'node:crypto';
import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, readFileSync, statSync, unlinkSync } from 'node:fs';
import { writeSync } from 'node:fs';
import { join } from 'node:path';
import type { KeyName } from './sealing-key.js';
import { associatedData } from './sealing-key.js';

/** The key that wraps data keys. It never touches content. */
export interface MasterKey {
  /** Tells master keys apart without giving anything away. */
  readonly id: string;
  readonly wrapping: KeyObject;
  /** `file`: made in the data directory, so it may exist in one place only. */
  readonly source: 'environment' | 'file';
}

/** A master key cannot be used; the message says what to do about it. */
export class MasterKeyProblem extends Error {
  override readonly name = 'MasterKeyProblem';
}

/** Where a master key comes from. */
export interface MasterKeyPlaces {
  /** `HOOKLEDGER_MASTER_KEY`: 32 bytes as 64 hex digits or as base64. */
  readonly environment: string | undefined;
  /** Holds `master.key`, made at the first start where the environment has none. */
  readonly dataDir: string;
}

/**
 * The master key of this installation: the environment's, else the file's, else a new one, written to the file with
 * mode 0600 before it is used. Throws `MasterKeyProblem` for a key that is none and for a file that others may read.
 */
export const loadMasterKey = ({ environment, dataDir }: MasterKeyPlaces): MasterKey => {
  if (environment !== undefined && environment !== '') {
    return masterKeyFromText(environment, 'HOOKLEDGER_MASTER_KEY');
  }
  const path = join(dataDir, 'master.key');
  makeUnlessThere(path);
  return masterKeyFromFile(path);
};

/** The key that a text of the environment stands for; `where` is named by the `MasterKeyProblem` for one that is none. */
export const masterKeyFromText = (text: string, where: string): MasterKey =>
  masterKeyFrom(bytesOf(text, where), 'environment');

/** The key in a file that exists. Throws `MasterKeyProblem` for one that is none or that others may read. */
export const masterKeyFromFile = (path: string): MasterKey => {
  refuseIfOpenToOthers(path);
  return masterKeyFrom(bytesOf(readFileSync(path, 'utf8').trim(), path), 'file');
};

/** A master key of 32 given bytes. */
export const masterKeyFrom = (bytes: Buffer, source: MasterKey['source']): MasterKey => ({
  id: Buffer.from(hkdfSync('sha256', bytes, '', 'hookledger master key id', 8)).toString('hex'),
  wrapping: createSecretKey(Buffer.from(hkdfSync('sha256', bytes, '', 'hookledger data key wrapping v1', 32))),
  source,
});

/** A data key under a master key: nonce ‖ AES-256-GCM ‖ tag. */
export const wrapKey = (master: MasterKey, name: KeyName, dataKey: Buffer): Buffer => {
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', master.wrapping, nonce);
  cipher.setAAD(associatedData(name, 'data key'));
  return Buffer.concat([nonce, cipher.update(dataKey), cipher.final(), cipher.getAuthTag()]);
};

/** The data key. Throws when it was wrapped by another master key, for another scope, or was changed. */
export const unwrapKey = (master: MasterKey, name: KeyName, wrapped: Buffer): Buffer => {
  const decipher = createDecipheriv('aes-256-gcm', master.wrapping, wrapped.subarray(0, 12), { authTagLength: 16 });
  decipher.setAAD(associatedData(name, 'data key'));
  decipher.setAuthTag(wrapped.subarray(-16));
  return Buffer.concat([decipher.update(wrapped.subarray(12, -16)), decipher.final()]);
};

const bytesOf = (text: string, where: string): Buffer => {
  const hex = /^[\da-f]{64}$/iu.test(text) ? Buffer.from(text, 'hex') : null;
  const base64 = /^[\w+/-]{43}=?$/u.test(text) ? Buffer.from(text, 'base64') : null;
  const bytes = hex ?? base64;
  if (bytes?.length === 32) return bytes;
  throw new MasterKeyProblem(`${where} is not a master key: 32 bytes as 64 hex digits or as base64 are expected`);
};

// Written whole beside its place and linked into it: a crash leaves no half key, and of two first starts one wins.
const makeUnlessThere = (path: string): void => {
  if (statSync(path, { throwIfNoEntry: false }) !== undefined) return;
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  mkdirSync(join(path, '..'), { recursive: true, mode: 0o700 });
  const file = openSync(draft, 'wx', 0o600);
  try {
    writeSync(file, `${randomBytes(32).toString('hex')}\n`);
    fsyncSync(file);
    linkSync(draft, path);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  } finally {
    closeSync(file);
    unlinkSync(draft);
  }
  syncFolder(join(path, '..'));
};

/** Makes the new name durable too. Windows has no handle of a folder. */
const syncFolder = (path: string): void => {
  if (process.platform === 'win32') return;
  const folder = openSync(path, 'r');
  fsyncSync(folder);
  closeSync(folder);
};

const refuseIfOpenToOthers = (path: string): void => {
  if (process.platform === 'win32' || (statSync(path).mode & 0o077) === 0) return;
  throw new MasterKeyProblem(`${path} can be read by others: run chmod 600 on it`);
};
