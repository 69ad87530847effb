import { own, sameJson } from '#hooks';
import type { Decision, Link, Step } from '#hooks';
import type { Json, JsonObject } from '#record';
import type { AnswerFacts } from '../dialect.js';
import type { OpenClawHook } from './catalogue.js';
import { blockMessage } from './block-message.js';
import { capToolResult } from './details-cap.js';
import { filterExecEnv } from './exec-env.js';
import { hostFinalize, mergeFinalize } from './finalize.js';
import type { FinalizeResult, RetryCounts } from './finalize.js';
import { gateOf } from './gate.js';
import type { Profile } from './profiles.js';
import { assembledContext } from './injections.js';
import { firstLine } from './redaction.js';
import { intersectTools } from './tools-allow.js';

type Decided = Decision<Link, Json>;

/** What the real runner hands to its caller for a decision; undefined: nothing. */
export const runnerResult = (hook: OpenClawHook, decision: Decided, profile: Profile): Json | undefined => {
  switch (hook.mode) {
    case 'observe':
      return undefined;
    case 'claim':
      return decision.outcome === 'claimed' ? (decision.collected as Json) : undefined;
    case 'evaluate':
      return decision.steps.map(evaluation);
    case 'sync':
      return hook.name === 'before_message_write' ? messageWrite(decision) : messagePersist(decision);
    case 'modifying':
      return merged(hook, decision, profile);
  }
};

/** The answer's `value`: the runner's result, past what the host does with it before anybody acts on it. */
export const answerValue = (hook: OpenClawHook, decision: Decided, profile: Profile, facts: AnswerFacts): Json => {
  const target = hook.name === 'inbound_claim' ? claimTarget(parsedInput(facts)) : null;
  if (target !== null) return targetedClaim(decision, target, facts.loaded);
  const result = runnerResult(hook, decision, profile);
  switch (hook.name) {
    case 'resolve_exec_env':
      return filterExecEnv((result ?? {}) as JsonObject, profile.version).env;
    case 'before_agent_run':
      return result === undefined ? null : withoutReason(result as JsonObject);
    case 'agent_turn_prepare':
      if (facts.injections === undefined) return result ?? null;
      return assembledContext(facts.injections, (result ?? {}) as JsonObject);
    case 'before_agent_finalize':
      return result === undefined ? null : accounted(finalized(decision), facts.counts);
    case 'tool_result_persist':
    case 'before_message_write':
      return persisted(result, parsedInput(facts).event as JsonObject, profile);
    default:
      return result ?? null;
  }
};

/** A transcript keeps a tool result's details within bounds, whoever wrote them (openclaw.md §10). */
const persisted = (result: Json | undefined, event: JsonObject, { version }: Profile): Json => {
  if (own(result, 'block') === true) return result ?? null;
  const message = (own(result, 'message') ?? event.message) as Json | undefined;
  if (typeof message !== 'object' || message === null || Array.isArray(message)) return result ?? null;
  const capped = capToolResult(message as JsonObject, version);
  return result === undefined && sameJson(capped, message) ? null : { message: capped };
};

/** What the answer has besides, by its field. */
export const answerMore = (hook: OpenClawHook, decision: Decided, profile: Profile, facts: AnswerFacts): JsonObject => {
  switch (hook.name) {
    case 'before_tool_call':
      return { gate: shownGate(decision, (own(parsedInput(facts).event, 'params') ?? null) as Json) };
    case 'before_agent_run':
      return decision.outcome === 'cancelled' ? { notice: runNotice(decision) } : {};
    case 'agent_turn_prepare':
      return facts.injections === undefined ? {} : { queuedInjections: facts.injections as unknown as Json };
    case 'before_agent_finalize': {
      const { asked } = hostFinalize(finalized(decision), facts.counts);
      return asked.length === 0 ? {} : { retries: asked };
    }
    case 'message_sending':
    case 'reply_payload_sending': {
      const suppressed = suppression(hook, decision, profile, parsedInput(facts));
      return suppressed === null ? {} : { suppressed };
    }
    default:
      return {};
  }
};

/** Why a message is not delivered, in the words of its lifecycle (openclaw.md §16); null: it is. */
const suppression = (hook: OpenClawHook, decision: Decided, profile: Profile, { event }: JsonObject): string | null => {
  const { cancellation } = decision;
  if (decision.outcome === 'cancelled') return cancellation?.code === null ? `cancelled_by_${hook.name}_hook` : null;
  const field = hook.name === 'message_sending' ? 'content' : 'payload';
  const result = runnerResult(hook, decision, profile);
  const after = own(result, field) ?? own(event, field);
  if (isVisible(after)) return null;
  return isVisible(own(event, field)) ? `empty_after_${hook.name}_hook` : 'no_visible_payload';
};

/** Whether anything of a message is left to deliver: a text, or of a payload something beside blank text. */
const isVisible = (message: unknown): boolean => {
  if (typeof message === 'string') return message.trim() !== '';
  if (typeof message !== 'object' || message === null) return message !== undefined && message !== null;
  return Object.entries(message).some(([name, value]) =>
    name === 'text' ? isVisible(value) : Array.isArray(value) ? value.length > 0 : Boolean(value),
  );
};

const parsedInput = ({ input }: AnswerFacts): JsonObject => JSON.parse(input) as JsonObject;

/** The plugin that owns the conversation, where a message is for one; null: everybody is asked (openclaw.md §17). */
export const claimTarget = (input: JsonObject): string | null => {
  const target = own(own(input.context, 'pluginBinding'), 'pluginId');
  return typeof target === 'string' && target !== '' ? target : null;
};

/** What the owner of a conversation made of a message. */
export const targetedClaim = (decision: Decided, target: string, loaded: readonly string[]): JsonObject => {
  if (!loaded.includes(target)) return { status: 'missing_plugin' };
  if (decision.steps.length === 0) return { status: 'no_handler' };
  if (decision.outcome === 'claimed') return { status: 'handled', result: decision.collected as Json };
  const failed = decision.steps.find(({ verdict }) => verdict.kind === 'skipped');
  if (failed === undefined) return { status: 'declined' };
  return { status: 'error', error: firstLine(failed.warnings.at(-1)?.detail ?? 'unknown error') };
};

const shownGate = (decision: Decided, params: Json): JsonObject => {
  const gate = gateOf(decision, params);
  if (gate.kind === 'decided') {
    const { blocked, kind, reason, params: final, deniedReason } = gate.outcome;
    return { blocked, kind, reason, params: final, ...(deniedReason === undefined ? {} : { deniedReason }) };
  }
  const description = own(gate.request, 'description');
  return {
    blocked: true,
    kind: 'held',
    reason: typeof description === 'string' ? description : null,
    params: gate.base,
  };
};

/** What the user is told of a blocked run; a handler that failed is named by the hook. */
const runNotice = (decision: Decided): string => {
  const blocking = decision.steps.find(
    ({ verdict }) => verdict.kind === 'contributed' && own(verdict.value, 'outcome') === 'block',
  );
  if (blocking === undefined) return blockMessage(null, 'before_agent_run');
  const said = blocking.verdict.kind === 'contributed' ? own(blocking.verdict.value, 'decision') : null;
  const message = own(said, 'message');
  return blockMessage(typeof message === 'string' ? message : null, blocking.link.pluginId);
};

interface Contributed {
  readonly pluginId: string;
  readonly value: Json;
}

/** Contributions of the last stage, in chain order: the policies' are not the runner's. */
const contributionsOf = (decision: Decided): readonly Contributed[] =>
  (decision.stages?.at(-1)?.steps ?? (decision.stages === undefined ? decision.steps : [])).flatMap(
    ({ link, verdict }) =>
      verdict.kind === 'contributed' ? [{ pluginId: link.pluginId, value: verdict.value as Json }] : [],
  );

const merged = (hook: OpenClawHook, decision: Decided, profile: Profile): Json | undefined => {
  const said = contributionsOf(decision);
  if (decision.cancellation?.code !== undefined && decision.cancellation.code !== null) return undefined;
  if (hook.name === 'resolve_exec_env') return envOf(decision);
  if (said.length === 0) return undefined;
  const folded = (decision.stages?.at(-1) ?? decision).collected as JsonObject;
  switch (hook.name) {
    case 'before_agent_run':
      return { decision: folded.decision ?? null, pluginId: decider(said, folded) };
    case 'before_agent_finalize':
      return withoutCandidates(finalized(decision));
    case 'before_prompt_build':
      return promptOf(folded, profile);
    case 'reply_payload_sending':
      return { payload: payloadOf(decision), ...tidy(folded, ['cancel', 'reason']) };
    case 'subagent_spawning':
      return folded.status === 'error'
        ? tidy(folded, ['status', 'error'])
        : { status: 'ok', threadBindingReady: folded.threadBindingReady === true, ...tidy(folded, ['deliveryOrigin']) };
    case 'before_tool_call':
      return withoutTicket(tidy(folded, hook.result));
    default:
      return tidy(folded, hook.result);
  }
};

/** Own fields of a fold without those that say nothing; a `block` or `cancel` that is not true is no field. */
const tidy = (folded: JsonObject, fields: readonly string[]): JsonObject =>
  Object.fromEntries(
    fields.flatMap((field) => {
      const value = folded[field];
      const isNothing = value === undefined || ((field === 'block' || field === 'cancel') && value !== true);
      return isNothing ? [] : [[field, value]];
    }),
  );

const envOf = (decision: Decided): JsonObject => {
  const env = own(decision.collected, 'env') as JsonObject | undefined;
  return Object.fromEntries(Object.entries(env ?? {}).filter(([, value]) => value !== null));
};

const promptOf = (folded: JsonObject, { version }: Profile): JsonObject => {
  const fields = tidy(folded, [
    'systemPrompt',
    'prependContext',
    'appendContext',
    'prependSystemContext',
    'appendSystemContext',
  ]);
  if (version === '2026.7' || folded.toolsAllow === undefined) return fields;
  const tools = intersectTools(folded.toolsAllow as readonly Json[]);
  return tools === undefined ? fields : { ...fields, toolsAllow: tools };
};

/** The first whose word is the one that counts. */
const decider = (said: readonly Contributed[], folded: JsonObject): string =>
  said.find(({ value }) => own(value, 'outcome') === folded.outcome)?.pluginId ?? 'unknown';

const finalized = (decision: Decided): FinalizeResult | null =>
  mergeFinalize(contributionsOf(decision).map(({ value }) => value as JsonObject));

const withoutCandidates = (result: FinalizeResult | null): JsonObject => {
  const { candidates: _candidates, ...shown } = result ?? { candidates: [] };
  return Object.fromEntries<Json>(Object.entries(shown));
};

const accounted = (result: FinalizeResult | null, counts: RetryCounts): JsonObject => {
  const { action, reason, asked } = hostFinalize(result, counts);
  const retry = action === 'revise' ? result?.candidates[asked.length - 1] : undefined;
  return { action, ...(reason === undefined ? {} : { reason }), ...(retry === undefined ? {} : { retry }) };
};

const withoutTicket = (result: JsonObject): JsonObject => {
  const { requireApproval } = result;
  if (typeof requireApproval !== 'object' || requireApproval === null) return result;
  const { onResolution: _ticket, ...request } = requireApproval as JsonObject;
  return { ...result, requireApproval: request };
};

/** A block's reason is the plugin's own matter (openclaw.md §11): `message` is what others may see. */
const withoutReason = (result: JsonObject): JsonObject => {
  const { outcome, message } = result.decision as JsonObject;
  return { ...result, decision: { outcome: outcome ?? null, ...(message === undefined ? {} : { message }) } };
};

/** The payload as the last handler left it; as it came where none changed it. */
const payloadOf = (decision: Decided): Json => {
  const last = decision.steps.findLast(
    ({ verdict }) => verdict.kind === 'contributed' && own(verdict.value, 'payload') !== undefined,
  );
  if (last?.verdict.kind === 'contributed') return own(last.verdict.value, 'payload') as Json;
  return (own(decision.steps[0]?.input, 'payload') ?? null) as Json;
};

const messageOf = (value: Json | null): Json => (own(value, 'message') ?? null) as Json;

const messagePersist = (decision: Decided): Json | undefined =>
  ranAny(decision) ? { message: messageOf(decision.value) } : undefined;

const messageWrite = (decision: Decided): Json | undefined => {
  if (decision.outcome === 'cancelled') return { block: true };
  const isReplaced = decision.steps.some(({ verdict }) => verdict.kind === 'rewrote');
  return isReplaced ? { message: messageOf(decision.value) } : undefined;
};

const ranAny = ({ steps }: Decided): boolean => steps.some(({ verdict }) => verdict.kind !== 'not_run');

/** One evaluator's outcome, with who gave it (openclaw.md §2, evaluate). */
const evaluation = ({ link, verdict, warnings }: Step<Link, Json>): JsonObject => {
  const { evaluatorId } = link as Link & { readonly evaluatorId?: string };
  const by = { evaluatorId: evaluatorId ?? link.pluginId, pluginId: link.pluginId };
  if (verdict.kind === 'contributed') return { ...by, status: 'completed', result: verdict.value as Json };
  if (verdict.kind !== 'skipped') return { ...by, status: 'skipped' };
  return { ...by, status: 'error', error: firstLine(warnings.at(-1)?.detail ?? verdict.cause) };
};
