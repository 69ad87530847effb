import { LRUCache } from 'lru-cache';
import type { EventStore, Sql } from '#event-store';
import { storedDataKeys } from './data-keys.js';
import { keyedSealing, scopeName } from './keyed-sealing.js';
import type { MasterKeys } from './master-keys.js';
import type { KeyErasure, Scope, Sealing } from './sealing.js';

/** What sealing needs. */
export interface PostgresSealingOptions {
  readonly sql: Sql;
  /** Gives the blobs. */
  readonly store: Pick<EventStore, 'blob'>;
  readonly masterKeys: MasterKeys;
}

/** Sealing with data keys in Postgres, wrapped by the master key. */
export const postgresSealing = (options: PostgresSealingOptions): Sealing & KeyErasure => {
  const keys = storedDataKeys(options.sql, options.masterKeys);
  // Still sealed: a destroyed key closes what is cached as well.
  const blobs = new LRUCache<string, Uint8Array>({
    maxSize: 16 * 1024 * 1024,
    sizeCalculation: (bytes) => bytes.length || 1,
  });

  const blobOf = async (hash: string): Promise<Uint8Array | null> => {
    const known = blobs.get(hash);
    if (known !== undefined) return known;
    const bytes = await options.store.blob(hash);
    if (bytes !== null) blobs.set(hash, bytes);
    return bytes;
  };

  const sealing = keyedSealing(keys, blobOf);
  const nameOf = (account: string, scope: Scope): Promise<string> =>
    scopeName(scope, (id) => sealing.searchHash(account, id));
  return {
    ...sealing,
    erase: async (account, scope) => keys.destroy(account, await nameOf(account, scope)),
    livingKeys: async (account, scope) => {
      if (scope.kind === 'everything') return { scope: '*', ids: await keys.living(account, null) };
      const name = await nameOf(account, scope);
      return { scope: name, ids: await keys.living(account, name) };
    },
    destroyKeys: (account, ids) => keys.destroyById(account, ids),
    forgetKeys: (ids) => keys.forget(ids),
  };
};
