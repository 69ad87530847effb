import { describe, expect, it } from '@jest/globals';
import type { Link, Said, Verdict } from './chain.js';
import type { MergeMode, Point } from './point.js';
import { runStages } from './run-stages.js';

interface TestLink extends Link {
  readonly says: Verdict<unknown>;
}

const link = (pluginId: string, says: Verdict<unknown>): TestLink => ({
  pluginId,
  mode: 'enforce',
  failureMode: 'open',
  says,
});
const gives = (pluginId: string, value: object) =>
  link(pluginId, { kind: 'contributed', value, changed: Object.keys(value) });

const merge = (more: Partial<MergeMode> = {}): Point => ({
  mode: {
    kind: 'merge',
    fields: { params: { rule: 'last' }, block: { rule: 'sticky', on: 'true' }, ask: { rule: 'first' } },
    others: null,
    chained: null,
    terminal: { field: 'block', is: 'true' },
    cancels: { when: { field: 'block', is: 'true' }, reasonField: null },
    holds: 'ask',
    controls: ['block', 'ask'],
    ...more,
  },
  cancellable: true,
  failsClosed: false,
  rewritable: true,
});
const chained = merge({ chained: { params: 'params' } });

const run = async (first: readonly TestLink[], second: readonly TestLink[]) => {
  const seen: unknown[] = [];
  const ask = (asked: TestLink, value: unknown, index: number): Promise<Said<unknown>> => {
    seen.push([asked.pluginId, value, index]);
    return Promise.resolve({ verdict: asked.says, warnings: [], durationMs: 1 });
  };
  const decision = await runStages<TestLink, unknown>(
    [
      { point: chained, links: first },
      { point: merge(), links: second },
    ],
    { params: 0 },
    ask,
  );
  return { decision, seen };
};

describe('stages', () => {
  it('each see what the one before left, and places count through all of them', async () => {
    const { decision, seen } = await run([gives('p', { params: 1 })], [gives('a', { params: 2 }), gives('b', {})]);
    expect(seen).toEqual([
      ['p', { params: 0 }, 0],
      ['a', { params: 1 }, 1],
      ['b', { params: 1 }, 2],
    ]);
    expect(decision.steps.map(({ index }) => index)).toEqual([0, 1, 2]);
    expect(decision).toMatchObject({ outcome: 'rewritten', metered: 3, value: { params: 1 } });
    expect(decision.stages?.map((stage) => stage?.outcome)).toEqual(['rewritten', 'rewritten']);
  });

  it('stay rewritten where only the first rewrote', async () => {
    const { decision } = await run([gives('p', { params: 1 })], [link('a', { kind: 'passed' })]);
    expect(decision.outcome).toBe('rewritten');
  });

  it.each([
    ['cancels', { block: true }, 'cancelled'],
    ['holds', { ask: 'please' }, 'held'],
  ])('end with one that %s: nobody behind it is asked, and each is named', async (_, value, outcome) => {
    const { decision, seen } = await run([gives('p', value)], [gives('a', { params: 2 })]);
    expect(seen).toHaveLength(1);
    expect(decision).toMatchObject({ outcome, metered: 1 });
    expect(decision.steps.map(({ verdict }) => verdict.kind)).toEqual(['contributed', 'not_run']);
    expect(decision.stages?.[1]).toBeNull();
  });

  it('without links do not run, but the last one decides', async () => {
    const { decision } = await run([], []);
    expect(decision).toMatchObject({ outcome: 'passed', metered: 0, value: { params: 0 } });
    expect(decision.stages?.map((stage) => stage === null)).toEqual([true, false]);
  });
});
