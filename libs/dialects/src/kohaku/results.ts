import { own } from '#hooks';
import type { Decision, Link, Step } from '#hooks';
import type { Json, JsonObject } from '#record';
import type { AnswerFacts } from '../dialect.js';
import { builtInCommands } from './catalogue.js';
import type { KohakuHook } from './catalogue.js';
import type { SaidMore } from './read.js';
import { rewriteLabel, surfaceOf } from './surface.js';

/** The answer's `value`: the final first argument; of contributions, votes and visibility what was collected. */
export const answerValue = (hook: KohakuHook, decision: Decision<Link, Json>, facts: AnswerFacts): Json => {
  switch (hook.shape) {
    case 'transform':
    case 'text':
      return decision.outcome === 'cancelled' ? null : ((own(decision.value, 'value') ?? null) as Json);
    case 'vote':
      return vote(decision);
    case 'visibility':
      return visible(collected(decision), (JSON.parse(facts.input) as JsonObject).value ?? null);
    case 'prompt': {
      const parts = texts(collected(decision).parts);
      return { parts, text: parts.join('\n\n') };
    }
    case 'commands':
    case 'user-commands':
      return wiredCommands(hook, collected(decision).commands);
    case 'services':
      return { ...((collected(decision).services ?? {}) as JsonObject) };
    case 'applies':
      return { ...((collected(decision).applies ?? {}) as JsonObject) };
    case 'veto':
      return decision.outcome !== 'cancelled';
    default:
      return null;
  }
};

/** What the answer has besides: what plugins want done, what UIs are told, and where a block surfaces. */
export const answerMore = (hook: KohakuHook, decision: Decision<Link, Json>, facts: AnswerFacts): JsonObject => {
  const activities = [...edited(hook, decision), ...skipped(hook, decision), ...timings(hook, decision)];
  const surface = surfaceIn(hook, decision, facts);
  return {
    ...((facts.effects ?? []).length === 0 ? {} : { effects: facts.effects ?? [] }),
    ...(activities.length === 0 ? {} : { activities }),
    ...(surface === null ? {} : { surface }),
  };
};

/**
 * What a chain comes to beyond its handlers: a call that was rewritten to a tool that is not registered does not go on
 * (§2).
 */
export const concluded = <L extends Link>(
  hook: KohakuHook,
  decision: Decision<L, Json>,
  facts: AnswerFacts,
): Decision<L, Json> => {
  const name = hook.name === 'pre_tool_dispatch' ? unknownTool(decision, facts) : null;
  if (name === null) return decision;
  const pluginId = decision.steps.findLast(({ verdict }) => verdict.kind === 'rewrote')?.link.pluginId ?? '';
  const reason = `unknown tool after rewrite: ${name}`;
  return { ...decision, outcome: 'cancelled', value: null, cancellation: { pluginId, reason, code: unknownToolCode } };
};

/** The code under which a rewrite to a tool that is not there cancels. */
const unknownToolCode = 'unknown_tool';

const unknownTool = ({ outcome, value }: Decision<Link, Json>, { input }: AnswerFacts): string | null => {
  if (outcome !== 'rewritten') return null;
  const { value: given, agent } = JSON.parse(input) as JsonObject;
  const tools = own(agent, 'tools');
  const name = own(own(value, 'value'), 'name');
  if (!Array.isArray(tools) || typeof name !== 'string' || name === own(given, 'name')) return null;
  return (tools as readonly Json[]).includes(name) ? null : name;
};

const collected = (decision: Decision<Link, Json>): JsonObject => (decision.collected ?? {}) as JsonObject;

const texts = (value: Json | undefined): readonly string[] =>
  Array.isArray(value) ? (value as readonly Json[]).filter((item): item is string => typeof item === 'string') : [];

const vote = (decision: Decision<Link, Json>): Json => {
  if (decision.outcome !== 'claimed') return { should_stop: false, reason: '' };
  return { should_stop: true, reason: (own(decision.collected, 'reason') ?? '') as string };
};

/**
 * What is left of a catalogue (§4). A name that is a registered sub-agent is judged by `allowed_subagents`, every other
 * one by `allowed_tools`; so are provider-native tools.
 */
const visible = (merged: JsonObject, catalogue: Json): Json => {
  const allowed = { allowed_tools: merged.allowed_tools ?? null, allowed_subagents: merged.allowed_subagents ?? null };
  if (typeof catalogue !== 'object' || catalogue === null || Array.isArray(catalogue)) return allowed;
  const { tools, subagents, provider_native: native } = catalogue as JsonObject;
  const agents = new Set(texts(subagents));
  const passes = (names: Json, name: string): boolean => names === null || texts(names).includes(name);
  const isVisible = (name: string): boolean =>
    passes(agents.has(name) ? allowed.allowed_subagents : allowed.allowed_tools, name);
  return {
    ...allowed,
    tools: texts(tools).filter(isVisible),
    subagents: [...agents].filter(isVisible),
    provider_native: texts(native).filter((name) => passes(allowed.allowed_tools, name)),
  };
};

/** Names are taken in chain order; one that is taken, or built in, ends it unless its plugin overrides (§7). */
const wiredCommands = (hook: KohakuHook, list: Json | undefined): Json => {
  const taken = new Map<string, { readonly plugin: string; readonly override: boolean }>();
  const builtIn = new Set(hook.shape === 'commands' ? builtInCommands : []);
  const kind = hook.shape === 'commands' ? 'ValueError' : 'UserCommandCollisionError';
  const answer = (error: string | null, collision: string | null): Json => ({
    registered: [...taken.keys()],
    commands: Object.fromEntries([...taken].map(([name, { plugin }]) => [name, plugin])),
    error,
    ...(collision === null ? {} : { collision }),
  });
  for (const item of Array.isArray(list) ? (list as readonly Json[]) : []) {
    const [name, plugin, override] = Array.isArray(item) ? (item as readonly Json[]) : [];
    if (typeof name !== 'string' || typeof plugin !== 'string') continue;
    const before = taken.get(name);
    const collides = builtIn.has(name) || before !== undefined;
    const wins = override === true && !(hook.shape === 'user-commands' && before?.override === true);
    if (collides && !wins && !(hook.shape === 'user-commands' && before?.override === true && override !== true)) {
      return answer(kind, name);
    }
    if (!collides || wins) taken.set(name, { plugin, override: override === true });
  }
  return answer(null, null);
};

/** One marker per response, where the final text is another than the first (§3). */
const edited = (hook: KohakuHook, { outcome, value, steps }: Decision<Link, Json>): readonly JsonObject[] => {
  if (hook.shape !== 'text' || outcome !== 'rewritten') return [];
  const original = textOf(steps[0]?.input);
  const final = textOf(value ?? undefined);
  if (original === null || final === null || original === final) return [];
  const names = steps.flatMap((step) => (step.verdict.kind === 'rewrote' ? [nameOf(step)] : []));
  return [
    {
      type: 'assistant_message_edited',
      detail: `[edited by plugin: ${names.join(', ')}]`,
      metadata: {
        edited_by: names,
        original_preview: characters(original).slice(0, 200).join(''),
        final_length: characters(final).length,
      },
    },
  ];
};

/** As Python counts them: code points. */
const characters = (text: string): readonly string[] => Array.from(text);

const textOf = (value: Json | undefined): string | null => {
  const text = own(value, 'value');
  return typeof text === 'string' ? text : null;
};

const skipped = (hook: KohakuHook, { outcome }: Decision<Link, Json>): readonly JsonObject[] =>
  hook.shape === 'veto' && outcome === 'cancelled'
    ? [{ type: 'compact_skipped', detail: 'plugin_veto', metadata: { reason: 'plugin_veto' } }]
    : [];

/** What the manager measures (§10). */
const timings = (hook: KohakuHook, { steps }: Decision<Link, Json>): readonly JsonObject[] =>
  hook.timed ? steps.filter(({ verdict }) => verdict.kind !== 'not_run').map((step) => timing(hook, step)) : [];

const timing = ({ name }: KohakuHook, step: Step<Link, Json>): JsonObject => {
  const ms = Math.round(step.durationMs * 1000) / 1000;
  return {
    type: 'plugin_hook_timing',
    detail: `[${nameOf(step)}] ${name} ${ms.toFixed(2)}ms`,
    metadata: { hook: name, plugin: nameOf(step), duration_ms: ms, blocked: step.verdict.kind === 'cancelled' },
  };
};

/** The name under which a plugin is registered: its id, where it has no other. */
const nameOf = ({ link, more }: Pick<Step<Link, Json>, 'link' | 'more'>): string => {
  const { pluginName } = link as Link & { readonly pluginName?: string };
  return pluginName ?? (more as SaidMore | undefined)?.plugin ?? link.pluginId;
};

const surfaceIn = (hook: KohakuHook, decision: Decision<Link, Json>, { input }: AnswerFacts): JsonObject | null => {
  const { cancellation } = decision;
  if (decision.outcome !== 'cancelled' || cancellation === null) return null;
  const step = decision.steps.find(
    ({ verdict, link }) => verdict.kind === 'cancelled' && link.pluginId === cancellation.pluginId,
  );
  const said = (step?.more ?? {}) as SaidMore;
  const isRewrite = cancellation.code === unknownToolCode;
  return surfaceOf({
    hook: hook.name,
    plugin: isRewrite ? rewriteLabel : step === undefined ? cancellation.pluginId : nameOf(step),
    message: cancellation.reason ?? cancellation.code,
    errorType: said.errorType ?? 'PluginBlockError',
    input: JSON.parse(input) as JsonObject,
  });
};
