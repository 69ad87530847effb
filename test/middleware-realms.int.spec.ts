import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { compile, derivePermissions, middleware } from '#dialects';
import type { JsonObject } from '#record';
import { startSandbox } from '#sandbox';
import type { CallAnswer, GuestCall, HandlerOutcome, Realm, RunningChain, Sandbox } from '#sandbox';

/** The middleware guest program in real realms: what only shows when runs meet, wait, or attack. */

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({ maxChildren: 4 });
});
afterAll(() => sandbox.close());

let count = 0;
const realm = async (source: string): Promise<Realm> => {
  count += 1;
  const compiled = await compile({ source }, 'typescript');
  if (compiled.kind === 'failed') throw new Error(compiled.message);
  return {
    account: 'realms',
    pluginId: `plugin-${count}`,
    digest: `digest-${count}`,
    code: compiled.code,
    fileName: `plugin-${count}.js`,
    guest: middleware.guest,
    setup: middleware.setup({ permissions: derivePermissions(compiled.code), config: {} }),
    isolation: 'warm',
  };
};

const message: JsonObject = {
  senderSessionId: '1',
  senderAgentId: '2',
  targetSessionId: '3',
  isSubagentReport: false,
  text: 'hi',
};

const start = (
  realms: readonly Realm[],
  hook: string,
  context: JsonObject,
  onCall: (call: GuestCall) => Promise<CallAnswer>,
  hop = 0,
): RunningChain =>
  sandbox.run({
    account: 'realms',
    invocationId: `i-${count}`,
    input: JSON.stringify(context),
    handlers: realms.map((one) => ({
      realm: one,
      handler: hook,
      timeoutMs: 2000,
      ceilingMs: 10_000,
      args: middleware.args(hook, middleware.hostView(hook, context, hop)),
      advances: true,
      stopsOn: middleware.stopTags(hook, 'open'),
    })),
    onCall,
    pausingMembers: middleware.pausingMembers,
  });

const rawOf = (outcome: HandlerOutcome): string =>
  outcome.kind === 'returned' ? outcome.raw : JSON.stringify(outcome);
/** The rewritten text of a hook with one field. */
const textOf = (outcome: HandlerOutcome): string =>
  (JSON.parse(rawOf(outcome).slice(1)) as { readonly text: string }).text;
const ok = (json: string): CallAnswer => ({ kind: 'value', json });

describe('runs of one plugin at the same time', () => {
  it('each see their own host, before and after they waited (MW-13, MW-101)', async () => {
    const plugin = await realm(`globalThis.middleware.interAgentMessage = async (context) => {
      const seen = [context.text, typeof host.session];
      await host.fetch('https://x/');
      seen.push(typeof host.session);
      await host.fetch('https://y/');
      seen.push(typeof host.session, host.session?.id);
      return JSON.stringify(seen);
    };`);
    const answers: (() => void)[] = [];
    const waiting = (): Promise<CallAnswer> =>
      new Promise((resolve) => {
        answers.push(() => {
          resolve(ok('{}'));
        });
      });
    const runs = [0, 5, 0, 5].map((hop, index) =>
      start(
        [plugin],
        'interAgentMessage',
        { ...message, senderSessionId: `s${index}`, text: `t${index}` },
        waiting,
        hop,
      ),
    );
    const results = Promise.all(runs.map((one) => one.result(0)));
    // Answers come in an order that has nothing to do with the order of asking.
    while (answers.length < 4) await new Promise((resolve) => setImmediate(resolve));
    for (const answer of answers.splice(0).reverse()) answer();
    while (answers.length < 4) await new Promise((resolve) => setImmediate(resolve));
    for (const answer of answers.splice(0).reverse()) answer();
    expect((await results).map((one) => JSON.parse(textOf(one)) as unknown)).toEqual([
      ['t0', 'object', 'object', 'object', 's0'],
      ['t1', 'undefined', 'undefined', 'undefined', null],
      ['t2', 'object', 'object', 'object', 's2'],
      ['t3', 'undefined', 'undefined', 'undefined', null],
    ]);
  });

  it('cannot use a session that an earlier run kept (MW-57)', async () => {
    const plugin = await realm(`let kept;
      globalThis.middleware.interAgentMessage = async (context) => {
        if (!kept) { kept = host.session; return 'kept'; }
        try { await kept.peer.send('9', 'late'); return 'sent'; } catch (e) { return 'refused'; }
      };`);
    const calls: string[] = [];
    const onCall = (call: GuestCall) => {
      calls.push(call.member);
      return Promise.resolve(ok('null'));
    };
    expect(rawOf(await start([plugin], 'interAgentMessage', message, onCall).result(0))).toBe('~{"text":"kept"}\n');
    expect(rawOf(await start([plugin], 'interAgentMessage', message, onCall, 5).result(0))).toBe(
      '~{"text":"refused"}\n',
    );
    expect(calls).toEqual([]);
  });
});

describe('a plugin that attacks its realm', () => {
  it.each([
    ['process', 'typeof process'],
    ['require', 'typeof require'],
    ['timers', 'typeof setTimeout + typeof setInterval + typeof setImmediate + typeof queueMicrotask'],
    ['console and fetch', 'typeof console + typeof fetch + typeof crypto'],
    ['WebAssembly and shared memory', 'typeof WebAssembly + typeof SharedArrayBuffer + typeof Atomics'],
    [
      'Node through a constructor',
      `(() => { try { return host.log.constructor.constructor('return typeof process')(); } catch (e) { return 'undefined'; } })()`,
    ],
    [
      'Node through tools',
      `(() => { try { return tools.cancel.constructor('return typeof process')(); } catch (e) { return 'undefined'; } })()`,
    ],
    [
      'Node through the context',
      `(() => { try { return context.constructor.constructor('return typeof process')(); } catch (e) { return 'undefined'; } })()`,
    ],
  ])('does not find %s (MW-75, MW-113)', async (_, expression) => {
    const plugin = await realm(
      `globalThis.middleware.assistantMessageOutbound = async (context, tools) => String(${expression});`,
    );
    const raw = rawOf(
      await start([plugin], 'assistantMessageOutbound', { sessionId: '1', channelId: null, text: 'x' }, () =>
        Promise.resolve(ok('null')),
      ).result(0),
    );
    expect(raw).toMatch(/^~\{"text":"(undefined)+"\}\n$/);
  });

  it('spoils no other plugin of the chain, nor its own later runs (MW-110)', async () => {
    const vandal = await realm(`globalThis.middleware.notifyScheduled = () => {
      Object.prototype.message = 'polluted'; Array.prototype.toJSON = () => 'x'; JSON.stringify = () => '{}';
      Promise.prototype.then = function () {}; Object.keys = () => []; delete globalThis.middleware; globalThis.host = null;
      return { delaySeconds: 9 };
    };`);
    const clean = await realm(
      'globalThis.middleware.notifyScheduled = async (c) => ({ message: c.message + ({}).message });',
    );
    const context = { sessionId: '1', message: 'm', delaySeconds: 5 };
    for (let i = 0; i < 3; i += 1) {
      const chain = start([vandal, clean], 'notifyScheduled', context, () => Promise.resolve(ok('null')));
      expect(rawOf(await chain.result(0))).toBe('~{"delaySeconds":9}\n');
      expect(rawOf(await chain.result(1))).toBe('~{"message":"mundefined"}\n');
    }
  });

  it('that never ends leaves what it had noted (MW-45)', async () => {
    const plugin = await realm(`globalThis.middleware.userMessageInbound = async (context, tools) => {
      tools.cancel('forgotten'); await new Promise(() => {}); };`);
    const context = { sessionId: '1', channelId: null, text: 'x', mediaIds: [] };
    const outcome = await start([plugin], 'userMessageInbound', context, () => Promise.resolve(ok('null'))).result(0);
    expect(outcome).toMatchObject({ kind: 'failed', cause: 'timed_out', detail: 'async' });
    const notes = outcome.kind === 'failed' ? outcome.notes : '';
    expect(middleware.readNotes('userMessageInbound', notes)).toEqual([{ code: 'cancel_not_returned', detail: null }]);
  });

  it('with values of 8 MiB gets them through, byte for byte (MW-39)', async () => {
    const plugin = await realm('globalThis.middleware.userMessageInbound = async (c) => c.text + "!";');
    const text = 'a\u0000\ud800'.repeat(1_000_000);
    const context = { sessionId: '1', channelId: null, text, mediaIds: [] };
    const raw = rawOf(
      await start([plugin], 'userMessageInbound', context, () => Promise.resolve(ok('null'))).result(0),
    );
    expect(middleware.read('userMessageInbound', raw, text).verdict).toEqual({
      kind: 'rewrote',
      value: `${text}!`,
      changed: ['text'],
    });
  });
});
