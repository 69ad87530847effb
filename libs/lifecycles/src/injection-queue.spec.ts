import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { InjectionDrained, InjectionExpired, NewEvent, QueuedInjection } from '#record';
import {
  decideDrain,
  decideDrop,
  decideEnqueue,
  emptyQueue,
  evolveQueue,
  type InjectionQueue,
} from './injection-queue.js';

type Queue = InjectionQueue<string>;

const fold = (events: readonly NewEvent[]): Queue =>
  events.reduce((queue: Queue, event) => evolveQueue(queue, event), emptyQueue);

const injection = (injectionId: string, more: Partial<QueuedInjection<string>> = {}): QueuedInjection<string> => ({
  injectionId,
  pluginId: 'p',
  keyDigest: null,
  placement: 'prepend_context',
  ttlMs: null,
  createdAt: '2026-11-30T10:00:00.000Z',
  content: injectionId,
  ...more,
});

const start = Date.parse('2026-11-30T10:00:00.000Z');

const drain = (queue: Queue, run: string | null = null, now = start) =>
  decideDrain(queue, { by: 'runtime', run, invocationId: null, now: new Date(now), lost: () => null });

/** What a log says became of each injection, by its id. */
const fates = (log: readonly NewEvent[]): ReadonlyMap<string, readonly string[]> => {
  const found = new Map<string, readonly string[]>();
  const note = (ids: readonly string[], fate: string): void => {
    for (const id of ids) found.set(id, [...(found.get(id) ?? []), fate]);
  };
  for (const { type, data } of log) {
    if (type === 'injection.drained') {
      const { injections } = data as unknown as InjectionDrained<string>;
      note(
        injections.map(({ injectionId }) => injectionId),
        'drained',
      );
    } else if (type !== 'injection.enqueued') note((data as unknown as InjectionExpired).injectionIds, type);
  }
  return found;
};

/** What a replica does, and when it looked at the log before it did so: `behind` events ago. */
const step = fc.record({
  act: fc.constantFrom('enqueue', 'enqueue', 'enqueue', 'drain', 'drop'),
  plugin: fc.constantFrom('p', 'q', 'muted'),
  key: fc.option(fc.constantFrom('k', 'l'), { nil: null }),
  ttlMs: fc.option(fc.integer({ min: 0, max: 5 }), { nil: null }),
  run: fc.option(fc.constantFrom('r1', 'r2', 'r3'), { nil: null }),
  behind: fc.nat(2),
  waits: fc.nat(3),
});

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const decided = (
  queue: Queue,
  { act, plugin, key, ttlMs, run }: Step,
  id: string,
  now: number,
): readonly NewEvent[] => {
  const at = new Date(now);
  if (act === 'drop') return decideDrop(queue, 'disable', plugin);
  if (act === 'enqueue') {
    const wanted = injection(id, { pluginId: plugin, keyDigest: key, ttlMs, createdAt: at.toISOString() });
    return decideEnqueue(queue, wanted, at).events;
  }
  const lost = ({ pluginId }: { readonly pluginId: string }) => (pluginId === 'muted' ? 'not_loaded' : null);
  return decideDrain(queue, { by: 'firing', run, invocationId: 'i', now: at, lost }).events;
};

/** Plays steps as replicas do that write only at the version they read, and look again when it has moved. */
const play = (steps: readonly Step[], before: readonly NewEvent[] = []): readonly NewEvent[] => {
  const log = [...before];
  let now = start;
  for (const [index, each] of steps.entries()) {
    now += each.waits;
    const read = log.slice(0, Math.max(0, log.length - each.behind));
    const stale = decided(fold(read), each, `i${String(before.length)}.${String(index)}`, now);
    log.push(
      ...(read.length === log.length
        ? stale
        : decided(fold(log), each, `i${String(before.length)}.${String(index)}`, now)),
    );
  }
  return log;
};

describe('a queue of injections', () => {
  it('brings each to one end at most, and none is gone that has none', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const log = play(steps);
        const ends = fates(log);
        const waiting = new Set(fold(log).entries.map(({ injectionId }) => injectionId));
        for (const { type, data } of log) {
          if (type !== 'injection.enqueued') continue;
          const { injectionId } = data as unknown as QueuedInjection<string>;
          const had = ends.get(injectionId) ?? [];
          expect([injectionId, had.length]).toEqual([injectionId, waiting.has(injectionId) ? 0 : 1]);
        }
      }),
    );
  });

  it('never holds two of one key, or more than 32 that live, of a plugin', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 40, maxLength: 200 }), (steps) => {
        const { entries } = fold(play(steps.map((each) => ({ ...each, act: 'enqueue', ttlMs: null, waits: 0 }))));
        for (const own of Map.groupBy(entries, ({ pluginId }) => pluginId).values()) {
          const keys = own.flatMap(({ keyDigest }) => keyDigest ?? []);
          expect(new Set(keys).size).toBe(keys.length);
          expect(own.length).toBeLessThanOrEqual(32);
        }
      }),
    );
  });

  it('gives a run the same again, whatever comes in between, and nothing of it to another', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.array(step, { maxLength: 60 }), (before, after) => {
        const log = play(before.map((each) => ({ ...each, run: null })));
        const first = drain(fold(log), 'mine');
        fc.pre(first.injections.length > 0);
        const later = play(after, [...log, ...first.events]);
        expect(drain(fold(later), 'mine')).toEqual({ events: [], injections: first.injections, repeated: true });
        const given = new Set(first.injections.map(({ injectionId }) => injectionId));
        expect(drain(fold(later), 'other').injections.some(({ injectionId }) => given.has(injectionId))).toBe(false);
      }),
    );
  });

  it('is the same wherever one begins to read before its last drain', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), fc.nat(), (steps, from) => {
        const log = play(steps);
        const last = log.findLastIndex(({ type }) => type === 'injection.drained');
        fc.pre(last >= 0);
        expect(fold(log.slice(from % (last + 1))).entries).toEqual(fold(log).entries);
      }),
    );
  });

  it('orders a turn by age, and what came at one moment by plugin', () => {
    const at = (ms: number) => new Date(start + ms).toISOString();
    const log = [
      injection('b1', { pluginId: 'b', createdAt: at(1) }),
      injection('a1', { pluginId: 'a', createdAt: at(1) }),
      injection('b2', { pluginId: 'b', createdAt: at(1) }),
      injection('a0', { pluginId: 'a', createdAt: at(0) }),
    ].map((data): NewEvent => ({ type: 'injection.enqueued', data: data as never }));
    expect(drain(fold(log)).injections.map(({ injectionId }) => injectionId)).toEqual(['a0', 'b1', 'b2', 'a1']);
  });

  it('says why each entry is lost with it', () => {
    const reasons: Record<string, 'not_loaded' | 'not_allowed' | 'erased'> = {
      a: 'not_loaded',
      b: 'not_allowed',
      c: 'erased',
    };
    const queue: Queue = {
      ...emptyQueue,
      entries: ['a', 'b', 'c', 'd'].map((id) => injection(id)).concat(injection('e', { ttlMs: 1 })),
    };
    const lost = ({ injectionId }: { readonly injectionId: string }) => reasons[injectionId] ?? null;
    const now = new Date(start + 2);
    const { events, injections } = decideDrain(queue, { by: 'firing', run: null, invocationId: 'i', now, lost });
    expect(events.map(({ type, data }) => [type, data.injectionIds ?? data.firedBy, data.cause ?? null])).toEqual([
      ['injection.expired', ['e'], null],
      ['injection.dropped', ['a'], 'not_loaded'],
      ['injection.dropped', ['b'], 'not_allowed'],
      ['injection.dropped', ['c'], 'erased'],
      ['injection.drained', 'i', null],
    ]);
    expect(injections.map(({ injectionId }) => injectionId)).toEqual(['d']);
  });

  it('remembers the newest 256 runs', () => {
    let queue: Queue = emptyQueue;
    for (let n = 0; n < 300; n += 1) {
      queue = { ...queue, entries: [injection(`i${String(n)}`)] };
      queue = drain(queue, `r${String(n)}`).events.reduce(evolveQueue<string>, queue);
    }
    expect([queue.runs.size, queue.runs.has('r43'), queue.runs.has('r44')]).toEqual([256, false, true]);
  });
});
