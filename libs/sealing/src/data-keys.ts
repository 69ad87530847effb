import { LRUCache } from 'lru-cache';
import type { Sql } from '#event-store';
import type { DataKeys } from './keyed-sealing.js';
import type { MasterKey } from './master-key.js';
import { MasterKeyProblem, unwrapKey, wrapKey } from './master-key.js';
import type { KeyName, SealingKey } from './sealing-key.js';
import { newDataKey, newKeyId, sealingKey } from './sealing-key.js';
import type { MasterKeys } from './master-keys.js';

/** Table `data_key`, with bounded caches. */
export interface StoredDataKeys extends DataKeys {
  /** Destroys the living keys of a scope; answers with their ids. */
  destroy(account: string, scope: string): Promise<readonly string[]>;
  /** Ids of the living keys of a scope; null = of all scopes of the account. */
  living(account: string, scope: string | null): Promise<readonly string[]>;
  destroyById(account: string, ids: readonly string[]): Promise<void>;
  /** Drops destroyed keys from memory. */
  forget(ids: readonly string[]): void;
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

/** Keys unwrapped under any of these masters; new ones are wrapped under the one in force. */
export const storedDataKeys = (sql: Sql, masters: MasterKeys): StoredDataKeys => {
  const living = new LRUCache<string, SealingKey>({ max: 10_000, ttl: trustMs });
  const byId = new LRUCache<string, SealingKey>({ max: 20_000, ttl: trustMs });
  // Unwrapped keys outlive their trust: a second look at the table needs no second unwrapping.
  const unwrapped = new LRUCache<string, SealingKey>({ max: 20_000 });
  const asked = new Map<string, Promise<SealingKey>>();
  // A look at the table that was under way when a key was destroyed must not bring it back.
  const gone = new LRUCache<string, true>({ max: 50_000 });

  const forget = (ids: readonly string[]): void => {
    const set = new Set(ids);
    for (const id of ids) {
      gone.set(id, true);
      byId.delete(id);
      unwrapped.delete(id);
    }
    for (const [at, key] of living.entries()) if (set.has(key.id)) living.delete(at);
  };

  const keyOf = (row: KeyRow & { readonly wrapped: Buffer }): SealingKey => {
    const known = unwrapped.get(row.id);
    if (known !== undefined) return known;
    const key = sealingKey(nameOf(row), unwrapRow(masters, row));
    unwrapped.set(row.id, key);
    return key;
  };

  const remember = (key: SealingKey): SealingKey => {
    if (gone.has(key.id)) return key;
    living.set(cacheKey(key.account, key.scope), key);
    byId.set(key.id, key);
    return key;
  };

  const findOrMake = async (account: string, scope: string): Promise<SealingKey> =>
    remember(keyOf(await findOrMakeRow(sql, masters, account, scope)));

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
      if (gone.has(id)) return null;
      const key = keyOf(row);
      byId.set(id, key);
      return key;
    },
    destroy: async (account, scope) => {
      const rows = await sql.query<{ id: string }>(destroyKeys, [account, scope]);
      const ids = rows.map(({ id }) => id);
      forget(ids);
      return ids;
    },
    living: async (account, scope) => {
      const rows = await sql.query<{ id: string }>(selectLivingIds, [account, scope, rootScope]);
      return rows.map(({ id }) => id);
    },
    destroyById: async (account, ids) => {
      await sql.query(destroyKeysById, [account, ids, rootScope]);
      forget(ids);
    },
    forget,
  };
};

/** Account and scope of the secret that everything is derived from that must outlive a master key. */
const rootAccount = 'system';
const rootScope = 'root';

/**
 * The root secret of this installation, made when there is none: 32 bytes from which row tags, tokens, cursors and the
 * wrapping of log keys are derived, each with a label of its own. It is a data key under the master key, so a rotation
 * rewraps it like any other and changes nothing that was derived (ADR 8). Throws `MasterKeyProblem` where the database
 * is under a master key that was not given.
 */
export const openRootSecret = async (sql: Sql, masters: MasterKeys): Promise<Buffer> =>
  unwrapRow(masters, await findOrMakeRow(sql, masters, rootAccount, rootScope));

/** As `openRootSecret`, but makes none: null in a database that no server has started on. */
export const readRootSecret = async (sql: Sql, masters: MasterKeys): Promise<Buffer | null> => {
  const [row] = await sql.query<KeyRow>(selectLiving, [rootAccount, rootScope]);
  return isLiving(row) ? unwrapRow(masters, row) : null;
};

/**
 * The living key of a scope. Two replicas that make one at once keep the one whose row came first; one that is wrapped
 * under a master key that has just gone out of force is not written, and is made again under the next.
 */
const findOrMakeRow = async (sql: Sql, masters: MasterKeys, account: string, scope: string): Promise<LivingRow> => {
  for (;;) {
    const [row] = await sql.query<KeyRow>(selectLiving, [account, scope]);
    if (isLiving(row)) return row;
    const master = await masterInForce(sql, masters);
    const name = { id: newKeyId(), account, scope };
    await sql.query(insertKey, [name.id, account, scope, wrapKey(master, name, newDataKey()), master.id]);
  }
};

/** The master key that new keys go under. The first server of an installation puts its own in force. */
const masterInForce = async (sql: Sql, masters: MasterKeys): Promise<MasterKey> => {
  const [row] = await sql.query<{ id: string }>('select id from master_in_force');
  if (row !== undefined) return knownMaster(masters, row.id);
  await sql.query('insert into master_in_force (id) values ($1) on conflict do nothing', [masters.first.id]);
  return masterInForce(sql, masters);
};

const knownMaster = (masters: MasterKeys, id: string): MasterKey => {
  const master = masters.byId(id);
  if (master !== undefined) return master;
  throw new MasterKeyProblem(
    `data keys are wrapped by master key ${id}, which this program was not given (it has ${masters.first.id})`,
  );
};

const unwrapRow = (masters: MasterKeys, row: LivingRow): Buffer =>
  unwrapFound(knownMaster(masters, row.master), nameOf(row), row.wrapped);

const nameOf = ({ id, account, scope }: KeyRow): KeyName => ({ id, account, scope });

/** How a rotation stands. */
export interface MasterInForce {
  /** New keys go under this one; null before the first start. */
  readonly id: string | null;
  /** The one before it. */
  readonly former: string | null;
  /** Living data keys by the master key that they are under. */
  readonly keys: ReadonlyMap<string, number>;
}

/** Which master key is in force, and how many keys are under which. */
export const readMasterInForce = async (sql: Sql): Promise<MasterInForce> => {
  const [row] = await sql.query<{ id: string; former: string | null }>('select id, former from master_in_force');
  const counts = await sql.query<{ master: string; keys: string }>(
    'select master, count(*) as keys from data_key where wrapped is not null group by master',
  );
  return {
    id: row?.id ?? null,
    former: row?.former ?? null,
    keys: new Map(counts.map(({ master, keys }) => [master, Number(keys)])),
  };
};

/**
 * Puts a master key in force: from its commit on, no key is made under another one, by no replica. Waits for those that
 * are being made. False when another one than `from` was in force; true, too, when `to` is already.
 */
export const putMasterInForce = async (sql: Sql, from: MasterKey, to: MasterKey): Promise<boolean> => {
  const [moved] = await sql.query(
    'update master_in_force set id = $2, former = $1, since = now() where id = $1 returning id',
    [from.id, to.id],
  );
  if (moved !== undefined) return true;
  const [row] = await sql.query<{ id: string }>('select id from master_in_force');
  return row?.id === to.id;
};

/**
 * Wraps every data key that is under the old master key under the new one; touches no event. Can be run again after a
 * failure. Answers with how many were rewrapped.
 */
export const rewrapDataKeys = async (
  sql: Sql,
  from: MasterKey,
  to: MasterKey,
  onProgress: (done: number) => void = () => undefined,
): Promise<number> => {
  let done = 0;
  for (;;) {
    const count = await sql.transaction((inside) => rewrapSome(inside, from, to));
    if (count === 0) return done;
    done += count;
    onProgress(done);
  }
};

const rewrapSome = async (sql: Sql, from: MasterKey, to: MasterKey): Promise<number> => {
  const rows = await sql.query<KeyRow & { wrapped: Buffer }>(selectUnderMaster, [from.id]);
  const rewrapped = rows.map((row) => wrapKey(to, nameOf(row), unwrapFound(from, nameOf(row), row.wrapped)));
  if (rows.length > 0) await sql.query(updateWrapped, [rows.map(({ id }) => id), rewrapped, to.id]);
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
// The lock makes a rotation wait for this key, and this key for a rotation, whose master it then is not under.
const insertKey = `insert into data_key (id, account, scope, wrapped, master)
  select $1, $2, $3, $4, m.id from master_in_force m where m.id = $5 for key share
  on conflict (account, scope) where wrapped is not null do nothing`;
const updateWrapped = `update data_key k set wrapped = n.wrapped, master = $3
  from unnest($1::text[], $2::bytea[]) n(id, wrapped) where k.id = n.id`;
const destroyKeys = `update data_key set wrapped = null, erased_at = now()
  where account = $1 and scope = $2 and wrapped is not null returning id`;

// The root secret is nobody's content, and everything derived hangs on it: no erasure reaches it.
const selectLivingIds = `select id from data_key
  where account = $1 and ($2::text is null or scope = $2) and scope <> $3 and wrapped is not null order by id`;
const destroyKeysById = `update data_key set wrapped = null, erased_at = now()
  where account = $1 and id = any ($2::text[]) and scope <> $3 and wrapped is not null`;

const cacheKey = (account: string, scope: string): string => `${account}\0${scope}`;

type LivingRow = KeyRow & { readonly wrapped: Buffer };

const isLiving = (row: KeyRow | undefined): row is LivingRow => row !== undefined && row.wrapped !== null;
