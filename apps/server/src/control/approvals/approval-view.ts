import { evolveApproval, unknownApproval } from '#approvals';
import {
  type Actor,
  type ApprovalCancelled,
  type ApprovalDecided,
  type ApprovalRequested,
  type GrantCreated,
  type GrantScope,
  type RecordedEvent,
  type Sealed,
} from '#record';

/** An approval as people see it; texts and parameters are content. */
export interface ApprovalView {
  readonly id: string;
  readonly state: 'pending' | 'decided' | 'timed_out' | 'cancelled';
  readonly invocationId: string | null;
  readonly sessionId: string | null;
  readonly turnId: string | null;
  readonly agentId: string | null;
  readonly dialect: string | null;
  readonly hook: string | null;
  readonly pluginId: string | null;
  readonly toolName: string | null;
  readonly byPolicy: boolean;
  readonly title: Sealed;
  readonly description: Sealed;
  readonly detail: Sealed | null;
  readonly scope: Sealed | null;
  readonly severity: ApprovalRequested['severity'];
  /** What is approved, and the digest to which a decision is bound. */
  readonly parameters: Sealed;
  readonly parametersDigest: string;
  readonly allowedDecisions: ApprovalRequested['allowedDecisions'];
  /** Whether `allow-always` is remembered as a grant. */
  readonly grantable: boolean;
  readonly requestedAt: string;
  readonly requestedBy: Actor | null;
  readonly expiresAt: string;
  readonly timeoutBehavior: ApprovalRequested['timeoutBehavior'];
  readonly renews: string | null;
  readonly endedAt: string | null;
  readonly decision: ApprovalDecided['decision'] | null;
  readonly decidedBy: Actor | null;
  readonly reason: Sealed | null;
  readonly grantId: string | null;
  readonly cause: ApprovalCancelled['cause'] | null;
  /** What the plugin was told, and whether it could be; null while it was not. */
  readonly resolution: { readonly decision: string; readonly delivered: boolean; readonly cause: string | null } | null;
}

/** Reads an approval off its stream; null where the stream holds none. */
export const approvalView = (events: readonly RecordedEvent[]): ApprovalView | null => {
  const asked = events.find(({ type }) => type === 'approval.requested');
  const { requested, ending } = events.reduce(evolveApproval, unknownApproval);
  if (asked === undefined || requested === null) return null;
  const ended = events.find(({ type }) => endings.has(type));
  const decided = ending?.kind === 'decided' ? (ended?.data as unknown as ApprovalDecided) : null;
  return {
    id: requested.approvalId,
    state: ending?.kind ?? 'pending',
    invocationId: asked.invocationId ?? null,
    sessionId: asked.sessionId ?? null,
    turnId: asked.turnId ?? null,
    agentId: asked.agentId ?? null,
    dialect: asked.dialect ?? null,
    hook: asked.hook ?? null,
    pluginId: asked.pluginId ?? null,
    toolName: requested.toolName,
    byPolicy: requested.byPolicy,
    title: requested.title,
    description: requested.description,
    detail: requested.detail ?? null,
    scope: requested.scope ?? null,
    severity: requested.severity,
    parameters: requested.parameters,
    parametersDigest: requested.parametersDigest,
    allowedDecisions: requested.allowedDecisions,
    grantable: requested.grantable,
    requestedAt: asked.recordedAt,
    requestedBy: asked.actor ?? null,
    expiresAt: requested.expiresAt,
    timeoutBehavior: requested.timeoutBehavior,
    renews: requested.renews ?? null,
    endedAt: ended?.recordedAt ?? null,
    decision: decided?.decision ?? null,
    decidedBy: decided === null ? null : (ended?.actor ?? null),
    reason: decided?.reason ?? null,
    grantId: decided?.grantId ?? null,
    cause: ending?.kind === 'cancelled' ? ending.cause : null,
    resolution: resolutionIn(events),
  };
};

const endings = new Set(['approval.decided', 'approval.timed_out', 'approval.cancelled']);

const resolutionIn = (events: readonly RecordedEvent[]): ApprovalView['resolution'] => {
  const told = events.find(({ type }) => type.startsWith('approval.resolution_'));
  if (told === undefined) return null;
  const { decision, cause = null } = told.data as { readonly decision: string; readonly cause?: string };
  return { decision, delivered: told.type === 'approval.resolution_delivered', cause };
};

/** A grant as people see it. */
export interface GrantView extends GrantScope {
  readonly id: string;
  readonly inForce: boolean;
  readonly approvalId: string;
  readonly givenAt: string;
  readonly givenBy: Actor | null;
  readonly revokedAt: string | null;
  readonly revokedBy: Actor | null;
  readonly reason: Sealed | null;
  /** Calls that it let through. */
  readonly uses: number;
}

/** Reads a grant off its stream: as it was given last. Null where the stream holds none. */
export const grantView = (events: readonly RecordedEvent[], uses: number): GrantView | null => {
  const given = events.findLast(({ type }) => type === 'approval.grant_created');
  if (given === undefined) return null;
  const { grantId, approvalId, scope } = given.data as unknown as GrantCreated;
  const revoked = events.find(
    ({ type, streamVersion }) => type === 'approval.grant_revoked' && streamVersion > given.streamVersion,
  );
  return {
    id: grantId,
    inForce: revoked === undefined,
    ...scope,
    approvalId,
    givenAt: given.recordedAt,
    givenBy: given.actor ?? null,
    revokedAt: revoked?.recordedAt ?? null,
    revokedBy: revoked?.actor ?? null,
    reason: (revoked?.data as { readonly reason?: Sealed | null } | undefined)?.reason ?? null,
    uses,
  };
};
