import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  createClient,
  HookledgerProblem,
  memoryOutbox,
  StillRunning,
  Unreachable,
  type Client,
  type ClientOptions,
  type LedgerEvent,
} from '#sdk';
import { fileCheckpoints, fileOutbox } from '#sdk/node';
import { startFaultyProxy, type Fault } from './support/faulty-proxy.js';
import { freePort, startServer, until, type RunningServer } from './support/running-server.js';

let server: RunningServer;
let port: number;
const folder = mkdtempSync(join(tmpdir(), 'hookledger-sdk-'));
const clients: Client[] = [];

beforeAll(async () => {
  port = await freePort();
  server = await startServer({ port });
}, 120_000);

afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await server.close();
  rmSync(folder, { recursive: true, force: true });
}, 120_000);

interface Account {
  readonly id: string;
  readonly base: string;
  /** A client with a key of this role. */
  client(role: string, options?: Partial<ClientOptions>): Promise<Client>;
  /** Events of these types, oldest first, opened. */
  events(...types: readonly string[]): Promise<readonly LedgerEvent[]>;
}

let accounts = 0;

const newAccount = async (): Promise<Account> => {
  const id = `sdk-${String((accounts += 1))}`;
  const made = await server.call('POST', '/v1/accounts', { body: { id, name: id } });
  expect(made.status).toBe(201);
  const base = `/v1/accounts/${id}`;
  const keys = new Map<string, string>();
  const keyOf = async (role: string): Promise<string> => {
    const known = keys.get(role);
    if (known !== undefined) return known;
    const content = role === 'runtime' ? {} : { content: 'full' };
    const { body } = await server.call<{ secret: string }>('POST', `${base}/keys`, {
      body: { role, name: role, ...content },
    });
    keys.set(role, body.secret);
    return body.secret;
  };
  return {
    id,
    base,
    client: async (role, options = {}) => {
      const client = createClient({ url: server.url, account: id, key: await keyOf(role), ...options });
      clients.push(client);
      return client;
    },
    events: async (...types) => {
      const path = `${base}/events?limit=500&content=open&type=${types.join(',')}`;
      return (await server.call<{ items: LedgerEvent[] }>('GET', path)).body.items;
    },
  };
};

const install = async ({ base }: Account, id: string, source: string, more: object = {}): Promise<void> => {
  const body = { id, dialect: 'middleware', language: 'javascript', source, enabled: true, reason: 'test', ...more };
  const answer = await server.call('POST', `${base}/plugins`, { body });
  expect([answer.status, answer.text]).toEqual([201, answer.text]);
};

const installOpenClaw = (account: Account, id: string, register: string): Promise<void> =>
  install(
    account,
    id,
    `import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
     export default definePluginEntry({ id: ${JSON.stringify(id)}, name: "A plugin", register(api) { ${register} } });`,
    { dialect: 'openclaw', language: 'typescript' },
  );

const asking = `api.on("before_tool_call", () => ({ requireApproval: { title: "Sure?", description: "It deletes" } }));`;

const terse = `globalThis.middleware.systemPrompt = (c) => c.systemPrompt + ' Be terse.';`;

const prompt = (text: string, sessionId = '42') =>
  ({ context: { sessionId, agentId: '7', sessionKind: 'direct', systemPrompt: text } }) as const;

const command = (text: string, sessionId = '42') =>
  ({
    context: {
      sessionId,
      agentId: '7',
      sshHostId: '9',
      hostDisplayName: 'web-1',
      kind: 'command',
      command: text,
      path: null,
      content: null,
    },
  }) as const;

const toolCall = (sessionId = 's') =>
  ({ event: { toolName: 'rm', params: { path: '/srv' } }, context: { sessionId, agentId: 'a', runId: 'r' } }) as const;

describe('firing', () => {
  it('gives the value of the hook, typed, and what each handler did', async () => {
    const account = await newAccount();
    await install(account, 'terse', terse);
    const client = await account.client('runtime');
    const answer = await client.fire('middleware/systemPrompt', prompt('You help.'));
    const text: string = answer.value;
    expect([answer.outcome, answer.proceed, answer.held, text]).toEqual([
      'rewritten',
      true,
      false,
      'You help. Be terse.',
    ]);
    if (answer.decidedAlone) throw new Error('the server was there');
    expect(answer.handlers.map(({ pluginId, outcome }) => [pluginId, outcome])).toEqual([['terse', 'rewrote']]);
  });

  it('says who cancelled and why, and that the operation does not go on', async () => {
    const account = await newAccount();
    await install(account, 'no', `globalThis.middleware.sshCommandSending = (c, { cancel }) => cancel('not today');`);
    const client = await account.client('runtime');
    const answer = await client.fire('middleware/sshCommandSending', command('reboot'));
    expect([answer.outcome, answer.proceed, answer.value]).toEqual(['cancelled', false, null]);
    expect(answer.cancellation).toMatchObject({ pluginId: 'no', reason: 'not today' });
  });

  it('rejects with the problem and every fault where the arguments do not fit', async () => {
    const account = await newAccount();
    const client = await account.client('runtime');
    const wrong = { context: { sessionId: 7 } } as unknown as ReturnType<typeof prompt>;
    const refused = await client.fire('middleware/systemPrompt', wrong).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(HookledgerProblem);
    const problem = refused as HookledgerProblem;
    expect([problem.status, problem.code]).toEqual([422, 'invalid_arguments']);
    expect(problem.errors.map(({ pointer }) => pointer)).toContain('/context/sessionId');
  });

  it('fires a batch in order and gives a problem for an item that is refused, an answer for the others', async () => {
    const account = await newAccount();
    await install(account, 'terse', terse);
    const client = await account.client('runtime');
    const [first, second, third] = await client.batch([
      { hook: 'middleware/systemPrompt', ...prompt('One.') },
      { hook: 'middleware/systemPrompt', context: { ...prompt('Two.').context, sessionId: '' } },
      { hook: 'openclaw/before_tool_call', ...toolCall() },
    ]);
    if (!('value' in first)) throw first.problem;
    expect(first.value).toBe('One. Be terse.');
    expect('problem' in second && second.problem.code).toBe('invalid_arguments');
    if (!('value' in third)) throw third.problem;
    expect(third.gate).toMatchObject({ blocked: false, params: { path: '/srv' } });
  });

  it('records that a value was used as it was given, and that another one was', async () => {
    const account = await newAccount();
    await install(account, 'terse', terse);
    const client = await account.client('runtime');
    const answer = await client.fire('middleware/systemPrompt', prompt('\ud800 lone, "quoted", \u2028'));
    const same = await client.reportEffect(answer, { applied: true, value: answer.value });
    expect(same).toMatchObject({ state: 'recorded', matches: true });
    const other = await client.reportEffect(answer, { applied: true, value: 'something else' });
    expect(other).toMatchObject({ state: 'recorded', matches: false });
  });

  it('descends from an earlier answer where it is told to', async () => {
    const account = await newAccount();
    const client = await account.client('runtime');
    const first = await client.fire('middleware/systemPrompt', prompt('One.'));
    const next = await client.descending({ lineage: first.lineage }).fire('middleware/systemPrompt', prompt('Two.'));
    const opened = await account.events('invocation.opened');
    expect(opened.map(({ root }) => root)).toEqual([first.invocationId, first.invocationId]);
    expect(next.invocationId).not.toBe(first.invocationId);
    const bad = client.descending({ cause: 'forged' }).fire('middleware/systemPrompt', prompt('Three.'));
    await expect(bad).rejects.toMatchObject({ code: 'bad_token' });
  });

  it('ends with the reason of its signal', async () => {
    const account = await newAccount();
    const client = await account.client('runtime');
    const stop = new AbortController();
    stop.abort(new Error('no longer'));
    const fired = client.fire('middleware/systemPrompt', prompt('One.'), { signal: stop.signal });
    await expect(fired).rejects.toThrow('no longer');
  });
});

describe('broken connections', () => {
  const through = async (account: Account, fault: (connection: number) => Fault) => {
    const proxy = await startFaultyProxy(server.url, fault);
    const client = await account.client('runtime', { url: proxy.url, backoff: { firstMs: 5, mostMs: 20 } });
    return { client, proxy };
  };

  it('fire once, wherever the answer is cut off', async () => {
    const account = await newAccount();
    await install(account, 'terse', terse);
    const whole = 2_000;
    for (let afterBytes = 1; afterBytes < whole; afterBytes += 97) {
      const fault = (connection: number): Fault => (connection === 0 ? { kind: 'cut', afterBytes } : { kind: 'none' });
      const { client, proxy } = await through(account, fault);
      const sessionId = `cut-${String(afterBytes)}`;
      const answer = await client.fire('middleware/systemPrompt', prompt('You help.', sessionId));
      expect(answer.value).toBe('You help. Be terse.');
      await client.close();
      await proxy.close();
    }
    const opened = await account.events('invocation.opened');
    const sessions = opened.map(({ sessionId }) => sessionId);
    expect(sessions).toHaveLength(new Set(sessions).size);
    expect(sessions).toHaveLength(Math.ceil((whole - 1) / 97));
  }, 60_000);

  it('are tried again where nothing got through', async () => {
    const account = await newAccount();
    const { client, proxy } = await through(account, (n) => ({ kind: n < 3 ? 'refused' : 'none' }));
    const answer = await client.fire('middleware/systemPrompt', prompt('You help.'));
    expect([answer.outcome, proxy.connections]).toEqual(['passed', 4]);
    await proxy.close();
  });

  it('are called unreachable when they last, with how often it was tried', async () => {
    const account = await newAccount();
    const { client, proxy } = await through(account, () => ({ kind: 'refused' }));
    const fired = client.fire('middleware/systemPrompt', prompt('You help.'), { reachMs: 300 });
    const error = await fired.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Unreachable);
    expect((error as Unreachable).attempts).toBe(proxy.connections);
    await proxy.close();
  });
});

describe('without the server', () => {
  it('fails open or closed as the caller says, and has it put on record when the server is back', async () => {
    const account = await newAccount();
    const client = await account.client('runtime', {
      outbox: fileOutbox(join(folder, 'outbox')),
      whenUnreachable: 'closed',
      reachMs: 200,
      backoff: { firstMs: 5, mostMs: 20 },
    });
    await server.kill();
    const closed = await client.fire('middleware/sshCommandSending', { ...command('reboot'), operationId: 'op-1' });
    expect([closed.outcome, closed.proceed, closed.value, closed.decidedAlone]).toEqual([
      'cancelled',
      false,
      null,
      true,
    ]);
    const open = await client.fire('middleware/sshCommandSending', command('ls'), { whenUnreachable: 'open' });
    expect([open.outcome, open.value]).toEqual(['passed', { command: 'ls', path: null, content: null }]);
    const tool = await client.fire('openclaw/before_tool_call', toolCall());
    expect(tool.gate).toMatchObject({ blocked: true, kind: 'failure', params: { path: '/srv' } });
    // What cannot be cancelled goes on either way.
    const prompted = await client.fire('middleware/systemPrompt', prompt('You help.'));
    expect([prompted.outcome, prompted.value]).toEqual(['passed', 'You help.']);
    expect(await client.tellOutbox()).toEqual({ told: 0, refused: 0, left: 4 });
    // The process of the runtime ends here; another one takes the same folder.
    await client.close();
    server = await startServer({ port, dataDir: server.dataDir });

    const next = await account.client('runtime', { outbox: fileOutbox(join(folder, 'outbox')) });
    expect(await next.tellOutbox()).toEqual({ told: 4, refused: 0, left: 0 });
    expect(await next.tellOutbox()).toEqual({ told: 0, refused: 0, left: 0 });
    const missed = await account.events('invocation.missed');
    expect(missed.map(({ hook, outcome, reasonCode, data }) => [hook, outcome, reasonCode, data.decision])).toEqual([
      ['sshCommandSending', 'cancelled', 'unreachable', 'closed'],
      ['sshCommandSending', 'passed', 'unreachable', 'open'],
      ['before_tool_call', 'cancelled', 'unreachable', 'closed'],
      ['systemPrompt', 'cancelled', 'unreachable', 'closed'],
    ]);
    expect(missed[0]).toMatchObject({ operationId: 'op-1', sessionId: '42', agentId: '7', target: '9' });
    expect(missed[1]?.data.context).toMatchObject({ command: 'ls' });
    expect(await account.events('invocation.opened')).toEqual([]);
  }, 120_000);

  it('names the invocation of an attempt that had come through, and lets none come through afterwards', async () => {
    const account = await newAccount();
    // Nothing of an answer comes back, though the server gets every request.
    const proxy = await startFaultyProxy(server.url, () => ({ kind: 'cut', afterBytes: 1 }));
    const outbox = memoryOutbox();
    const deaf = await account.client('runtime', {
      url: proxy.url,
      outbox,
      whenUnreachable: 'open',
      reachMs: 300,
      backoff: { firstMs: 5, mostMs: 20 },
    });
    const idempotencyKey = 'a-firing-of-mine';
    const answer = await deaf.fire('middleware/systemPrompt', prompt('You help.'), { idempotencyKey });
    expect(answer.decidedAlone).toBe(true);
    await deaf.close();
    await proxy.close();
    const client = await account.client('runtime', { outbox });
    await client.tellOutbox();
    const [opened] = await account.events('invocation.opened');
    const [missed] = await account.events('invocation.missed');
    expect(missed?.data.arrivedAs).toBe(opened?.invocationId);

    await server.call('POST', `${account.base}/unreachable`, {
      body: {
        dialect: 'middleware',
        hook: 'systemPrompt',
        decision: 'open',
        attempts: 1,
        firingKey: 'late',
        firing: prompt('Late.'),
      },
    });
    const late = client.fire('middleware/systemPrompt', prompt('Late.'), { idempotencyKey: 'late' });
    await expect(late).rejects.toMatchObject({ code: 'idempotency_key_reused' });
    expect(await account.events('invocation.opened')).toHaveLength(1);
  });

  it('keeps what the server refuses for a person to look at, and tells the rest', async () => {
    const account = await newAccount();
    const outbox = memoryOutbox();
    const client = await account.client('runtime', { outbox });
    const body = { dialect: 'middleware', hook: 'noSuchHook', decision: 'open', attempts: 1, firing: {} };
    await outbox.put({ id: 'bad', path: 'unreachable', body });
    await outbox.put({ id: 'good', path: 'unreachable', body: { ...body, hook: 'systemPrompt', firing: prompt('x') } });
    expect(await client.tellOutbox()).toEqual({ told: 1, refused: 1, left: 0 });
    expect(await outbox.list()).toMatchObject([{ id: 'bad', refused: { status: 404, code: 'unknown_hook' } }]);
  });

  it('keeps the report of an effect, if it is asked to', async () => {
    const account = await newAccount();
    const client = await account.client('runtime', { reachMs: 200, backoff: { firstMs: 5, mostMs: 20 } });
    const answer = await client.fire('middleware/systemPrompt', prompt('You help.'));
    await server.kill();
    await expect(client.reportEffect(answer, { applied: true })).rejects.toBeInstanceOf(Unreachable);
    expect(await client.reportEffect(answer, { applied: true, value: answer.value }, { keep: true })).toEqual({
      state: 'kept',
    });
    server = await startServer({ port, dataDir: server.dataDir });
    // By itself: no call of the runtime's brings it on.
    await until('the effect is on record', async () => (await account.events('effect.reported')).length === 1);
    expect((await account.events('effect.reported'))[0]?.data).toMatchObject({ applied: true, matches: true });
  }, 120_000);
});

describe('waiting', () => {
  it('gives a held answer at once, or the decided one where it waits, and approvers decide with the digest', async () => {
    const account = await newAccount();
    await installOpenClaw(account, 'careful', asking);
    const [runtime, approver] = [await account.client('runtime'), await account.client('approver')];
    const waiting = runtime.fire('openclaw/before_tool_call', toolCall(), { awaitApproval: true, deadlineMs: 120_000 });
    let pending = await approver.approvals.list({ state: 'pending' });
    await until('the approval is pending', async () => {
      pending = await approver.approvals.list({ state: 'pending' });
      return pending.items.length === 1;
    });
    const [approval] = pending.items;
    if (approval === undefined) throw new Error('none is pending');
    expect([approval.title, approval.parameters]).toEqual(['Sure?', { path: '/srv' }]);
    const wrong = approver.approvals.decide(approval.id, { decision: 'allow-once', parametersDigest: '0'.repeat(64) });
    await expect(wrong).rejects.toMatchObject({ code: 'other_parameters' });
    const { parametersDigest } = approval;
    const decided = await approver.approvals.decide(approval.id, {
      decision: 'allow-always',
      parametersDigest,
      reason: 'ok',
    });
    expect(decided.state).toBe('decided');
    const answer = await waiting;
    expect([answer.held, answer.gate.blocked]).toEqual([false, false]);
    const { items: grants } = await approver.approvals.grants({ state: 'in_force' });
    expect(grants).toHaveLength(1);
    await approver.approvals.revokeGrant(grants[0]?.id ?? '', 'enough');
    expect((await approver.approvals.grants({ state: 'revoked' })).items).toHaveLength(1);
  }, 60_000);

  it('outlives a server that is killed while a person thinks', async () => {
    const account = await newAccount();
    await installOpenClaw(account, 'careful', asking);
    const [runtime, approver] = [await account.client('runtime'), await account.client('approver')];
    const waiting = runtime.fire('openclaw/before_tool_call', toolCall(), {
      awaitApproval: true,
      deadlineMs: 200_000,
      reachMs: 100_000,
    });
    await until(
      'the approval is pending',
      async () => (await approver.approvals.list({ state: 'pending' })).items.length === 1,
    );
    await server.kill();
    server = await startServer({ port, dataDir: server.dataDir });
    const [approval] = (await approver.approvals.list({ state: 'pending' })).items;
    await approver.approvals.decide(approval?.id ?? '', { decision: 'deny' });
    const answer = await waiting;
    expect([answer.proceed, answer.gate.blocked, answer.gate.reason]).toEqual([false, true, 'Denied by user']);
    expect(await account.events('invocation.opened')).toHaveLength(1);
  }, 120_000);

  it('fires again under the same key when the server dies over a chain that takes its time', async () => {
    const account = await newAccount();
    await install(
      account,
      'slow',
      `globalThis.middleware.systemPrompt = (c) => { const t = Date.now(); while (Date.now() - t < 4000); return c.systemPrompt + '!'; };`,
    );
    const runtime = await account.client('runtime', { reachMs: 100_000, deadlineMs: 200_000 });
    const waiting = runtime.fire('middleware/systemPrompt', prompt('You help'));
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await server.kill();
    server = await startServer({ port, dataDir: server.dataDir });
    const answer = await waiting;
    expect(answer.value).toBe('You help!');
    const closed = await account.events('invocation.closed');
    expect(closed.map(({ invocationId }) => invocationId)).toEqual([answer.invocationId]);
  }, 120_000);

  it('says which invocation still runs when the deadline passes, whose answer can be had later', async () => {
    const account = await newAccount();
    await install(
      account,
      'slow',
      `globalThis.middleware.systemPrompt = (c) => { const t = Date.now(); while (Date.now() - t < 3000); return 'done'; };`,
    );
    const runtime = await account.client('runtime');
    const late = await runtime
      .fire('middleware/systemPrompt', prompt('x'), { deadlineMs: 1_700 })
      .catch((error: unknown) => error);
    expect(late).toBeInstanceOf(StillRunning);
    const { invocationId } = late as StillRunning;
    const answer = await runtime.waitForAnswer({ invocationId, hookName: 'middleware/systemPrompt' });
    expect(answer.value).toBe('done');
  }, 60_000);
});

describe('sessions', () => {
  it('queue texts for the next turn, give them to one run, and again to the same run', async () => {
    const account = await newAccount();
    await installOpenClaw(account, 'noter', `api.on("session_start", () => {});`);
    const { sessions } = await account.client('runtime');
    const injection = { pluginId: 'noter', text: 'Remember the milk.', idempotencyKey: 'milk' };
    expect(await sessions.inject('s', injection)).toMatchObject({ enqueued: true, id: 'milk', reason: null });
    expect(await sessions.inject('s', injection)).toMatchObject({ enqueued: false, reason: 'duplicate' });
    const drained = await sessions.drain('s', { runId: 'run-1' });
    expect([drained.injections.length, drained.prependContext]).toEqual([1, 'Remember the milk.']);
    expect((await sessions.drain('s', { runId: 'run-1' })).prependContext).toBe('Remember the milk.');
    expect((await sessions.drain('s', { runId: 'run-2' })).injections).toEqual([]);
  });
});

describe('clears and cron runs', () => {
  it('complete what is pending until it is answered, and clear once', async () => {
    const account = await newAccount();
    const client = await account.client('runtime');
    const started = await client.clears.start('42', {
      clearId: 'c-1',
      agentId: '7',
      trailingText: null,
      messageCount: 3,
      subagentCount: 0,
      peerThreadCount: 0,
    });
    expect(started.state).toBe('open');
    const completion = { deletedMessageCount: 3, deletedSubagentCount: 0, deletedPeerThreadCount: 0 };
    const rows = [{ sessionId: '42', clearId: 'c-1', completion }];
    const pending = {
      list: () => Promise.resolve([...rows]),
      remove: () => Promise.resolve(void rows.pop()),
    };
    await client.clears.complete('42', 'c-1', completion);
    expect(await client.clears.settle(pending)).toBe(1);
    expect(await client.clears.settle(pending)).toBe(0);
    expect(await account.events('session.cleared')).toHaveLength(1);
  });

  it('carry out a mission once for a slot, while it beats', async () => {
    const account = await newAccount();
    await install(account, 'sentinel', `globalThis.middleware.cronJobFiring = (c) => c.prompt + ' Twice.';`);
    const client = await account.client('runtime');
    await client.cron.declare('tidy', { name: 'Tidy', kind: 'cron_job', agentId: '7', schedule: '0 3 * * *' });
    const slot = {
      slotAt: '2026-11-30T03:00:00.000Z',
      agentId: '7',
      kind: 'cron_job',
      name: 'Tidy',
      prompt: 'Tidy up.',
      leaseSeconds: 3,
    };
    const seen: string[] = [];
    const end = await client.cron.run('tidy', slot, async ({ prompt: mission, session, signal }) => {
      seen.push(mission);
      await session('mission-1');
      const overlapping = await client.cron.slot('tidy', { ...slot, slotAt: '2026-11-30T04:00:00.000Z' });
      expect(overlapping.decision).toBe('overlapped');
      // Longer than the lease: the beats keep it open.
      await new Promise((resolve) => setTimeout(resolve, 4_500));
      expect(signal.aborted).toBe(false);
      return { status: 'ok' };
    });
    expect(end).toMatchObject({ decision: 'run', completed: { state: 'closed', status: 'ok', notified: true } });
    expect(seen).toEqual(['Tidy up. Twice.']);
    const failing = client.cron.run('tidy', { ...slot, slotAt: '2026-11-30T05:00:00.000Z' }, async ({ session }) => {
      await session('mission-2');
      throw new Error('the mission broke');
    });
    await expect(failing).rejects.toThrow('the mission broke');
    expect((await account.events('cron.run_closed')).map(({ data }) => data.status)).toEqual(['ok', 'failed']);
  }, 60_000);
});

describe('following', () => {
  /** Fires so often that the log has something to tell. */
  const fireSome = async (account: Account, count: number): Promise<void> => {
    const client = await account.client('runtime');
    for (let n = 0; n < count; n += 1) await client.fire('middleware/systemPrompt', prompt(`Prompt ${String(n)}.`));
  };

  const sizeOf = async ({ base }: Account): Promise<number> => {
    const { body } = await server.call<{ completeUpTo: string }>('GET', `${base}/events?limit=1`);
    return Number(body.completeUpTo) + 1;
  };

  it('gives every event once and in order, wherever the stream is cut', async () => {
    const account = await newAccount();
    await fireSome(account, 6);
    let cut = 0;
    // Every connection gets a little further than the one before, so that the cuts fall everywhere.
    const proxy = await startFaultyProxy(server.url, (n) => {
      cut = n;
      return n > 60 ? { kind: 'none' } : { kind: 'cut', afterBytes: 150 + n * 53 };
    });
    const auditor = await account.client('auditor', { url: proxy.url, backoff: { firstMs: 5, mostMs: 20 } });
    const positions: string[] = [];
    const subscription = auditor.follow('all', {
      from: { after: '0' },
      onEvent: ({ position }) => void positions.push(position),
    });
    const size = await sizeOf(account);
    await until('all of them came', () => positions.length >= size - 1, 60);
    await subscription.stop();
    expect(positions.slice(0, size - 1)).toEqual(Array.from({ length: size - 1 }, (_, n) => String(n + 1)));
    expect(positions).toHaveLength(new Set(positions).size);
    expect(cut).toBeGreaterThan(3);
    await proxy.close();
  }, 90_000);

  it('begins at the first event, and goes on in another process where the one before stopped', async () => {
    const account = await newAccount();
    await fireSome(account, 3);
    const checkpoints = fileCheckpoints(join(folder, 'positions'));
    const auditor = await account.client('auditor', { checkpoints });
    const seen: string[] = [];
    const first = auditor.follow('a name/with: everything', {
      onEvent: (event) => {
        if (seen.length === 4) throw new Error('the consumer broke');
        seen.push(event.position);
      },
    });
    await expect(first.done).rejects.toThrow('the consumer broke');
    expect(first.position).toBe('3');
    const second = auditor.follow('a name/with: everything', { onEvent: ({ position }) => void seen.push(position) });
    await fireSome(account, 2);
    const size = await sizeOf(account);
    await until('all of them came', () => seen.length >= size);
    await second.stop();
    expect(seen.slice(0, size)).toEqual(Array.from({ length: size }, (_, n) => String(n)));
  }, 60_000);

  it('gives only the types that are wanted, opened, and survives the server', async () => {
    const account = await newAccount();
    await fireSome(account, 1);
    const auditor = await account.client('auditor');
    const prompts: unknown[] = [];
    const subscription = auditor.follow('openings', {
      types: ['invocation.opened'],
      content: 'open',
      onEvent: ({ type, data }) => void prompts.push([type, (data.context as { systemPrompt: string }).systemPrompt]),
    });
    await until('the first came', () => prompts.length === 1);
    await server.kill();
    server = await startServer({ port, dataDir: server.dataDir });
    await fireSome(account, 2);
    await until('the others came', () => prompts.length === 3);
    await subscription.stop();
    expect(prompts).toEqual(['Prompt 0.', 'Prompt 0.', 'Prompt 1.'].map((text) => ['invocation.opened', text]));
  }, 90_000);

  it('begins with what comes next where it is told to, also when the first connection fails', async () => {
    const account = await newAccount();
    await fireSome(account, 1);
    // The stream is refused at first: what is fired meanwhile comes all the same.
    let streams = 0;
    const fetchOnce: typeof fetch = (input, init) => {
      if (!(input as string).includes('/events/stream')) return fetch(input, init);
      streams += 1;
      if (streams > 1) return fetch(input, init);
      return fireSome(account, 1).then(() => Promise.reject(new TypeError('not yet')));
    };
    const auditor = await account.client('auditor', { fetch: fetchOnce });
    const types: string[] = [];
    const subscription = auditor.follow('next', { from: 'now', onEvent: ({ type }) => void types.push(type) });
    await until('the firing came', () => types.includes('invocation.closed'));
    await subscription.stop();
    expect(types.filter((type) => type.startsWith('invocation.'))).toEqual(['invocation.opened', 'invocation.closed']);
  }, 60_000);

  it('ends where the key may not read', async () => {
    const account = await newAccount();
    const runtime = await account.client('runtime');
    const subscription = runtime.follow('all', { onEvent: () => undefined });
    await expect(subscription.done).rejects.toMatchObject({ status: 403 });
  });

  it('opens sealed values, of an event or by themselves', async () => {
    const account = await newAccount();
    await fireSome(account, 1);
    const auditor = await account.client('auditor');
    const sealed: LedgerEvent[] = [];
    const subscription = auditor.follow('sealed', {
      types: ['invocation.opened'],
      onEvent: (event) => void sealed.push(event),
    });
    await until('it came', () => sealed.length === 1);
    await subscription.stop();
    const [event] = sealed;
    if (event === undefined) throw new Error('none came');
    expect(event.data.context).not.toMatchObject(prompt('Prompt 0.').context);
    expect((await auditor.open(event)).data.context).toEqual(prompt('Prompt 0.').context);
    const [value] = await auditor.open([event.data.context as never]);
    expect(value).toEqual(prompt('Prompt 0.').context);
    const blind = await account.client('runtime');
    await expect(blind.open(event)).rejects.toMatchObject({ status: 403 });
  }, 60_000);
});
