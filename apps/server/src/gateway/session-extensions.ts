import { Inject, Injectable } from '@nestjs/common';
import { extensionsOf, fitsJsonLimits, lifecyclesOf, type OwnExtension } from '#dialects';
import type { EventStore } from '#event-store';
import { projectState } from '#firing';
import { evolveExtensions, noExtensions, type SessionExtensions as Kept } from '#lifecycles';
import { EVENT_STORE, SANDBOX, SEALING } from '#platform';
import { inOrder, type PluginSet } from '#plugins';
import { extensionStream, parseJson, type Json, type PluginSnapshot, type Sealed } from '#record';
import type { Sandbox } from '#sandbox';
import type { Sealing } from '#sealing';
import { ActivePlugins, type ActiveSet } from '../control/plugins/active-plugins.js';
import { FoldedStreams, type Folded } from './folded-streams.js';
import { newId } from './new-id.js';

/** A session extension in force, with what the session keeps for it. */
export interface SessionExtension {
  readonly extension: OwnExtension;
  /** Null: nothing. */
  readonly value: Sealed | null;
  /** What its projector makes of it, JSON text; null: nothing. */
  readonly projection: string | null;
}

/** What plugins keep in sessions (openclaw.md §15). */
@Injectable()
export class SessionExtensions {
  private readonly states: FoldedStreams<Kept>;

  constructor(
    @Inject(EVENT_STORE) store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(SANDBOX) private readonly sandbox: Sandbox,
    private readonly plugins: ActivePlugins,
  ) {
    this.states = new FoldedStreams<Kept>(store, { initial: noExtensions, evolve: evolveExtensions });
  }

  kept(account: string, sessionId: string): Promise<Folded<Kept>> {
    return this.states.read(account, extensionStream(sessionId));
  }

  /** Extensions of the plugins that are in force now, in load order. */
  async inForce(account: string): Promise<readonly OwnExtension[]> {
    return extensionsOf(registering((await this.plugins.current(account)).set));
  }

  /** What a session, by the first of its names that knows it, keeps for plugins that ask: by plugin, JSON by namespace. */
  async keptFor(
    account: string,
    named: () => readonly string[],
    plugins: readonly PluginSnapshot[],
  ): Promise<ReadonlyMap<string, readonly (readonly [namespace: string, json: string])[]>> {
    const extensions = extensionsOf(plugins.map(claims));
    if (extensions.length === 0) return new Map();
    const states = await Promise.all(named().map((session) => this.kept(account, session)));
    const found = new Map<string, (readonly [string, string])[]>();
    for (const { pluginId, namespace } of extensions) {
      const sealed = states.map(({ state }) => state.get(pluginId)?.get(namespace)).find((one) => one !== undefined);
      const opened = sealed === undefined ? null : await this.sealing.openText(account, sealed);
      if (opened?.kind !== 'open') continue;
      found.set(pluginId, [...(found.get(pluginId) ?? []), [namespace, opened.text]]);
    }
    return found;
  }

  /** Everything that a session keeps for plugins which keep state of their own: by plugin, JSON by key. */
  async stateOf(
    account: string,
    session: string,
    plugins: readonly PluginSnapshot[],
  ): Promise<ReadonlyMap<string, readonly (readonly [key: string, json: string])[]>> {
    if (plugins.length === 0) return new Map();
    const { state } = await this.kept(account, session);
    const found = new Map<string, (readonly [string, string])[]>();
    for (const { id } of plugins) {
      const list: (readonly [string, string])[] = [];
      for (const [key, sealed] of state.get(id) ?? []) {
        const opened = await this.sealing.openText(account, sealed);
        if (opened.kind === 'open') list.push([key, opened.text]);
      }
      found.set(id, list);
    }
    return found;
  }

  /** The extensions of a session, each with what its projector makes of what is kept for it. */
  async view(account: string, sessionId: string): Promise<Folded<readonly SessionExtension[]>> {
    const { state, version } = await this.kept(account, sessionId);
    const active = await this.plugins.current(account);
    const items: SessionExtension[] = [];
    for (const extension of extensionsOf(registering(active.set))) {
      const value = state.get(extension.pluginId)?.get(extension.namespace) ?? null;
      items.push({
        extension,
        value,
        projection: await this.project(active, { account, sessionId, extension, value }),
      });
    }
    return { state: items, version };
  }

  /** Errors, promises, and what is not JSON within limits are dropped in silence, as the real host does. */
  private async project(
    active: ActiveSet,
    asked: {
      readonly account: string;
      readonly sessionId: string;
      readonly extension: OwnExtension;
      readonly value: Sealed | null;
    },
  ): Promise<string | null> {
    const { account, sessionId, extension, value } = asked;
    const opened = value === null ? null : await this.sealing.openText(account, value);
    const text = opened?.kind === 'open' ? opened.text : null;
    const { projects, handler, pluginId } = extension;
    if (!projects || handler === null) return text;
    const plugin = active.set.plugins.get(pluginId);
    const realm = plugin === undefined ? null : await active.realmFor(plugin);
    if (realm?.kind !== 'ready') return null;
    const context = { sessionKey: sessionId, ...(text === null ? {} : { state: JSON.parse(text) as Json }) };
    const made = await projectState(this.sandbox, { account, realm: realm.realm, id: newId(), handler, context });
    return made === null ? null : withinLimits(made);
  }
}

/** A realm that was taken over says anything. */
const withinLimits = (text: string): string | null => {
  try {
    const value = parseJson(text) as unknown;
    return fitsJsonLimits(value) ? JSON.stringify(value) : null;
  } catch {
    return null;
  }
};

const claims = ({ id, findings }: PluginSnapshot) => ({ id, registrations: findings.registrations });

const registering = (set: PluginSet) =>
  inOrder(set)
    .filter(({ enabled, dialect }) => enabled && dialect === 'openclaw')
    .map(claims);

/** Of the plugins in force those that have a cleanup to be called, in load order. */
export const withCleanup = (set: PluginSet): readonly string[] => cleaning(registering(set));

/** Whether one plugin has a cleanup to be called. */
export const hasCleanup = (plugin: PluginSnapshot): boolean => cleaning([claims(plugin)]).length > 0;

const cleaning = (plugins: ReturnType<typeof registering>): readonly string[] => {
  const extensions = extensionsOf(plugins).filter(({ cleans }) => cleans);
  const named = new Set([...extensions, ...lifecyclesOf(plugins)].map(({ pluginId }) => pluginId));
  return plugins.map(({ id }) => id).filter((id) => named.has(id));
};
