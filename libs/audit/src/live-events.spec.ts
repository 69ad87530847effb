import { describe, expect, it } from '@jest/globals';
import { memoryEventStore, type EventStore } from '#event-store';
import type { NewEvent } from '#record';
import { followAccount, type LiveQuery, type LiveStep } from './live-events.js';

const append = async (store: EventStore, count: number, over: Partial<NewEvent> = {}, account = 'a'): Promise<void> => {
  for (let n = 0; n < count; n += 1) {
    await store.append({
      account,
      writes: [{ stream: 's', expectedVersion: 'any', events: [{ type: 'alarm.raised', data: { n }, ...over }] }],
    });
  }
};

/** Takes steps until `enough` events came, then stops. */
const take = async (store: EventStore, query: Partial<LiveQuery>, enough: number): Promise<readonly bigint[]> => {
  const end = new AbortController();
  const seen: bigint[] = [];
  for await (const step of followAccount(store, { account: 'a', after: -1n, ...query }, end.signal, 1000)) {
    if (step.kind === 'events') seen.push(...step.events.map(({ position }) => position));
    if (seen.length >= enough) end.abort();
  }
  return seen;
};

const upTo = (last: number, first = 0): readonly bigint[] =>
  Array.from({ length: last - first + 1 }, (_, n) => BigInt(n + first));

describe('following an account', () => {
  it('gives every event once and in order, what was there and what comes', async () => {
    const store = memoryEventStore();
    await append(store, 250);
    const following = take(store, {}, 400);
    await append(store, 75);
    await append(store, 10, {}, 'b');
    await append(store, 75);
    expect(await following).toEqual(upTo(399));
  });

  it('goes on after any position without a hole and without a repeat', async () => {
    const store = memoryEventStore();
    await append(store, 30);
    for (const after of [-1n, 0n, 13n, 28n]) {
      expect(await take(store, { after }, 29 - Number(after))).toEqual(upTo(29, Number(after) + 1));
    }
  });

  it('gives what was asked for only, however much lies between', async () => {
    const store = memoryEventStore();
    await append(store, 150);
    await append(store, 1, { type: 'settings.changed' });
    await append(store, 150);
    await append(store, 1, { type: 'settings.changed', sessionId: 'x' });
    expect(await take(store, { types: ['settings.changed'] }, 2)).toEqual([150n, 301n]);
    expect(await take(store, { sessionId: 'x' }, 1)).toEqual([301n]);
  });

  it('says how far there is nothing, so that a filtered reader need not come back to the beginning', async () => {
    const store = memoryEventStore();
    await append(store, 3);
    const end = new AbortController();
    const query: LiveQuery = { account: 'a', after: -1n, types: ['settings.changed'] };
    const steps: LiveStep[] = [];
    for await (const step of followAccount(store, query, end.signal, 5)) {
      steps.push(step);
      end.abort();
    }
    expect(steps).toEqual([{ kind: 'nothing', upTo: 2n }]);
  });

  it('reads no further than its reader', async () => {
    const store = memoryEventStore();
    await append(store, 1000);
    let reads = 0;
    const counting: EventStore = {
      ...store,
      readAccount: (account, range) => {
        reads += 1;
        return store.readAccount(account, range);
      },
    };
    const end = new AbortController();
    const steps = followAccount(counting, { account: 'a', after: -1n }, end.signal, 1000);
    await steps.next();
    await new Promise((resolve) => setImmediate(resolve));
    expect(reads).toBe(1);
    end.abort();
    await steps.return(undefined);
  });

  it('ends when it is told to, also while it waits', async () => {
    const end = new AbortController();
    const steps = followAccount(memoryEventStore(), { account: 'a', after: -1n }, end.signal, 60_000);
    const waiting = steps.next();
    end.abort();
    expect((await waiting).done).toBe(true);
  });
});
