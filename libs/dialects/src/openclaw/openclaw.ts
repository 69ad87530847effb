import { own, type Decision, type Link } from '#hooks';
import type { Json, JsonObject } from '#record';
import type { AnswerFacts, Dialect, DialectRules, HookEntry, TurnQueue } from '../dialect.js';
import { isId } from '../middleware/host-calls.js';
import type { DialectApprovals } from '../held-call.js';
import { arrange } from './arrange.js';
import { readApproval } from './approvals.js';
import { bundling } from './bundling.js';
import { catalogue, contexts } from './catalogue.js';
import type { OpenClawHook, Version } from './catalogue.js';
import { gateAfter, gateOf, gateUnasked, overlaid } from './gate.js';
import { guestProgram } from './guest-program.js';
import { checkCall, isMember } from './host-calls.js';
import { deprecatedUses } from './deprecated-uses.js';
import { gatedHooks, readLoadReport } from './load-report.js';
import { manifestFile, readManifest } from './manifest.js';
import { inputWith, mutableField, openEvent } from './open.js';
import { isCancellable, pointOf, policyPoint } from './points.js';
import { longestMs, profiles } from './profiles.js';
import type { FailurePolicy, Profile, ProfileName } from './profiles.js';
import type { ReadAs } from './read.js';
import { readResult } from './read.js';
import { oneLine } from './redaction.js';
import { operatorBounds } from './registration.js';
import type { HookGates } from './registration.js';
import { answerMore, answerValue, runnerResult as resultOf } from './results.js';

const entryOf = (hook: OpenClawHook, profile: Profile, policy: FailurePolicy): HookEntry => {
  const field = mutableField(hook);
  const point = pointOf(hook, profile, policy);
  return {
    name: hook.name,
    group: hook.group,
    point,
    ...(hook.name === 'before_tool_call' ? { policyPoint } : {}),
    cancellable: isCancellable(hook),
    mutableFields: field === null ? [] : [field],
    defaultTimeoutMs: hook.timeoutMs[profile.version] ?? longestMs,
    failsClosed: point.failsClosed,
    startsTurn: hook.name === 'message_received' ? 'always' : 'never',
  };
};

const hookOf = (name: string): OpenClawHook => {
  const hook = catalogue.get(name);
  if (hook === undefined) throw new Error(`the openclaw dialect has no hook ${name}`);
  return hook;
};

/** What the guest program is told of a hook, the same for every run of it. */
const argsOf = (hook: OpenClawHook, profile: Profile): string => {
  const since9 = profile.version === '2026.9';
  return JSON.stringify({
    config: profile.injectsConfig,
    chains: profile.chainsContent,
    signal: Object.hasOwn(contexts[hook.context], 'abortSignal') && (since9 || hook.context === 'reply-dispatch'),
    // A payload hook of 2026.9 skips nothing but null; 2026.7 skips whatever is falsy.
    falsyCounts: since9,
    cron: hook.context === 'gateway',
    invocation: since9 && hook.name === 'before_prompt_build',
    authority: since9 && hook.name === 'before_prompt_build',
  });
};

const approvalsOf = ({ version, followsApprovalSettings }: Profile): DialectApprovals => ({
  followsSettings: followsApprovalSettings,
  held: (hook, decision, input) => {
    if (hook !== 'before_tool_call') return null;
    const gate = gateOf(decision, paramsOf(input));
    if (gate.kind === 'decided') return null;
    const { byPolicy, request, base, override } = gate;
    return { byPolicy, request, base, override };
  },
  read: (request) => readApproval(request, version),
  allowedParams: ({ base, override }) => overlaid(base, override),
  after: (call, end) => gateAfter(call, end, version),
  unasked: (call, mode) => ({ gate: gateUnasked(call, mode), told: mode === 'deny' ? 'deny' : 'cancelled' }),
  // A run that nobody watches has nobody to ask (openclaw.md §8).
  modeFor: ({ context }) => {
    const trigger = own(context, 'trigger');
    return version === '2026.9' && (trigger === 'cron' || trigger === 'heartbeat') ? 'unavailable' : 'ask';
  },
  withParams: ({ event, ...more }, params) => ({ ...more, event: { ...(event as JsonObject), params } }),
  paramsOf,
});

const sessionNames = ({ context }: JsonObject): readonly string[] => {
  const names = [own(context, 'sessionKey'), own(context, 'sessionId')];
  return [...new Set(names.filter((name): name is string => isId(name)))];
};

const turnQueue: TurnQueue = {
  hook: 'agent_turn_prepare',
  brings: ({ event }) => own(event, 'queuedInjections') !== undefined,
  withInjections: ({ event, ...more }, queuedInjections) => ({
    ...more,
    event: { ...(event as JsonObject), queuedInjections: queuedInjections as unknown as Json },
  }),
};

const paramsOf = ({ event }: JsonObject): Json => (own(event, 'params') ?? null) as Json;

const ofProfile = (profile: Profile, policy: FailurePolicy, hooks: readonly OpenClawHook[]): Dialect => {
  const args = new Map(hooks.map((hook) => [hook.name, argsOf(hook, profile)]));
  return {
    name: 'openclaw',
    ownFields: ['event', 'context', 'profile', 'approvalMode'],
    entries: new Map(hooks.map((hook) => [hook.name, entryOf(hook, inForce(hook, profile), policy)])),
    guest: guestProgram,
    bundling,
    manifest: { file: manifestFile, read: readManifest },
    timeoutBounds: operatorBounds,
    pausingMembers: [],
    pauseCeilingMs: 0,
    open: (hook, body) => openEvent(hookOf(hook), profile, body),
    hostView: () => ({ session: { state: 'absent', id: null }, workspaceAgentId: null, sshHostId: null }),
    grants: (_view, _permissions, member) => isMember(member),
    checkCall,
    hasTimers: true,
    setup: ({ permissions, config, pluginId }) =>
      JSON.stringify({ permissions, config, ...(pluginId === undefined ? {} : { pluginId }) }),
    args: (hook) => args.get(hook) ?? '{}',
    inputWith: (_hook, input, value) => inputWith(input, value),
    arrange: (order) => arrange(order, profile),
    read: (hook, raw, value, readAs) => {
      const { verdict, warnings } = readResult(hookOf(hook), profile, raw, value, readAs as ReadAs | undefined);
      return { verdict, warnings };
    },
    readNotes: () => [],
    approvals: approvalsOf(profile),
    queue: turnQueue,
    sessionNames,
    argsWith: (args, kept) => JSON.stringify({ ...(JSON.parse(args) as JsonObject), kept: kept as unknown as Json }),
    profile: profile.name,
    gated: (registrations, rules) => gatedHooks(registrations, profileIn(rules) ?? profile, gatesIn(rules)),
    examine: (code, hooks) => deprecatedUses(code, hooks),
    readReport: (report, rules) => readLoadReport(report, profileIn(rules) ?? profile, gatesIn(rules)),
    stopTags: (hook, failureMode) => {
      const ends = hookOf(hook).mode === 'claim' ? ['^'] : ['!'];
      return failureMode === 'closed' ? [...ends, '?', 'failed'] : ends;
    },
    answerValue: (hook, decision, facts) => answerValue(hookOf(hook), decision, profile, facts ?? noFacts),
    answerMore: (hook, decision, facts) => answerMore(hookOf(hook), decision, profile, facts),
    failure: (cause, detail, budgetMs) =>
      cause === 'timed_out'
        ? { code: 'handler_timeout', detail: budgetMs === undefined ? detail : `timed out after ${String(budgetMs)}ms` }
        : { code: 'handler_crashed', detail },
  };
};

/** A hook that a profile's version has not is known by the other version's entry. */
const inForce = (hook: OpenClawHook, profile: Profile): Profile =>
  hook.versions.includes(profile.version) ? profile : profiles['2026.9'];

const noFacts: AnswerFacts = { input: '{}', loaded: [], counts: {} };

const profileIn = (rules: DialectRules | undefined): Profile | null => {
  const name = rules?.profile;
  return name !== undefined && Object.hasOwn(profiles, name) ? profiles[name as ProfileName] : null;
};

const gatesIn = (rules: DialectRules | undefined): HookGates => rules?.gates ?? {};

const hooksOf = ({ version }: Profile): readonly OpenClawHook[] =>
  [...catalogue.values()].filter(({ versions }) => versions.includes(version));

/** The dialect under one profile, with the hooks that its version has. */
export const openclawOf = (name: ProfileName, policy: FailurePolicy = 'host'): Dialect =>
  ofProfile(profiles[name], policy, hooksOf(profiles[name]));

/**
 * The OpenClaw dialect. It knows the hooks of all versions; what is fired is fired under one of its `profiles`.
 */
export const openclaw: Dialect = {
  ...ofProfile(profiles.documented, 'host', [...catalogue.values()]),
  profiles: new Map((Object.keys(profiles) as readonly ProfileName[]).map((name) => [name, openclawOf(name)])),
};

/** Names of all hooks, in the order of the documents. */
export const openclawHooks: readonly string[] = [...catalogue.keys()];

/** What the real runner of a version hands to its caller for a decision; undefined: nothing. */
export const runnerResult = (hook: string, decision: Decision<Link, Json>, version: Version): Json | undefined =>
  resultOf(hookOf(hook), decision, profiles[version]);

/** The text with which a dispatch rejects when a handler fails closed (openclaw.md §3). */
export const failureText = (hook: string, pluginId: string, text: string): string =>
  `[hooks] ${hook} handler from ${pluginId} failed: ${oneLine(text)}`;

/** Whether a warning is a line of the log, and on which level. */
export const logLevelOf = (code: string): 'error' | 'warn' | null => {
  if (code === 'promise_ignored') return 'warn';
  return code.startsWith('handler_') ? 'error' : null;
};
