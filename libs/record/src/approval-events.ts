import type { Sealed } from './event.js';

/** `data` of the events of streams `approval/{id}` and `grant/{id}`. */

export type ApprovalDecision = 'allow-once' | 'allow-always' | 'deny';

export interface ApprovalRequested {
  readonly approvalId: string;
  readonly title: Sealed;
  readonly description: Sealed;
  /** For reviewers only. */
  readonly detail?: Sealed;
  /** What it is about, for display alone. */
  readonly scope?: Sealed;
  /** The final parameters, to which a decision is bound. */
  readonly parameters: Sealed;
  /** HMAC of their canonical JSON under a key of the account. */
  readonly parametersDigest: string;
  readonly severity: 'info' | 'warning' | 'critical';
  readonly allowedDecisions: readonly ApprovalDecision[];
  readonly timeoutMs: number;
  readonly timeoutBehavior: 'allow' | 'deny';
  readonly timeoutReason?: Sealed;
  readonly expiresAt: string;
  readonly toolName: string | null;
  /** A trusted policy asked: the ordinary handlers run once it is allowed. */
  readonly byPolicy: boolean;
  /** Whether `allow-always` is remembered. */
  readonly grantable: boolean;
  /** Names who is told in the plugin's realm, and the process that has that realm. */
  readonly ticket?: string;
  readonly instance?: string;
  /** The approval whose parameters were changed after it was given. */
  readonly renews?: string;
}

export interface ApprovalDecided {
  readonly approvalId: string;
  readonly decision: ApprovalDecision;
  readonly reason: Sealed | null;
  readonly parametersDigest: string;
  /** The grant that decided. */
  readonly grantId?: string;
}

/**
 * Why nobody decides. `aborted`: the run that waited is over; `report`, `deny`, `unavailable`: the caller's mode;
 * `rejected`: it cannot be put to anybody; `erased`: what was asked for was erased.
 */
export type CancelCause = 'aborted' | 'report' | 'deny' | 'unavailable' | 'rejected' | 'erased';

export interface ApprovalCancelled {
  readonly approvalId: string;
  readonly cause: CancelCause;
  readonly reason?: Sealed;
}

/** What a grant allows: one plugin's wish for one tool with exactly these parameters. */
export interface GrantScope {
  readonly pluginId: string;
  readonly toolName: string | null;
  readonly parametersDigest: string;
}

export interface GrantCreated {
  readonly grantId: string;
  readonly approvalId: string;
  readonly scope: GrantScope;
  readonly expiresAt?: string | null;
}

/** `data` of `invocation.held`. */
export interface InvocationHeld {
  readonly approvalId: string;
  /** What the chain came to so far, to go on from. */
  readonly state: Sealed;
}

export const approvalStream = (approvalId: string): string => `approval/${approvalId}`;

export const grantStream = (grantId: string): string => `grant/${grantId}`;
