import { statSync } from 'node:fs';
import type { MasterKey, MasterKeyPlaces } from './master-key.js';
import { loadMasterKey, masterKeyFromFile, masterKeyFromText } from './master-key.js';

/** The master keys that a program was given: one, and while a rotation is under way two. */
export interface MasterKeys {
  /** What the server of this environment and data folder starts with. */
  readonly first: MasterKey;
  /** Looks into the data folder again for a key that it does not know: a rotation may have begun since. */
  readonly byId: (id: string) => MasterKey | undefined;
}

/** Where master keys come from while two are in force. */
export interface MasterKeysPlaces extends MasterKeyPlaces {
  /** `HOOKLEDGER_MASTER_KEY_NEXT`: the key that a rotation goes over to, in the form of `HOOKLEDGER_MASTER_KEY`. */
  readonly nextEnvironment: string | undefined;
}

/** Files of the data folder that may hold a master key: in use, and made by a rotation for what comes after it. */
export const masterKeyFile = 'master.key';
export const nextMasterKeyFile = 'master.next.key';

/**
 * The master key as `loadMasterKey` gives it, and beside it the next one from the environment or from
 * `master.next.key`. Throws `MasterKeyProblem` for one that is none, and for a file that others may read.
 */
export const loadMasterKeys = (places: MasterKeysPlaces): MasterKeys => {
  const first = loadMasterKey(places);
  const { nextEnvironment, dataDir } = places;
  const given =
    nextEnvironment === undefined || nextEnvironment.trim() === ''
      ? []
      : [masterKeyFromText(nextEnvironment.trim(), 'HOOKLEDGER_MASTER_KEY_NEXT')];
  const known = new Map([first, ...given, ...inFolder(dataDir)].map((key) => [key.id, key]));
  return {
    first,
    byId: (id) => {
      if (!known.has(id)) for (const key of inFolder(dataDir)) known.set(key.id, key);
      return known.get(id);
    },
  };
};

/** Just these keys; the first is what a server would start with. */
export const masterKeysOf = (first: MasterKey, ...others: readonly MasterKey[]): MasterKeys => ({
  first,
  byId: (id) => [first, ...others].find((key) => key.id === id),
});

const inFolder = (dataDir: string): readonly MasterKey[] =>
  [masterKeyFile, nextMasterKeyFile].flatMap((name) => {
    const path = `${dataDir}/${name}`;
    return statSync(path, { throwIfNoEntry: false }) === undefined ? [] : [masterKeyFromFile(path)];
  });
