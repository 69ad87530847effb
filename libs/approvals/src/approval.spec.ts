import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { ApprovalRequested, NewEvent, Sealed } from '#record';
import {
  approvalEndings,
  decideApproval,
  decideApprovalCancel,
  decideApprovalTimeout,
  decideTold,
  evolveApproval,
  unknownApproval,
  type Approval,
} from './approval.js';

const sealed: Sealed = { $sealed: { v: 1, k: 'k', b: 'AA==' } };
const askedAt = Date.UTC(2026, 0, 1);

const requested: ApprovalRequested = {
  approvalId: 'plugin:1',
  title: sealed,
  description: sealed,
  parameters: sealed,
  parametersDigest: 'aa'.repeat(32),
  severity: 'warning',
  allowedDecisions: ['allow-once', 'deny'],
  timeoutMs: 1_000,
  timeoutBehavior: 'deny',
  expiresAt: new Date(askedAt + 1_000).toISOString(),
  toolName: 'exec',
  byPolicy: false,
  grantable: false,
};

const at = (ms: number): Date => new Date(askedAt + ms);
const after = (events: readonly NewEvent[], approval: Approval = pending): Approval =>
  events.reduce(evolveApproval, approval);
const pending = [{ type: 'approval.requested' as const, data: requested as unknown as NewEvent['data'] }].reduce(
  evolveApproval,
  unknownApproval,
);
const allow = { decision: 'allow-once', reason: null, parametersDigest: null } as const;

const decided = (approval: Approval, ms = 10): readonly NewEvent[] => {
  const answer = decideApproval(approval, allow, at(ms));
  return answer.kind === 'events' ? answer.events : [];
};

describe('an approval', () => {
  it('is pending until somebody decides, with a decision that is offered', () => {
    expect(pending.ending).toBeNull();
    expect(decideApproval(pending, { ...allow, decision: 'allow-always' }, at(10))).toEqual({
      kind: 'not_offered',
      allowed: ['allow-once', 'deny'],
    });
    expect(after(decided(pending)).ending).toEqual({ kind: 'decided', decision: 'allow-once', grantId: null });
  });

  it('takes no decision for other parameters than its own', () => {
    const other = decideApproval(pending, { ...allow, parametersDigest: 'bb'.repeat(32) }, at(10));
    expect(other).toEqual({ kind: 'other_parameters', expected: requested.parametersDigest });
    const own = decideApproval(pending, { ...allow, parametersDigest: requested.parametersDigest }, at(10));
    expect(own.kind).toBe('events');
  });

  it('takes none when its time is up, and ends by it not before', () => {
    expect(decideApproval(pending, allow, at(1_000))).toEqual({ kind: 'expired' });
    expect(decideApprovalTimeout(pending, at(999))).toEqual([]);
    expect(after(decideApprovalTimeout(pending, at(1_000))).ending).toEqual({ kind: 'timed_out' });
  });

  it('is none before it was asked for', () => {
    expect(decideApproval(unknownApproval, allow, at(0))).toEqual({ kind: 'unknown' });
    expect(decideApprovalTimeout(unknownApproval, at(9_999))).toEqual([]);
    expect(decideApprovalCancel(unknownApproval, 'aborted')).toEqual([]);
  });

  it('ends once and is told of once, in whatever order people, clocks and callers come', () => {
    const step = fc.oneof(
      fc.constant((approval: Approval, ms: number) => decided(approval, ms)),
      fc.constant((approval: Approval, ms: number) => decideApprovalTimeout(approval, at(ms))),
      fc.constant((approval: Approval) => decideApprovalCancel(approval, 'aborted')),
      fc.constant((approval: Approval) => decideTold(approval, 'deny', null)),
      fc.constant((approval: Approval) => decideTold(approval, 'deny', 'realm_gone')),
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(step, fc.nat(2_000)), { maxLength: 30 }), (steps) => {
        let approval = pending;
        const events: NewEvent[] = [];
        for (const [decide, ms] of steps) {
          const more = decide(approval, ms);
          events.push(...more);
          approval = after(more, approval);
        }
        expect(events.filter(({ type }) => approvalEndings.includes(type)).length).toBeLessThanOrEqual(1);
        const told = events.filter(({ type }) => type.startsWith('approval.resolution_'));
        expect(told.length).toBeLessThanOrEqual(approval.ending === null ? 0 : 1);
      }),
    );
  });
});
