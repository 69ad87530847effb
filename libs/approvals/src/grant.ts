import {
  asData,
  canonicalJson,
  digestOf,
  type GrantCreated,
  type GrantScope,
  type NewEvent,
  type RecordedEvent,
  type Sealed,
} from '#record';

/** A wish that need not be asked for again, as its stream has it; who gave it is the actor of its event. */
export interface Grant {
  readonly inForce: boolean;
  readonly scope: GrantScope | null;
}

export const unknownGrant: Grant = { inForce: false, scope: null };

/** One scope has one grant, so that finding it needs no search: given, revoked, given again. */
export const grantIdOf = (scope: GrantScope): string =>
  digestOf(canonicalJson([scope.pluginId, scope.toolName, scope.parametersDigest])).slice(0, 32);

/** The grant after one of its events. */
export const evolveGrant = (grant: Grant, { type, data }: Pick<NewEvent | RecordedEvent, 'type' | 'data'>): Grant => {
  switch (type) {
    case 'approval.grant_created':
      return { inForce: true, scope: (data as unknown as GrantCreated).scope };
    case 'approval.grant_revoked':
      return { ...grant, inForce: false };
    default:
      return grant;
  }
};

/** `approval.grant_created`; nothing when it is in force. */
export const decideGrant = (grant: Grant, scope: GrantScope, approvalId: string): readonly NewEvent[] => {
  if (grant.inForce) return [];
  const created: GrantCreated = { grantId: grantIdOf(scope), approvalId, scope };
  return [{ type: 'approval.grant_created', data: asData(created) }];
};

/** `approval.grant_revoked`; nothing when it is not in force. */
export const decideRevoke = (grant: Grant, reason: Sealed | null): readonly NewEvent[] => {
  if (!grant.inForce || grant.scope === null) return [];
  return [{ type: 'approval.grant_revoked', data: asData({ grantId: grantIdOf(grant.scope), reason }) }];
};

/** `approval.grant_used` for an invocation that was allowed by it. */
export const grantUsed = (grantId: string, invocationId: string): NewEvent => ({
  type: 'approval.grant_used',
  data: { grantId, invocationId },
});
