import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { escapePointer, type PluginFault } from '#plugins';
import type { Json, JsonObject } from '#record';

/** Most bytes of a `configSchema` as JSON text. */
export const maxSchemaBytes = 64 * 1024;
/** Most bytes of a `config` as JSON text. */
export const maxConfigBytes = 256 * 1024;
/** Deepest nesting of a schema. */
const maxSchemaDepth = 32;
/** Longest `pattern`, UTF-16 code units. */
const maxPatternLength = 500;
/** Longest time that compiling a schema and checking one value may take, ms. */
const budgetMs = 2000;
/** Memory of the thread that checks, MiB. */
const memoryMiB = 64;
/** Most faults that an answer lists. */
const maxFaults = 50;

/**
 * Faults of a schema and of the configuration under it, pointers into the request (`/configSchema…`, `/config…`).
 * Schemas come from outside: they are bounded in size and depth, refer to nothing but themselves, and are compiled and
 * run in a thread of their own, one at a time, which is ended when its time or memory is up. So a catastrophic pattern
 * or an exponential `$ref` costs nobody else anything.
 */
export const configFaults = async (schema: Json, config: Json): Promise<readonly PluginFault[]> => {
  const oversized = sizeFaults(schema, config);
  if (oversized.length > 0 || schema === null) return oversized;
  const shape = schemaFaults(schema);
  if (shape.length > 0) return shape;
  const checked = checking.then(() => check(schema, config));
  checking = checked.then(
    () => undefined,
    () => undefined,
  );
  return faultsOf(await checked);
};

/** Ends with the check before: one thread at a time. */
let checking: Promise<unknown> = Promise.resolve();

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

/** What the thread says; only its own words come back, never an object of its realm. */
type Checked =
  | { readonly kind: 'fits' }
  | { readonly kind: 'misfit'; readonly errors: readonly Misfit[] }
  | { readonly kind: 'unusable'; readonly message: string }
  | { readonly kind: 'exhausted' };

interface Misfit {
  readonly instancePath: string;
  readonly message: string;
  /** The name that an error is about, where ajv keeps it apart from its words. */
  readonly name: string | null;
}

/** Annotations that manifests of OpenClaw's plugins carry for its forms; they say nothing about a value. */
const annotations = ['sensitive', 'uiHints', 'label', 'help', 'placeholder', 'advanced', 'order', 'group', 'tags'];

/** `format` is an annotation, as JSON Schema 2020-12 has it by default; an unknown keyword is a fault. */
const program = `
const { parentPort, workerData } = require('node:worker_threads');
const { Ajv2020 } = require(workerData.ajv);
const options = { strict: true, strictTypes: false, strictRequired: false, validateFormats: false, logger: false, keywords: ${JSON.stringify(annotations)} };
const told = (error) => ({
  instancePath: error.instancePath,
  message: String(error.message),
  name: error.params.additionalProperty ?? error.params.unevaluatedProperty ?? null,
});
const checked = () => {
  try {
    const validate = new Ajv2020(options).compile(JSON.parse(workerData.schema));
    if (validate(JSON.parse(workerData.config))) return { kind: 'fits' };
    return { kind: 'misfit', errors: validate.errors.slice(0, ${String(maxFaults)}).map(told) };
  } catch (error) {
    return { kind: 'unusable', message: String(error.message) };
  }
};
parentPort.postMessage(checked());
`;

const ajvPath = createRequire(import.meta.url).resolve('ajv/dist/2020.js');

const check = (schema: Json, config: Json): Promise<Checked> =>
  new Promise((resolve) => {
    const worker = new Worker(program, {
      eval: true,
      env: {},
      workerData: { ajv: ajvPath, schema: JSON.stringify(schema), config: JSON.stringify(config) },
      resourceLimits: { maxOldGenerationSizeMb: memoryMiB, maxYoungGenerationSizeMb: 16 },
    });
    let timer: NodeJS.Timeout | undefined;
    const end = (checked: Checked): void => {
      clearTimeout(timer);
      resolve(checked);
      void worker.terminate();
    };
    // Counted from here: a machine that is slow to start a thread is not the schema's fault.
    worker.once('online', () => {
      timer = setTimeout(end, budgetMs, { kind: 'exhausted' });
    });
    worker.once('message', end);
    worker.once('error', () => end({ kind: 'exhausted' }));
    worker.once('exit', () => end({ kind: 'exhausted' }));
  });

const faultsOf = (checked: Checked): readonly PluginFault[] => {
  switch (checked.kind) {
    case 'fits':
      return [];
    case 'misfit':
      return checked.errors.map(configFault);
    case 'unusable':
      return [{ pointer: '/configSchema', reason: `cannot be used: ${checked.message.slice(0, 300)}` }];
    case 'exhausted':
      return [
        {
          pointer: '/configSchema',
          reason: `takes more than ${String(budgetMs)} ms or ${String(memoryMiB)} MiB to check this config: simplify its patterns or references`,
        },
      ];
  }
};

const configFault = ({ instancePath, message, name }: Misfit): PluginFault => ({
  pointer: `/config${instancePath}`,
  reason: name === null ? message : `${message} (${JSON.stringify(name)})`,
});
