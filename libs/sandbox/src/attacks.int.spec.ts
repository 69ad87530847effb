import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import type { Sandbox } from './index.js';
import { startSandbox } from './index.js';
import { changedTo, handlerOf, outcomesOf, said } from './testing/harness.js';

// Only so that a slow machine does not fail what has no time in it.
jest.setTimeout(60_000);

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({ isolateMiB: 64 });
});
afterAll(() => sandbox.close());

/** What one attack may come to; a result of the plugin's own is whatever stands for itself. */
type End = RegExp;
const anyTimeout = /^timed_out (sync|async|killed)$/;
const memory = /^(crashed (memory|killed)|timed_out (sync|killed)|!RangeError.*)$/;

const attacks: readonly (readonly [name: string, handler: string, end: End])[] = [
  ['a loop', '() => { for (;;); }', /^timed_out sync$/],
  ['a loop that catches everything', '() => { for (;;) { try { for (;;); } catch (e) {} } }', /^timed_out sync$/],
  ['a loop in finally', '() => { try { for (;;); } finally { for (;;); } }', /^timed_out sync$/],
  ['a loop after a host call', 'async (v, t) => { await t.ask(); for (;;); }', /^timed_out sync$/],
  ['a microtask loop', 'async () => { for (;;) await null; }', /^timed_out sync$/],
  [
    'a promise chain without end',
    '() => new Promise(() => { const f = () => Promise.resolve().then(f); f(); })',
    /^timed_out sync$/,
  ],
  ['a regular expression without end', '() => /^(a+)+$/.test("a".repeat(40) + "b")', /^timed_out sync$/],
  ['a getter of the result that loops', '() => ({ get x() { for (;;); } })', /^timed_out sync$/],
  ['a toJSON that loops', '() => ({ toJSON() { for (;;); } })', /^timed_out sync$/],
  ['a thenable that loops', '() => ({ then() { for (;;); } })', /^timed_out sync$/],
  ['a thenable that never settles', '() => ({ then() {} })', /^timed_out async$/],
  ['a proxy that loops', '() => new Proxy({}, { ownKeys() { for (;;); } })', /^timed_out sync$/],
  ['arguments that loop', '(v, t) => t.ask({ toJSON() { for (;;); } })', /^timed_out sync$/],
  ['a thrown getter that loops', '() => { throw { get message() { for (;;); } }; }', /^timed_out sync$/],
  [
    'a rejection with a getter that loops',
    '() => { Promise.reject({ get message() { for (;;); } }); return "x"; }',
    anyTimeout,
  ],
  ['an endless wait', '() => new Promise(() => {})', /^timed_out async$/],
  ['a host call without an answer', '(v, t) => t.never()', /^(timed_out async|!TypeError.*)$/],
  ['an endless generator', '() => { function* g() { for (;;) yield 1; } return [...g()]; }', memory],
  ['an array bomb', '() => { const a = []; for (;;) a.push(new Array(1000).fill("x")); }', memory],
  ['an object bomb', '() => { let o = {}; for (;;) o = { o, s: [1, 2, 3] }; }', memory],
  ['a string bomb', '() => { let s = "x"; for (;;) s += s; }', /^!RangeError: Invalid string length$/],
  ['a bomb of kept strings', '() => { const a = []; for (let i = 0; ; i++) a.push(String(i).repeat(1000)); }', memory],
  ['an ArrayBuffer bomb', '() => { const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1)); }', memory],
  ['one huge ArrayBuffer', '() => new ArrayBuffer(8e9).byteLength', memory],
  [
    'a resizable ArrayBuffer',
    '() => { const b = new ArrayBuffer(1, { maxByteLength: 4e9 }); b.resize(4e9); return new Uint8Array(b).fill(1).length; }',
    memory,
  ],
  [
    'a bomb of promises',
    'async () => { const a = []; for (;;) { a.push(new Array(1000).fill(1)); await null; } }',
    memory,
  ],
  ['a huge array', '() => new Array(3e8).fill(1.1).length', memory],
  ['a closure bomb', '() => { const a = []; for (;;) a.push(() => a); }', memory],
  ['a Map bomb', '() => { const m = new Map(); for (let i = 0; ; i++) m.set(i, {}); }', memory],
  [
    'a builtin that nothing interrupts',
    '() => [].indexOf.call({ length: 2 ** 53 - 1 }, 1)',
    /^timed_out (sync|killed)$/,
  ],
  ['joining a huge array', '() => new Array(2 ** 29).join("x").length', memory],
  [
    'big numbers',
    '() => { let x = 3n; for (;;) x *= x; }',
    /^(timed_out (sync|killed)|crashed (memory|killed)|!RangeError.*)$/,
  ],
  [
    'sorting without end',
    '() => { const a = Array.from({ length: 1e6 }, (_, i) => i); for (;;) a.sort(() => Math.random() - 0.5); }',
    anyTimeout,
  ],
  [
    'a wait that blocks',
    '() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
    /^!ReferenceError: (Atomics|SharedArrayBuffer) is not defined$/,
  ],
  [
    'WebAssembly memory',
    '() => new WebAssembly.Memory({ initial: 65536 })',
    /^!ReferenceError: WebAssembly is not defined$/,
  ],
  ['recursion', '() => { const f = () => f(); f(); }', /^!RangeError: Maximum call stack size exceeded$/],
  [
    'recursion in a getter of the result',
    '() => ({ get x() { return this.x; } })',
    /^!RangeError: Maximum call stack size exceeded$/,
  ],
  [
    'recursion that asks the host at its end',
    '(v, t) => { const f = () => { try { f(); } catch (e) { t.log("deep"); t.ask("deep"); throw e; } }; f(); }',
    /^!RangeError.*$/,
  ],
  [
    'recursion that asks the host at every depth',
    '(v, t) => { const f = () => { t.log("x"); f(); }; f(); }',
    /^!RangeError.*$/,
  ],
  [
    'an async recursion',
    'async () => { const f = async () => { await f(); }; await f(); }',
    /^(!RangeError.*|timed_out.*|crashed.*)$/,
  ],
  [
    'a regular expression that nests',
    '() => new RegExp("(".repeat(1e5) + ")".repeat(1e5)).test("")',
    /^!(SyntaxError|RangeError).*$/,
  ],
  ['source that nests', '() => new Function("(".repeat(1e6) + ")".repeat(1e6))', /^!(SyntaxError|RangeError).*$/],
  [
    'a result that is nested',
    '() => { let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; return o; }',
    /^(!RangeError.*|~.*)$/s,
  ],
  [
    'a result that is its own part',
    '() => { const o = {}; o.o = o; return o; }',
    /^!TypeError: Converting circular structure.*$/s,
  ],
  ['a result of 64 MB', '() => "x".repeat(64e6)', /^(crashed (memory|killed)|timed_out.*|!RangeError.*)$/],
  [
    '200,000 host calls',
    'async (v, t) => { const a = []; for (let i = 0; i < 200000; i++) a.push(t.ask(i).catch(() => 0)); await Promise.all(a); return "asked"; }',
    /^(~.*|timed_out.*)$/s,
  ],
  [
    'a flood of log lines',
    '(v, t) => { for (let i = 0; i < 200000; i++) t.log("x".repeat(100)); return "logged"; }',
    /^(~.*|timed_out.*)$/s,
  ],
  ['an error with a huge text', '() => { throw new Error("x".repeat(50e6)); }', /^!Error: x{493}$/],
  ['a thrown null', '() => { throw null; }', /^!null$/],
  ['a thrown proxy', '() => { throw new Proxy({}, { get() { throw 1; } }); }', /^!an object that cannot be read$/],
  [
    'an error whose prototype is a trap',
    '() => { throw new Proxy(new Error("x"), { getPrototypeOf() { for (;;); } }); }',
    /^!Error: x$/,
  ],
  ['a rejection that nobody handles', '() => { Promise.reject(new Error("x")); return "x"; }', /^~.*$/s],
  ['a forged timeout', '() => { Promise.reject(new Error("Script execution timed out.")); return "x"; }', /^~.*$/s],
  [
    'a stack trace without end',
    '() => { Error.stackTraceLimit = Infinity; const f = () => f(); f(); }',
    /^!RangeError.*$/,
  ],
  ['a broken JSON', '() => { JSON.stringify = JSON.parse = null; return "x"; }', /^~.*$/s],
  ['a broken Promise', 'async () => { Promise = null; globalThis.Promise = null; return "x"; }', /^~.*$/s],
  [
    'a then that is replaced',
    'async () => { Promise.prototype.then = () => { for (;;); }; await 1; return "x"; }',
    /^~.*$/s,
  ],
  [
    'an iterator that is replaced',
    '() => { Array.prototype[Symbol.iterator] = () => { for (;;); }; return "x"; }',
    /^~.*$/s,
  ],
  [
    'setters on Object.prototype',
    '() => { for (const k of ["value", "get", "resolve", "reject", "0", "1"]) Object.defineProperty(Object.prototype, k, { __proto__: null, set() { for (;;); }, configurable: true }); return "x"; }',
    /^~.*$/s,
  ],
  [
    'toJSON on Object.prototype',
    '(v, t) => { Object.prototype.toJSON = String.prototype.toJSON = Array.prototype.toJSON = () => "stolen"; t.log(1); return "x"; }',
    /^~.*$/s,
  ],
  [
    'a Map that is replaced',
    '(v, t) => { Map.prototype.get = Map.prototype.set = Map.prototype.delete = () => { throw 1; }; t.ask(1); return "x"; }',
    /^~.*$/s,
  ],
];

describe('an attack costs its own run, and nothing else', () => {
  it.each(attacks)('%s', async (_, attack, end) => {
    const account = 'attacker';
    const chain = [
      handlerOf('(v) => v + "b"', { timeoutMs: 5_000 }, { account }),
      handlerOf(attack, { timeoutMs: 250, advances: false }, { account }),
      handlerOf('async (v) => v + "c"', { timeoutMs: 5_000 }, { account }),
    ];
    const neighbour = handlerOf('async (v, t) => v + await t.ask()', { timeoutMs: 5_000 }, { account: 'neighbour' });
    const [outcomes, beside] = await Promise.all([
      outcomesOf(sandbox, chain, { account }),
      outcomesOf(sandbox, [neighbour], { account: 'neighbour' }),
    ]);
    expect(said(outcomes[1])).toMatch(end);
    expect([said(outcomes[0]), said(outcomes[2])]).toEqual([changedTo('ab'), changedTo('abc')]);
    expect(beside.map(said)).toEqual([changedTo('aok')]);
    // Once more, warm: handlers that are loaded are entered together, and the end must be the same.
    const again = await outcomesOf(sandbox, chain, { account });
    expect(said(again[1])).toMatch(end);
    expect([said(again[0]), said(again[2])]).toEqual([changedTo('ab'), changedTo('abc')]);
  });
});

describe('what a run leaves behind', () => {
  it('does not take the blame to the handler after it', async () => {
    const leaves = handlerOf('(v) => { (async () => { for (;;) await null; })(); return v + "b"; }');
    const after = handlerOf('async (v, t) => v + await t.ask()');
    for (let round = 0; round < 2; round++) {
      const outcomes = await outcomesOf(sandbox, [leaves, after], {
        onCall: () => Promise.resolve({ kind: 'value', json: '"c"' }),
      });
      expect(outcomes.map(said)).toEqual([changedTo('ab'), changedTo('abc')]);
    }
  });

  it('never runs again after a timeout', async () => {
    let asked = 0;
    const code =
      '(v, t) => { const wait = async () => { for (;;) { await t.ask().catch(() => {}); await null; } }; return new Promise(() => { t.ask().then(wait); }); }';
    const outcomes = await outcomesOf(sandbox, [handlerOf(code, { timeoutMs: 100 }), handlerOf('(v) => v + "c"')], {
      onCall: () => {
        asked++;
        return new Promise((resolve) => setTimeout(() => resolve({ kind: 'value', json: '1' }), 150));
      },
    });
    expect(outcomes.map(said)).toEqual(['timed_out async', changedTo('ac')]);
    const before = asked;
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(asked).toBe(before);
  });

  it('lets a log line through only as often as a run may call', async () => {
    let lines = 0;
    await outcomesOf(
      sandbox,
      [handlerOf('(v, t) => { for (let i = 0; i < 5000; i++) t.log(i); return v; }', { timeoutMs: 5_000 })],
      {
        onCall: () => {
          lines++;
          return Promise.resolve({ kind: 'value', json: 'null' });
        },
      },
    );
    expect(lines).toBe(1000);
  });

  it('tells the notes of a handler that was cut', async () => {
    const outcomes = await outcomesOf(sandbox, [
      handlerOf('() => { for (;;); }'),
      handlerOf('() => new Promise(() => {})'),
    ]);
    expect(outcomes.map((outcome) => (outcome.kind === 'failed' ? outcome.notes : ''))).toEqual([
      '["began"]',
      '["began"]',
    ]);
  });
});
