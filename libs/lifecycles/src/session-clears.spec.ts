import { describe, expect, it } from '@jest/globals';
import { decideClearDone, decideClearStart, evolveClears, noClears } from './session-clears.js';

const deleted = { deletedMessageCount: 12, deletedSubagentCount: 1, deletedPeerThreadCount: 0 };

describe('a clear', () => {
  it('is started once and cleared once, however often it is reported (MW-92)', () => {
    const start = decideClearStart(noClears, 'c1');
    expect(start).toEqual([{ type: 'session.clear_started', data: { clearId: 'c1' } }]);
    const started = start.reduce(evolveClears, noClears);
    expect(decideClearStart(started, 'c1')).toEqual([]);
    const done = decideClearDone(started, 'c1', deleted);
    expect(done).toEqual([{ type: 'session.cleared', data: { clearId: 'c1', ...deleted } }]);
    const cleared = done.reduce(evolveClears, started);
    expect(decideClearDone(cleared, 'c1', deleted)).toEqual([]);
    expect(decideClearStart(cleared, 'c1')).toEqual([]);
  });

  it('of another id is another clear', () => {
    const cleared = decideClearDone(noClears, 'c1', deleted).reduce(evolveClears, noClears);
    expect(decideClearDone(cleared, 'c2', deleted)).toHaveLength(1);
  });

  it('that was started and never completed stays open', () => {
    const state = decideClearStart(noClears, 'c1').reduce(evolveClears, noClears);
    expect(state.clears.get('c1')).toBe('started');
  });
});
