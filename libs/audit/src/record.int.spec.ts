import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { NewEvent } from '#record';
import { searchInvocations } from './invocation-search.js';
import { lineageOf } from './lineage.js';
import { operationsNamed, orphanOperations, type OrphanQuery } from './operations.js';
import { pluginHealth } from './plugin-health.js';
import { createLedgerDatabase } from '../../../test/support/test-postgres.js';
import { openTestLedger, type TestLedger } from './test-ledger.js';
import { sessionSummary, sessionTimeline, sessionTurns, turnInvocations, turnsNamed } from './turn-queries.js';
import { usageItems, type UsageQuery } from './usage.js';

let ledger: TestLedger;

beforeEach(async () => {
  ledger = openTestLedger(await createLedgerDatabase());
}, 60_000);

afterEach(() => ledger.close());

const append = async (stream: string, ...events: readonly NewEvent[]): Promise<void> => {
  await ledger.store.append({ account: 'a', writes: [{ stream, expectedVersion: 'any', events }] });
};

describe('turns', () => {
  it('count what their invocations came to, and say whether they were inferred', async () => {
    await ledger.write(
      { id: 'i1', turnId: 't', sessionId: 's', agentId: 'g', turnInferred: true },
      {
        id: 'i2',
        turnId: 't',
        sessionId: 's',
        turnInferred: true,
        outcome: 'cancelled',
        handlers: [
          { pluginId: 'p', outcome: 'skipped', cause: 'threw' },
          { pluginId: 'q', outcome: 'cancelled' },
        ],
      },
      { id: 'i3', turnId: 'u', sessionId: 's' },
    );
    const { table } = await ledger.read();
    const { items } = await sessionTurns(ledger.sql, table, {
      account: 'a',
      sessionId: 's',
      order: 'oldest',
      limit: 10,
    });
    expect(items).toEqual([
      expect.objectContaining({
        turnId: 't',
        sessionId: 's',
        turnInferred: true,
        agentId: 'g',
        invocations: 2,
        undecided: 1,
        outcomes: { passed: 1, rewritten: 0, cancelled: 1, observed: 0, claimed: 0, held: 0 },
        positions: { first: '0', last: '5' },
      }),
      expect.objectContaining({ turnId: 'u', turnInferred: false, invocations: 1 }),
    ]);
    expect(await sessionSummary(ledger.sql, table, 'a', 's')).toMatchObject({
      turns: 2,
      inferredTurns: 1,
      invocations: 3,
    });
  });

  it('of one name in several sessions are told session by session, and pages tear none apart', async () => {
    await ledger.write(
      { id: 'a1', turnId: 't', sessionId: 'one' },
      { id: 'b1', turnId: 't', sessionId: 'two' },
      { id: 'a2', turnId: 't', sessionId: 'one' },
      { id: 'n1', turnId: 't' },
      { id: 'b2', turnId: 't', sessionId: 'two' },
    );
    const { table } = await ledger.read();
    for (const limit of [1, 2, 3, 5, 6]) {
      const seen: string[] = [];
      let place: { sessionBegan: string; position: string } | null = null;
      do {
        const page: Awaited<ReturnType<typeof turnInvocations>> = await turnInvocations(ledger.sql, table, {
          account: 'a',
          turnId: 't',
          sessionId: null,
          limit,
          ...(place === null ? {} : { after: place }),
        });
        seen.push(...page.items.map(({ invocationId }) => invocationId));
        place = page.next;
      } while (place !== null);
      expect(seen).toEqual(['a1', 'a2', 'b1', 'b2', 'n1']);
    }
    const only = await turnInvocations(ledger.sql, table, { account: 'a', turnId: 't', sessionId: 'two', limit: 10 });
    expect(only.items.map(({ invocationId }) => invocationId)).toEqual(['b1', 'b2']);
    expect((await turnsNamed(ledger.sql, table, 'a', 't', null)).map(({ sessionId }) => sessionId)).toEqual([
      'one',
      'two',
      null,
    ]);
  });

  it('stand on the timeline of their session beside its other events, page by page', async () => {
    await ledger.write({ id: 'i1', turnId: 't1', sessionId: 's' });
    const counts = { messageCount: 1, subagentCount: 0, peerThreadCount: 0 };
    const started = { clearId: 'c', trailingText: null, ...counts };
    await append('session/s/clear/1', { type: 'session.clear_started', sessionId: 's', data: started });
    await ledger.write({ id: 'i2', turnId: 't2', sessionId: 's' });
    await append('session/s', { type: 'injection.enqueued', sessionId: 's', data: {} });
    const slot = { runId: 'r', jobId: 'j', slotAt: '2026-11-30T10:00:00.000Z' };
    const closed = { ...slot, status: 'Succeeded', firedBy: 'i' };
    await append('cron-run/r', { type: 'cron.run_closed', sessionId: 's', data: closed });
    await append('session/other/clear/1', { type: 'session.clear_started', sessionId: 'other', data: started });
    const { table } = await ledger.read();
    const walk = async (order: 'newest' | 'oldest', limit: number): Promise<readonly string[]> => {
      const kinds: string[] = [];
      let after: string | null = null;
      do {
        const page: Awaited<ReturnType<typeof sessionTimeline>> = await sessionTimeline(ledger.sql, table, {
          account: 'a',
          sessionId: 's',
          order,
          limit,
          ...(after === null ? {} : { after }),
        });
        kinds.push(...page.items.map((item) => (item.kind === 'turn' ? item.turn.turnId : item.type)));
        after = page.next;
      } while (after !== null);
      return kinds;
    };
    const all = ['t1', 'session.clear_started', 't2', 'injection.enqueued', 'cron.run_closed'];
    for (const limit of [1, 2, 4, 5, 6]) {
      expect(await walk('oldest', limit)).toEqual(all);
      expect(await walk('newest', limit)).toEqual([...all].reverse());
    }
  });
});

describe('lineage', () => {
  it('joins each invocation of a root to the one it descends from, and to the calls it made', async () => {
    await ledger.write(
      {
        id: 'origin',
        handlers: [{ pluginId: 'p', hostCalls: [{ callId: 'c1', member: 'session.peer.send', answer: null }] }],
      },
      { id: 'reaction', root: 'origin', cause: 'origin', hop: 1 },
      { id: 'answer', root: 'origin', cause: 'reaction', lineage: 'reaction', hop: 0 },
      { id: 'elsewhere' },
    );
    const { table } = await ledger.read();
    const { items } = await lineageOf(ledger.sql, table, { account: 'a', root: 'origin', limit: 10 });
    expect(items.map(({ invocation, parent, by }) => ({ id: invocation.invocationId, parent, by }))).toEqual([
      { id: 'origin', parent: null, by: null },
      { id: 'reaction', parent: 'origin', by: 'host-call' },
      { id: 'answer', parent: 'reaction', by: 'model-turn' },
    ]);
    expect(items[0]?.hostCalls).toEqual([
      expect.objectContaining({ callId: 'c1', member: 'session.peer.send', state: 'answered' }),
    ]);
    const first = await lineageOf(ledger.sql, table, { account: 'a', root: 'origin', limit: 2 });
    const rest = await lineageOf(ledger.sql, table, {
      account: 'a',
      root: 'origin',
      limit: 2,
      after: first.next ?? '',
    });
    expect(rest.items.map(({ invocation }) => invocation.invocationId)).toEqual(['answer']);
    expect(rest.next).toBeNull();
  });

  it('says of a call without an answer that it was asked, of a refused one that it was refused', async () => {
    const call = { invocationId: 'i', root: 'i', pluginId: 'p' };
    await ledger.write({ id: 'i', open: true });
    await append(
      'invocation/i',
      { ...call, type: 'host.called', data: { callId: 'c1', member: 'fetch' } },
      {
        ...call,
        type: 'host.refused',
        reasonCode: 'no_runtime',
        data: { callId: 'c2', member: 'llm', code: 'no_runtime' },
      },
      { ...call, type: 'host.called', data: { callId: 'c3', member: 'log' } },
    );
    await ledger.read();
    await append('invocation/i', {
      ...call,
      type: 'host.answered',
      data: { callId: 'c1', member: 'fetch', ok: false },
    });
    const { table } = await ledger.read();
    const [node] = (await lineageOf(ledger.sql, table, { account: 'a', root: 'i', limit: 10 })).items;
    expect(node?.hostCalls.map(({ callId, state, code }) => ({ callId, state, code }))).toEqual([
      { callId: 'c1', state: 'failed', code: null },
      { callId: 'c2', state: 'refused', code: 'no_runtime' },
    ]);
  });
});

describe('operations', () => {
  const sending = { dialect: 'middleware', hook: 'sshCommandSending' } as const;
  const completed = { dialect: 'middleware', hook: 'sshCommandCompleted' } as const;
  const orphans = async (over: Partial<OrphanQuery> = {}): Promise<readonly string[]> => {
    const { table } = await ledger.read();
    const query: OrphanQuery = { account: 'a', side: 'any', order: 'oldest', limit: 10, ...over };
    return (await orphanOperations(ledger.sql, table, query)).items.map(
      ({ operationId, state }) => `${operationId} ${state}`,
    );
  };

  it('join what stood before and after them, also over batches', async () => {
    await ledger.write({ id: 'before', ...sending, operationId: 'op' });
    expect(await orphans()).toEqual(['op no_after']);
    await ledger.write({ id: 'after', ...completed, operationId: 'op' });
    expect(await orphans()).toEqual([]);
    const { table } = await ledger.read();
    const [operation] = await operationsNamed(ledger.sql, table, 'a', 'op');
    expect(operation).toMatchObject({ pair: 'sshCommandSending', state: 'joined' });
    expect(operation?.before.map(({ invocationId }) => invocationId)).toEqual(['before']);
    expect(operation?.after.map(({ invocationId }) => invocationId)).toEqual(['after']);
  });

  it('that were cancelled, or reported as not applied, miss nothing', async () => {
    await ledger.write(
      {
        id: 'i1',
        ...sending,
        operationId: 'cancelled',
        outcome: 'cancelled',
        handlers: [{ pluginId: 'p', outcome: 'cancelled' }],
      },
      { id: 'i2', ...sending, operationId: 'dropped' },
    );
    await append('invocation/i2', {
      type: 'effect.reported',
      invocationId: 'i2',
      data: { applied: false, matches: null },
    });
    expect(await orphans()).toEqual([]);
    const { table } = await ledger.read();
    expect((await operationsNamed(ledger.sql, table, 'a', 'cancelled'))[0]?.state).toBe('cancelled');
    expect((await operationsNamed(ledger.sql, table, 'a', 'dropped'))[0]?.state).toBe('not_applied');
  });

  it('with one side only are listed by the side that is missing', async () => {
    await ledger.write(
      { id: 'i1', ...sending, operationId: 'unfinished' },
      { id: 'i2', ...completed, operationId: 'unasked' },
      { id: 'i3', ...completed },
      { id: 'i4', hook: 'systemPrompt', operationId: 'alone' },
    );
    expect(await orphans()).toEqual(['unfinished no_after', 'unasked no_before']);
    expect(await orphans({ side: 'no_after' })).toEqual(['unfinished no_after']);
    expect(await orphans({ side: 'no_before' })).toEqual(['unasked no_before']);
  });

  it('of two pairs of hooks under one id are told apart', async () => {
    await ledger.write(
      { id: 'i1', ...sending, operationId: 'op' },
      { id: 'i2', dialect: 'middleware', hook: 'notifyDelivered', operationId: 'op' },
    );
    expect(await orphans()).toEqual(['op no_after', 'op no_before']);
  });
});

describe('usage', () => {
  const usageOf = async (over: Partial<UsageQuery> = {}) => {
    const { table } = await ledger.read();
    return usageItems(ledger.sql, table, { account: 'a', groupBy: ['pluginId'], limit: 100, ...over });
  };

  it('counts every handler that ran, and none that did not', async () => {
    await ledger.write(
      {
        id: 'i1',
        outcome: 'cancelled',
        handlers: [
          { pluginId: 'p', outcome: 'skipped', cause: 'threw', durationUs: 1500 },
          { pluginId: 'q', outcome: 'cancelled' },
          { pluginId: 'r', outcome: 'not_run' },
          { pluginId: 'n', outcome: 'skipped', cause: 'not_loaded' },
        ],
      },
      { id: 'i2', handlers: [{ pluginId: 'p', durationUs: 500 }] },
      { id: 'i3' },
    );
    const items = await usageOf();
    expect(items.map(({ group, runs }) => [group.pluginId, runs])).toEqual([
      ['p', 2],
      ['q', 1],
    ]);
    expect(items[0]).toMatchObject({ durationMs: 2, outcomes: { passed: 1, skipped: 1 } });
    const [sum] = await usageOf({ groupBy: [] });
    expect(sum?.runs).toBe(3);
  });

  it('counts a run that had started when its attempt was lost, once', async () => {
    const common = {
      invocationId: 'i',
      dialect: 'middleware',
      hook: 'systemPrompt',
      pluginVersion: '1',
      pluginRevision: 1,
    };
    await ledger.write({ id: 'i', open: true });
    await append(
      'invocation/i',
      { ...common, pluginId: 'p', type: 'handler.started', data: { index: 0 } },
      { ...common, pluginId: 'p', type: 'handler.passed', data: { index: 0, warnings: [], durationUs: 10 } },
      { ...common, pluginId: 'q', type: 'handler.started', data: { index: 1 } },
    );
    await ledger.read();
    await append('invocation/i', { ...common, type: 'invocation.lost', data: {} });
    const items = await usageOf();
    expect(items.map(({ group, outcomes }) => [group.pluginId, outcomes.passed, outcomes.lost])).toEqual([
      ['p', 1, 0],
      ['q', 0, 1],
    ]);
    const { table } = await ledger.read();
    const lost = await searchInvocations(ledger.sql, table, {
      account: 'a',
      clock: 'occurred',
      order: 'newest',
      limit: 1,
    });
    expect(lost.items[0]).toMatchObject({ state: 'lost', outcome: 'lost' });
    const found = await searchInvocations(ledger.sql, table, {
      account: 'a',
      outcome: 'lost',
      clock: 'recorded',
      order: 'newest',
      limit: 5,
    });
    expect(found.items.map(({ invocationId }) => invocationId)).toEqual(['i']);
  });

  it('says of host calls of a lost attempt that nobody knows what became of them, but of those that were answered', async () => {
    const calls = [
      { callId: 'c1', member: 'fetch', answer: 1 },
      { callId: 'c2', member: 'fetch' },
    ];
    await ledger.write({ id: 'i', open: true, handlers: [{ pluginId: 'p', hostCalls: calls }] });
    await ledger.read();
    await append('invocation/i', { invocationId: 'i', type: 'invocation.lost', data: { metered: 1 } });
    const { table } = await ledger.read();
    const rows = await ledger.sql.query(`select call_id, state from ${table('host_call')} order by call_id`);
    expect(rows).toEqual([
      { call_id: 'c1', state: 'answered' },
      { call_id: 'c2', state: 'unknown' },
    ]);
  });

  it('is summed by what is asked for, page by page', async () => {
    await ledger.write(
      ...['a', 'b', 'c', 'd'].map((pluginId) => ({
        id: `i-${pluginId}`,
        hook: pluginId < 'c' ? 'h1' : 'h2',
        handlers: [{ pluginId }],
      })),
    );
    const day = new Date().toISOString().slice(0, 10);
    const first = await usageOf({ groupBy: ['hook', 'pluginId'], limit: 3 });
    expect(first.map(({ group }) => group)).toEqual([
      { hook: 'h1', pluginId: 'a' },
      { hook: 'h1', pluginId: 'b' },
      { hook: 'h2', pluginId: 'c' },
    ]);
    const rest = await usageOf({ groupBy: ['hook', 'pluginId'], limit: 3, after: ['h2', 'c'] });
    expect(rest.map(({ group }) => group)).toEqual([{ hook: 'h2', pluginId: 'd' }]);
    expect((await usageOf({ groupBy: ['day'] })).map(({ group, runs }) => [group.day, runs])).toEqual([[day, 4]]);
    expect(await usageOf({ groupBy: ['pluginId'], hook: 'h1', pluginId: 'a' })).toHaveLength(1);
    expect(await usageOf({ groupBy: ['pluginId'], toDay: day })).toEqual([]);
    expect(await usageOf({ groupBy: ['pluginId'], fromDay: day })).toHaveLength(4);
  });
});

describe('the health of a plugin', () => {
  it('is read off its latest runs', async () => {
    await ledger.write(
      { id: 'i1', handlers: [{ pluginId: 'p', durationUs: 1000 }] },
      { id: 'i2', handlers: [{ pluginId: 'p', durationUs: 3000, outcome: 'skipped', cause: 'threw' }] },
      {
        id: 'i3',
        outcome: 'cancelled',
        handlers: [
          { pluginId: 'q', outcome: 'cancelled' },
          { pluginId: 'p', outcome: 'not_run' },
        ],
      },
    );
    const { table } = await ledger.read();
    expect(await pluginHealth(ledger.sql, table, 'a', 'p')).toMatchObject({
      runs: 2,
      outcomes: { passed: 1, skipped: 1 },
      skips: { threw: 1 },
      p50Ms: 2,
      p95Ms: 2.9,
    });
    expect(await pluginHealth(ledger.sql, table, 'a', 'nobody')).toEqual({
      runs: 0,
      outcomes: {},
      skips: {},
      p50Ms: null,
      p95Ms: null,
      lastRunAt: null,
    });
  });
});

describe('names that a column cannot keep', () => {
  it('are found by the same name, and stop nothing', async () => {
    const long = 'x'.repeat(5000);
    await ledger.write({
      id: 'i1',
      target: long,
      handlers: [{ pluginId: 'p', outcome: 'cancelled', reasonCode: 'a\ud800b' }],
      outcome: 'cancelled',
    });
    const { table } = await ledger.read();
    const find = (over: object) =>
      searchInvocations(ledger.sql, table, { account: 'a', clock: 'occurred', order: 'newest', limit: 5, ...over });
    expect((await find({ target: [long] })).items).toHaveLength(1);
    expect((await find({ target: [`${long}y`] })).items).toHaveLength(0);
    expect((await find({ reasonCode: 'a\ud800b' })).items).toHaveLength(1);
  });
});
