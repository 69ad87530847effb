import { keyedSealing, scopeName } from './keyed-sealing.js';
import type { KeyErasure, Scope, Sealing } from './sealing.js';
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

  const nameOf = (account: string, scope: Scope): Promise<string> =>
    scopeName(scope, (id) => sealing.searchHash(account, id));
  const livingIds = (account: string, scope: string | null): readonly string[] =>
    [...living.values()]
      .filter((key) => key.account === account && (scope ?? key.scope) === key.scope)
      .map(({ id }) => id);
  const destroy = (ids: readonly string[]): void => {
    for (const [at, key] of living) if (ids.includes(key.id)) living.delete(at);
    for (const id of ids) byId.set(id, null);
  };

  return {
    ...sealing,
    erase: async (account, scope) => {
      const ids = livingIds(account, await nameOf(account, scope));
      destroy(ids);
      return ids;
    },
    livingKeys: async (account, scope) => {
      const name = scope.kind === 'everything' ? null : await nameOf(account, scope);
      return { scope: name ?? '*', ids: livingIds(account, name) };
    },
    destroyKeys: (_, ids) => {
      destroy(ids);
      return Promise.resolve();
    },
    forgetKeys: () => undefined,
  };
};
