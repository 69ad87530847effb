import type { Cursors } from '#platform';

/** A page of a list (api.md, paging). */
export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
  /** Position in the account's log up to which the answer is complete; null: the log is empty. */
  readonly completeUpTo: string | null;
}

/** A page of things that are all in memory, by id. `filter` says the whole question, for the cursor. */
export const pageById = <T extends { readonly id: string }>(
  all: readonly T[],
  query: { readonly limit: number; readonly cursor: string | null },
  filter: string,
  cursors: Cursors,
  completeUpTo: string | null,
): Page<T> => {
  const after = query.cursor === null ? null : String(cursors.decode(filter, query.cursor)[0]);
  const sorted = [...all].sort((a, b) => (a.id < b.id ? -1 : 1));
  const rest = after === null ? sorted : sorted.filter(({ id }) => id > after);
  const items = rest.slice(0, query.limit);
  const last = items.at(-1);
  const nextCursor = rest.length > items.length && last !== undefined ? cursors.encode(filter, [last.id]) : null;
  return { items, nextCursor, completeUpTo };
};
