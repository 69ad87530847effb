import { describe, expect, it } from '@jest/globals';
import { runChain, type Link, type Said } from '#hooks';
import type { Json, JsonObject } from '#record';
import { kohakuOf } from './kohaku.js';
import { readLoadReport } from './load-report.js';

const dialect = kohakuOf('documented');

const opened = (hook: string, input: JsonObject) => {
  const opening = dialect.open(hook, { input });
  if (opening.kind === 'refused') throw new Error(JSON.stringify(opening.faults));
  return opening;
};

/** What a chain comes to when its plugins say this, each a raw result of the guest program. */
const chain = async (hook: string, input: JsonObject, said: { readonly [plugin: string]: string }) => {
  const { value, input: text } = opened(hook, input);
  const links: readonly Link[] = Object.keys(said).map((pluginId) => ({
    pluginId,
    mode: 'enforce',
    failureMode: 'open',
  }));
  const point = dialect.entries.get(hook)?.point;
  if (point === undefined) throw new Error(hook);
  const ask = (link: Link, current: Json): Promise<Said<Json>> =>
    Promise.resolve({ ...dialect.read(hook, said[link.pluginId] ?? '=', current), durationMs: 1 });
  const facts = { input: text, loaded: [], counts: {} };
  const ran = await runChain(point, value, links, ask);
  const decision = dialect.conclude?.(hook, ran, facts) ?? ran;
  return {
    outcome: decision.outcome,
    value: dialect.answerValue?.(hook, decision, facts) ?? null,
    more: dialect.answerMore?.(hook, decision, facts) ?? {},
    asked: decision.steps.filter(({ verdict }) => verdict.kind !== 'not_run').map(({ link }) => link.pluginId),
  };
};

const line = (tag: string, value: Json, warnings = ''): string => `${tag}${JSON.stringify(value)}\n${warnings}`;

describe('the Kohaku dialect', () => {
  it('has every hook of the catalogue, and blocks where upstream does', () => {
    const blocking = [...dialect.entries.values()].filter(({ cancellable }) => cancellable).map(({ name }) => name);
    expect(dialect.entries.size).toBe(24);
    expect(blocking).toEqual([
      'pre_llm_call',
      'pre_tool_dispatch',
      'pre_tool_execute',
      'pre_subagent_run',
      'on_compact_start',
    ]);
  });

  it.each([
    ['~{"value":1}', 'on_event'],
    ['!{"message":"x"}', 'post_tool_execute'],
    ['^{"should_stop":true,"reason":"x"}', 'pre_tool_execute'],
    ['+{"parts":[]}', 'pre_tool_execute'],
    ['~not json', 'pre_tool_execute'],
    ['', 'pre_tool_execute'],
    ['?["made_up","x"]', 'pre_tool_execute'],
  ])('takes %s of %s for malformed, whoever sends it', (raw, hook) => {
    expect(dialect.read(hook, raw, { value: {} }).verdict).toEqual({ kind: 'skipped', cause: 'malformed' });
  });

  it('asks everybody about compaction, also after a veto', async () => {
    const seen = await chain(
      'on_compact_start',
      { kwargs: { context_length: 1 } },
      {
        a: line('!', { message: null }),
        b: '.',
      },
    );
    expect([seen.outcome, seen.asked]).toEqual(['cancelled', ['a', 'b']]);
  });

  it('stops at the first vote and gives its reason', async () => {
    const seen = await chain(
      'contribute_termination_check',
      { value: {} },
      {
        a: '=',
        b: line('^', { should_stop: true, reason: 'B' }),
        c: line('^', { should_stop: true, reason: 'C' }),
      },
    );
    expect([seen.value, seen.asked]).toEqual([{ should_stop: true, reason: 'B' }, ['a', 'b']]);
  });

  it('intersects visibility per category, judging names of sub-agents as sub-agents', async () => {
    const value = { tools: ['read', 'write', 'explore'], subagents: ['explore'], provider_native: ['web'] };
    const seen = await chain(
      'get_tool_visibility',
      { value },
      {
        a: line('+', { allowed_tools: ['read', 'web'] }),
        b: line('+', { allowed_tools: ['read', 'write', 'web'], allowed_subagents: [] }),
        c: '=',
      },
    );
    expect(seen.value).toEqual({
      allowed_tools: ['read', 'web'],
      allowed_subagents: [],
      tools: ['read'],
      subagents: [],
      provider_native: ['web'],
    });
  });

  it('marks an edited text once, and not at all when a later plugin takes it back', async () => {
    const input = { value: 'x', kwargs: {} };
    const both = await chain('post_llm_call', input, { a: line('~', { value: 'xA' }), b: line('~', { value: 'xAB' }) });
    expect(both.more.activities).toEqual([
      {
        type: 'assistant_message_edited',
        detail: '[edited by plugin: a, b]',
        metadata: { edited_by: ['a', 'b'], original_preview: 'x', final_length: 3 },
      },
    ]);
    const undone = await chain('post_llm_call', input, { a: line('~', { value: 'y' }), b: line('~', { value: 'x' }) });
    expect([undone.value, undone.more.activities]).toEqual(['x', undefined]);
  });

  it('lets the later plugin win a service, and a command only where its plugin overrides', async () => {
    const services = await chain(
      'runtime_services',
      {},
      {
        a: line('+', { services: { db: 1, fs: 1 } }),
        b: line('+', { services: { db: 2 } }),
      },
    );
    expect(services.value).toEqual({ db: 2, fs: 1 });
    const clash = await chain(
      'contribute_commands',
      {},
      {
        a: line('+', { commands: [['hello', 'a', false]] }),
        b: line('+', { commands: [['info', 'b', false]] }),
      },
    );
    expect(clash.value).toMatchObject({ registered: ['hello'], error: 'ValueError', collision: 'info' });
    const override = await chain('contribute_commands', {}, { b: line('+', { commands: [['info', 'b', true]] }) });
    expect(override.value).toMatchObject({ registered: ['info'], error: null });
  });

  it('ends a call that was rewritten to a tool that is not there', async () => {
    const input = { value: { name: 'bash', args: {} }, agent: { tools: ['bash'] } };
    const seen = await chain('pre_tool_dispatch', input, {
      a: line('~', { value: { name: 'ghost', args: {}, raw: '' } }),
    });
    expect([seen.outcome, seen.more.surface]).toEqual([
      'cancelled',
      expect.objectContaining({
        content: '[pre_tool_dispatch] unknown tool after rewrite: ghost',
        jobId: 'blocked_bash',
      }),
    ]);
  });

  it('takes the response for what goes through, wherever the host put it', () => {
    const one = opened('post_llm_call', { value: 'x', kwargs: { messages: [1] } });
    const other = opened('post_llm_call', { value: [1], kwargs: { response: 'x' } });
    expect([one.value, other.value]).toEqual([{ value: 'x' }, { value: 'x' }]);
    expect(JSON.parse(one.input)).toEqual(JSON.parse(other.input));
  });

  it('says which part of a firing does not fit', () => {
    const faults = (hook: string, body: JsonObject): readonly string[] => {
      const opening = dialect.open(hook, body);
      return opening.kind === 'refused' ? opening.faults.map(({ pointer }) => pointer) : [];
    };
    expect(faults('pre_tool_execute', {})).toEqual(['/input/value']);
    expect(faults('pre_tool_execute', { input: [] })).toEqual(['/input']);
    expect(faults('pre_tool_execute', { input: { value: 1, kwargs: 1, agent: [] } })).toEqual([
      '/input/kwargs',
      '/input/agent',
    ]);
    expect(faults('pre_tool_dispatch', { input: { value: { name: 1 } } })).toEqual(['/input/value']);
    expect(faults('on_event', { input: { agent: { session_id: 'a\u0000' } } })).toEqual(['/input/agent/session_id']);
  });

  it('takes a load report for no more than it is', () => {
    expect(readLoadReport('nonsense').hooks).toEqual([]);
    const report = readLoadReport(
      JSON.stringify({ hooks: ['pre_tool_execute', 'toString', 1], priority: 'x', warnings: [['a b'], ['ok', 'd']] }),
    );
    expect(report).toMatchObject({
      hooks: ['pre_tool_execute'],
      registrations: { priority: 50 },
      warnings: [{ code: 'ok', detail: 'd' }],
    });
  });

  it('installs prompt plugins as the page says, and not as upstream 2.1 does', () => {
    const report = JSON.stringify({ hooks: ['get_content'], priority: 40, prompt: true });
    expect(readLoadReport(report).hooks).toEqual(['get_content']);
    expect(readLoadReport(report, { profile: '2.1' })).toMatchObject({
      hooks: [],
      warnings: [{ code: 'prompt_plugin_rejected' }],
    });
  });
});
