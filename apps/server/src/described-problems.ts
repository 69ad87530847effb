import type { OpenAPIObject } from '@nestjs/swagger';

type Operation = NonNullable<OpenAPIObject['paths'][string]['get']>;

/** RFC 9457, with a stable word for programs and every faulty field. */
const problemSchema = {
  type: 'object',
  required: ['type', 'title', 'status', 'code', 'detail', 'errors', 'requestId'],
  properties: {
    type: { type: 'string', description: '`urn:hookledger:problem:` and the code.' },
    title: { type: 'string' },
    status: { type: 'integer' },
    code: { type: 'string', description: 'Stable, for programs.' },
    detail: { type: 'string', description: 'For people.' },
    errors: {
      type: 'array',
      items: {
        type: 'object',
        required: ['pointer', 'reason'],
        properties: {
          pointer: {
            type: 'string',
            description: 'JSON Pointer (RFC 6901) into the body, or below `/query`, `/path` or `/header`.',
          },
          reason: { type: 'string' },
          line: { type: 'integer', nullable: true, description: 'In a source.' },
          column: { type: 'integer', nullable: true },
        },
      },
    },
    requestId: { type: 'string' },
  },
};

const content = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } };

/**
 * The refusals that routes have by what they take, which none of them could list by hand and keep right: a key, an
 * account, a body, `If-Match`, the log. What a route says of a status itself stays; its schema is the one above.
 */
export const describeProblems = (document: OpenAPIObject): OpenAPIObject => {
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods as { readonly [method: string]: Operation })) {
      operation.responses = sorted({ ...refusalsOf(path, method, operation), ...withSchema(operation.responses) });
    }
  }
  document.components = {
    ...document.components,
    schemas: { ...document.components?.schemas, Problem: problemSchema },
  };
  return document;
};

type Responses = Operation['responses'];

const refusalsOf = (path: string, method: string, operation: Operation): Responses => {
  const takes = (name: string): boolean =>
    (operation.parameters ?? []).some((parameter) => 'name' in parameter && parameter.name === name);
  const changes = takes('Idempotency-Key');
  const hasBody = operation.requestBody !== undefined;
  const needsKey = (operation.security ?? []).length > 0;
  const refusals: readonly (readonly [boolean, string, string])[] = [
    [true, '400', 'The request is not well formed: its path, query, headers or JSON.'],
    [needsKey, '401', 'No valid key.'],
    [needsKey, '403', 'The role of the key, or what it sees, does not allow this.'],
    [path.includes('{'), '404', 'Something that the path names is not there, or is of another account.'],
    [changes, '409', 'What is there does not allow this now, or others changed it at the same time.'],
    [takes('If-Match'), '412', 'It was changed since it was read; `ETag` says its version now.'],
    [hasBody, '413', 'The body is larger than 8 MiB.'],
    [hasBody, '415', 'The body is not JSON in UTF-8 without a content encoding.'],
    [hasBody || changes, '422', 'The body does not fit, or the idempotency key was used for another request.'],
    [needsKey, '503', 'The log or the database cannot be reached or is busy; nothing was recorded. Try again.'],
    [true, 'default', 'Any other refusal: 405 for another method, 500 where something failed here.'],
  ];
  const apply = refusals.filter(([applies, status]) => applies && !(method === 'get' && status === '422'));
  return Object.fromEntries(apply.map(([, status, description]) => [status, { description, content }]));
};

/** `/health/ready` answers 503 with its report, which is no problem. */
const withSchema = (responses: Responses): Responses =>
  Object.fromEntries(
    Object.entries(responses).map(([status, response]) => {
      const own = (response as { readonly content?: object } | undefined)?.content ?? {};
      const keeps = status < '400' || 'application/json' in own;
      return [status, keeps ? response : { ...response, content }];
    }),
  ) as Responses;

/** By status, `default` last. */
const sorted = (responses: Responses): Responses =>
  Object.fromEntries(Object.entries(responses).sort(([a], [b]) => (a < b ? -1 : 1)));
