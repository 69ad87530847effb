import { describe, expect, it } from '@jest/globals';
import { resolveSecrets, secretName, secretNames, secretPointers } from './secrets.js';

describe('a reference to a secret', () => {
  it('is an object with $secret and nothing else', () => {
    expect(secretName({ $secret: 'a' })).toBe('a');
    for (const other of [{ $secret: 1 }, { $secret: 'a', more: 1 }, ['a'], 'a', null, {}]) {
      expect(secretName(other)).toBeNull();
    }
  });

  it('is found at any depth', () => {
    const config = { a: { $secret: 'x' }, 'b/c': [{ d: { $secret: 'y' } }, { $secret: 'x' }] };
    expect(secretNames(config)).toEqual(['x', 'y']);
    expect(secretPointers(config)).toEqual(['/a', '/b~1c/0/d', '/b~1c/1']);
  });

  it('gives way to its value, and everything else stays as it is', async () => {
    const config = JSON.parse('{"a":{"$secret":"x"},"__proto__":{"b":1},"list":[null,1,"t"]}') as { a: unknown };
    const resolved = await resolveSecrets(config as never, (name) =>
      Promise.resolve({ value: `value of ${name}`, digest: 'd' }),
    );
    expect(JSON.stringify(resolved)).toBe(
      '{"kind":"resolved","config":{"a":"value of x","__proto__":{"b":1},"list":[null,1,"t"]},"secretDigests":["x:d"]}',
    );
  });

  it('that has no value is named', async () => {
    expect(await resolveSecrets({ a: { $secret: 'x' } }, () => Promise.resolve(null))).toEqual({
      kind: 'missing',
      names: ['x'],
    });
  });
});
