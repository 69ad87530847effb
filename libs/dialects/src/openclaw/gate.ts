import type { Decision, Link } from '#hooks';
import { own } from '#hooks';
import type { Json, JsonObject } from '#record';
import { readApproval, resolutionOf } from './approvals.js';
import type { ApprovalEnd, ApprovalTerms, GateOutcome, HeldCall } from '../held-call.js';
import type { Version } from './catalogue.js';

export type Gate = { readonly kind: 'decided'; readonly outcome: GateOutcome } | ({ readonly kind: 'held' } & HeldCall);

/** The text of a call that was blocked because a handler did not decide; the real error is only recorded. */
export const gateFailure = 'Tool call blocked because before_tool_call hook failed';

/**
 * Reads a decision on `before_tool_call`. `stages`: what the policies decided, then the handlers; null where none ran.
 * `params` are those that the call came with.
 */
export const gateOf = (
  { stages, cancellation }: Pick<Decision<Link, Json>, 'stages' | 'cancellation'>,
  params: Json,
): Gate => {
  const [policies = null, handlers = null] = stages ?? [];
  const adjusted = adjustedBy(policies, params);
  if (policies?.outcome === 'cancelled')
    return refused(policies, params, 'Tool call blocked by trusted plugin policy', params);
  if (policies?.outcome === 'held') return held(policies, true, params);
  if (handlers?.outcome === 'cancelled') return refused(handlers, adjusted, 'Tool call blocked by plugin hook', params);
  if (handlers?.outcome === 'held') return held(handlers, false, adjusted);
  if (handlers === null && policies === null && cancellation !== null) return failure(params);
  const override = handlers === null ? undefined : (own(handlers.collected, 'params') as Json | undefined);
  return {
    kind: 'decided',
    outcome: { blocked: false, kind: null, reason: null, params: overlaid(adjusted, override) },
  };
};

/** The parameters as the policies left them. */
const adjustedBy = (policies: Decision<Link, Json> | null, params: Json): Json => {
  const adjusted = own(policies?.value, 'params');
  return adjusted === undefined ? params : (adjusted as Json);
};

const refused = (
  { cancellation }: Pick<Decision<Link, Json>, 'cancellation'>,
  adjusted: Json,
  words: string,
  original: Json,
): Gate => {
  if (cancellation?.code !== null) return failure(original);
  return {
    kind: 'decided',
    outcome: {
      blocked: true,
      kind: 'veto',
      deniedReason: 'plugin-before-tool-call',
      reason: cancellation.reason === null || cancellation.reason === '' ? words : cancellation.reason,
      params: adjusted,
    },
  };
};

const failure = (params: Json): Gate => ({
  kind: 'decided',
  outcome: {
    blocked: true,
    kind: 'failure',
    disposition: 'failed',
    deniedReason: 'plugin-before-tool-call',
    reason: gateFailure,
    params,
  },
});

const held = ({ hold, collected }: Decision<Link, Json>, byPolicy: boolean, base: Json): Gate => ({
  kind: 'held',
  byPolicy,
  request: (hold?.request ?? null) as Json,
  base,
  override: (own(collected, 'params') ?? null) as Json,
});

/** Returned parameters are laid over the given ones, key by key: none can be taken away (openclaw.md §6). */
export const overlaid = (params: Json, override: Json | undefined): Json => {
  if (!isObject(override)) return params;
  return isObject(params) ? { ...params, ...override } : override;
};

/** What a held call comes to when its approval ends (openclaw.md §8). */
export const gateAfter = ({ request, base, override }: HeldCall, end: ApprovalEnd, version: Version): GateOutcome => {
  const read = readApproval(request, version);
  if (read.kind === 'unusable') {
    return denied(base, { disposition: 'failed', reason: `Plugin approval request rejected: ${read.reason}` });
  }
  switch (end.kind) {
    case 'decided':
      if (end.decision !== 'deny') return allowed(base, override, end);
      return denied(base, {
        disposition: 'blocked',
        reason: version === '2026.7' ? 'Denied by user' : 'Denied by user. The tool call did not run.',
      });
    case 'unanswered':
      return read.terms.timeoutBehavior === 'allow' ? allowed(base, override, end) : lapsed(base, read.terms);
    case 'aborted':
      return denied(base, { disposition: 'cancelled', reason: 'Approval cancelled (run aborted)' });
    case 'unavailable':
      return denied(base, {
        disposition: 'failed',
        reason: end.reason,
        ...(version === '2026.9' ? { deniedReason: 'plugin-approval-unavailable' as const } : {}),
      });
  }
};

/** What a mode in which nobody is asked makes of a held call (openclaw.md §8): `report`, and `deny` of 2026.9. */
export const gateUnasked = ({ request, base }: HeldCall, mode: 'report' | 'deny'): GateOutcome => {
  if (mode === 'deny') {
    return { blocked: true, kind: 'veto', deniedReason: 'plugin-approval', reason: 'approval_required', params: base };
  }
  const words = [own(request, 'description'), own(request, 'title')].find(
    (word) => typeof word === 'string' && word !== '',
  );
  return denied(base, {
    disposition: 'blocked',
    reason: typeof words === 'string' ? words : 'Plugin approval required',
  });
};

const allowed = (base: Json, override: Json, end: ApprovalEnd): GateOutcome => ({
  blocked: false,
  kind: null,
  reason: null,
  params: overlaid(base, override),
  approvalResolution: resolutionOf(end),
});

const denied = (params: Json, words: Pick<GateOutcome, 'disposition' | 'reason' | 'deniedReason'>): GateOutcome => ({
  blocked: true,
  kind: 'failure',
  deniedReason: 'plugin-approval',
  params,
  ...words,
});

const lapsed = (params: Json, { timeoutReason }: ApprovalTerms): GateOutcome =>
  timeoutReason === null
    ? denied(params, { disposition: 'timed_out', reason: 'Approval timed out' })
    : { blocked: true, kind: 'veto', deniedReason: 'plugin-approval', reason: timeoutReason, params };

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
