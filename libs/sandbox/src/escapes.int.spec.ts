import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import type { Sandbox } from './index.js';
import { startSandbox } from './index.js';
import { changedTo, handlerOf, outcomesOf, said } from './testing/harness.js';

// Only so that a slow machine does not fail what has no time in it.
jest.setTimeout(60_000);

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({});
});
afterAll(() => sandbox.close());

/** JavaScript that looks through a global for anything of Node, of the host or of another realm. */
const look = `((g) => {
  if (g === undefined || g === null) return 'nothing';
  const found = ['process', 'require', 'module', 'Buffer', 'setTimeout', 'setImmediate', 'queueMicrotask', 'fetch', 'console',
    'WebAssembly', 'SharedArrayBuffer', 'Atomics', 'WeakRef', 'FinalizationRegistry', 'performance', 'structuredClone', 'ivm', 'gc']
    .filter((name) => typeof g[name] !== 'undefined');
  return found.length > 0 ? found : g === globalThis ? 'own' : 'another realm';
})`;
const reach = (of: string): string => `${look}((${of}).constructor.constructor('return globalThis')())`;

/** Each gives 'own' (only its own realm was reached) or 'nothing'. */
const probes: readonly (readonly [name: string, handler: string])[] = [
  ['globalThis', `() => ${look}(globalThis)`],
  ['a constructor of this', `function () { return ${look}(this?.constructor?.constructor('return globalThis')()); }`],
  ['the context', `(v) => ${reach('v')}`],
  ['the tools', `(v, t) => ${reach('t')}`],
  ['a host function', `() => ${reach('host.ask')}`],
  ['a host promise', `async (v, t) => { const p = t.ask(); const said = ${reach('p')}; await p; return said; }`],
  ['a host answer', `async (v, t) => ${reach('await t.ask()')}`],
  ['a host error', `async (v, t) => { try { await t.fail(); } catch (e) { return ${reach('e')}; } }`],
  ['the function of a host function', `(v, t) => ${look}(t.ask.constructor('return globalThis')())`],
  ['an async function', `() => (async () => {}).constructor('return globalThis')().then(${look})`],
  ['a generator', `() => ${look}((function* () {}).constructor('return globalThis')().next().value)`],
  [
    'an async generator',
    `async () => ${look}(await (async function* () {}).constructor('return globalThis')().next().then((x) => x.value))`,
  ],
  [
    'an import',
    `async () => { try { await import('node:fs'); return 'imported'; } catch (e) { return ${reach('e')}; } }`,
  ],
  [
    'an import in new code',
    `async () => { try { await new Function('return import("node:fs")')(); return 'imported'; } catch (e) { return ${reach('e')}; } }`,
  ],
  [
    'a full stack in a host call',
    `(v, t) => { let last; const f = () => { try { t.ask(); } catch (e) { last = e; } f(); }; try { f(); } catch (e) { last = e; } return ${reach('last')}; }`,
  ],
  [
    'a full stack in a log',
    `(v, t) => { const all = []; const f = () => { try { t.log(1); } catch (e) { all.push(e); } f(); }; try { f(); } catch (e) { all.push(e); } const said = new Set(all.map((e) => ${reach('e')})); return said.size === 1 ? [...said][0] : [...said]; }`,
  ],
  [
    'a full stack while a result is read',
    `() => { let e; const f = () => { try { f(); } catch (x) { e = x; } }; f(); return ${reach('e')}; }`,
  ],
  [
    'call sites',
    `() => { Error.prepareStackTrace = (_, s) => s; const s = new Error('x').stack; return typeof s === 'string' ? 'nothing' : 'call sites'; }`,
  ],
  [
    'call sites by definition',
    `() => { try { Object.defineProperty(Error, 'prepareStackTrace', { value: (_, s) => s }); } catch {} return typeof new Error('x').stack === 'string' ? 'nothing' : 'call sites'; }`,
  ],
  [
    'the stack of an error',
    `() => /node:|file:|isolated-vm|main\\.|\\/work|child/.test(new Error('x').stack) ? new Error('x').stack : 'nothing'`,
  ],
  [
    'the caller',
    `() => { function f() { try { return f.caller; } catch { return null; } } return ${look}(f()?.constructor?.('return globalThis')() ?? null); }`,
  ],
  [
    'then of a promise that the guest awaits',
    `() => { let seen; const p = Promise.resolve(1); p.then = function (ok) { seen = ok; return Promise.prototype.then.call(this, ok); }; return (async () => { await p; await null; return seen === undefined ? 'nothing' : ${reach('seen')}; })(); }`,
  ],
  ['what a thenable is given', `() => ({ then(ok, fail) { ok(${reach('ok')}); } })`],
  ['the receiver of a toJSON', `() => ({ toJSON(key) { return ${reach('this')}; } })`],
  [
    'a proxy that reads the result',
    `() => { let found = 'own'; const p = new Proxy({}, { get(t, k, r) { if (k === 'toJSON') return undefined; found = ${reach('r')}; return undefined; }, ownKeys: () => [] }); void p; return found; }`,
  ],
  [
    'a species',
    `async (v, t) => { let seen; class P extends Promise { constructor(f) { super(f); seen = f; } } const p = t.ask(); p.constructor = P; await p.then(() => {}); return seen === undefined ? 'nothing' : ${reach('seen')}; }`,
  ],
  [
    'names that the bootstrap left',
    `() => Object.getOwnPropertyNames(globalThis).some((n) => /end|kit|signal|boot|guest/i.test(n) && !/encodeURI|decodeURI|Endian/.test(n)) ? Object.getOwnPropertyNames(globalThis).join() : 'nothing'`,
  ],
  [
    'symbols on globals',
    `() => Object.getOwnPropertySymbols(globalThis).filter((s) => s !== Symbol.toStringTag).length === 0 ? 'nothing' : 'symbols'`,
  ],
  ['debugger', `() => { debugger; return 'nothing'; }`],
  [
    'natives',
    `() => { try { new Function('%DebugPrint(1)')(); return 'natives'; } catch (e) { return ${reach('e')}; } }`,
  ],
];

describe('nothing leads out of a realm', () => {
  it.each(probes)('%s', async (_, probe) => {
    const handlers = [
      handlerOf('(v) => v + "b"'),
      handlerOf(probe, { timeoutMs: 5_000, advances: false }),
      handlerOf('(v) => v + "c"'),
    ];
    const onCall = ({ member }: { member: string }) =>
      Promise.resolve(
        member === 'fail'
          ? ({ kind: 'error', message: 'no' } as const)
          : ({ kind: 'value', json: '{"a":[1]}' } as const),
      );
    for (const way of ['alone', 'together', 'together again']) {
      const outcomes = await outcomesOf(sandbox, handlers, { onCall, value: 'a' });
      expect([way, said(outcomes[1])]).toEqual([way, expect.stringMatching(/^~\{"value":"(own|nothing)"\}\n$/)]);
      expect([said(outcomes[0]), said(outcomes[2])]).toEqual([changedTo('ab'), changedTo('abc')]);
    }
  });
});

describe('dynamic code works inside the realm and reaches no more than the realm has', () => {
  it.each([
    [
      'before the first await',
      '() => new Function("return 1 + 1")() + eval("1") + (0, eval)("typeof process === \'undefined\' ? 1 : 0")',
    ],
    ['after an await', 'async (v, t) => { await t.ask(); return new Function("return 1 + 1")() + eval("1 + 1"); }'],
    ['at load', '(new Function("return () => 4"))()'],
    ['in an async function', '() => Object.getPrototypeOf(async () => {}).constructor("return 4")()'],
  ])('%s', async (_, code) => {
    const handlers = [handlerOf('(v) => v'), handlerOf(code, { timeoutMs: 5_000 })];
    for (let round = 0; round < 3; round++) expect(said((await outcomesOf(sandbox, handlers))[1])).toBe(changedTo(4));
  });

  it('sees the names of the script that the plugin is', async () => {
    const handler = handlerOf('() => new Function("return secret")(); const secret = 7');
    expect(said((await outcomesOf(sandbox, [handler]))[0])).toBe(changedTo(7));
  });
});

describe('a polluted realm stays alone with it', () => {
  const pollute = `(v) => {
    for (const proto of [Object.prototype, Array.prototype, Function.prototype, Promise.prototype, String.prototype, Error.prototype])
      for (const key of ['polluted', 'then', 'toJSON', 'get', 'set', 'value', 'length', 'kind'])
        try { proto[key] = key === 'then' && proto === Promise.prototype ? () => { throw 1; } : 'evil'; } catch {}
    globalThis.on = null; globalThis.host = null;
    return v;
  }`;
  it('another plugin of the same chain, and the reading of results, do not see it', async () => {
    const handlers = [
      handlerOf('async (v) => v + "b"'),
      handlerOf(pollute, { timeoutMs: 5_000 }),
      handlerOf('async (v, t) => [v, await t.ask(), "polluted" in {}, typeof [].then, typeof host]', {
        timeoutMs: 5_000,
      }),
    ];
    for (let round = 0; round < 3; round++) {
      const outcomes = await outcomesOf(sandbox, handlers);
      expect(said(outcomes[0])).toBe(changedTo('ab'));
      expect(said(outcomes[2])).toBe(changedTo(['ab', 'ok', false, 'undefined', 'object']));
    }
  });

  it('what a plugin registered stays registered', async () => {
    const handler = handlerOf('(v) => { on.it = () => "other"; delete on.it; return v + "!"; }');
    for (let round = 0; round < 3; round++)
      expect(said((await outcomesOf(sandbox, [handler]))[0])).toBe(changedTo('a!'));
  });
});
