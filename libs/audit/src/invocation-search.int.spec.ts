import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { searchInvocations, type InvocationQuery, type SearchPlace } from './invocation-search.js';
import { createLedgerDatabase } from '../../../test/support/test-postgres.js';
import { openTestLedger, type TestLedger } from './test-ledger.js';
import type { TestInvocation } from './test-record.js';

let ledger: TestLedger;

const at = (minute: number): string => new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString();

const told: readonly TestInvocation[] = [
  {
    id: 'rewritten',
    hook: 'sshCommandSending',
    turnId: 't1',
    sessionId: 's1',
    agentId: 'g1',
    correlationId: 'c1',
    target: 'h1',
    occurredAt: at(1),
    outcome: 'rewritten',
    handlers: [
      { pluginId: 'apt', outcome: 'rewrote', output: 'x' },
      { pluginId: 'guard', pluginVersion: '2.0.0' },
    ],
  },
  {
    id: 'cancelled',
    hook: 'sshCommandSending',
    turnId: 't1',
    sessionId: 's1',
    agentId: 'g1',
    target: 'h2',
    occurredAt: at(2),
    outcome: 'cancelled',
    actor: { kind: 'key', id: 'other-key', onBehalfOf: 'ada' },
    handlers: [
      { pluginId: 'apt', outcome: 'cancelled', reason: 'no', reasonCode: 'forbidden' },
      { pluginId: 'guard', outcome: 'not_run' },
    ],
  },
  {
    id: 'timed-out',
    turnId: 't2',
    sessionId: 's2',
    agentId: 'g2',
    root: 'origin',
    hop: 3,
    occurredAt: at(3),
    dataSubject: 'user:42',
    handlers: [
      { pluginId: 'apt', outcome: 'skipped', cause: 'timed_out', warnings: ['note', 'handler_timeout'] },
      { pluginId: 'guard' },
    ],
  },
  { id: 'plain', dialect: 'openclaw', hook: 'before_tool_call', turnId: 't3', occurredAt: at(4), operationId: 'op' },
];

beforeAll(async () => {
  ledger = openTestLedger(await createLedgerDatabase());
  await ledger.write(...told);
  await ledger.write({ id: 'foreign', account: 'b', turnId: 't1', sessionId: 's1' });
  const effect = { type: 'effect.reported', invocationId: 'rewritten' } as const;
  await ledger.store.append({
    account: 'a',
    writes: [
      {
        stream: 'invocation/rewritten',
        expectedVersion: 'any',
        events: [{ ...effect, data: { applied: true, matches: false } }],
      },
      {
        stream: 'invocation/timed-out',
        expectedVersion: 'any',
        events: [{ ...effect, invocationId: 'timed-out', data: { applied: false, matches: null } }],
      },
    ],
  });
});

afterAll(() => ledger.close());

const find = async (query: Partial<InvocationQuery>): Promise<readonly string[]> => {
  const { table } = await ledger.read();
  const all: InvocationQuery = { account: 'a', clock: 'occurred', order: 'oldest', limit: 100 };
  const { items } = await searchInvocations(ledger.sql, table, { ...all, ...query });
  return items.map(({ invocationId }) => invocationId);
};

const everything = told.map(({ id }) => id);

describe('a search', () => {
  it('finds everything of its account when nothing is asked, and nothing of another', async () => {
    expect(await find({})).toEqual(everything);
    expect(await find({ account: 'b' })).toEqual(['foreign']);
    expect(await find({ account: 'nobody' })).toEqual([]);
  });

  it('turns round for the newest', async () => {
    expect(await find({ order: 'newest' })).toEqual([...everything].reverse());
  });

  const filters: readonly (readonly [Partial<InvocationQuery>, readonly string[]])[] = [
    [{ dialect: 'openclaw' }, ['plain']],
    [{ hook: 'sshCommandSending' }, ['rewritten', 'cancelled']],
    [{ outcome: 'cancelled' }, ['cancelled']],
    [{ outcome: 'passed' }, ['timed-out', 'plain']],
    [{ agentId: 'g2' }, ['timed-out']],
    [{ sessionId: 's1' }, ['rewritten', 'cancelled']],
    [{ turnId: 't1' }, ['rewritten', 'cancelled']],
    [{ correlationId: 'c1' }, ['rewritten']],
    [{ operationId: 'op' }, ['plain']],
    [{ root: 'origin' }, ['timed-out']],
    [{ hop: 3 }, ['timed-out']],
    [{ hop: 0 }, ['rewritten', 'cancelled', 'plain']],
    [{ reasonCode: 'forbidden' }, ['cancelled']],
    [{ reasonCode: 'handler_timeout' }, ['timed-out']],
    [{ actor: 'runtime-key' }, ['rewritten', 'timed-out', 'plain']],
    [{ actor: 'ada' }, ['cancelled']],
    [{ target: ['h1'] }, ['rewritten']],
    [{ target: ['h1', 'h2'] }, ['rewritten', 'cancelled']],
    [{ effect: 'different' }, ['rewritten']],
    [{ effect: 'not_applied' }, ['timed-out']],
    [{ effect: 'unknown' }, ['cancelled', 'plain']],
    [{ effect: 'applied' }, []],
    [{ handler: { pluginId: 'apt' } }, ['rewritten', 'cancelled', 'timed-out']],
    [{ handler: { pluginVersion: '2.0.0' } }, ['rewritten']],
    [{ handler: { outcome: 'not_run' } }, ['cancelled']],
    [{ handler: { outcome: 'passed' } }, ['rewritten', 'timed-out']],
    [{ handler: { cause: 'timed_out' } }, ['timed-out']],
    [{ from: new Date(at(2)) }, ['cancelled', 'timed-out', 'plain']],
    [{ to: new Date(at(2)) }, ['rewritten']],
    [{ from: new Date(at(2)), to: new Date(at(3)) }, ['cancelled']],
    [{ clock: 'recorded', to: new Date(at(9)) }, []],
    [{ clock: 'recorded', from: new Date(at(9)) }, everything],
    [{ clock: 'recorded', handler: { pluginId: 'guard', outcome: 'passed' } }, ['rewritten', 'timed-out']],
  ];
  it.each(filters)('by %j finds these and no others', async (query, ids) => {
    expect(await find(query)).toEqual(ids);
  });

  it('wants all that is said of a handler to hold of one and the same run', async () => {
    expect(await find({ handler: { pluginId: 'guard', outcome: 'passed' } })).toEqual(['rewritten', 'timed-out']);
    expect(await find({ handler: { pluginId: 'guard', outcome: 'rewrote' } })).toEqual([]);
  });

  it('joins all that is asked', async () => {
    expect(await find({ sessionId: 's1', handler: { pluginId: 'apt', outcome: 'cancelled' } })).toEqual(['cancelled']);
    expect(await find({ sessionId: 's2', outcome: 'cancelled' })).toEqual([]);
  });

  it('finds a person by the hash of the name only', async () => {
    expect(await find({ dataSubject: 'user:42' })).toEqual([]);
    expect(await find({ dataSubject: await ledger.sealing.searchHash('a', 'user:42') })).toEqual(['timed-out']);
  });

  it('shows an invocation once, however many of its runs fit', async () => {
    const several = openTestLedger(await createLedgerDatabase());
    await several.write({
      id: 'i',
      handlers: [
        { pluginId: 'p', outcome: 'skipped', cause: 'threw' },
        { pluginId: 'q', outcome: 'skipped', cause: 'threw' },
      ],
    });
    const { table } = await several.read();
    const query: InvocationQuery = {
      account: 'a',
      clock: 'occurred',
      order: 'newest',
      limit: 10,
      handler: { outcome: 'skipped' },
    };
    expect((await searchInvocations(several.sql, table, query)).items).toHaveLength(1);
    await several.close();
  });

  it('says what an item is, its reason under its seal and no other content', async () => {
    const { table } = await ledger.read();
    const { items } = await searchInvocations(ledger.sql, table, {
      account: 'a',
      clock: 'occurred',
      order: 'oldest',
      limit: 10,
      outcome: 'cancelled',
    });
    expect(items).toEqual([
      expect.objectContaining({
        invocationId: 'cancelled',
        state: 'closed',
        actor: { kind: 'key', id: 'other-key', onBehalfOf: 'ada' },
        cancellation: { pluginId: 'apt', reason: expect.anything(), code: 'forbidden' },
        effect: 'unknown',
        metered: true,
        positions: { first: '4', last: '7' },
        handlers: [
          expect.objectContaining({ pluginId: 'apt', outcome: 'cancelled', reasonCode: 'forbidden', durationMs: 0.4 }),
          expect.objectContaining({ pluginId: 'guard', outcome: 'not_run', cause: 'after_cancel', durationMs: null }),
        ],
      }),
    ]);
    const reason = items[0]?.cancellation?.reason ?? null;
    if (reason === null) throw new Error('no reason');
    expect(await ledger.sealing.open('a', reason)).toEqual({ kind: 'open', value: 'no' });
    expect(JSON.stringify(items).split('$sealed')).toHaveLength(2);
  });
});

describe('paging', () => {
  /** Few instants for many invocations: pages end among equals, at borders, and exactly at the end. */
  it('gives each invocation once and in order, whatever the limit, the order and the ties', async () => {
    const many = openTestLedger(await createLedgerDatabase());
    const minutes = Array.from({ length: 60 }, (_, n) => (n * 7) % 5);
    await many.write(
      ...minutes.map((minute, n) => ({
        id: `i${String(n)}`,
        occurredAt: at(minute),
        handlers: [{ pluginId: n % 2 === 0 ? 'even' : 'odd' }],
      })),
    );
    const { table } = await many.read();
    const pages = async (query: InvocationQuery): Promise<readonly string[]> => {
      const seen: string[] = [];
      let after: SearchPlace | null = null;
      do {
        const page: Awaited<ReturnType<typeof searchInvocations>> = await searchInvocations(many.sql, table, {
          ...query,
          ...(after === null ? {} : { after }),
        });
        expect(page.items.length).toBeLessThanOrEqual(query.limit);
        seen.push(...page.items.map(({ invocationId }) => invocationId));
        after = page.next;
      } while (after !== null);
      return seen;
    };
    const inOrder = (order: 'newest' | 'oldest', wanted: (n: number) => boolean): readonly string[] => {
      const all = minutes.map((minute, n) => ({ minute, n })).filter(({ n }) => wanted(n));
      all.sort((a, b) => a.minute - b.minute || a.n - b.n);
      if (order === 'newest') all.reverse();
      return all.map(({ n }) => `i${String(n)}`);
    };
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(1, 2, 3, 7, 12, 15, 20, 30, 59, 60, 61),
        fc.constantFrom<'newest' | 'oldest'>('newest', 'oldest'),
        fc.boolean(),
        async (limit, order, onlyEven) => {
          const query: InvocationQuery = { account: 'a', clock: 'occurred', order, limit };
          const got = await pages(onlyEven ? { ...query, handler: { pluginId: 'even' } } : query);
          expect(got).toEqual(inOrder(order, (n) => !onlyEven || n % 2 === 0));
        },
      ),
      { numRuns: 30 },
    );
    const recorded = await pages({ account: 'a', clock: 'recorded', order: 'oldest', limit: 7 });
    expect(recorded).toEqual(minutes.map((_, n) => `i${String(n)}`));
    await many.close();
  }, 60_000);
});
