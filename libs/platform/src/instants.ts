/** A time as the API speaks it: RFC 3339 in UTC with milliseconds. */
export const formatInstant = (time: Date): string => time.toISOString();

/** RFC 3339 and Postgres share the years 1 to 9999; beyond them one of the two has no words for an instant. */
const first = Date.parse('0001-01-01T00:00:00.000Z');
const last = Date.parse('9999-12-31T23:59:59.999Z');

const shape = /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:([Zz])|([+\- ])(\d\d):(\d\d)))?$/u;

/** A time that was read, or why it could not be. */
export type ReadInstant = { readonly time: Date } | { readonly reason: string };

const wanted = 'an RFC 3339 time with an offset, such as 2026-11-30T10:00:00.000Z';

/**
 * Reads an RFC 3339 time. A blank before the offset is a `+` that a URL swallowed. 23:59:60Z is the first instant of
 * the next minute. Fractions finer than a millisecond are rounded up, so that a half-open range over times that have
 * milliseconds holds what it says. What counts is the instant in UTC: 9999-12-31T23:59:60Z would be in the year 10000,
 * and is refused like every instant outside the years 1 to 9999.
 */
export const readInstant = (text: string): ReadInstant => {
  const parts = shape.exec(text);
  if (parts?.[4] === undefined) return { reason: `must be ${wanted}` };
  return instantOf(parts);
};

/** As `readInstant`, and a bare date: its first instant in UTC as a lower bound, its last day included as an upper one. */
export const readBound = (text: string, bound: 'from' | 'to'): ReadInstant => {
  const parts = shape.exec(text);
  if (parts === null) return { reason: `must be ${wanted}, or a date such as 2026-11-30` };
  if (parts[4] !== undefined) return instantOf(parts);
  const day = dayOf(parts);
  if (day === null) return { reason: 'no such day' };
  return within(bound === 'from' ? day : day + 86_400_000);
};

const instantOf = (parts: RegExpExecArray): ReadInstant => {
  const day = dayOf(parts);
  if (day === null) return { reason: 'no such day' };
  const [hour, minute, second] = [Number(parts[4]), Number(parts[5]), Number(parts[6])];
  const [offsetHour, offsetMinute] = [Number(parts[10] ?? '0'), Number(parts[11] ?? '0')];
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 23 || offsetMinute > 59)
    return { reason: 'no such time' };
  const offset = (parts[9] === '-' ? -1 : 1) * (offsetHour * 60 + offsetMinute) * 60_000;
  const fraction = Math.ceil(Number(`0.${parts[7] ?? '0'}`) * 1000 - 1e-9);
  const time = day + hour * 3_600_000 + minute * 60_000 + second * 1000 + fraction - offset;
  if (second === 60 && (time - fraction) % 86_400_000 !== 0)
    return { reason: 'a leap second stands at 23:59:60Z only' };
  return within(time);
};

const within = (time: number): ReadInstant =>
  time >= first && time <= last
    ? { time: new Date(time) }
    : { reason: 'must be within the years 0001 to 9999, in UTC and rounded up to the millisecond' };

const dayOf = (parts: RegExpExecArray): number | null => {
  const [year, month, date] = [Number(parts[1]), Number(parts[2]), Number(parts[3])];
  // Not Date.UTC: it reads the years 0 to 99 as 1900 to 1999.
  const day = new Date(0);
  day.setUTCFullYear(year, month - 1, date);
  const exists = day.getUTCFullYear() === year && day.getUTCMonth() === month - 1 && day.getUTCDate() === date;
  return exists && year >= 1 ? day.getTime() : null;
};
