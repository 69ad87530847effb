import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { canonicalJson } from './canonical.js';
import type { Json } from './json.js';
import { parseJson } from './parse.js';

/** Every key in the order it stands, read without building objects. */
const keysOf = (value: Json): readonly string[] => {
  if (Array.isArray(value)) return (value as readonly Json[]).flatMap(keysOf);
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([key, item]) => [key, ...keysOf(item)]);
};

// Short keys of awkward characters in objects that look alike: what a parser's shortcuts stumble over.
const key = fc.oneof(
  fc.constantFrom('\\', '\u0000', '"', '\n', '/', '\ud800', '\udfff', '', 'a', '\\\\', '\\n', 'u0000', '__proto__'),
  fc.string({ unit: 'binary', maxLength: 3 }),
);
const json = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<Json>(null, true, 1, -0.5, '\\', 'text'),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.array(fc.tuple(key, tie('value')), { maxLength: 4 }).map((entries) => Object.fromEntries(entries) as Json),
  ),
})).value;

describe('reading JSON', () => {
  it('gives the keys that stand in the text, also where V8 mistakes them', () => {
    const awkward = [
      '\\',
      '"',
      '\u0000',
      '\n',
      '\ud800',
      '\\\\',
      '\\"',
      '\\\u0000',
      '\\n',
      '\\u',
      '"\\',
      '""',
      '"n',
      'a\\',
      'a\n',
    ];
    let shape = 0;
    for (const before of awkward) {
      for (const key of awkward) {
        shape += 1;
        const text = JSON.stringify({ a: { [`p${shape}`]: 0, [before]: 1 }, b: { [`p${shape}`]: 0, [key]: 2 } });
        expect(keysOf(parseJson(text)).at(-1)).toBe(key);
      }
    }
  });

  it('gives back what was written, whatever it was', () => {
    fc.assert(
      fc.property(json, (value) => {
        const text = JSON.stringify(value);
        const read = parseJson(text);
        expect(keysOf(read)).toEqual(keysOf(value));
        expect(JSON.stringify(read)).toBe(text);
        expect(canonicalJson(parseJson(canonicalJson(value)))).toBe(canonicalJson(value));
      }),
      { numRuns: 2_000 },
    );
  });

  it('makes own members of keys that mean something to JavaScript', () => {
    const read = parseJson('{"\\\\":0,"__proto__":{"admin":true},"constructor":1}') as Record<string, unknown>;
    expect(Object.keys(read)).toEqual(['\\', '__proto__', 'constructor']);
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
    expect(read.admin).toBeUndefined();
  });

  it.each(['', '{', '{"\\\\":1,}', '[1] 2', "{'a':1}", '{"\\\\": 1 /* no */}'])(
    'refuses what is no JSON: %s',
    (text) => {
      expect(() => parseJson(text)).toThrow(SyntaxError);
    },
  );
});
