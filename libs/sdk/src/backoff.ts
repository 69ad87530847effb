/** How long to wait between attempts. */
export interface Backoff {
  /** The first wait is at most this, ms. */
  readonly firstMs: number;
  /** No wait is longer, ms, unless the server asks for one. */
  readonly mostMs: number;
}

/**
 * The wait before attempt `attempt + 1` (from 1): anything up to a bound that doubles ("full jitter"), so that clients
 * which failed together do not come back together. What the server asked for is the least.
 */
export const backoffMs = (
  { firstMs, mostMs }: Backoff,
  attempt: number,
  retryAfterMs: number | null,
  random: () => number,
): number => {
  const jitter = random() * Math.min(mostMs, firstMs * 2 ** Math.min(attempt - 1, 30));
  return Math.round(retryAfterMs === null ? jitter : retryAfterMs + Math.min(jitter, firstMs));
};

/** `Retry-After` in ms: seconds, or a date. Null: there is none that can be read. */
export const readRetryAfter = (header: string | null, now: number): number | null => {
  if (header === null) return null;
  if (/^\d{1,9}$/u.test(header.trim())) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
};

/** Resolves after `ms`; rejects with the signal's reason when that comes first. */
export const pause = (ms: number, signal: AbortSignal = never): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(reasonOf(signal));
      return;
    }
    const timer = setTimeout(
      () => {
        signal.removeEventListener('abort', stop);
        resolve();
      },
      // Longer ones are fired at once by timers of 32 bits.
      Math.min(ms, 2 ** 31 - 1),
    );
    const stop = (): void => {
      clearTimeout(timer);
      reject(reasonOf(signal));
    };
    signal.addEventListener('abort', stop, { once: true });
  });

const never = new AbortController().signal;

/** Why a signal was aborted, as something to throw. */
export const reasonOf = ({ reason }: AbortSignal): Error =>
  reason instanceof Error ? reason : new Error(`aborted: ${String(reason)}`);
