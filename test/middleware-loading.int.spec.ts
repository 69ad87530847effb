import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { middleware } from '#dialects';
import { startSandbox, type LoadOutcome, type Sandbox } from '#sandbox';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({});
});
afterAll(() => sandbox.close());

const load = (code: string): Promise<LoadOutcome> =>
  sandbox.load(
    {
      account: 'a',
      pluginId: 'p',
      digest: code,
      code,
      fileName: 'p.js',
      guest: middleware.guest,
      setup: middleware.setup({ permissions: [], config: {} }),
      isolation: 'warm',
    },
    1000,
  );

const hooksOf = (outcome: LoadOutcome): readonly string[] | string =>
  outcome.kind === 'loaded' ? middleware.readReport(outcome.report).hooks : outcome.cause;

describe('what a source registers', () => {
  it('is there although the source froze its globals (MW-110)', async () => {
    const code = 'globalThis.middleware.todoAdded = (c) => c.texts; Object.freeze(globalThis);';
    expect(hooksOf(await load(code))).toEqual(['todoAdded']);
  });

  it('is nothing when it throws, whatever it called on its way (MW-2)', async () => {
    const code = `globalThis.middleware.todoAdded = (c) => c.texts;
      for (const key of Reflect.ownKeys(globalThis)) {
        if (String(key).includes('end')) try { globalThis[key](); } catch {}
      }
      throw new Error('late');`;
    expect(hooksOf(await load(code))).toBe('threw');
  });

  it('is fixed when the source has run: its microtasks add nothing (MW-4)', async () => {
    const code = `globalThis.middleware.todoAdded = (c) => c.texts;
      Promise.resolve().then(() => { globalThis.middleware.userMessageInbound = (c) => c.text; });`;
    expect(hooksOf(await load(code))).toEqual(['todoAdded']);
  });

  it('stands although a promise was rejected meanwhile', async () => {
    const code = 'globalThis.middleware.todoAdded = (c) => c.texts; Promise.reject(new Error("x"));';
    expect(hooksOf(await load(code))).toEqual(['todoAdded']);
  });

  it('is nothing when reading it never ends', async () => {
    const code = "Object.defineProperty(middleware, 'todoAdded', { enumerable: true, get() { for (;;); } });";
    expect(hooksOf(await load(code))).toBe('timed_out');
  });
});
