import type { Json } from '#record';

/** Longest text that may be searched for; parts overlap by it, so that no hit falls between two. */
export const longestSearch = 200;
/** Shortest text that the trigram index is of use for; shorter ones are looked for in every text of the account. */
export const shortestIndexed = 3;

const partLength = 16_384;

/** Text as it is searched: without case, and as a column takes it (NUL and lone surrogates become U+FFFD). */
export const searchable = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd').toLowerCase();

/**
 * The texts within a JSON value, in searchable parts. Keys are not among them: they are names that hosts chose, and
 * would make every invocation of a hook a hit. Numbers are, as they are written.
 */
export const partsOf = (value: Json): readonly string[] => {
  const parts = new Set<string>();
  gather(value, parts);
  return [...parts];
};

const gather = (value: Json, parts: Set<string>): void => {
  if (typeof value === 'string') addText(searchable(value), parts);
  else if (typeof value === 'number') addText(String(value), parts);
  else if (typeof value === 'object' && value !== null) for (const item of Object.values(value)) gather(item, parts);
};

const addText = (text: string, parts: Set<string>): void => {
  if (text === '') return;
  if (text.length <= partLength) {
    parts.add(text);
    return;
  }
  // A cut through a surrogate pair leaves halves, which a column refuses; the overlap holds the pair whole elsewhere.
  for (let start = 0; start + longestSearch < text.length; start += partLength - longestSearch) {
    parts.add(text.slice(start, start + partLength).toWellFormed());
  }
};
