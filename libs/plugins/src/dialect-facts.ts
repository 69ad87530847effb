import type { PluginSnapshot } from '#record';

/** What a plugin's decisions need to know of its dialect; a `Dialect` of `#dialects` has this shape. */
export interface DialectFacts {
  readonly entries: ReadonlyMap<string, { readonly cancellable: boolean; readonly defaultTimeoutMs: number }>;
  readonly timeoutBounds: { readonly min: number; readonly max: number };
}

/** A fault in what a command asks: JSON Pointer and the mend. */
export interface PluginFault {
  readonly pointer: string;
  readonly reason: string;
}

type Limits = PluginSnapshot['timeouts'];

/** The time a handler of this hook has, ms: what is set for the plugin, what it wrote itself, the account, the dialect. */
export const timeoutOf = (
  timeouts: Limits,
  hook: string,
  facts: DialectFacts,
  ofAccount: number | null = null,
  written: number | null = null,
): number =>
  ownTimeout(timeouts, hook) ??
  written ??
  ofAccount ??
  facts.entries.get(hook)?.defaultTimeoutMs ??
  facts.timeoutBounds.max;

/** The limit that a plugin itself names for a hook, ms: for that hook, else for all; null where it names none. */
const ownTimeout = ({ hooks, timeoutMs }: Limits, hook: string): number | null => {
  const own = hooks !== undefined && Object.hasOwn(hooks, hook) ? hooks[hook] : undefined;
  return own ?? timeoutMs ?? null;
};

/** Whether a handler of this plugin can veto an operation. */
export const canCancel = (hooks: readonly string[], facts: DialectFacts): boolean =>
  hooks.some((hook) => facts.entries.get(hook)?.cancellable === true);

/** Faults of the time limits: whole milliseconds within the dialect's bounds, for hooks that exist. */
export const timeoutFaults = (timeouts: Limits, facts: DialectFacts): readonly PluginFault[] => {
  const { min, max } = facts.timeoutBounds;
  const fits = (ms: number): boolean => Number.isInteger(ms) && ms >= min && ms <= max;
  const words = `must be a whole number of milliseconds from ${String(min)} to ${String(max)}`;
  const faults: PluginFault[] = [];
  if (timeouts.timeoutMs !== undefined && !fits(timeouts.timeoutMs))
    faults.push({ pointer: '/timeouts/timeoutMs', reason: words });
  for (const [hook, ms] of Object.entries(timeouts.hooks ?? {})) {
    const pointer = `/timeouts/hooks/${escapePointer(hook)}`;
    if (!facts.entries.has(hook)) faults.push({ pointer, reason: 'names a hook that this dialect does not have' });
    else if (!fits(ms)) faults.push({ pointer, reason: words });
  }
  return faults;
};

/** RFC 6901 §3. */
export const escapePointer = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1');
