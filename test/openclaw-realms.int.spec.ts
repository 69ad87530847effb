import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { compile, openclaw, openclawOf } from '#dialects';
import { afterTimer, deliverResolution } from '#firing';
import { digestOf } from '#record';
import type { GuestCall, HandlerOutcome, Realm, Sandbox } from '#sandbox';
import { startSandbox } from '#sandbox';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({});
});
afterAll(() => sandbox.close());

const dialect = openclawOf('documented');

const realmOf = async (source: string, config: object = {}): Promise<Realm> => {
  const compiled = await compile({ source }, 'typescript', openclaw.bundling);
  if (compiled.kind === 'failed') throw new Error(compiled.message);
  const setup = dialect.setup({ permissions: [], config: config as never, pluginId: 'p' });
  return {
    account: 'realms',
    pluginId: 'p',
    digest: digestOf(compiled.code + setup),
    code: compiled.code,
    fileName: 'p@1',
    guest: dialect.guest,
    setup,
    isolation: 'warm',
  };
};

const load = async (source: string) => {
  const realm = await realmOf(source);
  const outcome = await sandbox.load(realm, 5000);
  return outcome.kind === 'failed' ? outcome : { ...dialect.readReport(outcome.report), kind: outcome.kind };
};

interface Ran {
  readonly outcome: HandlerOutcome;
  readonly lines: readonly string[];
}

/** Runs handlers of one plugin one after another, each call of theirs answered as the platform does. */
const run = async (
  register: string,
  calls: readonly { readonly hook: string; readonly event: object; readonly timeoutMs?: number }[],
  config: object = {},
): Promise<readonly Ran[]> => {
  const realm = await realmOf(`export default { id: "p", register(api) { ${register} } };`, config);
  const loaded = await sandbox.load(realm, 5000);
  if (loaded.kind === 'failed') throw new Error(loaded.message);
  const handlers = JSON.parse(loaded.report) as {
    readonly handlers: readonly { readonly id: string; readonly hook: string }[];
  };
  const results: Ran[] = [];
  for (const { hook, event, timeoutMs = 2000 } of calls) {
    const handler = handlers.handlers.find((one) => one.hook === hook)?.id ?? '';
    const lines: string[] = [];
    const onCall = (call: GuestCall) => {
      if (call.member === 'timer') return afterTimer(call);
      if (call.member === 'log') lines.push((JSON.parse(call.args ?? '[]') as string[])[1] ?? '');
      return Promise.resolve({ kind: 'value', json: 'null' } as const);
    };
    const running = sandbox.run({
      account: 'realms',
      invocationId: 'i',
      input: JSON.stringify({ event, context: {} }),
      handlers: [
        {
          realm,
          handler,
          timeoutMs,
          ceilingMs: timeoutMs,
          args: dialect.args(hook, dialect.hostView(hook, {}, 0)),
          advances: false,
          stopsOn: [],
        },
      ],
      onCall,
      pausingMembers: [],
    });
    results.push({ outcome: await running.result(0), lines });
  }
  return results;
};

const saidBy = (ran: Ran | undefined) => {
  if (ran?.outcome.kind !== 'returned') throw new Error(JSON.stringify(ran?.outcome));
  return dialect.read('before_tool_call', ran.outcome.raw, { params: {} });
};
const toolCall = (params: object = {}) => ({ hook: 'before_tool_call', event: { toolName: 'exec', params } });

describe('a plugin at load', () => {
  it.each([
    ['a function', 'export default (api) => { api.on("agent_end", () => {}); };'],
    ['an object with activate', 'export default { activate(api) { api.on("agent_end", () => {}); } };'],
    ['CommonJS', 'module.exports = { register(api) { api.on("agent_end", () => {}); } };'],
    [
      'what definePluginEntry gives',
      'import { definePluginEntry } from "openclaw/plugin-sdk/core"; export default definePluginEntry({ id: "p", register(api) { api.on("agent_end", () => {}); } });',
    ],
  ])('may be %s', async (_, source) => {
    expect(await load(source)).toMatchObject({ kind: 'loaded', hooks: ['agent_end'] });
  });

  it('that exports no plugin, or throws in register, does not load', async () => {
    expect(await load('export const x = 1;')).toMatchObject({ kind: 'failed', cause: 'threw' });
    expect(await load('export default { register() { throw new Error("no key"); } };')).toMatchObject({
      cause: 'threw',
      message: expect.stringContaining('no key') as unknown as string,
    });
  });

  it('may use what has no meaning here, and is told of it', async () => {
    const found = await load(`
      import { createThing, other } from "openclaw/plugin-sdk/channel-core";
      import fs, { readFileSync } from "node:fs";
      const thing = createThing({ a: 1 });
      export default { register(api) {
        api.registerTool({}); api.registerChannel({}); api.runtime.tasks.flow.list(); api.session.controls.registerX({});
        setInterval(() => {}, 1000);
        try { readFileSync("/etc/passwd"); } catch (error) { if (!String(error.message).includes("node:fs")) throw error; }
        api.on("agent_end", () => {});
      } };`);
    expect(found).toMatchObject({ kind: 'loaded', hooks: ['agent_end'] });
    const names = 'warnings' in found ? found.warnings.map(({ detail }) => detail) : [];
    expect(names).toEqual([
      'openclaw/plugin-sdk/channel-core.createThing',
      'api.registerTool',
      'api.registerChannel',
      'api.runtime.tasks.flow.list',
      'api.session.controls.registerX',
      'setInterval outside a handler',
    ]);
  });

  it('resolves nothing on the disk of the server', async () => {
    const compiled = await compile(
      { source: 'import x from "../../package.json"; export default x;' },
      'javascript',
      openclaw.bundling,
    );
    expect(compiled.kind).toBe('failed');
    const other = await compile(
      { source: 'import x from "acorn"; export default x;' },
      'javascript',
      openclaw.bundling,
    );
    expect(other.kind).toBe('failed');
  });
});

describe('a handler', () => {
  it('has timers that end with it', async () => {
    const [ran, late] = await run(
      `api.on("before_tool_call", async (event) => {
         let ticks = 0;
         await new Promise((done) => { const t = setInterval(() => { ticks += 1; if (ticks === 3) { clearInterval(t); done(); } }, 1); });
         setTimeout(() => api.logger.info("too late"), 5);
         return { params: { ticks } };
       });`,
      [toolCall(), toolCall()],
    );
    expect(saidBy(ran).verdict).toMatchObject({ value: { params: { ticks: 3 } } });
    expect([...(ran?.lines ?? []), ...(late?.lines ?? [])]).toEqual([]);
  });

  it('that waits for ever is ended when its time is up', async () => {
    const [ran] = await run('api.on("before_tool_call", () => new Promise((done) => setTimeout(done, 60_000)));', [
      { ...toolCall(), timeoutMs: 60 },
    ]);
    expect(ran?.outcome).toMatchObject({ kind: 'failed', cause: 'timed_out' });
  });

  it('cannot change what the next one gets, nor its configuration for good', async () => {
    const ran = await run(
      'api.on("before_tool_call", (event, ctx) => { event.params.n += 1; ctx.seen = 1; event.context.pluginConfig.tone += "!"; return { params: { n: event.params.n, tone: event.context.pluginConfig.tone } }; });',
      [toolCall({ n: 1 }), toolCall({ n: 1 })],
      { tone: 'dry' },
    );
    for (const one of ran) expect(saidBy(one).verdict).toMatchObject({ value: { params: { n: 2, tone: 'dry!' } } });
  });

  it('cannot break the reading of its results by what it does to its world', async () => {
    const [ran] = await run(
      `api.on("before_tool_call", () => {
         Object.prototype.block = true; Array.prototype.map = () => { throw 1; }; JSON.stringify = () => "{}"; JSON.parse = () => ({});
         Object.prototype.toJSON = () => ({ block: false }); Promise.prototype.then = null; Reflect.apply = null;
         Object.defineProperty(Object.prototype, "value", { get() { throw 2; } });
         return Object.assign(Object.create(null), { params: Object.assign(Object.create(null), { x: 1 }) });
       });`,
      [toolCall()],
    );
    expect(saidBy(ran).verdict).toMatchObject({ kind: 'contributed', value: { params: { x: 1 } } });
  });

  it.each([
    ['a cycle', 'const a = {}; a.a = a; return { params: a };', 'threw'],
    ['a bigint', 'return { params: { n: 1n } };', 'threw'],
    ['what is too large', 'return { params: { t: "x".repeat(9_000_000) } };', 'malformed'],
    ['endless recursion', 'const f = () => f() + 1; return f();', 'crashed'],
  ])('that gives %s did not decide', async (_, body, cause) => {
    const [ran] = await run(`api.on("before_tool_call", () => { ${body} });`, [toolCall()]);
    expect(saidBy(ran).verdict).toEqual({ kind: 'skipped', cause });
  });

  it('finds no way out of its world', async () => {
    const [ran] = await run(
      `api.on("before_tool_call", () => ({ params: {
         require: typeof require, process: Object.keys(process.env).length, fetch: typeof fetch, wasm: typeof WebAssembly,
         escape: (() => { try { return typeof api.on.constructor("return process")().binding; } catch (e) { return "refused"; } })(),
       } }));`,
      [toolCall()],
    );
    expect(saidBy(ran).verdict).toMatchObject({
      value: { params: { process: 0, fetch: 'undefined', wasm: 'undefined', escape: 'undefined' } },
    });
  });
});

describe('who asked for an approval', () => {
  it('is told in the realm that asked, once; another realm has nobody to tell', async () => {
    const source =
      'export default { id: "p", register(api) { api.on("before_tool_call", () => ({ requireApproval: { title: "T", description: "D", onResolution: (d) => { api.logger.info("told " + d); } } })); } };';
    const realm = await realmOf(source);
    const loaded = await sandbox.load(realm, 5000);
    if (loaded.kind === 'failed') throw new Error(loaded.message);
    const lines: string[] = [];
    const onCall = (call: GuestCall) => {
      if (call.member === 'log') lines.push(call.args ?? '');
      return Promise.resolve({ kind: 'value', json: 'null' } as const);
    };
    const running = sandbox.run({
      account: 'realms',
      invocationId: 'i',
      input: JSON.stringify({ event: { toolName: 'exec', params: {} }, context: {} }),
      handlers: [
        {
          realm,
          handler: 'before_tool_call#0',
          timeoutMs: 2000,
          args: dialect.args('before_tool_call', dialect.hostView('before_tool_call', {}, 0)),
          advances: false,
          stopsOn: [],
        },
      ],
      onCall,
      pausingMembers: [],
    });
    const outcome = await running.result(0);
    const { verdict } = saidBy({ outcome, lines });
    const request =
      verdict.kind === 'contributed'
        ? (verdict.value as { requireApproval: { onResolution: string } }).requireApproval
        : null;
    const tell = (ticket: string) =>
      deliverResolution(sandbox, { account: 'realms', realm, ticket, decision: 'deny', onCall });
    expect(await tell(request?.onResolution ?? '')).toBe('delivered');
    expect(lines).toEqual(['["info","told deny"]']);
    expect(await tell(request?.onResolution ?? '')).toBe('undeliverable');
  });
});
