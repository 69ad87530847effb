import { describe, expect, it } from '@jest/globals';
import { failuresWithin, type Failure } from './circuit-breaker.js';

const at = (second: number, pluginRevision = 1, pluginId = 'p'): Failure => ({
  pluginId,
  pluginRevision,
  recordedAt: new Date(second * 1000).toISOString(),
});

describe('the failures that count', () => {
  const threshold = { failures: 3, windowSeconds: 10 };

  it('are those within the window before the newest', () => {
    expect(failuresWithin(at(20), [at(20), at(15), at(11), at(10), at(1)], threshold)).toBe(3);
  });

  it('are of one plugin and one revision: a new version begins anew', () => {
    expect(failuresWithin(at(20, 2), [at(20, 2), at(19, 1), at(18, 2, 'q')], threshold)).toBe(1);
  });
});
