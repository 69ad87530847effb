import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { StoredEvent, StreamWrite } from '#event-store';
import { asData, invocationStream, type NewEvent, type Sealed } from '#record';
import { createLedgerDatabase } from '../../../test/support/test-postgres.js';
import { compareTables, type ComparedSide } from './compare-tables.js';
import { findCronRuns, type CronQuery, type CronRunItem } from './cron-runs.js';
import { findSessionClears, type ClearQuery, type SessionClearItem } from './session-clears.js';
import { handleEvents, openReadModels, rebuildReadModel } from './read-models.js';
import { record } from './record.js';
import { openTestLedger, type TestLedger } from './test-ledger.js';
import { invocationEvents } from './test-record.js';
import { sessionTimeline } from './turn-queries.js';

let ledger: TestLedger;
let account = 0;
beforeAll(async () => {
  ledger = openTestLedger(await createLedgerDatabase());
}, 60_000);
afterAll(() => ledger.close());

const freshAccount = (): string => `account ${String((account += 1))}`;

const append = async (of: string, ...writes: readonly StreamWrite[]): Promise<void> => {
  const result = await ledger.store.append({ account: of, writes });
  if (result.kind !== 'appended') throw new Error(result.kind);
};

const sealed = (b: string): Sealed => ({ $sealed: { v: 1, k: 'k', b } });

const write = (stream: string, ...events: readonly NewEvent[]): StreamWrite => ({
  stream,
  expectedVersion: 'any',
  events,
});

type Skipped = 'skipped';

/** An invocation that the platform fired; `how` it ended. */
const hook = async (
  name: string,
  id: string,
  firedFor: string,
  how: 'closed' | 'open' | 'lost' | Skipped = 'closed',
  fields: { readonly sessionId?: string; readonly attempt?: number } = {},
): Promise<StreamWrite> => {
  const told = await invocationEvents(ledger.sealing, {
    id,
    hook: name,
    outcome: 'observed',
    handlers: [{ pluginId: 'p', outcome: how === 'skipped' ? 'skipped' : 'observed' }],
    ...fields,
  });
  const events = told.events.map((event) =>
    event.type === 'invocation.opened' ? { ...event, data: { ...event.data, firedFor } } : event,
  );
  const whole = how === 'closed' || how === 'skipped' ? events : events.slice(0, 1);
  const lost = whole.map((event): NewEvent => ({ ...event, type: 'invocation.lost', data: { metered: 0 } }));
  return write(invocationStream(id), ...whole, ...(how === 'lost' ? lost : []));
};

const clears = async (of: string, more: Partial<ClearQuery> = {}): Promise<readonly SessionClearItem[]> => {
  const { table } = await ledger.read(of);
  const found = await findSessionClears(ledger.sql, table, { account: of, order: 'oldest', limit: 50, ...more });
  return found.items.filter((item) => item.source === 'clear');
};

const runs = async (of: string, more: Partial<CronQuery> = {}): Promise<readonly CronRunItem[]> => {
  const { table } = await ledger.read(of);
  const found = await findCronRuns(ledger.sql, table, { account: of, order: 'oldest', limit: 50, ...more });
  return found.items.filter((item) => item.source === 'cron');
};

const clearStarted = (clearId: string, sessionId: string): NewEvent => ({
  type: 'session.clear_started',
  sessionId,
  agentId: '7',
  data: asData({ clearId, trailingText: sealed('dGV4dA=='), messageCount: 12, subagentCount: 1, peerThreadCount: 0 }),
});

const cleared = (clearId: string, sessionId: string): NewEvent => ({
  type: 'session.cleared',
  sessionId,
  agentId: '7',
  data: { clearId, deletedMessageCount: 11, deletedSubagentCount: 1, deletedPeerThreadCount: 0 },
});

describe('the view of clears', () => {
  it('shows what went, the trailing text under its seal, and every run of the hooks', async () => {
    const of = freshAccount();
    const stream = 'session/s/clear/1';
    await append(of, write(stream, clearStarted('c', 's')));
    await append(of, await hook('sessionClearing', `${of} 1`, stream, 'lost', { sessionId: 's' }));
    await append(of, await hook('sessionClearing', `${of} 2`, stream, 'closed', { sessionId: 's', attempt: 2 }));
    await append(of, write(stream, cleared('c', 's')));
    await append(of, await hook('sessionClearCompleted', `${of} 3`, stream, 'skipped', { sessionId: 's' }));
    const [clear] = await clears(of);
    expect(clear).toMatchObject({
      sessionId: 's',
      clearId: 'c',
      agentId: '7',
      state: 'cleared',
      trailingText: sealed('dGV4dA=='),
      messageCount: 12,
      deletedMessageCount: 11,
      clearing: 'delivered',
      completed: 'failed',
      hooks: [
        { invocationId: `${of} 1`, state: 'lost' },
        { invocationId: `${of} 2`, state: 'closed', attempt: 2 },
        { invocationId: `${of} 3`, handlers: [{ outcome: 'skipped' }] },
      ],
      positions: { started: '0' },
    });
  });

  it('shows a clear that was never completed as open, and a hook that was lost or never fired as that', async () => {
    const of = freshAccount();
    await append(of, write('session/s/clear/1', clearStarted('open', 's')));
    await append(
      of,
      write('session/s/clear/2', clearStarted('lost', 's')),
      write('session/s/clear/3', cleared('unsaid', 's')),
    );
    await append(of, write('session/s/clear/2', cleared('lost', 's')));
    await append(of, await hook('sessionClearCompleted', `${of} 1`, 'session/s/clear/2', 'lost', { sessionId: 's' }));
    await append(of, write('session/s/clear/4', cleared('running', 's')));
    await append(of, await hook('sessionClearCompleted', `${of} 2`, 'session/s/clear/4', 'open', { sessionId: 's' }));
    const words = (await clears(of)).map(({ clearId, state, completed }) => [clearId, state, completed]);
    expect(words).toEqual([
      ['open', 'open', 'none'],
      ['lost', 'cleared', 'lost'],
      ['unsaid', 'cleared', 'none'],
      ['running', 'cleared', 'pending'],
    ]);
    const named = async (more: Partial<ClearQuery>): Promise<readonly string[]> =>
      (await clears(of, more)).map(({ clearId }) => clearId);
    expect(await named({ state: 'open' })).toEqual(['open']);
    expect(await named({ completed: 'lost' })).toEqual(['lost']);
    expect(await named({ state: 'cleared', completed: 'none' })).toEqual(['unsaid']);
    expect(await named({ sessionId: 'other' })).toEqual([]);
    expect(await named({ agentId: '7', order: 'newest', limit: 2 })).toEqual(['running', 'unsaid']);
  });
});

const slot = (n: number, jobId = 'j') => ({
  runId: `run-${jobId}-${String(n)}`,
  jobId,
  slotAt: `2026-11-30T1${String(n)}:00:00.000Z`,
});
const mission = { kind: 'cron_job', name: sealed('bmFtZQ=='), prompt: sealed('cHJvbXB0') };

/** What is written of a run from its start to its end, stream by stream. */
const whole = (n: number, until: 'started' | 'closed' | 'notified' | 'lost', told = 'told'): readonly StreamWrite[] => {
  const own = slot(n);
  const stream = `cron-run/${own.runId}`;
  const agentId = '7';
  const lease = (by: string, leaseUntil: string): NewEvent => ({
    type: 'cron.run_leased',
    agentId,
    data: asData({ ...own, leaseUntil, leaseSeconds: 3600, by, firedBy: 'f' }),
  });
  const start = [
    write('cron/j', {
      type: 'cron.run_started',
      agentId,
      data: asData({ ...own, ...mission, finalPrompt: sealed('ZmluYWw='), firedBy: 'f' }),
    }),
    write(stream, lease('start', '2026-11-30T20:00:00.000Z')),
    write(stream, { ...lease('session', '2026-11-30T21:00:00.000Z'), sessionId: 'mission' }),
  ];
  if (until === 'started') return start;
  const lost: NewEvent = {
    type: 'cron.run_lost',
    agentId,
    sessionId: 'mission',
    data: asData({ ...own, leaseUntil: '2026-11-30T21:00:00.000Z' }),
  };
  if (until === 'lost') return [...start, write(stream, lost)];
  const closed: NewEvent = {
    type: 'cron.run_closed',
    agentId,
    sessionId: 'mission',
    data: asData({ ...own, status: 'Succeeded', firedBy: told }),
  };
  const notified: NewEvent = {
    type: 'cron.run_notified',
    agentId,
    sessionId: 'mission',
    data: asData({ ...own, firedBy: told, handlers: 2, undecided: n === 9 ? 1 : 0 }),
  };
  return [...start, write(stream, closed), ...(until === 'notified' ? [write(stream, notified)] : [])];
};

const overlap = (n: number): StreamWrite =>
  write(`cron-run/${slot(n).runId}`, {
    type: 'cron.slot_overlapped',
    agentId: '7',
    data: asData({ ...slot(n), ...mission, openRun: 'run-j-1' }),
  });

const cancel = (n: number): StreamWrite =>
  write(`cron-run/${slot(n).runId}`, {
    type: 'cron.run_cancelled',
    agentId: '7',
    pluginId: 'window',
    data: asData({ ...slot(n), ...mission, reason: sealed('cmVhc29u'), firedBy: 'f' }),
  });

const miss = (n: number): StreamWrite =>
  write(`cron-run/${slot(n).runId}`, {
    type: 'cron.slot_missed',
    agentId: '8',
    data: asData({ ...slot(n), schedule: '0 * * * *', timeZone: 'UTC' }),
  });

describe('the cron audit', () => {
  it('shows every slot and what became of it', async () => {
    const of = freshAccount();
    for (const one of whole(1, 'notified')) await append(of, one);
    await append(of, overlap(2));
    await append(of, cancel(3));
    await append(of, miss(4));
    for (const one of [miss(5), ...whole(5, 'started')]) await append(of, one);
    for (const one of whole(6, 'lost')) await append(of, one);
    const found = await runs(of);
    expect(found.map(({ decision, state, notification }) => [decision, state, notification.state])).toEqual([
      ['run', 'closed', 'delivered'],
      ['overlapped', 'overlapped', 'none'],
      ['cancelled', 'cancelled', 'none'],
      ['missed', 'missed', 'none'],
      ['run', 'open', 'none'],
      ['run', 'lost', 'none'],
    ]);
    expect(found[0]).toMatchObject({
      runId: 'run-j-1',
      jobId: 'j',
      kind: 'cron_job',
      prompt: sealed('cHJvbXB0'),
      finalPrompt: sealed('ZmluYWw='),
      agentId: '7',
      sessionId: 'mission',
      status: 'Succeeded',
      cancellation: null,
      missedAt: null,
    });
    expect(found[1]).toMatchObject({ openRun: 'run-j-1', sessionId: null });
    expect(found[2]).toMatchObject({ cancellation: { pluginId: 'window', reason: sealed('cmVhc29u'), code: null } });
    expect(found[3]).toMatchObject({ agentId: '8', decidedAt: null, prompt: null });
    expect(found[4]).toMatchObject({ agentId: '7', leaseUntil: '2026-11-30T21:00:00.000Z' });
    expect(found[4]?.missedAt).not.toBeNull();
  });

  it('tells whether cronJobCompleted was delivered, failed, is running, or was lost in a crash (MW-96)', async () => {
    const of = freshAccount();
    for (const one of whole(1, 'closed', `${of} lost`)) await append(of, one);
    await append(
      of,
      await hook('cronJobCompleted', `${of} lost`, 'cron-run/run-j-1', 'lost', { sessionId: 'mission' }),
    );
    for (const one of whole(2, 'closed', `${of} runs`)) await append(of, one);
    await append(
      of,
      await hook('cronJobCompleted', `${of} runs`, 'cron-run/run-j-2', 'open', { sessionId: 'mission' }),
    );
    for (const one of [...whole(3, 'notified'), ...whole(9, 'notified')]) await append(of, one);
    const words = (await runs(of)).map(({ notification }) => notification.state);
    expect(words).toEqual(['lost', 'pending', 'delivered', 'failed']);
    for (const [n, word] of (['lost', 'pending', 'delivered', 'failed'] as const).entries()) {
      expect((await runs(of, { notification: word })).map(({ slotAt }) => slotAt)).toEqual([
        slot([1, 2, 3, 9][n] ?? 0).slotAt,
      ]);
    }
    expect((await runs(of))[0]?.hooks).toMatchObject([{ invocationId: `${of} lost`, state: 'lost' }]);
  });

  it('is narrowed by every filter, and paged by when slots were due', async () => {
    const of = freshAccount();
    for (const one of [...whole(1, 'notified'), overlap(2), cancel(3), miss(4)]) await append(of, one);
    const due = async (more: Partial<CronQuery>): Promise<readonly string[]> =>
      (await runs(of, more)).map(({ slotAt }) => slotAt.slice(11, 13));
    expect(await due({ jobId: 'j' })).toEqual(['11', '12', '13', '14']);
    expect(await due({ jobId: 'other' })).toEqual([]);
    expect(await due({ agentId: '8' })).toEqual(['14']);
    expect(await due({ sessionId: 'mission' })).toEqual(['11']);
    expect(await due({ decision: 'overlapped' })).toEqual(['12']);
    expect(await due({ state: 'cancelled' })).toEqual(['13']);
    expect(await due({ state: 'closed', status: 'Succeeded' })).toEqual(['11']);
    expect(await due({ status: 'Failed' })).toEqual([]);
    expect(await due({ pluginId: 'window' })).toEqual(['13']);
    expect(await due({ kind: 'heartbeat' })).toEqual([]);
    expect(await due({ from: new Date('2026-11-30T12:00:00Z'), to: new Date('2026-11-30T14:00:00Z') })).toEqual([
      '12',
      '13',
    ]);
    const { table } = await ledger.read(of);
    const pages: string[] = [];
    let after: CronQuery['after'] | null = null;
    do {
      const asked: CronQuery = { account: of, order: 'newest', limit: 1, ...(after === null ? {} : { after }) };
      const page = await findCronRuns(ledger.sql, table, asked);
      pages.push(...page.items.map(({ slotAt }) => slotAt.slice(11, 13)));
      after = page.next;
    } while (after !== null);
    expect(pages).toEqual(['14', '13', '12', '11']);
  });

  it('holds the same rows whatever the order in which the streams of a run come', async () => {
    const dump = async (of: string): Promise<readonly object[]> =>
      (await runs(of)).map(({ decidedAt: _, missedAt, closedAt, positions: __, notification, ...rest }) => ({
        ...rest,
        missed: missedAt !== null,
        closed: closedAt !== null,
        told: notification.state,
      }));
    const one = freshAccount();
    const other = freshAccount();
    const writes = [miss(1), ...whole(1, 'notified')];
    for (const each of writes) await append(one, each);
    // What a partition holds comes in its order; the job's stream stands in another.
    for (const each of writes.filter(({ stream }) => stream !== 'cron/j')) await append(other, each);
    await ledger.read(other);
    for (const each of writes.filter(({ stream }) => stream === 'cron/j')) await append(other, each);
    expect(await dump(other)).toEqual(await dump(one));
  });
});

describe('the timeline of a session', () => {
  it('shows its clears and the run that it is the mission of, and no heartbeat', async () => {
    const of = freshAccount();
    const [start, lease, named] = whole(1, 'started');
    for (const one of [start, lease, named]) if (one !== undefined) await append(of, one);
    const beats = named?.events.map((event): NewEvent => ({ ...event, data: { ...event.data, by: 'heartbeat' } }));
    await append(of, write(named?.stream ?? '', ...(beats ?? [])));
    await append(of, write('session/mission/clear/1', clearStarted('c', 'mission')));
    await append(of, write('session/mission/clear/1', cleared('c', 'mission')));
    const { table } = await ledger.read(of, record);
    const asked = { account: of, sessionId: 'mission', order: 'oldest', limit: 10 } as const;
    const { items } = await sessionTimeline(ledger.sql, table, asked);
    expect(items).toMatchObject([
      { kind: 'cron', type: 'cron.run_leased', run: { runId: 'run-j-1', jobId: 'j', state: 'open', status: null } },
      { kind: 'clear', type: 'session.clear_started', clear: { clearId: 'c', state: 'cleared' } },
      { kind: 'clear', type: 'session.cleared', clear: { clearId: 'c', state: 'cleared' } },
    ]);
    expect(items).toHaveLength(3);
  });
});

it('makes the same rows of events straight from their append and of those that were read back', async () => {
  const own = openTestLedger(await createLedgerDatabase());
  try {
    const fresh: StoredEvent[] = [];
    own.store.onAppended((events) => fresh.push(...events));
    const writes = [
      write('session/s/clear/1', clearStarted('c', 's')),
      ...whole(1, 'notified'),
      write('cron/k', {
        type: 'cron.run_cancelled',
        pluginId: 'p',
        data: asData({ ...slot(2, 'k'), ...mission, reason: sealed('bm8='), firedBy: 'f' }),
      }),
    ];
    for (const one of writes) await own.store.append({ account: 'a', writes: [one] });
    await own.write({
      id: 'i',
      outcome: 'cancelled',
      handlers: [{ pluginId: 'p', outcome: 'cancelled', reason: 'no' }],
    });
    const [live] = await openReadModels(own.sql, [record]);
    if (live === undefined) throw new Error('no generation');
    const built = await rebuildReadModel(own.sql, record);
    const differing: unknown[] = [];
    await own.sql.transaction(async (sql) => {
      await handleEvents(record, live, fresh, sql, own.store);
      await handleEvents(record, built, await own.store.readAll(-1n, 100), sql, own.store);
      const sides = [live, built].map((generation) => ({ sql, generation })) as [ComparedSide, ComparedSide];
      for await (const difference of compareTables(record, ...sides)) differing.push(difference);
    });
    expect([fresh.length > 8, differing]).toEqual([true, []]);
  } finally {
    await own.close();
  }
}, 60_000);
