import type { Ask, Decision, Link, Step } from './chain.js';
import type { Point } from './point.js';
import { runChain } from './run-chain.js';

/** Links that are asked under one point. */
export interface Stage<L extends Link> {
  readonly point: Point;
  readonly links: readonly L[];
}

/**
 * Runs stages one after another, each on the value that the one before left. A stage that cancels or holds ends it: the
 * links behind it are not asked. Steps, indices and metering count through all stages; the outcome is that of the
 * stage that ended it, or `rewritten` where any stage rewrote. A stage without links does not run. Stages before `from`
 * ran earlier: they have no steps, and the indices behind them stay what they are.
 */
export const runStages = async <L extends Link, V>(
  stages: readonly Stage<L>[],
  value: V,
  ask: Ask<L, V>,
  from = 0,
): Promise<Decision<L, V>> => {
  const decided: (Decision<L, V> | null)[] = [];
  const steps: Step<L, V>[] = [];
  let offset = 0;
  let last: Decision<L, V> | null = null;
  let current = value;
  for (const [place, { point, links }] of stages.entries()) {
    const isLast = place === stages.length - 1;
    const first = offset;
    offset += links.length;
    if (place < from) {
      decided.push(null);
      continue;
    }
    if (isEnd(last) || (links.length === 0 && !isLast)) {
      decided.push(null);
      steps.push(...links.map((link, index) => notAsked(link, first + index, current)));
      continue;
    }
    const decision: Decision<L, V> = await runChain(point, current, links, (link, seen, index) =>
      ask(link, seen, first + index),
    );
    decided.push(decision);
    steps.push(...decision.steps.map((step) => ({ ...step, index: first + step.index })));
    last = last === null ? decision : behind(last, decision);
    current = decision.value ?? current;
  }
  if (last === null) throw new Error('a chain has at least one stage');
  const metered = decided.reduce((sum, decision) => sum + (decision?.metered ?? 0), 0);
  return { ...last, steps, metered, stages: decided };
};

const isEnd = <L extends Link, V>(decision: Decision<L, V> | null): boolean =>
  decision?.outcome === 'cancelled' || decision?.outcome === 'held';

/** What was rewritten earlier stays rewritten. */
const behind = <L extends Link, V>(before: Decision<L, V>, decision: Decision<L, V>): Decision<L, V> =>
  before.outcome === 'rewritten' && decision.outcome === 'passed' ? { ...decision, outcome: 'rewritten' } : decision;

const notAsked = <L extends Link, V>(link: L, index: number, value: V): Step<L, V> => ({
  link,
  index,
  input: value,
  output: value,
  verdict: { kind: 'not_run', cause: 'after_cancel' },
  wouldHave: null,
  warnings: [],
  durationMs: 0,
});
