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
  readonly turnId: string;
  readonly outcome: string;
  readonly value: unknown;
  readonly gate?: {
    readonly blocked: boolean;
    readonly kind: string | null;
    readonly reason: string | null;
    readonly params: unknown;
  };
  readonly notice?: string;
  readonly retries?: readonly string[];
  readonly suppressed?: string;
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
  readonly gated: readonly string[];
  readonly warnings: readonly { readonly code: string; readonly detail: string }[];
  readonly errors: readonly { readonly pointer: string; readonly reason: string }[];
  readonly plugins: readonly {
    readonly id: string;
    readonly handlerPriority: number | null;
    readonly timeoutMs: number;
  }[];
}
interface Answer {
  readonly status: number;
  readonly text: string;
  readonly body: Body;
}

let accounts = 0;
/** Every test has an account of its own. */
const newAccount = async (): Promise<string> => {
  const id = `claw-${String((accounts += 1))}`;
  const made = await server.call('POST', '/v1/accounts', { body: { id, name: id } });
  expect(made.status).toBe(201);
  return `/v1/accounts/${id}`;
};

const call = (method: string, path: string, body?: unknown): Promise<Answer> =>
  server.call(method, path, body === undefined ? {} : { body }) as Promise<unknown> as Promise<Answer>;

const fire = (base: string, hook: string, body: object): Promise<Answer> =>
  call('POST', `${base}/hooks/openclaw/${hook}`, body);

const install = async (base: string, id: string, source: string, more: object = {}): Promise<Body> => {
  const body = { id, dialect: 'openclaw', language: 'typescript', source, enabled: true, reason: 'test', ...more };
  const answer = await call('POST', `${base}/plugins`, body);
  expect([answer.status, answer.text]).toEqual([201, answer.text]);
  return answer.body;
};

const entry = (id: string, register: string): string => `
  import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
  export default definePluginEntry({ id: ${JSON.stringify(id)}, name: "A plugin", register(api) { ${register} } });
`;

const toolCall = {
  event: { toolName: 'exec', params: { command: 'ls', cwd: '/srv' }, toolCallId: 'tc-1' },
  context: { runId: 'run-1', sessionKey: 'agent:main:main' },
};

describe('an OpenClaw plugin', () => {
  it('is installed as its authors wrote it, and says what it registered and what means nothing here', async () => {
    const base = await newAccount();
    const installed = await install(
      base,
      'tool-preflight',
      entry(
        'tool-preflight',
        `api.on("before_tool_call", async (event) => {
           if (event.toolName !== "web_search") return;
           return { requireApproval: { title: "Run web search", description: \`Allow search query: \${String(event.params.query ?? "")}\`,
             severity: "info", timeoutMs: 60_000, timeoutBehavior: "deny" } };
         }, { priority: 50 });
         api.on("llm_output", () => {});
         api.on("tool_before", () => {});
         api.on("before_agent_start", () => {});
         api.registerTool({ name: "x" });
         api.registerHook("gateway:startup", () => {});`,
      ),
    );
    expect(installed.hooks).toEqual(['before_agent_start', 'llm_output', 'before_tool_call']);
    expect(installed.gated).toEqual(['llm_output']);
    expect(installed.warnings.map(({ code }) => code).sort()).toEqual([
      'deprecated',
      'no_meaning',
      'no_meaning',
      'unknown_hook',
    ]);
  });

  it('runs in priority order and its parameters are laid over those of the call', async () => {
    const base = await newAccount();
    await install(
      base,
      'low',
      entry(
        'low',
        'api.on("before_tool_call", (e) => ({ params: { command: e.params.command + " -l" } }), { priority: 1 });',
      ),
    );
    await install(
      base,
      'high',
      entry('high', 'api.on("before_tool_call", () => ({ params: { command: "pwd" } }), { priority: 9 });'),
    );
    const { body } = await fire(base, 'before_tool_call', toolCall);
    expect(body.handlers.map(({ pluginId, outcome }) => [pluginId, outcome])).toEqual([
      ['high', 'rewrote'],
      ['low', 'rewrote'],
    ]);
    expect(body).toMatchObject({
      outcome: 'rewritten',
      turnId: 'run-1',
      value: { params: { command: 'ls -l' } },
      gate: { blocked: false, kind: null, reason: null, params: { command: 'ls -l', cwd: '/srv' } },
    });
    const again = await call('GET', `${base}/answers/${body.invocationId}`);
    expect(again.body).toEqual(body);
  });

  it('vetoes a call, and a handler that fails closes the gate with a fixed text', async () => {
    const base = await newAccount();
    await install(
      base,
      'guard',
      entry(
        'guard',
        'api.on("before_tool_call", (e) => e.params.command === "rm" ? { block: true, blockReason: "no rm" } : e.params.command === "x" ? JSON.parse("{") : undefined);',
      ),
    );
    const veto = await fire(base, 'before_tool_call', {
      ...toolCall,
      event: { ...toolCall.event, params: { command: 'rm' } },
    });
    expect(veto.body).toMatchObject({
      outcome: 'cancelled',
      cancellation: { pluginId: 'guard', reason: 'no rm', code: null },
      handlers: [{ outcome: 'cancelled' }],
      gate: { blocked: true, kind: 'veto', reason: 'no rm', params: { command: 'rm' } },
    });
    const failed = await fire(base, 'before_tool_call', {
      ...toolCall,
      event: { ...toolCall.event, params: { command: 'x' } },
    });
    expect(failed.body).toMatchObject({
      outcome: 'cancelled',
      value: null,
      cancellation: { pluginId: 'guard', reason: null, code: 'plugin_failed' },
      gate: { blocked: true, kind: 'failure', reason: 'Tool call blocked because before_tool_call hook failed' },
    });
  });

  it('holds a call that wants an approval: it is blocked until somebody decides', async () => {
    const base = await newAccount();
    await install(
      base,
      'asker',
      entry(
        'asker',
        'api.on("before_tool_call", () => ({ requireApproval: { title: "T", description: "D", onResolution() {} } }));',
      ),
    );
    const { body } = await fire(base, 'before_tool_call?wait=1', toolCall);
    expect(body).toMatchObject({
      outcome: 'held',
      handlers: [{ pluginId: 'asker', outcome: 'held' }],
      value: { requireApproval: { title: 'T', description: 'D', pluginId: 'asker' } },
      gate: { blocked: true, kind: 'held', reason: 'D', params: toolCall.event.params },
    });
  });

  it('runs trusted policies first, where the manifest names them', async () => {
    const base = await newAccount();
    const source = entry(
      'policy',
      `api.registerTrustedToolPolicy({ id: "ws", description: "d", evaluate: (e) => e.params.command === "ls" ? { params: { command: "ls /safe" } } : { allow: false } });
       api.registerTrustedToolPolicy({ id: "other", description: "d", evaluate: () => ({ block: true }) });
       api.on("before_tool_call", (e) => ({ params: { seen: e.params.command } }));`,
    );
    const files = {
      'index.ts': source,
      'openclaw.plugin.json': JSON.stringify({ id: 'policy', contracts: { trustedToolPolicies: ['ws'] } }),
    };
    const installed = await call('POST', `${base}/plugins`, {
      id: 'policy',
      dialect: 'openclaw',
      language: 'typescript',
      files,
      entry: 'index.ts',
    });
    expect(installed.body.warnings).toEqual([
      { code: 'policy_refused', detail: 'other is not among contracts.trustedToolPolicies of the manifest' },
    ]);
    const allowed = await fire(base, 'before_tool_call', toolCall);
    expect(allowed.body.gate).toMatchObject({ blocked: false, params: { command: 'ls /safe', seen: 'ls /safe' } });
    const refused = await fire(base, 'before_tool_call', {
      ...toolCall,
      event: { ...toolCall.event, params: { command: 'rm' } },
    });
    expect(refused.body.gate).toMatchObject({
      blocked: true,
      kind: 'veto',
      reason: 'blocked by ws',
      params: { command: 'rm' },
    });
    expect(refused.body.handlers.map(({ outcome }) => outcome)).toEqual(['cancelled', 'not_run']);
  });

  it('must have the id that its entry and its manifest say', async () => {
    const base = await newAccount();
    const answer = await call('POST', `${base}/plugins`, {
      id: 'mine',
      dialect: 'openclaw',
      source: entry('theirs', 'api.on("agent_end", () => {})'),
    });
    expect([answer.status, answer.body.errors[0]?.pointer]).toEqual([422, '/source']);
    const files = { 'i.js': entry('mine', 'api.on("agent_end", () => {})'), 'openclaw.plugin.json': '{"id":"theirs"}' };
    const other = await call('POST', `${base}/plugins`, { id: 'mine', dialect: 'openclaw', files, entry: 'i.js' });
    expect([other.status, other.body.errors[0]?.pointer]).toEqual([422, '/files/openclaw.plugin.json']);
  });
});

describe('an account', () => {
  it('opens the conversation to a plugin, and keeps prompts closed to it, by its settings', async () => {
    const base = await newAccount();
    await install(
      base,
      'reader',
      entry(
        'reader',
        `api.on("before_agent_run", () => ({ outcome: "block", reason: "card number", message: "Please remove it" }));
         api.on("before_prompt_build", () => ({ prependContext: "P" }));`,
      ),
    );
    const prompt = { event: { prompt: 'hi', messages: [] }, context: { runId: 'r' } };
    expect((await fire(base, 'before_agent_run', prompt)).body).toMatchObject({ outcome: 'passed', handlers: [] });
    expect((await fire(base, 'before_prompt_build', prompt)).body.value).toEqual({ prependContext: 'P' });
    const gates = { reader: { allowConversationAccess: true, allowPromptInjection: false } };
    const changed = await call('PATCH', `${base}/settings`, { openclawHookGates: gates });
    expect(changed.status).toBe(200);
    const blocked = await fire(base, 'before_agent_run', prompt);
    expect(blocked.body).toMatchObject({
      outcome: 'cancelled',
      cancellation: { pluginId: 'reader', reason: null },
      value: { decision: { outcome: 'block', message: 'Please remove it' }, pluginId: 'reader' },
      notice: 'Your message could not be sent: Please remove it (blocked by reader)',
    });
    expect(blocked.text).not.toContain('card number');
    expect((await fire(base, 'before_prompt_build', prompt)).body).toMatchObject({ value: null, handlers: [] });
  });

  it('follows the profile of its settings, and a firing may name another', async () => {
    const base = await newAccount();
    await install(
      base,
      'writer',
      entry(
        'writer',
        `api.on("message_sending", (e) => ({ content: e.content + " +A", metadata: { config: e.context?.pluginConfig ?? null } }), { priority: 2 });
         api.on("message_sending", (e) => ({ content: e.content + " +B" }));`,
      ),
      { config: { tone: 'dry' } },
    );
    const sending = { event: { to: 'user-9', content: 'hi' }, context: { channelId: 'telegram' } };
    expect((await fire(base, 'message_sending', sending)).body.value).toEqual({
      content: 'hi +A +B',
      metadata: { config: { tone: 'dry' } },
    });
    const exact = await fire(base, 'message_sending', { ...sending, profile: '2026.7' });
    expect(exact.body.value).toEqual({ content: 'hi +B', metadata: { config: null } });
    expect((await fire(base, 'skill_changed', { event: {} })).status).toBe(404);
    expect((await fire(base, 'skill_changed', { event: {}, profile: '2026.9' })).status).toBe(200);
    expect((await fire(base, 'message_sending', { ...sending, profile: '2025' })).body.errors[0]?.pointer).toBe(
      '/profile',
    );
    await call('PATCH', `${base}/settings`, { profiles: { openclaw: '2026.9' } });
    expect((await fire(base, 'before_agent_start', { event: { prompt: 'p' } })).status).toBe(404);
  });

  it('sets limits: for a hook, for a plugin, and below them what the plugin wrote', async () => {
    const base = await newAccount();
    await install(
      base,
      'slow',
      entry(
        'slow',
        'api.on("agent_end", () => new Promise((done) => setTimeout(done, 60_000)), { timeoutMs: 40 }); api.on("message_sent", () => {}, { timeoutMs: 70 });',
      ),
    );
    await call('PATCH', `${base}/settings`, { openclawHookGates: { slow: { allowConversationAccess: true } } });
    const late = await fire(base, 'agent_end', { event: { messages: [], success: true }, context: { runId: 'r' } });
    expect(late.body).toMatchObject({
      outcome: 'observed',
      handlers: [
        {
          outcome: 'skipped',
          cause: 'timed_out',
          warnings: [{ code: 'handler_timeout', detail: 'timed out after 40ms' }],
        },
      ],
    });
    const limit = async (): Promise<number | undefined> =>
      (await call('GET', `${base}/chain?dialect=openclaw&hook=message_sent`)).body.plugins[0]?.timeoutMs;
    expect(await limit()).toBe(70);
    await call('PATCH', `${base}/plugins/slow`, { timeouts: { timeoutMs: 3000 } });
    expect(await limit()).toBe(3000);
    await call('PATCH', `${base}/plugins/slow`, { timeouts: { timeoutMs: 3000, hooks: { message_sent: 1500 } } });
    expect(await limit()).toBe(1500);
  });
});

describe('a runtime', () => {
  it('gets exec environments without the names that no plugin may set', async () => {
    const base = await newAccount();
    await install(
      base,
      'env',
      entry('env', 'api.on("resolve_exec_env", () => ({ PATH: "/evil", OPENAI_API_KEY: "k", LD_PRELOAD: "x" }));'),
    );
    const { body } = await fire(base, 'resolve_exec_env', { event: { toolName: 'exec', host: 'gateway' } });
    expect(body.value).toEqual({ OPENAI_API_KEY: 'k' });
    expect(body.handlers[0]?.warnings.map(({ code, detail }) => [code, detail])).toEqual([
      ['env_key_dropped', 'PATH'],
      ['env_key_dropped', 'LD_PRELOAD'],
    ]);
  });

  it('is granted a retry so often and no more, whichever process counts', async () => {
    const base = await newAccount();
    await install(
      base,
      'fin',
      entry(
        'fin',
        'api.on("before_agent_finalize", () => ({ action: "revise", reason: "Check.", retry: { instruction: "Run the tests", maxAttempts: 2 } }));',
      ),
    );
    await call('PATCH', `${base}/settings`, { openclawHookGates: { fin: { allowConversationAccess: true } } });
    const values: unknown[] = [];
    for (let round = 0; round < 3; round += 1) {
      const { body } = await fire(base, 'before_agent_finalize', {
        event: { sessionId: 's', stopHookActive: false },
        context: { runId: 'run-f' },
      });
      values.push(body.value);
    }
    const revise = {
      action: 'revise',
      reason: 'Check.\n\nRun the tests',
      retry: { instruction: 'Run the tests', maxAttempts: 2 },
    };
    expect(values).toEqual([revise, revise, { action: 'continue' }]);
  });

  it('asks the owner of a conversation and nobody else', async () => {
    const base = await newAccount();
    await install(
      base,
      'owner',
      entry(
        'owner',
        'api.on("inbound_claim", (e) => e.content === "mine" ? { handled: true, reply: { text: "ok" } } : undefined);',
      ),
    );
    await install(
      base,
      'greedy',
      entry('greedy', 'api.on("inbound_claim", () => ({ handled: true }), { priority: 9 });'),
    );
    const claim = (content: string, pluginId: string) =>
      fire(base, 'inbound_claim', {
        event: { content, channel: 't', isGroup: false },
        context: { channelId: 't', pluginBinding: { pluginId } },
      });
    expect((await claim('mine', 'owner')).body.value).toEqual({
      status: 'handled',
      result: { handled: true, reply: { text: 'ok' } },
    });
    expect((await claim('other', 'owner')).body.value).toEqual({ status: 'declined' });
    expect((await claim('mine', 'ghost')).body.value).toEqual({ status: 'missing_plugin' });
  });

  it("finds each of a plugin's handlers on record by itself, with what it logged", async () => {
    const base = await newAccount();
    await install(
      base,
      'twice',
      entry(
        'twice',
        'api.on("message_sent", () => api.logger.info("first"), { priority: 2 }); api.on("message_sent", () => api.logger.info("second"));',
      ),
    );
    const { body } = await fire(base, 'message_sent', {
      event: { to: 'u', content: 'c', success: true },
      context: { channelId: 't' },
    });
    expect(body).toMatchObject({ outcome: 'observed', handlers: [{ outcome: 'observed' }, { outcome: 'observed' }] });
    const kept = await server.call('GET', `${base}/invocations/${body.invocationId}`);
    const { handlers } = kept.body as {
      handlers: readonly { place: number; pluginId: string; hostCalls: readonly { args: readonly string[] }[] }[];
    };
    expect(
      handlers.map(({ place, pluginId, hostCalls }) => [place, pluginId, hostCalls.map(({ args }) => args[1])]),
    ).toEqual([
      [0, 'twice', ['first']],
      [1, 'twice', ['second']],
    ]);
  });

  it('is told why a message is not delivered', async () => {
    const base = await newAccount();
    await install(
      base,
      'dlp',
      entry(
        'dlp',
        'api.on("message_sending", (e) => e.content === "secret" ? { cancel: true, cancelReason: "dlp" } : { content: "" });',
      ),
    );
    const send = (content: string) =>
      fire(base, 'message_sending', { event: { to: 'u', content }, context: { channelId: 't' } });
    expect((await send('secret')).body).toMatchObject({
      outcome: 'cancelled',
      value: { cancel: true, cancelReason: 'dlp' },
      cancellation: { reason: 'dlp' },
      suppressed: 'cancelled_by_message_sending_hook',
    });
    expect((await send('hi')).body).toMatchObject({
      outcome: 'rewritten',
      suppressed: 'empty_after_message_sending_hook',
    });
  });

  it('is told of an event that does not fit, and nothing runs', async () => {
    const base = await newAccount();
    const answer = await fire(base, 'before_tool_call', {
      event: { toolName: 5, params: {}, later: true },
      context: { runId: 'r' },
    });
    expect([answer.status, answer.body.errors.map(({ pointer }) => pointer)]).toEqual([422, ['/event/toolName']]);
  });
});
