import { pluginFailed } from './chain.js';
import type { Ask, Cancellation, Decision, Link, Said, Step, Verdict } from './chain.js';
import { foldField, foldFields, meets, own } from './fold.js';
import type { Contribution } from './fold.js';
import type { MergeMode, Point } from './point.js';
import { sameJson } from './same.js';

/**
 * Runs a hook chain: a pure function of the point, the value, the links and what asking them yields. No clock, no
 * names, no storage. Rejects only when `ask` does.
 */
export const runChain = <L extends Link, V>(
  point: Point,
  value: V,
  links: readonly L[],
  ask: Ask<L, V>,
): Promise<Decision<L, V>> => {
  const chain: Chain<L, V> = { point, value, links, ask };
  switch (point.mode.kind) {
    case 'waterfall':
      return waterfall(chain);
    case 'merge':
      return merge(chain, point.mode);
    case 'first-claim':
      return firstClaim(chain);
    case 'observe':
      return point.mode.start === 'together' ? observeTogether(chain) : observeInTurn(chain);
    case 'vote':
      return vote(chain);
    case 'evaluate':
      return evaluate(chain);
  }
};

interface Chain<L extends Link, V> {
  readonly point: Point;
  readonly value: V;
  readonly links: readonly L[];
  readonly ask: Ask<L, V>;
}

const waterfall = async <L extends Link, V>(chain: Chain<L, V>): Promise<Decision<L, V>> => {
  const walk = new Walk(chain);
  for (const link of chain.links) {
    const step = await walk.ask(link);
    if (step.verdict.kind === 'rewrote') walk.goOn(step.verdict.value);
    if (walk.cancelledBy(step) !== null) break;
  }
  return walk.decide();
};

const merge = async <L extends Link, V>(chain: Chain<L, V>, mode: MergeMode): Promise<Decision<L, V>> => {
  const walk = new Walk(chain);
  const contributions: Contribution[] = [];
  let changes = false;
  for (const link of chain.links) {
    const step = await walk.ask(link);
    if (walk.cancelledBy(step) !== null) return walk.decide();
    if (step.verdict.kind !== 'contributed') continue;
    contributions.push({ pluginId: link.pluginId, value: step.verdict.value });
    changes ||= step.verdict.changed.some((field) => !mode.controls.includes(field));
    if (mode.chained) walk.goOn(laidInto(walk.value, mode.chained, step.verdict.value));
    if (mode.terminal && meetsFolded(mode, mode.terminal, contributions)) break;
  }
  const folded = foldFields(mode.fields, mode.others, contributions);
  walk.collect(folded, changes);
  if (chain.point.cancellable && mode.cancels && meets(mode.cancels.when, folded)) {
    walk.cancel(concluded(mode.cancels, folded, contributions));
  } else if (mode.holds !== null && own(folded, mode.holds) !== undefined) {
    const { holds } = mode;
    walk.hold(deciding({ field: holds, is: 'defined' }, contributions), own(folded, holds));
  }
  return walk.decide();
};

const firstClaim = async <L extends Link, V>(chain: Chain<L, V>): Promise<Decision<L, V>> => {
  const walk = new Walk(chain);
  for (const link of chain.links) {
    const step = await walk.ask(link);
    if (step.verdict.kind === 'claimed') {
      walk.claim(step.verdict.value);
      break;
    }
    if (walk.cancelledBy(step) !== null) break;
  }
  return walk.decide();
};

const observeInTurn = async <L extends Link, V>(chain: Chain<L, V>): Promise<Decision<L, V>> => {
  const walk = new Walk(chain);
  for (const link of chain.links) await walk.ask(link);
  return walk.decide();
};

const observeTogether = async <L extends Link, V>(chain: Chain<L, V>): Promise<Decision<L, V>> => {
  const walk = new Walk(chain);
  await walk.askAll();
  return walk.decide();
};

const vote = async <L extends Link, V>(chain: Chain<L, V>): Promise<Decision<L, V>> => {
  const walk = new Walk(chain);
  for (const link of chain.links) walk.cancelledBy(await walk.ask(link));
  return walk.decide();
};

const evaluate = async <L extends Link, V>(chain: Chain<L, V>): Promise<Decision<L, V>> => {
  const walk = new Walk(chain);
  const steps = await walk.askAll();
  walk.collect(
    steps.map(({ link, verdict }) => ({
      pluginId: link.pluginId,
      status: verdict.kind,
      value: verdict.kind === 'contributed' ? verdict.value : null,
    })),
    false,
  );
  return walk.decide();
};

/** The state of one chain while it is walked. */
class Walk<L extends Link, V> {
  value: V;
  private readonly steps: Step<L, V>[] = [];
  private cancellation: Cancellation | null = null;
  private held: { readonly pluginId: string; readonly request: unknown } | null = null;
  private claimed = false;
  private changed = false;
  private collected: unknown = null;

  constructor(private readonly chain: Chain<L, V>) {
    this.value = chain.value;
  }

  /** Asks the next link in turn. */
  async ask(link: L): Promise<Step<L, V>> {
    const index = this.steps.length;
    return this.took(link, index, await this.chain.ask(link, this.value, index));
  }

  /** Starts all in chain order, then awaits all; steps stand in chain order whoever is done first. */
  async askAll(): Promise<readonly Step<L, V>[]> {
    const { links, ask } = this.chain;
    const asked = links.map(async (link, index) => ({ link, said: await ask(link, this.value, index) }));
    return (await Promise.all(asked)).map(({ link, said }, index) => this.took(link, index, said));
  }

  /** The value that handlers from here on see; the step that brought it shows it as its output. */
  goOn(value: V): void {
    this.value = value;
    const last = this.steps.pop();
    if (last) this.steps.push({ ...last, output: value });
  }

  /** Takes note of a cancel, or of a failure that closes. Returns the cancellation that stands, if any. */
  cancelledBy(step: Step<L, V>): Cancellation | null {
    if (this.chain.point.cancellable) this.cancellation ??= cancellationOf(this.chain.point, step);
    return this.cancellation;
  }

  cancel(cancellation: Cancellation): void {
    this.cancellation ??= cancellation;
  }

  hold(pluginId: string, request: unknown): void {
    this.held ??= { pluginId, request };
  }

  claim(value: unknown): void {
    this.claimed = true;
    this.collected = value;
  }

  collect(collected: unknown, changed: boolean): void {
    this.collected = collected;
    this.changed = changed;
  }

  decide(): Decision<L, V> {
    const asked = this.steps;
    const rest = this.chain.links.slice(asked.length).map((link, offset) => this.notAsked(link, asked.length + offset));
    const outcome = this.outcome();
    return {
      outcome,
      value: outcome === 'cancelled' ? null : this.value,
      cancellation: this.cancellation,
      hold: outcome === 'held' ? this.held : null,
      collected: outcome === 'cancelled' && this.chain.point.mode.kind !== 'merge' ? null : this.collected,
      steps: [...asked, ...rest],
      metered: asked.filter(({ verdict }) => verdict.kind !== 'not_run').length,
    };
  }

  private took(link: L, index: number, said: Said<V>): Step<L, V> {
    const { verdict, wouldHave } = inMode(link, said.verdict);
    if (verdict.kind === 'held') this.hold(link.pluginId, verdict.request);
    const { warnings, durationMs, more } = said;
    const step = {
      link,
      index,
      input: this.value,
      output: this.value,
      verdict,
      wouldHave,
      warnings,
      durationMs,
      ...(more === undefined ? {} : { more }),
    };
    this.steps.push(step);
    return step;
  }

  private notAsked(link: L, index: number): Step<L, V> {
    const verdict = { kind: 'not_run', cause: 'after_cancel' } as const;
    return {
      link,
      index,
      input: this.value,
      output: this.value,
      verdict,
      wouldHave: null,
      warnings: [],
      durationMs: 0,
    };
  }

  private outcome(): Decision<L, V>['outcome'] {
    if (this.cancellation) return 'cancelled';
    if (this.held) return 'held';
    if (this.claimed) return 'claimed';
    if (!this.chain.point.rewritable) return 'observed';
    // MW-24: by comparison with the first input, so that A→B→A is passed.
    return this.changed || !sameJson(this.chain.value, this.value) ? 'rewritten' : 'passed';
  }
}

/** In mode `observe` a decision becomes an observation; not having decided stays what it is. */
export const inMode = <V>(
  link: Link,
  verdict: Verdict<V>,
): { readonly verdict: Verdict<V>; readonly wouldHave: Verdict<V> | null } => {
  if (link.mode === 'enforce' || verdict.kind === 'skipped' || verdict.kind === 'not_run') {
    return { verdict, wouldHave: null };
  }
  return { verdict: { kind: 'observed' }, wouldHave: verdict };
};

const cancellationOf = <L extends Link, V>(point: Point, { link, verdict }: Step<L, V>): Cancellation | null => {
  if (verdict.kind === 'cancelled') {
    return { pluginId: link.pluginId, reason: verdict.reason, code: verdict.code };
  }
  if (link.mode === 'observe' || !closes(point, link, verdict)) return null;
  return { pluginId: link.pluginId, reason: null, code: pluginFailed };
};

/** A dialect that fails closed means handlers that ran; the account's own switch also means one that is not there. */
const closes = <V>(point: Point, link: Link, verdict: Verdict<V>): boolean => {
  if (verdict.kind === 'skipped') return point.failsClosed || link.failureMode === 'closed';
  return verdict.kind === 'not_run' && verdict.cause === 'not_loaded' && link.failureMode === 'closed';
};

const meetsFolded = (
  mode: MergeMode,
  condition: NonNullable<MergeMode['terminal']>,
  contributions: readonly Contribution[],
): boolean => {
  const { field } = condition;
  const rule = Object.hasOwn(mode.fields, field) ? mode.fields[field] : mode.others;
  return rule ? meets(condition, { [field]: foldField(field, rule, contributions) }) : false;
};

const concluded = (
  cancels: NonNullable<MergeMode['cancels']>,
  folded: { readonly [field: string]: unknown },
  contributions: readonly Contribution[],
): Cancellation => {
  const reason = cancels.reasonField === null ? undefined : own(folded, cancels.reasonField);
  return {
    pluginId: deciding(cancels.when, contributions),
    reason: typeof reason === 'string' ? reason : null,
    code: null,
  };
};

/** The plugin whose contribution met the condition first. */
const deciding = (condition: NonNullable<MergeMode['terminal']>, contributions: readonly Contribution[]): string =>
  contributions.find(({ value }) => meets(condition, value))?.pluginId ?? contributions.at(-1)?.pluginId ?? '';

const laidInto = <V>(value: V, chained: { readonly [field: string]: string }, contribution: unknown): V => {
  const laid: { [key: string]: unknown } = { ...(value as object) };
  for (const [from, to] of Object.entries(chained)) {
    const item = own(contribution, from);
    if (item !== undefined && item !== null) laid[to] = item;
  }
  return laid as V;
};
