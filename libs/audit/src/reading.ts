import { setTimeout as sleep } from 'node:timers/promises';
import type { EventStore, Sql } from '#event-store';
import { reachedGenerations, tableNames, type Generation } from './read-models.js';
import type { Projection, TableName } from './projection.js';

/** Tables to read, and how far they are for one account. */
export interface Reading {
  readonly table: TableName;
  /** Account position up to which the read model is complete; null when the account has no events in it. */
  readonly completeUpTo: bigint | null;
}

/** The tables of this version are not there and the old ones cannot be read: they are being built. HTTP: 503. */
export class ReadModelMissing extends Error {
  override readonly name = 'ReadModelMissing';
}

/** How long a read waits for what was in the log when it came, ms. */
const patienceMs = 1000;

/** A read model that is further behind than this is not waited for: it is being built, or far too slow. */
const hopelessLag = 50_000n;

/**
 * Opens a projection for reading. Whoever fires and reads at once sees what he fired: the read waits until the read
 * model holds everything that the log had when the read came, for a second at most; `completeUpTo` says how far it is.
 */
export const openReading = async (
  sql: Sql,
  store: EventStore,
  projection: Projection,
  account: string,
): Promise<Reading> => {
  // The size first: everything below it lies at or below the head that is read after it.
  const size = await store.accountSize(account);
  const head = await store.head();
  const generation = await waitFor(sql, projection, head);
  const table = tableNames(generation.generation);
  if (generation.position >= head) return { table, completeUpTo: size === 0n ? null : size - 1n };
  return { table, completeUpTo: await reachedPosition(store, account, size, generation.position) };
};

const waitFor = async (sql: Sql, projection: Projection, head: bigint): Promise<Generation> => {
  const until = Date.now() + patienceMs;
  for (let pause = 2; ; pause = Math.min(pause * 2, 25)) {
    const generation = await readable(sql, projection);
    const behind = head - generation.position;
    if (behind <= 0n || behind > hopelessLag || Date.now() >= until) return generation;
    await sleep(pause);
  }
};

const readable = async (sql: Sql, projection: Projection): Promise<Generation> => {
  const all = await reachedGenerations(sql, projection.name);
  const live = all.find(({ state }) => state === 'live');
  if (live !== undefined && canRead(projection, live.version)) return live;
  const building = all.find(({ version }) => version === projection.version);
  if (building !== undefined) return building;
  throw new ReadModelMissing(`read model ${projection.name} is not there yet`);
};

const canRead = (projection: Projection, version: number): boolean =>
  version === projection.version || (projection.reads ?? []).includes(version);

/** Greatest account position at or below a global one: positions of both kinds grow together, so halving finds it. */
const reachedPosition = async (
  store: EventStore,
  account: string,
  size: bigint,
  global: bigint,
): Promise<bigint | null> => {
  let low = -1n;
  let high = size - 1n;
  while (low < high) {
    const middle = (low + high + 1n) / 2n;
    const [stored] = await store.readAccount(account, { after: middle - 1n, until: middle, limit: 1 });
    if (stored !== undefined && stored.globalPosition <= global) low = middle;
    else high = middle - 1n;
  }
  return low < 0n ? null : low;
};
