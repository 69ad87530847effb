import { describe, expect, it } from '@jest/globals';
import type { Json } from '#record';
import { memorySealing } from '#sealing';
import { show, showAll, showWithin } from './visibility.js';

const full = { content: 'full' } as const;
const none = { content: 'none' } as const;

describe('sealed content', () => {
  const sealing = memorySealing();
  const seal = async (value: Json) => (await sealing.envelope('acme', { kind: 'session', id: 's' })).seal(value);

  it('shows to a key with full content and hides from others, size told', async () => {
    const sealed = await seal('secret words');
    expect(await show(sealing, full, 'acme', sealed)).toBe('secret words');
    expect(await show(sealing, none, 'acme', sealed)).toEqual({ hidden: true, size: sealing.sizeOf(sealed) });
    expect(await showAll(sealing, none, 'acme', [null, sealed])).toEqual([
      null,
      { hidden: true, size: expect.any(Number) },
    ]);
  });

  it('shows as erased when its key is gone', async () => {
    const gone = memorySealing();
    const sealed = (await gone.envelope('acme', { kind: 'session', id: 'x' })).seal('words');
    await gone.erase('acme', { kind: 'session', id: 'x' });
    expect(await show(gone, full, 'acme', sealed)).toEqual({ erased: true, size: expect.any(Number) });
  });

  it('is found at any depth, and content that looks sealed is left as it is', async () => {
    const looksSealed = { $sealed: { v: 1, k: 'no such key', b: '' } };
    const value = { a: [{ b: await seal(looksSealed) }], c: 1, d: null };
    expect(await showWithin(sealing, full, 'acme', value)).toEqual({ a: [{ b: looksSealed }], c: 1, d: null });
  });
});
