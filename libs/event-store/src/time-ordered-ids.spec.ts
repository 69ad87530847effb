import { describe, expect, it } from '@jest/globals';
import { validate, version } from 'uuid';
import { timeOrderedIds } from './time-ordered-ids.js';

describe('ids of events', () => {
  const next = timeOrderedIds();
  const ids = Array.from({ length: 20_000 }, next);

  it('are UUIDs of version 7 that carry the time', () => {
    const id = next();
    expect([validate(id), version(id)]).toEqual([true, 7]);
    const ms = Number.parseInt(id.replace('-', '').slice(0, 12), 16);
    expect(Math.abs(Date.now() - ms)).toBeLessThan(60_000);
  });

  it('rise, and never come twice', () => {
    expect([...ids].sort()).toEqual(ids);
    expect(new Set([...ids, ...Array.from({ length: 20_000 }, timeOrderedIds())]).size).toBe(40_000);
  });
});
