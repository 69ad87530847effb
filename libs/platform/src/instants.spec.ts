import { describe, expect, it } from '@jest/globals';
import { readBound, readInstant } from './instants.js';

const at = (text: string): string => {
  const read = readInstant(text);
  return 'time' in read ? read.time.toISOString() : read.reason;
};

const bound = (text: string, which: 'from' | 'to'): string => {
  const read = readBound(text, which);
  return 'time' in read ? read.time.toISOString() : read.reason;
};

describe('a time', () => {
  it.each([
    ['2026-11-30T10:00:00.000Z', '2026-11-30T10:00:00.000Z'],
    ['2026-11-30T10:00:00Z', '2026-11-30T10:00:00.000Z'],
    ['2026-11-30t10:00:00z', '2026-11-30T10:00:00.000Z'],
    ['2026-03-29T02:30:00+01:00', '2026-03-29T01:30:00.000Z'],
    ['2026-03-29T02:30:00-01:30', '2026-03-29T04:00:00.000Z'],
    // A + that a URL turned into a blank.
    ['2026-03-29T02:30:00 01:00', '2026-03-29T01:30:00.000Z'],
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z'],
    ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
    ['2017-01-01T00:59:60+01:00', '2017-01-01T00:00:00.000Z'],
  ])('is read as RFC 3339 says: %s', (text, utc) => {
    expect(at(text)).toBe(utc);
  });

  it('is rounded up to the millisecond, so that a half-open range keeps its word', () => {
    expect(at('2026-11-30T10:00:00.123456789Z')).toBe('2026-11-30T10:00:00.124Z');
    expect(at('2026-11-30T10:00:00.123000000Z')).toBe('2026-11-30T10:00:00.123Z');
    expect(at('2026-11-30T10:00:00.999999Z')).toBe('2026-11-30T10:00:01.000Z');
  });

  it.each([
    '2026-10-25T02:30:00',
    '2026-11-30',
    '2026-02-29T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-11-30T24:00:00Z',
    '2026-11-30T10:60:00Z',
    '2026-11-30T10:00:61Z',
    '2026-11-30T10:00:60Z',
    '2026-11-30T10:00:00+24:00',
    '0000-01-01T00:00:00Z',
    '0001-01-01T00:00:00+00:01',
    '9999-12-31T23:59:60Z',
    '9999-12-31T23:59:59-23:59',
    '9999-12-31T23:59:59.9999Z',
    '10000-01-01T00:00:00Z',
    'yesterday',
    '1764500000',
    '',
  ])('is refused in words where it says no instant: %j', (text) => {
    expect(at(text)).toMatch(/must be|no such|leap second/u);
  });
});

describe('a bound of a range', () => {
  it('may be a date: from its beginning, to the end of that day', () => {
    expect(bound('2026-03-29', 'from')).toBe('2026-03-29T00:00:00.000Z');
    expect(bound('2026-03-29', 'to')).toBe('2026-03-30T00:00:00.000Z');
  });

  it('is refused where its instant would be outside the years that can be written', () => {
    expect(bound('9999-12-31', 'from')).toBe('9999-12-31T00:00:00.000Z');
    expect(bound('9999-12-31', 'to')).toMatch(/must be within/u);
    expect(bound('9999-12-31T23:59:60Z', 'to')).toMatch(/must be within/u);
    expect(bound('0001-01-01T00:00:00+01:00', 'from')).toMatch(/must be within/u);
  });

  it('without an offset is refused, since it would mean another instant elsewhere', () => {
    expect(bound('2026-10-25T02:30:00', 'from')).toMatch(/must be/u);
  });
});
