import { catalogue } from './catalogue.js';
import type { OpenClawHook } from './catalogue.js';
import type { Profile } from './profiles.js';
import { timerCeilingMs } from './profiles.js';
import { normalizeMatcher } from './matcher.js';

/** What OpenClaw's own configuration says of a plugin's hooks (`plugins.entries.<id>.hooks`). */
export interface HookGates {
  readonly allowConversationAccess?: boolean;
  readonly allowPromptInjection?: boolean;
}

/** Where a plugin came from: what is installed over REST is never bundled. */
export type Origin = 'bundled' | 'installed';

/** Under which rules a registration is judged. */
export interface RegistrationRules {
  readonly profile: Profile;
  readonly gates: HookGates;
  readonly origin: Origin;
}

export type HookJudgement =
  | {
      readonly kind: 'registered';
      /** The hook that fires it; an alias stands for another. */
      readonly hook: string;
      /** Its prompt fields are stripped from what it gives. */
      readonly constrained: boolean;
      /** What the registration is warned of. */
      readonly deprecated: boolean;
    }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'refused'; readonly hook: string; readonly gate: 'conversation-access' | 'prompt-injection' };

/** The hook that a name registers: `deactivate` is another word for `gateway_stop` (openclaw.md §5). */
export const effectiveName = (name: string): string => (name === 'deactivate' ? 'gateway_stop' : name);

/** Whether a plugin may register a handler under a name, and for which hook (openclaw.md §5). */
export const judgeHook = (name: string, rules: RegistrationRules): HookJudgement => {
  const named = catalogue.get(name);
  if (!named?.versions.includes(rules.profile.version)) return { kind: 'unknown' };
  const hook = catalogue.get(effectiveName(name)) ?? named;
  const injection = rules.gates.allowPromptInjection === false ? hook.promptInjection : null;
  if (injection === 'refused') return { kind: 'refused', hook: hook.name, gate: 'prompt-injection' };
  if (needsAccess(hook, rules)) return { kind: 'refused', hook: hook.name, gate: 'conversation-access' };
  return {
    kind: 'registered',
    hook: hook.name,
    constrained: injection === 'constrained',
    deprecated: named.deprecated !== null && named.deprecated.resultOnly !== true,
  };
};

const needsAccess = (hook: OpenClawHook, { profile, gates, origin }: RegistrationRules): boolean => {
  if (!hook.conversation.includes(profile.version)) return false;
  return origin === 'bundled' ? gates.allowConversationAccess === false : gates.allowConversationAccess !== true;
};

/** A policy's place in a plugin, as it would register it. */
export interface PolicyClaim {
  readonly id: string;
  readonly declared: readonly string[];
  readonly origin: Origin;
  readonly enabled: boolean;
}

/** Why a trusted tool policy is not registered; null: it is (openclaw.md §7). */
export const policyFault = (
  { id, declared, origin, enabled }: PolicyClaim,
  taken: readonly string[],
): 'not-declared' | 'not-enabled' | 'twice' | null => {
  if (origin === 'installed' && !declared.includes(id)) return 'not-declared';
  if (origin === 'installed' && !enabled) return 'not-enabled';
  return taken.includes(id) ? 'twice' : null;
};

/** A session extension as a plugin asks for it. */
export interface ExtensionClaim {
  /** The name under which its realm knows it. */
  readonly handler?: string;
  readonly namespace: string;
  readonly description: string;
  readonly project: 'absent' | 'function' | 'async' | 'other';
  readonly cleanup: 'absent' | 'function' | 'async' | 'other';
  readonly sessionEntrySlotKey?: string;
}

/** A runtime lifecycle as a plugin asks for it. */
export interface LifecycleClaim {
  readonly handler: string;
  readonly id: string;
  readonly cleanup: ExtensionClaim['cleanup'];
}

/** Why a session extension is not registered; null: it is (openclaw.md §15). `taken`: what the plugin has already. */
export const extensionFault = (claim: ExtensionClaim, taken: readonly ExtensionClaim[]): string | null => {
  const namespace = claim.namespace.trim();
  if (namespace === '' || claim.description.trim() === '') return 'needs namespace and description';
  if (claim.project === 'other') return 'its projector is no function';
  if (claim.project === 'async') return 'its projector must be synchronous';
  if (claim.cleanup === 'other') return 'its cleanup is no function';
  if (taken.some((other) => other.namespace.trim() === namespace)) return 'its namespace is registered already';
  const slot = claim.sessionEntrySlotKey?.trim();
  if (slot === '') return 'its sessionEntrySlotKey is blank';
  const isTaken = slot !== undefined && taken.some((other) => other.sessionEntrySlotKey?.trim() === slot);
  return isTaken ? 'its sessionEntrySlotKey is registered already' : null;
};

/** A handler as its plugin registered it, before anyone judged it. */
export interface HandlerClaim {
  /** The name under which the realm runs it. */
  readonly id: string;
  /** The name it was registered under. */
  readonly hook: string;
  readonly priority?: unknown;
  readonly timeoutMs?: unknown;
  readonly matcher?: unknown;
  readonly eligibleTriggers?: unknown;
  readonly eligibleDispatchKinds?: unknown;
  readonly requiresToolAuthority?: unknown;
  readonly registrationId?: unknown;
}

/** Missing is 0; fractions and negatives count (openclaw.md §1). */
export const priorityOf = ({ priority }: Pick<HandlerClaim, 'priority'>): number =>
  typeof priority === 'number' && Number.isFinite(priority) ? priority : 0;

/** A time limit that a plugin wrote, ms: any finite number above 0, floored; null: none that counts. */
export const ownTimeout = (timeoutMs: unknown, profile: Pick<Profile, 'boundsOwnTimeouts'>): number | null => {
  if (typeof timeoutMs !== 'number' || !Number.isFinite(timeoutMs) || timeoutMs < 1) return null;
  return Math.min(Math.floor(timeoutMs), profile.boundsOwnTimeouts ? 600_000 : timerCeilingMs);
};

/** Limits that the operator set for a plugin's hooks. */
export interface OperatorTimeouts {
  readonly timeoutMs?: number;
  readonly timeouts?: { readonly [hook: string]: number };
}

/** The operator's word: whole milliseconds, 1 to 600000. */
export const operatorBounds = { min: 1, max: 600_000, integer: true } as const;

/** The limit of a registration: the operator's for the hook, the operator's for all, the plugin's own (openclaw.md §3). */
export const timeoutFor = (
  hook: string,
  operator: OperatorTimeouts,
  own: unknown,
  profile: Pick<Profile, 'boundsOwnTimeouts'>,
): number | null => {
  const forHook = Object.hasOwn(operator.timeouts ?? {}, hook) ? operator.timeouts?.[hook] : undefined;
  return operatorLimit(forHook) ?? operatorLimit(operator.timeoutMs) ?? ownTimeout(own, profile);
};

const operatorLimit = (ms: number | undefined): number | null =>
  ms !== undefined && Number.isFinite(ms) && ms > 0 ? Math.floor(ms) : null;

/** Whether a handler is asked at all for this event and context: options that 2026.9 knows (openclaw.md §5). */
export const isEligible = (
  claim: HandlerClaim,
  hook: string,
  { version }: Pick<Profile, 'version'>,
  event: { readonly [field: string]: unknown },
  context: { readonly [field: string]: unknown },
): boolean => {
  if (version === '2026.7') return true;
  if (hook === 'before_tool_call' || hook === 'after_tool_call') return matches(claim.matcher, event.toolName);
  if (hook === 'before_agent_reply') return triggers(claim.eligibleTriggers, context.trigger);
  if (hook === 'reply_dispatch') return dispatches(claim.eligibleDispatchKinds, context.dispatchKind);
  // Handlers that need the turn's final tool surface run by themselves, once the host has it (openclaw.md §13).
  if (hook === 'before_prompt_build')
    return (claim.requiresToolAuthority === true) === isAuthority(context.toolAuthority);
  return true;
};

/** Whether a context carries the authority over a turn's final tools. */
export const isAuthority = (authority: unknown): boolean => typeof authority === 'object' && authority !== null;

/** A matcher that is no list of tools matches nothing: such a registration is refused when it is made. */
export const matches = (matcher: unknown, toolName: unknown): boolean => {
  if (matcher === undefined) return true;
  const read = normalizeMatcher(matcher);
  return read.kind === 'tools' && typeof toolName === 'string' && read.tools.includes(toolName.trim().toLowerCase());
};

const knownTriggers: readonly unknown[] = ['cron', 'heartbeat', 'user'];
const knownKinds: readonly unknown[] = ['agent', 'acp'];

/** A malformed list is no restriction (openclaw.md §5). */
const restriction = (list: unknown, known: readonly unknown[]): readonly unknown[] | null =>
  Array.isArray(list) && list.length > 0 && list.every((item) => known.includes(item)) ? list : null;

const triggers = (list: unknown, trigger: unknown): boolean => {
  const only = restriction(list, knownTriggers);
  return only === null || (typeof trigger === 'string' && only.includes(trigger));
};

const dispatches = (list: unknown, kind: unknown): boolean => {
  const only = restriction(list, knownKinds);
  return only === null || !knownKinds.includes(kind) || only.includes(kind);
};
