/** Most characters of an id (api.md, ids). */
export const maxIdLength = 200;

/** C0, DEL or C1; Postgres takes no NUL, and nobody sees the others. */
export const hasControlCharacter = (text: string): boolean =>
  // eslint-disable-next-line no-control-regex -- control characters are what is looked for
  /[\u0000-\u001f\u007f-\u009f]/u.test(text);

/** True for any string of 1–200 characters without control characters or lone surrogates (api.md, ids). */
export const isId = (value: unknown): value is string =>
  typeof value === 'string' &&
  value.length >= 1 &&
  // Characters, not UTF-16 units; an emoji is one.
  (value.length <= maxIdLength || (value.length <= 2 * maxIdLength && Array.from(value).length <= maxIdLength)) &&
  !hasControlCharacter(value) &&
  value.isWellFormed();

/** True for an id that can stand in a path: `.` and `..` are taken out of it before they are sent (RFC 3986 §5.2.4). */
export const isPathName = (value: unknown): value is string => isId(value) && value !== '.' && value !== '..';
