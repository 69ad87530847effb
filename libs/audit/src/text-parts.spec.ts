import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { longestSearch, partsOf, searchable } from './text-parts.js';

describe('the parts of a text', () => {
  it('hold every piece that may be searched for, whole', () => {
    fc.assert(
      fc.property(fc.nat(60_000), fc.integer({ min: 1, max: longestSearch }), fc.nat(60_000), (length, size, from) => {
        // Each place has its own neighbourhood, so that a piece is found in one place only.
        const text = Array.from({ length }, (_, n) =>
          String.fromCharCode(97 + ((n * 7 + Math.floor(n / 26)) % 26)),
        ).join('');
        const piece = text.slice(from, from + size);
        fc.pre(piece.length >= 1);
        expect(partsOf(text).some((part) => part.includes(piece))).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  it('are texts and numbers at any depth, however short, not keys', () => {
    const value = { keyed: ['Text', { deeper: 'more' }], n: 12345, short: 'ab', empty: '', flag: true, none: null };
    expect(partsOf(value)).toEqual(['text', 'more', '12345', 'ab']);
  });

  it('are well formed whatever the text was', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 40_000 }), (text) => {
        for (const part of partsOf(text)) expect(part.isWellFormed() && !part.includes('\0')).toBe(true);
      }),
      { numRuns: 50 },
    );
  });
});

describe('searchable text', () => {
  it('is the same for texts that differ in case only', () => {
    expect(searchable('ÄBC')).toBe(searchable('äbc'));
  });
});
