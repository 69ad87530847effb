import type { Json } from '#record';

/**
 * One faulty field: where, and how to mend it. `pointer` is a JSON Pointer (RFC 6901), always: into the body, or below
 * `/query`, `/path` or `/header` of a request that is faulty there.
 */
export interface FieldFault {
  readonly pointer: string;
  readonly reason: string;
  /** Place in the text that the pointer names, from 1: of a source, say. */
  readonly line?: number | null;
  readonly column?: number | null;
}

/** Where a query parameter's fault is. */
export const queryPointer = (name: string): string => `/query/${escapePointer(name)}`;
/** Where a fault of a name in the path is, `{account}` say. */
export const pathPointer = (name: string): string => `/path/${escapePointer(name)}`;
/** Where a header's fault is; its name in small letters. */
export const headerPointer = (name: string): string => `/header/${escapePointer(name.toLowerCase())}`;

/** One reference token of a JSON Pointer (RFC 6901 §3). */
export const escapePointer = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1');

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
    /** Members beside the usual ones (RFC 9457 §3.2). */
    readonly members: Readonly<Record<string, Json>> = {},
  ) {
    super(detail);
  }
}
