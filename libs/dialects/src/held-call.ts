import type { Decision, Link } from '#hooks';
import type { ApprovalDecision, Json, JsonObject } from '#record';

/** What `onResolution` is told. */
export type ApprovalResolution = ApprovalDecision | 'timeout' | 'cancelled';

/** An approval that a plugin asked for, with its limits in force (openclaw.md §8). */
export interface ApprovalTerms {
  readonly pluginId: string;
  readonly title: string;
  readonly description: string;
  /** For reviewers only. */
  readonly detail: string | null;
  /** What it is about, for display alone: where a message goes, what is paid. */
  readonly scope: JsonObject | null;
  readonly severity: 'info' | 'warning' | 'critical';
  readonly timeoutMs: number;
  /** What the end of the time means; 2026.9 knows only `deny`. */
  readonly timeoutBehavior: 'allow' | 'deny';
  /** Makes the end of the time a veto with this text. */
  readonly timeoutReason: string | null;
  readonly allowedDecisions: readonly ApprovalDecision[];
  /** Names the plugin's `onResolution` in its realm; null: it has none. */
  readonly ticket: string | null;
}

export type ReadApproval =
  | { readonly kind: 'approval'; readonly terms: ApprovalTerms }
  /** It cannot be put to anybody: the call is blocked, and `onResolution` is told `cancelled`. */
  | { readonly kind: 'unusable'; readonly reason: string; readonly terms: Pick<ApprovalTerms, 'pluginId' | 'ticket'> };

/** How an approval came to its end. */
export type ApprovalEnd =
  | { readonly kind: 'decided'; readonly decision: ApprovalDecision }
  | { readonly kind: 'unanswered' }
  /** The run that waited is over. */
  | { readonly kind: 'aborted' }
  /** Nobody could be asked. */
  | { readonly kind: 'unavailable'; readonly reason: string };

/** Whether a tool call may go on, with which parameters, and why not (openclaw.md §6). */
export interface GateOutcome {
  readonly blocked: boolean;
  /** `veto`: somebody said no. `failure`: nobody said yes. Null: it may go on. */
  readonly kind: 'veto' | 'failure' | null;
  readonly disposition?: 'blocked' | 'failed' | 'timed_out' | 'cancelled';
  readonly deniedReason?: 'plugin-before-tool-call' | 'plugin-approval' | 'plugin-approval-unavailable';
  readonly reason: string | null;
  readonly params: Json;
  readonly approvalResolution?: ApprovalResolution;
}

/** A call that waits for an approval. Until it ends the call is blocked. */
export interface HeldCall {
  /** A trusted policy asked: the ordinary handlers have not run yet. */
  readonly byPolicy: boolean;
  readonly request: Json;
  /** What the call has if nobody allows it. */
  readonly base: Json;
  /** Laid over it once it is allowed; null: nothing is. */
  readonly override: Json;
}

/** How a caller has approvals dealt with: `ask` somebody, or nobody (openclaw.md §8). */
export const approvalModes = ['ask', 'report', 'deny', 'unavailable'] as const;

export type ApprovalMode = (typeof approvalModes)[number];

/** What a dialect knows of chains that wait for a person. */
export interface DialectApprovals {
  /** Whether the account's `approvalGrants` and `strictApprovals` count. */
  readonly followsSettings: boolean;
  /** What a decided chain waits for; null: nothing. `input` is what handlers got. */
  held(hook: string, decision: Decision<Link, Json>, input: JsonObject): HeldCall | null;
  read(request: Json): ReadApproval;
  /** The parameters that a call has once it is allowed. */
  allowedParams(call: HeldCall): Json;
  /** What a call comes to when its approval ends. */
  after(call: HeldCall, end: ApprovalEnd): GateOutcome;
  /** What it comes to when nobody is asked; `told`: what the plugin hears. */
  unasked(call: HeldCall, mode: 'report' | 'deny'): { readonly gate: GateOutcome; readonly told: ApprovalResolution };
  /** How approvals of this call are dealt with where the caller does not say. */
  modeFor(input: JsonObject): ApprovalMode;
  /** The hook's own arguments with other parameters, to go on with. */
  withParams(input: JsonObject, params: Json): JsonObject;
  paramsOf(input: JsonObject): Json;
}
