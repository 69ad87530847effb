/** One plugin's place in a chain, as far as the engine cares. */
export interface Link {
  readonly pluginId: string;
  /** `observe`: it runs, its verdict is recorded as `wouldHave`, the chain goes on with the value it had. */
  readonly mode: 'enforce' | 'observe';
  /** `closed`: a handler that did not decide cancels the operation, where the point can be cancelled. */
  readonly failureMode: 'open' | 'closed';
}

/** What one handler gave. `V` is the value that the point passes on. */
export type Verdict<V> =
  | { readonly kind: 'passed' }
  | { readonly kind: 'rewrote'; readonly value: V; readonly changed: readonly string[] }
  | { readonly kind: 'cancelled'; readonly reason: string | null; readonly code: string | null }
  | { readonly kind: 'observed' }
  | { readonly kind: 'claimed'; readonly value: unknown }
  | { readonly kind: 'held'; readonly request: unknown }
  /** A merge point: what this handler adds to the collected result. */
  | { readonly kind: 'contributed'; readonly value: unknown; readonly changed: readonly string[] }
  | { readonly kind: 'skipped'; readonly cause: 'threw' | 'timed_out' | 'malformed' | 'crashed' }
  | { readonly kind: 'not_run'; readonly cause: 'not_loaded' | 'not_applicable' | 'after_cancel' };

/** A warning in the words of the dialect (MW-54). `detail` is content. */
export interface Warning {
  readonly code: string;
  readonly detail: string | null;
}

/** An answer to "what does this plugin say to this value?" */
export interface Said<V> {
  readonly verdict: Verdict<V>;
  readonly warnings: readonly Warning[];
  readonly durationMs: number;
}

export type Ask<L extends Link, V> = (link: L, value: V, index: number) => Promise<Said<V>>;

/** One handler's place in the decision, in chain order. */
export interface Step<L extends Link, V> {
  readonly link: L;
  readonly index: number;
  readonly input: V;
  readonly output: V;
  readonly verdict: Verdict<V>;
  /** Mode `observe`: the verdict it would have had; `verdict` is then `observed`, `skipped` or `not_run`. */
  readonly wouldHave: Verdict<V> | null;
  readonly warnings: readonly Warning[];
  readonly durationMs: number;
}

/**
 * Called by `runChain` with every step as soon as it is decided, in chain order and before the next `ask` (the firing
 * makes the events of earlier handlers durable before a later handler's host call has an effect, events.md §2).
 */
export type OnStep<L extends Link, V> = (step: Step<L, V>) => void;
