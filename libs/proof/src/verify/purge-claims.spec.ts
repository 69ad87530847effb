import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { spansOf, uncoveredBy, type Span } from './purge-claims.js';

const spans = fc.array(
  fc.tuple(fc.nat(40), fc.nat(8)).map(([first, more]): Span => ({ first, last: first + more })),
  { maxLength: 8 },
);

const positionsOf = (list: readonly Span[]): ReadonlySet<number> =>
  new Set(list.flatMap(({ first, last }) => Array.from({ length: last - first + 1 }, (_, n) => first + n)));

describe('positions that are claimed to be purged', () => {
  it('count where no recorded purge covers them, however the spans lie', () => {
    fc.assert(
      fc.property(spans, spans, (records, claims) => {
        const covered = positionsOf(records);
        const wanted = [...positionsOf(claims)].filter((position) => !covered.has(position)).length;
        expect(uncoveredBy(records, claims)).toBe(wanted);
      }),
    );
  });

  it('are read off what can be read', () => {
    expect(spansOf('no list')).toEqual([]);
    expect(spansOf([null, {}, { first: '5', last: '3' }, { first: '3', last: '5' }])).toEqual([{ first: 3, last: 5 }]);
  });
});
