import type { Sealed } from './event.js';

/** `data` of the events of streams `session/{id}/injections` and `session/{id}/extensions`. */

/** An injection that waits, or waited, for a session's next turn: `data` of `injection.enqueued`. */
export interface QueuedInjection<C = Sealed> {
  readonly injectionId: string;
  readonly pluginId: string;
  /** HMAC of the plugin's idempotency key; null: it gave none. */
  readonly keyDigest: string | null;
  readonly placement: 'prepend_context' | 'append_context';
  /** Null: it never expires. */
  readonly ttlMs: number | null;
  readonly createdAt: string;
  /** Text, idempotency key and metadata. */
  readonly content: C;
}

export interface InjectionDrained<C = Sealed> {
  readonly injections: readonly QueuedInjection<C>[];
  readonly by: 'firing' | 'runtime';
  /** Names the run, which gets the same again. */
  readonly run?: string;
  readonly firedBy?: string;
}

export interface InjectionExpired {
  readonly injectionIds: readonly string[];
}

/** Why a session's plugin state goes (openclaw.md §15). */
export type CleanupCause = 'reset' | 'delete' | 'disable' | 'restart';

export interface InjectionDropped {
  readonly injectionIds: readonly string[];
  readonly cause: 'not_loaded' | 'not_allowed' | 'erased' | Exclude<CleanupCause, 'restart'>;
}

export interface ExtensionPatched {
  readonly pluginId: string;
  readonly namespace: string;
  /** Null: it was unset. */
  readonly value: Sealed | null;
}

export interface ExtensionCleaned {
  readonly cause: CleanupCause;
  readonly removed: readonly { readonly pluginId: string; readonly namespaces: readonly string[] }[];
  /** Plugins whose cleanup is called next. */
  readonly calls: readonly string[];
  /** Account position at which their code was in force; absent: that of this event. */
  readonly asOf?: string;
  readonly causedBy?: string;
}

/** How one callback of a cleanup ended. */
export interface CleanupCall {
  readonly pluginId: string;
  readonly kind: 'extension' | 'lifecycle';
  readonly name: string;
  readonly outcome: 'done' | 'failed' | 'timed_out' | 'not_loaded';
  readonly error: Sealed | null;
  readonly durationMs: number;
}

export interface ExtensionCleanupCalled {
  readonly cause: CleanupCause;
  readonly order: string;
  readonly calls: readonly CleanupCall[];
}

/** What waits for a session's next turn. A session's name may hold anything, the last word tells streams apart. */
export const injectionStream = (sessionId: string): string => `session/${sessionId}/injections`;

/** What plugins keep in a session. */
export const extensionStream = (sessionId: string): string => `session/${sessionId}/extensions`;

/** Cleanups of a plugin that are no one session's. */
export const pluginCleanupStream = (pluginId: string): string => `plugin-cleanups/${pluginId}`;
