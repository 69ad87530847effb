import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { sameJson } from './same.js';

describe('sameJson', () => {
  it('holds for a copy', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(sameJson(value, JSON.parse(JSON.stringify(value)))).toBe(true);
      }),
    );
  });

  it('looks at keys and items, not at order of keys', () => {
    expect(sameJson({ a: 1, b: [1, null] }, { b: [1, null], a: 1 })).toBe(true);
    expect(sameJson({ a: 1 }, { b: 1 })).toBe(false);
    expect(sameJson({ a: null }, {})).toBe(false);
    expect(sameJson([1, 2], [2, 1])).toBe(false);
    expect(sameJson([], {})).toBe(false);
    expect(sameJson('1', 1)).toBe(false);
  });

  it('keeps NUL and lone surrogates apart from what resembles them', () => {
    expect(sameJson('a\u0000', 'a')).toBe(false);
    expect(sameJson('\ud800', '\ufffd')).toBe(false);
  });
});
