import { describe, expect, it } from '@jest/globals';
import type { RecordedEvent } from './event.js';
import type { Upcasters } from './versions.js';
import { lift, readEvent } from './versions.js';

const stored: RecordedEvent = {
  id: '019a0c4e-7c00-7abc-8def-0123456789ab',
  type: 'plugin.tried',
  schema: 1,
  account: 'a',
  stream: 's',
  streamVersion: 1,
  recordedAt: '2026-03-01T10:00:00.000Z',
  occurredAt: '2026-03-01T10:00:00.000Z',
  data: { n: 1 },
};

const known: Upcasters = {
  'plugin.tried': [(data) => ({ count: data.n ?? null }), (data) => ({ ...data, unit: 'tries' })],
};

describe('an event of an older schema', () => {
  it('is lifted through every version since, one after another', () => {
    expect(lift(stored, known)).toEqual({ ...stored, schema: 3, data: { count: 1, unit: 'tries' } });
    const second = { ...stored, schema: 2, data: { count: 5 } };
    expect(lift(second, known)).toEqual({ ...stored, schema: 3, data: { count: 5, unit: 'tries' } });
  });

  it('is left as it is when it is of the newest version, of a newer one, or of a type that never changed', () => {
    for (const event of [
      { ...stored, schema: 3 },
      { ...stored, schema: 9 },
      { ...stored, type: 'plugin.tripped' as const },
    ]) {
      expect(lift(event, known)).toBe(event);
    }
  });

  it('is not changed itself', () => {
    const before = structuredClone(stored);
    lift(stored, known);
    expect(stored).toEqual(before);
  });
});

describe('stored bytes', () => {
  it('are read wherever they lie in memory', () => {
    const text = JSON.stringify({ ...stored, data: { text: 'ü \ud800 \u0000' } });
    const room = Buffer.concat([Buffer.from('before'), Buffer.from(text), Buffer.from('after')]);
    const inside = new Uint8Array(room.buffer, room.byteOffset + 6, Buffer.byteLength(text));
    expect(readEvent(inside)).toEqual(JSON.parse(text));
  });
});
