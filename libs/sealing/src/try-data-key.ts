import type { MasterKey } from './master-key.js';
import { unwrapKey } from './master-key.js';
import type { MasterKeys } from './master-keys.js';

/** A row of the key table, as far as opening it goes. */
export interface WrappedDataKey {
  readonly id: string;
  readonly account: string;
  readonly scope: string;
  readonly wrapped: Buffer | null;
  readonly master: string;
}

/**
 * Whether a data key opens under the master key that its row names: a key that was replaced, or given another account,
 * scope or master, does not. `unknown`: that master key was not given, and no other opens it.
 */
export const tryDataKey = (masters: MasterKeys, row: WrappedDataKey): 'opens' | 'changed' | 'unknown' => {
  const master = masters.byId(row.master);
  if (master !== undefined) return opens(master, row) ? 'opens' : 'changed';
  return opens(masters.first, row) ? 'changed' : 'unknown';
};

const opens = (master: MasterKey, { id, account, scope, wrapped }: WrappedDataKey): boolean => {
  try {
    return unwrapKey(master, { id, account, scope }, wrapped ?? Buffer.alloc(0)).length === 32;
  } catch {
    return false;
  }
};
