import type { ChainEntry, PluginChanged, PluginOrderChanged, PluginSnapshot, RecordedEvent } from '#record';

/** An account's plugins as its log says up to some position. A value: folding gives a new one. */
export interface PluginSet {
  /** Installed plugins by id. */
  readonly plugins: ReadonlyMap<string, PluginSnapshot>;
  /**
   * Ids of all installed plugins, first runs first: installation order until `PUT plugin-order` says otherwise. An
   * update keeps its place (MW-20); what is installed later, or again, goes to the end.
   */
  readonly order: readonly string[];
}

/** One plugin's place in a chain with the state it runs with. */
export interface ChainPlace {
  readonly entry: ChainEntry;
  readonly plugin: PluginSnapshot;
}

/** The chain in force for one hook. */
export interface ChainInForce {
  /** In the order it runs. */
  readonly places: readonly ChainPlace[];
  /** Enabled plugins of the dialect that have no handler for this hook and so take no part (MW-23). */
  readonly withoutHook: number;
}

/** An account before its first plugin. */
export const noPlugins: PluginSet = { plugins: new Map(), order: [] };

/** The events that change a `PluginSet`; all other types leave it as it is. */
export const pluginChangeTypes = [
  'plugin.installed',
  'plugin.versioned',
  'plugin.enabled',
  'plugin.disabled',
  'plugin.configured',
  'plugin.permissions_changed',
  'plugin.mode_changed',
  'plugin.order_changed',
  'plugin.rolled_back',
  'plugin.uninstalled',
] as const satisfies readonly RecordedEvent['type'][];

const changes: ReadonlySet<string> = new Set(pluginChangeTypes);

/** The set after one more event. Total: an event of another type changes nothing. */
export const evolveSet = (set: PluginSet, event: Pick<RecordedEvent, 'type' | 'data' | 'pluginId'>): PluginSet => {
  if (!changes.has(event.type)) return set;
  if (event.type === 'plugin.order_changed') return reorder(set, event.data as unknown as PluginOrderChanged);
  return replace(set, event.data as unknown as PluginChanged);
};

/** Folds events, oldest first. */
export const foldSet = (
  events: Iterable<Pick<RecordedEvent, 'type' | 'data' | 'pluginId'>>,
  from = noPlugins,
): PluginSet => {
  let set = from;
  for (const event of events) set = evolveSet(set, event);
  return set;
};

/** What was installed while an order was being decided keeps its place at the end: as if the order had come first. */
const reorder = (set: PluginSet, change: PluginOrderChanged): PluginSet => {
  const named = new Set(change.after);
  return {
    plugins: set.plugins,
    order: [...change.after.filter((id) => set.plugins.has(id)), ...set.order.filter((id) => !named.has(id))],
  };
};

const replace = (set: PluginSet, change: PluginChanged): PluginSet => {
  const plugins = new Map(set.plugins);
  if (change.after === null) {
    if (change.before === null) return set;
    const gone = change.before.id;
    plugins.delete(gone);
    return { plugins, order: set.order.filter((id) => id !== gone) };
  }
  plugins.set(change.after.id, change.after);
  return { plugins, order: set.plugins.has(change.after.id) ? set.order : [...set.order, change.after.id] };
};

/** Installed plugins in their order. */
export const inOrder = (set: PluginSet): readonly PluginSnapshot[] =>
  set.order.flatMap((id) => {
    const plugin = set.plugins.get(id);
    return plugin === undefined ? [] : [plugin];
  });

/**
 * The chain of one hook. Disabled plugins are not in it at all; a plugin without the hook takes no part and is only
 * counted. Middleware and OpenClaw follow the set's order; Kohaku sorts by priority, ties by that order.
 */
export const chainFor = (set: PluginSet, dialect: PluginSnapshot['dialect'], hook: string): ChainInForce => {
  const enabled = inOrder(set).filter((plugin) => plugin.enabled && plugin.dialect === dialect);
  const taking = enabled.filter((plugin) => plugin.findings.hooks.includes(hook));
  const inTurn = arranged(dialect, taking);
  return {
    // Kohaku unloads in reverse (kohaku.md §6).
    places: (dialect === 'kohaku' && hook === 'on_unload' ? [...inTurn].reverse() : inTurn).map((plugin) => ({
      plugin,
      entry: chainEntry(plugin),
    })),
    withoutHook: enabled.length - taking.length,
  };
};

/** A dialect's own order of plugins that stand in the account's. */
export const arranged = (
  dialect: PluginSnapshot['dialect'],
  plugins: readonly PluginSnapshot[],
): readonly PluginSnapshot[] =>
  dialect === 'kohaku' ? [...plugins].sort((a, b) => kohakuPriority(a) - kohakuPriority(b)) : plugins;

/** The installed number, else the class's own, else 50 (kohaku.md §1). */
export const kohakuPriority = (plugin: PluginSnapshot): number => {
  if (plugin.priority !== null) return plugin.priority;
  const own = plugin.findings.registrations.priority;
  return typeof own === 'number' ? own : 50;
};

/** A plugin as `invocation.opened` names it. */
export const chainEntry = (plugin: PluginSnapshot): ChainEntry => ({
  pluginId: plugin.id,
  version: plugin.version,
  revision: plugin.revision,
  mode: plugin.mode,
  failureMode: plugin.failureMode,
  priority: plugin.priority,
  configDigest: plugin.configDigest,
});
