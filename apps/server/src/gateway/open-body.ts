import { escapePointer, Problem, type FieldFault } from '#platform';
import type { Json, JsonObject } from '#record';

/**
 * A body of which some fields are any JSON, and so never pass through a transformer. Throws 422 for what is no object and
 * for fields that are unknown; a field that is null is one that is not given, but for those in `nullable`.
 */
export const readOpenBody = (
  body: unknown,
  fields: readonly string[],
  nullable: readonly string[] = [],
): { readonly [field: string]: Json | undefined } => {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw badFields([{ pointer: '', reason: 'must be a JSON object' }]);
  }
  const entries = Object.entries(body as JsonObject);
  const faults = entries
    .filter(([field]) => !fields.includes(field))
    .map(([field]) => ({
      pointer: `/${escapePointer(field)}`,
      reason: `unknown field; known are ${fields.join(', ')}`,
    }));
  if (faults.length > 0) throw badFields(faults);
  return Object.fromEntries(entries.filter(([field, value]) => value !== null || nullable.includes(field)));
};

export const badFields = (faults: readonly FieldFault[]): Problem =>
  new Problem(422, 'bad_fields', 'The body does not fit.', faults);
