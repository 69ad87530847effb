import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ValidateFunction } from 'ajv';
import type { Json, JsonObject } from '#record';
import { eventSchemas } from '#record';

const ajv = new Ajv2020({ strict: true, strictTypes: false, formats: { uuid: /^[\da-f-]{36}$/u } });
const validators = new Map<string, ValidateFunction>();

/** The schema as nobody publishes it: a field that it does not name is a fault. */
const closed = (schema: Json): Json => {
  if (Array.isArray(schema)) return (schema as readonly Json[]).map(closed);
  if (schema === null || typeof schema !== 'object') return schema;
  const inside = Object.fromEntries(Object.entries(schema as JsonObject).map(([key, value]) => [key, closed(value)]));
  return 'properties' in inside ? { additionalProperties: false, ...inside } : inside;
};

const validatorOf = (type: unknown, version: unknown): ValidateFunction | null => {
  const name = JSON.stringify([type, version]);
  const known = validators.get(name);
  if (known !== undefined) return known;
  const found = eventSchemas().find((each) => each.type === type && each.version === version);
  if (found === undefined) return null;
  const validator = ajv.compile({
    ...(closed(found.schema) as JsonObject),
    $id: `urn:closed:${String(validators.size)}`,
  });
  validators.set(name, validator);
  return validator;
};

/** What is wrong with an event by the schema of its type and version, fields that the schema does not name included. */
export const eventFaults = (event: object): readonly string[] => {
  const { type, schema } = event as { readonly type?: unknown; readonly schema?: unknown };
  const validate = validatorOf(type, schema);
  if (validate === null) return [`no schema for ${JSON.stringify([type, schema])}`];
  if (validate(event)) return [];
  return (validate.errors ?? []).map(
    (error) => `${error.instancePath} ${String(error.message)} ${JSON.stringify(error.params)}`,
  );
};
