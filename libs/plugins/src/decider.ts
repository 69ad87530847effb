import {
  asData,
  canonicalJson,
  type Actor,
  type EventType,
  type Json,
  type LoadFindings,
  type NewEvent,
  type PluginChanged,
  type PluginOrderChanged,
  type PluginSnapshot,
  type RecordedEvent,
  type Sealed,
  type StoredCode,
} from '#record';
import { canCancel, timeoutFaults, type DialectFacts, type PluginFault } from './dialect-facts.js';
import { pluginChangeTypes, type PluginSet } from './plugin-set.js';
import { orderWeakens, weakens } from './weakening.js';

/** What one plugin's stream says: the state in force and every revision it ever had. */
export interface PluginHistory {
  /** Null before the first install and after an uninstall. */
  readonly current: PluginSnapshot | null;
  /** Revisions go on through uninstall and install, so that one number never means two states. */
  readonly lastRevision: number;
  readonly revisions: ReadonlyMap<number, PluginSnapshot>;
}

/** A plugin that was never there. */
export const neverInstalled: PluginHistory = { current: null, lastRevision: 0, revisions: new Map() };

/** A plugin's state as a command brings it; the decider gives the revision. */
export type PluginState = Omit<PluginSnapshot, 'revision'>;

/** A configuration, sealed, with the digest by which it is compared. */
export interface SealedConfig {
  readonly sealed: Sealed;
  readonly digest: string;
}

/** Fields that a PATCH names; what it does not name stays. */
export interface PluginPatch {
  readonly enabled?: boolean;
  readonly config?: SealedConfig;
  readonly priority?: number | null;
  readonly failureMode?: PluginSnapshot['failureMode'];
  readonly mode?: PluginSnapshot['mode'];
  readonly isolation?: PluginSnapshot['isolation'];
  readonly timeouts?: PluginSnapshot['timeouts'];
  readonly permissions?: readonly string[];
  /** What the code registers with the new configuration and permissions, where it was loaded again. */
  readonly findings?: LoadFindings;
}

export type PluginCommand =
  | { readonly kind: 'install'; readonly plugin: PluginState }
  | { readonly kind: 'change'; readonly patch: PluginPatch }
  | {
      readonly kind: 'version';
      readonly version: string;
      readonly code: StoredCode;
      readonly findings: LoadFindings;
      /** Null: see `permissionsOfVersion`. */
      readonly permissions: readonly string[] | null;
    }
  | { readonly kind: 'rollback'; readonly revision: number }
  | { readonly kind: 'uninstall' }
  /** Whole set: whatever it was, it becomes this. `sameSchema`: its `configSchema` is the one it has. */
  | { readonly kind: 'become'; readonly plugin: PluginState; readonly sameSchema: boolean };

export type Refusal =
  | { readonly kind: 'refused'; readonly refusal: 'exists' | 'not_installed' }
  | { readonly kind: 'refused'; readonly refusal: 'unknown_revision' | 'other_dialect'; readonly revision: number }
  | { readonly kind: 'refused'; readonly refusal: 'faulty'; readonly faults: readonly PluginFault[] };

export interface Decided {
  readonly kind: 'decided';
  /** Empty when the command asks for what is already so. */
  readonly events: readonly NewEvent[];
  /** The state afterwards; null after an uninstall. */
  readonly after: PluginSnapshot | null;
}

/** Who asks, why, and the rules of the plugin's dialect. */
export interface Circumstances {
  readonly actor: Actor;
  readonly reason: Sealed | null;
  readonly factsOf: (dialect: PluginSnapshot['dialect']) => DialectFacts;
}

/** The history after one more event of the plugin's stream. */
export const evolve = (history: PluginHistory, event: Pick<RecordedEvent, 'type' | 'data'>): PluginHistory => {
  if (!changes.has(event.type)) return history;
  const { before, after } = event.data as unknown as PluginChanged;
  if (after === null)
    return { ...history, current: null, lastRevision: Math.max(history.lastRevision, before?.revision ?? 0) };
  return {
    current: after,
    lastRevision: Math.max(history.lastRevision, after.revision),
    revisions: new Map(history.revisions).set(after.revision, after),
  };
};

const changes: ReadonlySet<string> = new Set(pluginChangeTypes.filter((type) => type !== 'plugin.order_changed'));

/** Folds a plugin's stream. */
export const foldPlugin = (events: Iterable<Pick<RecordedEvent, 'type' | 'data'>>): PluginHistory => {
  let history = neverInstalled;
  for (const event of events) history = evolve(history, event);
  return history;
};

/**
 * What a command does to a plugin. One command is one revision and one append, whatever number of events it takes: a
 * PATCH gives `configured`, `permissions_changed`, `mode_changed`, `enabled` or `disabled`, those that apply in this
 * order, each with the state before and after its own part. The last event's `after` is the revision.
 */
export const decide = (
  command: PluginCommand,
  history: PluginHistory,
  circumstances: Circumstances,
): Decided | Refusal => {
  const decision = { ...circumstances, revision: history.lastRevision + 1 };
  switch (command.kind) {
    case 'install':
      return history.current === null ? install(command.plugin, decision) : refused('exists');
    case 'become':
      return history.current === null
        ? install(command.plugin, decision)
        : become(history.current, command.plugin, command.sameSchema, decision);
    case 'change':
      return history.current === null ? refused('not_installed') : change(history.current, command.patch, decision);
    case 'version':
      return history.current === null ? refused('not_installed') : version(history.current, command, decision);
    case 'rollback':
      return history.current === null
        ? refused('not_installed')
        : rollBack(history.current, history.revisions.get(command.revision), command.revision, decision);
    case 'uninstall':
      return history.current === null ? refused('not_installed') : uninstall(history.current, decision);
  }
};

interface Decision extends Circumstances {
  readonly revision: number;
}

const refused = (refusal: 'exists' | 'not_installed'): Refusal => ({ kind: 'refused', refusal });

const install = (plugin: PluginState, decision: Decision): Decided | Refusal => {
  const after = { ...plugin, revision: decision.revision };
  return faulty(after, decision) ?? decided(null, [step('plugin.installed', null, after, decision)]);
};

const change = (before: PluginSnapshot, patch: PluginPatch, decision: Decision): Decided | Refusal => {
  const config = patch.config === undefined || patch.config.digest === before.configDigest ? null : patch.config;
  const next: PluginSnapshot = {
    ...before,
    enabled: patch.enabled ?? before.enabled,
    config: config?.sealed ?? before.config,
    configDigest: config?.digest ?? before.configDigest,
    priority: patch.priority === undefined ? before.priority : patch.priority,
    failureMode: patch.failureMode ?? before.failureMode,
    mode: patch.mode ?? before.mode,
    isolation: patch.isolation ?? before.isolation,
    timeouts: patch.timeouts ?? before.timeouts,
    permissions: patch.permissions === undefined ? before.permissions : sorted(patch.permissions),
    findings: patch.findings ?? before.findings,
    revision: decision.revision,
  };
  return faulty(next, decision) ?? decided(before, settingSteps(before, next, decision));
};

const version = (
  before: PluginSnapshot,
  command: Extract<PluginCommand, { kind: 'version' }>,
  decision: Decision,
): Decided | Refusal => {
  const after: PluginSnapshot = {
    ...before,
    version: command.version,
    code: command.code,
    findings: command.findings,
    permissions: permissionsOfVersion(before, command.findings, command.permissions),
    revision: decision.revision,
  };
  return faulty(after, decision) ?? decided(before, [step('plugin.versioned', before, after, decision)]);
};

/**
 * What a new version may do: the list that came with it; else, where the grants were just what the old source asked
 * for, what the new one asks for; else the owner's list, which stands until the owner changes it.
 */
export const permissionsOfVersion = (
  before: PluginSnapshot,
  findings: LoadFindings,
  given: readonly string[] | null,
): readonly string[] => {
  if (given !== null) return sorted(given);
  return same(sorted(before.permissions), sorted(before.findings.requestedPermissions))
    ? sorted(findings.requestedPermissions)
    : before.permissions;
};

/** Code and settings come back; whether the plugin is enabled is not a setting of a revision and stays as it is. */
const rollBack = (
  before: PluginSnapshot,
  to: PluginSnapshot | undefined,
  revision: number,
  decision: Decision,
): Decided | Refusal => {
  if (to === undefined) return { kind: 'refused', refusal: 'unknown_revision', revision };
  if (to.dialect !== before.dialect) return { kind: 'refused', refusal: 'other_dialect', revision };
  const after: PluginSnapshot = { ...to, enabled: before.enabled, revision: decision.revision };
  if (differences(before, after).length === 0) return decided(before, []);
  return (
    faulty(after, decision) ??
    decided(before, [step('plugin.rolled_back', before, after, decision, { toRevision: revision })])
  );
};

const uninstall = (before: PluginSnapshot, decision: Decision): Decided =>
  decided(before, [step('plugin.uninstalled', before, null, decision)]);

const become = (
  before: PluginSnapshot,
  plugin: PluginState,
  sameSchema: boolean,
  decision: Decision,
): Decided | Refusal => {
  if (plugin.dialect !== before.dialect) {
    return faultyWith([{ pointer: '/dialect', reason: 'a plugin keeps its dialect: uninstall it first' }]);
  }
  const wanted: PluginSnapshot = {
    ...plugin,
    permissions: sorted(plugin.permissions),
    config: plugin.configDigest === before.configDigest ? before.config : plugin.config,
    configSchema: sameSchema ? before.configSchema : plugin.configSchema,
    code: sameCode(before.code, plugin.code) ? before.code : plugin.code,
    revision: decision.revision,
  };
  const faults = faulty(wanted, decision);
  if (faults !== null) return faults;
  const versioned: PluginSnapshot = {
    ...before,
    name: wanted.name,
    version: wanted.version,
    code: wanted.code,
    findings: wanted.findings,
    revision: decision.revision,
  };
  const first =
    differences(before, versioned).length === 0 ? [] : [step('plugin.versioned', before, versioned, decision)];
  return decided(before, [...first, ...settingSteps(first.length === 0 ? before : versioned, wanted, decision)]);
};

/** The events that lead from one state to another by settings alone, in their fixed order. */
const settingSteps = (before: PluginSnapshot, after: PluginSnapshot, decision: Decision): readonly Step[] => {
  const steps: Step[] = [];
  let state = before;
  for (const [type, keys] of settingEvents(after)) {
    const next = { ...state, ...pick(after, keys), revision: decision.revision };
    if (differences(state, next).length === 0) continue;
    steps.push(step(type, state, next, decision));
    state = next;
  }
  return steps;
};

const settingEvents = (after: PluginSnapshot): readonly (readonly [EventType, readonly (keyof PluginSnapshot)[]])[] => [
  [
    'plugin.configured',
    ['config', 'configDigest', 'configSchema', 'priority', 'failureMode', 'isolation', 'timeouts', 'findings'],
  ],
  ['plugin.permissions_changed', ['permissions']],
  ['plugin.mode_changed', ['mode']],
  [after.enabled ? 'plugin.enabled' : 'plugin.disabled', ['enabled']],
];

const pick = (from: PluginSnapshot, keys: readonly (keyof PluginSnapshot)[]): Partial<PluginSnapshot> =>
  Object.fromEntries(keys.map((key) => [key, from[key]]));

interface Step {
  readonly event: NewEvent;
  readonly after: PluginSnapshot | null;
}

const step = (
  type: EventType,
  before: PluginSnapshot | null,
  after: PluginSnapshot | null,
  decision: Decision,
  more: { readonly toRevision?: number } = {},
): Step => {
  const data: PluginChanged = {
    before,
    after,
    changed: before === null || after === null ? [] : differences(before, after),
    reason: decision.reason,
    weakensEnforcement: before !== null && weakens(before, after, decision.factsOf(before.dialect)),
    ...more,
  };
  return {
    after,
    event: {
      type,
      actor: decision.actor,
      ...fieldsOf(after ?? before),
      data: asData(data),
    },
  };
};

const fieldsOf = (plugin: PluginSnapshot | null): Partial<NewEvent> =>
  plugin === null
    ? {}
    : {
        dialect: plugin.dialect,
        pluginId: plugin.id,
        pluginVersion: plugin.version,
        pluginRevision: plugin.revision,
      };

const decided = (before: PluginSnapshot | null, steps: readonly Step[]): Decided => ({
  kind: 'decided',
  events: steps.map(({ event }) => event),
  after: steps.reduce<PluginSnapshot | null>((_, { after }) => after, before),
});

/** Names of the parts in which two states of a plugin differ; the revision is not one of them. */
export const differences = (before: PluginSnapshot, after: PluginSnapshot): readonly string[] => {
  const named: string[] = [];
  if (before.name !== after.name) named.push('name');
  if (before.version !== after.version) named.push('version');
  if (!sameCode(before.code, after.code)) named.push('code');
  if (!sameJson(before.findings, after.findings)) named.push('findings');
  if (before.configDigest !== after.configDigest) named.push('config');
  if (!sameJson(before.configSchema, after.configSchema)) named.push('configSchema');
  for (const key of ['priority', 'failureMode', 'isolation', 'timeouts', 'permissions', 'mode', 'enabled'] as const) {
    if (!sameJson(before[key], after[key])) named.push(key);
  }
  return named;
};

const sameCode = (a: StoredCode, b: StoredCode): boolean =>
  a.sourceDigest === b.sourceDigest && a.compiledDigest === b.compiledDigest && a.language === b.language;

const sameJson = (a: unknown, b: unknown): boolean => canonicalJson(a as Json) === canonicalJson(b as Json);

const sorted = (list: readonly string[]): readonly string[] => [...new Set(list)].sort();

const same = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((item, index) => item === b[index]);

const faulty = (plugin: PluginSnapshot, decision: Decision): Refusal | null => {
  const facts = decision.factsOf(plugin.dialect);
  const faults = [...timeoutFaults(plugin.timeouts, facts)];
  if (plugin.failureMode === 'closed' && !canCancel(plugin.findings.hooks, facts)) {
    faults.push({
      pointer: '/failureMode',
      reason: 'none of this plugin\'s hooks can cancel an operation: leave "open", or register a hook that can',
    });
  }
  return faults.length === 0 ? null : faultyWith(faults);
};

const faultyWith = (faults: readonly PluginFault[]): Refusal => ({ kind: 'refused', refusal: 'faulty', faults });

/** What `PUT plugin-order` does: every installed plugin named once, else faults. */
export const decideOrder = (
  pluginIds: readonly string[],
  set: PluginSet,
  { actor, reason, factsOf }: Circumstances,
): { readonly kind: 'decided'; readonly events: readonly NewEvent[]; readonly after: readonly string[] } | Refusal => {
  const faults = orderFaults(pluginIds, set);
  if (faults.length > 0) return faultyWith(faults);
  if (same(pluginIds, set.order)) return { kind: 'decided', events: [], after: set.order };
  const data: PluginOrderChanged = {
    before: set.order,
    after: pluginIds,
    reason,
    weakensEnforcement: orderWeakens(set, pluginIds, factsOf),
  };
  return { kind: 'decided', events: [{ type: 'plugin.order_changed', actor, data: asData(data) }], after: pluginIds };
};

const orderFaults = (pluginIds: readonly string[], set: PluginSet): readonly PluginFault[] => {
  const faults: PluginFault[] = [];
  const seen = new Set<string>();
  pluginIds.forEach((id, index) => {
    const pointer = `/pluginIds/${String(index)}`;
    if (!set.plugins.has(id)) faults.push({ pointer, reason: 'names a plugin that is not installed' });
    else if (seen.has(id)) faults.push({ pointer, reason: 'names a plugin a second time' });
    seen.add(id);
  });
  const missing = set.order.filter((id) => !seen.has(id));
  if (missing.length > 0) {
    faults.push({ pointer: '/pluginIds', reason: `must name every installed plugin; missing: ${missing.join(', ')}` });
  }
  return faults;
};
