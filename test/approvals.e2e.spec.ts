import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startServer, type RunningServer } from './support/running-server.js';

let server: RunningServer;
beforeAll(async () => {
  server = await startServer();
}, 120_000);
afterAll(() => server.close());

type Json = Readonly<Record<string, unknown>>;

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
  readonly body: Json & {
    readonly items: readonly Json[];
    readonly gate: {
      readonly blocked: boolean;
      readonly kind: string | null;
      readonly params: Json;
      readonly reason: string | null;
    };
  };
}

interface Options {
  readonly body?: unknown;
  readonly key?: string;
  readonly headers?: Record<string, string>;
}

const call = (method: string, path: string, options: Options = {}): Promise<Answer> =>
  server.call(method, path, options) as Promise<unknown> as Promise<Answer>;

let accounts = 0;

interface Account {
  readonly base: string;
  readonly runtime: string;
  readonly approver: string;
  readonly auditor: string;
}

const newAccount = async (): Promise<Account> => {
  const id = `ask-${String((accounts += 1))}`;
  expect((await call('POST', '/v1/accounts', { body: { id, name: id } })).status).toBe(201);
  const base = `/v1/accounts/${id}`;
  const key = async (role: string): Promise<string> => {
    const body = { role, name: role, ...(role === 'approver' ? { content: 'full' } : {}) };
    return String((await call('POST', `${base}/keys`, { body })).body.secret);
  };
  return { base, runtime: await key('runtime'), approver: await key('approver'), auditor: await key('auditor') };
};

const entry = (id: string, register: string): string => `
  import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
  export default definePluginEntry({ id: ${JSON.stringify(id)}, name: "A plugin", register(api) { ${register} } });
`;

const install = async ({ base }: Account, id: string, register: string, more: object = {}): Promise<void> => {
  const source = entry(id, register);
  const body = { id, dialect: 'openclaw', language: 'typescript', source, enabled: true, reason: 'test', ...more };
  const answer = await call('POST', `${base}/plugins`, { body });
  expect([answer.status, answer.text]).toEqual([201, answer.text]);
};

const policy = (id: string, register: string): object => ({
  source: undefined,
  entry: 'index.ts',
  files: {
    'index.ts': entry(id, register),
    'openclaw.plugin.json': JSON.stringify({ id, contracts: { trustedToolPolicies: ['gate'] }, configSchema: {} }),
  },
});

const installPolicy = async ({ base }: Account, id: string, evaluate: string): Promise<void> => {
  const register = `api.registerTrustedToolPolicy({ id: "gate", description: "asks", evaluate: ${evaluate} });`;
  const body = { id, dialect: 'openclaw', language: 'typescript', enabled: true, ...policy(id, register) };
  const answer = await call('POST', `${base}/plugins`, { body });
  expect([answer.status, answer.text]).toEqual([201, answer.text]);
};

const asking = (more = ''): string => `api.on("before_tool_call", (event) => ({
  params: { reviewed: true },
  requireApproval: { title: "Delete", description: "Delete " + event.params.path, ${more} },
}));`;

const toolCall = (path = '/srv/old', more: object = {}): object => ({
  event: { toolName: 'exec', params: { path }, toolCallId: 'tc-1' },
  context: { runId: 'run-1', sessionKey: 'agent:main:main' },
  ...more,
});

const fire = async (account: Account, wait: number, body: object = toolCall(), headers = {}): Promise<Answer> => {
  const path = `${account.base}/hooks/openclaw/before_tool_call?wait=${String(wait)}`;
  const first = await call('POST', path, { key: account.runtime, body, headers });
  // A caller that does not wait asks for the answer afterwards.
  return first.status === 202
    ? eventually(async () => {
        const found = await answerOf(account, first, 0);
        return found.status === 202 ? undefined : found;
      })
    : first;
};

const answerOf = ({ base, runtime }: Account, held: Answer, wait = 10): Promise<Answer> =>
  call('GET', `${base}/answers/${String(held.body.invocationId)}?wait=${String(wait)}`, { key: runtime });

const decide = (
  { base, approver }: Account,
  held: Answer,
  decision: string,
  more: object = {},
  key = approver,
): Promise<Answer> =>
  call('POST', `${base}/approvals/${String(held.body.approvalId)}/decision`, { key, body: { decision, ...more } });

const eventsOf = async ({ base, auditor }: Account, type: string): Promise<readonly Json[]> =>
  (await call('GET', `${base}/events?type=${type}&content=open&limit=500`, { key: auditor })).body.items;

/** Resolves with what `look` gives once it is something. */
const eventually = async <T>(look: () => Promise<T | undefined>): Promise<T> => {
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    await delay(50);
  }
};

describe('a call that wants an approval', () => {
  it('is held, shown to an approver with what it would do, and goes on when it is allowed', async () => {
    const account = await newAccount();
    await install(account, 'careful', asking());
    const held = await fire(account, 0);
    expect([held.status, held.body.outcome]).toEqual([200, 'held']);
    expect(held.body.gate).toMatchObject({ blocked: true, kind: 'held', params: { path: '/srv/old' } });
    const pending = await eventually(async () => {
      const { items } = (await call('GET', `${account.base}/approvals?state=pending`, { key: account.approver })).body;
      return items[0];
    });
    expect(pending).toMatchObject({
      id: held.body.approvalId,
      state: 'pending',
      pluginId: 'careful',
      toolName: 'exec',
      title: 'Delete',
      description: 'Delete /srv/old',
      severity: 'warning',
      parameters: { path: '/srv/old', reviewed: true },
      allowedDecisions: ['allow-once', 'allow-always', 'deny'],
      invocationId: held.body.invocationId,
    });
    const decided = await decide(account, held, 'allow-once', { reason: 'looked at it' });
    expect([decided.status, decided.body.state, decided.body.decision]).toEqual([200, 'decided', 'allow-once']);
    const answer = await answerOf(account, held);
    expect(answer.body.outcome).toBe('rewritten');
    expect(answer.body.gate).toEqual({
      blocked: false,
      kind: null,
      reason: null,
      params: { path: '/srv/old', reviewed: true },
      approvalResolution: 'allow-once',
    });
  });

  it('is waited for by the request itself', async () => {
    const account = await newAccount();
    await install(account, 'careful', asking());
    const waiting = fire(account, 20);
    const asked = await eventually(async () => (await eventsOf(account, 'approval.requested'))[0]);
    const approvalId = (asked.data as Json).approvalId;
    await call('POST', `${account.base}/approvals/${String(approvalId)}/decision`, {
      key: account.approver,
      body: { decision: 'deny' },
    });
    const answer = await waiting;
    expect([answer.body.outcome, answer.body.gate.blocked, answer.body.gate.reason]).toEqual([
      'cancelled',
      true,
      'Denied by user',
    ]);
    expect(answer.body.cancellation).toMatchObject({ pluginId: 'careful', code: 'approval_denied' });
  });

  it('gives the same key its answer, held or decided', async () => {
    const account = await newAccount();
    await install(account, 'careful', asking());
    const headers = { 'Idempotency-Key': 'once' };
    const held = await fire(account, 0, toolCall(), headers);
    const again = await fire(account, 0, toolCall(), headers);
    expect([again.body.outcome, again.body.approvalId]).toEqual(['held', held.body.approvalId]);
    await decide(account, held, 'allow-once');
    const last = await fire(account, 10, toolCall(), headers);
    expect([last.body.outcome, last.body.invocationId]).toEqual(['rewritten', held.body.invocationId]);
    expect(await eventsOf(account, 'approval.requested')).toHaveLength(1);
  });

  it('ends by its time as the plugin said', async () => {
    const account = await newAccount();
    await install(account, 'lenient', asking('timeoutMs: 300, timeoutBehavior: "allow"'));
    const answer = await fire(account, 10);
    expect(answer.body.gate).toMatchObject({ blocked: false, approvalResolution: 'timeout' });
    const strict = await newAccount();
    await install(strict, 'strict', asking('timeoutMs: 300'));
    const blocked = await fire(strict, 10);
    expect(blocked.body.gate).toMatchObject({ blocked: true, reason: 'Approval timed out' });
    expect(await eventsOf(strict, 'approval.timed_out')).toHaveLength(1);
    const late = await decide(strict, { ...blocked, body: blocked.body }, 'allow-once');
    expect(late.status).toBe(409);
  });

  it('is not asked for when another handler blocks', async () => {
    const account = await newAccount();
    await install(account, 'careful', asking());
    await install(account, 'no', `api.on("before_tool_call", () => ({ block: true, blockReason: "never" }));`);
    const answer = await fire(account, 0);
    expect([answer.body.outcome, answer.body.gate.reason]).toEqual(['cancelled', 'never']);
    expect(await eventsOf(account, 'approval.requested')).toEqual([]);
  });

  it('tells the plugin what became of it', async () => {
    const account = await newAccount();
    await install(
      account,
      'careful',
      `let told = "nothing";
       api.on("before_tool_call", (event) => event.toolName === "ask" ? { blockReason: "x", params: { told } } :
         { requireApproval: { title: "T", description: "D", onResolution: (word) => { told = word; } } });`,
    );
    const held = await fire(account, 0);
    await decide(account, held, 'allow-once');
    await eventually(async () => (await eventsOf(account, 'approval.resolution_delivered'))[0]);
    const asked = await fire(account, 0, {
      event: { toolName: 'ask', params: {} },
      context: { runId: 'run-2' },
    });
    expect(asked.body.gate.params).toEqual({ told: 'allow-once' });
  });

  it('is over when the run that waited is', async () => {
    const account = await newAccount();
    await install(account, 'careful', asking());
    const held = await fire(account, 0);
    const path = `${account.base}/invocations/${String(held.body.invocationId)}/abort`;
    expect((await call('POST', path, { key: account.runtime })).status).toBe(200);
    const answer = await answerOf(account, held);
    expect(answer.body.gate).toMatchObject({ blocked: true, reason: 'Approval cancelled (run aborted)' });
    expect((await call('POST', path, { key: account.runtime })).status).toBe(409);
    expect((await decide(account, held, 'allow-once')).status).toBe(409);
  });

  it('is put to nobody where the caller says so', async () => {
    const account = await newAccount();
    await install(account, 'careful', asking());
    const report = await fire(account, 5, toolCall('/a', { approvalMode: 'report' }));
    expect(report.body.gate).toMatchObject({ blocked: true, reason: 'Delete /a' });
    const denied = await fire(account, 5, toolCall('/a', { approvalMode: 'deny' }));
    expect(denied.body.gate).toMatchObject({ blocked: true, kind: 'veto', reason: 'approval_required' });
    const cron = { event: { toolName: 'exec', params: { path: '/a' } }, context: { runId: 'r', trigger: 'cron' } };
    const nobody = await fire(account, 5, { ...cron, profile: '2026.9' });
    expect(nobody.body.gate).toMatchObject({ blocked: true, deniedReason: 'plugin-approval-unavailable' });
    const wrong = await fire(account, 0, toolCall('/a', { approvalMode: 'maybe' }));
    expect(wrong.status).toBe(422);
    expect((await eventsOf(account, 'approval.cancelled')).map(({ data }) => (data as Json).cause)).toEqual([
      'report',
      'deny',
      'unavailable',
    ]);
  });

  it('is blocked where what is asked fits nobody’s eyes', async () => {
    const account = await newAccount();
    await install(
      account,
      'long',
      `api.on("before_tool_call", () => ({ requireApproval: { title: "x".repeat(81), description: "D" } }));`,
    );
    const answer = await fire(account, 0);
    expect(answer.body.gate).toMatchObject({ blocked: true, kind: 'failure' });
    expect(answer.body.gate.reason).toContain('title');
  });
});

describe('a decision', () => {
  it('must be one that is offered, and for the parameters that were looked at', async () => {
    const account = await newAccount();
    await install(account, 'careful', asking('allowedDecisions: ["allow-once"]'));
    const held = await fire(account, 0);
    const refused = await decide(account, held, 'deny');
    expect([refused.status, refused.body.code]).toEqual([422, 'not_offered']);
    const other = await decide(account, held, 'allow-once', { parametersDigest: 'ab'.repeat(32) });
    expect([other.status, other.body.code]).toEqual([409, 'other_parameters']);
    const shown = await call('GET', `${account.base}/approvals/${String(held.body.approvalId)}`, {
      key: account.approver,
    });
    expect(shown.body.state).toBe('pending');
    const right = await decide(account, held, 'allow-once', { parametersDigest: shown.body.parametersDigest });
    expect(right.status).toBe(200);
    expect((await decide(account, held, 'allow-once')).status).toBe(409);
  });

  it('is taken once, however many give one at once', async () => {
    const account = await newAccount();
    await install(account, 'careful', asking());
    const held = await fire(account, 0);
    const all = await Promise.all(
      Array.from({ length: 12 }, (_, n) => decide(account, held, n % 2 === 0 ? 'allow-once' : 'deny')),
    );
    expect(all.map(({ status }) => status).sort()).toEqual([200, ...Array.from({ length: 11 }, () => 409)]);
    expect(await eventsOf(account, 'approval.decided')).toHaveLength(1);
  });

  it('may not be given by who asked, unless the account says so', async () => {
    const account = await newAccount();
    await install(account, 'careful', asking());
    const ada = { 'Hookledger-On-Behalf-Of': 'Ada' };
    const held = await fire(account, 0, toolCall(), ada);
    const path = `${account.base}/approvals/${String(held.body.approvalId)}/decision`;
    const own = { key: account.approver, body: { decision: 'allow-once' }, headers: ada };
    const refused = await call('POST', path, own);
    expect([refused.status, refused.body.code]).toEqual([403, 'self_approval']);
    await call('PATCH', `${account.base}/settings`, { body: { selfApproval: true } });
    expect((await call('POST', path, own)).status).toBe(200);
  });

  it('is for approvers and operators of the account', async () => {
    const [account, other] = [await newAccount(), await newAccount()];
    await install(account, 'careful', asking());
    const held = await fire(account, 0);
    expect((await decide(account, held, 'allow-once', {}, account.runtime)).status).toBe(403);
    expect((await decide(account, held, 'allow-once', {}, account.auditor)).status).toBe(403);
    expect((await decide(account, held, 'allow-once', {}, other.approver)).status).toBe(404);
    const hidden = await call('POST', `${account.base}/keys`, { body: { role: 'approver', name: 'blind' } });
    const seen = await call('GET', `${account.base}/approvals/${String(held.body.approvalId)}`, {
      key: String(hidden.body.secret),
    });
    expect(seen.body.parameters).toMatchObject({ hidden: true });
  });
});

describe('allow-always', () => {
  it('is remembered for exactly these parameters, used on record, listed and revocable', async () => {
    const account = await newAccount();
    await install(account, 'careful', asking());
    const held = await fire(account, 0);
    await decide(account, held, 'allow-always');
    await answerOf(account, held);
    const granted = await fire(account, 5);
    expect(granted.body.gate).toMatchObject({ blocked: false, approvalResolution: 'allow-always' });
    const elsewhere = await fire(account, 0, toolCall('/srv/other'));
    expect(elsewhere.body.outcome).toBe('held');
    const grant = await eventually(async () => {
      const { items } = (await call('GET', `${account.base}/approval-grants`, { key: account.approver })).body;
      return items.find(({ uses }) => uses === 1);
    });
    expect(grant).toMatchObject({
      inForce: true,
      pluginId: 'careful',
      toolName: 'exec',
      approvalId: held.body.approvalId,
    });
    const path = `${account.base}/approval-grants/${String(grant.id)}?reason=enough`;
    expect((await call('DELETE', path, { key: account.approver })).status).toBe(204);
    expect((await fire(account, 0)).body.outcome).toBe('held');
    expect((await call('DELETE', path, { key: account.approver })).status).toBe(410);
  });

  it('is allow-once where the account or the profile remembers nothing', async () => {
    const account = await newAccount();
    await install(account, 'careful', asking());
    const exact = toolCall('/srv/old', { profile: '2026.7' });
    const held = await fire(account, 0, exact);
    await decide(account, held, 'allow-always');
    expect((await answerOf(account, held)).body.gate).toMatchObject({ approvalResolution: 'allow-always' });
    expect((await fire(account, 0, exact)).body.outcome).toBe('held');
    expect(await eventsOf(account, 'approval.grant_created')).toEqual([]);
  });
});

describe('an approval that a trusted policy asks for', () => {
  const wanted = `(event) => ({ requireApproval: { title: "Policy", description: "Policy asks" } })`;

  it('comes before the ordinary handlers, which run when it is given', async () => {
    const account = await newAccount();
    await installPolicy(account, 'warden', wanted);
    await install(account, 'after', `api.on("before_tool_call", (event) => { api.logger.info("ran"); });`);
    const held = await fire(account, 0);
    expect(held.body.outcome).toBe('held');
    expect((held.body.handlers as readonly Json[]).map(({ pluginId }) => pluginId)).toEqual(['warden']);
    await decide(account, held, 'allow-once');
    const answer = await answerOf(account, held);
    expect([answer.body.outcome, answer.body.gate.blocked]).toEqual(['passed', false]);
    expect((answer.body.handlers as readonly Json[]).map(({ pluginId, outcome }) => [pluginId, outcome])).toEqual([
      ['warden', 'held'],
      ['after', 'passed'],
    ]);
  });

  it('does not let the others run when it is refused', async () => {
    const account = await newAccount();
    await installPolicy(account, 'warden', wanted);
    await install(account, 'after', `api.on("before_tool_call", () => ({ params: { x: 1 } }));`);
    const held = await fire(account, 0);
    await decide(account, held, 'deny');
    const answer = await answerOf(account, held);
    expect((answer.body.handlers as readonly Json[]).map(({ pluginId, outcome }) => [pluginId, outcome])).toEqual([
      ['warden', 'held'],
      ['after', 'not_run'],
    ]);
  });

  it('can be vetoed by them afterwards', async () => {
    const account = await newAccount();
    await installPolicy(account, 'warden', wanted);
    await install(account, 'no', `api.on("before_tool_call", () => ({ block: true, blockReason: "no" }));`);
    const held = await fire(account, 0);
    await decide(account, held, 'allow-once');
    const answer = await answerOf(account, held);
    expect([answer.body.outcome, answer.body.gate.reason]).toEqual(['cancelled', 'no']);
  });

  it('is asked for again when a handler changes what was approved', async () => {
    const account = await newAccount();
    await installPolicy(account, 'warden', wanted);
    await install(account, 'sly', `api.on("before_tool_call", () => ({ params: { path: "/" } }));`);
    const held = await fire(account, 0);
    await decide(account, held, 'allow-once');
    const renewed = await eventually(async () => {
      const found = await answerOf(account, held, 0);
      return found.body.approvalId === held.body.approvalId ? undefined : found;
    });
    expect(renewed.body.outcome).toBe('held');
    const shown = await call('GET', `${account.base}/approvals/${String(renewed.body.approvalId)}`, {
      key: account.approver,
    });
    expect(shown.body).toMatchObject({ renews: held.body.approvalId, parameters: { path: '/' } });
    expect(await eventsOf(account, 'approval.digest_mismatch')).toHaveLength(1);
    await decide(account, renewed, 'allow-once');
    expect((await answerOf(account, held)).body.gate).toMatchObject({ blocked: false, params: { path: '/' } });
    const lax = await call('PATCH', `${account.base}/settings`, { body: { strictApprovals: false } });
    expect(lax.status).toBe(200);
    const again = await fire(account, 0);
    await decide(account, again, 'allow-once');
    expect((await answerOf(account, again)).body.gate).toMatchObject({ blocked: false, params: { path: '/' } });
  });

  it('can be followed by one of an ordinary handler', async () => {
    const account = await newAccount();
    await installPolicy(account, 'warden', wanted);
    await install(account, 'careful', asking());
    const held = await fire(account, 0);
    await decide(account, held, 'allow-once');
    const second = await eventually(async () => {
      const found = await answerOf(account, held, 0);
      return found.body.approvalId === held.body.approvalId ? undefined : found;
    });
    await decide(account, second, 'deny');
    const answer = await answerOf(account, held);
    expect(answer.body.gate).toMatchObject({ blocked: true, reason: 'Denied by user' });
  });
});
