import { describe, expect, it } from '@jest/globals';
import {
  pagingFields,
  queryFlag,
  queryFreeText,
  queryId,
  queryPosition,
  queryText,
  queryWord,
  rangeFields,
  readQuery,
} from './query.js';

const fields = {
  ...pagingFields,
  ...rangeFields,
  hook: queryId('a hook'),
  order: queryWord('the order', ['newest', 'oldest'], 'newest'),
  after: queryPosition('a position'),
  all: queryFlag('everything'),
  name: queryText('a name', 10),
  text: queryFreeText('words', 10),
} as const;

const refused = (search: string, pointer: string): void => {
  expect(() => readQuery(fields, search)).toThrow(
    expect.objectContaining({
      status: 400,
      errors: expect.arrayContaining([expect.objectContaining({ pointer: `/query/${pointer}` })]),
    }),
  );
};

describe('a query', () => {
  it('has a value for every field, given or not', () => {
    expect(readQuery(fields, 'hook=sshCommandSending&limit=500&after=7&all=true&from=2026-11-30')).toEqual({
      hook: 'sshCommandSending',
      limit: 500,
      cursor: null,
      from: new Date('2026-11-30T00:00:00Z'),
      to: null,
      order: 'newest',
      after: 7n,
      all: true,
      name: null,
      text: null,
    });
  });

  it.each([
    ['unknown parameters', 'nope=1', 'nope'],
    ['names that only objects have', '__proto__=1', '__proto__'],
    ['a parameter that stands twice', 'hook=a&hook=b', 'hook'],
    ['a limit of nothing', 'limit=0', 'limit'],
    ['a limit above the most', 'limit=501', 'limit'],
    ['a limit that is no number', 'limit=1e2', 'limit'],
    ['a word that is none', 'order=random', 'order'],
    ['a negative position', 'after=-1', 'after'],
    ['a flag that is neither', 'all=yes', 'all'],
    ['an empty id', 'hook=', 'hook'],
    ['an id with NUL', 'hook=%00', 'hook'],
    ['a name with NUL', 'name=a%00b', 'name'],
    ['a name with a line break', 'name=a%0ab', 'name'],
    ['a value that is no percent-encoding', 'text=%zz', 'text'],
    ['a value that is no UTF-8', 'text=%ff', 'text'],
    ['half of a surrogate pair', 'text=%ED%A0%80', 'text'],
    ['a name that is no percent-encoding', '%zz=1', '%zz'],
    ['text that is too long', 'text=12345678901', 'text'],
    ['a time without an offset', 'from=2026-10-25T02:30:00', 'from'],
    ['from after to', 'from=2026-11-30&to=2026-11-01', 'from'],
  ])('refuses %s', (_, search, pointer) => refused(search, pointer));

  it('takes a time whose + was not escaped', () => {
    expect(readQuery(fields, 'from=2026-03-29T02:30:00+01:00').from).toEqual(new Date('2026-03-29T01:30:00Z'));
  });

  it('takes words with any character in them, escaped or sent as UTF-8', () => {
    expect(readQuery(fields, 'text=a%00b%0a+c').text).toBe('a\0b\n c');
    expect(readQuery(fields, 'text=%C3%BC%F0%9F%98%80').text).toBe('ü😀');
    expect(readQuery(fields, '&text=a=b&').text).toBe('a=b');
  });

  it('takes an empty range, which has nothing in it', () => {
    const { from, to } = readQuery(fields, 'from=2026-11-30T00:00:00Z&to=2026-11-30T00:00:00Z');
    expect(from).toEqual(to);
  });
});
