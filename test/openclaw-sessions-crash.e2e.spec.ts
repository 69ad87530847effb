import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startServer, type CallAnswer, type CallOptions, type RunningServer } from './support/running-server.js';
import { createLedgerDatabase, type TestDatabase } from './support/test-postgres.js';

/** Queues of sessions on two replicas that are killed in turn: each injection goes to one run, and none is gone. */

const sessions = 4;
const perSession = 60;
const kills = 4;

let database: TestDatabase;
let servers: RunningServer[] = [];
let next = 0;

const env = (): Record<string, string> => ({ DATABASE_URL: database.url, HOOKLEDGER_MASTER_KEY: '11'.repeat(32) });

/** A request to one replica or another, repeated until one of them answers it. */
const answered = async (method: string, path: string, options: CallOptions = {}): Promise<CallAnswer> => {
  for (;;) {
    const server = servers[(next += 1) % servers.length];
    const answer = await server?.call(method, path, options).catch(() => null);
    if (answer !== null && answer !== undefined && answer.status < 500) return answer;
    await delay(50);
  }
};

const base = '/v1/accounts/default';

interface Entry {
  readonly text: string;
}

interface Event {
  readonly type: string;
  readonly sessionId: string;
  readonly position: string;
  readonly data: {
    readonly injectionId: string;
    readonly run: string;
    readonly injections: readonly { readonly injectionId: string }[];
  };
}

const eventsOf = async (type: string): Promise<readonly Event[]> => {
  const found: Event[] = [];
  for (;;) {
    const after = found.at(-1)?.position;
    const query = `type=${type}&limit=500${after === undefined ? '' : `&after=${after}`}`;
    const { items } = (await answered('GET', `${base}/events?${query}`)).body as { readonly items: readonly Event[] };
    if (items.length === 0) return found;
    found.push(...items);
  }
};

const repeated = (keys: readonly unknown[]): readonly unknown[] => keys.filter((one, at) => keys.indexOf(one) !== at);

beforeAll(async () => {
  database = await createLedgerDatabase();
  servers = [await startServer({ env: env() })];
  servers.push(await startServer({ env: env() }));
  const source = `
    import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
    export default definePluginEntry({ id: "notes", name: "Notes", register(api) {
      api.on("agent_turn_prepare", async (event, ctx) => {
        await api.session.workflow.enqueueNextTurnInjection(
          { sessionKey: ctx.sessionKey, text: "of " + ctx.runId, idempotencyKey: ctx.runId });
        return { appendContext: String(event.queuedInjections.length) };
      });
    } });`;
  const body = { id: 'notes', dialect: 'openclaw', language: 'typescript', source, enabled: true };
  const made = await answered('POST', `${base}/plugins`, { body });
  expect([made.status, made.text]).toEqual([201, made.text]);
}, 240_000);
afterAll(async () => {
  for (const server of servers) await server.close();
  await database.drop();
});

/** What each run was given, by whatever it was told first, and every time after. */
const given = new Map<string, string>();
const told: string[] = [];

const take = (session: string, run: string, answer: CallAnswer): void => {
  const body = answer.body as { readonly injections?: readonly Entry[]; readonly queuedInjections?: readonly Entry[] };
  const texts = (body.injections ?? body.queuedInjections ?? []).map(({ text }) => text);
  const before = given.get(`${session} ${run}`);
  // A run that found nothing is not remembered; every other gets the same again.
  if (before !== undefined && before !== '') expect(texts.join()).toBe(before);
  if (before === undefined || before === '') told.push(...texts.map((text) => `${session} ${text}`));
  given.set(`${session} ${run}`, texts.join());
};

const enqueuer = async (session: string): Promise<void> => {
  for (let n = 0; n < perSession; n += 1) {
    const body = { pluginId: 'notes', text: `text ${String(n)}` };
    const headers = { 'idempotency-key': `${session}-${String(n)}` };
    for (;;) {
      const answer = await answered('POST', `${base}/sessions/${session}/injections`, { body, headers });
      expect([answer.status, answer.text]).toEqual([200, answer.text]);
      if ((answer.body as { readonly enqueued: boolean }).enqueued) break;
      // Full: somebody has to drain first, and this request is answered.
      headers['idempotency-key'] += '+';
      await delay(50);
    }
  }
};

let filling = true;

const drainer = async (session: string, number: number): Promise<void> => {
  for (let n = 0; filling; n += 1) {
    const run = `run-${String(number)}-${String(n)}`;
    for (let times = 0; times < 2; times += 1) {
      if (number % 2 === 0) {
        take(session, run, await answered('POST', `${base}/sessions/${session}/drain`, { body: { runId: run } }));
      } else {
        const body = { event: { prompt: 'p', messages: [] }, context: { sessionKey: session, runId: run } };
        take(session, run, await answered('POST', `${base}/hooks/openclaw/agent_turn_prepare`, { body }));
      }
    }
    await delay(20);
  }
};

describe('queues on replicas that are killed', () => {
  it('give each injection to one run, the same again to that run, and lose none', async () => {
    const names = Array.from({ length: sessions }, (_, n) => `s${String(n)}`);
    const draining = names.flatMap((session) => [0, 1, 2, 3].map((number) => drainer(session, number)));
    const enqueuing = Promise.all(names.map(enqueuer));
    let filled = false;
    void enqueuing.then(() => (filled = true));
    for (let round = 0; round < kills; round += 1) {
      await delay(1_200);
      const at = round % 2;
      await servers[at]?.kill();
      servers[at] = await startServer({ env: env() });
    }
    await enqueuing;
    expect(filled).toBe(true);
    filling = false;
    await Promise.all(draining);
    for (const session of names) {
      take(session, 'last', await answered('POST', `${base}/sessions/${session}/drain`, { body: { runId: 'last' } }));
    }

    const enqueued = (await eventsOf('injection.enqueued')).map(({ data }) => data.injectionId);
    const drained = await eventsOf('injection.drained');
    const ends = drained.flatMap(({ data }) => data.injections.map(({ injectionId }) => injectionId));
    expect(repeated(enqueued)).toEqual([]);
    expect(repeated(ends)).toEqual([]);
    expect([...ends].sort()).toEqual([...enqueued].sort());
    expect(await eventsOf('injection.dropped')).toEqual([]);
    expect(repeated(drained.map(({ sessionId, data }) => `${sessionId} ${data.run}`))).toEqual([]);
    // Callers were told once of each that callers put in. What a handler puts in may come again: its key is free again.
    expect(repeated(told.filter((text) => text.includes(' text ')))).toEqual([]);
    for (const session of names) {
      const own = told.filter((text) => text.startsWith(`${session} text `));
      expect([session, own.length]).toEqual([session, perSession]);
    }
  }, 300_000);
});
