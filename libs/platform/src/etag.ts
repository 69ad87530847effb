import { headerPointer, Problem } from './problem.js';

/** The strong entity tag of a version (RFC 9110 §8.8.3). */
export const etagOf = (version: number | string): string => `"${String(version)}"`;

const tags = /^\s*(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"\s*(?:,\s*(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"\s*)*$/u;

/**
 * RFC 9110 §13.1.1: absent lets pass, `*` matches what exists, else one of the tags must be the current one (strong
 * comparison, so `W/"1"` never matches). Throws 412 `stale_etag` with the current tag, 400 when the header is no list
 * of tags.
 */
export const requireMatch = (ifMatch: string | undefined, current: string): void => {
  if (ifMatch === undefined || ifMatch.trim() === '*') return;
  if (!tags.test(ifMatch))
    throw new Problem(400, 'bad_if_match', 'If-Match must be * or a list of entity tags in quotes.', [
      { pointer: headerPointer('If-Match'), reason: 'is no list of entity tags' },
    ]);
  const given: readonly string[] = ifMatch.match(/(?:W\/)?"[^"]*"/gu) ?? [];
  if (given.includes(current)) return;
  const detail = 'It was changed since you read it. Read it again and repeat the change on what is there now.';
  throw new Problem(412, 'stale_etag', detail, [], { etag: current });
};
