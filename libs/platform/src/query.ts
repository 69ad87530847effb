import type { ExecutionContext } from '@nestjs/common';
import { createParamDecorator } from '@nestjs/common';
import { ApiQuery } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { readBound } from './instants.js';
import type { FieldFault } from './problem.js';
import { Problem, queryPointer } from './problem.js';
import { paramsOf, searchOf } from './search-params.js';
import { hasControlCharacter, isId, maxIdLength } from './wire-text.js';

/** One query parameter: how its text is read, and what the document says about it. */
export interface QueryField<T> {
  /** Returns the value, or `{ reason }` in words for the caller. */
  readonly read: (text: string) => { readonly value: T } | { readonly reason: string };
  readonly schema: Readonly<Record<string, unknown>>;
  readonly description: string;
  /** What stands for an absent parameter. */
  readonly absent: T;
}

type Fields = Readonly<Record<string, QueryField<unknown>>>;

/** The values of a query, by the fields it declares. */
export type QueryOf<F extends Fields> = { readonly [K in keyof F]: F[K] extends QueryField<infer T> ? T : never };

const fieldOf = <T>(
  absent: T,
  description: string,
  schema: QueryField<T>['schema'],
  read: QueryField<T>['read'],
): QueryField<T> => ({ absent, description, schema, read });

/** A name, a code or the like: 1 to `most` characters, none of them a control character. */
export const queryText = (description: string, most = 1000): QueryField<string | null> =>
  fieldOf<string | null>(null, description, { type: 'string', minLength: 1, maxLength: most }, (text) =>
    text.length >= 1 && text.length <= most && !hasControlCharacter(text)
      ? { value: text }
      : { reason: `must have 1 to ${most} characters, none of them a control character` },
  );

/** Words of people, in which every character may stand; 1 to `most` of them. Not for a comparison in SQL. */
export const queryFreeText = (description: string, most = 1000): QueryField<string | null> =>
  fieldOf<string | null>(null, description, { type: 'string', minLength: 1, maxLength: most }, (text) =>
    text.length >= 1 && text.length <= most ? { value: text } : { reason: `must have 1 to ${most} characters` },
  );

/** An id (api.md, ids). */
export const queryId = (description: string): QueryField<string | null> =>
  fieldOf<string | null>(null, description, { type: 'string', minLength: 1, maxLength: maxIdLength }, (text) =>
    isId(text) ? { value: text } : { reason: 'must be an id: 1 to 200 characters, no control characters' },
  );

/** One of some words; `absent` is the default, or null for none. */
export const queryWord = <W extends string, A extends W | null>(
  description: string,
  words: readonly W[],
  absent: A,
): QueryField<W | A> =>
  fieldOf<W | A>(
    absent,
    description,
    { type: 'string', enum: [...words], ...(absent && { default: absent }) },
    (text) => {
      const word = words.find((candidate) => candidate === text);
      return word === undefined ? { reason: `must be one of ${words.join(', ')}` } : { value: word };
    },
  );

/** A whole number within bounds; `absent` is the default. */
export const queryInt = (
  description: string,
  bounds: { readonly least: number; readonly most: number; readonly absent: number },
): QueryField<number> =>
  fieldOf(
    bounds.absent,
    description,
    { type: 'integer', minimum: bounds.least, maximum: bounds.most, default: bounds.absent },
    (text) => {
      const number = Number(text);
      if (/^\d{1,15}$/u.test(text) && number >= bounds.least && number <= bounds.most) return { value: number };
      return { reason: `must be a whole number from ${bounds.least} to ${bounds.most}` };
    },
  );

/** As `queryInt`, null where absent. */
export const queryMaybeInt = (
  description: string,
  bounds: { readonly least: number; readonly most: number },
): QueryField<number | null> => {
  const field = queryInt(description, { ...bounds, absent: bounds.least });
  const { default: _, ...schema } = field.schema;
  return fieldOf<number | null>(null, description, schema, field.read);
};

/** `true` or `false`; absent is false. */
export const queryFlag = (description: string): QueryField<boolean> =>
  fieldOf(false, description, { type: 'boolean', default: false }, (text) => {
    if (text === 'true') return { value: true };
    return text === 'false' ? { value: false } : { reason: 'must be true or false' };
  });

/** A position: a decimal number as text (api.md, positions). */
export const queryPosition = (description: string): QueryField<bigint | null> =>
  fieldOf<bigint | null>(null, description, { type: 'string', pattern: '^[0-9]{1,18}$' }, (text) =>
    /^\d{1,18}$/u.test(text) ? { value: BigInt(text) } : { reason: 'must be a position: a whole number, as text' },
  );

/** A bound of a half-open range `[from, to)`. */
export const queryTime = (description: string, bound: 'from' | 'to'): QueryField<Date | null> =>
  fieldOf<Date | null>(null, description, { type: 'string', format: 'date-time' }, (text) => {
    const read = readBound(text, bound);
    return 'time' in read ? { value: read.time } : read;
  });

/** `limit` and `cursor` of every list (api.md, paging). */
export const pagingFields = {
  limit: queryInt('Most items of a page.', { least: 1, most: 500, absent: 50 }),
  cursor: queryText('`nextCursor` of the page before; bound to the filter it was made for.', 4096),
} as const;

/** `from` and `to` of every list over time (api.md, times). */
export const rangeFields = {
  from: queryTime('First instant that counts. A date means its beginning in UTC.', 'from'),
  to: queryTime('First instant that no longer counts. A date includes that day.', 'to'),
} as const;

/**
 * Reads a query strictly: an unknown parameter, one that stands twice, one that does not fit, and `from` after `to`
 * are 400, each named. Nothing is ignored in silence (api.md, errors).
 */
export const readQuery = <F extends Fields>(fields: F, search: string): QueryOf<F> => {
  const given = paramsOf(search);
  const faults: FieldFault[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(fields)) values[name] = field.absent;
  for (const name of new Set(given.map((param) => param.name))) {
    const texts = given.filter((param) => param.name === name).map(({ value }) => value);
    const pointer = queryPointer(name);
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined) {
      faults.push({ pointer, reason: `unknown query parameter; known are ${Object.keys(fields).join(', ')}` });
    } else if (texts.length > 1) {
      faults.push({ pointer, reason: 'stands more than once' });
    } else {
      const [text = ''] = texts;
      const read = text === null ? { reason: 'is not percent-encoded UTF-8' } : field.read(text);
      if ('value' in read) values[name] = read.value;
      else faults.push({ pointer, reason: read.reason });
    }
  }
  const { from, to } = values;
  if (from instanceof Date && to instanceof Date && from > to)
    faults.push({ pointer: queryPointer('from'), reason: 'is after `to`' });
  if (faults.length > 0) throw new Problem(400, 'bad_query', 'The query parameters do not fit.', faults);
  return values as QueryOf<F>;
};

const Query = createParamDecorator((fields: Fields, context: ExecutionContext) =>
  readQuery(fields, searchOf(context.switchToHttp().getRequest<FastifyRequest>().url)),
);

/**
 * A route's query by its declared fields, documented from them: `@StrictQuery(fields) query: QueryOf<typeof fields>`.
 * A route without it refuses every query parameter (see `RefuseQuery`).
 */
export const StrictQuery =
  (fields: Fields): ParameterDecorator =>
  (target, key, index) => {
    Query(fields)(target, key, index);
    if (key === undefined) return;
    const descriptor = Object.getOwnPropertyDescriptor(target, key);
    if (descriptor === undefined) return;
    Reflect.defineMetadata(declaresQuery, true, descriptor.value as object);
    for (const [name, { schema, description }] of Object.entries(fields)) {
      ApiQuery({ name, required: false, description, schema: schema as object })(target, key, descriptor);
    }
  };

/** Marks the handlers that read their query themselves. */
export const declaresQuery = Symbol('declaresQuery');
