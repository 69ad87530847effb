import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startServer, type CallAnswer, type CallOptions, type RunningServer } from './support/running-server.js';
import { createLedgerDatabase, type TestDatabase } from './support/test-postgres.js';

/** Approvals while replicas die: what waits is answered, once, by whichever replica is there. */

const calls = 90;

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

const entry = (id: string, register: string): string => `
  import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
  export default definePluginEntry({ id: ${JSON.stringify(id)}, name: "A plugin", register(api) { ${register} } });
`;

const install = async (id: string, register: string): Promise<void> => {
  const files = {
    'index.ts': entry(id, register),
    'openclaw.plugin.json': JSON.stringify({ id, contracts: { trustedToolPolicies: ['gate'] } }),
  };
  const body = { id, dialect: 'openclaw', language: 'typescript', entry: 'index.ts', files, enabled: true };
  const made = await answered('POST', `${base}/plugins`, { body });
  expect([made.status, made.text]).toEqual([201, made.text]);
};

interface Event {
  readonly type: string;
  readonly invocationId?: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const eventsOf = async (...types: readonly string[]): Promise<readonly Event[]> => {
  const found: Event[] = [];
  let after = '';
  for (;;) {
    const query = `type=${types.join(',')}&limit=500${after === '' ? '' : `&after=${after}`}`;
    const { items } = (await answered('GET', `${base}/events?${query}`)).body as {
      readonly items: readonly (Event & { readonly position: string })[];
    };
    found.push(...items);
    const last = items.at(-1);
    if (last === undefined) return found;
    after = last.position;
  }
};

const repeated = (keys: readonly unknown[]): readonly unknown[] => keys.filter((one, at) => keys.indexOf(one) !== at);

beforeAll(async () => {
  database = await createLedgerDatabase();
  servers = [await startServer({ env: env() })];
  servers.push(await startServer({ env: env() }));
  await install(
    'warden',
    `api.registerTrustedToolPolicy({ id: "gate", description: "asks", evaluate: (event) => ({
       requireApproval: { title: "Policy", description: "call " + event.params.n, onResolution() {} } }) });`,
  );
  await install(
    'careful',
    `api.on("before_tool_call", async (event) => {
       if (event.params.n % 3 === 0) return { requireApproval: { title: "Again", description: "call " + event.params.n } };
       return { params: { seen: event.params.n } };
     });`,
  );
  await answered('PATCH', `${base}/settings`, { body: { strictApprovals: false, approvalGrants: false } });
}, 120_000);

afterAll(async () => {
  await Promise.all(servers.map((server) => server.close()));
  await database.drop();
});

describe('approvals while servers are killed', () => {
  it('are each answered once, and what waits for them goes on once', async () => {
    const over = new AbortController();
    const { signal } = over;
    const killer = (async () => {
      for (let round = 0; !signal.aborted; round += 1) {
        await delay(700);
        const at = round % 2;
        await servers[at]?.kill();
        servers[at] = await startServer({ env: env() });
      }
    })();
    const approver = (async () => {
      while (!signal.aborted) {
        const pending = await answered('GET', `${base}/approvals?state=pending&limit=20`);
        for (const { id, description } of (pending.body as { items: readonly { id: string; description: string }[] })
          .items) {
          const decision = Number(description.slice('call '.length)) % 5 === 0 ? 'deny' : 'allow-once';
          await answered('POST', `${base}/approvals/${id}/decision`, { body: { decision } });
        }
        await delay(30);
      }
    })();
    const results = await Promise.all(
      Array.from({ length: calls }, async (_, n) => {
        const headers = { 'Idempotency-Key': `call-${String(n)}` };
        const body = { event: { toolName: 'exec', params: { n } }, context: { runId: `run-${String(n)}` } };
        for (;;) {
          const fired = await answered('POST', `${base}/hooks/openclaw/before_tool_call?wait=5`, { body, headers });
          const answer = fired.body as Readonly<Record<string, unknown>>;
          if (fired.status === 200 && answer.outcome !== 'held') return answer;
        }
      }),
    );
    over.abort();
    await Promise.all([killer, approver]);
    for (const [n, { gate }] of results.entries()) {
      const denied = n % 5 === 0;
      const params = n % 3 === 0 || denied ? { n } : { n, seen: n };
      expect({ n, ...(gate as object) }).toMatchObject({ n, blocked: denied, params });
    }

    const events = await eventsOf('approval.*', 'invocation.closed', 'invocation.lost', 'invocation.opened');
    const of = (type: string): readonly Event[] => events.filter((event) => event.type === type);
    const closed = of('invocation.closed').map(({ invocationId }) => invocationId);
    expect(repeated(closed)).toEqual([]);
    for (const { invocationId } of results as unknown as readonly { invocationId: string }[])
      expect(closed).toContain(invocationId);
    expect(repeated(of('approval.decided').map(({ data }) => data.approvalId))).toEqual([]);
    // The handlers behind a policy touched nothing outside, so that a process which died over them loses nothing.
    expect(of('invocation.lost')).toEqual([]);
    // Every wish of the policy is told of, or it is on record that it could not be: once.
    const wishes = of('approval.requested').flatMap(({ data }) => (data.ticket === undefined ? [] : [data.approvalId]));
    for (;;) {
      const told = (await eventsOf('approval.resolution_delivered', 'approval.resolution_undeliverable')).map(
        ({ data }) => data.approvalId,
      );
      expect(repeated(told)).toEqual([]);
      if (told.length === wishes.length) break;
      await delay(200);
    }
  }, 180_000);
});
