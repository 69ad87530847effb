import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { clearStream, decideClearDone, decideClearStart, evolveClear, unknownClear } from './session-clear.js';

const start = { clearId: 'c1', trailingText: null, messageCount: 12, subagentCount: 1, peerThreadCount: 0 };
const deleted = { deletedMessageCount: 12, deletedSubagentCount: 1, deletedPeerThreadCount: 0 };

describe('a clear', () => {
  it('is started once and cleared once, however often it is reported (MW-92)', () => {
    const begun = decideClearStart(unknownClear, start);
    expect(begun).toEqual([{ type: 'session.clear_started', data: start }]);
    const open = begun.reduce(evolveClear, unknownClear);
    expect(open.state).toBe('open');
    expect(decideClearStart(open, start)).toEqual([]);
    const done = decideClearDone(open, 'c1', deleted);
    expect(done).toEqual([{ type: 'session.cleared', data: { clearId: 'c1', ...deleted } }]);
    const cleared = done.reduce(evolveClear, open);
    expect(decideClearDone(cleared, 'c1', { ...deleted, deletedMessageCount: 99 })).toEqual([]);
    expect(decideClearStart(cleared, start)).toEqual([]);
  });

  it('keeps what its first completion said', () => {
    const cleared = decideClearDone(unknownClear, 'c1', deleted).reduce(evolveClear, unknownClear);
    expect(cleared.deleted).toMatchObject(deleted);
  });

  it('has a stream that no other clear of any session has', () => {
    const id = fc.string({ minLength: 1, maxLength: 6, unit: fc.constantFrom('a', '/', 'clear', '"', ',') });
    fc.assert(
      fc.property(id, id, id, id, (s, c, otherS, otherC) => {
        fc.pre(s !== otherS || c !== otherC);
        expect(clearStream(s, c)).not.toBe(clearStream(otherS, otherC));
      }),
    );
  });
});
