import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startServer, until, type RunningServer } from './support/running-server.js';

let server: RunningServer;
beforeAll(async () => {
  server = await startServer();
}, 120_000);
afterAll(() => server.close());

interface Item {
  readonly source: string;
  readonly kind: string;
  readonly type: string;
  readonly state: string;
  readonly reason: string;
  readonly clearId: string | null;
  readonly jobId: string;
  readonly runId: string | null;
  readonly status: string | null;
  readonly lastAction: string;
  readonly snapshot: unknown;
  readonly changes: number;
  readonly reported: unknown;
  readonly invocation: { readonly hook: string };
  readonly joined: readonly { readonly hook: string; readonly invocationId: string }[];
  readonly host: {
    readonly invocationId: string;
    readonly facts: object;
    readonly content: unknown;
    readonly joined: readonly { readonly hook: string; readonly invocationId: string }[];
  };
}

let accounts = 0;
const newAccount = async (): Promise<string> => {
  const id = `views-${String((accounts += 1))}`;
  expect((await server.call('POST', '/v1/accounts', { body: { id, name: id } })).status).toBe(201);
  return `/v1/accounts/${id}`;
};

interface Fired {
  readonly invocationId: string;
  readonly positions: { readonly last: string };
}

const fire = async (base: string, hook: string, event: object, context: object = {}): Promise<Fired> => {
  const body = { event, context, profile: '2026.9' };
  const answer = await server.call<Fired & { text: string }>('POST', `${base}/hooks/openclaw/${hook}`, { body });
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
  return answer.body;
};

interface Page {
  readonly items: readonly Item[];
  readonly nextCursor: string | null;
  readonly completeUpTo: string | null;
}

/** A page once the read model has seen what was fired last. */
const read = async (path: string, last: Fired, key?: string): Promise<Page> => {
  let page: Page = { items: [], nextCursor: null, completeUpTo: null };
  await until('the read model has come so far', async () => {
    const answer = await server.call<Page>('GET', path, key === undefined ? {} : { key });
    expect([answer.status, answer.text]).toEqual([200, answer.text]);
    page = answer.body;
    return page.completeUpTo !== null && BigInt(page.completeUpTo) >= BigInt(last.positions.last);
  });
  return page;
};

describe('an end of a session that a host reports', () => {
  it.each(['reset', 'new', 'deleted'])('as %s stands among the clears, marked as no clear of ours', async (reason) => {
    const base = await newAccount();
    await fire(base, 'session_start', { sessionId: 's-1', sessionKey: 'k' }, { sessionId: 's-1' });
    const event = { sessionId: 's-1', sessionKey: 'k', messageCount: 0, reason, nextSessionId: 's-2' };
    const end = await fire(base, 'session_end', event, { sessionId: 's-1', sessionKey: 'k' });
    const { items } = await read(`${base}/session-clears`, end);
    expect(items).toMatchObject([
      { source: 'openclaw', state: 'reported', clearId: null, reason, reported: { invocationId: end.invocationId } },
    ]);
    expect((await read(`${base}/session-clears?source=clear`, end)).items).toEqual([]);
    expect((await read(`${base}/session-clears?state=open`, end)).items).toEqual([]);
    const timeline = (await read(`${base}/sessions/s-1/timeline?order=oldest`, end)).items;
    expect(timeline.filter(({ kind }) => kind === 'host-session')).toMatchObject([
      { type: 'openclaw/session_start' },
      { type: 'openclaw/session_end', host: { facts: { reason, nextSessionId: 's-2' } } },
    ]);
  });

  it.each(['idle', 'compaction', 'shutdown'])(
    'as %s stands in its timeline and not among the clears',
    async (reason) => {
      const base = await newAccount();
      const end = await fire(base, 'session_end', { sessionId: 's-1', messageCount: 0, reason }, { sessionId: 's-1' });
      expect((await read(`${base}/session-clears`, end)).items).toEqual([]);
      const { items } = await read(`${base}/sessions/s-1/timeline`, end);
      expect(items.find(({ kind }) => kind === 'host-session')).toMatchObject({ host: { facts: { reason } } });
    },
  );

  it('stands between the clears of the durable protocol, in their order and page by page', async () => {
    const base = await newAccount();
    const clear = { agentId: 'a', messageCount: 1, subagentCount: 0, peerThreadCount: 0 };
    const end = (): Promise<Fired> =>
      fire(base, 'session_end', { sessionId: 's', messageCount: 0, reason: 'reset' }, { sessionId: 's' });
    await end();
    const started = await server.call('POST', `${base}/sessions/s/clears`, { body: { clearId: 'c-1', ...clear } });
    expect(started.status).toBe(200);
    const last = await end();
    await read(`${base}/session-clears`, last);
    const sources: string[] = [];
    for (let cursor: string | null = ''; cursor !== null;) {
      const page: Page = await read(
        `${base}/session-clears?order=oldest&limit=1${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
        last,
      );
      sources.push(...page.items.map(({ source }) => source));
      cursor = page.nextCursor;
    }
    expect(sources).toEqual(['openclaw', 'clear', 'openclaw']);
  });
});

describe('a cron job of a host', () => {
  it('has its runs joined by job and run, and keeps the last snapshot when it is removed', async () => {
    const base = await newAccount();
    const job = { id: 'j', name: 'Reports', payload: { message: 'write the report' } };
    const tell = (action: string, more: object = {}): Promise<Fired> =>
      fire(base, 'cron_changed', { action, jobId: 'j', ...more });
    await tell('added', { job, nextRunAtMs: Date.UTC(2026, 0, 1) });
    await tell('scheduled', { nextRunAtMs: Date.UTC(2026, 0, 2) });
    await tell('started', { runId: 'r-1', runAtMs: Date.UTC(2026, 0, 2) });
    await tell('started', { runId: 'r-2', runAtMs: Date.UTC(2026, 0, 3) });
    await tell('finished', {
      runId: 'r-1',
      status: 'ok',
      durationMs: 12,
      deliveryStatus: 'delivered',
      summary: 'done',
    });
    const last = await tell('removed', { job });
    const { items } = await read(`${base}/cron-runs?order=oldest`, last);
    expect(items).toMatchObject([
      {
        source: 'openclaw',
        jobId: 'j',
        runId: 'r-1',
        slotAt: '2026-01-02T00:00:00.000Z',
        state: 'closed',
        status: 'ok',
        durationMs: 12,
        delivery: 'delivered',
        reported: [{ facts: { action: 'started' } }, { facts: { action: 'finished' }, content: { summary: 'done' } }],
      },
      { source: 'openclaw', runId: 'r-2', state: 'open', status: null },
    ]);
    expect((await read(`${base}/cron-runs?state=open`, last)).items.map(({ runId }) => runId)).toEqual(['r-2']);
    expect((await read(`${base}/cron-runs?status=ok`, last)).items.map(({ runId }) => runId)).toEqual(['r-1']);
    expect((await read(`${base}/cron-runs?source=cron`, last)).items).toEqual([]);
    const jobs = (await read(`${base}/cron-jobs`, last)).items;
    expect(jobs).toMatchObject([
      { source: 'openclaw', jobId: 'j', state: 'removed', lastAction: 'removed', changes: 6, snapshot: { job } },
    ]);
    const made = await server.call<{ secret: string }>('POST', `${base}/keys`, {
      body: { role: 'admin', name: 'without content' },
    });
    const hidden = (await read(`${base}/cron-jobs`, last, made.body.secret)).items;
    expect(hidden[0]?.snapshot).toMatchObject({ hidden: true });
    expect(JSON.stringify(hidden)).not.toContain('report"');
  });

  it('comes through hostile values: times beyond the calendar, texts that are no ids, names of prototypes', async () => {
    const base = await newAccount();
    const last = await fire(base, 'cron_changed', {
      action: 'finished',
      jobId: '__proto__',
      runAtMs: 1e300,
      status: 'x'.repeat(5000),
      summary: 'a\u0000b',
      constructor: 'x',
    });
    const { items } = await read(`${base}/cron-runs`, last);
    expect(items).toMatchObject([{ jobId: '__proto__', runId: null, state: 'closed', status: null }]);
    expect((await read(`${base}/cron-jobs?jobId=__proto__`, last)).items).toHaveLength(1);
  });
});

describe('a subagent', () => {
  it('has its end joined to its beginning in the timelines of both sessions and in the lineage', async () => {
    const base = await newAccount();
    const context = { requesterSessionKey: 'parent', childSessionKey: 'child', runId: 'r' };
    const event = { childSessionKey: 'child', agentId: 'helper', mode: 'run', threadRequested: false, runId: 'r' };
    const spawned = await fire(base, 'subagent_spawned', event, context);
    const ended = await fire(
      base,
      'subagent_ended',
      { targetSessionKey: 'child', targetKind: 'subagent', reason: 'subagent-complete', runId: 'r', outcome: 'ok' },
      context,
    );
    // Another run of the same session.
    const other = await fire(base, 'subagent_spawned', { ...event, runId: 'r-2' }, { ...context, runId: 'r-2' });
    for (const session of ['parent', 'child']) {
      const { items } = await read(`${base}/sessions/${session}/timeline?order=oldest`, other);
      const told = items.filter(({ kind }) => kind === 'subagent');
      expect(told.map(({ host }) => [host.invocationId, host.joined.map((one) => one.invocationId)])).toEqual([
        [spawned.invocationId, [ended.invocationId]],
        [ended.invocationId, [spawned.invocationId]],
        [other.invocationId, []],
      ]);
    }
    const { items } = await read(`${base}/lineage/${spawned.invocationId}`, other);
    expect(items[0]?.joined).toMatchObject([{ hook: 'subagent_ended', invocationId: ended.invocationId }]);
  });
});

describe('what a gateway reports', () => {
  it('is on record with its facts', async () => {
    const base = await newAccount();
    await fire(base, 'gateway_start', { port: 18789 });
    await fire(base, 'cron_reconciled', { reason: 'startup', enabled: true });
    interface Events {
      readonly items: readonly { readonly data: { readonly observed: object } }[];
    }
    const { body } = await server.call<Events>('GET', `${base}/events?type=invocation.opened`);
    const observed = body.items.map(({ data }) => data.observed);
    expect(observed).toMatchObject([
      { kind: 'gateway', facts: { port: 18789 } },
      { kind: 'gateway', facts: { reason: 'startup', enabled: true } },
    ]);
  });
});
