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
  | {
      readonly kind: 'contributed';
      readonly value: unknown;
      readonly changed: readonly string[];
      /** What this contribution is by itself, in the words that records and answers use; absent: `contributed`. */
      readonly as?: 'passed' | 'rewrote' | 'cancelled' | 'held';
    }
  | { readonly kind: 'skipped'; readonly cause: 'threw' | 'timed_out' | 'malformed' | 'crashed' }
  /** `after_cancel`: the chain had ended before its turn, by a cancel, a claim or a terminal result. */
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
  /** What the dialect knows of it besides; handed through. */
  readonly more?: unknown;
}

/**
 * Asks one plugin. Whatever a plugin does is a verdict; a rejection means that nobody can be asked any more (the
 * platform itself failed) and ends `runChain` with it.
 */
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
  readonly more?: unknown;
}

export interface Cancellation {
  readonly pluginId: string;
  readonly reason: string | null;
  readonly code: string | null;
}

/** What a chain came to. */
export interface Decision<L extends Link, V> {
  readonly outcome: 'passed' | 'rewritten' | 'cancelled' | 'observed' | 'claimed' | 'held';
  /** What goes on; null when cancelled (MW-22: earlier rewrites are discarded, the steps keep them). */
  readonly value: V | null;
  readonly cancellation: Cancellation | null;
  /** The first request that holds the operation; only with outcome `held`. */
  readonly hold: { readonly pluginId: string; readonly request: unknown } | null;
  /** Merge: the folded result. First claim: the claim. Evaluate: one attributed outcome each. Else null. */
  readonly collected: unknown;
  /** Every link, in chain order. */
  readonly steps: readonly Step<L, V>[];
  /** Handler runs that started (MW-55). */
  readonly metered: number;
  /** Of a chain that ran in stages: what each came to, in order; null for one that did not run. */
  readonly stages?: readonly (Decision<L, V> | null)[];
}

/** The code under which a handler that did not decide cancels. */
export const pluginFailed = 'plugin_failed';
