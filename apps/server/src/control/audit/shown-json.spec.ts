import { describe, expect, it } from '@jest/globals';
import { memorySealing } from '#sealing';
import { shownJson } from './shown-json.js';

const sealing = memorySealing();
const full = { content: 'full' } as const;

const sealText = async (text: string, session = 's') =>
  (await sealing.envelope('a', { kind: 'session', id: session })).sealText(text);

describe('an answer with content', () => {
  it('gives it digit for digit as it was sealed', async () => {
    const text = '{"id":9007199254740993,"share":0.1234567890123456789,"big":1e400}';
    expect(await shownJson(sealing, full, 'a', { before: await sealText(text) })).toBe(`{"before":${text}}`);
  });

  it('hides it from a key without content, and tells its size', async () => {
    const sealed = await sealText('"secret words"');
    const shown = await shownJson(sealing, { content: 'none' }, 'a', [sealed]);
    expect(JSON.parse(shown)).toEqual([{ hidden: true, size: sealing.sizeOf(sealed) }]);
    expect(shown).not.toContain('secret');
  });

  it('says that it is erased when its key is gone', async () => {
    const sealed = await sealText('"gone"', 'erased');
    await sealing.erase('a', { kind: 'session', id: 'erased' });
    expect(JSON.parse(await shownJson(sealing, full, 'a', { sealed }))).toEqual({
      sealed: { erased: true, size: sealing.sizeOf(sealed) },
    });
  });

  it('does not look into content for sealed values', async () => {
    const inner = await sealText('"inner"');
    const outer = await sealText(JSON.stringify(inner));
    expect(JSON.parse(await shownJson(sealing, full, 'a', outer))).toEqual(inner);
  });

  it('keeps keys and texts that JSON in JavaScript finds hard', async () => {
    const value = JSON.parse(
      '{"__proto__":{"a":1},"nul\\u0000":"\\ud800","list":[null,true,1.5],"empty":{}}',
    ) as object;
    expect(await shownJson(sealing, full, 'a', value)).toBe(JSON.stringify(value));
    expect(await shownJson(sealing, full, 'a', { here: undefined, there: 1 })).toBe('{"there":1}');
  });
});
