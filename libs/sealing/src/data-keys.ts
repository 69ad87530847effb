import { LRUCache } from 'lru-cache';
import type { Sql } from '#event-store';
import type { DataKeys } from './keyed-sealing.js';
import type { MasterKey } from './master-key.js';
import { MasterKeyProblem, unwrapKey, wrapKey } from './master-key.js';
import type { KeyName, SealingKey } from './sealing-key.js';
import { newDataKey, newKeyId, sealingKey } from './sealing-key.js';

/** Table `data_key`, with bounded caches. */
export interface StoredDataKeys extends DataKeys {
  /** Destroys the living keys of a scope; answers with their ids. */
  destroy(account: string, scope: string): Promise<readonly string[]>;
}

interface KeyRow {
  readonly id: string;
  readonly account: string;
  readonly scope: string;
  readonly wrapped: Buffer | null;
  readonly master: string;
}

/**
 * How long a cached key is believed to live, ms: another replica may destroy it, and nothing is sealed or opened under
 * a key that was destroyed longer ago than this.
 */
const trustMs = 5_000;

/** Keys unwrapped under any of these masters; new ones are wrapped under the first. */
export const storedDataKeys = (sql: Sql, masters: readonly [MasterKey, ...MasterKey[]]): StoredDataKeys => {
  const living = new LRUCache<string, SealingKey>({ max: 10_000, ttl: trustMs });
  const byId = new LRUCache<string, SealingKey>({ max: 20_000, ttl: trustMs });
  // Unwrapped keys outlive their trust: a second look at the table needs no second unwrapping.
  const unwrapped = new LRUCache<string, SealingKey>({ max: 20_000 });
  const asked = new Map<string, Promise<SealingKey>>();

  const keyOf = (row: KeyRow & { readonly wrapped: Buffer }): SealingKey => {
    const known = unwrapped.get(row.id);
    if (known !== undefined) return known;
    const master = masters.find(({ id }) => id === row.master);
    if (master === undefined) {
      throw new MasterKeyProblem(`data keys are wrapped by master key ${row.master}, which this server was not given`);
    }
    const name = { id: row.id, account: row.account, scope: row.scope };
    const key = sealingKey(name, unwrapFound(master, name, row.wrapped));
    unwrapped.set(row.id, key);
    return key;
  };

  const remember = (key: SealingKey): SealingKey => {
    living.set(cacheKey(key.account, key.scope), key);
    byId.set(key.id, key);
    return key;
  };

  /** Two replicas that make a key for one scope at once keep the one whose row came first. */
  const findOrMake = async (account: string, scope: string): Promise<SealingKey> => {
    for (;;) {
      const [row] = await sql.query<KeyRow>(selectLiving, [account, scope]);
      if (isLiving(row)) return remember(keyOf(row));
      const name = { id: newKeyId(), account, scope };
      const [master] = masters;
      await sql.query(insertKey, [name.id, account, scope, wrapKey(master, name, newDataKey()), master.id]);
    }
  };

  const current = (account: string, scope: string): Promise<SealingKey> => {
    const at = cacheKey(account, scope);
    const known = living.get(at);
    if (known !== undefined) return Promise.resolve(known);
    const pending = asked.get(at) ?? findOrMake(account, scope).finally(() => asked.delete(at));
    asked.set(at, pending);
    return pending;
  };

  return {
    current,
    byId: async (id) => {
      const known = byId.get(id);
      if (known !== undefined) return known;
      const [row] = await sql.query<KeyRow>(selectById, [id]);
      if (row === undefined) throw new Error('a sealed value names a data key that does not exist');
      if (!isLiving(row)) {
        unwrapped.delete(id);
        return null;
      }
      const key = keyOf(row);
      byId.set(id, key);
      return key;
    },
    destroy: async (account, scope) => {
      const rows = await sql.query<{ id: string }>(destroyKeys, [account, scope]);
      living.delete(cacheKey(account, scope));
      for (const { id } of rows) {
        byId.delete(id);
        unwrapped.delete(id);
      }
      return rows.map(({ id }) => id);
    },
  };
};

/**
 * Wraps every data key that is under the old master key under the new one; touches no event. Can be run again after a
 * failure. Answers with how many were rewrapped.
 */
export const rewrapDataKeys = async (sql: Sql, from: MasterKey, to: MasterKey): Promise<number> => {
  let done = 0;
  for (;;) {
    const count = await sql.transaction((inside) => rewrapSome(inside, from, to));
    if (count === 0) return done;
    done += count;
  }
};

const rewrapSome = async (sql: Sql, from: MasterKey, to: MasterKey): Promise<number> => {
  const rows = await sql.query<KeyRow & { wrapped: Buffer }>(selectUnderMaster, [from.id]);
  for (const row of rows) {
    const name = { id: row.id, account: row.account, scope: row.scope };
    await sql.query(updateWrapped, [row.id, wrapKey(to, name, unwrapFound(from, name, row.wrapped)), to.id]);
  }
  return rows.length;
};

const unwrapFound = (master: MasterKey, name: KeyName, wrapped: Buffer): Buffer => {
  try {
    return unwrapKey(master, name, wrapped);
  } catch {
    throw new MasterKeyProblem(`data key ${name.id} does not open under master key ${master.id}: its row was changed`);
  }
};

const columns = 'id, account, scope, wrapped, master';
const selectLiving = `select ${columns} from data_key where account = $1 and scope = $2 and wrapped is not null`;
const selectById = `select ${columns} from data_key where id = $1`;
const selectUnderMaster = `select ${columns} from data_key where master = $1 and wrapped is not null
  limit 500 for update`;
const insertKey = `insert into data_key (id, account, scope, wrapped, master) values ($1, $2, $3, $4, $5)
  on conflict (account, scope) where wrapped is not null do nothing`;
const updateWrapped = 'update data_key set wrapped = $2, master = $3 where id = $1';
const destroyKeys = `update data_key set wrapped = null, erased_at = now()
  where account = $1 and scope = $2 and wrapped is not null returning id`;

const cacheKey = (account: string, scope: string): string => `${account}\0${scope}`;

const isLiving = (row: KeyRow | undefined): row is KeyRow & { readonly wrapped: Buffer } =>
  row !== undefined && row.wrapped !== null;
