import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { CopiedRow } from './copy-rows.js';
import {
  bytesAt,
  int2At,
  int4At,
  int8At,
  isNullAt,
  latin1At,
  prefixedAt,
  readCopiedRows,
  textAt,
  timeAt,
} from './copy-rows.js';

const header = Buffer.concat([Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'), Buffer.alloc(8)]);
const trailer = Buffer.from([0xff, 0xff]);

const field = (value: Buffer | null): Buffer => {
  const length = Buffer.alloc(4);
  length.writeInt32BE(value === null ? -1 : value.length);
  return value === null ? length : Buffer.concat([length, value]);
};

const rowOf = (values: readonly (Buffer | null)[]): Buffer => {
  const count = Buffer.alloc(2);
  count.writeInt16BE(values.length);
  return Buffer.concat([count, ...values.map(field)]);
};

/** The stream cut at these places. */
async function* cut(whole: Buffer, places: readonly number[]): AsyncIterable<Buffer> {
  let from = 0;
  for (const place of [...places.map((n) => n % (whole.length + 1)), whole.length].sort((a, b) => a - b)) {
    yield await Promise.resolve(Buffer.from(whole.subarray(from, place)));
    from = place;
  }
}

const all = async <T>(batches: AsyncIterable<readonly T[]>): Promise<readonly T[]> => {
  const found: T[] = [];
  for await (const batch of batches) found.push(...batch);
  return found;
};

const bytes = fc.uint8Array({ maxLength: 300 }).map((value) => Buffer.from(value));

describe('binary COPY', () => {
  it('gives the rows that were sent, wherever the stream was cut', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(bytes, fc.option(bytes), bytes)), fc.array(fc.nat()), async (rows, places) => {
        const whole = Buffer.concat([header, ...rows.map(rowOf), trailer]);
        const read = (row: CopiedRow) => [
          bytesAt(row, 0).toString('hex'),
          isNullAt(row, 1) ? null : Buffer.from(latin1At(row, 1) ?? '', 'latin1').toString('hex'),
          prefixedAt(row, 2).toString('hex'),
        ];
        const found = await all(readCopiedRows(cut(whole, places), read));
        expect(found).toEqual(
          rows.map(([one, two, three]) => [
            one.toString('hex'),
            two?.toString('hex') ?? null,
            `00${three.toString('hex')}`,
          ]),
        );
      }),
    );
  });

  it('reads numbers, times and text', async () => {
    const value = Buffer.alloc(30);
    value.writeBigInt64BE(-9_007_199_254_740_991n, 0);
    value.writeInt32BE(-7, 8);
    value.writeInt16BE(-3, 12);
    value.writeBigInt64BE(86_400_000_000n, 14);
    const row = rowOf([
      value.subarray(0, 8),
      value.subarray(8, 12),
      value.subarray(12, 14),
      value.subarray(14, 22),
      Buffer.from('ä€'),
    ]);
    const [found] = await all(
      readCopiedRows(cut(Buffer.concat([header, row, trailer]), []), (copied) => [
        int8At(copied, 0),
        int4At(copied, 1),
        int2At(copied, 2),
        new Date(timeAt(copied, 3)).toISOString(),
        textAt(copied, 4),
      ]),
    );
    expect(found).toEqual([-9_007_199_254_740_991, -7, -3, '2000-01-02T00:00:00.000Z', 'ä€']);
  });
});
