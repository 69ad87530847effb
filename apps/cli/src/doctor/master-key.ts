import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { loadMasterKeys, MasterKeyProblem, nextMasterKeyFile } from '#sealing';
import type { MasterKey, MasterKeys } from '#sealing';
import { readBackupNote } from '../keys/backup-note.js';
import { findMasterKey, keyFileOf } from '../keys/key-files.js';
import type { Finding } from './finding.js';
import { codeOf, fine, problem, warning } from './finding.js';

/** Where a master key may be, and what it has to open. */
export interface KeyQuestion {
  readonly dataDir: string;
  /** `HOOKLEDGER_MASTER_KEY`. */
  readonly environment: string | undefined;
  /** `HOOKLEDGER_MASTER_KEY_NEXT`. */
  readonly nextEnvironment?: string | undefined;
  /** Whether there is a database already, whose content a new key would not open. */
  readonly databaseExists: boolean;
  /** Ids of the master keys that data keys are wrapped by; null where that is not known. */
  readonly masters: readonly string[] | null;
}

/** Whether there is a usable master key, whether it is the one that is needed, and whether it could be lost. */
export const examineMasterKey = (question: KeyQuestion): readonly Finding[] => {
  try {
    const found = findMasterKey(question.dataDir, question.environment);
    if (found === null) return [examineAbsence(question)];
    const { dataDir, environment, nextEnvironment } = question;
    const keys = loadMasterKeys({ environment, nextEnvironment, dataDir });
    return [...examineUse(keys, question), ...examinePlaces(found.key, question)];
  } catch (error) {
    if (error instanceof MasterKeyProblem) return [problem('master-key', `${error.message}.`)];
    return [problem('master-key', `${keyFileOf(question.dataDir)} cannot be read (${codeOf(error)}).`)];
  }
};

const examineAbsence = ({ dataDir, databaseExists, masters }: KeyQuestion): Finding => {
  const hasKeys = masters === null ? databaseExists : masters.length > 0;
  if (!hasKeys) return fine('master-key', 'There is no master key yet; the first start makes one in the data folder.');
  return problem(
    'master-key',
    `There is a database but no master key in ${dataDir}: a new one would open none of its content. ` +
      'Put the old one back with hookledger keys restore, or set HOOKLEDGER_MASTER_KEY.',
  );
};

const examineUse = (
  { first, byId }: MasterKeys,
  { masters, dataDir, nextEnvironment }: KeyQuestion,
): readonly Finding[] => {
  const others = (masters ?? []).filter((id) => id !== first.id);
  const unknown = others.filter((id) => byId(id) === undefined);
  if (unknown.length > 0) {
    const words = `The database has content under master key ${unknown.join(', ')}, and the one given is ${first.id}.`;
    return [
      problem('master-key', `${words} Put the right one back: hookledger keys restore, or HOOKLEDGER_MASTER_KEY.`),
    ];
  }
  if (others.length > 0 || existsSync(join(dataDir, nextMasterKeyFile))) {
    return [
      warning(
        'master-key',
        first.source === 'environment' && masters?.includes(first.id) === false
          ? `No key is under HOOKLEDGER_MASTER_KEY, but under ${placeOfOther(nextEnvironment, dataDir)}.`
          : 'A change of the master key has begun and is not through: run hookledger keys rotate again.',
      ),
    ];
  }
  return [];
};

/** Where the key in force was found that the environment does not give first, and what to do about it. */
const placeOfOther = (nextEnvironment: string | undefined, dataDir: string): string =>
  nextEnvironment === undefined || nextEnvironment.trim() === ''
    ? `the one in ${dataDir}: leave HOOKLEDGER_MASTER_KEY out, or give it that key, and restart`
    : 'HOOKLEDGER_MASTER_KEY_NEXT: make it HOOKLEDGER_MASTER_KEY and restart';

const examinePlaces = (key: MasterKey, { dataDir }: KeyQuestion): readonly Finding[] => {
  if (key.source === 'environment') {
    const given = fine('master-key', 'The master key is given by HOOKLEDGER_MASTER_KEY.');
    return [given, ...examineUnused(key, dataDir)];
  }
  const backup = readBackupNote(dataDir);
  if (backup?.digest === key.id) {
    return [fine('master-key', `The master key is in the data folder; it was backed up on ${backup.at.slice(0, 10)}.`)];
  }
  return [
    warning(
      'master-key',
      'The master key exists in one place only, the data folder. Lost, no content opens again: ' +
        'run hookledger keys backup --to FILE, and keep that file elsewhere.',
    ),
  ];
};

const examineUnused = (key: MasterKey, dataDir: string): readonly Finding[] => {
  if (!existsSync(keyFileOf(dataDir)) || isSame(key, dataDir)) return [];
  return [
    warning('master-key', `${keyFileOf(dataDir)} is another key, and is not used: HOOKLEDGER_MASTER_KEY goes first.`),
  ];
};

const isSame = (key: MasterKey, dataDir: string): boolean => {
  try {
    return findMasterKey(dataDir, undefined)?.key.id === key.id;
  } catch {
    return false;
  }
};
