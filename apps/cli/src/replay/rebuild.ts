import { setTimeout as delay } from 'node:timers/promises';
import type { Generation, Projection, RowDifference } from '#audit';
import {
  abandonLoading,
  beginLoading,
  compareTables,
  endLoading,
  handleEvents,
  indexLoaded,
  liveGeneration,
  loadEvents,
  openReadModels,
  takenApart,
  whileReplaying,
} from '#audit';
import type { EventStore, Sql, StoredEvent } from '#event-store';
import { Failure } from '../words.js';
import type { ReplaySource } from './source.js';

/** A rebuild of read models. */
export interface RebuildOrder {
  readonly sql: Sql;
  readonly store: EventStore;
  readonly projections: readonly Projection[];
  readonly source: ReplaySource;
  readonly check: boolean;
  readonly swap: boolean;
  /** Called after each step with how many of the source's positions are done. */
  readonly covered: (positions: number, events: number) => Promise<void>;
  /** Says what is being done. */
  readonly phase: (words: string) => void;
  readonly signal: AbortSignal;
}

/** What a rebuild found and did. */
export interface Rebuilt {
  /** Null when nothing was compared. At most `mostShown` are listed. */
  readonly differences: { readonly count: number; readonly shown: readonly RowDifference[] } | null;
  /** Events that a projection could not take. */
  readonly setAside: number;
  readonly swapped: readonly string[];
}

/** Differences that are kept; the others are counted. */
const mostShown = 1_000;

interface Model {
  readonly projection: Projection;
  readonly loading: Generation;
  /** Where the live tables stand that are compared; null when they are not. */
  readonly live: Generation | null;
}

/**
 * Rebuilds read models from the log beside the live tables, compares them where that is asked for, and swaps them in.
 * The live tables are read and written by others all the while. Whatever ends it before the swap, the tables that were
 * begun are dropped; after a kill, the next replay or a worker does so.
 */
export const rebuildModels = async (order: RebuildOrder): Promise<Rebuilt> => {
  const names = order.projections.map(({ name }) => name);
  // Where no worker has started yet there is not even the list of read models.
  await openReadModels(order.sql, []);
  const how = order.check ? 'snapshot' : 'lock';
  const built = await whileReplaying(order.sql, names, how, (held) => rebuildHeld(order, held));
  if (built === null) throw new Failure(`Another replay of ${names.join(' or ')} is under way. Nothing was changed.`);
  return built;
};

const rebuildHeld = async (order: RebuildOrder, held: Sql): Promise<Rebuilt> => {
  const models: Model[] = [];
  try {
    for (const projection of order.projections) {
      await refuseNewer(held, projection);
      const live = order.check ? await comparableLive(held, projection) : null;
      models.push({ projection, loading: await beginLoading(order.sql, projection), live });
    }
    const load = await loadModels(order, held, models);
    order.signal.throwIfAborted();
    const { differences, setAside } = load;
    if (!order.swap) {
      await dropAll(order.sql, models);
      return { differences, setAside, swapped: [] };
    }
    for (const { projection, loading } of models) {
      order.phase(`making the indexes of ${projection.name}`);
      await indexLoaded(order.sql, projection, loading);
      order.signal.throwIfAborted();
    }
    for (const { projection, loading } of models) await swapIn(order, projection, loading, load.reached);
    return { differences, setAside, swapped: models.map(({ projection }) => projection.name) };
  } catch (error) {
    await dropAll(order.sql, models).catch(() => undefined);
    throw error;
  }
};

/** Servers of a newer program could not read what this one would put in place. */
const refuseNewer = async (held: Sql, { name, version }: Projection): Promise<void> => {
  const live = await liveGeneration(held, name);
  if (live === null || live.version <= version) return;
  throw new Failure(`The live tables of ${name} were made by a newer Hookledger: replay with that one.`);
};

/** Tables that were handed over are no longer ours: dropping them finds nothing in state `loading`. */
const dropAll = async (sql: Sql, models: readonly Model[]): Promise<void> => {
  for (const { projection, loading } of models) await abandonLoading(sql, projection, loading);
};

const comparableLive = async (held: Sql, projection: Projection): Promise<Generation> => {
  const live = await liveGeneration(held, projection.name);
  if (live === null) throw new Failure(`There are no live tables of ${projection.name} to compare with.`);
  if (live.version !== projection.version) {
    throw new Failure(
      `The live tables of ${projection.name} are of version ${String(live.version)}, and this program builds ` +
        `${String(projection.version)}: they cannot be compared. Replay without --check.`,
    );
  }
  if (await takenApart(held, live)) {
    throw new Failure(
      `The live tables of ${projection.name} follow Kafka, and their partitions stand at different places: ` +
        'there is no one position to compare at. Ask again when less is written.',
    );
  }
  return live;
};

interface Load {
  readonly reached: bigint;
  readonly differences: Rebuilt['differences'];
  readonly setAside: number;
}

const loadModels = async (order: RebuildOrder, held: Sql, models: readonly Model[]): Promise<Load> => {
  const { source, signal, sql, store } = order;
  const comparing = new Set(models.filter(({ live }) => live !== null));
  const differences: RowDifference[] = [];
  let count = 0;
  let setAside = 0;
  let reached = -1n;
  const compare = async (model: Model): Promise<void> => {
    comparing.delete(model);
    order.phase(`comparing ${model.projection.name}`);
    await compareModel(order, held, model, (difference) => {
      count += 1;
      if (differences.length < mostShown) differences.push(difference);
    });
  };
  const load = async (model: Model, events: readonly StoredEvent[]): Promise<void> => {
    const { projection, loading, live } = model;
    const until = comparing.has(model) ? (live?.position ?? null) : null;
    const [before, after] = until === null ? [events, []] : splitAt(events, until);
    setAside += (await loadEvents(projection, loading, before, sql, store)).length;
    if (after.length === 0) return;
    await compare(model);
    setAside += (await loadEvents(projection, loading, after, sql, store)).length;
  };
  order.phase('reading the log');
  await source.read(async (events, covered) => {
    // While two models are compared in a step, the rows of both are read on one connection.
    if (comparing.size === 0) await Promise.all(models.map((model) => load(model, events)));
    else for (const model of models) await load(model, events);
    reached = events.at(-1)?.globalPosition ?? reached;
    await order.covered(covered, events.length);
  }, signal);
  signal.throwIfAborted();
  for (const model of comparing) await compare(model);
  return { reached, differences: order.check ? { count, shown: differences } : null, setAside };
};

const splitAt = (
  events: readonly StoredEvent[],
  until: bigint,
): readonly [readonly StoredEvent[], readonly StoredEvent[]] => {
  const at = events.findIndex(({ globalPosition }) => globalPosition > until);
  return at === -1 ? [events, []] : [events.slice(0, at), events.slice(at)];
};

/** Goes over both tables in one transaction of each side, since cursors live as long. */
const compareModel = async (
  order: RebuildOrder,
  held: Sql,
  { projection, live, loading }: Model,
  found: (difference: RowDifference) => void,
): Promise<void> => {
  if (live === null) return;
  await order.sql.transaction(async (tx) => {
    const rebuilt = { sql: tx, generation: loading };
    for await (const difference of compareTables(projection, { sql: held, generation: live }, rebuilt)) {
      found(difference);
      order.signal.throwIfAborted();
    }
  });
};

/** Hands the tables over, and follows the log with them until they take the place of the live ones. */
const swapIn = async (
  order: RebuildOrder,
  projection: Projection,
  loading: Generation,
  reached: bigint,
): Promise<void> => {
  const { sql, store } = order;
  order.phase(`putting ${projection.name} in place`);
  let { state } = await endLoading(sql, projection, loading, reached);
  let after = reached;
  while (state !== 'live') {
    const events = await store.readAll(after, 1_000);
    if (events.length === 0) await delay(50);
    after = events.at(-1)?.globalPosition ?? after;
    const handled = await sql.transaction((tx) => handleEvents(projection, loading, events, tx, store));
    state = handled.state;
    // A worker follows the same tables, and may have swapped them in; or others took their place in the meantime.
    if (state === 'retired') return;
    if (events.length === 0 && state === 'building') {
      const live = await liveGeneration(sql, projection.name);
      if (live?.generation === loading.generation) return;
    }
  }
};
