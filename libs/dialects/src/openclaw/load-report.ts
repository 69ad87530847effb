import { closest } from 'fastest-levenshtein';
import type { Json, JsonObject } from '#record';
import type { LoadReport } from '../dialect.js';
import { catalogue } from './catalogue.js';
import { normalizeMatcher } from './matcher.js';
import { profiles } from './profiles.js';
import type { Profile } from './profiles.js';
import { effectiveName, extensionFault, judgeHook, policyFault } from './registration.js';
import type { ExtensionClaim, HandlerClaim, HookGates, LifecycleClaim } from './registration.js';

/** A trusted tool policy that was registered, by the name its realm runs it under. */
export interface PolicyRegistration {
  readonly handler: string;
  readonly id: string;
  readonly matcher?: Json;
}

/** What a load of an OpenClaw plugin keeps for ordering and running its handlers. */
export interface Registrations {
  readonly handlers: readonly HandlerClaim[];
  readonly policies: readonly PolicyRegistration[];
  readonly extensions: readonly ExtensionClaim[];
  readonly lifecycles: readonly LifecycleClaim[];
}

interface Reported extends Omit<Registrations, 'policies'> {
  readonly entryId: string;
  readonly manifestId: string;
  readonly declared: readonly string[];
  readonly policies: readonly PolicyRegistration[];
  readonly asyncRegister: boolean;
  readonly unknown: readonly string[];
  readonly notFunctions: readonly string[];
  readonly faults: readonly string[];
  readonly meaningless: readonly string[];
  readonly deprecated: readonly string[];
}

type LoadWarning = LoadReport['warnings'][number];

/**
 * Reads the guest program's report after a plugin registered (openclaw.md §5, §7, §22): its hooks, those that the gates
 * in force keep from it, and what is accepted without effect, deprecated, or refused. Total: what does not fit
 * registers nothing.
 */
export const readLoadReport = (report: string, profile: Profile, gates: HookGates): LoadReport => {
  const said = reported(report);
  const { kept: policies, warnings: policyWarnings } = keptPolicies(said);
  const { kept: extensions, warnings: extensionWarnings } = keptExtensions(said);
  const named = said.handlers.map(({ hook }) => hook).filter((hook) => catalogue.has(hook));
  const hooks = new Set([...named.map(effectiveName), ...(policies.length > 0 ? ['before_tool_call'] : [])]);
  const registrations: Registrations = {
    handlers: said.handlers.filter(({ hook }) => catalogue.has(hook)),
    policies,
    extensions,
    lifecycles: said.lifecycles,
  };
  return {
    hooks: inOrder(hooks),
    gated: gatedHooks(registrations as unknown as JsonObject, profile, gates),
    warnings: [
      ...said.unknown.map((name) => ({
        code: 'unknown_hook',
        detail: `${name}: nearest is ${closest(name, [...catalogue.keys()])}`,
      })),
      ...inOrder(new Set(named)).flatMap((hook) => hookWarnings(hook, profile)),
      ...said.notFunctions.map((name) => ({ code: 'handler_not_function', detail: name })),
      ...said.handlers.flatMap(matcherWarnings),
      ...[...policyWarnings, ...extensionWarnings],
      ...said.faults.map((detail) => ({ code: 'registration_refused', detail })),
      ...said.deprecated.map((detail) => ({ code: 'deprecated', detail: `${detail}: ${aliasFor(detail)}` })),
      ...said.meaningless.map((detail) => ({ code: 'no_meaning', detail })),
      ...(said.asyncRegister
        ? [{ code: 'async_register', detail: 'register() returned a promise: what it registers later is not seen' }]
        : []),
    ],
    registrations: registrations as unknown as JsonObject,
    declaredIds: [said.entryId, said.manifestId].filter((id) => id !== ''),
    registersMore: extensions.length > 0 || said.lifecycles.length > 0,
  };
};

/** Hooks that a plugin registered and that its account's gates keep from it. */
export const gatedHooks = (kept: JsonObject, profile: Profile, gates: HookGates): readonly string[] => {
  const judged = registrationsIn(kept).handlers.map(({ hook }) =>
    judgeHook(hook, { profile, gates, origin: 'installed' }),
  );
  return inOrder(new Set(judged.flatMap((found) => (found.kind === 'refused' ? [found.hook] : []))));
};

/** Registrations as a load kept them. */
export const registrationsIn = (kept: JsonObject): Registrations => ({
  handlers: listIn(kept, 'handlers') as unknown as readonly HandlerClaim[],
  policies: listIn(kept, 'policies') as unknown as readonly PolicyRegistration[],
  extensions: listIn(kept, 'extensions') as unknown as readonly ExtensionClaim[],
  lifecycles: listIn(kept, 'lifecycles') as unknown as readonly LifecycleClaim[],
});

const inOrder = (names: ReadonlySet<string>): readonly string[] =>
  [...catalogue.keys()].filter((name) => names.has(name));

const hookWarnings = (name: string, profile: Profile): readonly LoadWarning[] => {
  const hook = catalogue.get(name);
  if (hook === undefined) return [];
  const warnings: LoadWarning[] = [];
  if (!hook.versions.includes(profile.version)) {
    const where = Object.values(profiles)
      .filter(({ version }) => hook.versions.includes(version))
      .map((one) => one.name);
    warnings.push({
      code: 'hook_not_in_profile',
      detail: `${name}: not in ${profile.name}, only in ${where.join(', ')}`,
    });
  }
  if (hook.deprecated !== null) {
    const { replacement, removeAfter, removedBy } = hook.deprecated;
    const end =
      removeAfter === undefined ? (removedBy === undefined ? '' : `, gone in ${removedBy}`) : `, until ${removeAfter}`;
    warnings.push({ code: 'deprecated', detail: `${name}: use ${replacement.join(' and ')}${end}` });
  }
  return warnings;
};

const aliasFor = (name: string): string => {
  switch (name) {
    case 'api.registerSessionExtension':
      return 'use api.session.state.registerSessionExtension';
    case 'api.enqueueNextTurnInjection':
      return 'use api.session.workflow.enqueueNextTurnInjection';
    default:
      return 'use api.lifecycle.registerRuntimeLifecycle';
  }
};

const matcherWarnings = ({ hook, matcher }: HandlerClaim): readonly LoadWarning[] => {
  if (matcher === undefined) return [];
  if (hook !== 'before_tool_call' && hook !== 'after_tool_call') {
    return [{ code: 'no_meaning', detail: `matcher of ${hook}` }];
  }
  const read = normalizeMatcher(matcher);
  return read.kind === 'tools' ? [] : [{ code: 'bad_matcher', detail: `${hook}: its matcher ${read.reason}` }];
};

const policyWords = {
  'not-declared': 'is not among contracts.trustedToolPolicies of the manifest',
  'not-enabled': 'belongs to a plugin that is not enabled',
  twice: 'is registered already',
} as const;

/** Enabling comes later and is not judged here: a plugin that is not enabled runs nothing. */
const keptPolicies = ({
  policies,
  declared,
}: Reported): { readonly kept: readonly PolicyRegistration[]; readonly warnings: readonly LoadWarning[] } => {
  const kept: PolicyRegistration[] = [];
  const warnings: LoadWarning[] = [];
  for (const policy of policies) {
    const fault = policyFault(
      { id: policy.id, declared, origin: 'installed', enabled: true },
      kept.map(({ id }) => id),
    );
    if (fault === null) kept.push(policy);
    else warnings.push({ code: 'policy_refused', detail: `${policy.id} ${policyWords[fault]}` });
  }
  return { kept, warnings };
};

const keptExtensions = ({
  extensions,
}: Reported): { readonly kept: readonly ExtensionClaim[]; readonly warnings: readonly LoadWarning[] } => {
  const kept: ExtensionClaim[] = [];
  const warnings: LoadWarning[] = [];
  for (const extension of extensions) {
    const fault = extensionFault(extension, kept);
    if (fault === null) kept.push(extension);
    else warnings.push({ code: 'registration_refused', detail: `session extension ${extension.namespace}: ${fault}` });
  }
  return { kept, warnings };
};

const reported = (report: string): Reported => {
  const said = parsed(report);
  return {
    entryId: textIn(said, 'entryId'),
    manifestId: textIn(said, 'manifestId'),
    declared: textsIn(said, 'declared'),
    asyncRegister: said.asyncRegister === true,
    handlers: objectsIn(said, 'handlers', ['id', 'hook']) as unknown as readonly HandlerClaim[],
    policies: objectsIn(said, 'policies', ['handler', 'id']) as unknown as readonly PolicyRegistration[],
    extensions: objectsIn(said, 'extensions', [
      'namespace',
      'description',
      'project',
      'cleanup',
    ]) as unknown as readonly ExtensionClaim[],
    lifecycles: objectsIn(said, 'lifecycles', ['handler', 'id', 'cleanup']) as unknown as readonly LifecycleClaim[],
    unknown: textsIn(said, 'unknown'),
    notFunctions: textsIn(said, 'notFunctions'),
    faults: textsIn(said, 'faults'),
    meaningless: textsIn(said, 'meaningless'),
    deprecated: textsIn(said, 'deprecated'),
  };
};

const parsed = (text: string): JsonObject => {
  try {
    const value = JSON.parse(text) as Json;
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
};

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const listIn = (said: JsonObject, name: string): readonly Json[] => {
  const list = said[name];
  return Array.isArray(list) ? (list as readonly Json[]) : [];
};

const textIn = (said: JsonObject, name: string): string => {
  const value = said[name];
  return typeof value === 'string' ? value : '';
};

const textsIn = (said: JsonObject, name: string): readonly string[] =>
  listIn(said, name).filter((item): item is string => typeof item === 'string');

const objectsIn = (said: JsonObject, name: string, texts: readonly string[]): readonly JsonObject[] =>
  listIn(said, name).filter(
    (item): item is JsonObject => isObject(item) && texts.every((field) => typeof item[field] === 'string'),
  );
