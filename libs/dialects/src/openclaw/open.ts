import { createHash } from 'node:crypto';
import type { Json, JsonObject } from '#record';
import type { Fault, Opening } from '../dialect.js';
import { isId } from '../middleware/host-calls.js';
import { contexts } from './catalogue.js';
import type { Fields, FieldType, OpenClawHook } from './catalogue.js';
import { observedIn } from './observed.js';
import type { Profile } from './profiles.js';

/**
 * Checks a firing's `event` and `context`: known fields are of their type where they are there, unknown ones pass
 * through (openclaw.md §22; api.md, firing a hook).
 */
export const openEvent = (hook: OpenClawHook, profile: Profile, body: JsonObject): Opening => {
  const event = Object.hasOwn(body, 'event') ? body.event : undefined;
  const context = Object.hasOwn(body, 'context') ? body.context : {};
  if (!isObject(event)) return refused([{ pointer: '/event', reason: `give the event of ${hook.name}: an object` }]);
  if (!isObject(context)) return refused([{ pointer: '/context', reason: 'give an object, or leave it out' }]);
  const faults = [
    ...missing(hook, event),
    ...misfits(hook.event, event, '/event'),
    ...misfits(contexts[hook.context], context, '/context'),
    ...idFaults(event, '/event'),
    ...idFaults(context, '/context'),
  ];
  if (faults.length > 0) return refused(faults);
  const seen = { event: withRunId(hook, event, context), context: seenContext(hook, profile, context) };
  const input = JSON.stringify(seen);
  const observed = observedIn(hook.name, event, context);
  const recorded = JSON.stringify({ event: recordedEvent(hook, event), context });
  return {
    kind: 'opened',
    input,
    ...(recorded === input ? {} : { recordedInput: recorded }),
    value: valueIn(hook, event),
    sessionId: id(context.sessionId) ?? id(context.sessionKey) ?? id(event.sessionId) ?? id(event.sessionKey),
    agentId: id(context.agentId) ?? id(event.agentId),
    turnId: id(context.runId) ?? id(event.runId),
    operationId: id(event.toolCallId) ?? id(context.toolCallId),
    ...targetOf(hook, event),
    ...(observed === null ? {} : { observed }),
  };
};

/** Field of the event that handlers can change and those behind them may see; null: none. */
export const mutableField = ({ name }: Pick<OpenClawHook, 'name'>): string | null =>
  Object.hasOwn(mutableFields, name) ? (mutableFields[name] ?? null) : null;

const mutableFields: { readonly [hook: string]: string } = {
  before_tool_call: 'params',
  tool_result_persist: 'message',
  before_message_write: 'message',
  message_sending: 'content',
  reply_payload_sending: 'payload',
};

/** The mutable part of an event, as the engine passes it on; null where there is none. */
const valueIn = (hook: OpenClawHook, event: JsonObject): Json => {
  const field = mutableField(hook);
  return field === null ? null : { [field]: event[field] ?? null };
};

/** The input with its mutable part as it is now. */
export const inputWith = (input: string, value: Json): string => {
  if (!isObject(value)) return input;
  const { event, context } = JSON.parse(input) as { readonly event: JsonObject; readonly context: JsonObject };
  return JSON.stringify({ event: { ...event, ...value }, context });
};

const refused = (faults: readonly Fault[]): Opening => ({ kind: 'refused', faults });

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What the gate cannot do without. */
const missing = (hook: OpenClawHook, event: JsonObject): readonly Fault[] => {
  if (hook.name !== 'before_tool_call') return [];
  return ['toolName', 'params'].flatMap((field) =>
    event[field] === undefined ? [{ pointer: `/event/${field}`, reason: 'is missing: the gate decides on it' }] : [],
  );
};

const misfits = (fields: Fields, given: JsonObject, at: string): readonly Fault[] =>
  Object.entries(fields).flatMap(([name, told]) => {
    const value = Object.hasOwn(given, name) ? given[name] : undefined;
    const type = told.replace('?', '') as FieldType;
    return value === undefined || fits(type, value)
      ? []
      : [{ pointer: `${at}/${name}`, reason: `give ${words[type]}` }];
  });

const words: { readonly [type in FieldType]: string } = {
  string: 'a string',
  number: 'a number',
  boolean: 'true or false',
  list: 'a list',
  strings: 'a list of strings',
  object: 'an object',
  any: 'anything',
};

const fits = (type: FieldType, value: Json): boolean => {
  switch (type) {
    case 'list':
      return Array.isArray(value);
    case 'strings':
      return Array.isArray(value) && (value as readonly Json[]).every((item) => typeof item === 'string');
    case 'object':
      return isObject(value);
    case 'any':
      return true;
    default:
      return typeof value === type;
  }
};

/** Fields that say where an invocation belongs. */
const idFields = ['runId', 'sessionId', 'sessionKey', 'agentId', 'toolCallId'] as const;

const idFaults = (given: JsonObject, at: string): readonly Fault[] =>
  idFields.flatMap((field) => {
    const value = given[field];
    if (typeof value !== 'string' || value === '' || isId(value)) return [];
    return [
      {
        pointer: `${at}/${field}`,
        reason: 'give an id: 1 to 200 characters, no control characters or lone surrogates',
      },
    ];
  });

const id = (value: Json | undefined): string | null => (isId(value) ? value : null);

/** The run's id stands in these events as well (openclaw.md, the catalogue's notes). */
const withRunId = ({ name }: OpenClawHook, event: JsonObject, { runId }: JsonObject): JsonObject => {
  const isFilled = name === 'before_agent_start' || name === 'before_agent_finalize' || name === 'agent_end';
  return isFilled && !event.runId && runId ? { ...event, runId } : event;
};

/** A tool's context has no `jobId` in the shipped versions; it is recorded all the same. */
const seenContext = ({ context: kind }: OpenClawHook, { toolJobId }: Profile, context: JsonObject): JsonObject => {
  if (kind !== 'tool' || toolJobId || !Object.hasOwn(context, 'jobId')) return context;
  const { jobId: _hidden, ...seen } = context;
  return seen;
};

/** A pairing code is a live credential: the record has its digest only (openclaw.md §22). */
const recordedEvent = ({ name }: OpenClawHook, event: JsonObject): JsonObject => {
  if (name !== 'channel_pairing_requested' || typeof event.code !== 'string') return event;
  return { ...event, code: `sha256:${createHash('sha256').update(event.code).digest('hex')}` };
};

/** What an operation is aimed at: a tool, a job, a recipient, another session. */
const targetOf = (
  hook: OpenClawHook,
  event: JsonObject,
): { readonly target: string | null; readonly targetIsAddress: boolean } => {
  const field = hook.group === 'messages' ? 'to' : (targets[hook.name] ?? 'toolName');
  return { target: id(event[field]), targetIsAddress: hook.group === 'messages' && id(event.to) !== null };
};

const targets: { readonly [hook: string]: string } = {
  cron_changed: 'jobId',
  before_install: 'targetName',
  subagent_spawning: 'childSessionKey',
  subagent_spawned: 'childSessionKey',
  subagent_progress: 'childSessionKey',
  subagent_delivery_target: 'childSessionKey',
  subagent_ended: 'targetSessionKey',
};
