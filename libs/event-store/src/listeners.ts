/** Whom to tell after a commit. */
export interface Listeners {
  add(listener: () => void): () => void;
  tell(): void;
}

/** See `Listeners`. */
export const listeners = (): Listeners => {
  const all = new Set<() => void>();
  return {
    add: (listener) => {
      all.add(listener);
      return () => all.delete(listener);
    },
    tell: () => {
      for (const listener of all) listener();
    },
  };
};
