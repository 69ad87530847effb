/* eslint-disable @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-member-access,
   @typescript-eslint/no-unsafe-call, @typescript-eslint/no-unsafe-return -- an answer is whatever the server said;
   expectations say what it is */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { installPlugin, lifecycleClients, type LifecycleClients } from './support/lifecycle-clients.js';
import { startServer, until, type RunningServer } from './support/running-server.js';
import { createTestDatabase, type TestDatabase } from './support/test-postgres.js';

const ten = '2026-11-30T10:00:00.000Z';
const hour = (n: number): string => new Date(Date.parse(ten) + n * 3_600_000).toISOString();

const slot = (slotAt: string, more: object = {}): object => ({
  slotAt,
  agentId: '7',
  kind: 'cron_job',
  name: 'nightly report',
  prompt: 'Write the report.',
  ...more,
});

/** Rewrites what is to be quiet, vetoes at night, is busy with slow agents, at odds with bad ones. */
const source = `
  globalThis.middleware.cronJobFiring = async (c, tools) => {
    const end = Date.now() + (c.agentId === 'slow' ? 1500 : 0);
    while (Date.now() < end);
    if (c.prompt.includes('night')) return tools.cancel('maintenance window');
    return c.prompt.replace('Write', 'Quietly write');
  };
  globalThis.middleware.cronJobCompleted = async (c) => {
    if (c.agentId === 'bad') throw new Error('no');
    const end = Date.now() + (c.agentId === 'slow' ? 1500 : 0);
    while (Date.now() < end);
  };`;

let first: RunningServer;
let server: RunningServer;
let clients: LifecycleClients;

beforeAll(async () => {
  first = await startServer();
  server = first;
  clients = await lifecycleClients(server);
  await installPlugin(server, 'sentinel', source);
}, 120_000);
afterAll(async () => {
  await server.stop();
  await first.close();
});

const take = (jobId: string, body: object) => clients.post(`/cron-jobs/${encodeURIComponent(jobId)}/slots`, body);
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- an answer is whatever the server said
type Run = any;

const runs = async (query: string): Promise<readonly Run[]> => {
  const answer = await clients.read(`/cron-runs?order=oldest&${query}`);
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
  return answer.body.items;
};

describe('a cron run', () => {
  it('goes from its slot to being told of, and stands in the audit with all of it', async () => {
    const answer = await take('daily', slot(ten));
    expect([answer.status, answer.body]).toMatchObject([
      200,
      { decision: 'run', prompt: 'Quietly write the report.', cancellation: null, slotAt: ten },
    ]);
    const { runId } = answer.body;
    expect((await clients.post(`/cron-runs/${runId}/heartbeat`)).body).toMatchObject({
      state: 'open',
      sessionId: null,
    });
    const named = await clients.post(`/cron-runs/${runId}/session`, { sessionId: 'mission' });
    expect(named.body).toMatchObject({ state: 'open', sessionId: 'mission' });
    const done = await clients.post(`/cron-runs/${runId}/completion`, { status: 'Succeeded' });
    expect([done.status, done.body]).toMatchObject([200, { state: 'closed', status: 'Succeeded', notified: true }]);
    const [run] = await runs('jobId=daily');
    expect(run).toMatchObject({
      runId,
      slotAt: ten,
      decision: 'run',
      state: 'closed',
      kind: 'cron_job',
      name: 'nightly report',
      agentId: '7',
      sessionId: 'mission',
      prompt: 'Write the report.',
      finalPrompt: 'Quietly write the report.',
      status: 'Succeeded',
      notification: { state: 'delivered', handlers: 1, undecided: 0, invocationId: done.body.invocationId },
      hooks: [
        { hook: 'cronJobFiring', outcome: 'rewritten', operationId: runId },
        { hook: 'cronJobCompleted', operationId: runId, sessionId: 'mission' },
      ],
    });
    const timeline = await clients.read('/sessions/mission/timeline?order=oldest');
    const cron = timeline.body.items.filter(({ kind }: { kind: string }) => kind === 'cron');
    expect(cron).toMatchObject([
      { type: 'cron.run_leased', run: { runId, jobId: 'daily', state: 'closed', status: 'Succeeded' } },
      { type: 'cron.run_closed' },
      { type: 'cron.run_notified' },
    ]);
  });

  it('is cancelled by a plugin, and the audit says by which and why (MW-93)', async () => {
    const body = slot(ten, { prompt: 'Write at night.' });
    const answer = await take('nightly', body);
    expect(answer.body).toMatchObject({
      decision: 'cancelled',
      prompt: null,
      cancellation: { pluginId: 'sentinel', reason: 'maintenance window' },
    });
    expect((await take('nightly', body)).body).toEqual(answer.body);
    expect(await runs('jobId=nightly')).toMatchObject([
      {
        decision: 'cancelled',
        state: 'cancelled',
        prompt: 'Write at night.',
        finalPrompt: null,
        cancellation: { pluginId: 'sentinel', reason: 'maintenance window' },
        notification: { state: 'none' },
      },
    ]);
    expect(await runs('pluginId=sentinel')).toHaveLength(1);
    const done = await clients.post(`/cron-runs/${answer.body.runId}/completion`, { status: 'x', sessionId: 's' });
    expect(done.body).toMatchObject({ status: 409, code: 'run_not_open' });
    expect((await take('nightly', slot(hour(1)))).body).toMatchObject({ decision: 'run' });
  });

  it('keeps later slots of its job from running, and no hook fires for them (MW-94)', async () => {
    const running = await take('busy', slot(ten));
    const late = await take('busy', slot(hour(1)));
    expect(late.body).toMatchObject({ decision: 'overlapped', prompt: null, invocationId: null });
    await clients.post(`/cron-runs/${running.body.runId}/completion`, { status: 'Succeeded', sessionId: 's' });
    expect((await take('busy', slot(hour(1)))).body).toEqual(late.body);
    expect((await take('busy', slot(hour(2)))).body).toMatchObject({ decision: 'run' });
    const [, overlapped] = await runs('jobId=busy');
    expect(overlapped).toMatchObject({ decision: 'overlapped', openRun: running.body.runId, hooks: [] });
  });

  it('whose handler fails when it is told of is closed, and seen to have failed', async () => {
    const { body } = await take('failing', slot(ten, { agentId: 'bad' }));
    const done = await clients.post(`/cron-runs/${body.runId}/completion`, { status: 'Failed', sessionId: 's' });
    expect(done.body).toMatchObject({ notified: true });
    expect(await runs('notification=failed')).toMatchObject([{ jobId: 'failing', status: 'Failed', state: 'closed' }]);
  });

  it('of which nothing is heard until its lease ends is lost, and its job goes on', async () => {
    const { body } = await take('silent', slot(ten, { leaseSeconds: 1 }));
    await until('it is lost', async () => (await runs('jobId=silent'))[0].state === 'lost');
    const [run] = await runs('jobId=silent&state=lost');
    expect(run).toMatchObject({ runId: body.runId, decision: 'run', notification: { state: 'none' } });
    expect(run.lostAt >= run.leaseUntil).toBe(true);
    expect((await clients.post(`/cron-runs/${body.runId}/heartbeat`, {})).body).toMatchObject({ code: 'run_not_open' });
    expect((await clients.events('cron.run_lost')).length).toBe(1);
    expect((await take('silent', slot(hour(1)))).body).toMatchObject({ decision: 'run' });
  }, 60_000);

  it('answers a repeated request as the first, and hides what was written from keys that may not see it', async () => {
    const key = { 'idempotency-key': 'slot-1' };
    const path = '/cron-jobs/keyed/slots';
    const answers = [await clients.post(path, slot(ten), key), await clients.post(path, slot(ten), key)];
    expect(answers.map(({ headers }) => headers.get('idempotency-replayed'))).toEqual([null, 'true']);
    expect(answers[1]?.body).toEqual(answers[0]?.body);
    const completion = `/cron-runs/${answers[0]?.body.runId}/completion`;
    const body = { status: 'Succeeded', sessionId: 's' };
    const told = { 'idempotency-key': 'told-1' };
    const done = [await clients.post(completion, body, told), await clients.post(completion, body, told)];
    expect(done[1]?.body).toEqual(done[0]?.body);
    const blind = await clients.readBlind('/cron-runs?jobId=keyed');
    expect(blind.body.items[0].prompt).toEqual({ hidden: true, size: expect.any(Number) });
    expect(blind.text).not.toContain('report');
  });

  it('that does not fit is refused field by field', async () => {
    const misfit = await take('j', { slotAt: 'soon', agentId: 7, kind: '', name: 'n', leaseSeconds: 0 });
    expect(misfit.status).toBe(422);
    const pointers = (misfit.body.errors as { pointer: string }[]).map(({ pointer }) => pointer).sort();
    expect(pointers).toEqual(['/agentId', '/kind', '/leaseSeconds', '/prompt', '/slotAt']);
    const { body } = await take('sessionless', slot(ten));
    const done = await clients.post(`/cron-runs/${body.runId}/completion`, { status: 'Succeeded' });
    expect(done.body).toMatchObject({ status: 422, code: 'session_unknown' });
    expect((await clients.post('/cron-runs/none/heartbeat')).status).toBe(404);
    expect((await clients.read('/cron-runs?from=2026-12-01&to=2026-11-01')).status).toBe(400);
  });

  it('is found by a cursor that belongs to its question', async () => {
    for (let n = 0; n < 3; n += 1) await take('paged', slot(hour(n)));
    const page = await clients.read('/cron-runs?jobId=paged&limit=2');
    expect(page.body.items.map(({ slotAt }: { slotAt: string }) => slotAt)).toEqual([hour(2), hour(1)]);
    const next = await clients.read(`/cron-runs?jobId=paged&limit=2&cursor=${page.body.nextCursor}`);
    expect(next.body).toMatchObject({ items: [{ slotAt: hour(0) }], nextCursor: null });
    expect((await clients.read(`/cron-runs?limit=2&cursor=${page.body.nextCursor}`)).status).toBe(400);
  });
});

describe('a declared job', () => {
  const declare = (jobId: string, schedule: string | null, more: object = {}) =>
    clients.put(`/cron-jobs/${jobId}`, {
      name: 'n',
      kind: 'cron_job',
      agentId: '7',
      schedule,
      timeZone: 'UTC',
      ...more,
    });

  it('has the slots that never come put down as missed, once, and not those from before it was declared', async () => {
    const declared = await declare('every-second', '* * * * * *', { graceSeconds: 1 });
    expect([declared.status, declared.headers.get('etag')]).toEqual([200, `"${String(declared.body.version)}"`]);
    await until('slots are missed', async () => (await runs('jobId=every-second&state=missed')).length >= 2);
    await declare('every-second', null);
    const found = await runs('jobId=every-second&limit=500');
    for (const run of found) {
      expect(run).toMatchObject({ decision: 'missed', agentId: '7', prompt: null });
      expect(run.slotAt > declared.body.declaredAt).toBe(true);
    }
    expect(new Set(found.map(({ slotAt }) => slotAt)).size).toBe(found.length);
  }, 60_000);

  it('does not miss a slot that comes, and one that comes late after all still runs', async () => {
    await declare('late', '* * * * * *', { graceSeconds: 1 });
    await until('a slot is missed', async () => (await runs('jobId=late&state=missed')).length >= 1);
    await declare('late', null);
    const [missed] = await runs('jobId=late&state=missed');
    expect((await take('late', slot(String(missed.slotAt)))).body).toMatchObject({
      decision: 'run',
      runId: missed.runId,
    });
    const [came] = await runs(`jobId=late&runId=${String(missed.runId)}`);
    expect(came).toMatchObject({ decision: 'run', state: 'open', missedAt: missed.missedAt });
  }, 60_000);

  it('is declared anew only where something changes, and not over what others declared meanwhile', async () => {
    const one = await declare('kept', '0 7 * * *', { timeZone: 'Europe/Berlin' });
    const same = await declare('kept', '0 7 * * *', { timeZone: 'Europe/Berlin' });
    expect(same.body).toEqual(one.body);
    const path = '/v1/accounts/default/cron-jobs/kept';
    const body = { name: 'n', kind: 'cron_job', schedule: '0 8 * * *' };
    const stale = await server.call('PUT', path, { body, headers: { 'if-match': '"999"' } });
    expect(stale.status).toBe(412);
    const etag = one.headers.get('etag') ?? '';
    expect((await server.call('PUT', path, { body, headers: { 'if-match': etag } })).status).toBe(200);
  });

  it('whose schedule or time zone is none is refused', async () => {
    const none = await declare('none', 'often');
    expect(none.body).toMatchObject({ status: 422, code: 'bad_schedule', errors: [{ pointer: '/schedule' }] });
    const nowhere = await declare('none', '0 7 * * *', { timeZone: 'Mars/Olympus' });
    expect(nowhere.body).toMatchObject({ errors: [{ pointer: '/timeZone' }] });
  });
});

const begun = async (hook: string): Promise<number> =>
  (await clients.events('invocation.opened')).filter((event) => event.hook === hook).length;

describe('a server that is killed', () => {
  it('while cronJobFiring runs has started nothing: the slot fires again and runs once (MW-94)', async () => {
    const started = (await clients.events('cron.run_started')).length;
    const lost = take('interrupted', slot(ten, { agentId: 'slow' })).catch(() => null);
    await delay(700);
    await server.kill();
    expect(await lost).toBeNull();
    server = await startServer({ dataDir: first.dataDir });
    clients = clients.at(server);
    expect((await take('interrupted', slot(ten, { agentId: 'slow' }))).body).toMatchObject({ decision: 'run' });
    expect((await clients.events('cron.run_started')).length).toBe(started + 1);
  }, 120_000);

  it('while it tells of a run has told at most once: the run is closed, and the audit says that telling was lost (MW-96)', async () => {
    const { body } = await take('crash', slot(ten, { agentId: 'slow' }));
    const before = await begun('cronJobCompleted');
    const completion = `/cron-runs/${body.runId}/completion`;
    const report = { status: 'Succeeded', sessionId: 'crashed' };
    const lost = clients.post(completion, report).catch(() => null);
    await until('it is being told of', async () => (await begun('cronJobCompleted')) === before + 1);
    await server.kill();
    expect(await lost).toBeNull();
    server = await startServer({ dataDir: first.dataDir });
    clients = clients.at(server);
    const again = await clients.post(completion, report);
    expect([again.status, again.body]).toMatchObject([200, { state: 'closed', status: 'Succeeded', notified: false }]);
    expect(await begun('cronJobCompleted')).toBe(before + 1);
    await until('it is seen to be lost', async () => (await runs('jobId=crash'))[0].notification.state === 'lost');
    expect(await runs('notification=lost')).toMatchObject([
      {
        jobId: 'crash',
        state: 'closed',
        hooks: [{ hook: 'cronJobFiring' }, { hook: 'cronJobCompleted', state: 'lost' }],
      },
    ]);
    expect((await take('crash', slot(hour(1)))).body).toMatchObject({ decision: 'run' });
  }, 120_000);
});

describe('three replicas', () => {
  let database: TestDatabase;
  const replicas: RunningServer[] = [];
  beforeAll(async () => {
    database = await createTestDatabase();
    const env = { DATABASE_URL: database.url, HOOKLEDGER_MASTER_KEY: '11'.repeat(32) };
    for (let n = 0; n < 3; n += 1) replicas.push(await startServer({ env }));
  }, 180_000);
  afterAll(async () => {
    for (const replica of replicas) await replica.close();
    await database.drop();
  });

  it('start one run of a slot for fifty clients at once, and one run of a job whose slots come together', async () => {
    const [one] = replicas;
    if (one === undefined) throw new Error('no replica started');
    const own = await lifecycleClients(one);
    await installPlugin(one, 'sentinel', source);
    const fifty = Array.from({ length: 50 }, (_, n) => own.at(replicas[n % 3] ?? one));
    const same = await Promise.all(fifty.map((client) => client.post('/cron-jobs/same/slots', slot(ten))));
    expect(new Set(same.map(({ status, text }) => `${String(status)} ${text}`)).size).toBe(1);
    expect(same[0]?.body).toMatchObject({ decision: 'run' });
    const many = await Promise.all(fifty.map((client, n) => client.post('/cron-jobs/many/slots', slot(hour(n)))));
    const decided = many.map(({ body }) => body.decision).sort();
    expect(decided).toEqual([...Array.from({ length: 49 }, () => 'overlapped'), 'run']);
    expect(await own.events('cron.run_started')).toHaveLength(2);
    const fired = (await own.events('invocation.opened')).filter(({ hook }) => hook === 'cronJobFiring');
    expect(fired).toHaveLength(2);
  }, 120_000);

  it('put a lapsed run and a missed slot on record once, all three of them', async () => {
    const [one] = replicas;
    if (one === undefined) throw new Error('no replica started');
    const own = await lifecycleClients(one);
    for (let n = 0; n < 20; n += 1) {
      await own.post(`/cron-jobs/lapses-${String(n)}/slots`, slot(ten, { leaseSeconds: 1 }));
    }
    await own.put('/cron-jobs/expected', { name: 'n', kind: 'heartbeat', schedule: '* * * * * *', graceSeconds: 1 });
    await until('all are lost', async () => (await own.events('cron.run_lost')).length >= 20);
    await until('slots are missed', async () => (await own.events('cron.slot_missed')).length >= 3);
    await own.put('/cron-jobs/expected', { name: 'n', kind: 'heartbeat', schedule: null });
    const lost = await own.events('cron.run_lost');
    const missed = await own.events('cron.slot_missed');
    expect(lost).toHaveLength(20);
    expect(new Set(lost.map(({ data }) => data.runId)).size).toBe(20);
    expect(new Set(missed.map(({ data }) => data.runId)).size).toBe(missed.length);
  }, 120_000);
});
