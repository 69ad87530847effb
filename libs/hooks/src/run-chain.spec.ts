import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Decision, Link, Said, Verdict } from './chain.js';
import type { MergeMode, Mode, Point } from './point.js';
import { runChain } from './run-chain.js';

interface Values {
  readonly [field: string]: unknown;
}
interface Plugin {
  readonly link: Link;
  readonly says: (value: Values) => Verdict<Values>;
}

const link = (pluginId: string, more: Partial<Link> = {}): Link => ({
  pluginId,
  mode: 'enforce',
  failureMode: 'open',
  ...more,
});
const plugin = (
  pluginId: string,
  says: Verdict<Values> | ((value: Values) => Verdict<Values>),
  more: Partial<Link> = {},
): Plugin => ({ link: link(pluginId, more), says: typeof says === 'function' ? says : () => says });

const point = (mode: Mode, more: Partial<Point> = {}): Point => ({
  mode,
  cancellable: true,
  failsClosed: false,
  rewritable: true,
  ...more,
});
const waterfall = point({ kind: 'waterfall' });

const passed: Verdict<Values> = { kind: 'passed' };
const threw: Verdict<Values> = { kind: 'skipped', cause: 'threw' };
const notLoaded: Verdict<Values> = { kind: 'not_run', cause: 'not_loaded' };
const cancelled = (reason: string | null): Verdict<Values> => ({ kind: 'cancelled', reason, code: null });
const rewrote = (value: Values): Verdict<Values> => ({ kind: 'rewrote', value, changed: Object.keys(value) });
const contributed = (value: Values): Verdict<Values> => ({ kind: 'contributed', value, changed: Object.keys(value) });
const appends = (text: string) => (value: Values) => rewrote({ text: `${String(value.text)}${text}` });

interface Ran {
  readonly decision: Decision<Link, Values>;
  readonly asked: readonly string[];
  readonly seen: readonly Values[];
}

const run = async (at: Point, value: Values, plugins: readonly Plugin[]): Promise<Ran> => {
  const asked: string[] = [];
  const seen: Values[] = [];
  const says = new Map(plugins.map((one) => [one.link, one.says]));
  const ask = (asking: Link, given: Values): Promise<Said<Values>> => {
    asked.push(asking.pluginId);
    seen.push(given);
    const verdict = says.get(asking)?.(given) ?? passed;
    return Promise.resolve({ verdict, warnings: [], durationMs: 1 });
  };
  const links = plugins.map((one) => one.link);
  return { decision: await runChain(at, value, links, ask), asked, seen };
};
const kinds = (decision: Decision<Link, Values>) => decision.steps.map(({ verdict }) => verdict.kind);

describe('waterfall', () => {
  it('shows each handler the value that the one before left (MW-21)', async () => {
    const { decision, seen } = await run(waterfall, { text: '>' }, [
      plugin('a', appends('a')),
      plugin('b', appends('b')),
    ]);
    expect(seen).toEqual([{ text: '>' }, { text: '>a' }]);
    expect(decision).toMatchObject({ outcome: 'rewritten', value: { text: '>ab' }, metered: 2 });
    expect(decision.steps.map(({ input, output }) => [input.text, output.text])).toEqual([
      ['>', '>a'],
      ['>a', '>ab'],
    ]);
  });

  it('stops at a cancel, gives no value and names the plugin; the rest are not run (MW-22)', async () => {
    const { decision, asked } = await run(waterfall, { text: 'x' }, [
      plugin('a', appends('1')),
      plugin('stop', cancelled('no')),
      plugin('late', appends('2')),
    ]);
    expect(asked).toEqual(['a', 'stop']);
    expect(decision).toMatchObject({
      outcome: 'cancelled',
      value: null,
      cancellation: { pluginId: 'stop', reason: 'no', code: null },
      metered: 2,
    });
    expect(decision.steps[2]?.verdict).toEqual({ kind: 'not_run', cause: 'after_cancel' });
  });

  it('goes on with the value it had when a handler does not decide (MW-50)', async () => {
    const { decision } = await run(waterfall, { text: 'x' }, [plugin('bad', threw), plugin('b', appends('!'))]);
    expect(decision).toMatchObject({ outcome: 'rewritten', value: { text: 'x!' }, metered: 2 });
    expect(kinds(decision)).toEqual(['skipped', 'rewrote']);
  });

  it('is passed when the chain comes back to where it began (MW-24)', async () => {
    const { decision } = await run(waterfall, { text: 'A' }, [
      plugin('b', rewrote({ text: 'B' })),
      plugin('a', rewrote({ text: 'A' })),
    ]);
    expect(decision.outcome).toBe('passed');
    expect(kinds(decision)).toEqual(['rewrote', 'rewrote']);
  });

  it('is passed with nothing metered when nobody takes part (MW-23)', async () => {
    const { decision } = await run(waterfall, { text: 'x' }, []);
    expect(decision).toMatchObject({ outcome: 'passed', value: { text: 'x' }, steps: [], metered: 0 });
  });

  it('is observed where there is nothing to change', async () => {
    const { decision } = await run(point({ kind: 'waterfall' }, { rewritable: false }), {}, [
      plugin('a', { kind: 'observed' }),
    ]);
    expect(decision.outcome).toBe('observed');
  });

  it('does not let a cancel through where nothing can be cancelled', async () => {
    const { decision } = await run(point({ kind: 'waterfall' }, { cancellable: false }), { text: 'x' }, [
      plugin('a', cancelled('no')),
      plugin('b', appends('!')),
    ]);
    expect(decision).toMatchObject({ outcome: 'rewritten', cancellation: null });
  });

  it('is held by the first request, with the value of the whole chain; a later cancel wins over it', async () => {
    const held = plugin('h', { kind: 'held', request: { title: 'first' } });
    const second = plugin('h2', { kind: 'held', request: { title: 'second' } });
    const kept = await run(waterfall, { text: 'x' }, [held, second, plugin('b', appends('!'))]);
    expect(kept.decision).toMatchObject({
      outcome: 'held',
      value: { text: 'x!' },
      hold: { pluginId: 'h', request: { title: 'first' } },
    });
    const blocked = await run(waterfall, { text: 'x' }, [held, plugin('c', cancelled('no'))]);
    expect(blocked.decision).toMatchObject({ outcome: 'cancelled', hold: null });
  });
});

describe('mode observe of a plugin', () => {
  const observe = { mode: 'observe' } as const;

  it('records what it would have said and goes on unchanged', async () => {
    const { decision, seen } = await run(waterfall, { text: 'x' }, [
      plugin('rewriter', appends('!'), observe),
      plugin('vetoer', cancelled('no'), observe),
      plugin('last', passed),
    ]);
    expect(seen).toEqual([{ text: 'x' }, { text: 'x' }, { text: 'x' }]);
    expect(decision).toMatchObject({ outcome: 'passed', value: { text: 'x' }, cancellation: null, metered: 3 });
    expect(kinds(decision)).toEqual(['observed', 'observed', 'passed']);
    expect(decision.steps.map(({ wouldHave }) => wouldHave?.kind ?? null)).toEqual(['rewrote', 'cancelled', null]);
  });

  it('never closes, holds, claims or contributes', async () => {
    const closed = { mode: 'observe', failureMode: 'closed' } as const;
    const failed = await run(waterfall, { text: 'x' }, [plugin('a', threw, closed), plugin('b', notLoaded, closed)]);
    expect(failed.decision.outcome).toBe('passed');
    const holding = await run(waterfall, { text: 'x' }, [plugin('a', { kind: 'held', request: {} }, observe)]);
    expect(holding.decision).toMatchObject({ outcome: 'passed', hold: null });
    const claiming = await run(point({ kind: 'first-claim' }), {}, [
      plugin('a', { kind: 'claimed', value: 1 }, observe),
      plugin('b', { kind: 'claimed', value: 2 }),
    ]);
    expect(claiming.decision.collected).toBe(2);
  });
});

describe('failure', () => {
  const closed = { failureMode: 'closed' } as const;
  const failures: readonly Verdict<Values>[] = [
    threw,
    { kind: 'skipped', cause: 'timed_out' },
    { kind: 'skipped', cause: 'malformed' },
    { kind: 'skipped', cause: 'crashed' },
    notLoaded,
  ];

  it.each(failures)('with failureMode closed cancels: %j', async (failure) => {
    const { decision, asked } = await run(waterfall, { text: 'x' }, [
      plugin('guard', failure, closed),
      plugin('late', passed),
    ]);
    expect(decision).toMatchObject({
      outcome: 'cancelled',
      cancellation: { pluginId: 'guard', reason: null, code: 'plugin_failed' },
    });
    expect(asked).toEqual(['guard']);
  });

  it('with failureMode closed changes nothing where nothing can be cancelled', async () => {
    const { decision } = await run(point({ kind: 'waterfall' }, { cancellable: false }), { text: 'x' }, [
      plugin('guard', threw, closed),
    ]);
    expect(decision.outcome).toBe('passed');
  });

  it('of a plugin that does not apply never closes', async () => {
    const { decision } = await run(waterfall, { text: 'x' }, [
      plugin('guard', { kind: 'not_run', cause: 'not_applicable' }, closed),
    ]);
    expect(decision).toMatchObject({ outcome: 'passed', metered: 0 });
  });

  it('closes at a point whose dialect fails closed, for a handler that ran only', async () => {
    const at = point({ kind: 'waterfall' }, { failsClosed: true });
    expect((await run(at, {}, [plugin('a', threw)])).decision.cancellation?.code).toBe('plugin_failed');
    expect((await run(at, {}, [plugin('a', notLoaded)])).decision.outcome).toBe('passed');
  });

  it('of the asking itself rejects', async () => {
    const ask = () => Promise.reject(new Error('no sandbox'));
    await expect(runChain(waterfall, {}, [link('a')], ask)).rejects.toThrow('no sandbox');
  });
});

describe('merge (openclaw before_tool_call)', () => {
  const beforeToolCall = (by: 'others' | 'anyone') =>
    point(
      {
        kind: 'merge',
        fields: {
          params: { rule: 'last', until: { field: 'requireApproval', by } },
          block: { rule: 'sticky', on: 'true' },
          blockReason: { rule: 'last' },
          requireApproval: { rule: 'first', stamp: 'pluginId' },
        },
        others: null,
        chained: null,
        terminal: { field: 'block', is: 'true' },
        cancels: { when: { field: 'block', is: 'true' }, reasonField: 'blockReason' },
        holds: 'requireApproval',
        controls: ['block', 'blockReason', 'requireApproval'],
      },
      { failsClosed: true },
    );
  const at = beforeToolCall('others');

  it('shows every handler the same value; the last params win whole', async () => {
    const { decision, seen } = await run(at, { command: 'ls' }, [
      plugin('a', contributed({ params: { one: 1 } })),
      plugin('b', contributed({ params: { two: 2 }, stray: true })),
    ]);
    expect(seen).toEqual([{ command: 'ls' }, { command: 'ls' }]);
    expect(decision.outcome).toBe('rewritten');
    expect(decision.collected).toEqual({ params: { two: 2 } });
  });

  it('blocks, takes the last reason given even by one who did not block, and asks nobody after', async () => {
    const { decision, asked } = await run(at, {}, [
      plugin('talker', contributed({ blockReason: 'because' })),
      plugin('blocker', contributed({ block: true })),
      plugin('late', contributed({ params: {} })),
    ]);
    expect(decision).toMatchObject({
      outcome: 'cancelled',
      value: null,
      cancellation: { pluginId: 'blocker', reason: 'because' },
    });
    expect(asked).toEqual(['talker', 'blocker']);
  });

  it('holds for the first approval asked for, stamped with its plugin', async () => {
    const { decision } = await run(at, {}, [
      plugin('a', contributed({ requireApproval: { title: 'one', pluginId: 'forged' } })),
      plugin('b', contributed({ requireApproval: { title: 'two' } })),
    ]);
    expect(decision).toMatchObject({
      outcome: 'held',
      hold: { pluginId: 'a', request: { title: 'one', pluginId: 'a' } },
    });
  });

  it('lets a block win over an approval, whichever came first', async () => {
    const asks = plugin('asks', contributed({ requireApproval: { title: 't' } }));
    const blocks = plugin('blocks', contributed({ block: true, blockReason: 'no' }));
    expect((await run(at, {}, [asks, blocks])).decision).toMatchObject({
      outcome: 'cancelled',
      hold: null,
      cancellation: { pluginId: 'blocks', reason: 'no' },
    });
    expect((await run(at, {}, [blocks, asks])).decision.outcome).toBe('cancelled');
  });

  it('ignores params after an approval request: of others, or (by profile) of anyone', async () => {
    const asks = plugin('a', contributed({ requireApproval: { title: 't' }, params: { v: 1 } }));
    const own = plugin('a', contributed({ params: { v: 2 } }));
    const other = plugin('b', contributed({ params: { v: 3 } }));
    expect((await run(at, {}, [asks, own, other])).decision.collected).toMatchObject({ params: { v: 2 } });
    const strict = await run(beforeToolCall('anyone'), {}, [asks, own, other]);
    expect(strict.decision.collected).toMatchObject({ params: { v: 1 } });
  });

  it('is passed when only `block: false` came', async () => {
    const { decision } = await run(at, {}, [plugin('a', contributed({ block: false }))]);
    expect(decision.outcome).toBe('passed');
  });

  it('fails closed when a handler throws; later ones do not run', async () => {
    const { decision, asked } = await run(at, {}, [plugin('a', threw), plugin('b', passed)]);
    expect(decision.cancellation).toEqual({ pluginId: 'a', reason: null, code: 'plugin_failed' });
    expect(asked).toEqual(['a']);
  });

  it('stops at a decision that the dialect read as a cancel (before_agent_run)', async () => {
    const { decision, asked } = await run(at, {}, [plugin('a', cancelled('policy')), plugin('b', passed)]);
    expect(decision.cancellation).toMatchObject({ pluginId: 'a', reason: 'policy' });
    expect(asked).toEqual(['a']);
  });
});

describe('chained merge (openclaw before_message_write, trusted tool policies)', () => {
  const at = point({
    kind: 'merge',
    fields: { block: { rule: 'sticky', on: 'truthy' }, message: { rule: 'last' } },
    others: null,
    chained: { message: 'message' },
    terminal: { field: 'block', is: 'truthy' },
    cancels: { when: { field: 'block', is: 'truthy' }, reasonField: null },
    holds: null,
    controls: ['block'],
  });

  it('shows each handler the message of the one before and goes on with the last', async () => {
    const { decision, seen } = await run(at, { message: 'm', session: 's' }, [
      plugin('a', (value) => contributed({ message: `${String(value.message)}a` })),
      plugin('b', (value) => contributed({ message: `${String(value.message)}b` })),
    ]);
    expect(seen[1]).toEqual({ message: 'ma', session: 's' });
    expect(decision).toMatchObject({ outcome: 'rewritten', value: { message: 'mab', session: 's' } });
    expect(decision.steps[0]).toMatchObject({ input: { message: 'm' }, output: { message: 'ma' } });
  });

  it('discards the message when blocked', async () => {
    const { decision } = await run(at, { message: 'm' }, [
      plugin('a', contributed({ message: 'x' })),
      plugin('b', contributed({ block: 1 })),
    ]);
    expect(decision).toMatchObject({ outcome: 'cancelled', value: null, cancellation: { pluginId: 'b' } });
  });
});

describe('trusted tool policies (openclaw §7)', () => {
  const at = point(
    {
      kind: 'merge',
      fields: {
        params: { rule: 'last' },
        block: { rule: 'sticky', on: 'true' },
        reason: { rule: 'last' },
        requireApproval: { rule: 'first', stamp: 'pluginId' },
      },
      others: null,
      chained: { params: 'params' },
      terminal: { field: 'block', is: 'true' },
      cancels: { when: { field: 'block', is: 'true' }, reasonField: 'reason' },
      holds: 'requireApproval',
      controls: ['block', 'reason', 'requireApproval'],
    },
    { failsClosed: true },
  );

  it('show the params of one policy to the next, and hold with the last of them', async () => {
    const { decision, seen } = await run(at, { params: { a: 1 } }, [
      plugin('first', contributed({ params: { a: 2 } })),
      plugin('asks', contributed({ requireApproval: { title: 't' } })),
    ]);
    expect(seen[1]).toEqual({ params: { a: 2 } });
    expect(decision).toMatchObject({ outcome: 'held', value: { params: { a: 2 } }, hold: { pluginId: 'asks' } });
  });

  it('a block by a later policy wins over an earlier approval request: nobody is asked', async () => {
    const { decision } = await run(at, { params: {} }, [
      plugin('asks', contributed({ requireApproval: { title: 't' } })),
      plugin('blocks', contributed({ block: true, reason: 'no' })),
    ]);
    expect(decision).toMatchObject({
      outcome: 'cancelled',
      hold: null,
      cancellation: { pluginId: 'blocks', reason: 'no' },
    });
  });

  it('a policy that throws blocks', async () => {
    expect((await run(at, {}, [plugin('bad', threw)])).decision.cancellation?.code).toBe('plugin_failed');
  });
});

describe('contributions and visibility (kohaku §4, §7)', () => {
  const collecting = (fields: MergeMode['fields']) =>
    point(
      { kind: 'merge', fields, others: null, chained: null, terminal: null, cancels: null, holds: null, controls: [] },
      { cancellable: false },
    );

  it('prompt contents are joined in chain order, empty ones skipped, a throwing plugin skipped', async () => {
    const at = collecting({ content: { rule: 'join', separator: '\n\n', empty: 'skips' } });
    const { decision } = await run(at, {}, [
      plugin('a', contributed({ content: 'one' })),
      plugin('bad', threw),
      plugin('none', passed),
      plugin('empty', contributed({ content: '' })),
      plugin('b', contributed({ content: 'two' })),
    ]);
    expect(decision).toMatchObject({ outcome: 'rewritten', collected: { content: 'one\n\ntwo' } });
  });

  it('visibility is what everyone with an opinion allows; no opinion at all is none', async () => {
    const at = collecting({ allowed_tools: { rule: 'intersect' }, allowed_subagents: { rule: 'intersect' } });
    const { decision } = await run(at, {}, [
      plugin('a', contributed({ allowed_tools: ['read', 'write'], allowed_subagents: null })),
      plugin('b', contributed({ allowed_tools: ['write', 'bash'] })),
      plugin('c', passed),
    ]);
    expect(decision.collected).toEqual({ allowed_tools: ['write'] });
    expect((await run(at, {}, [plugin('c', passed)])).decision).toMatchObject({ outcome: 'passed', collected: {} });
  });

  it('services are laid over each other, the later plugin wins a key', async () => {
    const at = collecting({ services: { rule: 'overlay' } });
    const { decision } = await run(at, {}, [
      plugin('a', contributed({ services: { db: 1, log: 1 } })),
      plugin('b', contributed({ services: { log: 2 } })),
    ]);
    expect(decision.collected).toEqual({ services: { db: 1, log: 2 } });
  });
});

describe('first claim (openclaw before_dispatch)', () => {
  const at = point({ kind: 'first-claim' });

  it('gives the first claim; an error moves on; nobody after is asked', async () => {
    const { decision, asked } = await run(at, {}, [
      plugin('bad', threw),
      plugin('shy', passed),
      plugin('mine', { kind: 'claimed', value: { text: 'hi' } }),
      plugin('late', { kind: 'claimed', value: 2 }),
    ]);
    expect(decision).toMatchObject({ outcome: 'claimed', collected: { text: 'hi' }, metered: 3 });
    expect(asked).toEqual(['bad', 'shy', 'mine']);
  });

  it('is passed when nobody claims', async () => {
    expect((await run(at, {}, [plugin('a', passed)])).decision).toMatchObject({ outcome: 'passed', collected: null });
  });
});

describe('observe', () => {
  it('in turn: asks one after another, whatever they say', async () => {
    const at = point({ kind: 'observe', start: 'sequential' }, { cancellable: false, rewritable: false });
    const { decision, asked } = await run(at, {}, [plugin('a', threw), plugin('b', { kind: 'observed' })]);
    expect(asked).toEqual(['a', 'b']);
    expect(decision).toMatchObject({ outcome: 'observed', cancellation: null, metered: 2 });
  });

  it('together: starts all in chain order before any is done, and reports in chain order', async () => {
    const at = point({ kind: 'observe', start: 'together' }, { cancellable: false, rewritable: false });
    const started: string[] = [];
    const ends = new Map<string, () => void>();
    const running = runChain(at, {}, [link('a'), link('b')], (asking) => {
      started.push(asking.pluginId);
      return new Promise<Said<object>>((resolve) => {
        ends.set(asking.pluginId, () => {
          resolve({ verdict: { kind: 'observed' }, warnings: [], durationMs: 0 });
        });
      });
    });
    expect(started).toEqual(['a', 'b']);
    ends.get('b')?.();
    ends.get('a')?.();
    expect((await running).steps.map((step) => step.link.pluginId)).toEqual(['a', 'b']);
  });
});

describe('vote (kohaku on_compact_start)', () => {
  const at = point({ kind: 'vote' }, { rewritable: false });

  it('asks everyone, also after a veto, and names the first who vetoed', async () => {
    const { decision, asked } = await run(at, {}, [
      plugin('a', { kind: 'observed' }),
      plugin('b', cancelled(null)),
      plugin('c', cancelled('late')),
    ]);
    expect(asked).toEqual(['a', 'b', 'c']);
    expect(decision).toMatchObject({ outcome: 'cancelled', cancellation: { pluginId: 'b' }, metered: 3 });
  });
});

describe('evaluate (openclaw skill_proposal_evaluate)', () => {
  it('gives one attributed outcome each, in chain order', async () => {
    const at = point({ kind: 'evaluate' }, { cancellable: false, rewritable: false });
    const { decision } = await run(at, {}, [plugin('a', contributed({ status: 'ok' })), plugin('b', threw)]);
    expect(decision.collected).toEqual([
      { pluginId: 'a', status: 'contributed', value: { status: 'ok' } },
      { pluginId: 'b', status: 'skipped', value: null },
    ]);
  });
});

describe('for all chains', () => {
  const verdicts: fc.Arbitrary<Verdict<Values>> = fc.oneof(
    fc.constant(passed),
    fc.string().map((text) => rewrote({ text })),
    fc.string().map(cancelled),
    fc.constant(threw),
    fc.constant(notLoaded),
    fc.constant<Verdict<Values>>({ kind: 'observed' }),
    fc.constant<Verdict<Values>>({ kind: 'held', request: {} }),
    fc.constant<Verdict<Values>>({ kind: 'claimed', value: 1 }),
    fc.dictionary(fc.constantFrom('params', 'block', '__proto__'), fc.anything()).map(contributed),
  );
  const chains = fc
    .array(
      fc
        .tuple(
          verdicts,
          fc.constantFrom('enforce' as const, 'observe' as const),
          fc.constantFrom('open' as const, 'closed' as const),
        )
        .map(([verdict, mode, failureMode]) => plugin('p', verdict, { mode, failureMode })),
      { maxLength: 8 },
    )
    .map((plugins) => plugins.map((one, index) => ({ ...one, link: { ...one.link, pluginId: `p${String(index)}` } })));
  const modes: fc.Arbitrary<Mode> = fc.constantFrom<Mode>(
    { kind: 'waterfall' },
    { kind: 'first-claim' },
    { kind: 'vote' },
    { kind: 'evaluate' },
    { kind: 'observe', start: 'together' },
    { kind: 'observe', start: 'sequential' },
    {
      kind: 'merge',
      fields: { params: { rule: 'last' }, block: { rule: 'sticky', on: 'true' } },
      others: { rule: 'collect' },
      chained: null,
      terminal: { field: 'block', is: 'true' },
      cancels: { when: { field: 'block', is: 'true' }, reasonField: null },
      holds: null,
      controls: ['block'],
    },
  );
  const points = fc
    .tuple(modes, fc.boolean(), fc.boolean(), fc.boolean())
    .map(([mode, cancellable, failsClosed, rewritable]) => point(mode, { cancellable, failsClosed, rewritable }));

  it('every link has one step, in order; what runs is metered; only a cancelled chain has no value', async () => {
    await fc.assert(
      fc.asyncProperty(points, chains, async (at, plugins) => {
        const { decision, asked } = await run(at, { text: 'x' }, plugins);
        expect(decision.steps.map((step) => step.link)).toEqual(plugins.map((one) => one.link));
        expect(decision.steps.map((step) => step.index)).toEqual(plugins.map((_, index) => index));
        expect(decision.metered).toBe(decision.steps.filter(({ verdict }) => verdict.kind !== 'not_run').length);
        expect(decision.metered).toBeLessThanOrEqual(asked.length);
        expect(decision.value === null).toBe(decision.outcome === 'cancelled');
        expect(decision.cancellation === null).toBe(decision.outcome !== 'cancelled');
      }),
    );
  });

  it('a step begins where the one before ended', async () => {
    await fc.assert(
      fc.asyncProperty(chains, async (plugins) => {
        const first: Values = { text: 'x' };
        const { decision } = await run(waterfall, first, plugins);
        let value = first;
        for (const step of decision.steps) {
          expect(step.input).toBe(value);
          value = step.output;
        }
      }),
    );
  });

  it('plugins in mode observe change neither outcome nor value', async () => {
    await fc.assert(
      fc.asyncProperty(points, chains, async (at, plugins) => {
        const enforcing = plugins.filter((one) => one.link.mode === 'enforce');
        const [all, some] = await Promise.all([run(at, { text: 'x' }, plugins), run(at, { text: 'x' }, enforcing)]);
        expect([all.decision.outcome, all.decision.value]).toEqual([some.decision.outcome, some.decision.value]);
        expect(all.decision.cancellation).toEqual(some.decision.cancellation);
      }),
    );
  });

  it('nothing is cancelled where nothing can be', async () => {
    await fc.assert(
      fc.asyncProperty(points, chains, async (at, plugins) => {
        const { decision } = await run({ ...at, cancellable: false }, { text: 'x' }, plugins);
        expect(decision.outcome).not.toBe('cancelled');
      }),
    );
  });
});
