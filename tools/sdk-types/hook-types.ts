import { format, resolveConfig } from 'prettier';
import {
  approvalModes,
  dialectNames,
  dialectOf,
  kohakuCatalogue,
  middlewareCatalogue,
  openclawCatalogue,
  openclawContexts,
  type ContextField,
  type KohakuHook,
  type MiddlewareHook,
  type OpenClawHook,
} from '#dialects';

/**
 * The hooks of every dialect as TypeScript: what a client gives and what it gets. They come from the catalogues, so a
 * hook that changes there changes here, and a test compares what is committed.
 */
export const hookTypes = async (path: string): Promise<string> => {
  const dialects = dialectNames.map((name) => dialectTypes(name));
  const map = dialectNames.map((name) => `readonly ${name}: ${interfaceOf(name)};`).join('\n');
  const text = `
// Made by \`npm run sdk-types\` from the catalogues of libs/dialects. Do not edit.
import type { Gate } from '../answer.js';
import type { Json, JsonObject } from '../json.js';

${dialects.join('\n\n')}

/** The hooks of every dialect, by its name. */
export interface Dialects {
${map}
}

/** What a client must know of a hook when it decides without the server. */
export interface HookFacts {
  /** Whether its operation can be cancelled. */
  readonly cancels: boolean;
  /** The argument, and its fields, whose value is the answer's when nothing changes it. */
  readonly from?: readonly [argument: string, ...fields: readonly string[]];
  /** The answer's value when nobody was asked; null where this is not there either. */
  readonly value?: Json;
}

export const hookFacts: { readonly [dialect: string]: { readonly [hook: string]: HookFacts } } = ${JSON.stringify(facts())};
`;
  return format(text, { ...(await resolveConfig(path)), parser: 'typescript' });
};

const interfaceOf = (name: string): string =>
  `${names[name] ?? name.replace(/^./u, (first) => first.toUpperCase())}Hooks`;

const names: { readonly [dialect: string]: string } = { openclaw: 'OpenClaw' };

const dialectTypes = (name: string): string => {
  switch (name) {
    case 'middleware':
      return hooksInterface(
        name,
        'The middleware hooks: `context` has exactly these keys.',
        [...middlewareCatalogue.values()].map((hook) => [hook.name, middlewareHook(hook)]),
      );
    case 'openclaw':
      return hooksInterface(
        name,
        'The hooks of OpenClaw plugins: known fields are typed, others pass through.',
        [...openclawCatalogue.values()].map((hook) => [hook.name, openclawHook(hook)]),
      );
    case 'kohaku':
      return hooksInterface(
        name,
        'The hooks of KohakuTerrarium: `value` is the first argument, what else there is stands in `kwargs`.',
        [...kohakuCatalogue.values()].map((hook) => [hook.name, kohakuHook(hook)]),
      );
    default:
      throw new Error(`no types are known for the dialect ${name}`);
  }
};

const hooksInterface = (name: string, words: string, hooks: readonly (readonly [string, string])[]): string =>
  `/** ${words} */\nexport interface ${interfaceOf(name)} {\n${hooks.map(([hook, type]) => `${documented(name, hook)}readonly ${key(hook)}: ${type};`).join('\n')}\n}`;

const key = (name: string): string => (/^[A-Za-z_$][\w$]*$/u.test(name) ? name : JSON.stringify(name));

const documented = (dialect: string, hook: string): string => {
  const words =
    dialect === 'middleware' ? middlewareWords(hook) : dialect === 'openclaw' ? openclawWords(hook) : kohakuWords(hook);
  return words === '' ? '' : `/** ${words} */\n`;
};

const middlewareWords = (name: string): string => {
  const hook = middlewareCatalogue.get(name);
  return hook === undefined ? '' : `Cancelled: ${hook.cancelMeans}.`;
};

const openclawWords = (name: string): string => {
  const hook = openclawCatalogue.get(name);
  if (hook === undefined) return '';
  const versions = hook.versions.length === 1 ? ` Only in ${hook.versions.join()}.` : '';
  const instead = hook.deprecated === null ? '' : ` Deprecated: use ${hook.deprecated.replacement.join(', ')}.`;
  return `${hook.group}, ${hook.mode}.${versions}${instead}`;
};

const kohakuWords = (name: string): string => {
  const hook = kohakuCatalogue.get(name);
  return hook === undefined ? '' : `${hook.group}, ${hook.shape}.`;
};

const object = (members: readonly string[]): string => `{ ${members.join(' ')} }`;

const middlewareHook = (hook: MiddlewareHook): string => {
  const own = `readonly context: ${object(hook.context.map(contextMember))};`;
  return object([
    `readonly args: ${object([own])};`,
    `readonly value: ${middlewareValue(hook)};`,
    `readonly cancels: ${String(hook.vetoable)};`,
  ]);
};

const contextMember = (field: ContextField): string =>
  `readonly ${key(field.name)}${field.optional ? '?' : ''}: ${contextType(field)};`;

const contextType = (field: ContextField): string => {
  const type = field.oneOf === null ? scalar(field) : field.oneOf.map((word) => JSON.stringify(word)).join(' | ');
  return field.nullable ? `${type} | null` : type;
};

const scalar = ({ type }: ContextField): string => {
  switch (type) {
    case 'id':
    case 'text':
      return 'string';
    case 'ids':
    case 'texts':
      return 'readonly string[]';
    case 'boolean':
      return 'boolean';
    case 'count':
    case 'port':
    case 'exit-code':
    case 'duration':
    case 'delay':
      return 'number';
  }
};

/** The final value of the one field that can change, an object of all of them, or nothing (api.md, firing a hook). */
const middlewareValue = (hook: MiddlewareHook): string => {
  const fields = hook.context.filter(({ name }) => hook.mutable.includes(name));
  const [only] = fields;
  if (only === undefined) return 'null';
  if (fields.length === 1) return contextType(only);
  return object(fields.map((field) => `readonly ${key(field.name)}: ${contextType(field)};`));
};

const openclawHook = (hook: OpenClawHook): string => {
  const own = [
    `readonly event: ${openObject(hook.event)};`,
    `readonly context?: ${openObject(openclawContexts[hook.context])};`,
    "readonly profile?: 'documented' | '2026.7' | '2026.9';",
    `readonly approvalMode?: ${approvalModes.map((mode) => JSON.stringify(mode)).join(' | ')};`,
  ];
  return object([
    `readonly args: ${object(approvable(hook) ? own : own.slice(0, 3))};`,
    `readonly value: ${openclawValue(hook)};`,
    `readonly cancels: ${String(cancels('openclaw', hook.name))};`,
    ...more(hook),
  ]);
};

const approvable = ({ result }: OpenClawHook): boolean => result.includes('requireApproval');

/** Known fields typed, unknown ones let through. */
const openObject = (fields: { readonly [name: string]: string }): string =>
  `JsonObject & ${object(
    Object.entries(fields).map(([name, type]) => {
      const optional = type.endsWith('?');
      return `readonly ${key(name)}${optional ? '?' : ''}: ${fieldType(optional ? type.slice(0, -1) : type)};`;
    }),
  )}`;

const fieldType = (type: string): string => {
  const known: { readonly [type: string]: string } = {
    string: 'string',
    number: 'number',
    boolean: 'boolean',
    list: 'readonly Json[]',
    strings: 'readonly string[]',
    object: 'JsonObject',
    any: 'Json',
  };
  const found = known[type];
  if (found === undefined) throw new Error(`no TypeScript type for ${type}`);
  return found;
};

/** What the real runner hands its caller, where that is not the merged result as it is (openclaw/results.ts). */
const ownValues: { readonly [hook: string]: string } = {
  resolve_exec_env: '{ readonly [name: string]: string }',
  before_agent_run:
    '{ readonly decision: { readonly outcome: "pass" | "block" | null; readonly message?: string }; readonly pluginId: string } | null',
  inbound_claim:
    '{ readonly handled: true; readonly reply?: Json } | { readonly status: "missing_plugin" | "no_handler" | "declined" } | { readonly status: "handled"; readonly result: Json } | { readonly status: "error"; readonly error: string } | null',
  skill_proposal_evaluate:
    'readonly { readonly evaluatorId: string; readonly pluginId: string; readonly status: "completed" | "skipped" | "error"; readonly result?: Json; readonly error?: string }[] | null',
};

/** Types of fields of results; a field that is not here stops the generator. */
const resultTypes: { readonly [field: string]: string } = {
  modelOverride: 'string',
  providerOverride: 'string',
  prependContext: 'string',
  appendContext: 'string',
  prependSystemContext: 'string',
  appendSystemContext: 'string',
  systemPrompt: 'string',
  toolsAllow: 'readonly string[]',
  handled: 'true',
  reply: 'Json',
  reason: 'string',
  action: '"continue" | "revise" | "finalize"',
  retry: 'JsonObject',
  params: 'JsonObject',
  block: 'true',
  blockReason: 'string',
  requireApproval: 'JsonObject',
  message: 'Json',
  content: 'string',
  cancel: 'true',
  cancelReason: 'string',
  metadata: 'Json',
  payload: 'Json',
  text: 'string',
  queuedFinal: 'boolean',
  counts: 'Json',
  status: '"ok" | "error"',
  threadBindingReady: 'boolean',
  deliveryOrigin: 'Json',
  error: 'string',
  origin: 'Json',
  findings: 'readonly Json[]',
};

/** Fields that a result of the hook always has. */
const always: readonly string[] = ['handled', 'status', 'action'];

const openclawValue = (hook: OpenClawHook): string => {
  const known = ownValues[hook.name];
  if (known !== undefined) return known;
  if (hook.result.length === 0) return 'null';
  const members = hook.result.map((field) => {
    const type = resultTypes[field];
    if (type === undefined) throw new Error(`no TypeScript type for the result field ${field} of ${hook.name}`);
    return `readonly ${key(field)}${always.includes(field) ? '' : '?'}: ${type};`;
  });
  return `${object(members)} | null`;
};

/** Fields that the answer has besides. */
const more = (hook: OpenClawHook): readonly string[] => {
  switch (hook.name) {
    case 'before_tool_call':
      return ['readonly more: { readonly gate: Gate };'];
    case 'before_agent_run':
      return ['readonly more: { readonly notice?: string };'];
    case 'before_agent_finalize':
      return ['readonly more: { readonly retries?: readonly string[] };'];
    case 'message_sending':
    case 'reply_payload_sending':
      return ['readonly more: { readonly suppressed?: string };'];
    default:
      return [];
  }
};

const cancels = (dialect: string, hook: string): boolean => dialectOf(dialect)?.entries.get(hook)?.cancellable === true;

const kohakuHook = (hook: KohakuHook): string => {
  const own = [
    'readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };',
    'readonly profile?: "documented" | "2.1";',
  ];
  return object([
    `readonly args: ${object(own)};`,
    `readonly value: ${kohakuValues[hook.shape].type};`,
    `readonly cancels: ${String(cancels('kohaku', hook.name))};`,
    'readonly more: { readonly effects?: readonly Json[]; readonly activities?: readonly JsonObject[]; readonly surface?: JsonObject };',
  ]);
};

const wired =
  '{ readonly registered: readonly string[]; readonly commands: { readonly [name: string]: string }; readonly error: string | null; readonly collision?: string }';
const nothingWired = { registered: [], commands: {}, error: null };

/** What an answer's value is by the shape of its hook (kohaku/results.ts), and what it is when nobody was asked. */
const kohakuValues: { readonly [shape in KohakuHook['shape']]: { readonly type: string; readonly alone?: unknown } } = {
  transform: { type: 'Json' },
  text: { type: 'string' },
  callback: { type: 'null' },
  veto: { type: 'boolean', alone: true },
  load: { type: 'null' },
  unload: { type: 'null' },
  applies: { type: '{ readonly [plugin: string]: Json }', alone: {} },
  commands: { type: wired, alone: nothingWired },
  'user-commands': { type: wired, alone: nothingWired },
  vote: {
    type: '{ readonly should_stop: boolean; readonly reason: string }',
    alone: { should_stop: false, reason: '' },
  },
  visibility: {
    type: '{ readonly allowed_tools: Json; readonly allowed_subagents: Json; readonly tools?: readonly string[]; readonly subagents?: readonly string[]; readonly provider_native?: readonly string[] }',
    alone: { allowed_tools: null, allowed_subagents: null },
  },
  prompt: { type: '{ readonly parts: readonly string[]; readonly text: string }', alone: { parts: [], text: '' } },
  services: { type: '{ readonly [name: string]: Json }', alone: {} },
};

interface HookFacts {
  readonly cancels: boolean;
  readonly from?: readonly [argument: string, ...fields: readonly string[]];
  readonly value?: unknown;
}

const facts = (): { readonly [dialect: string]: { readonly [hook: string]: HookFacts } } =>
  Object.fromEntries(
    dialectNames.map((name) => [
      name,
      Object.fromEntries(
        [...(dialectOf(name)?.entries.values() ?? [])].map((hook) => [
          hook.name,
          { cancels: hook.cancellable, ...aloneFacts(name, hook.name, hook.mutableFields) },
        ]),
      ),
    ]),
  );

const aloneFacts = (dialect: string, hook: string, fields: readonly string[]): Omit<HookFacts, 'cancels'> => {
  if (dialect === 'middleware') return fields.length === 0 ? {} : { from: ['context', ...fields] };
  if (dialect === 'openclaw') return hook === 'resolve_exec_env' ? { value: {} } : {};
  const shape = kohakuCatalogue.get(hook)?.shape ?? 'callback';
  if (shape === 'transform' || shape === 'text') return { from: ['input', 'value'] };
  const { alone } = kohakuValues[shape];
  return alone === undefined ? {} : { value: alone };
};
