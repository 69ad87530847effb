import { lookup as resolve, type LookupAddress } from 'node:dns';
import { isIP } from 'node:net';
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  type BrotliDecompress,
  type Gunzip,
  type Inflate,
} from 'node:zlib';
import type { Readable } from 'node:stream';
import { Agent, request as send } from 'undici';
import { isPublicAddress } from './addresses.js';
import { hostOf } from './allowed-hosts.js';

/** A request that leaves for the outside. */
export interface OutboundRequest {
  readonly url: URL;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  readonly signal: AbortSignal;
  readonly timeMs: number;
  /** Most bytes of the answer's body, as sent and as unpacked. */
  readonly maxBytes: number;
  /** Asked of every URL before anything is done for it, of redirects too: null where it may be reached, else why not. */
  readonly judge: (url: URL) => OutboundFault | null;
  /** Redirects that are followed. */
  readonly redirects: number;
}

export interface OutboundFault {
  readonly code: string;
  readonly message: string;
  /** Nothing was sent: the request was refused, not lost. */
  readonly isRefusal: boolean;
}

export type OutboundAnswer =
  | {
      readonly kind: 'answered';
      readonly url: URL;
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: Buffer;
    }
  | ({ readonly kind: 'failed' } & OutboundFault);

/** What tests may set and nothing else does: no setting leads here. */
export interface OutboundOptions {
  /** Default: addresses of the public internet. */
  readonly isAllowedAddress?: (address: string, url: URL) => boolean;
  /** Default: the system's resolver. */
  readonly resolve?: Resolve;
}

export type Resolve = (host: string) => Promise<readonly LookupAddress[]>;

/** Sends a request and reads its answer within limits. Never rejects. */
export type Outbound = (request: OutboundRequest) => Promise<OutboundAnswer>;

const maxHeaderBytes = 32 * 1024;
const connectMs = 5_000;

class Fault extends Error {
  constructor(readonly fault: OutboundFault) {
    super(fault.message);
  }
}

/**
 * Requests to hosts that somebody else chose. A name is looked up once; every address that it has must be allowed, and
 * the connection goes to one of these addresses, so that a name which changes between look and connection changes
 * nothing. Redirects begin anew. No proxy, no cookies, no credentials, a connection for each request.
 */
export const outbound =
  ({ isAllowedAddress = isPublicAddress, resolve: look = systemResolver }: OutboundOptions = {}): Outbound =>
  async (request) => {
    const clock = AbortSignal.timeout(request.timeMs);
    const signal = AbortSignal.any([request.signal, clock]);
    try {
      return await follow(request, signal, isAllowedAddress, look);
    } catch (error) {
      return { kind: 'failed', ...faultOf(error, request.signal, clock) };
    }
  };

const follow = async (
  request: OutboundRequest,
  signal: AbortSignal,
  isAllowed: NonNullable<OutboundOptions['isAllowedAddress']>,
  look: Resolve,
): Promise<OutboundAnswer> => {
  let { url, method, headers, body } = request;
  for (let followed = 0; ; followed += 1) {
    const refusal = request.judge(url);
    if (refusal !== null) throw new Fault(refusal);
    const addresses = await addressesOf(url, isAllowed, look, signal);
    const answer = await exchange({ ...request, url, method, headers, body, signal }, addresses);
    const next = answer.kind === 'answered' ? redirectOf(answer) : null;
    if (next === null || answer.kind !== 'answered' || request.redirects === 0) return answer;
    if (followed >= request.redirects) throw failure('too_many_redirects', 'the host redirects too often');
    if (url.protocol === 'https:' && next.protocol !== 'https:')
      throw failure('insecure_redirect', 'the host redirects to plain HTTP');
    if (next.origin !== url.origin) headers = withoutCredentials(headers);
    if (answer.status === 303 || (answer.status < 303 && method === 'POST')) [method, body] = ['GET', null];
    url = next;
  }
};

/** All addresses of a host, each allowed; a literal address is its own. */
const addressesOf = async (
  url: URL,
  isAllowed: NonNullable<OutboundOptions['isAllowedAddress']>,
  look: Resolve,
  signal: AbortSignal,
): Promise<readonly LookupAddress[]> => {
  const host = hostOf(url);
  const family = isIP(host);
  const addresses = family === 0 ? await within(look(host), signal) : [{ address: host, family }];
  if (addresses.length === 0) throw failure('host_not_found', 'the host has no address');
  if (addresses.every(({ address }) => isAllowed(address, url))) return addresses;
  throw new Fault({
    code: 'address_not_allowed',
    message: 'the host is at an address that is not public',
    isRefusal: true,
  });
};

const systemResolver: Resolve = (host) =>
  new Promise((done, failed) => {
    resolve(host, { all: true, order: 'verbatim' }, (error, addresses) => {
      if (error === null) done(addresses);
      else failed(failure('host_not_found', 'the name of the host cannot be resolved'));
    });
  });

const within = async <T>(work: Promise<T>, signal: AbortSignal): Promise<T> => {
  const { promise, reject } = Promise.withResolvers<never>();
  const ended = (): void => reject(signal.reason as Error);
  if (signal.aborted) ended();
  signal.addEventListener('abort', ended, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', ended);
  }
};

const exchange = async (
  { url, method, headers, body, signal, maxBytes }: OutboundRequest,
  addresses: readonly LookupAddress[],
): Promise<OutboundAnswer> => {
  const agent = new Agent({
    connections: 1,
    pipelining: 0,
    allowH2: false,
    maxHeaderSize: maxHeaderBytes,
    connect: {
      timeout: connectMs,
      // The only answer that there is to the question where the host is.
      lookup: (_host, options, done) => {
        const [first] = addresses;
        if (options.all === true) done(null, [...addresses]);
        else done(null, first?.address ?? '', first?.family);
      },
    },
  });
  try {
    const answer = await send(url, {
      dispatcher: agent,
      method: method as 'GET',
      headers: { 'user-agent': 'Hookledger', ...headers, 'accept-encoding': 'identity' },
      body,
      signal,
    });
    const given = headersOf(answer.headers);
    const packed = method === 'HEAD' ? null : (given['content-encoding'] ?? null);
    const bytes = await read(unpacked(answer.body, packed, maxBytes), maxBytes);
    return { kind: 'answered', url, status: answer.statusCode, headers: given, body: bytes };
  } finally {
    await agent.destroy().catch(() => undefined);
  }
};

const headersOf = (headers: Readonly<Record<string, string | readonly string[] | undefined>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, typeof value === 'string' ? value : value.join(', ')]],
    ),
  );

/** The body as it is meant; packed ones are unpacked although none was asked for, within the same limit. */
const unpacked = (body: Readable, packed: string | null, maxBytes: number): Readable => {
  const unpack = unpackerFor(packed);
  if (unpack === null) return body;
  let sent = 0;
  body.on('data', (chunk: Buffer) => {
    sent += chunk.length;
    if (sent > maxBytes) body.destroy(tooLarge());
  });
  body.once('error', (error) => unpack.destroy(error));
  return body.pipe(unpack);
};

const unpackerFor = (packed: string | null): BrotliDecompress | Gunzip | Inflate | null => {
  switch (packed?.trim().toLowerCase() ?? 'identity') {
    case 'identity':
      return null;
    case 'gzip':
    case 'x-gzip':
      return createGunzip();
    case 'deflate':
      return createInflate();
    case 'br':
      return createBrotliDecompress();
    default:
      throw failure('unknown_encoding', 'the answer is packed in a way that is not known');
  }
};

const read = async (body: Readable, maxBytes: number): Promise<Buffer> => {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) {
      body.destroy();
      throw tooLarge();
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
};

const tooLarge = (): Fault => failure('response_too_large', 'the answer is larger than is taken');

const redirectOf = ({ status, headers, url }: Extract<OutboundAnswer, { kind: 'answered' }>): URL | null => {
  if (![301, 302, 303, 307, 308].includes(status) || headers.location === undefined) return null;
  if (!URL.canParse(headers.location, url.href)) throw failure('bad_redirect', 'the host redirects to what is no URL');
  const next = new URL(headers.location, url);
  next.hash = '';
  return next;
};

const withoutCredentials = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(headers).filter(
      ([name]) => !['authorization', 'cookie', 'proxy-authorization'].includes(name.toLowerCase()),
    ),
  );

const failure = (code: string, message: string): Fault => new Fault({ code, message, isRefusal: false });

/** Nothing of what the network says reaches a plugin but which of a few things went wrong. */
const faultOf = (error: unknown, wanted: AbortSignal, clock: AbortSignal): OutboundFault => {
  if (error instanceof Fault) return error.fault;
  if (wanted.aborted) return { code: 'closed', message: 'the run is closed', isRefusal: false };
  if (clock.aborted) return { code: 'timeout', message: 'the host did not answer in time', isRefusal: false };
  const { code = '' } = error as { readonly code?: string };
  const unreachable = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT'];
  if (unreachable.includes(code))
    return { code: 'unreachable', message: 'the host cannot be reached', isRefusal: false };
  if (code.startsWith('Z_') || code.startsWith('ERR__ERROR'))
    return { code: 'bad_encoding', message: 'the answer cannot be unpacked', isRefusal: false };
  return { code: 'fetch_failed', message: 'the host could not be spoken to', isRefusal: false };
};
