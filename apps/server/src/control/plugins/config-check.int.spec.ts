import { describe, expect, it } from '@jest/globals';
import type { Json } from '#record';
import { configFaults } from './config-check.js';

const pointers = async (schema: Json, config: Json): Promise<readonly string[]> =>
  (await configFaults(schema, config)).map(({ pointer }) => pointer);

describe('a configuration', () => {
  it('may be anything without a schema', async () => {
    expect(await configFaults(null, { any: ['thing', { __proto__: 1 }] })).toEqual([]);
  });

  it('is named with a pointer where it does not fit', async () => {
    const schema = {
      type: 'object',
      properties: { limits: { type: 'object', properties: { max: { type: 'integer', minimum: 1 } } } },
      additionalProperties: false,
    };
    expect(await configFaults(schema, { limits: { max: 3 } })).toEqual([]);
    expect(await pointers(schema, { limits: { max: 0 } })).toEqual(['/config/limits/max']);
    expect((await configFaults(schema, { stray: 1 }))[0]?.reason).toContain('stray');
  });

  it('is not changed by checking: no defaults are written, nothing is coerced', async () => {
    const config = { count: '3' };
    expect(
      await pointers({ type: 'object', properties: { count: { type: 'integer' }, more: { default: 1 } } }, config),
    ).toEqual(['/config/count']);
    expect(config).toEqual({ count: '3' });
  });

  it('of more than 256 KiB is refused', async () => {
    expect(await pointers(null, 'x'.repeat(256 * 1024))).toEqual(['/config']);
  });
});

describe('a schema from outside', () => {
  it.each<[string, Json]>([
    ['is not an object', [1]],
    ['has a pattern that does not compile', { properties: { a: { pattern: '(' } } }],
    ['has a pattern name that does not compile', { patternProperties: { '[': {} } }],
    ['has an overlong pattern', { pattern: 'a'.repeat(501) }],
    ['refers to another document', { $ref: 'https://example.com/schema' }],
    ['refers to a part it does not have', { $ref: '#/$defs/none' }],
    ['has a keyword that does not exist', { typ: 'object' }],
    ['is asynchronous', { $async: true }],
    ['is over 64 KiB', { description: 'x'.repeat(64 * 1024) }],
  ])('is refused when it %s', async (_, schema) => {
    const faults = await configFaults(schema, {});
    expect(faults.length).toBeGreaterThan(0);
    expect(faults.every(({ pointer }) => pointer.startsWith('/configSchema'))).toBe(true);
  });

  it('may hold as data what would be a faulty keyword', async () => {
    expect(await configFaults({ default: { pattern: '(' }, enum: [{ $ref: 'x' }, {}] }, {})).toEqual([]);
  });

  it('is refused when it is nested too deeply', async () => {
    let schema: Json = {};
    for (let depth = 0; depth < 40; depth += 1) schema = { not: schema };
    expect((await configFaults(schema, {}))[0]?.reason).toContain('nested');
  });

  it('cannot hang the server with a catastrophic pattern', async () => {
    expect(await pointers({ type: 'string', pattern: '^(a+)+$' }, `${'a'.repeat(60)}!`)).toEqual(['/configSchema']);
  });

  it('cannot hang the server with references that double at every step', async () => {
    const $defs: Record<string, Json> = { d0: { type: 'object' } };
    for (let step = 1; step <= 40; step += 1) {
      const before = { $ref: `#/$defs/d${String(step - 1)}` };
      $defs[`d${String(step)}`] = { allOf: [before, before] };
    }
    expect(await pointers({ $defs, $ref: '#/$defs/d40' }, {})).toEqual(['/configSchema']);
  });

  it('cannot hang the server with uniqueItems over many objects', async () => {
    const many = Array.from({ length: 40_000 }, (_, index) => ({ i: index }));
    expect(await configFaults({ type: 'array', uniqueItems: true }, many.slice(0, 20))).toEqual([]);
    expect(await pointers({ type: 'array', uniqueItems: true }, many)).not.toEqual([]);
  });

  it('cannot reach code through its names', async () => {
    const name = "a'];throw 1;//${process.exit()}";
    expect(await pointers({ type: 'object', properties: { [name]: { type: 'string' } } }, { [name]: 1 })).toHaveLength(
      1,
    );
  });
});
