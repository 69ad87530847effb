import type { ArgumentMetadata, PipeTransform } from '@nestjs/common';
import { Injectable } from '@nestjs/common';
import type { ValidationError } from 'class-validator';
import { getMetadataStorage, ValidateNested, validateSync } from 'class-validator';
import type { FieldFault } from './problem.js';
import { escapePointer, Problem } from './problem.js';

type DtoClass = new () => object;

const nestedMark = Symbol('nested');

/** A field that is an object of another DTO class: checked as one, unknown fields included. */
export const Nested =
  (dto: () => DtoClass): PropertyDecorator =>
  (target, key) => {
    ValidateNested()(target, key);
    Reflect.defineMetadata(nestedMark, dto, target, key);
  };

/**
 * Turns a request's body into its DTO: exactly the declared fields, each of the declared kind, nothing converted
 * (api.md, errors: unknown fields are 422). class-transformer is kept out: it drops `__proto__` keys and follows
 * whatever depth it is given. A field whose value is any JSON stays the parsed value.
 */
@Injectable()
export class BodyPipe implements PipeTransform {
  transform(value: unknown, { type, metatype }: ArgumentMetadata): unknown {
    if (type !== 'body' || metatype === undefined || isBuiltIn(metatype)) return value;
    if (value === undefined || value === null) {
      throw new Problem(value === null ? 422 : 400, 'empty_body', 'This request needs a JSON object as its body.', [
        { pointer: '', reason: 'must be a JSON object' },
      ]);
    }
    return readDto(metatype as DtoClass, value);
  }
}

const isBuiltIn = (metatype: unknown): boolean =>
  ([Object, String, Number, Boolean, Array, Promise, Buffer] as unknown[]).includes(metatype);

/** Reads a plain JSON value as a DTO. Throws `Problem` 422 with every faulty field. */
export const readDto = <T extends object>(dto: new () => T, value: unknown): T => {
  const faults: FieldFault[] = [];
  const instance = build(dto, value, '', faults);
  const errors = validateSync(instance, {
    forbidUnknownValues: true,
    validationError: { target: false, value: false },
  });
  for (const error of errors) collect(error, '', faults);
  if (faults.length === 0) return instance as T;
  throw new Problem(422, 'bad_fields', 'The body does not fit.', faults);
};

const build = (dto: DtoClass, value: unknown, pointer: string, faults: FieldFault[]): object => {
  const instance = new dto();
  if (!isPlainObject(value)) {
    faults.push({ pointer, reason: 'must be a JSON object' });
    return instance;
  }
  const known = fieldsOf(dto);
  for (const key of Object.keys(value)) {
    const place = `${pointer}/${escapePointer(key)}`;
    if (!known.has(key)) {
      faults.push({ pointer: place, reason: `unknown field; known are ${[...known].join(', ')}` });
      continue;
    }
    const nested = Reflect.getMetadata(nestedMark, instance, key) as (() => DtoClass) | undefined;
    const item = value[key];
    (instance as Record<string, unknown>)[key] =
      nested === undefined || !isPlainObject(item) ? item : build(nested(), item, place, faults);
  }
  return instance;
};

const isPlainObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const knownFields = new WeakMap<DtoClass, ReadonlySet<string>>();

/** The fields that carry a check; `__proto__` and the like are never among them. */
const fieldsOf = (dto: DtoClass): ReadonlySet<string> => {
  const cached = knownFields.get(dto);
  if (cached !== undefined) return cached;
  const metadata = getMetadataStorage().getTargetValidationMetadatas(dto, '', false, false);
  const fields = new Set(metadata.map(({ propertyName }) => propertyName));
  knownFields.set(dto, fields);
  return fields;
};

const collect = (error: ValidationError, parent: string, faults: FieldFault[]): void => {
  const pointer = `${parent}/${escapePointer(error.property)}`;
  const [reason] = Object.values(error.constraints ?? {});
  if (reason !== undefined && !faults.some((fault) => fault.pointer === pointer)) faults.push({ pointer, reason });
  for (const child of error.children ?? []) collect(child, pointer, faults);
};
