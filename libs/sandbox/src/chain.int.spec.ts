import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import type { CallAnswer, GuestCall, HandlerOutcome, Sandbox } from './index.js';
import { startSandbox } from './index.js';
import { chainOf, changedTo, handlerOf, outcomesOf, realmOf, said } from './testing/harness.js';

// Only so that a slow machine does not fail what has no time in it.
jest.setTimeout(60_000);

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({});
});
afterAll(() => sandbox.close());

const value = (json: string): CallAnswer => ({ kind: 'value', json });

describe('a chain', () => {
  const handlers = [handlerOf('(v) => v + "b"'), handlerOf('async (v) => v'), handlerOf('async (v) => v + "c"')];

  it.each(['the first time', 'warm', 'and again'])('gives every handler what those before it left: %s', async () => {
    const outcomes = await outcomesOf(sandbox, handlers);
    expect(outcomes.map(said)).toEqual([changedTo('ab'), '=', changedTo('abc')]);
    expect(outcomes.every((outcome) => outcome.kind === 'returned' && outcome.durationMs > 0 && !outcome.late)).toBe(
      true,
    );
  });

  it('keeps a patch from the handlers after it where it does not advance', async () => {
    const [first, second] = [handlerOf('() => "x"', { advances: false }), handlerOf('(v) => v + "!"')];
    for (let round = 0; round < 2; round++) {
      expect((await outcomesOf(sandbox, [first, second])).map(said)).toEqual([changedTo('x'), changedTo('a!')]);
    }
  });

  it('ends at a tag that it stops on, and says that the rest did not run', async () => {
    const chain = [
      handlerOf('(v) => v + "b"'),
      handlerOf('() => { throw Error("no") }', { stopsOn: ['!'] }),
      handlerOf('(v) => v'),
    ];
    for (let round = 0; round < 2; round++) {
      expect((await outcomesOf(sandbox, chain)).map(said)).toEqual([changedTo('ab'), '!Error: no', 'not_run']);
    }
  });

  it('goes on after a tag that it does not stop on', async () => {
    const chain = [handlerOf('() => { throw Error("no") }', { stopsOn: ['?', 'failed'] }), handlerOf('(v) => v + "c"')];
    for (let round = 0; round < 2; round++) {
      expect((await outcomesOf(sandbox, chain)).map(said)).toEqual(['!Error: no', changedTo('ac')]);
    }
  });

  it.each([
    ['a loop', '() => { for (;;); }'],
    ['an endless wait', '() => new Promise(() => {})'],
    ['a call that nothing can interrupt', '() => [].indexOf.call({ length: 2 ** 53 - 1 }, 1)'],
  ])('ends at %s where it stops on failures', async (_, code) => {
    const chain = [handlerOf(code, { stopsOn: ['failed'], timeoutMs: 100 }), handlerOf('(v) => v')];
    expect((await outcomesOf(sandbox, chain)).map((outcome) => outcome.kind)).toEqual(['failed', 'not_run']);
  });

  it('passes over a plugin that cannot be loaded', async () => {
    const broken = { ...handlerOf(''), realm: realmOf('throw new TypeError("not today")') };
    const outcomes = await outcomesOf(sandbox, [handlerOf('(v) => v + "b"'), broken, handlerOf('(v) => v + "c"')]);
    expect(outcomes.map(said)).toEqual([changedTo('ab'), 'not loaded: TypeError: not today', changedTo('abc')]);
  });

  it('with no handlers is over at once', async () => {
    expect(await sandbox.run(chainOf([])).result(0)).toEqual({ kind: 'not_run' });
  });

  it('gives every handler its own copy of the context', async () => {
    const chain = [
      handlerOf('(v) => { v.list.push(2); v.added = 1; return v; }'),
      handlerOf('(v) => JSON.stringify(v)'),
    ];
    const outcomes = await outcomesOf(sandbox, chain, { value: { list: [1] } });
    expect(outcomes.map(said)).toEqual(['=', changedTo('{"list":[1]}')]);
  });

  it('applies a patch with a __proto__ key as an own key', async () => {
    const chain = [
      handlerOf('() => JSON.parse(\'{"__proto__":{"evil":1}}\')'),
      handlerOf('(v) => [Object.keys(v), Object.getPrototypeOf(v) === Object.prototype, v.evil === undefined]'),
    ];
    for (let round = 0; round < 2; round++) {
      expect(said((await outcomesOf(sandbox, chain))[1])).toBe(changedTo([['__proto__'], true, true]));
    }
  });
});

describe('a call to the host', () => {
  it('is answered, in the middle of a chain, with all that chain left before it', async () => {
    const asked: GuestCall[] = [];
    const chain = [
      handlerOf('(v) => v + "b"'),
      handlerOf('async (v, t) => v + await t.ask(v, 1)'),
      handlerOf('(v) => v + "d"'),
    ];
    for (let round = 0; round < 2; round++) {
      const outcomes = await outcomesOf(sandbox, chain, {
        onCall: (call) => {
          asked.push(call);
          return Promise.resolve(value('"c"'));
        },
      });
      expect(outcomes.map(said)).toEqual([changedTo('ab'), changedTo('abc'), changedTo('abcd')]);
    }
    const { handlerIndex, pluginId, callNumber, member, args, misfit } = asked[1] ?? {};
    expect({ handlerIndex, callNumber, member, args, misfit }).toEqual({
      handlerIndex: 1,
      callNumber: 0,
      member: 'ask',
      args: '["ab",1]',
      misfit: null,
    });
    expect(pluginId).toBe(chain[1]?.realm.pluginId);
  });

  it('rejects with the message and code that the host gave', async () => {
    const code =
      'async (v, t) => { try { await t.ask(); } catch (e) { return [e instanceof Error, e.message, e.code]; } }';
    const outcomes = await outcomesOf(sandbox, [handlerOf(code)], {
      onCall: () => Promise.resolve({ kind: 'error', message: 'not you', code: 'denied' }),
    });
    expect(said(outcomes[0])).toBe(changedTo([true, 'not you', 'denied']));
  });

  it('rejects when the host itself fails, without its words', async () => {
    const outcomes = await outcomesOf(sandbox, [handlerOf('(v, t) => t.ask().catch((e) => e.message)')], {
      onCall: () => Promise.reject(new Error('postgres://secret')),
    });
    expect(said(outcomes[0])).toBe(changedTo('The host could not answer.'));
  });

  it('is told to the host before the result of the handler, in the order of asking', async () => {
    const seen: string[] = [];
    const chain = [handlerOf('(v, t) => { t.log(1); t.ask(2); t.log(3); return "done"; }')];
    for (let round = 0; round < 2; round++) {
      const running = sandbox.run(
        chainOf(chain, {
          onCall: (call) => {
            seen.push(`${call.callNumber} ${call.member} ${call.args}`);
            return Promise.resolve(value('1'));
          },
        }),
      );
      await running.result(0).then(() => seen.push('result'));
    }
    const once = ['0 log [1]', '1 ask [2]', '2 log [3]', 'result'];
    expect(seen).toEqual([...once, ...once]);
  });

  it('is revoked when the run is over, and its late answer reaches nobody', async () => {
    let call: GuestCall | undefined;
    let answer: (given: CallAnswer) => void = () => undefined;
    const code = '(v, t) => { globalThis.late = []; t.ask().then((x) => late.push(x)); return "done"; }';
    const leaver = handlerOf(code);
    const looker = {
      ...leaver,
      handler: 'look',
      realm: { ...leaver.realm, code: `${leaver.realm.code}; on.look = () => late;` },
    };
    const leaves = { ...leaver, realm: looker.realm };
    const outcomes = await outcomesOf(sandbox, [leaves], {
      onCall: (asked) => {
        call = asked;
        return new Promise((resolve) => {
          answer = resolve;
        });
      },
    });
    expect(said(outcomes[0])).toBe(changedTo('done'));
    expect(call?.signal.aborted).toBe(true);
    answer(value('"late"'));
    expect(said((await outcomesOf(sandbox, [looker]))[0])).toBe(changedTo([]));
  });

  it('after the end of the run rejects at once and nothing leaves the realm', async () => {
    let asked = 0;
    const kept = realmOf(
      'let tools; on.keep = (v, t) => { tools = t; return v; };' +
        'on.use = async () => { tools.log(1); try { await tools.ask(); return "answered"; } catch (e) { return [e.code, tools.isOpen()]; } };',
    );
    const on = (name: string) => ({ ...handlerOf(''), handler: name, realm: kept });
    const onCall = (): Promise<CallAnswer> => {
      asked++;
      return Promise.resolve(value('1'));
    };
    await outcomesOf(sandbox, [on('keep')], { onCall });
    expect(said((await outcomesOf(sandbox, [on('use')], { onCall }))[0])).toBe(changedTo(['run_closed', false]));
    expect(asked).toBe(0);
  });

  it('says which arguments are not JSON', async () => {
    const misfits: (string | null)[] = [];
    const big = '"x".repeat(300 * 1024)';
    const code = `async (v, t) => { await t.ask(1n).catch(() => {}); await t.ask(${big}).catch(() => {}); t.ask({ toJSON() { throw Error("mine"); } }); return v; }`;
    await outcomesOf(sandbox, [handlerOf(code)], {
      onCall: (call) => {
        misfits.push(call.args === null ? call.misfit : 'fits');
        return Promise.resolve({ kind: 'error', message: 'no' });
      },
    });
    expect(misfits).toEqual([
      'TypeError: Do not know how to serialize a BigInt',
      'The arguments are too large.',
      'Error: mine',
    ]);
  });

  it('can be open 64 times at once, not more', async () => {
    let open = 0;
    let most = 0;
    const code = `async (v, t) => {
      const all = []; for (let i = 0; i < 100; i++) all.push(t.ask(i).then(() => 'ok', (e) => e.code));
      const said = await Promise.all(all); return [said.filter((s) => s === 'ok').length, said[99]];
    }`;
    const outcomes = await outcomesOf(sandbox, [handlerOf(code)], {
      onCall: async () => {
        most = Math.max(most, ++open);
        await new Promise((resolve) => setTimeout(resolve, 20));
        open--;
        return value('1');
      },
    });
    expect(said(outcomes[0])).toBe(changedTo([64, 'too_many_open_calls']));
    expect(most).toBe(64);
  });
});

describe('the clock of a handler', () => {
  it('stands still while a call of a pausing member is out', async () => {
    const answers = (ms: number) => () =>
      new Promise<CallAnswer>((resolve) => setTimeout(() => resolve(value('"slow"')), ms));
    const chain = [handlerOf('async (v, t) => await t.slow() + v', { timeoutMs: 100, ceilingMs: 5_000 })];
    expect((await outcomesOf(sandbox, chain, { onCall: answers(400) })).map(said)).toEqual([changedTo('slowa')]);
  });

  it('does not stand still beyond its ceiling', async () => {
    const chain = [
      handlerOf('async (v, t) => await t.slow() + v', { timeoutMs: 100, ceilingMs: 300 }),
      handlerOf('(v) => v + "b"'),
    ];
    const outcomes = await outcomesOf(sandbox, chain, { onCall: () => new Promise(() => undefined) });
    expect(outcomes.map(said)).toEqual(['timed_out async', changedTo('ab')]);
  });

  it('runs during every other call', async () => {
    const chain = [handlerOf('async (v, t) => await t.ask() + v', { timeoutMs: 100, ceilingMs: 5_000 })];
    const outcomes = await outcomesOf(sandbox, chain, { onCall: () => new Promise(() => undefined) });
    expect(outcomes.map(said)).toEqual(['timed_out async']);
  });

  it('does not count what other chains of the account do meanwhile', async () => {
    let answer: (given: CallAnswer) => void = () => undefined;
    const waiting = outcomesOf(sandbox, [handlerOf('async (v, t) => v + await t.ask()', { timeoutMs: 250 })], {
      onCall: () =>
        new Promise((resolve) => {
          answer = resolve;
        }),
    });
    const busy = handlerOf('() => { const end = Date.now() + 400; while (Date.now() < end); return "busy"; }', {
      timeoutMs: 5_000,
    });
    expect(said((await outcomesOf(sandbox, [busy]))[0])).toBe(changedTo('busy'));
    answer(value('"b"'));
    expect((await waiting).map(said)).toEqual([changedTo('ab')]);
  });

  it('is over for a handler only: the next one has all of its own time', async () => {
    const slow = '(v) => { const end = Date.now() + 180; while (Date.now() < end); return v + "."; }';
    const outcomes = await outcomesOf(
      sandbox,
      [slow, slow, slow].map((code) => handlerOf(code)),
    );
    expect(outcomes.map(said)).toEqual([changedTo('a.'), changedTo('a..'), changedTo('a...')]);
  });
});

describe('chains of one account at the same time', () => {
  it('do not wait for one another at a host call', async () => {
    const answers: ((given: CallAnswer) => void)[] = [];
    const waiting = Array.from({ length: 20 }, (_, n) =>
      outcomesOf(sandbox, [handlerOf('async (v, t) => v + await t.ask()', { timeoutMs: 20_000 })], {
        value: n,
        onCall: () =>
          new Promise((resolve) => {
            answers.push(resolve);
          }),
      }),
    );
    while (answers.length < 20) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(said((await outcomesOf(sandbox, [handlerOf('(v) => v + "!"')]))[0])).toBe(changedTo('a!'));
    for (const answer of answers) answer(value('1'));
    expect((await Promise.all(waiting)).map(([outcome]) => said(outcome))).toEqual(
      Array.from({ length: 20 }, (_, n) => changedTo(n + 1)),
    );
  });

  it.each([
    ['a loop', '() => { for (;;); }', 'timed_out sync'],
    ['a memory bomb', '() => { const a = []; for (;;) a.push(new Array(1000).fill("x")); }', 'crashed memory'],
    ['what nothing can interrupt', '() => [].indexOf.call({ length: 2 ** 53 - 1 }, 1)', 'timed_out killed'],
  ])('lose nothing when one of them is %s: who waits begins again and does not ask again', async (_, bomb, end) => {
    const asked: string[] = [];
    let answer: (given: CallAnswer) => void = () => undefined;
    const account = `bystander ${end}`;
    const code =
      'async (v, t) => { const one = await t.ask(1); t.log("x"); const two = await t.ask(one); return v + one + two; }';
    const waiting = outcomesOf(sandbox, [handlerOf(code, { timeoutMs: 20_000 }, { account })], {
      account,
      onCall: (call) => {
        asked.push(`${call.callNumber} ${call.member} ${call.args}`);
        if (call.args === '[1]') return Promise.resolve(value('"b"'));
        return new Promise((resolve) => {
          answer = resolve;
        });
      },
    });
    while (asked.length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
    const limit = end === 'crashed memory' ? 20_000 : 300;
    expect(
      said((await outcomesOf(sandbox, [handlerOf(bomb, { timeoutMs: limit }, { account })], { account }))[0]),
    ).toBe(end);
    answer(value('"c"'));
    expect((await waiting).map(said)).toEqual([changedTo('abc')]);
    expect(asked).toEqual(['0 ask [1]', '1 log ["x"]', '2 ask ["b"]']);
  });
});

describe('a realm', () => {
  it('is warm: what a plugin keeps is there the next time', async () => {
    const counter = handlerOf('((n) => () => ++n)(0)');
    const counts: string[] = [];
    for (let round = 0; round < 3; round++) counts.push(said((await outcomesOf(sandbox, [counter]))[0]));
    expect(counts).toEqual([changedTo(1), changedTo(2), changedTo(3)]);
  });

  it('is new for every run where it is fresh, however often', async () => {
    const counter = handlerOf('((n) => () => ++n)(0)', {}, { isolation: 'fresh', account: 'fresh' });
    const seen = new Set<string>();
    for (let round = 0; round < 200; round++) seen.add(said((await outcomesOf(sandbox, [counter]))[0]));
    expect([...seen]).toEqual([changedTo(1)]);
  });

  it('is new for another revision of the plugin', async () => {
    const first = handlerOf('((n) => () => ++n)(0)');
    const second = { ...first, realm: { ...first.realm, digest: '2' } };
    const counts = [];
    for (const handler of [first, first, second]) counts.push(said((await outcomesOf(sandbox, [handler]))[0]));
    expect(counts).toEqual([changedTo(1), changedTo(2), changedTo(1)]);
  });

  it('is dropped when the plugin is forgotten, but not under a chain that is using it', async () => {
    const counter = handlerOf('((n) => async (v, t) => { ++n; await t.ask(); return n; })(0)', { timeoutMs: 20_000 });
    let answer: (given: CallAnswer) => void = () => undefined;
    await outcomesOf(sandbox, [counter]);
    const running = outcomesOf(sandbox, [counter, counter], {
      onCall: ({ handlerIndex }) =>
        handlerIndex === 1
          ? Promise.resolve(value('1'))
          : new Promise((resolve) => {
              answer = resolve;
              sandbox.forget('acme', counter.realm.pluginId);
              setTimeout(() => answer(value('1')), 20);
            }),
    });
    expect((await running).map(said)).toEqual([changedTo(2), changedTo(3)]);
    expect(said((await outcomesOf(sandbox, [counter]))[0])).toBe(changedTo(1));
  });

  it('serves one run at a time: who comes meanwhile gets another, and both are kept', async () => {
    const answers: ((given: CallAnswer) => void)[] = [];
    const counter = handlerOf('((n) => async (v, t) => { const mine = ++n; await t.ask(); return [mine, n]; })(0)', {
      timeoutMs: 20_000,
    });
    const onCall = (): Promise<CallAnswer> => new Promise((resolve) => answers.push(resolve));
    const first = outcomesOf(sandbox, [counter], { onCall });
    const second = outcomesOf(sandbox, [counter], { onCall });
    while (answers.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    for (const answer of answers) answer(value('1'));
    expect([said((await first)[0]), said((await second)[0])]).toEqual([changedTo([1, 1]), changedTo([1, 1])]);
    expect(said((await outcomesOf(sandbox, [counter]))[0])).toBe(changedTo([2, 2]));
  });

  it('that was not used for longest goes when there are too many', async () => {
    const account = 'many plugins';
    const counters = Array.from({ length: 140 }, () =>
      handlerOf('((n) => () => ++n)(0)', { timeoutMs: 5_000 }, { account }),
    );
    for (const counter of counters) expect(said((await outcomesOf(sandbox, [counter]))[0])).toBe(changedTo(1));
    const again = async (at: number): Promise<string> => {
      const counter = counters[at];
      return counter === undefined ? '' : said((await outcomesOf(sandbox, [counter]))[0]);
    };
    expect([await again(139), await again(138), await again(0)]).toEqual([changedTo(2), changedTo(2), changedTo(1)]);
  });

  it('of one plugin is not seen by another', async () => {
    const chain = [
      handlerOf(
        '(v) => { globalThis.mine = 1; Array.prototype.mine = 1; Object.prototype.polluted = 1; Promise.prototype.then = null; return v; }',
      ),
      handlerOf(
        '(v) => [typeof mine, [].mine === undefined, {}.polluted === undefined, typeof Promise.prototype.then]',
      ),
    ];
    for (let round = 0; round < 2; round++) {
      expect(said((await outcomesOf(sandbox, chain))[1])).toBe(changedTo(['undefined', true, true, 'function']));
    }
  });

  it.each(['warm', 'fresh'] as const)(
    'in which nothing can happen any more ends its wait at once: %s',
    async (isolation) => {
      const waiter = handlerOf('() => new Promise(() => {})', { timeoutMs: 600_000 }, { isolation });
      const asker = handlerOf(
        'async (v, t) => { await t.ask(); await new Promise(() => {}); }',
        { timeoutMs: 600_000 },
        { isolation },
      );
      for (let round = 0; round < 2; round++) {
        expect((await outcomesOf(sandbox, [waiter, asker])).map(said)).toEqual(['timed_out async', 'timed_out async']);
      }
    },
  );
});

describe('stopping a chain', () => {
  it('ends what waits, revokes its calls and runs nothing more', async () => {
    let call: GuestCall | undefined;
    const chain = [handlerOf('async (v, t) => await t.ask()', { timeoutMs: 20_000 }), handlerOf('(v) => v')];
    const running = sandbox.run(
      chainOf(chain, {
        onCall: (asked) => {
          call = asked;
          return new Promise(() => undefined);
        },
      }),
    );
    const results = Promise.all([running.result(0), running.result(1)]);
    while (call === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
    running.stop();
    expect((await results).map(({ kind }) => kind)).toEqual(['not_run', 'not_run']);
    expect(call.signal.aborted).toBe(true);
  });

  it('works through a signal, before and while it runs', async () => {
    const controller = new AbortController();
    const outcomes = outcomesOf(sandbox, [handlerOf('() => new Promise(() => {})', { timeoutMs: 20_000 })], {
      signal: controller.signal,
    });
    controller.abort();
    expect((await outcomes).map(said)).toEqual(['not_run']);
    expect((await outcomesOf(sandbox, [handlerOf('(v) => v')], { signal: controller.signal })).map(said)).toEqual([
      'not_run',
    ]);
  });
});

describe('loading', () => {
  const load = (code: string) => sandbox.load(realmOf(code), 300);

  it('reports what the guest program found', async () => {
    expect(await load('on.one = () => {}; on.two = () => {};')).toMatchObject({
      kind: 'loaded',
      report: '{"names":["one","two"],"setup":{}}',
    });
  });

  it.each([
    [
      'a syntax error',
      'let a = 1;\n  let b = ;',
      { cause: 'syntax', message: "Unexpected token ';'", line: 2, column: 11 },
    ],
    ['an end that comes too early', 'on.it = () => {\n', { cause: 'syntax', message: 'Unexpected end of input' }],
    ['an open comment', 'let a;\n/* no end', { cause: 'syntax', line: 2, column: 1 }],
    ['a name that is taken', 'let a;\nlet a;', { cause: 'syntax', line: 2, column: 5 }],
    ['a throw', '\n throw new TypeError("mine")', { cause: 'threw', message: 'TypeError: mine', line: 2, column: 8 }],
    ['a string that is thrown', 'throw "words"', { cause: 'threw', message: 'words' }],
    ['a long throw', 'throw new Error("x".repeat(5000))', { cause: 'threw', message: `Error: ${'x'.repeat(493)}` }],
    ['a loop', 'for (;;);', { cause: 'timed_out' }],
    ['a microtask loop', '(async () => { for (;;) await null; })()', { cause: 'timed_out' }],
    ['a builtin that never ends', '[].indexOf.call({ length: 2 ** 53 - 1 }, 1)', { cause: 'timed_out' }],
    ['a thrown getter that loops', 'throw { get message() { for (;;); } }', { cause: 'timed_out' }],
    ['an import', 'import fs from "node:fs"', { cause: 'syntax' }],
  ])('tells of %s', async (_, code, expected) => {
    expect(await load(code)).toMatchObject({ kind: 'failed', ...expected });
  });

  it('tells of a memory bomb', async () => {
    const outcome = await sandbox.load(realmOf('const a = []; for (;;) a.push(new Array(1000).fill("x"));'), 20_000);
    expect(outcome).toMatchObject({ kind: 'failed', cause: 'crashed' });
  });

  it.each([
    ['a promise as its last value', 'on.it = () => 1;\nPromise.resolve(1)'],
    ['a rejected promise', 'on.it = () => 1;\nPromise.reject(new Error("later"))'],
    ['a comment as its last line', 'on.it = () => 1; // the end'],
    ['a promise that never comes', 'on.it = () => 1; (async () => { await new Promise(() => {}); })();'],
    ['nothing', ''],
  ])('is content with %s', async (_, code) => {
    expect(await load(code)).toMatchObject({ kind: 'loaded' });
  });

  it('refuses a source of more than 1 MiB', async () => {
    expect(await load('/'.repeat(1024 * 1024 + 1))).toMatchObject({
      kind: 'failed',
      message: 'The source is larger than 1 MiB.',
    });
    expect(await load(`//${'x'.repeat(1024 * 1024 - 2)}`)).toMatchObject({ kind: 'loaded' });
  });

  it('does not touch the chains of the account, even when it takes the process down', async () => {
    const account = 'loader';
    const waiting = outcomesOf(
      sandbox,
      [handlerOf('async (v, t) => v + await t.ask()', { timeoutMs: 20_000 }, { account })],
      {
        onCall: () => new Promise((resolve) => setTimeout(() => resolve(value('"b"')), 1500)),
      },
    );
    const outcome = await sandbox.load(realmOf('[].indexOf.call({ length: 2 ** 53 - 1 }, 1)', { account }), 200);
    expect(outcome).toMatchObject({ kind: 'failed', cause: 'timed_out' });
    expect((await waiting).map(said)).toEqual([changedTo('ab')]);
  });
});

describe('text', () => {
  it.each([
    ['NUL', 'a\u0000b'],
    ['a lone high surrogate', 'a\ud800b'],
    ['a lone low surrogate', '\udc00'],
    ['line separators', 'a\u2028b\u2029c\n\r'],
    ['everything below 256', String.fromCharCode(...Array.from({ length: 256 }, (_, i) => i))],
    ['emoji', '👩‍👩‍👧‍👦 🇩🇪'],
  ])('crosses without loss: %s', async (_, text) => {
    for (const given of [text, text.repeat(3000)]) {
      const asked: unknown[] = [];
      const chain = [
        handlerOf('(v) => v + v'),
        handlerOf('async (v, t) => v + await t.ask(v.slice(0, 3))', { timeoutMs: 5_000 }),
      ];
      const outcomes: HandlerOutcome[] = await outcomesOf(sandbox, chain, {
        value: given,
        onCall: ({ args }) => {
          asked.push(JSON.parse(args ?? 'null'));
          return Promise.resolve(value(JSON.stringify(given)));
        },
      });
      const [first, second] = outcomes.map((outcome) => JSON.parse(said(outcome).slice(1)) as { value: string });
      expect(first?.value === given + given).toBe(true);
      expect(second?.value === given + given + given).toBe(true);
      expect(asked).toEqual([[(given + given).slice(0, 3)]]);
    }
  });

  it('crosses raw where the input has lone surrogates as they are', async () => {
    const text = `\ud800${'x'.repeat(5000)}\udfff`;
    const running = sandbox.run({
      ...chainOf([handlerOf('(v) => [v.length, v.charCodeAt(0), v.charCodeAt(5001)]')]),
      input: `{"value":"${text}"}`,
    });
    expect(said(await running.result(0))).toBe(changedTo([5002, 0xd800, 0xdfff]));
  });

  it.each(['x', 'ü', '漢'])('of 8 MiB goes in, through three handlers, and out: %s', async (letter) => {
    const text = letter.repeat((8 * 1024 * 1024) / Buffer.byteLength(letter));
    const chain = ['b', 'c', 'd'].map((end) => handlerOf(`(v) => v + "${end}"`, { timeoutMs: 10_000 }));
    const outcomes = await outcomesOf(sandbox, chain, { value: text });
    expect(outcomes.map((outcome) => said(outcome).length)).toEqual(
      [1, 2, 3].map((n) => text.length + n + '~{"value":""}\n'.length),
    );
    expect(said(outcomes[2]) === changedTo(`${text}bcd`)).toBe(true);
  });

  it('of 8 MiB comes back as an answer', async () => {
    const text = 'y'.repeat(8 * 1024 * 1024);
    const outcomes = await outcomesOf(
      sandbox,
      [handlerOf('async (v, t) => (await t.ask()).length', { timeoutMs: 10_000 })],
      {
        onCall: () => Promise.resolve(value(JSON.stringify(text))),
      },
    );
    expect(said(outcomes[0])).toBe(changedTo(text.length));
  });
});
