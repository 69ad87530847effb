import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { arrange } from './arrange.js';
import { readLoadReport } from './load-report.js';
import { profiles } from './profiles.js';
import type { Profile } from './profiles.js';
import type { HookGates } from './registration.js';

const report = (said: object) => JSON.stringify({ started: true, ...said });
const read = (said: object, profile: Profile = profiles.documented, gates: HookGates = {}) =>
  readLoadReport(report(said), profile, gates);
const codes = (said: object, profile?: Profile) => read(said, profile).warnings.map(({ code }) => code);

describe('a load report', () => {
  it('is read whatever it is: what does not fit registers nothing', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        const { hooks, registrations } = readLoadReport(text, profiles['2026.9'], {});
        expect(hooks).toEqual([]);
        expect(registrations.handlers).toEqual([]);
      }),
    );
  });

  it('counts an alias as the hook that it stands for', () => {
    expect(read({ handlers: [{ id: 'deactivate#0', hook: 'deactivate' }] })).toMatchObject({
      hooks: ['gateway_stop'],
      warnings: [{ code: 'deprecated', detail: 'deactivate: use gateway_stop, until 2026-08-16' }],
    });
  });

  it('warns of hooks of another version', () => {
    const said = {
      handlers: [
        { id: 'a#0', hook: 'skill_changed' },
        { id: 'b#1', hook: 'before_agent_start' },
      ],
    };
    expect(codes(said, profiles['2026.7'])).toEqual(['deprecated', 'hook_not_in_profile']);
    expect(codes(said, profiles['2026.9'])).toEqual(['hook_not_in_profile', 'deprecated']);
  });

  it('warns of matchers that match nothing', () => {
    const handlers = [['*'], [], ['bash'], 'exec', [' ']].map((matcher, index) => ({
      id: `h#${String(index)}`,
      hook: 'after_tool_call',
      matcher,
    }));
    expect(codes({ handlers })).toEqual(Array(5).fill('bad_matcher'));
    expect(codes({ handlers: [{ id: 'h#0', hook: 'agent_end', matcher: ['exec'] }] })).toEqual(['no_meaning']);
  });

  it('keeps the policies that the manifest names, each once', () => {
    const policies = ['a', 'b', 'a'].map((id, index) => ({ id, handler: `policy#${String(index)}` }));
    const found = read({ policies, declared: ['a'] });
    expect(found.hooks).toEqual(['before_tool_call']);
    expect(found.registrations.policies).toEqual([policies[0]]);
    expect(found.warnings.map(({ detail }) => detail)).toEqual([
      'b is not among contracts.trustedToolPolicies of the manifest',
      'a is registered already',
    ]);
  });

  it('says what the gates keep from the plugin', () => {
    const handlers = ['llm_input', 'before_prompt_build', 'message_sent'].map((hook) => ({ id: `${hook}#0`, hook }));
    expect(read({ handlers }).gated).toEqual(['llm_input']);
    expect(read({ handlers }, profiles['2026.9']).gated).toEqual(['before_prompt_build', 'llm_input']);
    expect(read({ handlers }, profiles['2026.9'], { allowConversationAccess: true }).gated).toEqual([]);
    expect(
      read({ handlers }, profiles['2026.7'], { allowConversationAccess: true, allowPromptInjection: false }).gated,
    ).toEqual(['before_prompt_build']);
  });
});

describe('a chain', () => {
  const plugin = (id: string, handlers: readonly object[], policies: readonly object[] = []) => ({
    id,
    registrations: read({ handlers, policies, declared: policies.map((policy) => (policy as { id: string }).id) })
      .registrations,
    gates: { allowConversationAccess: true },
  });
  const order = (
    hook: string,
    plugins: readonly ReturnType<typeof plugin>[],
    input: object = { event: {}, context: {} },
    profile: Profile = profiles['2026.9'],
  ) => arrange({ hook, plugins, input: input as never }, profile);

  it('has policies first, then priorities, ties in the order of registration', () => {
    const places = order('before_tool_call', [
      plugin('a', [
        { id: 'a1', hook: 'before_tool_call', priority: 1 },
        { id: 'a2', hook: 'before_tool_call', priority: 5 },
      ]),
      plugin(
        'b',
        [
          { id: 'b1', hook: 'before_tool_call', priority: 1 },
          { id: 'b2', hook: 'before_tool_call', priority: 1.5 },
        ],
        [{ id: 'p', handler: 'bp' }],
      ),
    ]);
    expect(places.map(({ handler }) => handler)).toEqual(['bp', 'a2', 'b2', 'a1', 'b1']);
  });

  it('keeps those in it that the event is not for, and says so', () => {
    const matched = [plugin('a', [{ id: 'a1', hook: 'before_tool_call', matcher: ['exec'] }])];
    const input = (toolName: string) => ({ event: { toolName }, context: {} });
    expect(order('before_tool_call', matched, input('EXEC')).map(({ applies }) => applies)).toEqual([true]);
    expect(order('before_tool_call', matched, input('read')).map(({ applies }) => applies)).toEqual([false]);
    expect(order('before_tool_call', matched, input('read'), profiles['2026.7']).map(({ applies }) => applies)).toEqual(
      [true],
    );
  });

  it('runs prompt handlers that need the tools by themselves, and lets them add context only', () => {
    const plugins = [
      plugin('a', [
        { id: 'plain', hook: 'before_prompt_build' },
        { id: 'auth', hook: 'before_prompt_build', requiresToolAuthority: true },
      ]),
    ];
    const applying = (context: object) =>
      order('before_prompt_build', plugins, { event: {}, context })
        .filter(({ applies }) => applies)
        .map(({ handler, readAs }) => [handler, readAs]);
    expect(applying({})).toEqual([['plain', undefined]]);
    expect(applying({ toolAuthority: { activeToolNames: [] } })).toEqual([['auth', 'context-only']]);
  });

  it('bounds a limit that a plugin wrote in the documented profile, and only there', () => {
    const plugins = [plugin('a', [{ id: 'x', hook: 'agent_end', timeoutMs: 99_999_999.5 }])];
    const limit = (profile: Profile) => order('agent_end', plugins, undefined, profile)[0]?.timeoutMs;
    expect([limit(profiles.documented), limit(profiles['2026.7'])]).toEqual([600_000, 99_999_999]);
  });
});
