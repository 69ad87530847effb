/** One fault of a request: a JSON Pointer into the body (or `/query/…`, `/path/…`, `/header/…`) and the mend. */
export interface Fault {
  readonly pointer: string;
  readonly reason: string;
  readonly line?: number;
  readonly column?: number;
}

/** The server refused: `application/problem+json` (RFC 9457) with a stable code. */
export class HookledgerProblem extends Error {
  override readonly name: string = 'HookledgerProblem';

  constructor(
    readonly status: number,
    /** Stable, in snake_case; `http_502` and the like where something before the server answered. */
    readonly code: string,
    readonly detail: string,
    readonly errors: readonly Fault[] = [],
    /** Names the request in the server's log. */
    readonly requestId: string | null = null,
    /** What `Retry-After` asked for, ms. */
    readonly retryAfterMs: number | null = null,
  ) {
    super(
      `${String(status)} ${code}: ${detail}${errors.map(({ pointer, reason }) => `; ${pointer} ${reason}`).join('')}`,
    );
  }
}

/** The server could not be reached, or could not write its log, for as long as the caller would try. */
export class Unreachable extends Error {
  override readonly name: string = 'Unreachable';
  /** The invocation, where the server had said that its chain runs or waits before it went away. */
  invocationId: string | null = null;

  constructor(
    readonly attempts: number,
    /** What the last attempt came to: a network failure, or the problem that the server answered with. */
    override readonly cause: unknown,
  ) {
    super(`the server could not be reached in ${String(attempts)} attempts: ${wordsOf(cause)}`);
  }
}

/** The caller's deadline passed while the chain still ran, or still waited for a person. */
export class StillRunning extends Error {
  override readonly name: string = 'StillRunning';

  constructor(
    /** Ask for its answer later: `client.waitForAnswer`. */
    readonly invocationId: string,
  ) {
    super(`the deadline passed while invocation ${invocationId} still ran`);
  }
}

/** Events that a subscription must have seen are not there: positions were skipped without a word of purging. */
export class MissingEvents extends Error {
  override readonly name: string = 'MissingEvents';

  constructor(
    readonly after: string,
    readonly found: string,
  ) {
    super(`the log goes on at position ${found} after ${after}: what is between them did not come`);
  }
}

const wordsOf = (cause: unknown): string => {
  if (!(cause instanceof Error)) return String(cause);
  // What fetch rejects with says only "fetch failed"; why stands in its cause.
  return cause.cause instanceof Error ? `${cause.message}: ${cause.cause.message}` : cause.message;
};
