import type { CursorPosition, Cursors } from '#platform';

/** What is common to every list: where it is complete to, where it goes on, and the bounds as they were understood. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
  /** Position that the read model has reached; null while the account's log is empty. */
  readonly completeUpTo: string | null;
  readonly from: string | null;
  readonly to: string | null;
}

interface PagingQuery {
  readonly limit: number;
  readonly cursor: string | null;
}

/** One question and its pages: a cursor made for it is refused for any other. */
export class Paging<Q extends PagingQuery> {
  private readonly filter: string;

  constructor(
    private readonly cursors: Cursors,
    /** Route, with the ids of its path. */
    route: readonly string[],
    private readonly query: Q,
  ) {
    const asked = Object.entries(query).filter(([name]) => name !== 'limit' && name !== 'cursor');
    this.filter = JSON.stringify([route, asked], (_key, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value,
    );
  }

  /** Where the page before ended; null for the first. Throws 400 for a cursor of another question. */
  place(): CursorPosition | null {
    return this.query.cursor === null ? null : this.cursors.decode(this.filter, this.query.cursor);
  }

  page<T>(items: readonly T[], next: CursorPosition | null, completeUpTo: bigint | null): Page<T> {
    const { from, to } = this.query as { readonly from?: Date | null; readonly to?: Date | null };
    return {
      items,
      nextCursor: next === null ? null : this.cursors.encode(this.filter, next),
      completeUpTo: completeUpTo === null ? null : String(completeUpTo),
      from: from?.toISOString() ?? null,
      to: to?.toISOString() ?? null,
    };
  }
}
