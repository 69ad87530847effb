import { backoffMs, pause, readRetryAfter, reasonOf, type Backoff } from './backoff.js';
import { isObject } from './json.js';
import { HookledgerProblem, Unreachable, type Fault } from './problems.js';

/** Where a server is, who asks, and for how long. */
export interface ConnectionOptions {
  /** `http://host:3000`; a path before `/v1` is kept. */
  readonly url: string;
  readonly key: string;
  /** Default: `default`. */
  readonly account?: string;
  /** The person behind the key; recorded (`Hookledger-On-Behalf-Of`). */
  readonly onBehalfOf?: string;
  /** Default: the runtime's own. */
  readonly fetch?: typeof globalThis.fetch;
  /** How long a call goes on trying to reach the server since it last showed a sign of life, ms. Default: 15 000. */
  readonly reachMs?: number;
  /** How long a call takes at most, all attempts and waits together, ms. Default: 60 000; `Infinity` for none. */
  readonly deadlineMs?: number;
  readonly backoff?: Partial<Backoff>;
}

/** What one call may say otherwise. */
export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly deadlineMs?: number;
  readonly reachMs?: number;
  /** Default: one of the call's own, the same for all of its attempts. */
  readonly idempotencyKey?: string;
}

export interface Request {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below the account: `hooks/…`. */
  readonly path: string;
  readonly query?: { readonly [name: string]: string | number | undefined };
  readonly body?: unknown;
  readonly headers?: { readonly [name: string]: string };
  /** How long the server may hold the request open on purpose, ms. */
  readonly heldMs?: number;
}

export interface Reply {
  readonly status: number;
  readonly body: unknown;
  readonly headers: Headers;
}

/** Time that is left of a call. */
export interface Clock {
  /** Ms until the deadline; `Infinity` for none. */
  left(): number;
  /** Ms for which the server may still be silent before it counts as unreachable. */
  silence(): number;
  /** It gave a sign of life. */
  alive(): void;
}

/** Time that an attempt has for itself, beside what the server holds it open, ms. */
const attemptMs = 10_000;

const defaults = { reachMs: 15_000, deadlineMs: 60_000, backoff: { firstMs: 100, mostMs: 5_000 } } as const;

/** Sends requests again, with the same idempotency key, until they are answered. */
export class Connection {
  readonly account: string;
  private readonly base: string;
  private readonly backoff: Backoff;
  private readonly fetch: typeof globalThis.fetch;
  /** Called with the time after every answer of the server itself. */
  onAlive: () => void = () => undefined;

  constructor(readonly options: ConnectionOptions) {
    this.account = options.account ?? 'default';
    this.base = `${options.url.replace(/\/+$/u, '')}/v1/accounts/${encodeURIComponent(this.account)}`;
    this.backoff = { ...defaults.backoff, ...options.backoff };
    // A global called as a method of something else is an illegal invocation in browsers.
    this.fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  /** The address of a path, with another scheme where asked. */
  address(path: string, query: Request['query'] = {}): string {
    const words = Object.entries(query).flatMap(([name, value]) =>
      value === undefined ? [] : [`${encodeURIComponent(name)}=${encodeURIComponent(value)}`],
    );
    return `${this.base}/${path}${words.length === 0 ? '' : `?${words.join('&')}`}`;
  }

  /** Headers that every request has. */
  headers(): { readonly [name: string]: string } {
    const { key, onBehalfOf } = this.options;
    return {
      authorization: `Bearer ${key}`,
      ...(onBehalfOf === undefined ? {} : { 'hookledger-on-behalf-of': onBehalfOf }),
    };
  }

  clock(options: Pick<CallOptions, 'deadlineMs' | 'reachMs'>, ownDeadlineMs?: number): Clock {
    const deadlineMs = options.deadlineMs ?? ownDeadlineMs ?? this.options.deadlineMs ?? defaults.deadlineMs;
    const reachMs = options.reachMs ?? this.options.reachMs ?? defaults.reachMs;
    const started = Date.now();
    let lastAlive = started;
    return {
      left: () => started + deadlineMs - Date.now(),
      silence: () => lastAlive + reachMs - Date.now(),
      alive: () => void (lastAlive = Date.now()),
    };
  }

  /**
   * Sends until it is answered for good. Rejects with `HookledgerProblem` where the server refuses, with `Unreachable`
   * where it shows no sign of life for too long, with the signal's reason where the caller gives up.
   */
  async send(request: Request, options: CallOptions = {}, clock = this.clock(options)): Promise<Reply> {
    const { signal } = options;
    const key = request.method === 'GET' ? undefined : (options.idempotencyKey ?? newKey());
    // Once, so that all attempts have the same bytes: the key is bound to them.
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    for (let attempt = 1; ; attempt += 1) {
      if (signal?.aborted === true) throw reasonOf(signal);
      const came = await this.attempt(request, body, key, signal, clock);
      if (came.kind === 'answered') return came.reply;
      const waitMs = backoffMs(this.backoff, attempt, retryAfterOf(came.failure), Math.random);
      const patience = Math.min(clock.left(), came.isAlive ? Infinity : clock.silence());
      if (waitMs >= patience) throw new Unreachable(attempt, came.failure);
      await pause(waitMs, signal);
    }
  }

  /** Opens a stream: the response as it is, once it is answered 200. Not sent again. */
  async stream(
    path: string,
    query: Request['query'],
    headers: Request['headers'],
    signal: AbortSignal,
  ): Promise<Response> {
    const response = await this.fetch(this.address(path, query), {
      headers: { ...this.headers(), ...headers },
      signal,
    });
    if (response.status === 200) return response;
    throw problemOf(response, await response.text());
  }

  private async attempt(
    request: Request,
    body: string | undefined,
    key: string | undefined,
    signal: AbortSignal | undefined,
    clock: Clock,
  ): Promise<Attempt> {
    const limit = new AbortController();
    const abort = (): void => limit.abort();
    signal?.addEventListener('abort', abort, { once: true });
    const longest = (request.heldMs ?? 0) + attemptMs;
    const timer = setTimeout(abort, Math.max(0, Math.min(longest, clock.left())));
    try {
      const response = await this.fetch(this.address(request.path, request.query), {
        method: request.method,
        headers: {
          ...this.headers(),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(key === undefined ? {} : { 'idempotency-key': key }),
          ...request.headers,
        },
        ...(body === undefined ? {} : { body }),
        signal: limit.signal,
      });
      return this.judge(response, await response.text(), clock);
    } catch (error) {
      if (signal?.aborted === true) throw reasonOf(signal);
      if (error instanceof HookledgerProblem) throw error;
      const failure = limit.signal.aborted ? new Error('no answer in time', { cause: error }) : error;
      return { kind: 'failed', failure, isAlive: false };
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  private judge(response: Response, text: string, clock: Clock): Attempt {
    const { status, headers } = response;
    if (response.ok) {
      const body = text === '' ? null : parsed(text);
      // A body that was cut off on the way is no answer; the same key gets it again.
      if (body === undefined) return { kind: 'failed', failure: new Error('the answer was cut off'), isAlive: false };
      clock.alive();
      this.onAlive();
      return { kind: 'answered', reply: { status, body, headers } };
    }
    const problem = problemOf(response, text);
    if (isAway(problem)) return { kind: 'failed', failure: problem, isAlive: false };
    clock.alive();
    if (!isPassing(problem)) throw problem;
    return { kind: 'failed', failure: problem, isAlive: true };
  }
}

type Attempt =
  | { readonly kind: 'answered'; readonly reply: Reply }
  /** `isAlive`: the server answered, it only asks for patience. */
  | { readonly kind: 'failed'; readonly failure: unknown; readonly isAlive: boolean };

/** Codes of a server that is there and cannot write its log. */
const cannotWrite: readonly string[] = ['log_unavailable', 'database_unavailable'];

/** The server, or what stands before or behind it, is not there for the moment: nothing was recorded. */
const isAway = ({ status, code }: HookledgerProblem): boolean =>
  status === 502 || status === 504 || (status === 503 && (code === 'http_503' || cannotWrite.includes(code)));

/** Conflicts that pass by themselves: others change the same thing, or the same key is in flight. */
const passingConflicts: readonly string[] = ['changed_meanwhile', 'contended'];

/** Also a 503 that is left here: the server is busy, or another attempt of the same key is in flight. */
const isPassing = ({ status, code, retryAfterMs }: HookledgerProblem): boolean =>
  status === 408 ||
  status === 429 ||
  status === 503 ||
  (status === 409 && (retryAfterMs !== null || passingConflicts.includes(code)));

const retryAfterOf = (failure: unknown): number | null =>
  failure instanceof HookledgerProblem ? failure.retryAfterMs : null;

const problemOf = ({ status, headers }: Response, text: string): HookledgerProblem => {
  const body = parsed(text);
  const told = isObject(body) ? body : {};
  const { code, detail, errors, requestId } = told;
  return new HookledgerProblem(
    status,
    typeof code === 'string' ? code : `http_${String(status)}`,
    typeof detail === 'string' ? detail : 'the answer is no problem document of Hookledger',
    Array.isArray(errors) ? (errors as readonly Fault[]) : [],
    typeof requestId === 'string' ? requestId : null,
    readRetryAfter(headers.get('retry-after'), Date.now()),
  );
};

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
};

/** A key of one call: no other call of anybody has it. */
export const newKey = (): string => `sdk-${globalThis.crypto.randomUUID()}`;

/** One part of a path. Throws for names that would be taken out of it. */
export const part = (id: string): string => {
  if (id === '.' || id === '..' || id === '') throw new TypeError(`${JSON.stringify(id)} cannot be in a path`);
  return encodeURIComponent(id);
};
