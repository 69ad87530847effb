import {
  asData,
  type CleanupCause,
  type ExtensionCleaned,
  type ExtensionPatched,
  type NewEvent,
  type RecordedEvent,
  type Sealed,
} from '#record';

/** What plugins keep in a session, by plugin and namespace (openclaw.md §15): pure, over the events of its own stream. */
export type SessionExtensions = ReadonlyMap<string, ReadonlyMap<string, Sealed>>;

export const noExtensions: SessionExtensions = new Map();

/** The state after one of its events. */
export const evolveExtensions = (
  state: SessionExtensions,
  { type, data }: Pick<NewEvent | RecordedEvent, 'type' | 'data'>,
): SessionExtensions => {
  if (type === 'extension.patched') return patched(state, data as unknown as ExtensionPatched);
  return type === 'extension.cleaned' ? cleaned(state, data as unknown as ExtensionCleaned) : state;
};

const patched = (state: SessionExtensions, { pluginId, namespace, value }: ExtensionPatched): SessionExtensions => {
  const own = new Map(state.get(pluginId));
  if (value === null) own.delete(namespace);
  else own.set(namespace, value);
  return withPlugin(state, pluginId, own);
};

const cleaned = (state: SessionExtensions, { removed }: ExtensionCleaned): SessionExtensions => {
  let left = state;
  for (const { pluginId, namespaces } of removed) {
    const own = new Map(left.get(pluginId));
    for (const namespace of namespaces) own.delete(namespace);
    left = withPlugin(left, pluginId, own);
  }
  return left;
};

const withPlugin = (
  state: SessionExtensions,
  pluginId: string,
  own: ReadonlyMap<string, Sealed>,
): SessionExtensions => {
  const next = new Map(state);
  if (own.size === 0) next.delete(pluginId);
  else next.set(pluginId, own);
  return next;
};

/** Keeps a value for a plugin, or no longer. What is not there needs no unsetting. */
export const decidePatch = (state: SessionExtensions, patch: ExtensionPatched): readonly NewEvent[] => {
  const isThere = state.get(patch.pluginId)?.has(patch.namespace) === true;
  if (patch.value === null && !isThere) return [];
  return [{ type: 'extension.patched', pluginId: patch.pluginId, data: asData(patch) }];
};

/** What a cleanup is about. */
export interface Cleanup {
  readonly cause: CleanupCause;
  /** Null: of every plugin. */
  readonly pluginId: string | null;
  /** Plugins that are to be called. */
  readonly calls: readonly string[];
  readonly asOf?: string;
  readonly causedBy?: string;
}

/**
 * Takes out what plugins keep, and orders their cleanup to be called. A restart takes nothing out: what is promoted to a
 * slot is read off the registrations in force. Nothing to do is no event.
 */
export const decideCleanup = (
  state: SessionExtensions,
  { cause, pluginId, calls, asOf, causedBy }: Cleanup,
): readonly NewEvent[] => {
  const gone = cause === 'restart' ? [] : [...state].filter(([id]) => pluginId === null || id === pluginId);
  if (gone.length === 0 && calls.length === 0) return [];
  const data: ExtensionCleaned = {
    cause,
    removed: gone.map(([id, own]) => ({ pluginId: id, namespaces: [...own.keys()] })),
    calls,
    ...(asOf === undefined ? {} : { asOf }),
    ...(causedBy === undefined ? {} : { causedBy }),
  };
  return [{ type: 'extension.cleaned', data: asData(data) }];
};
