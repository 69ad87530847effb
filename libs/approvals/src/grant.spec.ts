import { describe, expect, it } from '@jest/globals';
import type { NewEvent } from '#record';
import { decideGrant, decideRevoke, evolveGrant, grantIdOf, unknownGrant, type Grant } from './grant.js';

const scope = { pluginId: 'careful', toolName: 'exec', parametersDigest: 'aa'.repeat(32) };
const after = (events: readonly NewEvent[], grant: Grant = unknownGrant): Grant => events.reduce(evolveGrant, grant);

describe('a grant', () => {
  it('is one for one plugin, one tool and exactly these parameters', () => {
    expect(grantIdOf({ ...scope })).toBe(grantIdOf(scope));
    const others = [
      { ...scope, pluginId: 'other' },
      { ...scope, toolName: null },
      { ...scope, parametersDigest: 'bb'.repeat(32) },
    ];
    expect(new Set([scope, ...others].map(grantIdOf)).size).toBe(4);
  });

  it('is in force from when it is given until it is revoked, and can be given again', () => {
    const given = after(decideGrant(unknownGrant, scope, 'a-1'));
    expect(given.inForce).toBe(true);
    expect(decideGrant(given, scope, 'a-2')).toEqual([]);
    const revoked = after(decideRevoke(given, null), given);
    expect(revoked.inForce).toBe(false);
    expect(decideRevoke(revoked, null)).toEqual([]);
    expect(after(decideGrant(revoked, scope, 'a-3'), revoked).inForce).toBe(true);
  });

  it('cannot be revoked before it was given', () => {
    expect(decideRevoke(unknownGrant, null)).toEqual([]);
  });
});
