import type { JsonObject } from './json.js';
import type { Sealed } from './event.js';

/** What a load in the sandbox found out about a source. */
export interface LoadFindings {
  readonly hooks: readonly string[];
  readonly gated: readonly string[];
  readonly requestedPermissions: readonly string[];
  readonly warnings: readonly { readonly code: string; readonly detail?: string }[];
  /** Registration facts a dialect needs to order and run (priorities, options), JSON. */
  readonly registrations: JsonObject;
}

/** A version's code as stored: the source that was sent, and what runs. */
export interface StoredCode {
  readonly language: 'javascript' | 'typescript' | 'python';
  /** `{ "source": text }` or `{ "files": {path: text}, "entry": path }`, sealed. */
  readonly source: Sealed;
  readonly sourceDigest: string;
  /** Compiled JavaScript (or Python source), sealed; equal to the source where nothing was compiled. */
  readonly compiled: Sealed;
  readonly compiledDigest: string;
  readonly compiler: string | null;
}

/**
 * A plugin's whole state after a change. Every `plugin.*` change event carries `before` (null at install) and
 * `after`, so that one event alone answers "what changed".
 */
export interface PluginSnapshot {
  readonly id: string;
  readonly name: string;
  readonly dialect: 'middleware' | 'openclaw' | 'kohaku';
  readonly version: string;
  readonly revision: number;
  readonly enabled: boolean;
  readonly priority: number | null;
  readonly failureMode: 'open' | 'closed';
  readonly mode: 'enforce' | 'observe';
  readonly isolation: 'warm' | 'fresh';
  readonly timeouts: { readonly timeoutMs?: number; readonly hooks?: { readonly [hook: string]: number } };
  readonly permissions: readonly string[];
  readonly config: Sealed;
  readonly configDigest: string;
  readonly configSchema: Sealed | null;
  readonly code: StoredCode;
  readonly findings: LoadFindings;
}

/** `data` of every `plugin.*` change event but `order_changed`. */
export interface PluginChanged {
  readonly before: PluginSnapshot | null;
  readonly after: PluginSnapshot | null;
  readonly changed: readonly string[];
  readonly reason: Sealed | null;
  readonly weakensEnforcement: boolean;
  /** `plugin.rolled_back`: the revision whose code and settings came back. */
  readonly toRevision?: number;
}

/** `data` of `plugin.order_changed` on stream `plugins`. */
export interface PluginOrderChanged {
  readonly before: readonly string[];
  readonly after: readonly string[];
  readonly reason: Sealed | null;
  readonly weakensEnforcement: boolean;
}

/** Stream of one plugin. */
export const pluginStream = (pluginId: string): string => `plugin/${pluginId}`;

/** Stream of the account's plugin order. */
export const pluginOrderStream = 'plugins';
