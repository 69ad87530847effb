import type { StoredEvent } from './event-store.js';

/** Whoever wants to know what this process committed. */
export type AppendedListener = (events: readonly StoredEvent[]) => void;

/** Whom to tell after a commit. */
export interface Listeners {
  add(listener: AppendedListener): () => void;
  tell(events: readonly StoredEvent[]): void;
}

/** See `Listeners`. */
export const listeners = (): Listeners => {
  const all = new Set<AppendedListener>();
  return {
    add: (listener) => {
      all.add(listener);
      return () => all.delete(listener);
    },
    tell: (events) => {
      for (const listener of all) listener(events);
    },
  };
};
