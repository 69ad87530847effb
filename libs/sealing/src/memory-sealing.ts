import { keyedSealing, scopeName } from './keyed-sealing.js';
import type { KeyErasure, Sealing } from './sealing.js';
import type { SealingKey } from './sealing-key.js';
import { newDataKey, newKeyId, sealingKey } from './sealing-key.js';

/** Sealing whose keys and blobs live in this process: for tests and for trying things out. */
export const memorySealing = (): Sealing & KeyErasure => {
  const byId = new Map<string, SealingKey | null>();
  const living = new Map<string, SealingKey>();
  const blobs = new Map<string, Uint8Array>();

  const current = (account: string, scope: string): SealingKey => {
    const at = `${account}\0${scope}`;
    const key = living.get(at) ?? sealingKey({ id: newKeyId(), account, scope }, newDataKey());
    living.set(at, key);
    byId.set(key.id, key);
    return key;
  };

  const sealing = keyedSealing(
    {
      current: async (account, scope) => Promise.resolve(current(account, scope)),
      byId: async (id) => {
        const key = await Promise.resolve(byId.get(id));
        if (key === undefined) throw new Error('a sealed value names a data key that does not exist');
        return key;
      },
    },
    async (hash) => Promise.resolve(blobs.get(hash) ?? null),
    ({ hash, bytes }) => blobs.set(hash, bytes),
  );

  return {
    ...sealing,
    erase: async (account, scope) => {
      const at = `${account}\0${await scopeName(scope, (id) => sealing.searchHash(account, id))}`;
      const key = living.get(at);
      if (key === undefined) return [];
      living.delete(at);
      byId.set(key.id, null);
      return [key.id];
    },
  };
};
