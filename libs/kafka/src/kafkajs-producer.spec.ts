import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { rounds } from './kafkajs-producer.js';
import { messageSize } from './messages.js';

describe('what is sent at once', () => {
  it('is in order, whole, and within the limit of each partition', () => {
    const message = fc.record({ key: fc.constantFrom('a', 'b', 'c', 'd'), size: fc.integer({ min: 0, max: 900 }) });
    fc.assert(
      fc.property(fc.array(message, { maxLength: 60 }), (given) => {
        const messages = given.map(({ key, size }) => ({ key, value: Buffer.alloc(size), headers: {} }));
        const sent = [...rounds(messages, { name: 't', partitions: 3, maxMessageBytes: 2_000 })];
        expect(sent.flat().map(({ key, value }) => ({ key, value }))).toEqual(
          messages.map(({ key, value }) => ({ key, value })),
        );
        for (const round of sent) {
          for (const partition of new Set(round.map((one) => one.partition))) {
            const bytes = round
              .filter((one) => one.partition === partition)
              .reduce(
                (sum, { key, value }) => sum + messageSize({ key: String(key), value: value as Buffer, headers: {} }),
                0,
              );
            expect(bytes).toBeLessThan(2_000);
          }
        }
      }),
    );
  });

  it('has a message that is too large on its own: whether the broker takes it is the broker to say', () => {
    const large = { key: 'a', value: Buffer.alloc(5_000), headers: {} };
    const sizes = [...rounds([large, large], { name: 't', partitions: 1, maxMessageBytes: 2_000 })].map(
      (r) => r.length,
    );
    expect(sizes).toEqual([1, 1]);
  });
});
