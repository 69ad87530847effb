import { describe, expect, it } from '@jest/globals';
import type { Settings } from './settings.js';
import { defaultSettings } from './settings.js';
import { haltWeakens, settingsWeaken } from './weakening.js';

const withSettings = (some: Partial<Settings>): Settings => ({ ...defaultSettings, ...some });

/** [before, after]: weakening in this direction, and not the other way round. */
const loosenings: readonly (readonly [Partial<Settings>, Partial<Settings>])[] = [
  [{ timeouts: { middleware: 500 } }, { timeouts: { middleware: 499 } }],
  [{}, { timeouts: { middleware: 1 } }],
  [{}, { timeouts: { kohaku: 4_999 } }],
  [{}, { timeouts: { openclaw: 1_000 } }],
  [{ timeouts: { kohaku: 6_000 } }, {}],
  [{ openclawHookGates: { p: { allowConversationAccess: true } } }, {}],
  [{}, { openclawHookGates: { p: { allowPromptInjection: false } } }],
  [{}, { fetchHosts: ['example.org'] }],
  [{ fetchHosts: ['example.org'] }, { fetchHosts: ['*.example.org', 'example.org'] }],
  [{ breadthPerRoot: 5 }, { breadthPerRoot: 6 }],
  [{ breadthPerRoot: 5 }, {}],
  [{ approvalGrants: false }, { approvalGrants: true }],
  [{ strictApprovals: true }, { strictApprovals: false }],
  [{ selfApproval: false }, { selfApproval: true }],
  [{ installPolicy: { deny: [], allow: ['a'] } }, { installPolicy: null }],
  [{ installPolicy: { allow: ['a'] } }, { installPolicy: { allow: ['a', 'b'] } }],
  [{ installPolicy: { allow: [] } }, { installPolicy: {} }],
  [{ installPolicy: { deny: ['x', 'y'] } }, { installPolicy: { deny: ['x'] } }],
  [{ installPolicy: { requireDigest: true } }, { installPolicy: { requireDigest: false } }],
  [{ circuitBreaker: 'off' }, { circuitBreaker: { failures: 500, windowSeconds: 1 } }],
  [{ circuitBreaker: { failures: 5, windowSeconds: 60 } }, { circuitBreaker: { failures: 4, windowSeconds: 60 } }],
  [{ circuitBreaker: { failures: 5, windowSeconds: 60 } }, { circuitBreaker: { failures: 5, windowSeconds: 61 } }],
];

describe('enforcement', () => {
  it.each(loosenings)('is weakened from %j to %j, and not back', (before, after) => {
    expect(settingsWeaken(withSettings(before), withSettings(after))).toBe(true);
    expect(settingsWeaken(withSettings(after), withSettings(before))).toBe(false);
  });

  it('is weakened by what a change loosens, whatever else it tightens', () => {
    const before = withSettings({ selfApproval: false, breadthPerRoot: null });
    expect(settingsWeaken(before, withSettings({ selfApproval: true, breadthPerRoot: 1 }))).toBe(true);
  });

  it('is not weakened by nothing, by more time, by a host below an allowed one, by a policy', () => {
    const before = withSettings({ fetchHosts: ['*.example.org'], timeouts: { middleware: 100 } });
    expect(settingsWeaken(before, before)).toBe(false);
    const after = { fetchHosts: ['api.example.org'], timeouts: { middleware: 101 }, installPolicy: { allow: [] } };
    expect(settingsWeaken(before, withSettings(after))).toBe(false);
  });

  it('is weakened by a halt that passes everything, not by one that cancels', () => {
    expect([haltWeakens('open'), haltWeakens('closed')]).toEqual([true, false]);
  });
});
