import { randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { kohakuOf } from '#dialects';
import type { KohakuCase, KohakuDriver, KohakuProfile } from '#dialects';
import { memoryEventStore } from '#event-store';
import { fire, nobodyServes } from '#firing';
import type { Answer } from '#firing';
import type { Decision } from '#hooks';
import type { HostCall, Json, JsonObject } from '#record';
import type { Sandbox } from '#sandbox';
import { memorySealing } from '#sealing';
import { linkOf, loadKohaku } from './kohaku-plugins.js';
import type { KohakuWorld, LoadedKohaku } from './kohaku-plugins.js';

/**
 * Runs Kohaku cases on the product's own parts: its Python and JavaScript sandboxes, firing, engine and log (in memory).
 * What a case scripts of the framework around a hook (the tool, the conversation, the manager's steps) is played here.
 */
export const kohakuDriver = (sandbox: Sandbox, accounts: readonly string[]): KohakuDriver => {
  const dialects = { documented: kohakuOf('documented'), '2.1': kohakuOf('2.1') };
  const free = [...accounts];
  return {
    run: async (one, profile) => {
      const account = free.pop();
      if (account === undefined) throw new Error('more cases at once than accounts');
      const world = { account, dialect: dialects[profile], sandbox };
      try {
        const run = new CaseRun(one, profile, world, await loadKohaku(one.plugins, world));
        return { ...(await run.seen()), log: run.log };
      } finally {
        for (const { name } of one.plugins) sandbox.forget(account, name);
        free.push(account);
      }
    },
  };
};

interface Fired {
  readonly answer: Answer;
  readonly decision: Decision<ReturnType<typeof linkOf>, Json>;
}

interface Firing {
  readonly value?: Json;
  readonly kwargs?: JsonObject;
  readonly agent?: JsonObject;
  /** Whose turn it is; absent: every enabled plugin that has the hook, as they stand now. */
  readonly plugins?: readonly LoadedKohaku[];
}

class CaseRun {
  readonly log: Json[] = [];
  private readonly store = memoryEventStore();
  private readonly sealing = memorySealing();
  private readonly tokenKey = randomBytes(32);
  private readonly sessionId = uuidv7();
  private lastPosition = -1n;
  /** Plugins that were enabled and whose `on_load` is still to come. */
  private readonly pending = new Set<LoadedKohaku>();

  constructor(
    private readonly one: KohakuCase,
    private readonly profile: KohakuProfile,
    private readonly world: KohakuWorld,
    private readonly plugins: readonly LoadedKohaku[],
  ) {}

  seen(): Promise<JsonObject> {
    const drivers: { readonly [driver: string]: () => Promise<JsonObject> } = {
      wrap_tool: () => this.wrapTool(),
      executor: () => this.executor(),
      subagent_tool: () => this.subagentTool(),
      pre_tool_dispatch: () => this.dispatch(),
      run_pre: () => this.runPre(),
      controller_turn: () => this.controllerTurn(),
      post_llm: () => this.postLlm(),
      subagent_dispatch: () => this.subagentDispatch(),
      post_subagent: () => this.postSubagent(),
      notify: () => this.notify(),
      should_proceed: () => this.shouldProceed(),
      visibility: () => this.visibility(),
      lifecycle: () => this.lifecycle(),
      commands: () => this.commands(),
      termination: () => this.termination(),
      prompt: () => this.prompt(),
      services: () => this.services(),
      prompt_plugins: () => this.promptPlugins(),
      timing: () => this.timing(),
    };
    const run = Object.hasOwn(drivers, this.one.driver) ? drivers[this.one.driver] : undefined;
    if (run === undefined) throw new Error(`there is no driver ${this.one.driver}`);
    return run();
  }

  // ------------------------------------------------------------ tools

  private async wrapTool(): Promise<JsonObject> {
    const { input } = this.one;
    const plugins = this.enabled();
    const kwargs = { tool_name: text(input.tool_name), job_id: text(input.job_id) || 'job_1', context: 'CTX' };
    const pre = await this.fire('pre_tool_execute', { value: input.args ?? {}, kwargs, plugins });
    if (pre.answer.outcome === 'cancelled') {
      return { outcome: 'blocked', message: reasonOf(pre), tool_saw: null };
    }
    const saw = pre.answer.value;
    const tool = object(input.tool);
    if (typeof tool.raises === 'string') {
      return { outcome: 'raised', type: text(tool.type) || 'RuntimeError', message: tool.raises, tool_saw: saw };
    }
    const result = { output: '', exit_code: null, error: null, ...object(tool.returns) };
    const post = await this.fire('post_tool_execute', { value: result, kwargs: { ...kwargs, args: saw }, plugins });
    return { outcome: 'result', tool_saw: saw, result: resultIn(post.answer.value) };
  }

  /** The same through a tool job: an exception of a built-in tool becomes an error result, with post hooks. */
  private async executor(): Promise<JsonObject> {
    const { input } = this.one;
    const plugins = this.enabled();
    const jobId = text(input.job_id) || `${text(input.tool_name)}_1`;
    const isNative = input.native === true;
    const kwargs = { tool_name: text(input.tool_name), job_id: jobId };
    const agent = { native: isNative };
    const pre = await this.fire('pre_tool_execute', { value: input.args ?? {}, kwargs, agent, plugins });
    if (pre.answer.outcome === 'cancelled') {
      const { error, content, output } = object(pre.answer.surface);
      return { job: { error: error ?? null, output: output ?? null, state: 'error' }, model_text: content ?? null };
    }
    const saw = pre.answer.value;
    const tool = object(input.tool);
    const failed = typeof tool.raises === 'string' ? { output: '', error: tool.raises, exit_code: 1 } : null;
    const result = failed ?? { output: '', exit_code: null, error: null, ...object(tool.returns) };
    const post = await this.fire('post_tool_execute', { value: result, kwargs: { ...kwargs, args: saw }, plugins });
    const final = resultIn(post.answer.value);
    const { error = null, output = '' } = final;
    const words = error === null ? text(output) : text(error);
    const model = isNative
      ? error === null
        ? words
        : `Error: ${words}`
      : `## ${jobId} - ${error === null ? 'OK' : 'ERROR'}\n${words}\n`;
    return {
      job: { error, output, state: error === null ? 'done' : 'error' },
      model_text: model,
      tool_saw: saw,
      result: final,
    };
  }

  private async subagentTool(): Promise<JsonObject> {
    const { input } = this.one;
    const plugins = this.enabled();
    const kwargs = { tool_name: text(input.tool_name) };
    const agent = { subagent: true };
    const pre = await this.fire('pre_tool_execute', { value: input.args ?? {}, kwargs, agent, plugins });
    if (pre.answer.outcome === 'cancelled') return { text: object(pre.answer.surface).content ?? null };
    const result = { output: '', exit_code: null, error: null, ...object(object(input.tool).returns) };
    const more = { ...kwargs, args: pre.answer.value };
    const post = await this.fire('post_tool_execute', { value: result, kwargs: more, agent, plugins });
    const { error, output } = resultIn(post.answer.value);
    const words = error === null ? text(output) : `Error: ${text(error)}`;
    return { text: `[${text(input.tool_name)}] ${words}`, tool_saw: pre.answer.value };
  }

  private async dispatch(): Promise<JsonObject> {
    const { call, tools, native, model } = this.one.input;
    const agent = {
      name: 'alice',
      tools: tools ?? [],
      native: native === true,
      ...(model === undefined ? {} : { model }),
    };
    const { answer } = await this.fire('pre_tool_dispatch', { value: call ?? null, agent });
    if (answer.outcome !== 'cancelled') return { call: callIn(answer.value), events: [], appended: [] };
    return { call: null, ...eventsOf(object(answer.surface)) };
  }

  private async timing(): Promise<JsonObject> {
    const { tool_name: toolName, args } = this.one.input;
    const kwargs = { tool_name: text(toolName), job_id: 'job_1', context: 'CTX' };
    const plugins = this.enabled();
    const pre = await this.fire('pre_tool_execute', { value: args ?? {}, kwargs, plugins });
    const measured = [...timingsIn(pre)];
    if (pre.answer.outcome !== 'cancelled') {
      const result = { output: 'done', exit_code: 0, error: null };
      const more = { ...kwargs, args: pre.answer.value };
      measured.push(...timingsIn(await this.fire('post_tool_execute', { value: result, kwargs: more, plugins })));
    }
    return { timing: measured };
  }

  // ------------------------------------------------------------ models

  private async runPre(): Promise<JsonObject> {
    const { hook, value, kwargs } = this.one.input;
    const { answer, ...fired } = await this.fire(text(hook), { value: value ?? null, kwargs: object(kwargs) });
    if (answer.outcome !== 'cancelled') return { outcome: 'value', value: answer.value };
    return { outcome: 'blocked', message: reasonOf({ answer, ...fired }) };
  }

  /** One request of the controller: pre hooks, the model, post hooks. */
  private async controllerTurn(): Promise<JsonObject> {
    const { input } = this.one;
    const messages = input.messages ?? [{ role: 'user', content: input.user ?? 'hi' }];
    const kwargs = { model: text(input.model), tools: null };
    const pre = await this.fire('pre_llm_call', { value: messages, kwargs });
    if (pre.answer.outcome === 'cancelled') {
      const { content, metadata } = object(pre.answer.surface);
      const activity = { type: 'processing_error', detail: content ?? null, metadata: metadata ?? null };
      return { llm_called: false, model_called: false, error: reasonOf(pre), activities: [activity], activity };
    }
    const response = text(input.response);
    const post = await this.fire('post_llm_call', {
      value: response,
      kwargs: { messages: pre.answer.value, usage: {} },
    });
    const activities = (post.answer.activities ?? []) as readonly Json[];
    return {
      llm_called: true,
      model_called: true,
      sent: pre.answer.value,
      final: post.answer.value,
      activities,
    };
  }

  private async postLlm(): Promise<JsonObject> {
    const { response, messages, usage, model } = this.one.input;
    const kwargs = { messages: messages ?? [], usage: usage ?? {}, model: model ?? '' };
    const { answer } = await this.fire('post_llm_call', { value: text(response), kwargs });
    return { final: answer.value, activities: answer.activities ?? [] };
  }

  private async visibility(): Promise<JsonObject> {
    const { tools, subagents, provider_native: native, host_model_now: model } = this.one.input;
    await this.know();
    const value = { tools: tools ?? [], subagents: subagents ?? [], provider_native: native ?? [] };
    const { answer } = await this.fire('get_tool_visibility', { value, agent: model === undefined ? {} : { model } });
    const seen = object(answer.value);
    return {
      schemas: [...list(seen.tools), ...list(seen.subagents)],
      provider_native: seen.provider_native ?? [],
    };
  }

  // ------------------------------------------------------------ sub-agents

  /** The task stands under `task`, or is the text-mode body. */
  private async subagentDispatch(): Promise<JsonObject> {
    const { input } = this.one;
    const args = object(input.args);
    const field = Object.hasOwn(args, 'task') ? 'task' : 'content';
    const kwargs = { name: text(input.name), is_background: input.is_background ?? false };
    const { answer } = await this.fire('pre_subagent_run', { value: args[field] ?? '', kwargs });
    if (answer.outcome === 'cancelled') return { call: null, ...eventsOf(object(answer.surface)) };
    return { call: { name: text(input.name), args: { ...args, [field]: answer.value } }, events: [] };
  }

  private async postSubagent(): Promise<JsonObject> {
    const { input } = this.one;
    const value = { output: input.output ?? '', success: true, error: null };
    const kwargs = { name: text(input.name) || 'explore', job_id: text(input.job_id) || 'agent_explore_1' };
    const { answer } = await this.fire('post_subagent_run', { value, kwargs });
    return { output: object(answer.value).output ?? answer.value };
  }

  // ------------------------------------------------------------ callbacks and lifecycle

  private async notify(): Promise<JsonObject> {
    const { callback, kwargs } = this.one.input;
    const { answer } = await this.fire(text(callback), { kwargs: object(kwargs) });
    return { returned: answer.value };
  }

  private async shouldProceed(): Promise<JsonObject> {
    const { answer } = await this.fire('on_compact_start', { kwargs: object(this.one.input.kwargs) });
    return { proceed: answer.outcome !== 'cancelled' };
  }

  private async lifecycle(): Promise<JsonObject> {
    const returns: Json[] = [];
    for (const step of list(this.one.input.steps)) {
      const [word, ...given] = Array.isArray(step) ? (step as readonly Json[]) : [step];
      const returned = await this.step(text(word), given);
      if (returned !== undefined) returns.push(returned);
    }
    return { returns };
  }

  private async step(word: string, [name, flag]: readonly Json[]): Promise<Json | undefined> {
    switch (word) {
      case 'load_all':
        await this.fire('on_load', { plugins: this.enabled() });
        return undefined;
      case 'unload_all':
        await this.fire('on_unload', { plugins: [...this.plugins].reverse() });
        return undefined;
      case 'load_pending':
        await this.loadPending();
        return undefined;
      case 'notify':
        await this.fire(text(name), { kwargs: object(flag) });
        return undefined;
      case 'enable':
        this.enable(text(name));
        return undefined;
      case 'disable':
        this.disable(text(name));
        return undefined;
      case 'enable?':
        return this.enable(text(name));
      case 'disable?':
        return this.disable(text(name));
      case 'set':
        return this.set(text(name), flag !== false);
      case 'flip':
        return this.set(text(name), !(this.named(text(name))?.isEnabled ?? false));
      default:
        throw new Error(`there is no step ${word}`);
    }
  }

  /** As the framework's HTTP route: sets, and loads what was switched on. */
  private async set(name: string, isEnabled: boolean): Promise<Json> {
    if (this.named(name) === undefined) return 'KeyError';
    if (isEnabled) this.enable(name);
    else this.disable(name);
    await this.loadPending();
    return { name, enabled: isEnabled };
  }

  private enable(name: string): boolean {
    const plugin = this.named(name);
    if (plugin === undefined) return false;
    if (!plugin.isEnabled) this.pending.add(plugin);
    plugin.isEnabled = true;
    return true;
  }

  private disable(name: string): boolean {
    const plugin = this.named(name);
    if (plugin === undefined) return false;
    plugin.isEnabled = false;
    return true;
  }

  private async loadPending(): Promise<void> {
    const plugins = this.plugins.filter((plugin) => this.pending.has(plugin) && plugin.isEnabled);
    this.pending.clear();
    await this.fire('on_load', { plugins });
  }

  // ------------------------------------------------------------ contributions

  private async commands(): Promise<JsonObject> {
    const { answer } = await this.fire('contribute_commands', {});
    const { registered, error } = object(answer.value);
    return { registered: registered ?? [], error: error ?? null };
  }

  /** Exactly, votes are only taken where there is a configuration. */
  private async termination(): Promise<JsonObject> {
    const { last_output: lastOutput, config, context } = this.one.input;
    if (this.profile === '2.1' && (config === null || config === undefined)) return { terminate: false, reason: '' };
    const value = { turn_count: 1, ...object(context), last_output: text(lastOutput) };
    const { answer } = await this.fire('contribute_termination_check', { value });
    const { should_stop: terminate, reason } = object(answer.value);
    return { terminate: terminate ?? false, reason: reason ?? '' };
  }

  private async prompt(): Promise<JsonObject> {
    const { answer } = await this.fire('get_prompt_content', {});
    return { parts: object(answer.value).parts ?? [] };
  }

  private async services(): Promise<JsonObject> {
    const { answer } = await this.fire('runtime_services', {});
    return { services: answer.value };
  }

  private async promptPlugins(): Promise<JsonObject> {
    const { answer } = await this.fire('get_content', {});
    const parts = list(object(answer.value).parts);
    const whole = [text(this.one.input.base), ...parts.map(text)].filter((part) => part !== '').join('\n\n');
    return { parts, prompt: whole, text: whole, result: whole, output: whole };
  }

  // ------------------------------------------------------------ firing

  private named(name: string): LoadedKohaku | undefined {
    return this.plugins.find((plugin) => plugin.name === name);
  }

  private enabled(): readonly LoadedKohaku[] {
    return this.plugins.filter(({ isEnabled }) => isEnabled);
  }

  /** Makes the instances with the context of the load, so that a later model is a later one. */
  private async know(): Promise<void> {
    await this.fire('on_load', { plugins: this.enabled() });
  }

  private async fire(hook: string, { plugins, ...given }: Firing): Promise<Fired> {
    const { dialect, account, sandbox } = this.world;
    const context = object(this.one.input.ctx);
    const agent = {
      name: text(context.agent_name) || 'swe',
      model: text(context.model),
      session_id: this.sessionId,
      ...(this.one.driver === 'lifecycle' ? { on_load: false } : {}),
      ...given.agent,
    };
    const opening = dialect.open(hook, { input: { ...given, agent } });
    if (opening.kind === 'refused') throw new Error(`the input was refused: ${JSON.stringify(opening.faults)}`);
    const taking = (plugins ?? this.enabled()).filter(({ hooks }) => hooks.includes(hook));
    const invocationId = uuidv7();
    const decided: Fired['decision'][] = [];
    const running = fire(
      {
        account,
        dialect,
        hook,
        invocationId,
        attempt: 1,
        previousInvocationId: null,
        actor: { kind: 'system', id: 'conformance' },
        opening,
        occurredAt: null,
        operationId: null,
        correlationId: null,
        turnId: 'turn-1',
        turnInferred: false,
        turnPrompted: false,
        sessionId: opening.sessionId,
        agentId: opening.agentId,
        hop: 0,
        root: invocationId,
        cause: null,
        lineage: null,
        dataSubject: null,
        targetHmac: null,
        chain: taking.map((plugin) => linkOf(hook, plugin, dialect)),
        withoutHook: 0,
        chainOf: null,
        halted: null,
      },
      {
        store: this.store,
        sandbox,
        hostCalls: nobodyServes,
        envelope: await this.sealing.envelope(account, { kind: 'account' }),
        tokenKey: this.tokenKey,
        newId: uuidv7,
        now: () => new Date(),
        instance: 'conformance',
        onDecision: (decision) => {
          decided.push(decision);
        },
      },
      [],
    );
    const answer = await running.answer;
    const [decision] = decided;
    if (decision === undefined) throw new Error('nothing was decided');
    await this.readLog();
    return { answer, decision };
  }

  /** `LOG` and `MGR` are lines of the plugins' logs, which the record has. */
  private async readLog(): Promise<void> {
    const events = await this.store.readAccount(this.world.account, {
      after: this.lastPosition,
      limit: 10_000,
      types: ['host.called'],
    });
    for (const { event, position } of events) {
      this.lastPosition = position;
      const { member, args } = event.data as unknown as HostCall;
      if (member !== 'log' || args === undefined) continue;
      const opened = await this.sealing.open(this.world.account, args);
      if (opened.kind !== 'open') continue;
      const [, line] = opened.value as readonly Json[];
      if (typeof line === 'string') this.hear(line);
    }
  }

  private hear(line: string): void {
    if (line.startsWith('LOG ')) this.log.push(JSON.parse(line.slice(4)) as Json);
    if (!line.startsWith('MGR ')) return;
    const [word, name] = JSON.parse(line.slice(4)) as readonly [string, string];
    if (word === 'disable') this.disable(name);
    else this.enable(name);
  }
}

const text = (value: Json | undefined): string => (typeof value === 'string' ? value : '');

const list = (value: Json | undefined): readonly Json[] => (Array.isArray(value) ? (value as readonly Json[]) : []);

const object = (value: Json | undefined): JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};

const reasonOf = ({ answer }: Pick<Fired, 'answer'>): string | null => answer.cancellation?.reason ?? null;

const resultIn = (value: Json): JsonObject => {
  const { output = null, exit_code: exitCode = null, error = null } = object(value);
  return { output, exit_code: exitCode, error };
};

const callIn = (value: Json): JsonObject => {
  const { name, args } = object(value);
  return { name: name ?? null, args: args ?? {} };
};

const eventsOf = ({ event, jobId, content, exitCode, appended }: JsonObject): JsonObject => ({
  events: [{ type: event ?? null, job_id: jobId ?? '', content: content ?? '', exit_code: exitCode ?? null }],
  appended: appended ?? [],
});

const timingsIn = ({ answer }: Fired): readonly Json[] =>
  ((answer.activities ?? []) as readonly JsonObject[]).flatMap(({ type, metadata }) => {
    const { hook, plugin, blocked } = object(metadata);
    return type === 'plugin_hook_timing' ? [[hook ?? null, plugin ?? null, blocked ?? null]] : [];
  });
