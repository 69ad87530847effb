import type { CallAnswer, GuestCall } from '#sandbox';

/** Longest that one timer holds, ms. */
const mostMs = 2_147_483_647;

/** Answers when the time that a handler asked for is over, or when nobody waits any more. */
export const afterTimer = ({ args, signal }: Pick<GuestCall, 'args' | 'signal'>): Promise<CallAnswer> =>
  new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve({ kind: 'value', json: 'null' });
    };
    const timer = setTimeout(end, msIn(args));
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
  });

const msIn = (args: string | null): number => {
  const [ms] = parsed(args ?? '');
  return typeof ms === 'number' && Number.isFinite(ms) ? Math.min(Math.max(1, ms), mostMs) : 1;
};

const parsed = (args: string): readonly unknown[] => {
  try {
    const list: unknown = JSON.parse(args);
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
};
