import { describe, expect, it } from '@jest/globals';
import { accountSizes } from './account-sizes.js';

const events = (counts: { readonly [account: string]: number }): ReadonlyMap<string, number> =>
  new Map(Object.entries(counts));
const sizes = (found: { readonly [account: string]: bigint }): ReadonlyMap<string, bigint> =>
  new Map(Object.entries(found));

describe('the size that a batch is tagged for', () => {
  it('is what is known and what is on its way before it', () => {
    const all = accountSizes();
    all.reached('a', 10n);
    const first = all.depart(events({ a: 3, b: 1 }));
    const second = all.depart(events({ a: 2 }));
    expect([first.sizeOf('a'), first.sizeOf('b'), second.sizeOf('a')]).toEqual([10n, 0n, 13n]);
    first.land();
    all.reached('a', 13n);
    expect(all.depart(events({ a: 1 })).sizeOf('a')).toBe(15n);
  });

  it('is never less for an answer that comes late', () => {
    const all = accountSizes();
    all.reached('a', 12n);
    all.reached('a', 10n);
    expect(all.depart(events({ a: 1 })).sizeOf('a')).toBe(12n);
  });

  it('is corrected at once where others were faster, and looked up for a while then', async () => {
    const all = accountSizes();
    all.reached('a', 10n);
    const flight = all.depart(events({ a: 1 }));
    expect(all.contended()).toBe(false);
    await flight.missed(sizes({ a: 25n }));
    expect(all.contended()).toBe(true);
    expect(all.depart(events({ a: 1 })).sizeOf('a')).toBe(25n);
  });

  it('is looked up no longer once nobody else was faster for a while', () => {
    const all = accountSizes();
    all.reached('a', 1n);
    const lost = all.depart(events({ a: 1 }));
    void lost.missed(sizes({ a: 2n }));
    let looks = 0;
    for (let size = 2n; all.contended(); size += 1n, looks += 1) {
      const flight = all.depart(events({ a: 1 }));
      flight.looked(sizes({ a: size }));
      all.reached('a', size + 1n);
      flight.land();
    }
    expect(looks).toBe(16);
  });

  it('of an account that was not known is no sign of others', async () => {
    const all = accountSizes();
    await all.depart(events({ a: 1 })).missed(sizes({ a: 7n }));
    expect(all.contended()).toBe(false);
  });

  it('is tried again after those that it overtook, whatever becomes of them', async () => {
    const all = accountSizes();
    all.reached('a', 10n);
    const first = all.depart(events({ a: 3 }));
    const second = all.depart(events({ a: 2 }));
    let waited = false;
    const missed = second.missed(sizes({ a: 10n })).then(() => (waited = true));
    await Promise.resolve();
    expect(waited).toBe(false);
    all.reached('a', 13n);
    first.land();
    await missed;
    expect(all.depart(events({ a: 2 })).sizeOf('a')).toBe(13n);
  });

  it('follows a log that became shorter', async () => {
    const all = accountSizes();
    all.reached('a', 10n);
    await all.depart(events({ a: 1 })).missed(sizes({ a: 4n }));
    expect(all.depart(events({ a: 1 })).sizeOf('a')).toBe(4n);
    const flight = all.depart(events({ a: 1 }));
    flight.looked(sizes({ a: 2n }));
    flight.land();
    expect(all.depart(events({ a: 1 })).sizeOf('a')).toBeLessThan(4n);
  });
});
