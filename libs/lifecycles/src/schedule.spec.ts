import { describe, expect, it } from '@jest/globals';
import { readSchedule } from './schedule.js';

const slots = (pattern: string, timeZone: string, from: string, count: number): readonly string[] => {
  const read = readSchedule(pattern, timeZone);
  if (read.kind === 'refused') return [read.field];
  const found: string[] = [];
  let at = read.schedule.next(new Date(from));
  while (at !== null && found.length < count) {
    found.push(at.toISOString());
    at = read.schedule.next(at);
  }
  return found;
};

describe('a schedule', () => {
  it('is due by the clock of its time zone', () => {
    expect(slots('0 7 * * 1-5', 'Europe/Berlin', '2026-11-27T00:00:00Z', 3)).toEqual([
      '2026-11-27T06:00:00.000Z',
      '2026-11-30T06:00:00.000Z',
      '2026-12-01T06:00:00.000Z',
    ]);
    expect(slots('30 5 * * *', 'Asia/Kolkata', '2026-11-27T00:00:00Z', 1)).toEqual(['2026-11-28T00:00:00.000Z']);
  });

  it('is due once on a day whose hour is skipped, after the gap, and once on a day that has it twice', () => {
    expect(slots('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', 2)).toEqual([
      '2026-03-29T01:00:00.000Z',
      '2026-03-30T00:30:00.000Z',
    ]);
    expect(slots('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', 2)).toEqual([
      '2026-10-25T00:30:00.000Z',
      '2026-10-26T01:30:00.000Z',
    ]);
  });

  it('goes on every half hour through a change of the clock', () => {
    expect(slots('*/30 * * * *', 'Europe/Berlin', '2026-10-25T00:00:00Z', 4)).toEqual([
      '2026-10-25T00:30:00.000Z',
      '2026-10-25T01:00:00.000Z',
      '2026-10-25T01:30:00.000Z',
      '2026-10-25T02:00:00.000Z',
    ]);
  });

  it('is due strictly after the moment it is asked for', () => {
    expect(slots('* * * * *', 'UTC', '2026-10-25T00:00:00.000Z', 1)).toEqual(['2026-10-25T00:01:00.000Z']);
    expect(slots('* * * * *', 'UTC', '2026-10-25T00:00:59.999Z', 1)).toEqual(['2026-10-25T00:01:00.000Z']);
  });

  it('may have no slot at all', () => {
    expect(slots('0 0 30 2 *', 'UTC', '2026-10-25T00:00:00Z', 1)).toEqual([]);
  });

  it('that is none is refused, and so is a time zone that is none', () => {
    for (const none of ['', 'often', '* * * *', '61 * * * *', '2026-12-01T10:00:00', '* * * * * * * *']) {
      expect(slots(none, 'UTC', '2026-10-25T00:00:00Z', 1)).toEqual(['schedule']);
    }
    for (const none of ['', 'Mars/Olympus', '../etc']) {
      expect(slots('* * * * *', none, '2026-10-25T00:00:00Z', 1)).toEqual(['timeZone']);
    }
  });
});
