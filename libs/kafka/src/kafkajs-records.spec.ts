import { createRequire } from 'node:module';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { encodeRecord, groupByPartition } from './kafkajs-records.js';

const load = createRequire(import.meta.url);
const theirs = load('kafkajs/src/protocol/recordBatch/record/v0/index.js') as (record: object) => {
  readonly buffer: Buffer;
};
const theirGroups = load('kafkajs/src/producer/groupMessagesPerPartition.js') as (given: object) => object;

const bytes = fc.uint8Array({ maxLength: 300 }).map((given) => Buffer.from(given));
const text = fc.string({ unit: 'grapheme' });

describe('what stands in for parts of kafkajs', () => {
  it('encodes every record as kafkajs does', () => {
    const record = fc.record({
      offsetDelta: fc.nat({ max: 100_000 }),
      timestampDelta: fc.integer({ min: 0, max: 2 ** 40 }),
      key: fc.option(fc.oneof(text, bytes)),
      value: fc.option(bytes),
      headers: fc.dictionary(text, fc.oneof(text, bytes, fc.array(text, { maxLength: 3 }))),
    });
    fc.assert(
      fc.property(record, (given) => {
        expect(encodeRecord(given).buffer.equals(theirs(given).buffer)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it('groups messages as kafkajs does', () => {
    const messages = fc.array(fc.record({ partition: fc.nat({ max: 5 }), value: fc.nat() }));
    fc.assert(
      fc.property(messages, (given) => {
        const partitioner = ({ message }: { message: { partition: number } }): number => message.partition;
        const grouped = theirGroups({ topic: 't', partitionMetadata: [{}], messages: given, partitioner });
        expect(groupByPartition({ messages: given })).toEqual(grouped);
      }),
    );
  });
});
