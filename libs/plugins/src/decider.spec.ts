import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { LoadFindings, NewEvent, PluginChanged, PluginSnapshot, Sealed, StoredCode } from '#record';
import {
  decide,
  decideOrder,
  foldPlugin,
  neverInstalled,
  type Circumstances,
  type Decided,
  type PluginCommand,
  type PluginHistory,
  type PluginPatch,
  type PluginState,
} from './decider.js';
import type { DialectFacts } from './dialect-facts.js';
import { foldSet } from './plugin-set.js';

const sealed = (text: string): Sealed => ({ $sealed: { v: 1, k: 'k1', b: text } });

const facts: DialectFacts = {
  entries: new Map([
    ['guardedHook', { cancellable: true, defaultTimeoutMs: 5000 }],
    ['observedHook', { cancellable: false, defaultTimeoutMs: 5000 }],
  ]),
  timeoutBounds: { min: 1, max: 5000 },
};

const circumstances: Circumstances = {
  actor: { kind: 'key', id: 'key-1', onBehalfOf: 'ada' },
  reason: sealed('ticket 7'),
  factsOf: () => facts,
};

const findings = (hooks: readonly string[], requestedPermissions: readonly string[] = []): LoadFindings => ({
  hooks,
  gated: [],
  requestedPermissions,
  warnings: [],
  registrations: {},
});

const code = (digest: string): StoredCode => ({
  language: 'javascript',
  source: sealed(digest),
  sourceDigest: digest,
  compiled: sealed(digest),
  compiledDigest: digest,
  compiler: null,
});

const guard: PluginState = {
  id: 'guard',
  name: 'Guard',
  dialect: 'middleware',
  version: '1.0.0',
  enabled: true,
  priority: null,
  failureMode: 'open',
  mode: 'enforce',
  isolation: 'warm',
  timeouts: {},
  permissions: [],
  config: sealed('{}'),
  configDigest: 'empty',
  configSchema: null,
  code: code('v1'),
  findings: findings(['guardedHook']),
};

/** Runs commands one after another, each on what the ones before it left; the last must be decided. */
const after = (
  ...commands: readonly PluginCommand[]
): { readonly history: PluginHistory; readonly events: readonly NewEvent[] } =>
  commands.reduce<{ history: PluginHistory; events: readonly NewEvent[] }>(
    ({ history, events }, command) => {
      const decision = decided(command, history);
      const all = [...events, ...decision.events];
      return { history: foldPlugin(all), events: all };
    },
    { history: neverInstalled, events: [] },
  );

const decided = (command: PluginCommand, history: PluginHistory): Decided => {
  const decision = decide(command, history, circumstances);
  if (decision.kind === 'refused') throw new Error(`refused: ${JSON.stringify(decision)}`);
  return decision;
};

const install = (over: Partial<PluginState> = {}): PluginCommand => ({
  kind: 'install',
  plugin: { ...guard, ...over },
});
const patch = (fields: PluginPatch): PluginCommand => ({ kind: 'change', patch: fields });
const changeOf = (event: NewEvent | undefined): PluginChanged => event?.data as unknown as PluginChanged;
const types = (events: readonly NewEvent[]): readonly string[] => events.map(({ type }) => type);

describe('installing', () => {
  it('gives revision 1 and one event that names the whole state', () => {
    const { events } = after(install());
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      type: 'plugin.installed',
      actor: { id: 'key-1', onBehalfOf: 'ada' },
      pluginId: 'guard',
      pluginRevision: 1,
    });
    expect(changeOf(events[0])).toMatchObject({
      before: null,
      after: { ...guard, revision: 1 },
      weakensEnforcement: false,
    });
  });

  it('is refused for an id that is installed', () => {
    expect(decide(install(), after(install()).history, circumstances)).toEqual({ kind: 'refused', refusal: 'exists' });
  });

  it('goes on with the revision numbers after an uninstall', () => {
    const { history } = after(install(), patch({ priority: 3 }), { kind: 'uninstall' }, install());
    expect(history.current?.revision).toBe(3);
    expect([...history.revisions.keys()]).toEqual([1, 2, 3]);
  });

  it('is refused with failureMode closed when none of its hooks can cancel', () => {
    const refusal = decide(
      install({ failureMode: 'closed', findings: findings(['observedHook']) }),
      neverInstalled,
      circumstances,
    );
    expect(refusal).toMatchObject({ refusal: 'faulty', faults: [{ pointer: '/failureMode' }] });
  });

  it.each([
    [{ timeoutMs: 0 }, '/timeouts/timeoutMs'],
    [{ timeoutMs: 5001 }, '/timeouts/timeoutMs'],
    [{ hooks: { guardedHook: 1.5 } }, '/timeouts/hooks/guardedHook'],
    [{ hooks: { 'no/hook': 5 } }, '/timeouts/hooks/no~1hook'],
  ])('is refused with time limits outside the bounds of the dialect: %j', (timeouts, pointer) => {
    expect(decide(install({ timeouts }), neverInstalled, circumstances)).toMatchObject({ faults: [{ pointer }] });
  });
});

describe('a PATCH', () => {
  it('that asks for what is already so writes nothing and answers the same state', () => {
    const { history } = after(install());
    const same = patch({
      enabled: true,
      mode: 'enforce',
      config: { sealed: sealed('other bytes'), digest: 'empty' },
      timeouts: {},
    });
    expect(decided(same, history)).toEqual({ kind: 'decided', events: [], after: history.current });
  });

  it('gives the events that apply, in a fixed order, in one revision', () => {
    const { history } = after(install({ permissions: ['host:fetch'] }));
    const { events, after: state } = decided(
      patch({
        enabled: false,
        mode: 'observe',
        permissions: [],
        config: { sealed: sealed('c'), digest: 'c' },
        priority: 1,
      }),
      history,
    );
    expect(types(events)).toEqual([
      'plugin.configured',
      'plugin.permissions_changed',
      'plugin.mode_changed',
      'plugin.disabled',
    ]);
    expect(events.map(changeOf).map(({ changed }) => changed)).toEqual([
      ['config', 'priority'],
      ['permissions'],
      ['mode'],
      ['enabled'],
    ]);
    expect(events.map(({ pluginRevision }) => pluginRevision)).toEqual([2, 2, 2, 2]);
    expect(state).toMatchObject({
      enabled: false,
      mode: 'observe',
      permissions: [],
      configDigest: 'c',
      priority: 1,
      revision: 2,
    });
  });

  it('records as before what the previous event recorded as after', () => {
    const { events } = after(
      install(),
      patch({ mode: 'observe', enabled: false, priority: 2 }),
      patch({ enabled: true }),
      { kind: 'uninstall' },
      install(),
    );
    events.slice(1).forEach((event, index) => {
      expect(changeOf(event).before).toEqual(changeOf(events[index]).after);
    });
  });

  it('is refused for what is not installed', () => {
    expect(decide(patch({ enabled: true }), neverInstalled, circumstances)).toEqual({
      kind: 'refused',
      refusal: 'not_installed',
    });
    const gone = after(install(), { kind: 'uninstall' }).history;
    expect(decide(patch({ enabled: true }), gone, circumstances)).toEqual({
      kind: 'refused',
      refusal: 'not_installed',
    });
  });
});

describe('a new version', () => {
  const version = (found: LoadFindings, permissions: readonly string[] | null = null): PluginCommand => ({
    kind: 'version',
    version: '2.0.0',
    code: code('v2'),
    findings: found,
    permissions,
  });

  it('keeps settings and brings code and findings', () => {
    const { history } = after(
      install({ mode: 'observe', priority: 4 }),
      version(findings(['guardedHook', 'observedHook'])),
    );
    expect(history.current).toMatchObject({
      version: '2.0.0',
      mode: 'observe',
      priority: 4,
      code: { sourceDigest: 'v2' },
      revision: 2,
    });
  });

  it('is granted what its source asks for where the grants were just what the old source asked for', () => {
    const before = install({ findings: findings(['guardedHook'], ['host:fetch']), permissions: ['host:fetch'] });
    const { history } = after(before, version(findings(['guardedHook'], ['host:llm', 'host:fetch'])));
    expect(history.current?.permissions).toEqual(['host:fetch', 'host:llm']);
  });

  it('keeps the list of an owner who granted something else', () => {
    const before = install({ findings: findings(['guardedHook'], ['host:fetch']), permissions: [] });
    const { history } = after(before, version(findings(['guardedHook'], ['host:llm', 'host:fetch'])));
    expect(history.current?.permissions).toEqual([]);
  });

  it('is refused when the plugin fails closed and the new code has no hook that can cancel', () => {
    const { history } = after(install({ failureMode: 'closed' }));
    expect(decide(version(findings(['observedHook'])), history, circumstances)).toMatchObject({ refusal: 'faulty' });
  });
});

describe('a rollback', () => {
  const version: PluginCommand = {
    kind: 'version',
    version: '2.0.0',
    code: code('v2'),
    findings: findings(['guardedHook']),
    permissions: null,
  };

  it('brings code and settings of a revision back as a new revision, and leaves enabled as it is', () => {
    const { history, events } = after(install(), version, patch({ mode: 'observe', enabled: false }), {
      kind: 'rollback',
      revision: 1,
    });
    expect(history.current).toEqual({ ...guard, enabled: false, revision: 4 });
    expect(events.at(-1)).toMatchObject({ type: 'plugin.rolled_back', data: { toRevision: 1 } });
  });

  it('to a revision that never was is refused', () => {
    expect(decide({ kind: 'rollback', revision: 9 }, after(install()).history, circumstances)).toEqual({
      kind: 'refused',
      refusal: 'unknown_revision',
      revision: 9,
    });
  });

  it('to the state in force writes nothing', () => {
    expect(decided({ kind: 'rollback', revision: 1 }, after(install()).history).events).toEqual([]);
  });
});

describe('becoming what a whole set says', () => {
  it('gives a version and the settings that differ, in one revision', () => {
    const { history } = after(install());
    const { events, after: state } = decided(
      { kind: 'become', plugin: { ...guard, version: '1.1.0', code: code('v2'), mode: 'observe' }, sameSchema: true },
      history,
    );
    expect(types(events)).toEqual(['plugin.versioned', 'plugin.mode_changed']);
    expect(state).toMatchObject({ version: '1.1.0', mode: 'observe', revision: 2 });
    expect(changeOf(events[1]).before).toEqual(changeOf(events[0]).after);
  });

  it('writes nothing when it is that already, whatever the sealed bytes', () => {
    const resealed = { ...guard, config: sealed('again'), code: { ...code('v1'), source: sealed('again') } };
    const { history } = after(install());
    expect(decided({ kind: 'become', plugin: resealed, sameSchema: true }, history).events).toEqual([]);
  });
});

describe('weakening enforcement', () => {
  const strict = install({
    failureMode: 'closed',
    permissions: ['host:decide'],
    timeouts: { hooks: { guardedHook: 2000 } },
    findings: findings(['guardedHook', 'observedHook']),
  });
  const weakening = (command: PluginCommand, first = strict): boolean =>
    decided(command, after(first).history).events.some((event) => changeOf(event).weakensEnforcement);

  it.each<[string, PluginCommand]>([
    ['mode enforce to observe', patch({ mode: 'observe' })],
    ['failureMode closed to open', patch({ failureMode: 'open' })],
    ['a shorter time', patch({ timeouts: { hooks: { guardedHook: 1999 } } })],
    ['a permission taken away', patch({ permissions: [] })],
    ['disabled', patch({ enabled: false })],
    ['uninstalled', { kind: 'uninstall' }],
    [
      'a version that no longer handles a hook',
      { kind: 'version', version: '2', code: code('v2'), findings: findings(['guardedHook']), permissions: null },
    ],
  ])('is: %s', (_, command) => {
    expect(weakening(command)).toBe(true);
  });

  it.each<[string, PluginCommand]>([
    ['a longer time', patch({ timeouts: {} })],
    ['another permission', patch({ permissions: ['host:decide', 'host:fetch'] })],
    ['another configuration', patch({ config: { sealed: sealed('x'), digest: 'x' } })],
    ['fresh isolation', patch({ isolation: 'fresh' })],
  ])('is not: %s', (_, command) => {
    expect(weakening(command)).toBe(false);
  });

  it('is not the uninstall of what was disabled before', () => {
    expect(weakening({ kind: 'uninstall' }, install({ enabled: false }))).toBe(false);
  });

  it('is what a disabled plugin loses, too', () => {
    expect(weakening(patch({ failureMode: 'open' }), install({ enabled: false, failureMode: 'closed' }))).toBe(true);
  });
});

describe('the order', () => {
  const set = foldSet(['a', 'b', 'c'].flatMap((id) => decided(install({ id }), neverInstalled).events));

  it.each<[string, readonly string[], readonly string[]]>([
    ['an unknown id', ['a', 'b', 'c', 'x'], ['/pluginIds/3']],
    ['a missing id', ['a', 'b'], ['/pluginIds']],
    ['an id twice', ['a', 'b', 'c', 'a'], ['/pluginIds/3']],
    ['all of them', ['a', 'a', 'x'], ['/pluginIds/1', '/pluginIds/2', '/pluginIds']],
  ])('is refused with %s', (_, ids, pointers) => {
    const refusal = decideOrder(ids, set, circumstances);
    expect(refusal).toMatchObject({ refusal: 'faulty', faults: pointers.map((pointer) => ({ pointer })) });
  });

  it('that is already so writes nothing', () => {
    expect(decideOrder(['a', 'b', 'c'], set, circumstances)).toMatchObject({ events: [] });
  });

  it('records both orders and that a guard moved behind another', () => {
    expect(decideOrder(['c', 'a', 'b'], set, circumstances)).toMatchObject({
      events: [
        {
          type: 'plugin.order_changed',
          data: { before: ['a', 'b', 'c'], after: ['c', 'a', 'b'], weakensEnforcement: true },
        },
      ],
    });
  });

  it('does not weaken where the plugins share no hook that can be cancelled', () => {
    const apart = foldSet([
      ...decided(install({ id: 'a', findings: findings(['guardedHook']) }), neverInstalled).events,
      ...decided(install({ id: 'b', findings: findings(['observedHook']) }), neverInstalled).events,
    ]);
    expect(decideOrder(['b', 'a'], apart, circumstances)).toMatchObject({
      events: [{ data: { weakensEnforcement: false } }],
    });
  });
});

describe('for all sequences of commands', () => {
  const anyCommand: fc.Arbitrary<PluginCommand> = fc.oneof(
    fc.constant(install()),
    fc.constant<PluginCommand>({ kind: 'uninstall' }),
    fc
      .record(
        {
          enabled: fc.boolean(),
          mode: fc.constantFrom('enforce' as const, 'observe' as const),
          failureMode: fc.constantFrom('open' as const, 'closed' as const),
          isolation: fc.constantFrom('warm' as const, 'fresh' as const),
          priority: fc.option(fc.integer({ min: 0, max: 3 })),
          permissions: fc.subarray(['host:fetch', 'host:llm']),
          config: fc.constantFrom('a', 'b').map((digest) => ({ sealed: sealed(digest), digest })),
        },
        { requiredKeys: [] },
      )
      .map(patch),
    fc.integer({ min: 1, max: 12 }).map<PluginCommand>((revision) => ({ kind: 'rollback', revision })),
    fc.constantFrom('v1', 'v2').map<PluginCommand>((digest) => ({
      kind: 'version',
      version: digest,
      code: code(digest),
      findings: findings(['guardedHook']),
      permissions: null,
    })),
  );

  it('replaying the events gives the state that was answered, and a revision never means two states', () => {
    fc.assert(
      fc.property(fc.array(anyCommand, { maxLength: 25 }), (commands) => {
        let events: readonly NewEvent[] = [];
        let state: PluginSnapshot | null = null;
        const seen = new Map<number, PluginSnapshot>();
        for (const command of commands) {
          const decision = decide(command, foldPlugin(events), circumstances);
          if (decision.kind === 'refused') continue;
          events = [...events, ...decision.events];
          state = decision.after;
          if (state !== null) {
            expect(seen.get(state.revision) ?? state).toEqual(state);
            seen.set(state.revision, state);
          }
        }
        expect(foldPlugin(events).current).toEqual(state);
        expect(foldSet(events).plugins.get('guard') ?? null).toEqual(state);
      }),
    );
  });

  it('a command given twice changes nothing the second time, or is refused', () => {
    fc.assert(
      fc.property(fc.array(anyCommand, { maxLength: 10 }), anyCommand, (commands, last) => {
        fc.pre(last.kind !== 'version' && last.kind !== 'rollback');
        let events: readonly NewEvent[] = [];
        for (const command of [...commands, last]) {
          const decision = decide(command, foldPlugin(events), circumstances);
          if (decision.kind === 'decided') events = [...events, ...decision.events];
        }
        const again = decide(last, foldPlugin(events), circumstances);
        expect(again.kind === 'refused' || again.events.length === 0).toBe(true);
      }),
    );
  });
});
