import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Problem, readDto } from '#platform';
import type { Json, JsonObject } from '#record';
import { FiringEnvelope, fitsAtALook } from './firing-order.js';

const fields = Object.keys(new FiringEnvelope());

const validated = (given: JsonObject): boolean => {
  try {
    readDto(FiringEnvelope, given);
    return true;
  } catch (error) {
    if (error instanceof Problem) return false;
    throw error;
  }
};

const values = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 210 }),
  fc.constantFrom<Json>(null, '', 'a', 'a'.repeat(200), 'a'.repeat(201), '\ud800', '\u0000', 5, true, {}, []),
  fc.constantFrom('2026-11-30T10:00:00.000Z', '2026-11-30T10:00:00+02:00', '2026-11-30', '9999-12-31T23:59:59-23:59'),
);

describe('the look at an envelope', () => {
  it('says what its decorators say', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...fields), values), (given) => {
        expect(fitsAtALook(given)).toBe(validated(given));
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    [{ turnId: 't', cause: '', occurredAt: '2026-11-30T10:00:00.000Z', sessionId: null }, true],
    [{ turnId: 5 }, false],
    [{ occurredAt: '2026-11-30' }, false],
  ] as const)('takes %j: %s', (given, fits) => {
    expect([fitsAtALook(given), validated(given)]).toEqual([fits, fits]);
  });
});
