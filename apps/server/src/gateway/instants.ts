import { formatInstant, readInstant } from '#platform';

/** An instant that was checked, as events have it: RFC 3339 in UTC with milliseconds. Null stays null. */
export const inUtc = <T extends string | null>(text: T): T => {
  const read = text === null ? null : readInstant(text);
  return (read !== null && 'time' in read ? formatInstant(read.time) : null) as T;
};

/** The millisecond that an instant lies in: what names a slot is cut, so that no part of it is rounded into another slot. */
export const millisecondOf = (text: string): string => inUtc(text.replace(/(\.\d{3})\d+/u, '$1'));
