import { describe, expect, it } from '@jest/globals';
import type { Sql, StoredEvent } from '#event-store';
import { resting } from './resting.js';

const sql = {} as Sql;
const few: readonly StoredEvent[] = [];
const full = [{}, {}] as unknown as readonly StoredEvent[];

/** A store whose commits a test makes. */
const commits = () => {
  const listeners = new Set<(events: readonly StoredEvent[]) => void>();
  return {
    onAppended: (listener: (events: readonly StoredEvent[]) => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    commit: (times: number) => {
      for (let n = 0; n < times; n += 1) for (const listener of listeners) listener(few);
    },
  };
};

/** Whether the handler had been called by the time that pending promises were through. */
const isTakenAtOnce = async (batch: () => Promise<void>, taken: () => number): Promise<boolean> => {
  const before = taken();
  const done = batch();
  await new Promise((resolve) => setImmediate(resolve));
  const atOnce = taken() > before;
  await done;
  return atOnce;
};

describe('a resting follower', () => {
  it('takes single appends and a backlog at once, and rests while appends come one after another unless it is behind', async () => {
    let count = 0;
    const store = commits();
    const handle = resting(
      () => {
        count += 1;
        return Promise.resolve();
      },
      { pauseMs: 20, share: 0 },
      2,
      { onAppended: (listener) => store.onAppended(listener) },
    );
    const atOnce = (batch = few): Promise<boolean> =>
      isTakenAtOnce(
        () => handle(batch, sql),
        () => count,
      );
    expect(await atOnce()).toBe(true);
    store.commit(1);
    expect(await atOnce()).toBe(true);
    store.commit(10);
    expect(await atOnce()).toBe(false);
    expect(await atOnce()).toBe(true);
    store.commit(10);
    expect(await atOnce(full)).toBe(true);
    expect(count).toBe(5);
  });
});
