import type { PluginSet } from '#plugins';
import type { Json, PluginSnapshot } from '#record';
import type { Realm } from '#sandbox';

/** A plugin revision opened and ready for the sandbox. */
export interface ReadyRealm {
  readonly kind: 'ready';
  /** What runs: the compiled text. */
  readonly code: string;
  /** The configuration with its `{ "$secret": name }` references resolved. Never leaves for a record or a log. */
  readonly config: Json;
  readonly permissions: readonly string[];
  /** Changes whenever code, configuration, a secret it refers to, or permissions change. */
  readonly digest: string;
  /** All of it as the sandbox takes it, the dialect's guest program and setup included. */
  readonly realm: Realm;
}

/** The plugin cannot run: its handlers are `not_loaded`. `message` names no content. */
export interface UnreadyRealm {
  readonly kind: 'not_loaded';
  readonly message: string;
}

/** The plugins of one account that are in force, as of `position`. A value that never changes. */
export interface ActiveSet {
  /** Last account position that was folded; -1 before the first event. */
  readonly position: bigint;
  readonly set: PluginSet;
  /** Opens the plugin's code and configuration once per revision, then answers from memory. */
  realmFor(plugin: PluginSnapshot): Promise<ReadyRealm | UnreadyRealm>;
  /** What `realmFor` gave, if it was asked before; lets the hot path stay synchronous. */
  readyRealm(plugin: PluginSnapshot): ReadyRealm | null;
}

/**
 * The plugin sets of all accounts as the gateway runs them: loaded when first asked for, kept current by following the
 * log. A change is in force on this process as soon as it is committed here, on others within a second.
 */
export abstract class ActivePlugins {
  /** The set in force now. Rejects with `LogUnavailable` when it was never loaded and the log cannot be read. */
  abstract get(account: string): Promise<ActiveSet>;
  /** The set as the log has it now, whichever replica changed it last. */
  abstract current(account: string): Promise<ActiveSet>;
  /** The set as it was at an account position, for `chainOf`. */
  abstract at(account: string, position: bigint): Promise<ActiveSet>;
  /** Takes in what was committed before this call; what a command does after its append. */
  abstract refresh(account: string): Promise<void>;
}
