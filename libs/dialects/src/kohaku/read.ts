import { sameJson } from '#hooks';
import type { Verdict, Warning } from '#hooks';
import type { Json, JsonObject } from '#record';
import type { KohakuHook } from './catalogue.js';

/** What one handler said, and what else is known of it. */
export interface Reading {
  readonly verdict: Verdict<Json>;
  readonly warnings: readonly Warning[];
  readonly more?: SaidMore;
}

/** What goes with a verdict. */
export interface SaidMore {
  /** The name under which the plugin is registered, of one that blocked. */
  readonly plugin?: string;
  /** The exception's class, of a block. */
  readonly errorType?: string;
  /** Of an exception that was swallowed: for the record, sealed. */
  readonly traceback?: string;
}

/** Longest reason and longest detail, UTF-16 code units. */
const maxText = 16_384;
const maxWarnings = 64;

/** Reads what the guest program said (shim.ts), without trusting it. Total: never throws. */
export const readResult = (hook: KohakuHook, raw: string, value: Json): Reading => {
  const [said, told] = halves(raw.slice(1));
  const warnings = warningsIn(told);
  const reading = readTagged(hook, raw.charAt(0), said, value);
  return reading === null
    ? { verdict: malformed, warnings: [...warnings, { code: 'handler_malformed', detail: 'unreadable' }] }
    : { ...reading, warnings: [...warnings, ...reading.warnings] };
};

const malformed = { kind: 'skipped', cause: 'malformed' } as const;

const readTagged = (hook: KohakuHook, tag: string, said: string, value: Json): Reading | null => {
  switch (tag) {
    case '-':
      return { verdict: { kind: 'not_run', cause: 'not_applicable' }, warnings: [] };
    case '=':
      return { verdict: nothing(hook), warnings: [] };
    case '.':
      return hook.shape === 'transform' || hook.shape === 'text' ? null : { verdict: nothing(hook), warnings: [] };
    case '~':
      return rewrite(hook, parsed(said), value);
    case '!':
      return block(hook, parsed(said));
    case '+':
      return contribution(hook, parsed(said));
    case '^':
      return vote(hook, parsed(said));
    case '?':
      return raised(parsed(said));
    default:
      return null;
  }
};

/** A plugin that was asked and had nothing to say. */
const nothing = ({ shape }: KohakuHook): Verdict<Json> => {
  const observes = shape === 'callback' || shape === 'veto' || shape === 'load' || shape === 'unload';
  return observes ? { kind: 'observed' } : { kind: 'passed' };
};

const rewrite = ({ shape }: KohakuHook, patch: unknown, value: Json): Reading | null => {
  if ((shape !== 'transform' && shape !== 'text') || !isObject(patch) || !Object.hasOwn(patch, 'value')) return null;
  const next = { value: patch.value ?? null };
  if (shape === 'text' && typeof next.value !== 'string') return null;
  const verdict: Verdict<Json> = sameJson(next, value)
    ? { kind: 'passed' }
    : { kind: 'rewrote', value: next, changed: ['value'] };
  return { verdict, warnings: [] };
};

const block = (hook: KohakuHook, said: unknown): Reading | null => {
  if ((!hook.blocks && hook.shape !== 'veto') || !isObject(said)) return null;
  const { message, plugin, type } = said;
  const reason = typeof message === 'string' ? message.slice(0, maxText) : null;
  return {
    verdict: { kind: 'cancelled', reason, code: null },
    warnings: [],
    more: { ...textField('plugin', plugin), ...textField('errorType', type) },
  };
};

const textField = <K extends string>(name: K, value: unknown): { readonly [key in K]?: string } =>
  (typeof value === 'string' ? { [name]: value.slice(0, 200) } : {}) as { readonly [key in K]?: string };

const contributing: ReadonlySet<string> = new Set([
  'applies',
  'commands',
  'user-commands',
  'visibility',
  'prompt',
  'services',
]);

const contribution = ({ shape }: KohakuHook, said: unknown): Reading | null => {
  if (!contributing.has(shape) || !isObject(said)) return null;
  return { verdict: { kind: 'contributed', value: said, changed: Object.keys(said) }, warnings: [] };
};

const vote = ({ shape }: KohakuHook, said: unknown): Reading | null => {
  if (shape !== 'vote' || !isObject(said) || said.should_stop !== true || typeof said.reason !== 'string') return null;
  const { reason } = said;
  const claim = { should_stop: true, reason: reason.slice(0, maxText), ...textField('plugin', said.plugin) };
  return { verdict: { kind: 'claimed', value: claim }, warnings: [] };
};

const causes: { readonly [code: string]: 'threw' | 'malformed' | 'crashed' } = {
  handler_threw: 'threw',
  handler_malformed: 'malformed',
  handler_crashed: 'crashed',
};

const raised = (said: unknown): Reading | null => {
  if (!Array.isArray(said)) return null;
  const [code, detail, traceback] = said as readonly unknown[];
  const cause = typeof code === 'string' && Object.hasOwn(causes, code) ? causes[code] : undefined;
  if (cause === undefined) return null;
  const more = typeof traceback === 'string' && traceback !== '' ? { traceback: traceback.slice(0, maxText) } : {};
  return {
    verdict: { kind: 'skipped', cause },
    warnings: [{ code: code as string, detail: typeof detail === 'string' ? detail.slice(0, maxText) : null }],
    more,
  };
};

const kept: ReadonlySet<string> = new Set(['return_ignored', 'should_apply_raised', 'on_load_raised']);

const warningsIn = (text: string): readonly Warning[] => {
  const list = text === '' ? [] : parsed(text);
  return Array.isArray(list) ? list.slice(0, maxWarnings).flatMap(warningOf) : [];
};

const warningOf = (item: unknown): readonly Warning[] => {
  if (!Array.isArray(item)) return [];
  const [code, detail] = item as readonly unknown[];
  if (typeof code !== 'string' || !kept.has(code)) return [];
  return [{ code, detail: typeof detail === 'string' ? detail.slice(0, maxText) : null }];
};

/** JSON text has no raw line feed. */
const halves = (text: string): readonly [string, string] => {
  const end = text.indexOf('\n');
  return end < 0 ? [text, ''] : [text.slice(0, end), text.slice(end + 1)];
};

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
