import { linkSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { userInfo } from 'node:os';
import type { EventStore, Sql } from '#event-store';
import type { MasterKey } from '#sealing';
import { MasterKeyProblem, nextMasterKeyFile, putMasterInForce, readMasterInForce, rewrapDataKeys } from '#sealing';
import { Failure } from '../words.js';
import type { KeyText } from './key-files.js';
import { findMasterKey, keyFileOf, keyFromFile, keyFromText, placeFile, syncFolder } from './key-files.js';

/** What a rotation needs to know. */
export interface RotateOrder {
  readonly dataDir: string;
  /** `HOOKLEDGER_MASTER_KEY` and `HOOKLEDGER_MASTER_KEY_NEXT`. */
  readonly environment: string | undefined;
  readonly nextEnvironment: string | undefined;
  readonly sql: Sql;
  readonly store: EventStore;
  readonly onProgress: (done: number, total: number) => void;
}

/** What a rotation did. */
export interface Rotated {
  readonly from: string;
  readonly to: string;
  /** Keys that are under the new master key now. */
  readonly keys: number;
  /** Where the key file of before is kept; null when the environment gives the key. */
  readonly formerFile: string | null;
}

/**
 * Puts the next master key in the place of the one in use (ADR 8): makes it durable, puts it in force, wraps every data
 * key under it, records `master_key.rotated`, and moves the key file. Interrupted anywhere and run again it goes on, and
 * a server that holds both keys, as one of the same data folder does, works all the while. Throws `Failure`.
 */
export const rotateKey = (order: RotateOrder): Promise<Rotated> =>
  order.sql.transaction(async (held) => {
    // The lock ends with this process, whatever becomes of it.
    await held.query('set local idle_in_transaction_session_timeout to 0');
    const [row] = await held.query<{ held: boolean }>(
      "select pg_try_advisory_xact_lock(hashtextextended('hookledger master key', 0)) as held",
    );
    if (row?.held !== true) throw new Failure('Another rotation of the master key is under way.');
    return rotateHeld(order);
  });

const rotateHeld = async (order: RotateOrder): Promise<Rotated> => {
  const { sql, store } = order;
  const current = currentKey(order);
  const before = await readMasterInForce(sql);
  const next = nextKey(order, current, before.id);
  if (next.key.id === current.key.id) throw new Failure('The next master key is the one in use. Nothing was changed.');
  if (before.id !== null && ![current.key.id, next.key.id].includes(before.id)) {
    throw new Failure(
      `The database is under master key ${before.id}, which is neither of the two. Nothing was changed.`,
    );
  }
  if (!(await putMasterInForce(sql, current.key, next.key))) {
    throw new Failure('The database has no master key yet, or another rotation is under way. Nothing was changed.');
  }
  const total = before.keys.get(current.key.id) ?? 0;
  try {
    await rewrapDataKeys(sql, current.key, next.key, (done) => order.onProgress(done, Math.max(done, total)));
  } catch (error) {
    throw error instanceof MasterKeyProblem ? new Failure(`${error.message}. The others go on working.`) : error;
  }
  const { keys } = await readMasterInForce(sql);
  const strangers = [...keys.keys()].filter((id) => id !== next.key.id);
  if (strangers.length > 0) {
    throw new Failure(
      `Every key of ${current.key.id} was rewrapped; others are still under ${strangers.join(', ')}, which was not given.`,
    );
  }
  const rewrapped = keys.get(next.key.id) ?? 0;
  await recordRotation(store, { from: current.key.id, to: next.key.id, rewrapped });
  return {
    from: current.key.id,
    to: next.key.id,
    keys: rewrapped,
    formerFile: current.key.source === 'file' ? moveFiles(order.dataDir, current.key) : null,
  };
};

const currentKey = ({ dataDir, environment }: RotateOrder): KeyText => {
  try {
    const found = findMasterKey(dataDir, environment);
    if (found !== null) return found;
  } catch (error) {
    throw error instanceof MasterKeyProblem ? new Failure(`${error.message}.`) : error;
  }
  throw new Failure(`There is no master key in ${dataDir}: the first start makes it.`);
};

/** The key that the environment names, else the one that was made before, else a new one in the data folder. */
const nextKey = (order: RotateOrder, current: KeyText, inForce: string | null): KeyText => {
  const given = order.nextEnvironment?.trim() ?? '';
  if (given !== '' && current.key.source === 'file') {
    // The servers of this folder look for their next key in it: one that only the environment of this command gives
    // would leave them without the key in force, and could be lost with the shell it was typed in.
    throw new Failure(
      'The master key in use is in the data folder, and HOOKLEDGER_MASTER_KEY_NEXT is for one that HOOKLEDGER_MASTER_KEY ' +
        'gives. Leave it out, or give every server the one in use as HOOKLEDGER_MASTER_KEY first. Nothing was changed.',
    );
  }
  if (given !== '') return keyFromText(given, 'HOOKLEDGER_MASTER_KEY_NEXT');
  if (current.key.source === 'environment') {
    throw new Failure(
      'The master key is given by HOOKLEDGER_MASTER_KEY: put the next one (openssl rand -hex 32) into ' +
        'HOOKLEDGER_MASTER_KEY_NEXT, for every server and for this command, and ask again.',
    );
  }
  const path = join(order.dataDir, nextMasterKeyFile);
  if (statSync(path, { throwIfNoEntry: false }) === undefined) {
    if (inForce !== null && inForce !== current.key.id) {
      throw new Failure(`The database is under master key ${inForce}, and ${path} is missing. Nothing was changed.`);
    }
    placeFile(order.dataDir, nextMasterKeyFile, `${randomBytes(32).toString('hex')}\n`);
  }
  return keyFromFile(path);
};

const system = 'system';
const keyStream = 'keys';

/** Once for each key that came into force, however often the last steps are run. */
const recordRotation = async (
  store: EventStore,
  data: { from: string; to: string; rewrapped: number },
): Promise<void> => {
  for (;;) {
    const before = await store.readStream(system, keyStream);
    if (before.some(({ event }) => event.type === 'master_key.rotated' && event.data.to === data.to)) return;
    const actor = { kind: 'operator', id: userInfo().username } as const;
    const result = await store.append({
      account: system,
      writes: [
        { stream: keyStream, expectedVersion: before.length, events: [{ type: 'master_key.rotated', actor, data }] },
      ],
    });
    if (result.kind === 'appended') return;
  }
};

/** The next key takes the place of the one in use, which stays under its own name for copies of the database. */
const moveFiles = (dataDir: string, former: MasterKey): string => {
  const next = join(dataDir, nextMasterKeyFile);
  const kept = join(dataDir, `master.${former.id}.key`);
  if (statSync(kept, { throwIfNoEntry: false }) === undefined) linkSync(keyFileOf(dataDir), kept);
  renameSync(next, keyFileOf(dataDir));
  syncFolder(dataDir);
  return kept;
};
