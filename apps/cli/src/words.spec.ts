import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { jsonLine, plain } from './words.js';

describe('a line of JSON', () => {
  it('is the same JSON, on one line, without anything that a terminal obeys', () => {
    fc.assert(
      fc.property(fc.json({ stringUnit: 'binary' }), fc.nat(3), (json, indent) => {
        const value: unknown = JSON.parse(json);
        const line = jsonLine(JSON.stringify(value, null, indent));
        expect(JSON.parse(line)).toEqual(value);
        // eslint-disable-next-line no-control-regex -- controls are what must not be there
        expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/u);
      }),
    );
  });

  it('keeps digits that a double cannot hold', () => {
    expect(jsonLine('{"n":9007199254740993,\n "d":0.1234567890123456789}')).toBe(
      '{"n":9007199254740993,  "d":0.1234567890123456789}',
    );
  });
});

describe('plain words', () => {
  it('cannot write elsewhere on the screen, or backwards', () => {
    expect(plain('a\u001b[2Jb\r\nc\u009bd\u202ee')).toBe('a [2Jb  c d e');
  });

  it('keep every other letter', () => {
    expect(plain('Grüße, 世界 😀 — “x”')).toBe('Grüße, 世界 😀 — “x”');
  });
});
