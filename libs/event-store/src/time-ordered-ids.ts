import { randomFillSync } from 'node:crypto';
import { v7 } from 'uuid';

/**
 * Ids of events and invocations: UUIDv7 (RFC 9562 §5.7), rising within a process. Randomness is drawn for many at once,
 * because asking the system for each took longer than all the rest of an id.
 */
export const timeOrderedIds = (): (() => string) => {
  const drawn = Buffer.allocUnsafe(4096);
  let at = drawn.length;
  let seq = randomFillSync(new Uint32Array(1))[0] ?? 0;
  let latest = 0;
  return () => {
    if (at === drawn.length) {
      randomFillSync(drawn);
      at = 0;
    }
    const random = drawn.subarray(at, at + 16);
    at += 16;
    seq = (seq + 1) >>> 0;
    // A counter that begins again goes on with the next millisecond; a clock that was set back does not take ids along.
    latest = Math.max(Date.now(), seq === 0 ? latest + 1 : latest);
    return v7({ msecs: latest, seq, random });
  };
};
