import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';

/** What the published description must say of every route. */

interface Response {
  readonly description: string;
  readonly content?: { readonly [type: string]: { readonly schema?: object } };
}

interface Operation {
  readonly responses: { readonly [status: string]: Response };
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: object;
  readonly security?: readonly object[];
}

interface Description {
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } };
  readonly components: { readonly schemas: { readonly [name: string]: { readonly required?: readonly string[] } } };
}

const described = JSON.parse(
  readFileSync(join(import.meta.dirname, '..', 'openapi.json'), 'utf8'),
) as unknown as Description;

const operations = Object.entries(described.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => [`${method.toUpperCase()} ${path}`, operation] as const),
);

const takes = (operation: Operation, header: string): boolean =>
  (operation.parameters ?? []).some((parameter) => parameter.in === 'header' && parameter.name === header);

describe('the description of the API', () => {
  it.each(operations)('says what %s answers', (_, { responses }) => {
    const successes = Object.entries(responses).filter(([status]) => status.startsWith('2'));
    expect(successes.length).toBeGreaterThan(0);
    for (const [status, { content }] of successes) {
      const schemas = Object.values(content ?? {}).map(({ schema }) => schema);
      expect([status, schemas.length > 0 && schemas.every((schema) => schema !== undefined)]).toEqual([
        status,
        status !== '204',
      ]);
    }
  });

  it.each(operations)('says how %s refuses, as a problem each time', (route, operation) => {
    const { responses, requestBody, security = [] } = operation;
    const wanted = [
      '400',
      'default',
      ...(security.length > 0 ? ['401', '403', '503'] : []),
      ...(route.includes('{') ? ['404'] : []),
      ...(requestBody === undefined ? [] : ['413', '415', '422']),
      ...(takes(operation, 'Idempotency-Key') ? ['409', '422'] : []),
      ...(takes(operation, 'If-Match') ? ['412'] : []),
    ];
    expect(Object.keys(responses)).toEqual(expect.arrayContaining(wanted));
    for (const status of wanted) {
      expect([status, responses[status]?.content]).toEqual([
        status,
        { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
      ]);
    }
  });

  it.each(operations.filter(([route]) => /^(?:PATCH|PUT|DELETE) /u.test(route)))(
    'says that %s takes If-Match',
    (_, operation) => expect(takes(operation, 'If-Match')).toBe(true),
  );

  it('has one schema of a problem', () => {
    expect(described.components.schemas.Problem?.required).toEqual(
      expect.arrayContaining(['type', 'title', 'status', 'code', 'detail', 'errors', 'requestId']),
    );
  });
});
