import { Failure, Misuse, plain } from '../words.js';

/** The options of every command that speaks to a server. */
export const connectionOptions = {
  url: { type: 'string' },
  key: { type: 'string' },
  account: { type: 'string' },
} as const;

/** A server, an account of it, and the key to it. */
export interface Connection {
  /** `…/v1/accounts/ID`, without a slash at its end. */
  readonly account: string;
  readonly key: string;
}

type Given = { readonly [name in keyof typeof connectionOptions]?: string | undefined };

/** Reads whom to speak to: options first, then `HOOKLEDGER_URL` and `HOOKLEDGER_KEY`. Throws `Misuse`. */
export const readConnection = (given: Given, env: Readonly<Record<string, string | undefined>>): Connection => {
  const key = given.key ?? env.HOOKLEDGER_KEY ?? '';
  if (key === '') throw new Misuse('a key is missing: set HOOKLEDGER_KEY, or give --key');
  // Said here, since fetch would quote it.
  if (!/^[\x21-\x7e]+$/u.test(key)) throw new Misuse('the key has characters that no key has');
  const account = given.account ?? 'default';
  if (account === '') throw new Misuse('--account is empty');
  const base = readUrl(given.url ?? env.HOOKLEDGER_URL ?? '');
  return { account: `${base}/v1/accounts/${encodeURIComponent(account)}`, key };
};

const readUrl = (text: string): string => {
  const url = URL.parse(text === '' ? 'http://127.0.0.1:3000' : text);
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw new Misuse('the URL must start with http:// or https://');
  }
  if (url.username !== '' || url.password !== '') throw new Misuse('the URL holds a password; the key goes in --key');
  if (url.search !== '' || url.hash !== '') throw new Misuse('the URL may have no ? and no #');
  return url.href.replace(/\/+$/u, '');
};

/** What a request carries beside the key. */
export interface Sending {
  readonly method?: 'GET' | 'POST';
  /** JSON text. */
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** The server could not be reached, or the connection broke: the same may work later. */
export class Unreached extends Failure {}

/** The server answered, and not with what was asked for. */
export class Refused extends Failure {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/**
 * Asks for a path under the account. The answer is one with a status of success; throws `Refused` with the problem's
 * words for any other, and `Unreached` where there is none.
 */
export const ask = async (connection: Connection, path: string, sending: Sending = {}): Promise<Response> => {
  const response = await fetch(`${connection.account}${path}`, {
    method: sending.method ?? 'GET',
    redirect: 'manual',
    headers: {
      authorization: `Bearer ${connection.key}`,
      ...(sending.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...sending.headers,
    },
    ...(sending.body === undefined ? {} : { body: sending.body }),
    ...(sending.signal === undefined ? {} : { signal: sending.signal }),
  }).catch((error: unknown) => {
    throw new Unreached(`${placeOf(connection)} cannot be reached (${codeOf(error)}).`);
  });
  if (response.ok) return response;
  throw new Refused(response.status, await wordsOf(response));
};

/** The text of an answer; throws `Unreached` where the connection breaks before its end. */
export const textOf = (connection: Connection, response: Response): Promise<string> =>
  response.text().catch((error: unknown) => {
    throw new Unreached(`${placeOf(connection)} broke its answer off (${codeOf(error)}).`);
  });

const placeOf = ({ account }: Connection): string => new URL(account).origin;

/** The code alone: messages quote headers and addresses. */
const codeOf = (error: unknown): string => {
  if (!(error instanceof Error)) return 'unknown error';
  const { code } = error as { code?: unknown };
  if (typeof code === 'string') return code;
  return error.cause === undefined ? error.name : codeOf(error.cause);
};

const wordsOf = async (response: Response): Promise<string> => {
  const body = await response.text().catch(() => '');
  return problemWords(response.status, body);
};

/** A problem (RFC 9457) in words: what is wrong, and each faulty field. Anything else is not quoted. */
export const problemWords = (status: number, body: string): string => {
  const problem = readProblem(body);
  if (problem === null) return `The server answered ${status}, in words that are none of Hookledger's.`;
  const faults = problem.errors.map(({ pointer, reason }) => `\n  ${plain(pointer)}: ${plain(reason)}`);
  const code = problem.code === null ? '' : ` ${plain(problem.code)}`;
  const request = problem.requestId === null ? '' : ` (request ${plain(problem.requestId)})`;
  return `${status}${code}: ${plain(problem.detail)}${request}${faults.join('')}`;
};

interface ProblemText {
  readonly code: string | null;
  readonly detail: string;
  readonly requestId: string | null;
  readonly errors: readonly { readonly pointer: string; readonly reason: string }[];
}

const readProblem = (body: string): ProblemText | null => {
  try {
    const { code, detail, requestId, errors } = JSON.parse(body) as Record<string, unknown>;
    if (typeof detail !== 'string') return null;
    return {
      code: textOrNull(code),
      detail,
      requestId: textOrNull(requestId),
      errors: Array.isArray(errors) ? errors.flatMap(readFault) : [],
    };
  } catch {
    return null;
  }
};

const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null);

const readFault = (value: unknown): ProblemText['errors'] => {
  const { pointer, reason } = (value ?? {}) as Record<string, unknown>;
  return typeof pointer === 'string' && typeof reason === 'string' ? [{ pointer, reason }] : [];
};
