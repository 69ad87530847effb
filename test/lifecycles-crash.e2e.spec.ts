import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  installPlugin,
  lifecycleClients,
  type LifecycleClients,
  type LifecycleEvent,
} from './support/lifecycle-clients.js';
import { startServer, type CallAnswer, type RunningServer } from './support/running-server.js';

/** Kills in a row while runtimes clear sessions and run schedules. */
const rounds = 4;

const source = `
  globalThis.middleware.sessionClearing = (c) => {};
  globalThis.middleware.sessionClearCompleted = (c) => {};
  globalThis.middleware.cronJobFiring = (c, tools) => c.prompt.includes('veto') ? tools.cancel('no') : c.prompt + '!';
  globalThis.middleware.cronJobCompleted = (c) => {};`;

let first: RunningServer;
let server: RunningServer;
let clients: LifecycleClients;
let running = true;

beforeAll(async () => {
  first = await startServer();
  server = first;
  clients = await lifecycleClients(server);
  await installPlugin(server, 'all', source);
}, 120_000);
afterAll(async () => {
  running = false;
  await server.stop();
  await first.close();
});

/** Repeats a call until it is answered, as a runtime does; whichever server there is then. */
const answered = async (path: string, body: object): Promise<CallAnswer> => {
  for (;;) {
    const answer = await clients.post(path, body).catch(() => null);
    if (answer !== null && answer.status < 500) return answer;
    await delay(100);
  }
};

interface Answered {
  readonly slots: Map<string, { readonly path: string; readonly body: object; readonly text: string }>;
  readonly completions: Map<string, string>;
  readonly clears: Map<string, string>;
}

const told: Answered = { slots: new Map(), completions: new Map(), clears: new Map() };

const count = { messageCount: 1, subagentCount: 0, peerThreadCount: 0 };
const gone = { deletedMessageCount: 1, deletedSubagentCount: 0, deletedPeerThreadCount: 0 };

/** Two runtimes share each job and each session, and report the same things. */
const runtime = async (number: number): Promise<void> => {
  const shared = String(Math.floor(number / 2));
  for (let n = 0; running; n += 1) {
    const slotAt = new Date(Date.UTC(2026, 10, 30) + n * 60_000).toISOString();
    const prompt = n % 5 === 0 ? 'veto' : 'report';
    const path = `/cron-jobs/job-${shared}/slots`;
    const body = { slotAt, agentId: '7', kind: 'cron_job', name: 'n', prompt };
    const slot = await answered(path, body);
    const run = slot.body as { readonly runId: string; readonly decision: string };
    told.slots.set(`${shared} ${slotAt}`, { path, body, text: slot.text });
    if (run.decision === 'run') {
      const done = await answered(`/cron-runs/${run.runId}/completion`, { status: 'Succeeded', sessionId: 'mission' });
      told.completions.set(run.runId, done.text);
    }
    const clearId = `c-${String(n)}`;
    await answered(`/sessions/session-${shared}/clears`, { clearId, agentId: '7', ...count });
    const cleared = await answered(`/sessions/session-${shared}/clears/${clearId}/completion`, gone);
    told.clears.set(`session-${shared} ${clearId}`, cleared.text);
  }
};

const of = (events: readonly LifecycleEvent[], type: string): readonly LifecycleEvent[] =>
  events.filter((event) => event.type === type);

const key = (values: readonly unknown[]): string => values.map(String).join(' ');

const repeated = (keys: readonly string[]): readonly string[] => keys.filter((one, at) => keys.indexOf(one) !== at);

describe('servers that are killed again and again', () => {
  it('clear each session once, run one run of a job at a time, tell of each at most once, and keep every answer', async () => {
    const runtimes = Array.from({ length: 6 }, (_, number) => runtime(number));
    for (let round = 0; round < rounds; round += 1) {
      await delay(1_500 + 700 * round);
      await server.kill();
      server = await startServer({ dataDir: first.dataDir });
      clients = clients.at(server);
    }
    await delay(1_000);
    running = false;
    await Promise.all(runtimes);
    expect(told.completions.size).toBeGreaterThan(0);
    expect(told.clears.size).toBeGreaterThan(0);

    const events = await clients.events('session.*', 'cron.*', 'invocation.opened');
    const clearKey = ({ sessionId, data }: LifecycleEvent): string => key([sessionId, data.clearId]);
    const cleared = of(events, 'session.cleared').map(clearKey);
    expect(repeated(cleared)).toEqual([]);
    expect([...told.clears.keys()].filter((clear) => !cleared.includes(clear))).toEqual([]);
    expect(repeated(of(events, 'session.clear_started').map(clearKey))).toEqual([]);

    // In the order of the log: whoever starts finds the run before it ended.
    const last = new Map<string, string>();
    const ended = new Set<string>();
    for (const { type, data } of events) {
      const { jobId = '', runId = '' } = data;
      if (type === 'cron.run_closed' || type === 'cron.run_lost') ended.add(runId);
      if (type !== 'cron.run_started') continue;
      const before = last.get(jobId);
      expect(before === undefined || ended.has(before)).toBe(true);
      last.set(jobId, runId);
    }
    const runs = (type: string): readonly string[] => of(events, type).map(({ data }) => data.runId ?? '');
    for (const type of ['cron.run_started', 'cron.run_cancelled', 'cron.slot_overlapped', 'cron.run_closed']) {
      expect([type, repeated(runs(type))]).toEqual([type, []]);
    }
    const decided = [...runs('cron.run_started'), ...runs('cron.run_cancelled'), ...runs('cron.slot_overlapped')];
    expect(repeated(decided)).toEqual([]);

    const telling = of(events, 'invocation.opened').filter(({ hook }) => hook === 'cronJobCompleted');
    expect(repeated(telling.map(({ operationId }) => operationId ?? ''))).toEqual([]);
    const notified = runs('cron.run_notified');
    for (const [runId, text] of told.completions) {
      const answer = JSON.parse(text) as { readonly notified?: boolean };
      if (answer.notified !== undefined) expect([runId, notified.includes(runId)]).toEqual([runId, answer.notified]);
    }
    for (const { path, body, text } of told.slots.values()) expect((await answered(path, body)).text).toBe(text);
  }, 600_000);
});
