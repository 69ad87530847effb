import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { canonicalJson, digestOf, leafHash, storedBytes } from './canonical.js';
import type { Json } from './json.js';
import { parseJson } from './parse.js';

// Any text at all: code units at random make lone surrogates and NUL as common as anything else.
const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.array(fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit))).map((units) => units.join('')),
  fc.constantFrom('', '\u0000', '\ud800', '\udc00', '__proto__', 'constructor', 'toString', '"', '\\', '\u2028', '😀'),
);
const json = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    fc.constantFrom<Json>(null, true, false, 0, -0, 1e21, 1e-7, Number.MAX_SAFE_INTEGER),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.integer(),
    text,
    fc.array(tie('value')),
    fc.array(fc.tuple(text, tie('value'))).map((entries) => Object.fromEntries(entries) as Json),
  ),
})).value;

/** Members in another order, at every depth. */
const shuffled = (value: Json): Json => {
  if (Array.isArray(value)) return (value as readonly Json[]).map(shuffled);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, item]) => [key, shuffled(item)]),
  );
};

describe('canonical JSON', () => {
  it('says the same value, whatever it is', () => {
    fc.assert(
      fc.property(json, (value) => {
        // JSON has one zero.
        expect(parseJson(canonicalJson(value))).toEqual(parseJson(JSON.stringify(value)));
      }),
      { numRuns: 500 },
    );
  });

  it('is the same text for the same value, in whatever order its members were given', () => {
    fc.assert(
      fc.property(json, (value) => canonicalJson(shuffled(value)) === canonicalJson(value)),
      { numRuns: 500 },
    );
  });

  it('is a fixed point: read and written again it is unchanged', () => {
    fc.assert(
      fc.property(json, (value) => {
        const once = canonicalJson(value);
        return canonicalJson(parseJson(once)) === once;
      }),
      { numRuns: 500 },
    );
  });

  it('survives UTF-8: the bytes say what the text says', () => {
    fc.assert(
      fc.property(json, (value) => {
        const written = canonicalJson(value);
        const { bytes } = storedBytes(written);
        return (
          written.isWellFormed() && bytes.equals(Buffer.from(written, 'utf8')) && bytes.toString('utf8') === written
        );
      }),
      { numRuns: 500 },
    );
  });

  it('orders members by UTF-16 code units, as RFC 8785 does', () => {
    const value = { '\u20ac': 1, '\r': 2, '\ufb33': 3, '1': 4, '😀': 5, '\u0080': 6, ö: 7, ['__proto__']: 8 };
    expect(canonicalJson(value)).toBe('{"\\r":2,"1":4,"__proto__":8,"\u0080":6,"ö":7,"€":1,"😀":5,"\ufb33":3}');
  });

  it('keeps objects of one shape apart from objects of another that begin alike', () => {
    expect([{ b: 1, a: 2 }, { b: 1, c: 2 }, { b: 1 }, { b: 1, a: 2, c: 3 }, { b: 1, a: 2 }].map(canonicalJson)).toEqual(
      ['{"a":2,"b":1}', '{"b":1,"c":2}', '{"b":1}', '{"a":2,"b":1,"c":3}', '{"a":2,"b":1}'],
    );
  });

  it('leaves out members that are undefined', () => {
    expect(canonicalJson({ a: undefined, b: 1 } as unknown as Json)).toBe('{"b":1}');
    expect(canonicalJson({ a: undefined } as unknown as Json)).toBe('{}');
  });

  it.each<[string, unknown]>([
    ['NaN', Number.NaN],
    ['infinity', [Number.POSITIVE_INFINITY]],
    ['undefined', undefined],
    ['undefined in a list', [undefined]],
    ['a function', { f: () => 1 }],
    ['a symbol', { s: Symbol('s') }],
    ['a bigint', { n: 1n }],
  ])('refuses %s', (_what, value) => {
    expect(() => canonicalJson(value as Json)).toThrow(TypeError);
  });
});

describe('hashes', () => {
  it('of leaves are SHA-256 over a zero byte and the bytes', () => {
    fc.assert(
      fc.property(text, (any) => {
        const { bytes, leaf } = storedBytes(canonicalJson(any));
        const expected = createHash('sha256')
          .update(Buffer.concat([Buffer.from([0]), bytes]))
          .digest();
        return leaf.equals(expected) && leafHash(bytes).equals(expected);
      }),
    );
  });

  it('match the published ones', () => {
    // RFC 6962: the leaf hash of the empty string.
    expect(leafHash(new Uint8Array()).toString('hex')).toBe(
      '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
    );
    expect(digestOf('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  });
});
