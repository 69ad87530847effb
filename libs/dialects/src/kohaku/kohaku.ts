import type { Mode, Point } from '#hooks';
import type { Json, JsonObject } from '#record';
import type { AnswerFacts, Dialect, HookEntry } from '../dialect.js';
import { catalogue, defaultTimeoutMs } from './catalogue.js';
import type { KohakuHook, Shape } from './catalogue.js';
import { effectMembers, isMember } from './members.js';
import { readLoadReport } from './load-report.js';
import { inputWith, isRewritten, openInput } from './open.js';
import { profiles } from './profiles.js';
import type { Profile, ProfileName } from './profiles.js';
import { readResult } from './read.js';
import { answerMore, answerValue, concluded } from './results.js';
import { guestProgram } from './guest-program.js';
import { bundling } from './bundling.js';
import { pythonShim } from './shim.js';

const merge = (fields: Extract<Mode, { kind: 'merge' }>['fields']): Mode => ({
  kind: 'merge',
  fields,
  others: null,
  chained: null,
  terminal: null,
  cancels: null,
  holds: null,
  controls: [],
});

const modes: { readonly [shape in Shape]: Mode } = {
  transform: { kind: 'waterfall' },
  text: { kind: 'waterfall' },
  callback: { kind: 'observe', start: 'sequential' },
  load: { kind: 'observe', start: 'sequential' },
  unload: { kind: 'observe', start: 'sequential' },
  veto: { kind: 'vote' },
  vote: { kind: 'first-claim' },
  applies: merge({ applies: { rule: 'overlay' } }),
  commands: merge({ commands: { rule: 'append' } }),
  'user-commands': merge({ commands: { rule: 'append' } }),
  prompt: merge({ parts: { rule: 'append' } }),
  services: merge({ services: { rule: 'overlay' } }),
  visibility: merge({ allowed_tools: { rule: 'intersect' }, allowed_subagents: { rule: 'intersect' } }),
};

const observing: ReadonlySet<Shape> = new Set(['callback', 'load', 'unload', 'veto']);

const pointOf = (hook: KohakuHook): Point => ({
  mode: modes[hook.shape],
  cancellable: hook.blocks || hook.shape === 'veto',
  failsClosed: false,
  rewritable: !observing.has(hook.shape),
});

const entryOf = (hook: KohakuHook): HookEntry => ({
  name: hook.name,
  group: hook.group,
  point: pointOf(hook),
  cancellable: hook.blocks || hook.shape === 'veto',
  mutableFields: isRewritten(hook) ? ['value'] : [],
  defaultTimeoutMs,
  failsClosed: false,
  startsTurn: hook.name === 'on_event' ? 'always' : 'never',
});

const hookOf = (name: string): KohakuHook => {
  const found = catalogue.get(name);
  if (found === undefined) throw new Error(`the kohaku dialect has no hook ${name}`);
  return found;
};

/** What the guest program is told of a hook, the same for every run of it. */
const argsOf = (hook: KohakuHook, profile: Profile): string =>
  JSON.stringify({
    shape: hook.shape,
    first: hook.first,
    blocks: hook.blocks,
    awaited: hook.awaited,
    always: hook.ignoresApplicability,
    positionalLoad: profile.positionalLoad,
    promptPlugins: profile.promptPlugins,
    subagentJobId: profile.subagentJobId,
    anySubagentResult: profile.anySubagentResult,
  });

const noFacts: AnswerFacts = { input: '{}', loaded: [], counts: {} };

const ofProfile = (profile: Profile): Dialect => {
  const args = new Map([...catalogue.values()].map((hook) => [hook.name, argsOf(hook, profile)]));
  return {
    name: 'kohaku',
    ownFields: ['input', 'profile'],
    entries: new Map([...catalogue.values()].map((hook) => [hook.name, entryOf(hook)])),
    guest: guestProgram,
    guests: { python: pythonShim },
    bundling,
    timeoutBounds: { min: 1, max: 600_000 },
    pausingMembers: [],
    pauseCeilingMs: 0,
    open: (hook, body, fired) => openInput(hookOf(hook), profile, body, fired ?? { sessionId: null, agentId: null }),
    hostView: () => ({ session: { state: 'absent', id: null }, workspaceAgentId: null, sshHostId: null }),
    grants: (_view, _permissions, member) => isMember(member),
    checkCall: (member) =>
      isMember(member) ? null : { code: 'unknown_member', message: `there is no host member ${member}` },
    effects: effectMembers,
    hasTimers: true,
    setup: ({ config, pluginId, className, pluginName }) =>
      JSON.stringify({
        config,
        ...(pluginId === undefined ? {} : { pluginId }),
        ...(className === undefined ? {} : { class: className }),
        ...(pluginName === undefined ? {} : { pluginName }),
      }),
    args: (hook) => args.get(hook) ?? '{}',
    argsWith: (text, kept) => JSON.stringify({ ...(JSON.parse(text) as JsonObject), kept: kept as unknown as Json }),
    keepsState: ({ state }) => state === true,
    inputWith: (_hook, input, value) => inputWith(input, value),
    read: (hook, raw, value) => readResult(hookOf(hook), raw, value),
    readNotes: () => [],
    profile: profile.name,
    readReport: readLoadReport,
    stopTags: (hook, failureMode) => {
      const { shape, blocks } = hookOf(hook);
      const ends = shape === 'vote' ? ['^'] : blocks ? ['!'] : [];
      return failureMode === 'closed' && blocks ? [...ends, '?', 'failed'] : ends;
    },
    conclude: (hook, decision, facts) => concluded(hookOf(hook), decision, facts),
    answerValue: (hook, decision, facts) => answerValue(hookOf(hook), decision, facts ?? noFacts),
    answerMore: (hook, decision, facts) => answerMore(hookOf(hook), decision, facts),
    failure: (cause, detail, budgetMs) =>
      cause === 'timed_out'
        ? { code: 'handler_timeout', detail: budgetMs === undefined ? detail : `timed out after ${String(budgetMs)}ms` }
        : { code: 'handler_crashed', detail },
  };
};

/** The dialect under one profile. */
export const kohakuOf = (name: ProfileName): Dialect => ofProfile(profiles[name]);

/** The KohakuTerrarium dialect; what is fired is fired under one of its `profiles`. */
export const kohaku: Dialect = {
  ...kohakuOf('documented'),
  profiles: new Map((Object.keys(profiles) as readonly ProfileName[]).map((name) => [name, kohakuOf(name)])),
};
