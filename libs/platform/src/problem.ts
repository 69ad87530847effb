/** One faulty field: where, and how to mend it. */
export interface FieldFault {
  readonly pointer: string;
  readonly reason: string;
}

/** An answer that is not a success, as RFC 9457 says it. Thrown by routes only; the domain returns refusals. */
export class Problem extends Error {
  override readonly name = 'Problem';
  constructor(
    readonly status: number,
    /** Stable word for programs, e.g. `unknown_hook`, `stale_etag`. */
    readonly code: string,
    readonly detail: string,
    readonly errors: readonly FieldFault[] = [],
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(detail);
  }
}
