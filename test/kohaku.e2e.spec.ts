import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startServer, type RunningServer } from './support/running-server.js';

let server: RunningServer;
beforeAll(async () => {
  server = await startServer();
}, 120_000);
afterAll(() => server.close());

/** What these tests read of an answer. */
interface Body {
  readonly invocationId: string;
  readonly outcome: string;
  readonly value: unknown;
  readonly effects?: readonly { readonly type: string; readonly pluginId: string; readonly args: unknown }[];
  readonly activities?: readonly { readonly type: string; readonly detail: string; readonly metadata: unknown }[];
  readonly surface?: unknown;
  readonly cancellation: {
    readonly pluginId: string | null;
    readonly reason: string | null;
    readonly code: string | null;
  } | null;
  readonly handlers: readonly {
    readonly pluginId: string;
    readonly outcome: string;
    readonly cause?: string;
    readonly warnings: readonly { readonly code: string; readonly detail: string | null }[];
  }[];
  readonly hooks: readonly string[];
  readonly warnings: readonly { readonly code: string; readonly detail: string }[];
  readonly errors: readonly { readonly pointer: string; readonly reason: string }[];
  readonly items: readonly { readonly type: string; readonly data: Record<string, unknown> }[];
}
interface Answer {
  readonly status: number;
  readonly text: string;
  readonly body: Body;
}

let accounts = 0;
const newAccount = async (): Promise<string> => {
  const id = `koh-${String((accounts += 1))}`;
  const made = await server.call('POST', '/v1/accounts', { body: { id, name: id } });
  expect(made.status).toBe(201);
  return `/v1/accounts/${id}`;
};

const call = async (method: string, path: string, body?: unknown): Promise<Answer> => {
  const { status, text } = await server.call(method, path, body === undefined ? {} : { body });
  return { status, text, body: (text === '' ? {} : JSON.parse(text)) as Body };
};

const install = async (at: string, id: string, source: string, more: object = {}): Promise<Answer> =>
  call('POST', `${at}/plugins`, { id, dialect: 'kohaku', language: 'python', source, ...more });

const installed = async (at: string, id: string, source: string, more: object = {}): Promise<Body> => {
  const answer = await install(at, id, source, more);
  expect([answer.status, answer.text.slice(0, 600)]).toEqual([201, expect.anything()]);
  return answer.body;
};

const fire = async (at: string, hook: string, input: object, more: object = {}): Promise<Body> => {
  const answer = await call('POST', `${at}/hooks/kohaku/${hook}`, { input, ...more });
  expect([answer.status, answer.text.slice(0, 600)]).toEqual([200, expect.anything()]);
  return answer.body;
};

const imports = 'from kohakuterrarium.modules.plugin import BasePlugin, PluginBlockError\n';

/** The seed page's own example, byte for byte. */
const guard = `from kohakuterrarium.modules.plugin import BasePlugin, PluginBlockError

class GuardPlugin(BasePlugin):
    async def pre_tool_execute(self, args, **kwargs):
        if kwargs.get("tool_name") == "bash" and "rm -rf" in args.get("command", ""):
            raise PluginBlockError("unsafe command")
        return None  # keep args unchanged
`;

const bash = (command: string, agent: object = {}): object => ({
  value: { command },
  kwargs: { tool_name: 'bash', job_id: 'bash_1' },
  agent: { name: 'swe', model: 'gpt-5', ...agent },
});

describe('KohakuTerrarium plugins over REST', () => {
  it('run unmodified: the page’s own guard keeps what it allows and blocks what it does not', async () => {
    const at = await newAccount();
    const plugin = await installed(at, 'guard', guard);
    expect([plugin.hooks, plugin.warnings]).toEqual([['pre_tool_execute'], []]);
    expect(await fire(at, 'pre_tool_execute', bash('ls'))).toMatchObject({
      outcome: 'passed',
      value: { command: 'ls' },
      handlers: [{ pluginId: 'guard', outcome: 'passed' }],
    });
    expect(await fire(at, 'pre_tool_execute', bash('rm -rf /'))).toMatchObject({
      outcome: 'cancelled',
      value: null,
      cancellation: { pluginId: 'guard', reason: 'unsafe command', code: null },
      surface: { event: 'tool_error', jobId: 'bash_1', error: 'unsafe command', content: 'Error: unsafe command' },
    });
    expect(await fire(at, 'pre_tool_execute', bash('rm -rf /', { native: false }))).toMatchObject({
      surface: { content: '## bash_1 - ERROR\nunsafe command\n' },
    });
  }, 120_000);

  it('go by ascending priority, Python and JavaScript in one chain, each with what the one before left', async () => {
    const at = await newAccount();
    const tag = (word: string): string =>
      `${imports}class P(BasePlugin):\n    async def pre_tool_execute(self, args, **kw):\n        return {**args, "trail": args["trail"] + ["${word}"]}\n`;
    await installed(at, 'late', tag('late'), { priority: 90 });
    await installed(
      at,
      'middle',
      'export default { priority: 50, pre_tool_execute(args) { args.trail.push("js"); } };',
      {
        language: 'javascript',
      },
    );
    await installed(at, 'early', tag('early'), { priority: 10 });
    const { value } = await fire(at, 'pre_tool_execute', { value: { trail: [] }, kwargs: { tool_name: 't' } });
    expect(value).toEqual({ trail: ['early', 'js', 'late'] });
  }, 120_000);

  it('are skipped when they raise, with the traceback sealed on record, unless a guard fails closed', async () => {
    const at = await newAccount();
    await installed(
      at,
      'buggy',
      `${imports}class P(BasePlugin):\n    async def pre_tool_execute(self, args, **kw):\n        raise ValueError("secret detail")\n`,
    );
    const open = await fire(at, 'pre_tool_execute', bash('ls'));
    expect(open).toMatchObject({
      outcome: 'passed',
      handlers: [
        {
          outcome: 'skipped',
          cause: 'threw',
          warnings: [{ code: 'handler_threw', detail: 'ValueError: secret detail' }],
        },
      ],
    });
    const events = await call('GET', `${at}/events?type=handler.skipped&content=open`);
    const [skipped] = events.body.items;
    expect(JSON.stringify(skipped?.data.traceback)).toMatch(/ValueError: secret detail/);
    const closed = await call('GET', `${at}/events?type=handler.skipped`);
    expect(closed.text).not.toMatch(/secret detail/);
    expect((await call('PATCH', `${at}/plugins/buggy`, { failureMode: 'closed' })).status).toBe(200);
    expect(await fire(at, 'pre_tool_execute', bash('ls'))).toMatchObject({
      outcome: 'cancelled',
      cancellation: { pluginId: 'buggy', code: 'plugin_failed' },
    });
  }, 120_000);

  it('are switched by the framework’s own toggle, which sets, in force from the next call on', async () => {
    const at = await newAccount();
    await installed(at, 'guard', guard);
    const off = await call('POST', `${at}/plugins/guard/toggle`, { enabled: false });
    expect([off.status, off.body]).toEqual([200, { plugin: 'guard', enabled: false }]);
    expect((await call('POST', `${at}/plugins/guard/toggle`, { enabled: false })).body).toEqual({
      plugin: 'guard',
      enabled: false,
    });
    expect(await fire(at, 'pre_tool_execute', bash('rm -rf /'))).toMatchObject({ outcome: 'passed', handlers: [] });
    expect((await call('POST', `${at}/plugins/guard/toggle`, { enabled: true })).status).toBe(200);
    expect(await fire(at, 'pre_tool_execute', bash('rm -rf /'))).toMatchObject({ outcome: 'cancelled' });
    expect((await call('POST', `${at}/plugins/ghost/toggle`, { enabled: true })).status).toBe(404);
  }, 120_000);

  it('keep their post hooks for a call whose pre hooks ran, though they were switched off in between (chainOf)', async () => {
    const at = await newAccount();
    await installed(
      at,
      'both',
      `${imports}class P(BasePlugin):\n    async def pre_tool_execute(self, args, **kw): pass\n    async def post_tool_execute(self, result, **kw):\n        result.output += "!"\n        return result\n`,
    );
    const pre = await fire(at, 'pre_tool_execute', bash('ls'));
    await call('POST', `${at}/plugins/both/toggle`, { enabled: false });
    const result = { output: 'done', exit_code: 0, error: null };
    const post = { value: result, kwargs: { tool_name: 'bash', job_id: 'bash_1', args: {} } };
    expect(await fire(at, 'post_tool_execute', post, { chainOf: pre.invocationId })).toMatchObject({
      outcome: 'rewritten',
      value: { output: 'done!', exit_code: 0 },
    });
    expect(await fire(at, 'post_tool_execute', post)).toMatchObject({ outcome: 'passed', handlers: [] });
  }, 120_000);

  it('apply by agent and model; where they do not they are not run', async () => {
    const at = await newAccount();
    await installed(
      at,
      'only',
      `${imports}class P(BasePlugin):\n    applies_to = {"agent_names": ["swe"], "model_patterns": ["^gpt"]}\n    async def pre_tool_execute(self, args, **kw): return {"seen": True}\n`,
    );
    expect((await fire(at, 'pre_tool_execute', bash('ls'))).value).toEqual({ seen: true });
    const other = await fire(at, 'pre_tool_execute', bash('ls', { model: 'claude', session_id: 's2' }));
    expect(other).toMatchObject({ outcome: 'passed', handlers: [{ outcome: 'not_run', cause: 'not_applicable' }] });
  }, 120_000);

  it('are built with their configuration, load once per agent and session, and tell the host what they want', async () => {
    const at = await newAccount();
    await installed(
      at,
      'effects',
      `${imports}
class P(BasePlugin):
    def __init__(self, limit=1):
        super().__init__()
        self.limit = limit
        self.loads = 0
    async def on_load(self, ctx):
        self.ctx = ctx
        self.loads += 1
    async def pre_llm_call(self, messages, **kwargs):
        print("limit", self.limit)
        self.ctx.switch_model("small")
        self.ctx.inject_message_before_llm("system", "be brief")
        return messages + [{"role": "system", "content": f"{self.limit}/{self.loads}/{self.ctx.session_id}"}]
`,
      { config: { limit: 3 } },
    );
    const input = { value: [], agent: { name: 'swe', model: 'gpt-5' } };
    const first = await fire(at, 'pre_llm_call', input, { sessionId: 's1' });
    expect(first.value).toEqual([{ role: 'system', content: '3/1/s1' }]);
    expect(first.effects).toEqual([
      { type: 'switch_model', pluginId: 'effects', args: ['small'] },
      { type: 'inject_message_before_llm', pluginId: 'effects', args: ['system', 'be brief'] },
    ]);
    expect((await fire(at, 'pre_llm_call', input, { sessionId: 's1' })).value).toEqual([
      { role: 'system', content: '3/1/s1' },
    ]);
    expect((await fire(at, 'pre_llm_call', input, { sessionId: 's2' })).value).toEqual([
      { role: 'system', content: '3/1/s2' },
    ]);
    const started = await call('GET', `${at}/events?type=plugin.instance_started`);
    expect(started.body.items).toHaveLength(2);
    const calls = await call('GET', `${at}/events?type=host.called`);
    expect(calls.body.items.map(({ data }) => data.member)).toContain('switch_model');
  }, 120_000);

  it('rewrite the final text with one marker, veto compaction, vote on termination and narrow the catalogue', async () => {
    const at = await newAccount();
    await installed(
      at,
      'many',
      `${imports}
from kohakuterrarium.modules.plugin.base import ToolVisibility
from kohakuterrarium.core.termination import TerminationDecision
class P(BasePlugin):
    async def post_llm_call(self, messages, response, usage, **kw): return response + "!"
    async def on_compact_start(self, context_length): return False
    def contribute_termination_check(self):
        return lambda ctx: TerminationDecision(True, "said " + ctx.last_output)
    def get_tool_visibility(self, context): return ToolVisibility(allowed_tools=frozenset({"read"}))
    def get_prompt_content(self, context): return "Be kind."
`,
    );
    expect(await fire(at, 'post_llm_call', { value: 'x', kwargs: { messages: [] } })).toMatchObject({
      value: 'x!',
      activities: [
        {
          type: 'assistant_message_edited',
          detail: '[edited by plugin: many]',
          metadata: { edited_by: ['many'], original_preview: 'x', final_length: 2 },
        },
      ],
    });
    expect(await fire(at, 'on_compact_start', { kwargs: { context_length: 9 } })).toMatchObject({
      outcome: 'cancelled',
      surface: { event: 'compact_skipped' },
    });
    expect(await fire(at, 'contribute_termination_check', { value: { last_output: 'bye' } })).toMatchObject({
      outcome: 'claimed',
      value: { should_stop: true, reason: 'said bye' },
    });
    const catalogue = { tools: ['read', 'write'], subagents: ['explore'], provider_native: ['web'] };
    expect((await fire(at, 'get_tool_visibility', { value: catalogue })).value).toMatchObject({
      tools: ['read'],
      subagents: ['explore'],
      provider_native: [],
    });
    expect((await fire(at, 'get_prompt_content', {})).value).toEqual({ parts: ['Be kind.'], text: 'Be kind.' });
  }, 120_000);

  it('surface a blocked or unknown dispatch as the host shows it', async () => {
    const at = await newAccount();
    await installed(
      at,
      'router',
      `${imports}from kohakuterrarium.parsing import ToolCallEvent
class P(BasePlugin):
    async def pre_tool_dispatch(self, call, context):
        if call.args.get("stop"): raise PluginBlockError("circuit open")
        return ToolCallEvent(name="ghost", args={})
`,
      { pluginName: 'cb' },
    );
    const agent = { name: 'alice', tools: ['bash'] };
    expect(await fire(at, 'pre_tool_dispatch', { value: { name: 'bash', args: { stop: 1 } }, agent })).toMatchObject({
      outcome: 'cancelled',
      surface: {
        event: 'tool_complete',
        jobId: 'blocked_bash',
        content: '[cb] circuit open',
        error: '[cb] circuit open',
        exitCode: 1,
      },
    });
    const native = { name: 'bash', args: { stop: 1, _tool_call_id: 'c9' } };
    expect(await fire(at, 'pre_tool_dispatch', { value: native, agent })).toMatchObject({
      surface: {
        jobId: '',
        appended: [{ role: 'tool', content: '[cb] circuit open', tool_call_id: 'c9', name: 'bash' }],
      },
    });
    expect(await fire(at, 'pre_tool_dispatch', { value: { name: 'bash', args: {} }, agent })).toMatchObject({
      outcome: 'cancelled',
      value: null,
      cancellation: { code: 'unknown_tool', reason: 'unknown tool after rewrite: ghost' },
      surface: { content: '[pre_tool_dispatch] unknown tool after rewrite: ghost' },
    });
  }, 120_000);

  it('come as several files with a class that is named, and say what is wrong with them', async () => {
    const at = await newAccount();
    const files = {
      'plugins/guard.py': `${imports}from rules import banned\nclass A(BasePlugin):\n    async def pre_tool_execute(self, args, **kw):\n        if args["command"] in banned: raise PluginBlockError("banned")\nclass B(BasePlugin): pass\n`,
      'plugins/rules.py': 'banned = {"x"}\n',
    };
    const both = { id: 'guard', dialect: 'kohaku', language: 'python', files, entry: 'plugins/guard.py' };
    const unnamed = await call('POST', `${at}/plugins`, both);
    expect([unnamed.status, unnamed.body.errors[0]?.reason]).toEqual([
      422,
      expect.stringMatching(/several plugins.*A, B/),
    ]);
    expect((await call('POST', `${at}/plugins`, { ...both, class: 'A' })).status).toBe(201);
    expect(await fire(at, 'pre_tool_execute', bash('x'))).toMatchObject({ outcome: 'cancelled' });
    const broken = await install(at, 'broken', `${imports}class P(BasePlugin)\n    pass\n`);
    expect([broken.status, broken.body.errors[0]]).toMatchObject([422, { pointer: '/source', line: 2 }]);
    const nothing = await install(at, 'nothing', 'x = 1\n');
    expect([nothing.status, nothing.body.errors[0]?.reason]).toEqual([
      422,
      expect.stringMatching(/no subclass of BasePlugin/),
    ]);
    const other = await call('POST', `${at}/plugins`, { id: 'm', dialect: 'middleware', source: '1', class: 'A' });
    expect([other.status, other.body.errors[0]?.pointer]).toEqual([422, '/class']);
  }, 120_000);

  it('that run away are ended at their limit, and the next call is unharmed', async () => {
    const at = await newAccount();
    await installed(
      at,
      'loop',
      `${imports}class P(BasePlugin):\n    async def pre_tool_execute(self, args, **kw):\n        while "loop" in args: pass\n        return {"ok": True}\n`,
      { timeouts: { timeoutMs: 300 } },
    );
    expect(await fire(at, 'pre_tool_execute', { value: { loop: 1 }, kwargs: {} })).toMatchObject({
      outcome: 'passed',
      value: { loop: 1 },
      handlers: [{ outcome: 'skipped', cause: 'timed_out', warnings: [{ code: 'handler_timeout' }] }],
    });
    expect((await fire(at, 'pre_tool_execute', { value: {}, kwargs: {} })).value).toEqual({ ok: true });
  }, 120_000);

  it('find the state of their session again in an interpreter that is another one', async () => {
    const at = await newAccount();
    await installed(
      at,
      'counter',
      `${imports}class P(BasePlugin):
    def __init__(self, start=0):
        super().__init__()
        self.start = start
        self.ctx = None
    async def on_load(self, ctx): self.ctx = ctx
    async def pre_subagent_run(self, task, **kw):
        n = self.ctx.get_state("n", self.start) + 1
        self.ctx.set_state("n", n)
        return str(n)
`,
      { config: { start: 0 } },
    );
    const input = { value: 't', kwargs: { name: 'x' }, agent: { name: 'swe', session_id: 's1' } };
    expect((await fire(at, 'pre_subagent_run', input)).value).toBe('1');
    expect((await fire(at, 'pre_subagent_run', input)).value).toBe('2');
    expect((await call('PATCH', `${at}/plugins/counter`, { config: { start: 100 } })).status).toBe(200);
    expect((await fire(at, 'pre_subagent_run', input)).value).toBe('3');
    const other = { ...input, agent: { name: 'swe', session_id: 's2' } };
    expect((await fire(at, 'pre_subagent_run', other)).value).toBe('101');
    const patched = await call('GET', `${at}/events?type=extension.patched&content=open`);
    expect(patched.body.items.map(({ data }) => [data.namespace, data.value])).toEqual([
      ['n', 1],
      ['n', 2],
      ['n', 3],
      ['n', 101],
    ]);
  }, 120_000);

  it('follow the exact profile where the account or the firing says so', async () => {
    const at = await newAccount();
    await installed(
      at,
      'load',
      `${imports}class P(BasePlugin):\n    loaded = False\n    async def on_load(self, ctx): self.loaded = True\n    async def pre_subagent_run(self, task, **kw): return f"{self.loaded} {sorted(kw)}"\n`,
    );
    const input = { value: 't', kwargs: { name: 'explore', job_id: 'j', is_background: false } };
    const documented = await fire(at, 'pre_subagent_run', { ...input, agent: { session_id: 'a' } });
    expect(documented.value).toBe("True ['is_background', 'job_id', 'name']");
    const exact = await fire(at, 'pre_subagent_run', { ...input, agent: { session_id: 'b' } }, { profile: '2.1' });
    expect(exact.value).toBe("False ['is_background', 'name']");
    const wrong = await call('POST', `${at}/hooks/kohaku/pre_subagent_run`, { input, profile: '9' });
    expect([wrong.status, wrong.body.errors[0]?.pointer]).toEqual([422, '/profile']);
  }, 120_000);
});
