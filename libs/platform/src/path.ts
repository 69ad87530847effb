import type { ExecutionContext } from '@nestjs/common';
import { createParamDecorator } from '@nestjs/common';
import { ApiParam } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { pathPointer, Problem } from './problem.js';
import { isId, maxIdLength } from './wire-text.js';

/** The path parameter that names the account: `/v1/accounts/:account/…`. */
export const accountParam = 'account';

const readPathId = createParamDecorator((name: string, context: ExecutionContext) =>
  pathId(context.switchToHttp().getRequest<FastifyRequest>(), name),
);

/** An id from the path. Throws 400 unless it has 1 to 200 characters and none of them is a control character. */
export const pathId = (request: FastifyRequest, name: string): string => {
  const value = (request.params as Readonly<Record<string, string | undefined>>)[name];
  if (isId(value)) return value;
  throw new Problem(400, 'bad_id', 'An id in the path does not fit.', [
    {
      pointer: pathPointer(name),
      reason: 'must have 1 to 200 characters, none of them a control character or half of a surrogate pair',
    },
  ]);
};

const idSchema = { type: 'string', minLength: 1, maxLength: maxIdLength } as const;

/** Says in the API's description what an id in the path is. */
export const documentPathId = (
  target: object,
  key: string | symbol | undefined,
  name: string,
  description: string,
): void => {
  const descriptor = key === undefined ? undefined : Object.getOwnPropertyDescriptor(target, key);
  if (key === undefined || descriptor === undefined) return;
  ApiParam({ name, description, schema: idSchema })(target, key, descriptor);
};

/** `@PathId('pluginId') pluginId: string`: an id from the path, checked and documented. */
export const PathId =
  (name: string, description = ''): ParameterDecorator =>
  (target, key, index) => {
    readPathId(name)(target, key, index);
    documentPathId(target, key, name, description);
  };

/** `@Account() account: string`: the account of the path, which the guard found to be the caller's. */
export const Account = (): ParameterDecorator => PathId(accountParam, 'The account.');
