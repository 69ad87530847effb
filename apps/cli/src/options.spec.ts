import { describe, expect, it } from '@jest/globals';
import { readOptions, wholeNumber } from './options.js';
import { Misuse } from './words.js';

const options = { to: { type: 'string' }, json: { type: 'boolean' } } as const;

describe('options', () => {
  it('are read with their values, in both spellings', () => {
    expect({ ...readOptions(['--to', 'a', '--json'], options).values }).toEqual({ to: 'a', json: true });
    expect({ ...readOptions(['--to=-a'], options).values }).toEqual({ to: '-a' });
  });

  it.each([
    ['one that is not known', ['--frob'], '--frob'],
    ['one without its value', ['--to'], '--to'],
    ['a word too many', ['x'], '"x"'],
    ['a value for one that takes none', ['--json=1'], '--json'],
  ])('refuse %s, and name it', (_what, args, named) => {
    expect(() => readOptions(args, options)).toThrow(Misuse);
    expect(() => readOptions(args, options)).toThrow(named);
  });

  it('say on one line what is wrong', () => {
    expect(() => readOptions(['--to', '-x'], options)).toThrow(/^[^\n]+$/u);
  });

  it('ask for each word that has a name', () => {
    expect(() => readOptions([], options, ['HOOK'])).toThrow('HOOK is missing');
    expect(readOptions(['systemPrompt'], options, ['HOOK']).positionals).toEqual(['systemPrompt']);
  });
});

describe('a number', () => {
  it.each(['', '-1', '1.5', '1e3', ' 1', '11', '0x1', '9'.repeat(20)])('is refused as %j', (text) => {
    expect(() => wholeNumber('after', text, 0, 10)).toThrow('--after must be a whole number from 0 to 10');
  });

  it('may be either bound', () => {
    expect([wholeNumber('n', '0', 0, 10), wholeNumber('n', '10', 0, 10)]).toEqual([0, 10]);
  });
});
