import { createContext, runInContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Json, JsonObject } from '#record';
import { catalogue } from './catalogue.js';
import { middleware } from './middleware.js';

/** A realm of this process: good enough for what the program says; the real one is tried in test/. */
interface GuestRealm {
  readonly report: () => string;
  readonly call: (handler: string, input: string, patches: string, args: string, run: GuestRun) => unknown;
  readonly evaluate: (code: string) => unknown;
}

interface GuestRun {
  open: boolean;
  done(raw: string): void;
  note(text: string): void;
  call(member: string, args: unknown): Promise<unknown>;
  emit(member: string, args: unknown): void;
}

interface Call {
  readonly member: string;
  readonly args: string;
}

const everything = ['host:agents:list', 'host:fetch', 'host:llm', 'host:decide', 'host:ssh:command'];

const realm = (code: string, permissions: readonly string[] = everything, config: Json = {}): GuestRealm => {
  const world = createContext({});
  const program = runInContext(`(${middleware.guest})`, world) as (kit: unknown, setup: unknown) => GuestRealm;
  const parse = runInContext('JSON.parse', world) as typeof JSON.parse;
  const { report, call } = program({}, parse(middleware.setup({ permissions, config })));
  const evaluate = (text: string): unknown => runInContext(text, world);
  evaluate(code);
  return { report, call, evaluate };
};

interface Seen {
  readonly raw: string;
  readonly notes: string;
  readonly calls: readonly Call[];
}

/** Runs one handler to its end; host calls answer `answers[member]`, or reject when they were refused. */
const run = async (
  world: GuestRealm,
  hook: string,
  context: JsonObject,
  { patches = '[]', hop = 0, answers = {} }: { patches?: string; hop?: number; answers?: JsonObject } = {},
): Promise<Seen> => {
  const calls: Call[] = [];
  let notes = '';
  const raw = await new Promise<string>((resolve) => {
    const take = (member: string, args: unknown): string => {
      const text = JSON.stringify(args);
      calls.push({ member, args: text });
      return text;
    };
    const guestRun: GuestRun = {
      open: true,
      done: (text) => {
        guestRun.open = false;
        resolve(text);
      },
      note: (text) => {
        notes = text;
      },
      call: (member, args) => {
        const { refused } = JSON.parse(take(member, args)) as { readonly refused?: string };
        return refused === undefined ? Promise.resolve(answers[member] ?? null) : Promise.reject(new Error(refused));
      },
      emit: take,
    };
    const args = middleware.args(hook, middleware.hostView(hook, context, hop));
    world.report();
    world.call(hook, JSON.stringify(context), patches, args, guestRun);
  });
  return { raw, notes, calls };
};

const contexts: { readonly [hook: string]: JsonObject } = {
  systemPrompt: { sessionId: '1', agentId: '2', sessionKind: 'direct', systemPrompt: 'be good' },
  userMessageInbound: { sessionId: '1', channelId: null, text: 'hello', mediaIds: ['9'] },
  interAgentMessage: {
    senderSessionId: '1',
    senderAgentId: '2',
    targetSessionId: '3',
    isSubagentReport: false,
    text: 'hello',
  },
  assistantMessageOutbound: { sessionId: '1', channelId: null, text: 'hello' },
  todoAdded: { sessionId: '1', texts: ['a', 'b'] },
  notifyScheduled: { sessionId: '1', message: 'wake', delaySeconds: 5 },
  notifyDelivered: { sessionId: '1', notifyId: '4', message: 'wake' },
  sshConnectionOpening: {
    sessionId: '1',
    agentId: '2',
    sshHostId: '5',
    hostDisplayName: 'web',
    hostname: 'h',
    port: 22,
    connectionType: 'direct',
    username: 'u',
  },
  sshCommandSending: {
    sessionId: '1',
    agentId: '2',
    sshHostId: '5',
    hostDisplayName: 'web',
    kind: 'command',
    command: 'ls',
    path: null,
    content: null,
  },
  sshCommandCompleted: {
    sessionId: '1',
    agentId: '2',
    sshHostId: '5',
    hostDisplayName: 'web',
    kind: 'command',
    command: 'ls',
    path: null,
    exitCode: 1,
    output: 'out',
    errorOutput: null,
    isTruncated: false,
    durationMs: 3,
  },
  sessionClearing: {
    sessionId: '1',
    agentId: '2',
    trailingText: null,
    messageCount: 1,
    subagentCount: 0,
    peerThreadCount: 0,
  },
  sessionClearCompleted: {
    sessionId: '1',
    agentId: '2',
    deletedMessageCount: 1,
    deletedSubagentCount: 0,
    deletedPeerThreadCount: 0,
  },
  cronJobFiring: { cronJobId: '6', agentId: '2', kind: 'cron_job', name: 'nightly', prompt: 'report' },
  cronJobCompleted: { cronJobId: '6', cronJobRunId: '7', sessionId: '1', agentId: '2', status: 'Succeeded' },
};

/** Result of a handler whose body is given, at a hook. */
const says = async (hook: string, body: string, context = contexts[hook] ?? {}): Promise<string> =>
  (await run(realm(`globalThis.middleware.${hook} = async (context, tools) => { ${body} };`), hook, context)).raw;

const text = (body: string) => says('userMessageInbound', body);
const patch = (body: string) => says('notifyScheduled', body);
const malformed = (detail: string) => `?[["handler_malformed","${detail}"]]`;

describe('registration', () => {
  const report = (code: string): unknown => JSON.parse(realm(code).report());

  it('takes functions of known hooks, and names the rest (MW-2)', () => {
    expect(
      report('middleware.todoAdded = () => []; middleware.systemPromt = () => 1; middleware.systemPrompt = "x";'),
    ).toEqual({ hooks: ['todoAdded'], notFunctions: ['systemPrompt'], unknown: ['systemPromt'] });
  });

  it('accepts a replaced object: own enumerable properties, each read once (MW-3)', () => {
    expect(
      report(`let reads = 0;
        const made = Object.create({ systemPrompt() {} });
        Object.defineProperty(made, 'todoAdded', { enumerable: true, get() { reads += 1; return reads === 1 ? () => [] : 5; } });
        Object.defineProperty(made, 'notifyDelivered', { enumerable: false, value: () => 'x' });
        globalThis.middleware = made;`),
    ).toEqual({ hooks: ['todoAdded'], notFunctions: [], unknown: [] });
  });

  it.each(['null', '5', '"x"', 'undefined'])('registers nothing when the object was replaced by %s', (value) => {
    expect(report(`globalThis.middleware = ${value};`)).toEqual({ hooks: [], notFunctions: [], unknown: [] });
  });

  it('survives getters, proxies and names of the language', () => {
    expect(
      report(`Object.defineProperty(middleware, 'todoAdded', { enumerable: true, get() { throw 1; } });
        middleware.constructor = () => 1; middleware.__proto__ = { systemPrompt() {} };`),
    ).toEqual({ hooks: [], notFunctions: ['todoAdded'], unknown: ['constructor'] });
    expect(report('globalThis.middleware = new Proxy({}, { ownKeys() { throw 1; } });')).toMatchObject({ hooks: [] });
  });

  it('is fixed after evaluation: what a handler assigns has no effect (MW-4)', async () => {
    const world = realm(`middleware.userMessageInbound = (c) => {
      globalThis.middleware ??= {}; middleware.userMessageInbound = () => 'other'; delete globalThis.middleware;
      return c.text + '!'; };`);
    world.report();
    const again = { ...world, report: () => '' };
    const context = contexts.userMessageInbound ?? {};
    expect((await run(again, 'userMessageInbound', context)).raw).toBe('~{"text":"hello!"}\n');
    expect((await run(again, 'userMessageInbound', context)).raw).toBe('~{"text":"hello!"}\n');
  });
});

describe('what a handler gets', () => {
  it.each([...catalogue.values()].map((hook) => [hook.name, hook.hasTools] as const))(
    '%s: a second argument is there: %s (MW-41)',
    async (hook, hasTools) => {
      const world = realm(`middleware.${hook} = (...all) => { host.log('info', String(all.length)); };`);
      const { calls } = await run(world, hook, contexts[hook] ?? {});
      expect(calls).toEqual([{ member: 'log', args: `["info","${hasTools ? '2' : '1'}"]` }]);
    },
  );

  it('is its own copy with the patches of those before it, in order (MW-12, MW-21)', async () => {
    const world = realm('middleware.notifyScheduled = (c) => ({ message: JSON.stringify(c) });');
    const { raw } = await run(world, 'notifyScheduled', contexts.notifyScheduled ?? {}, {
      patches: '[{"message":"one"},{"message":"two","delaySeconds":7}]',
    });
    expect(JSON.parse(raw.slice(1)) as Json).toEqual({
      message: '{"sessionId":"1","message":"two","delaySeconds":7}',
    });
  });

  it('is compared with what it got, not with what it made of it', async () => {
    expect(await patch('context.message = "x"; return context;')).toBe('~{"message":"x"}\n');
    expect(await text('context.text = "x"; return "hello";')).toBe('=');
    expect(await says('todoAdded', 'context.texts.push("c"); return context.texts;')).toBe(
      '~{"texts":["a","b","c"]}\n',
    );
  });
});

describe('a hook with one field', () => {
  it('takes a string, and passes what is unchanged (MW-30, MW-31, MW-36)', async () => {
    expect(await text('return context.text;')).toBe('=');
    expect(await text('return "";')).toBe('~{"text":""}\n');
    expect(await text('return "a\\u0000b\\ud800c\\u2028";')).toBe(`~{"text":"a\\u0000b\\ud800c\u2028"}\n`);
  });

  it.each([
    ['undefined', 'undefined'],
    ['null', 'null'],
    ['42', 'wrong_type:number'],
    ['true', 'wrong_type:boolean'],
    ['10n', 'wrong_type:bigint'],
    ['Symbol("x")', 'wrong_type:symbol'],
    ['() => "x"', 'wrong_type:function'],
    ['new String("x")', 'wrong_type:object'],
    ['new Date(0)', 'wrong_type:object'],
    ['["x"]', 'wrong_type:array'],
    ['({ text: "x" })', 'wrong_type:object'],
    ['(function* () { yield "x"; })()', 'wrong_type:object'],
    ['(async function* () { yield "x"; })()', 'wrong_type:object'],
  ])('does not take %s (MW-35)', async (value, detail) => {
    expect(await text(`return ${value};`)).toBe(malformed(detail));
  });

  it('awaits promises and thenables with the rules of the language (MW-5)', async () => {
    expect(await text('return Promise.resolve("x");')).toBe('~{"text":"x"}\n');
    expect(await text('return { then(ok) { ok("x"); } };')).toBe('~{"text":"x"}\n');
    expect(await text('return Promise.reject("no");')).toBe('?[["handler_threw","no"]]');
  });

  it('bounds a text by its UTF-8 bytes (MW-39)', async () => {
    expect(await text('return "x".repeat(8 * 1024 * 1024 + 1);')).toBe(malformed('too_large'));
    expect(await text('return "€".repeat(3 * 1024 * 1024);')).toBe(malformed('too_large'));
    expect((await text('return "€".repeat(2.5 * 1024 * 1024);')).startsWith('~')).toBe(true);
    expect((await text('return "x".repeat(8 * 1024 * 1024);')).startsWith('~')).toBe(true);
  });
});

describe('texts', () => {
  const texts = (body: string) => says('todoAdded', body);

  it('are a list of strings, the empty one included (MW-37)', async () => {
    expect(await texts('return [];')).toBe('~{"texts":[]}\n');
    expect(await texts('return ["a", "b"];')).toBe('=');
    expect(await texts('return ["b", "a"];')).toBe('~{"texts":["b","a"]}\n');
  });

  it.each([
    ['["a", 7]', 'item_type:1:number'],
    ['[, "a"]', 'item_type:0:undefined'],
    ['["a", ["b"]]', 'item_type:1:array'],
    ['["a", null]', 'item_type:1:null'],
    ['"a"', 'wrong_type:string'],
    ['({ 0: "a", length: 1 })', 'wrong_type:object'],
    ['Array.from({ length: 1001 }, () => "x")', 'too_many_items'],
    ['new Proxy([1], { get(_, key) { if (key !== "then") throw 1; } })', 'unreadable'],
  ])('do not take %s', async (value, detail) => {
    expect(await texts(`return ${value};`)).toBe(malformed(detail));
  });

  it('are bounded together (MW-39)', async () => {
    expect(await texts('return Array.from({ length: 900 }, () => "x".repeat(10_000));')).toBe(malformed('too_large'));
    expect(await texts('return Array.from({ length: 900 }, () => "€".repeat(4_000));')).toBe(malformed('too_large'));
    expect((await texts('return Array.from({ length: 900 }, () => "€".repeat(2_000));')).startsWith('~')).toBe(true);
  });

  it('never borrow an item from a prototype', async () => {
    expect(await texts('Array.prototype[0] = "stolen"; const a = []; a.length = 1; return a;')).toBe(
      malformed('item_type:0:undefined'),
    );
  });
});

describe('a patch', () => {
  it('changes the fields it holds and keeps the rest (MW-32)', async () => {
    expect(await patch('return {};')).toBe('=');
    expect(await patch('return { message: "x" };')).toBe('~{"message":"x"}\n');
    expect(await patch('return { ...context, delaySeconds: 9 };')).toBe('~{"delaySeconds":9}\n');
  });

  it('takes undefined for omitted, null only where null stood (MW-34)', async () => {
    expect(await patch('return { message: undefined, delaySeconds: undefined };')).toBe('=');
    expect(await patch('return { message: null };')).toBe(malformed('field_type:message:null'));
    const sending = (body: string) => says('sshCommandSending', body);
    expect(await sending('return { command: null };')).toBe(malformed('field_type:command:null'));
    expect(await sending('return { path: null, content: null };')).toBe('=');
    expect(await says('sshCommandCompleted', 'return { errorOutput: null };')).toBe('=');
  });

  it.each([
    ['undefined', 'undefined'],
    ['null', 'null'],
    ['"x"', 'wrong_type:string'],
    ['[]', 'wrong_type:array'],
    ['() => 1', 'wrong_type:function'],
    ['5n', 'wrong_type:bigint'],
    ['{ message: 5 }', 'field_type:message:number'],
    ['{ message: ["x"] }', 'field_type:message:array'],
    ['{ message: "x", delaySeconds: "60" }', 'field_type:delaySeconds:string'],
    ['{ message: "x", delaySeconds: 60n }', 'field_type:delaySeconds:bigint'],
    ['{ delaySeconds: NaN }', 'out_of_range:delaySeconds'],
    ['{ delaySeconds: Infinity }', 'out_of_range:delaySeconds'],
    ['{ delaySeconds: -0.001 }', 'out_of_range:delaySeconds'],
    ['{ delaySeconds: 2147483647.5 }', 'out_of_range:delaySeconds'],
    ['{ get message() { throw 1; } }', 'unreadable'],
    ['new Proxy({}, { ownKeys() { throw 1; } })', 'unreadable'],
  ])('is spoilt as a whole by %s (MW-35, MW-38, MW-66)', async (value, detail) => {
    expect(await patch(`return (${value});`)).toBe(malformed(detail));
  });

  it('keeps delays to the millisecond, with no minus zero (MW-66)', async () => {
    expect(await patch('return { delaySeconds: 1.23456 };')).toBe('~{"delaySeconds":1.235}\n');
    expect(await patch('return { delaySeconds: -0 };')).toBe('~{"delaySeconds":0}\n');
    expect(await patch('return { delaySeconds: 2147483647 };')).toBe('~{"delaySeconds":2147483647}\n');
    expect(await patch('return { delaySeconds: 5.0001 };')).toBe('=');
  });

  it('is read once per key, own enumerable string keys only (MW-38)', async () => {
    expect(await patch('let n = 0; return { get message() { n += 1; return "read " + n; } };')).toBe(
      '~{"message":"read 1"}\n',
    );
    expect(await patch('return Object.create({ message: "inherited" });')).toBe('=');
    expect(await patch('return Object.defineProperty({}, "message", { value: "hidden" });')).toBe('=');
    expect(await patch('return { [Symbol("message")]: "x" };')).toBe('=');
    expect(await patch('return new Proxy({ message: "p" }, {});')).toBe('~{"message":"p"}\n');
  });

  it('is never skipped over a stray key, which is told of (MW-83)', async () => {
    expect(await patch('return { mesage: "x", delaySeconds: 6 };')).toBe(
      '~{"delaySeconds":6}\n[["unknown_key","mesage"]]',
    );
    expect(await patch('return { sessionId: "2" };')).toBe('=[["readonly_field","sessionId"]]');
    expect(await patch('return { sessionId: context.sessionId };')).toBe('=');
    expect(await patch('return JSON.parse(\'{"__proto__":{"message":"x"},"constructor":1}\');')).toBe(
      '=[["unknown_key","__proto__"],["unknown_key","constructor"]]',
    );
  });

  it('counts an optional field that is absent as read-only, not as unknown', async () => {
    expect(await says('sshCommandSending', 'return { intent: "x" };')).toBe('=[["readonly_field","intent"]]');
  });

  it('does not set what does not apply to the operation; completed output may be set where none was (MW-84, MW-85)', async () => {
    expect(await says('sshCommandSending', 'return { content: "oops" };')).toBe(
      malformed('field_not_applicable:content'),
    );
    expect(await says('sshCommandCompleted', 'return { errorOutput: "note" };')).toBe('~{"errorOutput":"note"}\n');
  });

  it('looks at 200 keys (MW-39)', async () => {
    const raw = await patch(
      'const p = {}; for (let i = 0; i < 300; i += 1) p["k" + i] = i; p.message = "late"; return p;',
    );
    expect(raw.startsWith('=')).toBe(true);
    expect(JSON.parse(raw.slice(1)) as Json).toHaveLength(200);
  });

  it('is bounded over all its fields (MW-39)', async () => {
    const body = 'const s = "x".repeat(5 * 1024 * 1024); return { output: s, errorOutput: s };';
    expect(await says('sshCommandCompleted', body)).toBe(malformed('too_large'));
  });
});

describe('a hook without a field', () => {
  it.each(['sessionClearing', 'sessionClearCompleted', 'cronJobCompleted', 'sshConnectionOpening'])(
    '%s ignores whatever comes back (MW-33)',
    async (hook) => {
      expect(await says(hook, 'return { anything: 1 };')).toBe('.');
      expect(await says(hook, 'return "keep it";')).toBe('.');
      expect(await says(hook, '')).toBe('.');
    },
  );

  it('sshConnectionOpening takes a cancel', async () => {
    expect(await says('sshConnectionOpening', 'return tools.cancel("closed");')).toBe('!"closed"\n');
  });
});

describe('cancel', () => {
  it('stands with its reason, also through a promise (MW-40, MW-44)', async () => {
    expect(await text('return tools.cancel("no");')).toBe('!"no"\n');
    expect(await text('return Promise.resolve(tools.cancel("no"));')).toBe('!"no"\n');
    expect(await text('const { cancel } = tools; return cancel();')).toBe('!null\n');
  });

  it.each([
    ['""', 'null', ''],
    ['null', 'null', ''],
    ['undefined', 'null', ''],
    ['5', '"5"', ''],
    ['-0', '"0"', ''],
    ['NaN', '"NaN"', ''],
    ['false', '"false"', ''],
    ['10n', '"10"', ''],
    ['"a\\u0000b"', '"a\\u0000b"', ''],
    ['{ toString() { return "x"; } }', 'null', '[["cancel_reason_dropped"]]'],
    ['["x"]', 'null', '[["cancel_reason_dropped"]]'],
    ['Symbol("x")', 'null', '[["cancel_reason_dropped"]]'],
    ['() => "x"', 'null', '[["cancel_reason_dropped"]]'],
    ['new Proxy({}, { get() { throw 1; } })', 'null', '[["cancel_reason_dropped"]]'],
  ])('reads the reason %s as %s (MW-43)', async (reason, recorded, warnings) => {
    expect(await text(`return tools.cancel(${reason});`)).toBe(`!${recorded}\n${warnings}`);
  });

  it('cuts a long reason, never inside a surrogate pair, and stands (MW-42)', async () => {
    const cut = (units: string, length: number) => `!"${units}…"\n[["cancel_reason_truncated","${String(length)}"]]`;
    expect(await text('return tools.cancel("x".repeat(500));')).toBe(`!"${'x'.repeat(500)}"\n`);
    expect(await text('return tools.cancel("x".repeat(501));')).toBe(cut('x'.repeat(499), 501));
    expect(await text('return tools.cancel("x".repeat(498) + "😀😀");')).toBe(cut('x'.repeat(498), 502));
    expect(await text('return tools.cancel("x".repeat(497) + "😀😀");')).toBe(cut(`${'x'.repeat(497)}😀`, 501));
  });

  it('does nothing when it is not returned, and is told of first, whatever else happens (MW-45)', async () => {
    expect(await text('tools.cancel("no"); return context.text;')).toBe('=[["cancel_not_returned"]]');
    expect(await text('tools.cancel("no");')).toBe('?[["cancel_not_returned"],["handler_malformed","undefined"]]');
    expect(await text('throw tools.cancel("no");')).toBe('?[["cancel_not_returned"],["handler_threw","object"]]');
    expect(await patch('return { message: tools.cancel("no") };')).toBe(
      '?[["cancel_not_returned"],["handler_malformed","field_type:message:object"]]',
    );
    expect(await text('const t = tools.cancel("real"); return { ...t, reason: "forged" };')).toBe(
      '?[["cancel_not_returned"],["handler_malformed","wrong_type:object"]]',
    );
    expect(await says('sshConnectionOpening', 'tools.cancel("closed");')).toBe('.[["cancel_not_returned"]]');
  });

  it('leaves a note for a handler that never ends', async () => {
    const world = realm(
      'middleware.userMessageInbound = async (c, tools) => { tools.cancel("no"); await new Promise(() => {}); };',
    );
    world.report();
    let notes = '';
    const args = middleware.args('userMessageInbound', middleware.hostView('userMessageInbound', {}, 0));
    world.call('userMessageInbound', JSON.stringify(contexts.userMessageInbound), '[]', args, {
      open: true,
      done: () => undefined,
      note: (said) => {
        notes = said;
      },
      call: () => Promise.resolve(),
      emit: () => undefined,
    });
    await Promise.resolve();
    expect(middleware.readNotes('userMessageInbound', notes)).toEqual([{ code: 'cancel_not_returned', detail: null }]);
  });

  it('takes the reason of the token that was returned (MW-44)', async () => {
    expect(await text('const a = tools.cancel("first"); tools.cancel("second"); return a;')).toBe('!"first"\n');
  });

  it('is good for the run that made it and no other (MW-44)', async () => {
    const world = realm(`let kept;
      middleware.userMessageInbound = (c, tools) => (kept ? kept : (kept = tools.cancel('old'), c.text));
      middleware.systemPrompt = () => kept;
      middleware.sessionClearing = () => kept;`);
    const at = (hook: string) => run(world, hook, contexts[hook] ?? {});
    expect((await at('userMessageInbound')).raw).toBe('=[["cancel_not_returned"]]');
    expect((await at('userMessageInbound')).raw).toBe(malformed('wrong_type:object'));
    expect((await at('systemPrompt')).raw).toBe(malformed('cancel_not_vetoable'));
    expect((await at('sessionClearing')).raw).toBe('.[["cancel_ignored"]]');
  });
});

describe('the text of what was thrown (MW-54)', () => {
  it.each([
    ['null', 'null'],
    ['undefined', 'undefined'],
    ['"plain"', 'plain'],
    ['5', '5'],
    ['10n', '10'],
    ['new Error("boom")', 'boom'],
    ['new TypeError("")', 'TypeError'],
    ['{ message: "said" }', 'said'],
    ['{}', 'object'],
    ['Symbol("x")', 'symbol'],
    ['() => 1', 'function'],
    ['{ get message() { throw 1; } }', 'unreadable'],
    ['new Proxy({}, { get() { throw 1; } })', 'unreadable'],
  ])('throw %s', async (value, detail) => {
    expect(await text(`throw ${value};`)).toBe(`?[["handler_threw","${detail}"]]`);
  });

  it('is at most 500 units', async () => {
    expect(await text('throw new Error("x".repeat(600));')).toBe(`?[["handler_threw","${'x'.repeat(499)}…"]]`);
  });

  it('of an overflowing stack is a crash (MW-112)', async () => {
    expect(await text('const f = () => f() + 1; return f();')).toBe('?[["handler_crashed","stack"]]');
  });
});

describe('host', () => {
  const probe = 'return Object.keys(host).sort().join(",");';
  const members = async (hook: string, permissions: readonly string[], hop = 0): Promise<string> => {
    const body = `host.log('info', Object.keys(host).sort().join(','));`;
    const world = realm(`middleware.${hook} = () => { ${body} };`, permissions);
    const { calls } = await run(world, hook, contexts[hook] ?? {}, { hop });
    return (JSON.parse(calls[0]?.args ?? '[]') as readonly string[])[1] ?? '';
  };

  it.each([
    ['systemPrompt', 'config,log,session,workspace'],
    ['userMessageInbound', 'config,log,session'],
    ['interAgentMessage', 'config,log,session,workspace'],
    ['assistantMessageOutbound', 'config,log,session'],
    ['todoAdded', 'config,log,session'],
    ['notifyScheduled', 'config,log,session'],
    ['notifyDelivered', 'config,log,session'],
    ['sshConnectionOpening', 'config,log,session,workspace'],
    ['sshCommandSending', 'config,log,session,workspace'],
    ['sshCommandCompleted', 'config,log,session,workspace'],
    ['sessionClearing', 'config,log,session,workspace'],
    ['sessionClearCompleted', 'config,log,session,workspace'],
    ['cronJobFiring', 'config,log,workspace'],
    ['cronJobCompleted', 'config,log,session,workspace'],
  ])('%s has %s without any grant (MW-71, MW-73)', async (hook, expected) => {
    expect(await members(hook, [])).toBe(expected);
  });

  it('has what is granted, host.ssh in the three SSH hooks only (MW-72, MW-87)', async () => {
    expect(await members('todoAdded', everything)).toBe('agents,config,decide,fetch,llm,log,session');
    expect(await members('sshCommandSending', everything)).toBe(
      'agents,config,decide,fetch,llm,log,session,ssh,workspace',
    );
    expect(await members('sshCommandSending', ['host:fetch'])).toBe('config,fetch,log,session,workspace');
  });

  it('has no session past hop 4, and everything else (MW-101, MW-102)', async () => {
    expect(await members('interAgentMessage', ['host:fetch'], 4)).toBe('config,fetch,log,session,workspace');
    expect(await members('interAgentMessage', ['host:fetch'], 5)).toBe('config,fetch,log,workspace');
  });

  it('shows the configuration, frozen to the bottom (MW-76)', async () => {
    const code = `middleware.userMessageInbound = () => { host.config.deep.list.push(1); };`;
    const world = realm(code, [], { deep: { list: [{ a: 1 }] } });
    expect((await run(world, 'userMessageInbound', contexts.userMessageInbound ?? {})).raw).toContain('handler_threw');
    const read = realm('middleware.userMessageInbound = () => JSON.stringify(host.config);', [], { a: [{ b: null }] });
    expect((await run(read, 'userMessageInbound', contexts.userMessageInbound ?? {})).raw).toBe(
      '~{"text":"{\\"a\\":[{\\"b\\":null}]}"}\n',
    );
  });

  it('is back in the next run whatever a handler did to it (MW-13)', async () => {
    const world = realm(`let first = true; middleware.userMessageInbound = () => {
      if (first) { first = false; Object.defineProperty(globalThis, 'host', { value: null, configurable: true }); return 'gone'; }
      ${probe} };`);
    const context = contexts.userMessageInbound ?? {};
    await run(world, 'userMessageInbound', context);
    expect((await run(world, 'userMessageInbound', context)).raw).toContain('config');
  });

  it('is only the configuration while the source is evaluated', () => {
    const world = realm('globalThis.seen = Object.keys(host).join();');
    expect(world.evaluate('seen')).toBe('config');
  });
});

describe('host calls', () => {
  const calls = async (hook: string, body: string, answers: JsonObject = {}): Promise<Seen> =>
    run(realm(`middleware.${hook} = async (context, tools) => { ${body} };`), hook, contexts[hook] ?? {}, { answers });
  const completed = (body: string, answers: JsonObject = {}) => calls('sshCommandCompleted', body, answers);

  it('go out with their arguments and come back with the answer', async () => {
    const seen = await calls(
      'interAgentMessage',
      `const a = await host.agents.list();
       await host.session.conversation.read();
       await host.session.peer.send('9', 'hi');
       await host.fetch('https://x/', { headers: { a: ['b', null, undefined] }, skip: undefined });
       await host.llm('p', { n: 1 });
       await host.decide({ question: 'run?' });
       return a.agents[0].id;`,
      { 'agents.list': { agents: [{ id: '77' }] } },
    );
    expect(seen.raw).toBe('~{"text":"77"}\n');
    expect(seen.calls).toEqual([
      { member: 'agents.list', args: '[]' },
      { member: 'session.conversation.read', args: '[]' },
      { member: 'session.peer.send', args: '["9","hi"]' },
      { member: 'fetch', args: '["https://x/",{"headers":{"a":["b",null,null]}}]' },
      { member: 'llm', args: '["p",{"n":1}]' },
      { member: 'decide', args: '[{"question":"run?"}]' },
    ]);
  });

  it.each([
    ['host.session.peer.send(7342918273645182978, "x")', 'id_must_be_string'],
    ['host.session.peer.send("", "x")', 'id_must_be_string'],
    ['host.session.peer.send("9")', 'text_must_be_string'],
    ['host.fetch(new Date())', 'url_must_be_string'],
    ['host.fetch("https://x/", { n: NaN })', 'bad_argument'],
    ['host.llm(10n)', 'bad_argument'],
    ['host.decide(new Map())', 'bad_argument'],
    ['host.decide({ get a() { throw 1; } })', 'bad_argument'],
    ['host.ssh.command("")', 'bad_command'],
    ['host.ssh.command(5)', 'bad_command'],
    ['host.ssh.command("true", { timeoutSeconds: 0 })', 'bad_timeout'],
    ['host.ssh.command("true", { timeoutSeconds: -5 })', 'bad_timeout'],
    ['host.ssh.command("true", { timeoutSeconds: NaN })', 'bad_timeout'],
    ['host.ssh.command("true", { timeoutSeconds: "60" })', 'bad_timeout'],
    ['host.ssh.command("true", { timeoutSeconds: null })', 'bad_timeout'],
    ['host.ssh.command("true", 60)', 'bad_timeout'],
    ['host.ssh.command("true", { get timeoutSeconds() { throw 1; } })', 'bad_timeout'],
  ])('%s is refused with %s (MW-11, MW-87, MW-89)', async (call, code) => {
    const seen = await completed(`try { await ${call}; } catch (e) { return { output: e.message }; }`);
    expect(seen.raw).toBe(`~{"output":"${code}"}\n`);
    expect(seen.calls).toHaveLength(1);
    expect(seen.calls[0]?.args).toBe(`{"refused":"${code}"}`);
  });

  it('a cyclic argument is refused', async () => {
    const seen = await completed(
      'const o = {}; o.o = o; try { await host.decide(o); } catch (e) { return { output: e.message }; }',
    );
    expect(seen.raw).toBe('~{"output":"bad_argument"}\n');
  });

  it('host.ssh.command: 60 s by default, more than 90 is clamped and told of (MW-89)', async () => {
    const seen = await completed(
      `await host.ssh.command('a'); await host.ssh.command('b', { timeoutSeconds: 0.5 });
       await host.ssh.command('c', { timeoutSeconds: 91 }); await host.ssh.command('d', { timeoutSeconds: Infinity });
       return {};`,
    );
    expect(seen.calls.map(({ args }) => args)).toEqual([
      '["a",{"timeoutSeconds":60}]',
      '["b",{"timeoutSeconds":0.5}]',
      '["c",{"timeoutSeconds":90}]',
      '["d",{"timeoutSeconds":90}]',
    ]);
    expect(seen.raw).toBe('=[["ssh_timeout_clamped"],["ssh_timeout_clamped"]]');
    expect(seen.notes).toBe('[["ssh_timeout_clamped"],["ssh_timeout_clamped"]]');
  });

  it('host.ssh.command: ten accepted calls, refused ones do not count (MW-88)', async () => {
    const seen = await completed(
      `let ok = 0, no = 0;
       for (let i = 0; i < 3; i += 1) await host.ssh.command('').catch(() => {});
       for (let i = 0; i < 12; i += 1) await host.ssh.command('true').then(() => { ok += 1; }, () => { no += 1; });
       return { output: ok + '/' + no };`,
    );
    expect(seen.raw).toBe('~{"output":"10/2"}\n');
  });

  it('host.log takes anything and never throws', async () => {
    const seen = await calls(
      'todoAdded',
      `host.log('info', 'a'); host.log(5, 6n); host.log('warn'); host.log('x', { a: 1 }); host.log('x', Symbol('s'));
       host.log('x', 'y'.repeat(20000)); return context.texts;`,
    );
    expect(seen.calls.slice(0, 5).map(({ args }) => args)).toEqual([
      '["info","a"]',
      '["info","6"]',
      '["warn","undefined"]',
      '["x","object"]',
      '["x","symbol"]',
    ]);
    expect((JSON.parse(seen.calls[5]?.args ?? '') as readonly string[])[1]).toHaveLength(8193);
  });
});

describe('a realm that a plugin has spoilt (MW-110)', () => {
  const sabotage = [
    'Array.isArray = () => true;',
    'Object.keys = () => ["delaySeconds"];',
    'JSON.stringify = () => "{}"; JSON.parse = () => ({});',
    'Promise.prototype.then = function () {};',
    'Reflect.apply = () => 1; Reflect.defineProperty = () => false;',
    'Object.prototype.message = "polluted"; Object.prototype.delaySeconds = 0;',
    'Object.prototype.toJSON = () => "x"; Array.prototype.toJSON = () => "x"; String.prototype.toJSON = () => "x";',
    'Object.defineProperty(Object.prototype, "get", { get() { throw 1; }, configurable: true });',
    'Object.defineProperty(Array.prototype, 0, { set() { throw 1; }, configurable: true });',
    'Array.prototype[Symbol.iterator] = function* () {};',
    'WeakMap.prototype.get = () => ({ reason: "forged" }); WeakMap.prototype.set = () => 1;',
    'String.prototype.slice = () => "cut"; Math.round = () => 7;',
    'Object.freeze = (x) => ({ other: x }); Object.getPrototypeOf = () => null;',
    'Function.prototype.call = () => 1; Function.prototype.apply = () => 1; Function.prototype.bind = () => 1;',
    'globalThis.Promise = undefined; globalThis.Object = undefined; globalThis.JSON = undefined; globalThis.Array = undefined;',
    'Object.prototype.hasOwnProperty = () => true; Object.hasOwn = () => true;',
    'Object.defineProperty(Object.prototype, "__proto__", { set() { throw 1; }, get() { throw 1; }, configurable: true });',
    'try { Promise.prototype.constructor = function () { throw 1; }; } catch {}',
    'try { Object.defineProperty(Promise, Symbol.species, { get() { throw 1; } }); } catch {}',
  ];
  const spoiling = (lines: readonly string[]) => lines.map((line) => `try { ${line} } catch {}`).join('\n');
  const results: readonly (readonly [hook: string, body: string, raw: string])[] = [
    ['notifyScheduled', 'return { message: "plain" };', '~{"message":"plain"}\n'],
    ['notifyScheduled', 'return {};', '='],
    [
      'notifyScheduled',
      'return { delaySeconds: 2.25, stray: 1 };',
      '~{"delaySeconds":2.25}\n[["unknown_key","stray"]]',
    ],
    ['userMessageInbound', 'return context.text;', '='],
    ['userMessageInbound', 'return "x";', '~{"text":"x"}\n'],
    ['userMessageInbound', 'return tools.cancel("no");', '!"no"\n'],
    ['userMessageInbound', 'return { reason: "x" };', malformed('wrong_type:object')],
    ['todoAdded', 'return ["x"];', '~{"texts":["x"]}\n'],
    [
      'sshConnectionOpening',
      'return tools.cancel("x".repeat(600));',
      `!"${'x'.repeat(499)}…"\n[["cancel_reason_truncated","600"]]`,
    ],
  ];

  it('is read as a clean one, in this run and in the next', async () => {
    await fc.assert(
      fc.asyncProperty(fc.subarray(sabotage), fc.constantFrom(...results), async (spoils, [hook, body, raw]) => {
        const code = `middleware.${hook} = async (context, tools) => { ${spoiling(spoils)} ${body} };`;
        const world = realm(code);
        expect((await run(world, hook, contexts[hook] ?? {})).raw).toBe(raw);
        const warm = { ...world, report: () => '' };
        expect((await run(warm, hook, contexts[hook] ?? {})).raw).toBe(raw);
      }),
      { numRuns: 300 },
    );
  });

  it('sends host calls as they were meant', async () => {
    const code = `middleware.interAgentMessage = async (context) => {
      ${spoiling(sabotage)}
      await host.session.peer.send('9', 'hi'); return 'x'; };`;
    const seen = await run(realm(code), 'interAgentMessage', contexts.interAgentMessage ?? {});
    expect(seen.calls).toEqual([{ member: 'session.peer.send', args: '["9","hi"]' }]);
  });
});
