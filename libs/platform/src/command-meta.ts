import { createHash } from 'node:crypto';
import type { ExecutionContext } from '@nestjs/common';
import { createParamDecorator } from '@nestjs/common';
import { ApiHeader } from '@nestjs/swagger';
import type { CommandMeta } from './account-command.js';
import { callerOf } from './auth.js';
import { accountParam, documentPathId, pathId } from './path.js';
import { headerPointer, Problem } from './problem.js';
import type { PlatformRequest } from './request.js';
import { headerOf } from './request.js';

type Idempotency = CommandMeta['idempotency'];

/**
 * Reads `Idempotency-Key` and what it is bound to: the caller's key, method, path and body, byte for byte (api.md,
 * idempotency). Bound to the caller's key, since the first answer may hold what another key may not see. The query is
 * left out: `?wait=` says how long to wait, not what to do.
 */
export const idempotencyOf = (request: PlatformRequest): Idempotency => {
  const key = headerOf(request, 'idempotency-key');
  if (key === undefined) return null;
  if (!/^[\x21-\x7e]{1,200}$/u.test(key)) {
    throw new Problem(400, 'bad_idempotency_key', 'Idempotency-Key must be 1 to 200 visible ASCII characters.', [
      { pointer: headerPointer('Idempotency-Key'), reason: 'must be 1 to 200 visible ASCII characters' },
    ]);
  }
  const path = request.url.split('?', 1)[0] ?? '';
  const head = createHash('sha256').update(`${callerOf(request).keyId}\n${request.method}\n${path}\n`);
  return { key, requestDigest: head.update(request.rawBody ?? Buffer.alloc(0)).digest('hex') };
};

const ReadIdempotency = createParamDecorator((_: unknown, context: ExecutionContext) =>
  idempotencyOf(context.switchToHttp().getRequest<PlatformRequest>()),
);

const ReadMeta = createParamDecorator((_: unknown, context: ExecutionContext): CommandMeta => {
  const request = context.switchToHttp().getRequest<PlatformRequest>();
  return { account: pathId(request, accountParam), caller: callerOf(request), idempotency: idempotencyOf(request) };
});

const documented =
  (decorator: ParameterDecorator): ParameterDecorator =>
  (target, key, index) => {
    decorator(target, key, index);
    const descriptor = key === undefined ? undefined : Object.getOwnPropertyDescriptor(target, key);
    if (key === undefined || descriptor === undefined) return;
    const description = 'Runs once, answers a repetition with the first answer and `Idempotency-Replayed: true`.';
    const schema = { type: 'string', pattern: '^[\\x21-\\x7e]{1,200}$' } as const;
    ApiHeader({ name: 'Idempotency-Key', required: false, description, schema })(target, key, descriptor);
  };

/** `@IdempotencyMeta() idempotency: CommandMeta['idempotency']`. */
export const IdempotencyMeta = (): ParameterDecorator => documented(ReadIdempotency());

/** `@Meta() meta: CommandMeta`: account, caller and idempotency key of a command, at once. */
export const Meta = (): ParameterDecorator => (target, key, index) => {
  documentPathId(target, key, accountParam, 'The account.');
  documented(ReadMeta())(target, key, index);
};
