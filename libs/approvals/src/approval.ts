import {
  asData,
  type ApprovalCancelled,
  type ApprovalDecided,
  type ApprovalDecision,
  type ApprovalRequested,
  type CancelCause,
  type EventType,
  type NewEvent,
  type RecordedEvent,
  type Sealed,
} from '#record';

/** How an approval ended. */
export type ApprovalEnding =
  | { readonly kind: 'decided'; readonly decision: ApprovalDecision; readonly grantId: string | null }
  | { readonly kind: 'timed_out' }
  | { readonly kind: 'cancelled'; readonly cause: CancelCause };

/**
 * What may happen to one approval: pure, over the events of its own stream. It ends once, by a decision, by its time,
 * or because nobody waits for it any more; and what the plugin was told of it is noted once.
 */
export interface Approval {
  readonly requested: ApprovalRequested | null;
  /** Null while it is pending. */
  readonly ending: ApprovalEnding | null;
  /** Whether it is on record that the plugin was told, or could not be. */
  readonly told: boolean;
}

export const unknownApproval: Approval = { requested: null, ending: null, told: false };

/** The event types that end an approval. */
export const approvalEndings: readonly EventType[] = ['approval.decided', 'approval.timed_out', 'approval.cancelled'];

/** The approval after one of its events. */
export const evolveApproval = (
  approval: Approval,
  { type, data }: Pick<NewEvent | RecordedEvent, 'type' | 'data'>,
): Approval => {
  switch (type) {
    case 'approval.requested':
      return { ...approval, requested: data as unknown as ApprovalRequested };
    case 'approval.decided': {
      const { decision, grantId = null } = data as unknown as ApprovalDecided;
      return { ...approval, ending: { kind: 'decided', decision, grantId } };
    }
    case 'approval.timed_out':
      return { ...approval, ending: { kind: 'timed_out' } };
    case 'approval.cancelled':
      return { ...approval, ending: { kind: 'cancelled', cause: (data as unknown as ApprovalCancelled).cause } };
    case 'approval.resolution_delivered':
    case 'approval.resolution_undeliverable':
      return { ...approval, told: true };
    default:
      return approval;
  }
};

/** What a person answers. */
export interface GivenDecision {
  readonly decision: ApprovalDecision;
  readonly reason: Sealed | null;
  /** HMAC of the parameters that the person saw, where they say it. */
  readonly parametersDigest: string | null;
}

/** Why a decision is not taken; the approval is as it was. */
export type DecisionRefusal =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'ended'; readonly ending: ApprovalEnding }
  | { readonly kind: 'not_offered'; readonly allowed: readonly ApprovalDecision[] }
  /** Its time is up; that it is over is only not written yet. */
  | { readonly kind: 'expired' }
  /** The decision is for other parameters than these. */
  | { readonly kind: 'other_parameters'; readonly expected: string };

/** `approval.decided`, or why not (openclaw.md §8: a decision that was not offered leaves it pending). */
export const decideApproval = (
  { requested, ending }: Approval,
  given: GivenDecision,
  now: Date,
): { readonly kind: 'events'; readonly events: readonly NewEvent[] } | DecisionRefusal => {
  if (requested === null) return { kind: 'unknown' };
  if (ending !== null) return { kind: 'ended', ending };
  if (now.getTime() >= Date.parse(requested.expiresAt)) return { kind: 'expired' };
  if (!requested.allowedDecisions.includes(given.decision)) {
    return { kind: 'not_offered', allowed: requested.allowedDecisions };
  }
  const { approvalId, parametersDigest } = requested;
  if (given.parametersDigest !== null && given.parametersDigest !== parametersDigest) {
    return { kind: 'other_parameters', expected: parametersDigest };
  }
  const { decision, reason } = given;
  const decided: ApprovalDecided = { approvalId, decision, reason, parametersDigest };
  return { kind: 'events', events: [{ type: 'approval.decided', data: asData(decided) }] };
};

/** `approval.timed_out` for one whose time is up and that is still pending; else nothing. */
export const decideApprovalTimeout = ({ requested, ending }: Approval, now: Date): readonly NewEvent[] => {
  if (requested === null || ending !== null || now.getTime() < Date.parse(requested.expiresAt)) return [];
  const { approvalId, timeoutBehavior: behavior } = requested;
  return [{ type: 'approval.timed_out', data: { approvalId, behavior } }];
};

/** `approval.cancelled` for one that is still pending; else nothing. */
export const decideApprovalCancel = ({ requested, ending }: Approval, cause: CancelCause): readonly NewEvent[] => {
  if (requested === null || ending !== null) return [];
  return [{ type: 'approval.cancelled', data: { approvalId: requested.approvalId, cause } }];
};

/** What became of telling the plugin; nothing for one that has not ended, or of which it stands already. */
export const decideTold = (
  { requested, ending, told }: Approval,
  decision: string,
  undeliverable: string | null,
): readonly NewEvent[] => {
  if (requested === null || ending === null || told) return [];
  const { approvalId } = requested;
  return undeliverable === null
    ? [{ type: 'approval.resolution_delivered', data: { approvalId, decision } }]
    : [{ type: 'approval.resolution_undeliverable', data: { approvalId, decision, cause: undeliverable } }];
};
