import { setTimeout as delay } from 'node:timers/promises';

/** What a load of calls measured: how long each took, ms, and how long all of it took, s. */
export interface Load {
  readonly times: readonly number[];
  readonly seconds: number;
}

/** Every client calls again as soon as it was answered. */
export const closedLoop = async (clients: readonly (() => Promise<unknown>)[], durationMs: number): Promise<Load> => {
  const times: number[] = [];
  const started = performance.now();
  const client = async (call: () => Promise<unknown>): Promise<void> => {
    while (performance.now() - started < durationMs) {
      const before = performance.now();
      await call();
      times.push(performance.now() - before);
    }
  };
  await Promise.all(clients.map(client));
  return { times, seconds: (performance.now() - started) / 1000 };
};

/**
 * Calls at fixed times, answered or not, as a world outside does. A call's time counts from when it was due, so that a
 * server that stalls cannot hide the calls that waited for it.
 */
export const openLoop = async (call: () => Promise<unknown>, perSecond: number, durationMs: number): Promise<Load> => {
  const times: number[] = [];
  const started = performance.now();
  const calls: Promise<void>[] = [];
  for (let n = 0; n < (perSecond * durationMs) / 1000; n += 1) {
    const due = started + (n * 1000) / perSecond;
    await delay(Math.max(due - performance.now(), 0));
    calls.push(
      call().then(() => {
        times.push(performance.now() - due);
      }),
    );
  }
  await Promise.all(calls);
  return { times, seconds: (performance.now() - started) / 1000 };
};
