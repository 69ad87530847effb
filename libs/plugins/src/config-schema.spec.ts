import { describe, expect, it } from '@jest/globals';
import type { Json } from '#record';
import { configFaults } from './config-schema.js';

const pointers = (schema: Json, config: Json): readonly string[] =>
  configFaults(schema, config).map(({ pointer }) => pointer);

describe('a configuration', () => {
  it('may be anything without a schema', () => {
    expect(configFaults(null, { any: ['thing', { __proto__: 1 }] })).toEqual([]);
  });

  it('is named with a pointer where it does not fit', () => {
    const schema = {
      type: 'object',
      properties: { limits: { type: 'object', properties: { max: { type: 'integer', minimum: 1 } } } },
      additionalProperties: false,
    };
    expect(configFaults(schema, { limits: { max: 3 } })).toEqual([]);
    expect(pointers(schema, { limits: { max: 0 } })).toEqual(['/config/limits/max']);
    expect(configFaults(schema, { stray: 1 })[0]?.reason).toContain('stray');
  });

  it('is not changed by checking: no defaults are written, nothing is coerced', () => {
    const config = { count: '3' };
    expect(
      pointers({ type: 'object', properties: { count: { type: 'integer' }, more: { default: 1 } } }, config),
    ).toEqual(['/config/count']);
    expect(config).toEqual({ count: '3' });
  });

  it('of more than 256 KiB is refused', () => {
    expect(pointers(null, 'x'.repeat(256 * 1024))).toEqual(['/config']);
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
  ])('is refused when it %s', (_, schema) => {
    const faults = configFaults(schema, {});
    expect(faults.length).toBeGreaterThan(0);
    expect(faults.every(({ pointer }) => pointer.startsWith('/configSchema'))).toBe(true);
  });

  it('may hold as data what would be a faulty keyword', () => {
    expect(configFaults({ default: { pattern: '(' }, enum: [{ $ref: 'x' }, {}] }, {})).toEqual([]);
  });

  it('is refused when it is nested too deeply', () => {
    let schema: Json = {};
    for (let depth = 0; depth < 40; depth += 1) schema = { not: schema };
    expect(configFaults(schema, {})[0]?.reason).toContain('nested');
  });

  it('cannot hang the server with a catastrophic pattern', () => {
    expect(pointers({ type: 'string', pattern: '^(a+)+$' }, `${'a'.repeat(60)}!`)).toEqual(['/configSchema']);
  });

  it('cannot hang the server with references that double at every step', () => {
    const $defs: Record<string, Json> = { d0: { type: 'object' } };
    for (let step = 1; step <= 40; step += 1) {
      const before = { $ref: `#/$defs/d${String(step - 1)}` };
      $defs[`d${String(step)}`] = { allOf: [before, before] };
    }
    expect(pointers({ $defs, $ref: '#/$defs/d40' }, {})).toEqual(['/configSchema']);
  });

  it('cannot hang the server with uniqueItems over many objects', () => {
    const many = Array.from({ length: 40_000 }, (_, index) => ({ i: index }));
    expect(configFaults({ type: 'array', uniqueItems: true }, many.slice(0, 20)).length).toBe(0);
    expect(pointers({ type: 'array', uniqueItems: true }, many)).not.toEqual([]);
  });

  it('cannot reach code through its names', () => {
    const name = "a'];throw 1;//${process.exit()}";
    expect(pointers({ type: 'object', properties: { [name]: { type: 'string' } } }, { [name]: 1 })).toHaveLength(1);
  });
});
