import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * The two tokens that tie one operation to another (api.md, `cause` and `lineage`). Both are
 * `base64url(payload).base64url(HMAC-SHA-256)`; only the platform makes them, so a caller can neither choose a hop
 * count nor name another account's invocation.
 */
export interface CauseClaims {
  readonly account: string;
  /** The host call that led to the operation. */
  readonly callId: string;
  readonly invocationId: string;
  readonly root: string;
  /** Hop of the invocation that made the call; what it leads to is one further (MW-100). */
  readonly hop: number;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

export interface LineageClaims {
  readonly account: string;
  readonly invocationId: string;
  readonly root: string;
}

/** Why a token was refused; always 422, never taken for hop 0. */
export type TokenFault = 'malformed' | 'forged' | 'foreign' | 'expired';

export type Verified<C> =
  { readonly kind: 'ok'; readonly claims: C } | { readonly kind: 'refused'; readonly fault: TokenFault };

const sign = (key: Uint8Array, kind: string, payload: string): Buffer =>
  createHmac('sha256', key).update(`hookledger ${kind}\n`).update(payload).digest();

const token = (key: Uint8Array, kind: string, claims: object): string => {
  const payload = Buffer.from(JSON.stringify(claims)).toString('base64url');
  return `${payload}.${sign(key, kind, payload).toString('base64url')}`;
};

const verify = <C extends { account: string }>(
  key: Uint8Array,
  kind: string,
  account: string,
  text: string,
): Verified<C> => {
  const [payload, mac, ...rest] = text.split('.');
  if (payload === undefined || mac === undefined || rest.length > 0) return { kind: 'refused', fault: 'malformed' };
  // The text, not the bytes it decodes to: base64url leaves bits unused, and another spelling is another token.
  const given = Buffer.from(mac);
  const right = Buffer.from(sign(key, kind, payload).toString('base64url'));
  if (given.length !== right.length || !timingSafeEqual(given, right)) return { kind: 'refused', fault: 'forged' };
  // The signature holds, so the payload is ours and has our shape.
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as C;
  return claims.account === account ? { kind: 'ok', claims } : { kind: 'refused', fault: 'foreign' };
};

/** The token that a host call carries to the runtime. */
export const causeToken = (key: Uint8Array, claims: CauseClaims): string => token(key, 'cause', claims);

/** Checks a token that a caller sent as `cause`. */
export const verifyCause = (key: Uint8Array, account: string, text: string, now: Date): Verified<CauseClaims> => {
  const verified = verify<CauseClaims>(key, 'cause', account, text);
  if (verified.kind === 'refused') return verified;
  return verified.claims.expiresAt > now.getTime() ? verified : { kind: 'refused', fault: 'expired' };
};

/** The token of an answer, by which a later firing may name its ancestor. The same invocation always gives the same one. */
export const lineageToken = (key: Uint8Array, claims: LineageClaims): string => token(key, 'lineage', claims);

/** Checks a token that a caller sent as `lineage`. */
export const verifyLineage = (key: Uint8Array, account: string, text: string): Verified<LineageClaims> =>
  verify<LineageClaims>(key, 'lineage', account, text);
