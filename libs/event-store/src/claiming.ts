import { setTimeout as delay } from 'node:timers/promises';
import type { Claim } from './event-store.js';
import { LogBusy } from './event-store.js';

/** One look at a claim: what `claim` answers, or that somebody else's lease still lives. */
export type ClaimTry = Claim | { readonly kind: 'held' };

/** Claims of this process that ended; tells waiters of the same process at once, others find out by polling. */
export interface ClaimEndings {
  ended(account: string, key: string): void;
  /** Resolves when the claim ended in this process, or after `ms`. */
  waitFor(account: string, key: string, ms: number): Promise<void>;
}

/** Tries until the claim is decided. Rejects with `LogBusy` when another holder keeps it longer than `waitMs`. */
export const claimPatiently = async (
  attempt: () => Promise<ClaimTry>,
  pause: (ms: number) => Promise<void>,
  waitMs: number,
): Promise<Claim> => {
  const deadline = performance.now() + waitMs;
  for (let pauseMs = 10; ; pauseMs = Math.min(pauseMs * 2, 250)) {
    const tried = await attempt();
    if (tried.kind !== 'held') return tried;
    const left = deadline - performance.now();
    if (left <= 0) throw new LogBusy('another request with this idempotency key is still running');
    await pause(Math.min(pauseMs, left));
  }
};

/** See `ClaimEndings`. */
export const claimEndings = (): ClaimEndings => {
  const waiting = new Map<string, Set<() => void>>();
  const nameOf = (account: string, key: string): string => `${account}\0${key}`;
  return {
    ended: (account, key) => {
      for (const wake of waiting.get(nameOf(account, key)) ?? []) wake();
    },
    waitFor: async (account, key, ms) => {
      const name = nameOf(account, key);
      const timer = new AbortController();
      const wakes = waiting.get(name) ?? new Set();
      const wake = (): void => timer.abort();
      waiting.set(name, wakes.add(wake));
      await delay(ms, undefined, { signal: timer.signal }).catch(() => undefined);
      wakes.delete(wake);
      if (wakes.size === 0) waiting.delete(name);
    },
  };
};
