import type { FieldRules } from './fold.js';

/** A hook point as the engine sees it: data, no names. */
export interface Point {
  readonly mode: Mode;
  /** A handler can stop the operation here; without it neither a cancel nor a failure does. */
  readonly cancellable: boolean;
  /** The dialect's own rule: a handler that ran and did not decide cancels, whatever the plugin's `failureMode`. */
  readonly failsClosed: boolean;
  /** Handlers can change something here. Where they cannot, the outcome is `observed`, never `passed`. */
  readonly rewritable: boolean;
}

export type Mode =
  /** One after another, each with the value the one before left (MW-20, MW-21; Kohaku's pre and post hooks). */
  | { readonly kind: 'waterfall' }
  | MergeMode
  /** One after another; the first claim ends the chain. */
  | { readonly kind: 'first-claim' }
  /** Nothing comes back. `sequential`: one after another; `together`: all started in order, then all awaited. */
  | { readonly kind: 'observe'; readonly start: 'sequential' | 'together' }
  /** Everyone is asked, also after a veto; any veto cancels, the first one in chain order is named. */
  | { readonly kind: 'vote' }
  /** All started together; one attributed outcome each. */
  | { readonly kind: 'evaluate' };

/**
 * One after another; every handler sees the same value, and what they contribute is folded field by field. Prompt
 * contributions and visibility are merges too (`join`, `intersect`).
 */
export interface MergeMode {
  readonly kind: 'merge';
  readonly fields: FieldRules;
  /** Rule of fields that `fields` does not name; null drops them. */
  readonly others: FieldRules[string] | null;
  /**
   * The exceptions that chain: contributed field -> field of the value that the handlers after it see. Null: all see
   * the same.
   */
  readonly chained: { readonly [field: string]: string } | null;
  /** Tested on the folded result after each contribution; true ends the chain. */
  readonly terminal: Condition | null;
  /** What the folded result means. A cancel wins over a hold, wherever either came from. */
  readonly cancels: { readonly when: Condition; readonly reasonField: string | null } | null;
  /** Field whose presence holds the operation; its value is the request. */
  readonly holds: string | null;
  /** Fields that steer and change nothing (block, reason, approval): alone they make no rewrite. */
  readonly controls: readonly string[];
}

/** A test of one field of a folded result. */
export type Condition =
  | { readonly field: string; readonly is: 'true' | 'truthy' | 'defined' }
  | { readonly field: string; readonly equals: string };
