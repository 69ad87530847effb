import type { Json, JsonObject } from '#record';
import type { Fault, HostView, Opening } from '../dialect.js';
import { limits } from './catalogue.js';
import type { ContextField, FieldType, MiddlewareHook } from './catalogue.js';
import { isId } from './host-calls.js';

/** Checks a firing's `context`: exactly the documented keys, each of its type (MW-10, MW-14). */
export const openContext = (hook: MiddlewareHook, body: JsonObject): Opening => {
  const context = Object.hasOwn(body, 'context') ? body.context : undefined;
  if (!isObject(context)) {
    return {
      kind: 'refused',
      faults: [{ pointer: '/context', reason: `give the context of ${hook.name}: an object` }],
    };
  }
  const faults = [...hook.context.flatMap((field) => faultsOf(field, context)), ...strangers(hook, context)];
  if (faults.length > 0) return { kind: 'refused', faults };
  return {
    kind: 'opened',
    input: inputOf(hook, context),
    value: valueIn(hook, context),
    sessionId: idIn(hook.sessionField, context),
    agentId: idIn(hook.agentField, context),
    turnId: null,
    target: idIn(hook.targetField, context),
    targetIsAddress: false,
  };
};

/** The mutable part of a context, in the form of the answer's `value`. */
export const valueIn = (hook: MiddlewareHook, context: JsonObject): Json => {
  const [only] = hook.mutable;
  if (only === undefined) return null;
  if (hook.mutable.length === 1) return context[only] ?? null;
  return Object.fromEntries(hook.mutable.map((name) => [name, context[name] ?? null]));
};

/** Which host members exist for an invocation (MW-71, MW-73, MW-101). */
export const hostViewOf = (hook: MiddlewareHook, context: JsonObject, hop: number): HostView => {
  const id = idIn(hook.sessionField, context);
  const withheld = hop > limits.maxHopWithSession;
  return {
    session: id === null ? { state: 'absent', id } : { state: withheld ? 'withheld' : 'granted', id },
    workspaceAgentId: idIn(hook.agentField, context),
    sshHostId: idIn(hook.sshHostField, context),
  };
};

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const idIn = (field: string | null, context: JsonObject): string | null => {
  const id = field === null ? null : context[field];
  return typeof id === 'string' ? id : null;
};

const inputOf = (hook: MiddlewareHook, context: JsonObject): string =>
  JSON.stringify(
    Object.fromEntries(
      hook.context.filter(({ name }) => Object.hasOwn(context, name)).map(({ name }) => [name, context[name]]),
    ),
  );

const pointer = (...keys: readonly (string | number)[]): string =>
  ['', 'context', ...keys.map((key) => String(key).replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');

const faultsOf = (field: ContextField, context: JsonObject): readonly Fault[] => {
  const value = Object.hasOwn(context, field.name) ? context[field.name] : undefined;
  if (value === undefined) return field.optional ? [] : [fault(field, `missing: ${needed(field)}`)];
  if (value === null) return field.nullable ? [] : [fault(field, `null does not fit: ${needed(field)}`)];
  if (field.type === 'ids' || field.type === 'texts') return listFaults(field, value);
  const isGood = fits(field.type, value) && (field.oneOf === null || field.oneOf.includes(value as string));
  return isGood ? [] : [fault(field, needed(field))];
};

const fault = ({ name }: ContextField, reason: string): Fault => ({ pointer: pointer(name), reason });

const listFaults = (field: ContextField, value: Json): readonly Fault[] => {
  if (!Array.isArray(value)) return [fault(field, needed(field))];
  const item = field.type === 'ids' ? 'id' : 'text';
  return (value as readonly Json[]).flatMap((one, index) =>
    fits(item, one) ? [] : [{ pointer: pointer(field.name, index), reason: `give ${words[item]}` }],
  );
};

const strangers = (hook: MiddlewareHook, context: JsonObject): readonly Fault[] => {
  const known = new Set(hook.context.map(({ name }) => name));
  return Object.keys(context)
    .filter((key) => !known.has(key))
    .map((key) => ({ pointer: pointer(key), reason: `${hook.name} has no such field: leave it out` }));
};

const needed = (field: ContextField): string => {
  const what = field.oneOf === null ? words[field.type] : `one of ${field.oneOf.join(', ')}`;
  return `give ${what}${field.nullable ? ', or null' : ''}`;
};

const words: { readonly [type in FieldType]: string } = {
  id: 'an id: a string of 1 to 200 characters, without control characters or lone surrogates, never a number',
  ids: 'a list of ids, each a string',
  text: 'a string',
  texts: 'a list of strings',
  boolean: 'true or false',
  count: 'a count: a whole number, 0 or more',
  port: 'a port: a whole number, 1 to 65535',
  'exit-code': 'an exit code: a whole number',
  duration: 'milliseconds: a number, 0 or more',
  delay: `seconds: a number from 0 to ${limits.maxDelaySeconds}`,
};

const fits = (type: FieldType, value: Json): boolean => {
  switch (type) {
    case 'id':
      return isId(value);
    case 'text':
      return typeof value === 'string';
    case 'boolean':
      return typeof value === 'boolean';
    case 'count':
      return Number.isSafeInteger(value) && (value as number) >= 0;
    case 'port':
      return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= 65535;
    case 'exit-code':
      return Number.isSafeInteger(value);
    case 'duration':
      return Number.isFinite(value) && (value as number) >= 0;
    case 'delay':
      return isDelay(value);
    case 'ids':
    case 'texts':
      return Array.isArray(value);
  }
};

/** MW-66. */
export const isDelay = (value: unknown): value is number =>
  typeof value === 'number' && value >= 0 && value <= limits.maxDelaySeconds;
