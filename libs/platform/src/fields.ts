import type { ValidationOptions } from 'class-validator';
import { buildMessage, ValidateBy, ValidateIf } from 'class-validator';
import { readInstant } from './instants.js';
import { isId, isPathName } from './wire-text.js';

const check = (name: string, valid: (value: unknown) => boolean, wanted: string, options?: ValidationOptions) =>
  ValidateBy(
    {
      name,
      validator: {
        validate: valid,
        defaultMessage: buildMessage((each) => `${each}$property must be ${wanted}`, options),
      },
    },
    options,
  );

/** An id: any string of 1–200 characters without control characters or lone surrogates. A number is refused, never rounded. */
export const IsWireId = (options?: ValidationOptions): PropertyDecorator =>
  check('isWireId', isId, 'a string of 1 to 200 characters without control characters or lone surrogates', options);

/** The id of something that is made under it and reached by a path: an id, and neither `.` nor `..`. */
export const IsPathName = (options?: ValidationOptions): PropertyDecorator =>
  check(
    'isPathName',
    isPathName,
    'a string of 1 to 200 characters without control characters or lone surrogates, and neither . nor ..',
    options,
  );

/** A time in RFC 3339 with an offset. */
export const IsInstant = (options?: ValidationOptions): PropertyDecorator =>
  check(
    'isInstant',
    (value) => typeof value === 'string' && 'time' in readInstant(value),
    'an RFC 3339 time with an offset and within the years 0001 to 9999, such as 2026-11-30T10:00:00.000Z',
    options,
  );

/** Any text of `least` to `most` UTF-16 units; NUL and lone surrogates are text too. */
export const IsText = (least: number, most: number, options?: ValidationOptions): PropertyDecorator =>
  check(
    'isText',
    (value) => typeof value === 'string' && value.length >= least && value.length <= most,
    `a string of ${least} to ${most} characters`,
    options,
  );

/** A JSON object whose content is not looked into. */
export const IsJsonObject = (options?: ValidationOptions): PropertyDecorator =>
  check(
    'isJsonObject',
    (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
    'a JSON object',
    options,
  );

/** The field may be absent. Unlike class-validator's own, it does not let null through. */
export const Absent = (): PropertyDecorator => ValidateIf((_, value) => value !== undefined);

/** The field may be absent or null. */
export const AbsentOrNull = (): PropertyDecorator => ValidateIf((_, value) => value !== undefined && value !== null);
