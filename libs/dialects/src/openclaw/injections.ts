import type { Json } from '#record';
import { fitsJsonLimits } from './json-limits.js';

/** Bounds of the queue of one session (openclaw.md §14). */
export const injectionLimits = { textUnits: 32_768, keyUnits: 512, perPlugin: 32 } as const;

export interface Injection {
  readonly id: string;
  readonly pluginId: string;
  readonly text: string;
  readonly idempotencyKey: string | null;
  readonly placement: 'prepend_context' | 'append_context';
  /** Null: it never expires. */
  readonly ttlMs: number | null;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly metadata?: Json;
}

/** What waits for a session's next turn, each plugin's in the order of enqueuing, plugins in the order of their first. */
export type InjectionQueue = readonly Injection[];

export interface Enqueued {
  readonly queue: InjectionQueue;
  readonly enqueued: boolean;
  /** Of the entry; of the one that was there before, where the key was used; '' where it was refused. */
  readonly id: string;
}

/** Puts an injection into a session's queue. Whatever is wrong with it is no error: it is just not enqueued. */
export const enqueueInjection = (
  queue: InjectionQueue,
  pluginId: string,
  asked: unknown,
  { now, newId }: { readonly now: number; readonly newId: () => string },
): Enqueued => {
  const injection = readInjection(pluginId, asked, now, newId);
  if (injection === null) return { queue, enqueued: false, id: '' };
  const live = queue.filter((entry) => entry.pluginId !== pluginId || !isExpired(entry, now));
  const own = live.filter((entry) => entry.pluginId === pluginId);
  const { idempotencyKey } = injection;
  const twin = idempotencyKey === null ? undefined : own.find((entry) => entry.idempotencyKey === idempotencyKey);
  if (twin !== undefined) return { queue: live, enqueued: false, id: twin.id };
  if (own.length >= injectionLimits.perPlugin) return { queue: live, enqueued: false, id: injection.id };
  return { queue: [...live, injection], enqueued: true, id: injection.id };
};

const readInjection = (pluginId: string, asked: unknown, now: number, newId: () => string): Injection | null => {
  if (typeof asked !== 'object' || asked === null) return null;
  const { text, idempotencyKey, placement, ttlMs, metadata } = asked as { readonly [field: string]: unknown };
  const words = typeof text === 'string' ? text.trim() : '';
  if (words === '' || words.length > injectionLimits.textUnits) return null;
  if (metadata !== undefined && !fitsJsonLimits(metadata)) return null;
  const key = typeof idempotencyKey === 'string' ? idempotencyKey.trim() : '';
  if (idempotencyKey !== undefined && (key === '' || key.length > injectionLimits.keyUnits)) return null;
  if (placement !== undefined && placement !== 'prepend_context' && placement !== 'append_context') return null;
  if (ttlMs !== undefined && !(typeof ttlMs === 'number' && Number.isFinite(ttlMs) && ttlMs >= 0)) return null;
  return {
    id: key === '' ? newId() : key,
    pluginId,
    text: words,
    idempotencyKey: key === '' ? null : key,
    placement: placement ?? 'prepend_context',
    ttlMs: ttlMs ?? null,
    createdAt: now,
    ...(metadata === undefined ? {} : { metadata }),
  };
};

/** An entry expires when it is older than its time, not when it is as old. */
const isExpired = ({ ttlMs, createdAt }: Injection, now: number): boolean => ttlMs !== null && now - createdAt > ttlMs;

export interface Drained {
  /** What the turn gets, oldest first. */
  readonly injections: readonly Injection[];
  readonly prependContext?: string;
  readonly appendContext?: string;
}

/**
 * Empties a session's queue for a turn. `isHeard`: the plugin is loaded and may inject; what others left is lost with
 * the queue, as is what has expired.
 */
export const drainInjections = (
  queue: InjectionQueue,
  now: number,
  isHeard: (pluginId: string) => boolean,
): Drained => {
  const plugins = [...new Set(queue.map(({ pluginId }) => pluginId))].filter(isHeard);
  const injections = plugins
    .flatMap((plugin) => queue.filter((entry) => entry.pluginId === plugin && !isExpired(entry, now)))
    .sort((left, right) => left.createdAt - right.createdAt);
  const joined = (placement: Injection['placement']): string =>
    injections
      .filter((entry) => entry.placement === placement)
      .map(({ text }) => text)
      .join('\n\n');
  const [before, after] = [joined('prepend_context'), joined('append_context')];
  return {
    injections,
    ...(before === '' ? {} : { prependContext: before }),
    ...(after === '' ? {} : { appendContext: after }),
  };
};
