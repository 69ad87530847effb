import {
  asData,
  type InjectionDrained,
  type InjectionDropped,
  type InjectionExpired,
  type NewEvent,
  type QueuedInjection,
  type RecordedEvent,
  type Sealed,
} from '#record';

/**
 * What waits for a session's next turn (openclaw.md §14): pure, over the events of the queue's own stream. A drain
 * empties the queue whole, so whoever reads back to one needs nothing before it.
 */
export interface InjectionQueue<C = Sealed> {
  /** In the order of enqueuing. */
  readonly entries: readonly QueuedInjection<C>[];
  /** What the newest runs were given, by run; oldest first. */
  readonly runs: ReadonlyMap<string, readonly QueuedInjection<C>[]>;
}

/** Most that may wait of one plugin in one session, and runs that see again what they were given. */
export const queueLimits = { perPlugin: 32, runs: 256 } as const;

export const emptyQueue: InjectionQueue<never> = { entries: [], runs: new Map() };

/** The queue after one of its events. */
export const evolveQueue = <C = Sealed>(
  queue: InjectionQueue<C>,
  { type, data }: Pick<NewEvent | RecordedEvent, 'type' | 'data'>,
): InjectionQueue<C> => {
  switch (type) {
    case 'injection.enqueued':
      return { ...queue, entries: [...queue.entries, data as unknown as QueuedInjection<C>] };
    case 'injection.expired':
    case 'injection.dropped':
      return { ...queue, entries: without(queue.entries, (data as unknown as InjectionExpired).injectionIds) };
    case 'injection.drained':
      return { entries: [], runs: withRun(queue.runs, data as unknown as InjectionDrained<C>) };
    default:
      return queue;
  }
};

const without = <C>(entries: readonly QueuedInjection<C>[], gone: readonly string[]): readonly QueuedInjection<C>[] => {
  const ids = new Set(gone);
  return entries.filter(({ injectionId }) => !ids.has(injectionId));
};

const withRun = <C>(
  runs: InjectionQueue<C>['runs'],
  { run, injections }: InjectionDrained<C>,
): InjectionQueue<C>['runs'] => {
  if (run === undefined || runs.has(run)) return runs;
  const newest = [...runs, [run, injections] as const].slice(-queueLimits.runs);
  return new Map(newest);
};

/** What becomes of an injection that is to be put into the queue. */
export interface Enqueuing {
  readonly events: readonly NewEvent[];
  /** `duplicate`: its key waits already, and the first text stays. `full`: its plugin has as many as it may. */
  readonly kind: 'enqueued' | 'duplicate' | 'full';
  /** The injection that waits, if one does. */
  readonly injectionId: string;
}

/** Puts an injection into the queue, after what has expired of its plugin is out of it. */
export const decideEnqueue = <C>(queue: InjectionQueue<C>, wanted: QueuedInjection<C>, now: Date): Enqueuing => {
  const own = queue.entries.filter(({ pluginId }) => pluginId === wanted.pluginId);
  const live = own.filter((entry) => !isExpired(entry, now));
  const events = expired(own.filter((entry) => isExpired(entry, now)));
  const { keyDigest, injectionId } = wanted;
  const twin = keyDigest === null ? undefined : live.find((entry) => entry.keyDigest === keyDigest);
  if (twin !== undefined) return { kind: 'duplicate', injectionId: twin.injectionId, events };
  if (live.length >= queueLimits.perPlugin) return { kind: 'full', injectionId, events };
  return {
    kind: 'enqueued',
    injectionId,
    events: [...events, { type: 'injection.enqueued', pluginId: wanted.pluginId, data: asData(wanted) }],
  };
};

/** An entry expires when it is older than its time, not when it is as old. */
const isExpired = ({ ttlMs, createdAt }: QueuedInjection<unknown>, now: Date): boolean =>
  ttlMs !== null && now.getTime() - Date.parse(createdAt) > ttlMs;

/** Who drains a queue, and what of it may be heard. */
export interface Drain {
  readonly by: InjectionDrained['by'];
  /** Null: nobody named the run, and nobody can ask for the same again. */
  readonly run: string | null;
  readonly invocationId: string | null;
  readonly now: Date;
  /** Why an entry is lost with the queue; null: the turn gets it. */
  readonly lost: (entry: QueuedInjection<unknown>) => 'not_loaded' | 'not_allowed' | 'erased' | null;
}

export interface Drained<C> {
  readonly events: readonly NewEvent[];
  /** What the turn gets, in the order that it reads it. */
  readonly injections: readonly QueuedInjection<C>[];
  /** The run had drained before, and gets the same again. */
  readonly repeated: boolean;
}

/** Empties the queue for a turn. What has expired, or nobody may hear, is lost with it, and named in an event. */
export const decideDrain = <C>(queue: InjectionQueue<C>, drain: Drain): Drained<C> => {
  const before = drain.run === null ? undefined : queue.runs.get(drain.run);
  if (before !== undefined) return { events: [], injections: before, repeated: true };
  if (queue.entries.length === 0) return { events: [], injections: [], repeated: false };
  const live = queue.entries.filter((entry) => !isExpired(entry, drain.now));
  const injections = inTurnOrder(live.filter((entry) => drain.lost(entry) === null));
  const losses = causes.flatMap((cause) =>
    dropped(
      live.filter((entry) => drain.lost(entry) === cause),
      cause,
    ),
  );
  const data: InjectionDrained<C> = {
    injections,
    by: drain.by,
    ...(drain.run === null ? {} : { run: drain.run }),
    ...(drain.invocationId === null ? {} : { firedBy: drain.invocationId }),
  };
  return {
    events: [
      ...expired(queue.entries.filter((entry) => isExpired(entry, drain.now))),
      ...losses,
      { type: 'injection.drained', data: asData(data) },
    ],
    injections,
    repeated: false,
  };
};

const causes = ['not_loaded', 'not_allowed', 'erased'] as const;

/** Oldest first; of one moment plugin by plugin, in the order of their first, as the real queue is kept. */
const inTurnOrder = <C>(entries: readonly QueuedInjection<C>[]): readonly QueuedInjection<C>[] => {
  const plugins = [...new Set(entries.map(({ pluginId }) => pluginId))];
  return plugins
    .flatMap((plugin) => entries.filter(({ pluginId }) => pluginId === plugin))
    .sort((left, right) => Date.parse(left.createdAt) - Date.parse(right.createdAt));
};

/** Takes what waits out of the queue with its session, or with its plugin. */
export const decideDrop = (
  queue: InjectionQueue<unknown>,
  cause: 'reset' | 'delete' | 'disable',
  pluginId: string | null,
): readonly NewEvent[] =>
  dropped(
    queue.entries.filter((entry) => pluginId === null || entry.pluginId === pluginId),
    cause,
  );

const expired = (entries: readonly QueuedInjection<unknown>[]): readonly NewEvent[] =>
  entries.length === 0 ? [] : [{ type: 'injection.expired', data: asData({ injectionIds: entries.map(idOf) }) }];

const dropped = (
  entries: readonly QueuedInjection<unknown>[],
  cause: InjectionDropped['cause'],
): readonly NewEvent[] =>
  entries.length === 0 ? [] : [{ type: 'injection.dropped', data: asData({ injectionIds: entries.map(idOf), cause }) }];

const idOf = ({ injectionId }: QueuedInjection<unknown>): string => injectionId;
