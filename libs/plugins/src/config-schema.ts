import { createContext, Script } from 'node:vm';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ErrorObject } from 'ajv';
import type { Json, JsonObject } from '#record';
import { escapePointer, type PluginFault } from './dialect-facts.js';

/** Most bytes of a `configSchema` as JSON text. */
export const maxSchemaBytes = 64 * 1024;
/** Most bytes of a `config` as JSON text. */
export const maxConfigBytes = 256 * 1024;
/** Deepest nesting of a schema. */
const maxSchemaDepth = 32;
/** Longest `pattern`, UTF-16 code units. */
const maxPatternLength = 500;
/** Longest time that compiling a schema and checking one value may take, ms. */
const budgetMs = 250;
/** Most faults that an answer lists. */
const maxFaults = 50;

/**
 * Faults of a schema and of the configuration under it, pointers into the request (`/configSchema…`, `/config…`).
 * Schemas come from outside: they are bounded in size and depth, refer to nothing but themselves, and are compiled
 * and run within a time limit that ends a catastrophic pattern or an exponential `$ref` too.
 */
export const configFaults = (schema: Json, config: Json): readonly PluginFault[] => {
  const oversized = sizeFaults(schema, config);
  if (oversized.length > 0 || schema === null) return oversized;
  const shape = schemaFaults(schema);
  if (shape.length > 0) return shape;
  const checked = withinTime<readonly PluginFault[]>(() => check(schema as JsonObject, config));
  return (
    checked ?? [
      {
        pointer: '/configSchema',
        reason: `takes more than ${String(budgetMs)} ms to check this config: simplify its patterns or references`,
      },
    ]
  );
};

const sizeFaults = (schema: Json, config: Json): readonly PluginFault[] => {
  const faults: PluginFault[] = [];
  if (byteLength(config) > maxConfigBytes) {
    faults.push({ pointer: '/config', reason: `must be at most ${String(maxConfigBytes)} bytes of JSON text` });
  }
  if (byteLength(schema) > maxSchemaBytes) {
    faults.push({ pointer: '/configSchema', reason: `must be at most ${String(maxSchemaBytes)} bytes of JSON text` });
  }
  return faults;
};

const byteLength = (value: Json): number => Buffer.byteLength(JSON.stringify(value), 'utf8');

/** What is refused before anything is compiled: not a schema, too deep, references outside, patterns that do not compile. */
const schemaFaults = (schema: Json): readonly PluginFault[] => {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
    return [{ pointer: '/configSchema', reason: 'must be a JSON Schema object or null' }];
  }
  const faults: PluginFault[] = [];
  const visit = (value: Json, pointer: string, depth: number, literal: boolean): void => {
    if (faults.length >= maxFaults || typeof value !== 'object' || value === null) return;
    if (depth > maxSchemaDepth) {
      faults.push({ pointer, reason: `must not be nested deeper than ${String(maxSchemaDepth)}` });
      return;
    }
    for (const [key, item] of Object.entries<Json>(value as JsonObject)) {
      const at = `${pointer}/${escapePointer(key)}`;
      const fault = literal ? null : keywordFault(key, item);
      if (fault !== null) faults.push({ pointer: at, reason: fault });
      visit(item, at, depth + 1, literal || literalKeywords.has(key));
    }
  };
  visit(schema, '/configSchema', 0, false);
  return faults;
};

/** Their values are data; where one is a property's name instead, compiling still finds what is wrong below it. */
const literalKeywords: ReadonlySet<string> = new Set(['const', 'default', 'enum', 'examples']);

const keywordFault = (key: string, value: Json): string | null => {
  if (typeof value === 'string' && (key === '$ref' || key === '$dynamicRef')) {
    return value.startsWith('#') ? null : 'must refer to this schema itself (`#…`)';
  }
  if (key === 'pattern' && typeof value === 'string') return patternFault(value);
  if (key === 'patternProperties' && typeof value === 'object' && value !== null) {
    return (
      Object.keys(value)
        .map(patternFault)
        .find((fault) => fault !== null) ?? null
    );
  }
  if (key === '$async' && value === true) return 'must not be asynchronous';
  return null;
};

const patternFault = (pattern: string): string | null => {
  if (pattern.length > maxPatternLength) return `must be at most ${String(maxPatternLength)} characters`;
  try {
    new RegExp(pattern, 'u');
    return null;
  } catch {
    return 'is not a regular expression that compiles (ECMAScript, flag u)';
  }
};

/** `format` is an annotation, as JSON Schema 2020-12 has it by default; an unknown keyword is a fault. */
const check = (schema: JsonObject, config: Json): readonly PluginFault[] => {
  const ajv = new Ajv2020({
    strict: true,
    strictTypes: false,
    strictRequired: false,
    validateFormats: false,
    logger: false,
  });
  let validate;
  try {
    validate = ajv.compile(schema);
  } catch (error) {
    return [{ pointer: '/configSchema', reason: schemaWords(error) }];
  }
  return validate(config) ? [] : (validate.errors ?? []).slice(0, maxFaults).map(configFault);
};

const schemaWords = (error: unknown): string =>
  `cannot be used: ${error instanceof Error ? error.message.slice(0, 300) : 'it does not compile'}`;

const configFault = (error: ErrorObject): PluginFault => ({
  pointer: `/config${error.instancePath}`,
  reason: [error.message ?? 'does not fit its schema', ...named(error)].join(' '),
});

/** The name that an error is about, where ajv keeps it apart from its words. */
const named = (error: ErrorObject): readonly string[] => {
  const { additionalProperty, unevaluatedProperty } = error.params as Readonly<Record<string, unknown>>;
  const name = additionalProperty ?? unevaluatedProperty;
  return typeof name === 'string' ? [`(${JSON.stringify(name)})`] : [];
};

/** Runs work of this realm under V8's own time limit, which ends loops and regular expressions too; null when it is up. */
const withinTime = <T>(work: () => T): T | null => {
  try {
    return timer.runInContext(createContext({ work }), { timeout: budgetMs }) as T;
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return null;
    throw error;
  }
};

const timer = new Script('work()');
