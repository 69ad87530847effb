import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { partitionOf } from './partitions.js';

describe('the partition of a key', () => {
  it.each([
    // From Kafka's own UtilsTest: murmur2 of these keys, made positive, of 2^31 - 1 partitions.
    ['21', -973932308],
    ['foobar', -790332482],
    ['a-little-bit-long-string', -985981536],
    ['a-little-bit-longer-string', -1486304829],
    ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
    ['abc', 479470107],
  ])('of %s is that of every other Kafka client', (key, murmur2) => {
    const most = 2 ** 31 - 1;
    expect(partitionOf(key, most)).toBe((murmur2 & 0x7fffffff) % most);
  });

  it('is always one of them', () => {
    fc.assert(
      fc.property(fc.string(), fc.integer({ min: 1, max: 100 }), (key, partitions) => {
        expect(partitionOf(key, partitions)).toBeGreaterThanOrEqual(0);
        expect(partitionOf(key, partitions)).toBeLessThan(partitions);
      }),
    );
  });
});
