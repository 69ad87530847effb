import { own } from '#hooks';
import type { Json, JsonObject } from '#record';
import type { Fault, Opening } from '../dialect.js';
import { isId } from '../middleware/host-calls.js';
import type { KohakuHook } from './catalogue.js';
import type { Profile } from './profiles.js';

/** What a firing's envelope says of whom it is for. */
export interface FiredFor {
  readonly sessionId: string | null;
  readonly agentId: string | null;
}

/**
 * Checks a firing's `input`: `{ "value": first argument, "kwargs": {…}, "agent": {…} }`, open (api.md, firing a hook).
 * Agent and session stand in `agent` for the plugin, also where the envelope alone names them.
 */
export const openInput = (hook: KohakuHook, profile: Profile, body: JsonObject, fired: FiredFor): Opening => {
  const input = Object.hasOwn(body, 'input') ? body.input : {};
  if (!isObject(input)) return refused([{ pointer: '/input', reason: 'give an object: value, kwargs, agent' }]);
  const faults = [
    ...objectFaults(input, 'kwargs'),
    ...objectFaults(input, 'agent'),
    ...idFaults(input),
    ...valueFaults(hook, input),
  ];
  if (faults.length > 0) return refused(faults);
  const seen = seenInput(hook, profile, input, fired);
  const { value, kwargs, agent } = seen;
  return {
    kind: 'opened',
    input: JSON.stringify(seen),
    value: isRewritten(hook) ? { value } : null,
    sessionId: id(agent.session_id),
    agentId: id(agent.id) ?? id(agent.name),
    turnId: id(agent.turn_id),
    operationId: id(kwargs.job_id) ?? id(own(own(value, 'args'), '_tool_call_id') as Json | undefined),
    target: targetOf(hook, value, kwargs),
    targetIsAddress: false,
  };
};

/** What a handler gets. */
interface Seen extends JsonObject {
  readonly value: Json;
  readonly kwargs: JsonObject;
  readonly agent: JsonObject;
}

/** Whether the first argument goes through the plugins. */
export const isRewritten = ({ shape }: Pick<KohakuHook, 'shape'>): boolean => shape === 'transform' || shape === 'text';

/** The input with its first argument as it is now. */
export const inputWith = (input: string, value: Json): string => {
  if (!isObject(value) || !Object.hasOwn(value, 'value')) return input;
  return JSON.stringify({ ...(JSON.parse(input) as JsonObject), value: value.value });
};

const seenInput = (hook: KohakuHook, profile: Profile, input: JsonObject, fired: FiredFor): Seen => {
  const kwargs = isObject(input.kwargs) ? input.kwargs : {};
  const given = isObject(input.agent) ? input.agent : {};
  const agent = {
    ...given,
    name: text(given.name) ?? fired.agentId ?? '',
    session_id: text(given.session_id) ?? text(given.sessionId) ?? fired.sessionId,
  };
  const value = Object.hasOwn(input, 'value') ? (input.value ?? null) : null;
  const rest = { ...input, agent };
  switch (hook.name) {
    case 'post_llm_call':
      return { ...rest, ...llmAnswer(value, kwargs) };
    case 'pre_llm_call': {
      const filled = Object.hasOwn(input, 'kwargs') ? kwargs : { model: text(given.model) ?? '', tools: null };
      return { ...rest, value, kwargs: filled };
    }
    case 'pre_subagent_run': {
      const { job_id: _jobId, ...others } = kwargs;
      return { ...rest, value, kwargs: profile.subagentJobId ? kwargs : others };
    }
    default:
      return { ...rest, value, kwargs };
  }
};

/** The text that goes through is the response, wherever the host put it; messages and usage stand beside it. */
const llmAnswer = (value: Json, kwargs: JsonObject): { readonly value: Json; readonly kwargs: JsonObject } => {
  if (typeof kwargs.response !== 'string') return { value, kwargs };
  const { response, ...others } = kwargs;
  return { value: response, kwargs: { ...others, messages: others.messages ?? value } };
};

const refused = (faults: readonly Fault[]): Opening => ({ kind: 'refused', faults });

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const text = (value: Json | undefined): string | null => (typeof value === 'string' ? value : null);

const id = (value: Json | undefined): string | null => (isId(value) ? value : null);

const objectFaults = (input: JsonObject, field: string): readonly Fault[] =>
  !Object.hasOwn(input, field) || isObject(input[field])
    ? []
    : [{ pointer: `/input/${field}`, reason: 'give an object, or leave it out' }];

const idFaults = ({ agent }: JsonObject): readonly Fault[] =>
  ['session_id', 'turn_id'].flatMap((field) => {
    const value = isObject(agent) ? agent[field] : undefined;
    if (value === undefined || value === null || value === '' || isId(value)) return [];
    return [{ pointer: `/input/agent/${field}`, reason: 'give an id: 1 to 200 characters, no control characters' }];
  });

/** What a hook cannot do without. */
const valueFaults = (hook: KohakuHook, input: JsonObject): readonly Fault[] => {
  if (!isRewritten(hook)) return [];
  if (!Object.hasOwn(input, 'value'))
    return [{ pointer: '/input/value', reason: `is missing: ${hook.name} works on it` }];
  if (hook.name !== 'pre_tool_dispatch') return [];
  const { value } = input;
  if (isObject(value) && typeof value.name === 'string' && (value.args === undefined || isObject(value.args)))
    return [];
  return [{ pointer: '/input/value', reason: 'give the call: { "name": text, "args": {…}, "raw"?: text }' }];
};

const targetOf = (hook: KohakuHook, value: Json, kwargs: JsonObject): string | null => {
  const named = hook.name === 'pre_tool_dispatch' ? (own(value, 'name') as Json | undefined) : undefined;
  return id(named) ?? id(kwargs.tool_name) ?? id(kwargs.name);
};
