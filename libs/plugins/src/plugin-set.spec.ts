import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { asData, type PluginSnapshot, type RecordedEvent } from '#record';
import { chainFor, foldSet, inOrder } from './plugin-set.js';

type PluginEvent = Pick<RecordedEvent, 'type' | 'data'>;

const plugin = (id: string, over: Partial<PluginSnapshot> = {}): PluginSnapshot => ({
  id,
  name: id,
  dialect: 'middleware',
  version: '1.0.0',
  revision: 1,
  enabled: true,
  priority: null,
  failureMode: 'open',
  mode: 'enforce',
  isolation: 'warm',
  timeouts: {},
  permissions: [],
  config: { $sealed: { v: 1, k: 'k', b: '' } },
  configDigest: 'd',
  configSchema: null,
  code: {
    language: 'javascript',
    source: { $sealed: { v: 1, k: 'k', b: '' } },
    sourceDigest: 's',
    compiled: { $sealed: { v: 1, k: 'k', b: '' } },
    compiledDigest: 'c',
    compiler: null,
  },
  findings: { hooks: ['systemPrompt'], gated: [], requestedPermissions: [], warnings: [], registrations: {} },
  ...over,
});

const installed = (id: string, over: Partial<PluginSnapshot> = {}): PluginEvent =>
  changed('plugin.installed', null, plugin(id, over));
const uninstalled = (id: string): PluginEvent => changed('plugin.uninstalled', plugin(id), null);
const versioned = (id: string): PluginEvent => changed('plugin.versioned', plugin(id), plugin(id, { revision: 2 }));
const ordered = (...ids: readonly string[]): PluginEvent => ({
  type: 'plugin.order_changed',
  data: { before: [], after: ids, reason: null, weakensEnforcement: false },
});
const changed = (
  type: RecordedEvent['type'],
  before: PluginSnapshot | null,
  after: PluginSnapshot | null,
): PluginEvent => ({
  type,
  data: asData({ before, after, changed: [], reason: null, weakensEnforcement: false }),
});

const ids = (...events: readonly PluginEvent[]): readonly string[] => inOrder(foldSet(events)).map(({ id }) => id);
const chain = (events: readonly PluginEvent[], dialect: PluginSnapshot['dialect'] = 'middleware'): readonly string[] =>
  chainFor(foldSet(events), dialect, 'systemPrompt').places.map(({ entry }) => entry.pluginId);

describe('the order of plugins', () => {
  it('is the order of installation (MW-20)', () => {
    expect(ids(installed('b'), installed('a'), installed('c'))).toEqual(['b', 'a', 'c']);
  });

  it('is kept by an update', () => {
    expect(ids(installed('a'), installed('b'), versioned('a'))).toEqual(['a', 'b']);
  });

  it('is lost by removing and installing again: the plugin goes to the end', () => {
    expect(ids(installed('a'), installed('b'), ordered('b', 'a'), uninstalled('b'), installed('b'))).toEqual([
      'a',
      'b',
    ]);
  });

  it('is what an administrator said last, with later installs at the end', () => {
    expect(ids(installed('a'), installed('b'), ordered('b', 'a'), installed('c'))).toEqual(['b', 'a', 'c']);
  });

  it('puts what was installed beside a change of order at the end, and leaves out what went', () => {
    expect(ids(installed('a'), installed('b'), installed('c'), uninstalled('a'), ordered('b', 'a'))).toEqual([
      'b',
      'c',
    ]);
  });

  it('holds every installed plugin exactly once, whatever happens', () => {
    const id = fc.constantFrom('a', 'b', 'c', 'd');
    const anyEvent = fc.oneof(
      id.map((name) => ['install', name] as const),
      id.map((name) => ['uninstall', name] as const),
      fc.shuffledSubarray(['a', 'b', 'c', 'd']).map((names) => ['order', ...names] as const),
    );
    fc.assert(
      fc.property(fc.array(anyEvent, { maxLength: 30 }), (steps) => {
        const here = new Set<string>();
        const events: PluginEvent[] = [];
        for (const [what, ...names] of steps) {
          const [name = ''] = names;
          if (what === 'order') events.push(ordered(...names));
          else if (what === 'install' && !here.has(name)) {
            here.add(name);
            events.push(installed(name));
          } else if (what === 'uninstall' && here.delete(name)) events.push(uninstalled(name));
        }
        const set = foldSet(events);
        expect([...set.order].sort()).toEqual([...here].sort());
        expect(inOrder(set)).toHaveLength(here.size);
      }),
    );
  });
});

describe('a chain', () => {
  it('leaves disabled plugins out, and counts enabled ones without the hook (MW-23)', () => {
    const set = foldSet([
      installed('a'),
      installed('off', { enabled: false }),
      installed('other', { findings: { ...plugin('x').findings, hooks: ['todoAdded'] } }),
      installed('foreign', { dialect: 'openclaw' }),
    ]);
    const { places, withoutHook } = chainFor(set, 'middleware', 'systemPrompt');
    expect(places.map(({ entry }) => entry.pluginId)).toEqual(['a']);
    expect(withoutHook).toBe(1);
  });

  it('follows the order for middleware, whatever the priorities', () => {
    expect(chain([installed('a', { priority: 9 }), installed('b', { priority: 1 })])).toEqual(['a', 'b']);
  });

  it('sorts Kohaku by priority: the number given, the class, 50; ties by registration order', () => {
    const kohaku = (id: string, priority: number | null, own?: number): PluginEvent =>
      installed(id, {
        dialect: 'kohaku',
        priority,
        findings: { ...plugin('x').findings, registrations: own === undefined ? {} : { priority: own } },
      });
    const events = [kohaku('default', null), kohaku('class', null, 40), kohaku('given', 45, 10), kohaku('tie', 50)];
    expect(chain(events, 'kohaku')).toEqual(['class', 'given', 'default', 'tie']);
  });

  it('names version, revision, mode, failure mode, priority and configuration of every plugin', () => {
    const [place] = chainFor(
      foldSet([installed('a', { revision: 7, mode: 'observe' })]),
      'middleware',
      'systemPrompt',
    ).places;
    expect(place?.entry).toEqual({
      pluginId: 'a',
      version: '1.0.0',
      revision: 7,
      mode: 'observe',
      failureMode: 'open',
      priority: null,
      configDigest: 'd',
    });
  });

  it('of a fold up to a position is what was in force there', () => {
    const log = [installed('a'), installed('b'), ordered('b', 'a'), uninstalled('a')];
    expect(chain(log.slice(0, 2))).toEqual(['a', 'b']);
    expect(chain(log.slice(0, 3))).toEqual(['b', 'a']);
    expect(chain(log)).toEqual(['b']);
  });
});
