import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { readJsonBody } from './json-body.js';
import { Problem } from './problem.js';

const read = (text: string): unknown => readJsonBody(Buffer.from(text, 'utf8'));

const refusal = (bytes: string | Buffer): Problem => {
  try {
    readJsonBody(Buffer.from(bytes as string));
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error('it was let through');
};

describe('a JSON body', () => {
  it('comes out as JSON.parse reads it, whatever it is', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(read(text)).toEqual(JSON.parse(text));
      }),
    );
  });

  it('keeps NUL, lone surrogates, U+2028 and bidi marks', () => {
    expect(read(String.raw`{"a":"\u0000","b":"\ud83d","c":"\udc00x","d":"\u2028","\u0000":"\u202e"}`)).toEqual({
      a: '\0',
      b: '\ud83d',
      c: '\udc00x',
      d: '\u2028',
      '\0': '\u202e',
    });
  });

  it('keeps the keys that stand in it after other bodies had keys that look alike', () => {
    const awkward = ['\\', '"', '\0', '\n', '\ud800', '\\\\', '\\n'];
    for (const first of awkward) {
      for (const second of awkward) {
        read(JSON.stringify({ b: { [first]: 1 } }));
        expect(read(JSON.stringify({ b: { [second]: 2 } }))).toEqual({ b: { [second]: 2 } });
      }
    }
  });

  it('keeps __proto__ and constructor as plain own keys', () => {
    const value = read('{"__proto__":{"admin":true},"constructor":{"prototype":{"admin":true}}}') as object;
    expect(Object.keys(value)).toEqual(['__proto__', 'constructor']);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
  });

  it.each(['{', '', '{"a":1,}', "{'a':1}", '[1 2]', '\ufeff{}', '{"a":"\u0001"}', 'NaN', '01', '{} x'])(
    'that is not JSON is 400 and says where: %j',
    (text) => {
      const problem = refusal(text);
      expect(problem).toMatchObject({ status: 400, code: 'not_json' });
      expect(problem.detail).toMatch(/position \d+/u);
    },
  );

  it('quotes nothing of what it refuses', () => {
    expect(JSON.stringify(refusal('{"password": hunter2}'))).not.toContain('hunter2');
  });

  it('says line and column of the fault', () => {
    expect(refusal('{\n  "a": 1,\n  oops\n}').detail).toContain('line 3, column 3');
  });

  it('that is not UTF-8 is 400', () => {
    expect(refusal(Buffer.from([0x22, 0xff, 0x22]))).toMatchObject({ status: 400, code: 'not_utf8' });
    // A surrogate encoded as if it were a character (CESU-8).
    expect(refusal(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]))).toMatchObject({ status: 400, code: 'not_utf8' });
  });

  it.each([
    ['{"a":1,"a":2}', '/a'],
    ['{"a":[{"b/c":1},{"b/c":1,"b/c":2}]}', '/a/1/b~1c'],
    [String.raw`{"a":1,"\u0061":2}`, '/a'],
    ['{"__proto__":1,"__proto__":2}', '/__proto__'],
  ])('with a key that stands twice is 422 at its pointer: %s', (text, pointer) => {
    expect(refusal(text)).toMatchObject({ status: 422, code: 'duplicate_key', errors: [{ pointer }] });
  });

  it('may repeat a key in different objects', () => {
    expect(read('[{"a":1},{"a":{"a":1}}]')).toEqual([{ a: 1 }, { a: { a: 1 } }]);
  });

  it('names every fault, up to twenty', () => {
    expect(refusal('{"a":1e400,"b":[9007199254740993],"a":2}').errors.map(({ pointer }) => pointer)).toEqual([
      '/a',
      '/b/0',
      '/a',
    ]);
    expect(refusal(`[${'1e400,'.repeat(100)}1]`).errors).toHaveLength(20);
  });

  it('may nest 200 levels and no more', () => {
    expect(() => read('['.repeat(200) + ']'.repeat(200))).not.toThrow();
    expect(refusal('['.repeat(201) + ']'.repeat(201))).toMatchObject({ status: 422, code: 'too_deep' });
    expect(refusal('{"a":'.repeat(10_000) + '1' + '}'.repeat(10_000))).toMatchObject({ status: 422, code: 'too_deep' });
    // At the place, not near the root.
    const deep = refusal(`{"a":[0,{"b":${'['.repeat(198)}${']'.repeat(198)}}]}`);
    expect(deep.errors).toEqual([{ pointer: `/a/1/b${'/0'.repeat(197)}`, reason: 'nested deeper than 200' }]);
  });

  it.each(['9007199254740993', '0.1234567890123456789', '1e400', '-1e400', '1e-400', '123456789012345678901234567891'])(
    'with a number that a double would round is 422: %s',
    (number) => {
      expect(refusal(`{"n":${number}}`)).toMatchObject({
        status: 422,
        code: 'inexact_number',
        errors: [{ pointer: '/n' }],
      });
    },
  );

  it.each([
    '0.1',
    '1.0',
    '1e2',
    '-0',
    '-0.0',
    '0e999',
    '9007199254740991',
    '1.7976931348623157e308',
    '5e-324',
    '0.10000000000000000000',
    '1E+2',
    '100000000000000000000000',
  ])('may hold any number whose digits a double keeps: %s', (number) => {
    expect(read(`[${number}]`)).toEqual([Number(number)]);
  });

  it('takes every double that JavaScript itself prints', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
        expect(read(JSON.stringify([number]))).toEqual([JSON.parse(JSON.stringify(number))]);
      }),
    );
  });
});
