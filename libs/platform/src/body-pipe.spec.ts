import { describe, expect, it } from '@jest/globals';
import 'reflect-metadata';
import { IsBoolean, IsIn } from 'class-validator';
import { Nested, readDto } from './body-pipe.js';
import { Absent, AbsentOrNull, IsInstant, IsJsonObject, IsText, IsWireId } from './fields.js';
import { readJsonBody } from './json-body.js';
import type { Problem } from './problem.js';

class Inner {
  @IsIn(['a', 'b'])
  letter!: string;
}

class Outer {
  @IsWireId()
  id!: string;

  @Absent()
  @IsText(0, 5)
  text?: string;

  @AbsentOrNull()
  @IsInstant()
  until?: string | null;

  @Absent()
  @IsBoolean()
  on?: boolean;

  @Absent()
  @Nested(() => Inner)
  inner?: Inner;

  @Absent()
  @IsJsonObject()
  context?: object;
}

const faults = (value: unknown): Problem['errors'] => {
  try {
    readDto(Outer, value);
    return [];
  } catch (error) {
    return (error as Problem).errors;
  }
};

const pointers = (value: unknown): readonly string[] => faults(value).map(({ pointer }) => pointer);

describe('a body read as a DTO', () => {
  it('is an instance with exactly what was sent', () => {
    const dto = readDto(Outer, { id: 'x', until: null, inner: { letter: 'a' } });
    expect(dto).toBeInstanceOf(Outer);
    expect(dto.inner).toBeInstanceOf(Inner);
    expect(Object.fromEntries(Object.entries(dto))).toEqual({ id: 'x', until: null, inner: { letter: 'a' } });
  });

  it('names every field that is wrong, missing or unknown', () => {
    expect(pointers({ on: 'true', extra: 1, inner: { letter: 'c', more: 2 } }).toSorted()).toEqual([
      '/extra',
      '/id',
      '/inner/letter',
      '/inner/more',
      '/on',
    ]);
  });

  it('converts nothing: a number is no id, a word no boolean', () => {
    expect(pointers({ id: 42 })).toEqual(['/id']);
    expect(pointers({ id: 'x', on: 'false' })).toEqual(['/on']);
  });

  it('tells null from absent', () => {
    expect(pointers({ id: 'x', text: null })).toEqual(['/text']);
    expect(pointers({ id: 'x', until: null })).toEqual([]);
  });

  it('refuses __proto__ and constructor as unknown fields and pollutes nothing', () => {
    const sent = readJsonBody(Buffer.from('{"id":"x","__proto__":{"on":true},"constructor":{}}'));
    expect(pointers(sent)).toEqual(['/__proto__', '/constructor']);
    expect(({} as { on?: boolean }).on).toBeUndefined();
  });

  it('keeps __proto__ keys inside values that are any JSON', () => {
    const sent = readJsonBody(Buffer.from('{"id":"x","context":{"__proto__":{"a":1}}}'));
    expect(JSON.stringify(readDto(Outer, sent).context)).toBe('{"__proto__":{"a":1}}');
  });

  it.each([[], 'text', 5, true])('refuses %j, which is no object', (value) => {
    expect(pointers(value)).toContain('');
  });

  it('takes text with NUL and lone surrogates, and ids without', () => {
    expect(pointers({ id: 'x', text: '\0\ud83d' })).toEqual([]);
    expect(pointers({ id: '\ud83d' })).toEqual(['/id']);
    expect(pointers({ id: 'a\0b' })).toEqual(['/id']);
    expect(pointers({ id: '' })).toEqual(['/id']);
    expect(pointers({ id: '😀'.repeat(200) })).toEqual([]);
    expect(pointers({ id: '😀'.repeat(201) })).toEqual(['/id']);
  });
});
