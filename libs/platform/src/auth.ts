import { isUtf8 } from 'node:buffer';
import { createHash, timingSafeEqual } from 'node:crypto';
import type { CanActivate, ExecutionContext } from '@nestjs/common';
import { applyDecorators, createParamDecorator, Inject, Injectable, SetMetadata } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ApiBearerAuth, ApiResponse } from '@nestjs/swagger';
import type { Caller, Role } from './caller.js';
import { accountParam } from './path.js';
import { headerPointer, Problem, queryPointer } from './problem.js';
import { declaresQuery } from './query.js';
import { paramsOf, searchOf } from './search-params.js';
import type { PlatformRequest, WithHeaders } from './request.js';
import { headerOf } from './request.js';
import { KEY_RING } from './tokens.js';
import { isId } from './wire-text.js';

/** What the log says about a key. Its secret is nowhere; `hash` is SHA-256 of it, hex. */
export interface KeyRecord {
  readonly id: string;
  readonly hash: string;
  readonly role: Role;
  readonly account: string | null;
  readonly content: 'full' | 'none';
  readonly expiresAt: string | null;
}

/** The keys and accounts there are now. Answers from memory; a miss looks into the log before it says no. */
export interface KeyRing {
  /** The key with this hash, unless it was revoked. Expiry is the caller's to check. */
  keyByHash(hash: string): Promise<KeyRecord | null>;
  accountExists(account: string): Promise<boolean>;
}

/**
 * SHA-256, hex. A key is 256 random bits, so there is nothing to guess and a slow password hash would only make
 * every request slow; what must hold is that the stored hash does not give the key away, and that it does.
 */
export const hashKey = (secret: string): string => createHash('sha256').update(secret, 'utf8').digest('hex');

const rolesMark = 'hookledger:roles';
const publicMark = 'hookledger:public';

/** The roles that may call a route; operators always may (api.md, roles). A route without it is for operators only. */
export const Allow = (...roles: readonly Role[]): MethodDecorator & ClassDecorator =>
  applyDecorators(
    SetMetadata(rolesMark, roles),
    ApiBearerAuth(),
    ApiResponse({ status: 401, description: 'No valid key.' }),
    ApiResponse({ status: 403, description: `For keys with the role ${[...roles, 'operator'].join(', ')}.` }),
  );

/** A route that needs no key. */
export const Public = (): MethodDecorator & ClassDecorator => SetMetadata(publicMark, true);

/** Whether a role is among the allowed ones; operators are everywhere. */
export const roleMay = (role: Role, allowed: readonly Role[]): boolean => role === 'operator' || allowed.includes(role);

/** Who sends the request, by its key. Throws 401 where there is none that is live. */
export const identify = async (request: WithHeaders, keys: KeyRing): Promise<Caller> => {
  const match = /^Bearer +([\x21-\x7e]+) *$/iu.exec(headerOf(request, 'authorization') ?? '');
  if (match?.[1] === undefined) throw unauthorized('Send a key: Authorization: Bearer KEY.');
  const hash = hashKey(match[1]);
  const key = await keys.keyByHash(hash);
  if (key === null || !sameHash(key.hash, hash)) throw unauthorized('This key is not known, or was revoked.');
  if (key.expiresAt !== null && Date.parse(key.expiresAt) <= Date.now()) throw unauthorized('This key has expired.');
  const { id, role, account, content } = key;
  return { keyId: id, role, account, content, onBehalfOf: readOnBehalfOf(request) };
};

/**
 * Lets a request through when its key is live, its account is the key's (operators span accounts) and exists, and its
 * role may call the route, in this order: 401, 404, 403. Another account's things are 404, as if they were not there.
 */
@Injectable()
export class AuthGuard implements CanActivate {
  constructor(
    @Inject(Reflector) private readonly reflector: Reflector,
    @Inject(KEY_RING) private readonly keys: KeyRing,
  ) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const targets = [context.getHandler(), context.getClass()];
    const request = context.switchToHttp().getRequest<PlatformRequest>();
    if (this.reflector.getAllAndOverride<boolean | undefined>(publicMark, targets) !== true) {
      const caller = (request.caller ??= await identify(request, this.keys));
      await this.checkAccount(request, caller);
      const allowed = this.reflector.getAllAndOverride<readonly Role[] | undefined>(rolesMark, targets) ?? [];
      if (!roleMay(caller.role, allowed)) throw forbidden(caller.role, allowed);
    }
    refuseUndeclaredQuery(context.getHandler(), request);
    return true;
  }

  private async checkAccount(request: PlatformRequest, caller: Caller): Promise<void> {
    const params = request.params as Readonly<Record<string, string | undefined>>;
    if (params[accountParam] !== undefined) await enter(params[accountParam], caller, this.keys);
  }
}

const enter = async (account: string, caller: Caller, keys: KeyRing): Promise<void> => {
  const mayEnter = caller.role === 'operator' || caller.account === account;
  if (!mayEnter || !(await keys.accountExists(account))) throw noAccount();
};

/**
 * Who asks to go over to another protocol, where no route of Nest's is passed: as the guard does it, for an account and
 * the roles that may. Throws the guard's refusals.
 */
export const admit = async (
  request: WithHeaders,
  keys: KeyRing,
  account: string,
  allowed: readonly Role[],
): Promise<Caller> => {
  const caller = await identify(request, keys);
  await enter(account, caller, keys);
  if (!roleMay(caller.role, allowed)) throw forbidden(caller.role, allowed);
  return caller;
};

/** The answer for an account that is not there, and for one that is somebody else's. */
export const noAccount = (): Problem => new Problem(404, 'unknown_account', 'There is no such account.');

const unauthorized = (detail: string): Problem =>
  new Problem(401, 'no_valid_key', detail, [], { 'www-authenticate': 'Bearer realm="hookledger"' });

/** The answer to a key whose role may not. */
export const forbidden = (role: Role, allowed: readonly Role[]): Problem =>
  new Problem(403, 'role_may_not', `A key with the role ${role} may not; ${[...allowed, 'operator'].join(', ')} may.`);

// The map is keyed by the hash, so this comparison decides nothing that a clock could teach an attacker: who does not
// know the key cannot steer its hash. It stays so that the code says what it relies on.
const sameHash = (a: string, b: string): boolean =>
  a.length === b.length && timingSafeEqual(Buffer.from(a, 'latin1'), Buffer.from(b, 'latin1'));

/** Node hands header bytes as latin1; a name outside ASCII comes as UTF-8 from most clients, as latin1 from some. */
const readOnBehalfOf = (request: WithHeaders): string | null => {
  const header = headerOf(request, 'hookledger-on-behalf-of');
  if (header === undefined) return null;
  const bytes = Buffer.from(header, 'latin1');
  const text = (isUtf8(bytes) ? bytes.toString('utf8') : header).trim();
  if (isId(text)) return text;
  throw new Problem(
    400,
    'bad_on_behalf_of',
    'Hookledger-On-Behalf-Of must be 1 to 200 characters of UTF-8, none of them a control character.',
    [{ pointer: headerPointer('Hookledger-On-Behalf-Of'), reason: 'is no name' }],
  );
};

/** Nothing is ignored in silence: a route that declares no query takes none. */
const refuseUndeclaredQuery = (handler: object, request: PlatformRequest): void => {
  const search = searchOf(request.url);
  if (search === '' || Reflect.getMetadata(declaresQuery, handler) === true) return;
  const names = [...new Set(paramsOf(search).map(({ name }) => name))];
  const reason = 'unknown query parameter; this route takes none';
  const faults = names.map((name) => ({ pointer: queryPointer(name), reason }));
  throw new Problem(400, 'bad_query', 'This route takes no query parameters.', faults);
};

/** Who sent the request. */
export const CurrentCaller = createParamDecorator((_: unknown, context: ExecutionContext) =>
  callerOf(context.switchToHttp().getRequest<PlatformRequest>()),
);

/** The caller that the guard found; a route that is public has none. */
export const callerOf = (request: PlatformRequest): Caller => {
  if (request.caller !== undefined) return request.caller;
  throw new Error('a public route asked who its caller is');
};
