import { describe, expect, it } from '@jest/globals';
import type { NewEvent, Sealed } from '#record';
import { decideCleanup, decidePatch, evolveExtensions, noExtensions } from './session-extensions.js';

const value = (word: string): Sealed => ({ $sealed: { v: 1, k: 'k', b: word } });

const fold = (...events: readonly NewEvent[]) => events.reduce(evolveExtensions, noExtensions);

const patch = (pluginId: string, namespace: string, word: string | null): readonly NewEvent[] =>
  decidePatch(noExtensions, { pluginId, namespace, value: value(word ?? '') });

const all = { cause: 'reset', pluginId: null, calls: [] } as const;

describe('what a session keeps for plugins', () => {
  it('is the newest value of each namespace, names of objects own members included', () => {
    const state = fold(
      ...patch('a', '__proto__', '1'),
      ...patch('__proto__', 'n', '2'),
      ...patch('a', '__proto__', '3'),
    );
    expect(state.get('a')?.get('__proto__')).toEqual(value('3'));
    expect(state.get('__proto__')?.get('n')).toEqual(value('2'));
    expect(state.get('constructor')).toBeUndefined();
  });

  it('needs no unsetting where there is nothing', () => {
    expect(decidePatch(noExtensions, { pluginId: 'a', namespace: 'n', value: null })).toEqual([]);
    const kept = fold(...patch('a', 'n', '1'));
    const unset = decidePatch(kept, { pluginId: 'a', namespace: 'n', value: null });
    expect(unset.reduce(evolveExtensions, kept).size).toBe(0);
  });

  it('goes with the session, or with its plugin alone', () => {
    const kept = fold(...patch('a', 'n', '1'), ...patch('a', 'm', '2'), ...patch('b', 'n', '3'));
    const gone = decideCleanup(kept, { ...all, cause: 'disable', pluginId: 'a' });
    expect(gone[0]?.data).toEqual({
      cause: 'disable',
      removed: [{ pluginId: 'a', namespaces: ['n', 'm'] }],
      calls: [],
    });
    expect([...gone.reduce(evolveExtensions, kept).keys()]).toEqual(['b']);
    expect(decideCleanup(kept, all).reduce(evolveExtensions, kept).size).toBe(0);
  });

  it('stays over a restart, which is only told', () => {
    const kept = fold(...patch('a', 'n', '1'));
    expect(decideCleanup(kept, { ...all, cause: 'restart' })).toEqual([]);
    const told = decideCleanup(kept, { ...all, cause: 'restart', calls: ['a'] });
    expect(told.map(({ data }) => data)).toEqual([{ cause: 'restart', removed: [], calls: ['a'] }]);
    expect(told.reduce(evolveExtensions, kept)).toEqual(kept);
  });
});
