import { describe, expect, it } from '@jest/globals';
import { patchOf, withPatch } from './patches.js';

const apply = (patches: string): unknown => {
  const context = JSON.parse('{"b":0,"z":0}') as Record<string, unknown>;
  for (const patch of JSON.parse(`[${patches}]`) as Record<string, unknown>[]) {
    for (const key of Object.keys(patch)) {
      Object.defineProperty(context, key, { value: patch[key], writable: true, enumerable: true, configurable: true });
    }
  }
  return Object.entries(context);
};

describe('patches', () => {
  it('are read off a raw result, without what the dialect says behind them', () => {
    expect(['~{"a":1}\n["w"]', '~{"a":1}', '=', '!', ''].map(patchOf)).toEqual([
      '{"a":1}',
      '{"a":1}',
      null,
      null,
      null,
    ]);
  });

  it('stay as they are while they are small', () => {
    expect(withPatch(withPatch('', '{"a":1}'), '{"a":2}')).toBe('{"a":1},{"a":2}');
  });

  it('become one that does the same when they are large', () => {
    const large = JSON.stringify('x\ud800'.repeat(600_000));
    const all = [
      '{"a":1,"b":2}',
      `{"b":${large}}`,
      '{"__proto__":{"c":1},"a":[1]}',
      `{"b":${large},"d":null}`,
      '{"__proto__":2}',
    ];
    const joined = all.join(',');
    let patches = '';
    for (const patch of all) patches = withPatch(patches, patch);
    expect(patches.length).toBeLessThan(joined.length);
    expect(apply(patches)).toEqual(apply(joined));
  });
});
