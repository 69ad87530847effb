import type { Json } from '#record';
import { sameJson } from '#hooks';
import type { Verdict, Warning } from '#hooks';
import { limits } from './catalogue.js';
import type { FieldType, MiddlewareHook } from './catalogue.js';
import { isDelay } from './open.js';

export interface Reading {
  readonly verdict: Verdict<Json>;
  readonly warnings: readonly Warning[];
}

/**
 * Reads what the guest program said of one handler run, without trusting it: a realm that was taken over may send
 * anything. What does not fit is a malformed result. Total: never throws.
 *
 * `=` unchanged · `~` patch, line feed · `!` reason, line feed · `.` observed · `?` did not decide; then JSON text of
 * `[[code, detail?], …]`, or nothing.
 */
export const readResult = (hook: MiddlewareHook, raw: string, value: Json): Reading => {
  const rest = raw.slice(1);
  switch (raw.charAt(0)) {
    case '=':
      return reading(hook.mutable.length > 0 ? { kind: 'passed' } : null, warningsIn(rest));
    case '.':
      return reading(hook.mutable.length === 0 ? { kind: 'observed' } : null, warningsIn(rest));
    case '~': {
      const [patch, warnings] = halves(rest);
      return reading(rewriteOf(hook, parsed(patch), value), warningsIn(warnings));
    }
    case '!': {
      const [reason, warnings] = halves(rest);
      return reading(cancelOf(hook, parsed(reason)), warningsIn(warnings));
    }
    case '?':
      return undecided(warningsIn(rest));
    default:
      return reading(null, []);
  }
};

/** Warnings out of notes or a result; what does not fit is left out. Total. */
export const warningsIn = (text: string): readonly Warning[] => {
  if (text === '') return [];
  const list = parsed(text);
  return Array.isArray(list) ? list.slice(0, maxWarnings).flatMap(warningOf) : [];
};

/** Most that one honest run can leave: 200 keys looked at, 10 ssh calls, and a handful more. */
const maxWarnings = 256;

const codes: { readonly [code: string]: 'skip' | 'keep' } = {
  handler_threw: 'skip',
  handler_malformed: 'skip',
  handler_crashed: 'skip',
  unknown_key: 'keep',
  readonly_field: 'keep',
  cancel_not_returned: 'keep',
  cancel_ignored: 'keep',
  cancel_reason_truncated: 'keep',
  cancel_reason_dropped: 'keep',
  ssh_timeout_clamped: 'keep',
};

const warningOf = (item: unknown): readonly Warning[] => {
  if (!Array.isArray(item)) return [];
  const [code, detail] = item as readonly unknown[];
  if (typeof code !== 'string' || !Object.hasOwn(codes, code)) return [];
  return [{ code, detail: typeof detail === 'string' ? detail.slice(0, limits.reasonUnits) : null }];
};

const unreadable: Warning = { code: 'handler_malformed', detail: 'unreadable' };
const malformed = { kind: 'skipped', cause: 'malformed' } as const;

/** A verdict with the warnings that go with it; null: what came is not a result. */
const reading = (verdict: Verdict<Json> | null, warnings: readonly Warning[]): Reading => {
  const kept = warnings.filter(({ code }) => codes[code] === 'keep');
  return verdict === null ? { verdict: malformed, warnings: [...kept, unreadable] } : { verdict, warnings: kept };
};

const causes = { handler_threw: 'threw', handler_malformed: 'malformed', handler_crashed: 'crashed' } as const;

const undecided = (warnings: readonly Warning[]): Reading => {
  const last = warnings.at(-1);
  if (last === undefined || codes[last.code] !== 'skip') return reading(null, warnings);
  return { verdict: { kind: 'skipped', cause: causes[last.code as keyof typeof causes] }, warnings };
};

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

const cancelOf = (hook: MiddlewareHook, reason: unknown): Verdict<Json> | null => {
  if (!hook.vetoable) return null;
  if (reason === null) return { kind: 'cancelled', reason: null, code: null };
  if (typeof reason !== 'string' || reason === '' || reason.length > limits.reasonUnits) return null;
  return { kind: 'cancelled', reason, code: null };
};

/** Null where the patch does not fit: wrong field, wrong type, out of range, not applicable, too large. */
const rewriteOf = (hook: MiddlewareHook, patch: unknown, value: Json): Verdict<Json> | null => {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return null;
  const fields = Object.entries(patch as { readonly [key: string]: unknown });
  if (fields.length === 0 || !fields.every(([name, item]) => fits(hook, name, item, value))) return null;
  if (bytesOf(fields) > limits.resultBytes) return null;
  const next = patched(hook, fields as readonly (readonly [string, Json])[], value);
  const changed = fields.map(([name]) => name);
  return sameJson(next, value) ? { kind: 'passed' } : { kind: 'rewrote', value: next, changed };
};

const fits = (hook: MiddlewareHook, name: string, item: unknown, value: Json): boolean => {
  if (!hook.mutable.includes(name)) return false;
  if (hook.nullMeansNotApplicable && currentOf(hook, name, value) === null) return false;
  switch (typeOf(hook, name)) {
    case 'texts':
      return Array.isArray(item) && item.length <= limits.textsItems && item.every((one) => typeof one === 'string');
    case 'delay':
      return isDelay(item) && !Object.is(item, -0);
    default:
      return typeof item === 'string';
  }
};

const typeOf = (hook: MiddlewareHook, name: string): FieldType | undefined =>
  hook.context.find((field) => field.name === name)?.type;

const currentOf = (hook: MiddlewareHook, name: string, value: Json): Json | undefined => {
  if (hook.mutable.length === 1) return value;
  return (value as { readonly [key: string]: Json } | null)?.[name];
};

const bytesOf = (fields: readonly (readonly [string, unknown])[]): number =>
  fields
    .flatMap(([, item]) => item)
    .reduce<number>((sum, item) => sum + (typeof item === 'string' ? Buffer.byteLength(item) : 0), 0);

const patched = (hook: MiddlewareHook, fields: readonly (readonly [string, Json])[], value: Json): Json => {
  if (hook.mutable.length === 1) return fields[0]?.[1] ?? null;
  return { ...(value as { readonly [key: string]: Json }), ...Object.fromEntries(fields) };
};
