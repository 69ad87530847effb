import { describe, expect, it } from '@jest/globals';
import { changeSettings, defaultSettings } from './settings.js';

const faultsOf = (patch: Record<string, never> | object): readonly string[] => {
  const change = changeSettings(defaultSettings, patch as never);
  return change.kind === 'refused' ? change.faults.map(({ pointer }) => pointer) : [];
};

describe('a change of settings', () => {
  it('replaces what it names, whole, and nothing else', () => {
    const first = changeSettings(defaultSettings, { timeouts: { middleware: 100, kohaku: 200 } });
    if (first.kind !== 'changed') throw new Error('refused');
    const second = changeSettings(first.after, { timeouts: { kohaku: 300 }, selfApproval: true });
    expect(second).toMatchObject({ kind: 'changed', changed: ['timeouts', 'selfApproval'] });
    if (second.kind === 'changed') {
      expect(second.after).toEqual({ ...defaultSettings, timeouts: { kohaku: 300 }, selfApproval: true });
    }
  });

  it('puts a setting back to its default with null', () => {
    const changed = changeSettings({ ...defaultSettings, fetchHosts: ['example.org'] }, { fetchHosts: null });
    expect(changed).toEqual({ kind: 'changed', after: defaultSettings, changed: ['fetchHosts'] });
  });

  it('names what it did not change as unchanged', () => {
    expect(changeSettings(defaultSettings, { approvalGrants: true })).toMatchObject({ changed: [] });
  });

  it.each([
    [{ nope: 1 }, '/nope'],
    [{ timeouts: { middleware: 5001 } }, '/timeouts/middleware'],
    [{ timeouts: { openclaw: 0 } }, '/timeouts/openclaw'],
    [{ timeouts: { python: 5 } }, '/timeouts/python'],
    [{ timeouts: { kohaku: '5' } }, '/timeouts/kohaku'],
    [{ profiles: { openclaw: '2025.1' } }, '/profiles/openclaw'],
    [{ openclawHookGates: { p: { allow: true } } }, '/openclawHookGates/p/allow'],
    [{ fetchHosts: ['http://example.org'] }, '/fetchHosts/0'],
    [{ fetchHosts: ['a b'] }, '/fetchHosts/0'],
    [{ modelEndpoint: { url: 'ftp://x', model: 'm' } }, '/modelEndpoint/url'],
    [{ modelEndpoint: { url: 'https://x', model: 'm', apiKey: 'plain' } }, '/modelEndpoint/apiKey'],
    [{ breadthPerRoot: 0 }, '/breadthPerRoot'],
    [{ approvalGrants: 'yes' }, '/approvalGrants'],
    [{ installPolicy: { allow: 'x' } }, '/installPolicy/allow'],
    [{ circuitBreaker: 'on' }, '/circuitBreaker'],
    [{ circuitBreaker: { failures: 0, windowSeconds: 60 } }, '/circuitBreaker/failures'],
  ])('is refused at the pointer of what does not fit: %j', (patch, pointer) => {
    expect(faultsOf(patch)).toContain(pointer);
  });
});
