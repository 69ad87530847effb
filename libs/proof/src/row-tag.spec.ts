import { createHmac, hkdfSync } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { rowTag, rowTagKey, rowTagger } from './row-tag.js';

const master = Buffer.alloc(32, 5);
const key = rowTagKey(master);

/** events.md §5 by the library's own HMAC. */
const expected = (account: string, position: bigint, leaf: Buffer): Buffer => {
  const secret = Buffer.from(hkdfSync('sha256', master, Buffer.alloc(0), 'hookledger/row-tag/v1', 32));
  const name = Buffer.from(account, 'utf8');
  const head = Buffer.alloc(4);
  head.writeUInt32BE(name.length);
  const at = Buffer.alloc(8);
  at.writeBigUInt64BE(position);
  return createHmac('sha256', secret).update(head).update(name).update(at).update(leaf).digest();
};

const leaves = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes));

describe('the tag of a row', () => {
  it('is HMAC-SHA-256 over the account with its length, the position and the leaf', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
        leaves,
        (account, at, leaf) => {
          expect(rowTag(key, account, at, leaf)).toEqual(expected(account, at, leaf));
        },
      ),
    );
  });

  it('is the same from a tagger that tagged other rows before', () => {
    const tagger = rowTagger(key, 'acme');
    const tags = Buffer.alloc(64);
    tagger(1n, Buffer.alloc(32, 1), tags, 32);
    tagger(2n, Buffer.alloc(32, 2), tags, 0);
    expect(tags.subarray(0, 32)).toEqual(expected('acme', 2n, Buffer.alloc(32, 2)));
    expect(tags.subarray(32)).toEqual(expected('acme', 1n, Buffer.alloc(32, 1)));
  });

  it('takes no leaf that is not a SHA-256', () => {
    expect(() => rowTag(key, 'a', 0n, Buffer.alloc(31))).toThrow(RangeError);
  });
});
