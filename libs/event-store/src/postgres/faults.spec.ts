import { describe, expect, it } from '@jest/globals';
import { faultOf, isDatabaseAway, isUncertain } from './faults.js';

const error = (code: string | undefined, more: object = {}): Error =>
  Object.assign(new Error('words'), { code, ...more });

describe('a fault of an append', () => {
  it.each<[string | undefined, ReturnType<typeof faultOf>, boolean]>([
    ['40001', 'again', false],
    ['40P01', 'again', false],
    ['55P03', 'again', false],
    ['57014', 'again', false],
    ['57P01', 'away', true],
    ['08006', 'away', true],
    ['53100', 'away', false],
    ['25006', 'away', false],
    ['ECONNREFUSED', 'away', true],
    ['EPIPE', 'away', true],
    [undefined, 'away', true],
    ['22021', 'refused', false],
    ['23505', 'refused', false],
    ['54000', 'refused', false],
    ['42883', 'broken', false],
    ['XX000', 'broken', false],
  ])('with code %s is %s; whether it was committed is open: %s', (code, fault, uncertain) => {
    expect(faultOf(error(code))).toBe(fault);
    expect(isUncertain(error(code))).toBe(uncertain);
  });

  it('that names no constraint is about a part of the table that is not there yet', () => {
    expect(faultOf(error('23514'))).toBe('no-partition');
    expect(faultOf(error('23514', { constraint: 'odd' }))).toBe('refused');
  });
});

describe('whatever the work of a transaction throws', () => {
  it('is the database’s fault only when the database or the way to it says so', () => {
    expect(['57P01', '53100', 'ECONNRESET', 'EPIPE'].map((code) => isDatabaseAway(error(code)))).toEqual([
      true,
      true,
      true,
      true,
    ]);
    expect(['22021', '42P01', 'ERR_INVALID_ARG_TYPE', undefined].map((code) => isDatabaseAway(error(code)))).toEqual([
      false,
      false,
      false,
      false,
    ]);
    expect(isDatabaseAway(new Error('Connection terminated unexpectedly'))).toBe(true);
    expect(isDatabaseAway('words')).toBe(false);
  });
});
