import type { Json, JsonObject } from '../json.js';

/** A JSON Schema, draft 2020-12. */
export type Schema = JsonObject;

/** Schemas of `data` by event type. */
export type DataSchemas<T extends string> = { readonly [type in T]: Schema };

const described = (schema: Schema, description: string | undefined): Schema =>
  description === undefined ? schema : { ...schema, description };

/** Any text; public, never what an agent, a person or a plugin wrote. */
export const text = (description?: string): Schema => described({ type: 'string' }, description);

/** An id as api.md says it. */
export const id = (description?: string): Schema => described({ type: 'string', minLength: 1 }, description);

/** A whole number from 0. */
export const count = (description?: string): Schema => described({ type: 'integer', minimum: 0 }, description);

/** True or false. */
export const flag = (description?: string): Schema => described({ type: 'boolean' }, description);

/** One of these words. */
export const oneOf = (...words: readonly string[]): Schema => ({ enum: words });

/** RFC 3339 in UTC with milliseconds. */
export const time = (description?: string): Schema =>
  described({ type: 'string', pattern: String.raw`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$` }, description);

/** A position, as a decimal string. */
export const position = (description?: string): Schema =>
  described({ type: 'string', pattern: '^(0|[1-9][0-9]*)$' }, description);

/** SHA-256, hex. */
export const digest = (description?: string): Schema =>
  described({ type: 'string', pattern: '^[0-9a-f]{64}$' }, description);

/** A JSON object of any kind. */
export const anyObject = (description?: string): Schema => described({ type: 'object' }, description);

/** This or null. */
export const nullable = (schema: Schema): Schema => ({ anyOf: [schema, { type: 'null' }] });

/** A list of these. */
export const list = (items: Schema, description?: string): Schema => described({ type: 'array', items }, description);

/** An object from any key to values of one kind. */
export const mapOf = (values: Schema): Schema => ({ type: 'object', additionalProperties: values });

/** An object. A field whose name ends with `?` may be absent. */
export const object = (fields: { readonly [name: string]: Schema }, description?: string): Schema => {
  const names = Object.keys(fields);
  const properties: { [name: string]: Json } = {};
  for (const name of names) properties[bare(name)] = fields[name] ?? {};
  const required = names.filter((name) => !name.endsWith('?'));
  return described({ type: 'object', properties, ...(required.length === 0 ? {} : { required }) }, description);
};

const bare = (name: string): string => (name.endsWith('?') ? name.slice(0, -1) : name);

/** A sealed value: content, readable only with its key. */
export const sealed = (description?: string): Schema => described({ $ref: '#/$defs/sealed' }, description);

/** A sealed value or null. */
export const sealedOrNull = nullable(sealed());

/** A warning: the code is public, the detail is content. */
export const warnings = list(object({ code: id(), detail: sealedOrNull }));

/** Definitions that the schemas of events refer to. */
export const definitions: Schema = {
  sealed: {
    description: 'A value under a data key: inline, or in a blob that is named by the SHA-256 of its sealed bytes.',
    oneOf: [
      {
        type: 'object',
        additionalProperties: false,
        required: ['$sealed'],
        properties: {
          $sealed: {
            type: 'object',
            additionalProperties: false,
            required: ['v', 'k', 'b'],
            properties: {
              v: { const: 1, description: 'Version of the sealed form.' },
              k: id('The data key.'),
              b: { type: 'string', contentEncoding: 'base64' },
            },
          },
        },
      },
      {
        type: 'object',
        additionalProperties: false,
        required: ['$blob', 'k', 'size'],
        properties: { $blob: digest(), k: id('The data key.'), size: count('Bytes of the JSON text.') },
      },
    ],
  },
};
