import { own } from '#hooks';
import type { Said, Verdict, Warning } from '#hooks';
import type { Json, JsonObject } from '#record';
import type { OpenClawHook } from './catalogue.js';
import { filterExecEnv } from './exec-env.js';
import { invalidDecision } from './guest-program.js';
import { withoutPrompts } from './legacy-strip.js';
import type { Profile } from './profiles.js';

type Reading = Pick<Said<Json>, 'verdict' | 'warnings'>;

/**
 * Reads what the guest program said of one handler run, without trusting it: a realm that was taken over may send
 * anything. What does not fit is a malformed result. Total: never throws.
 */
export const readResult = (
  hook: OpenClawHook,
  profile: Profile,
  raw: string,
  value: Json,
  readAs: ReadAs | null = null,
): Reading => {
  const whole = readRaw(hook, profile, raw, value);
  return readAs === null ? whole : narrowed(whole, readAs);
};

/** `without-prompts`: no text of it reaches a prompt. `context-only`: nothing but added context does. */
export type ReadAs = 'without-prompts' | 'context-only';

/** A result as its handler may give it; nothing left is nothing said (openclaw.md §5, §13). */
const narrowed = ({ verdict, warnings }: Reading, readAs: ReadAs): Reading => {
  if (verdict.kind !== 'contributed') return { verdict, warnings };
  const fields = verdict.value as JsonObject;
  const left = readAs === 'without-prompts' ? withoutPrompts(fields) : addedContext(fields);
  if (left === null) return { verdict: { kind: 'passed' }, warnings };
  return {
    verdict: { ...verdict, value: left, changed: verdict.changed.filter((name) => Object.hasOwn(left, name)) },
    warnings,
  };
};

const addedContext = ({ prependContext, appendContext }: JsonObject): JsonObject | null => {
  const left = { ...(prependContext ? { prependContext } : {}), ...(appendContext ? { appendContext } : {}) };
  return Object.keys(left).length === 0 ? null : left;
};

const readRaw = (hook: OpenClawHook, profile: Profile, raw: string, value: Json): Reading => {
  const [tag, first, second, third] = [raw.charAt(0), ...lines(raw.slice(1))];
  switch (tag) {
    case '=':
      return reading(hook.mode === 'observe' ? null : { kind: 'passed' }, second);
    case '.':
      return reading(hook.mode === 'observe' ? { kind: 'observed' } : null, second);
    case '^':
      return reading(hook.mode === 'claim' ? claimOf(parsed(first)) : null, second);
    case '+':
      return contributed(hook, profile, parsed(first), value, second);
    case '!':
      if (hook.mode === 'sync') return reading(blockOf(hook), second);
      return contributed(hook, profile, parsed(first), value, second);
    case '~':
      if (hook.mode === 'sync') return reading(rewriteOf(parsed(first), value), third);
      return contributed(hook, profile, parsed(second), value, third);
    case '?':
      return undecided(parsed(first));
    default:
      return reading(null, '');
  }
};

/** Warnings that a result carries; what does not fit is left out. */
const warningsIn = (text: string): readonly Warning[] => {
  const list = text === '' ? [] : parsed(text);
  if (!Array.isArray(list)) return [];
  return (list as readonly Json[]).slice(0, maxWarnings).flatMap((item) => {
    const [code, detail] = Array.isArray(item) ? (item as readonly Json[]) : [];
    if (typeof code !== 'string' || !keptCodes.includes(code)) return [];
    return [{ code, detail: typeof detail === 'string' ? detail.slice(0, textUnits) : null }];
  });
};

/** Most UTF-16 code units of a text that a warning carries. */
const textUnits = 2000;
const maxWarnings = 64;
const keptCodes: readonly string[] = ['promise_ignored', 'handler_threw'];

/** Line feeds part a result; JSON text has none. */
const lines = (text: string): readonly [string, string, string] => {
  const [first = '', second = '', third = ''] = text.split('\n', 3);
  return [first, second, third];
};

const parsed = (text: string): Json | undefined => {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
};

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const malformed: Verdict<Json> = { kind: 'skipped', cause: 'malformed' };
const unreadable: Warning = { code: 'handler_malformed', detail: 'unreadable' };

const reading = (verdict: Verdict<Json> | null, warnings: string): Reading =>
  verdict === null
    ? { verdict: malformed, warnings: [...warningsIn(warnings), unreadable] }
    : { verdict, warnings: warningsIn(warnings) };

const causes: { readonly [code: string]: 'threw' | 'malformed' | 'crashed' } = {
  handler_threw: 'threw',
  handler_malformed: 'malformed',
  handler_crashed: 'crashed',
};

const undecided = (said: Json | undefined): Reading => {
  const [code, text] = Array.isArray(said) ? (said as readonly Json[]) : [];
  const cause = typeof code === 'string' && Object.hasOwn(causes, code) ? causes[code] : undefined;
  if (cause === undefined || typeof code !== 'string') return reading(null, '');
  const detail = typeof text === 'string' ? text.slice(0, textUnits) : null;
  return { verdict: { kind: 'skipped', cause }, warnings: [{ code, detail }] };
};

const claimOf = (claim: Json | undefined): Verdict<Json> | null =>
  claim === undefined || !own(claim, 'handled') ? null : { kind: 'claimed', value: claim };

const blockOf = ({ result }: OpenClawHook): Verdict<Json> | null =>
  result.includes('block') ? { kind: 'cancelled', reason: null, code: null } : null;

const rewriteOf = (patch: Json | undefined, value: Json): Verdict<Json> | null => {
  const message = isObject(patch) ? patch.message : undefined;
  if (message === undefined || message === null) return null;
  return { kind: 'rewrote', value: { ...(value as JsonObject), message }, changed: ['message'] };
};

const contributed = (
  hook: OpenClawHook,
  profile: Profile,
  said: Json | undefined,
  value: Json,
  warned: string,
): Reading => {
  const warnings = warningsIn(warned);
  if (hook.mode === 'evaluate' && said !== undefined) {
    return { verdict: { kind: 'contributed', value: said, changed: [], as: 'passed' }, warnings };
  }
  const read = hook.mode === 'modifying' && isObject(said) ? fieldsOf(hook, profile, said, value) : null;
  if (read === null) return { verdict: malformed, warnings: [...warnings, unreadable] };
  const changed = Object.keys(read.fields).filter((field) => !steering.includes(field));
  return {
    verdict: { kind: 'contributed', value: read.fields, changed, as: wordOf(read.fields, changed) },
    warnings: [...warnings, ...read.warnings],
  };
};

/** Fields that steer and change nothing. */
const steering: readonly string[] = [
  'block',
  'blockReason',
  'requireApproval',
  'cancel',
  'cancelReason',
  'metadata',
  'outcome',
  'decision',
  'findings',
];

const wordOf = (fields: JsonObject, changed: readonly string[]): 'passed' | 'rewrote' | 'cancelled' | 'held' => {
  if (fields.block === true || fields.cancel === true || fields.outcome === 'block') return 'cancelled';
  if (fields.requireApproval !== undefined) return 'held';
  return changed.length > 0 ? 'rewrote' : 'passed';
};

interface FieldsRead {
  readonly fields: JsonObject;
  readonly warnings: readonly Warning[];
}

const fieldsOf = (hook: OpenClawHook, profile: Profile, said: JsonObject, value: Json): FieldsRead | null => {
  switch (hook.name) {
    case 'before_agent_run':
      return { fields: decisionOf(said.decision), warnings: [] };
    case 'resolve_exec_env':
      return isObject(said.env) ? envOf(said.env, profile) : null;
    case 'reply_payload_sending':
      return payloadOf(said, value);
    case 'message_sending':
      return messageOf(known(hook, said), profile);
    default:
      return { fields: known(hook, said), warnings: [] };
  }
};

/** The catalogue's fields of what was said; a null says nothing. */
const known = ({ result }: OpenClawHook, said: JsonObject): JsonObject =>
  Object.fromEntries(
    result.flatMap((field) => {
      const item = Object.hasOwn(said, field) ? said[field] : undefined;
      return item === undefined || item === null ? [] : [[field, item]];
    }),
  );

/** Whatever is no decision blocks (openclaw.md §11). */
const decisionOf = (decision: Json | undefined): JsonObject => {
  if (isObject(decision) && decision.outcome === 'pass' && Object.keys(decision).length === 1) {
    return { outcome: 'pass', decision };
  }
  const isBlock = isObject(decision) && decision.outcome === 'block' && typeof decision.reason === 'string';
  return { outcome: 'block', decision: isBlock ? decision : { outcome: 'block', reason: invalidDecision } };
};

/** Which names the host will drop is said with the handler that gave them; values stay sealed (openclaw.md §22). */
const envOf = (env: JsonObject, { version }: Profile): FieldsRead => ({
  fields: { env },
  warnings: filterExecEnv(env, version)
    .dropped.slice(0, maxWarnings)
    .map((name) => ({ code: 'env_key_dropped', detail: name })),
});

const messageOf = (fields: JsonObject, { maxMetadataBytes }: Profile): FieldsRead => {
  const { metadata, ...rest } = fields;
  if (metadata === undefined || maxMetadataBytes === null) return { fields, warnings: [] };
  const bytes = Buffer.byteLength(JSON.stringify(metadata));
  if (bytes <= maxMetadataBytes) return { fields, warnings: [] };
  return { fields: rest, warnings: [{ code: 'metadata_too_large', detail: `${String(bytes)} bytes` }] };
};

/** A payload is trusted with local media only while its references are those it came with (openclaw.md §16). */
const payloadOf = (said: JsonObject, value: Json): FieldsRead | null => {
  const { payload, cancel, reason } = said;
  const steer = {
    ...(cancel === undefined || cancel === null ? {} : { cancel }),
    ...(reason === undefined || reason === null ? {} : { reason }),
  };
  if (payload === undefined) return { fields: steer, warnings: [] };
  if (!isObject(payload)) return null;
  const { trustedLocalMedia: _claimed, ...safe } = payload;
  const before = own(value, 'payload');
  const isKept =
    own(before, 'trustedLocalMedia') === true &&
    own(before, 'mediaUrl') === safe.mediaUrl &&
    sameList(own(before, 'mediaUrls'), safe.mediaUrls);
  return { fields: { payload: isKept ? { ...safe, trustedLocalMedia: true } : safe, ...steer }, warnings: [] };
};

const sameList = (left: unknown, right: unknown): boolean => {
  const [one, other] = [left ?? [], right ?? []];
  return (
    Array.isArray(one) &&
    Array.isArray(other) &&
    one.length === other.length &&
    one.every((item, index) => item === other[index])
  );
};
