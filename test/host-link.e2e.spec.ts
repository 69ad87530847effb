import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { WebSocket } from 'ws';
import { startServer, until, type CallAnswer, type RunningServer } from './support/running-server.js';
import { never, startRuntime, type RuntimeCall, type Serve, type TestRuntime } from './support/test-runtime.js';

const base = '/v1/accounts/default';

let server: RunningServer;
let key: string;
const runtimes: TestRuntime[] = [];
const installed: string[] = [];

const runtimeKey = async (account = 'default'): Promise<string> => {
  const body = { role: 'runtime', name: 'r' };
  const answer = await server.call<{ secret: string }>('POST', `/v1/accounts/${account}/keys`, { body });
  return answer.body.secret;
};

beforeAll(async () => {
  server = await startServer();
  key = await runtimeKey();
}, 120_000);

afterEach(async () => {
  for (const runtime of runtimes.splice(0)) await runtime.close();
  for (const id of installed.splice(0)) await uninstall(id);
});

afterAll(async () => {
  await server.close();
}, 60_000);

const connect = async (serve: Serve, options: Parameters<typeof startRuntime>[3] = {}): Promise<TestRuntime> => {
  const runtime = await startRuntime(
    server.url,
    options.account === undefined ? key : await runtimeKey(options.account),
    serve,
    options,
  );
  runtimes.push(runtime);
  return runtime;
};

const gone = async (...some: readonly TestRuntime[]): Promise<void> => {
  for (const runtime of some) {
    await runtime.close();
    runtimes.splice(runtimes.indexOf(runtime), 1);
  }
};

const install = async (id: string, source: string, more: object = {}, account = 'default'): Promise<void> => {
  const body = {
    id,
    name: id,
    version: '1',
    dialect: 'middleware',
    language: 'javascript',
    source,
    reason: 'test',
    ...more,
  };
  const answer = await server.call('POST', `/v1/accounts/${account}/plugins`, { body });
  if (answer.status !== 201) throw new Error(answer.text);
  installed.push(id);
};

const uninstall = async (id: string, account = 'default'): Promise<void> => {
  await server.call('DELETE', `/v1/accounts/${account}/plugins/${id}`, { headers: { 'if-match': '*' } });
};

/** Installs a plugin for as long as `work` takes. */
const withPlugin = async <T>(id: string, source: string, work: () => Promise<T>, more: object = {}): Promise<T> => {
  await install(id, source, more);
  try {
    return await work();
  } finally {
    await uninstall(id);
  }
};

interface Fired {
  readonly invocationId: string;
  readonly outcome: string;
  readonly value: string;
  readonly hop: number;
  readonly hostSession: string;
  readonly cancellation: { readonly reason: string };
  readonly handlers: readonly { readonly warnings: readonly object[] }[];
}

const fire = (hook: string, context: object, more: object = {}): Promise<CallAnswer<Fired>> =>
  server.call('POST', `${base}/hooks/middleware/${hook}?wait=55`, { key, body: { context, ...more } });

const inbound = (text: string, sessionId = '42') => ({ sessionId, channelId: null, text, mediaIds: [] });
const message = (text: string) => ({
  senderSessionId: '1',
  senderAgentId: '7',
  targetSessionId: '2',
  isSubagentReport: false,
  text,
});
const opening = (sshHostId = 'h1') => ({
  sessionId: '42',
  agentId: '7',
  sshHostId,
  hostDisplayName: 'web',
  hostname: 'web.example',
  port: 22,
  connectionType: 'direct',
  username: 'root',
});

interface RecordedCall {
  readonly callId: string;
  readonly member: string;
  readonly state: string;
  readonly code: string | null;
}

const callsOf = async (invocationId: string): Promise<readonly RecordedCall[]> => {
  const path = `${base}/invocations/${invocationId}`;
  const read = await server.call<{ handlers: { hostCalls: RecordedCall[] }[] }>('GET', path);
  return read.body.handlers.flatMap(({ hostCalls }) => hostCalls);
};

const asks = (member: string, call: string): string =>
  `globalThis.middleware.userMessageInbound = async (c) => {
    try { return JSON.stringify(await (${call})); } catch (e) { return 'rejected ' + e.code + ': ' + e.message; }
  }; // ${member}`;

const sshRuns = (command: string): string =>
  `globalThis.middleware.sshConnectionOpening = async (c, tools) => {
    try { host.log('info', JSON.stringify(await host.ssh.command(${command}))); }
    catch (e) { host.log('warn', 'rejected ' + e.code); return tools.cancel('rejected ' + e.code); }
  };`;

describe('the host link', () => {
  it('serves every member that a runtime serves, recorded as asked and then as answered', async () => {
    const runtime = await connect(({ member, args }) => ({ member, args }));
    const source = `globalThis.middleware.systemPrompt = async (c) => JSON.stringify([
      host.workspace.agentId, host.session.id,
      await host.session.conversation.read(), await host.session.peer.send('9', 'hi'), await host.agents.list(),
      await host.llm({ prompt: 'x' }), await host.decide({ question: 'y' }), typeof host.ssh]);`;
    const answer = await withPlugin('all', source, () =>
      fire('systemPrompt', { sessionId: '42', agentId: '7', sessionKind: 'chat', systemPrompt: 'p' }),
    );
    expect(JSON.parse(answer.body.value)).toEqual([
      '7',
      '42',
      { member: 'session.conversation.read', args: [] },
      { member: 'session.peer.send', args: ['9', 'hi'] },
      { member: 'agents.list', args: [] },
      { member: 'llm', args: [{ prompt: 'x' }] },
      { member: 'decide', args: [{ question: 'y' }] },
      'undefined',
    ]);
    const calls = await callsOf(answer.body.invocationId);
    expect(calls.map(({ member, state }) => [member, state])).toEqual([
      ['session.conversation.read', 'answered'],
      ['session.peer.send', 'answered'],
      ['agents.list', 'answered'],
      ['llm', 'answered'],
      ['decide', 'answered'],
    ]);
    expect(runtime.done[0]).toMatchObject({
      type: 'call',
      invocationId: answer.body.invocationId,
      scope: { sessionId: '42', agentId: '7', sshHostId: null },
      timeoutMs: 60_000,
    });
    await gone(runtime);
  });

  it('sends calls at once to a runtime that says no hello, as the contract has it', async () => {
    const runtime = await connect(() => ({ agents: [] }), { runtimeId: null });
    const answer = await withPlugin('plain', asks('agents.list', 'host.agents.list()'), () =>
      fire('userMessageInbound', inbound('x')),
    );
    expect(answer.body.value).toBe('{"agents":[]}');
    await gone(runtime);
  });

  it('refuses what nobody serves, records why, and makes no call', async () => {
    const answer = await withPlugin('none', asks('agents.list', 'host.agents.list()'), () =>
      fire('userMessageInbound', inbound('x')),
    );
    expect(answer.body.value).toContain('rejected no_runtime');
    expect(await callsOf(answer.body.invocationId)).toMatchObject([
      { member: 'agents.list', state: 'refused', code: 'no_runtime' },
    ]);
  });

  it('tells a plugin what a runtime says went wrong', async () => {
    const runtime = await connect(() => {
      throw new Error('no such session');
    });
    const answer = await withPlugin('wrong', asks('conversation', 'host.session.conversation.read()'), () =>
      fire('userMessageInbound', inbound('x')),
    );
    expect(answer.body.value).toContain('no such session');
    expect(await callsOf(answer.body.invocationId)).toMatchObject([{ state: 'failed' }]);
    await gone(runtime);
  });

  it('goes to the runtime that serves the session, the server and the member', async () => {
    const one = await connect(() => 'one', { serves: { sessionIds: ['a'], members: ['session'] } });
    const two = await connect(() => 'two', { serves: { sessionIds: ['b'] } });
    const any = await connect(() => 'any', { serves: { members: ['agents.list'] } });
    await withPlugin(
      'who',
      asks('read', "c.text === 'agents' ? host.agents.list() : host.session.conversation.read()"),
      async () => {
        const said = async (session: string, text = 'x'): Promise<string> =>
          (await fire('userMessageInbound', inbound(text, session))).body.value;
        expect(await said('a')).toBe('"one"');
        expect(await said('b')).toBe('"two"');
        expect(await said('c')).toContain('no_runtime');
        expect(await said('a', 'agents')).toBe('"any"');
        expect(await said('b', 'agents')).toBe('"two"');
      },
    );
    await gone(one, two, any);
  });

  it('prefers, among equals, the runtime that fired the hook', async () => {
    const other = await runtimeKey();
    const mine = await connect(() => 'mine');
    const theirs = await startRuntime(server.url, other, () => 'theirs');
    runtimes.push(theirs);
    await withPlugin('mine', asks('agents', 'host.agents.list()'), async () => {
      expect((await fire('userMessageInbound', inbound('x'))).body.value).toBe('"mine"');
      const fired = await server.call<Fired>('POST', `${base}/hooks/middleware/userMessageInbound`, {
        key: other,
        body: { context: inbound('x') },
      });
      expect(fired.body.value).toBe('"theirs"');
    });
    await gone(mine, theirs);
  });

  it('sends a call again to a runtime that comes back, which does it once', async () => {
    let come: (value: string) => void = () => undefined;
    const runtime = await connect(() => new Promise((resolve) => (come = resolve)));
    await withPlugin('back', sshRuns("'uptime'"), async () => {
      const fired = fire('sshConnectionOpening', opening(), { turnId: 'back' });
      await until('the call is there', () => runtime.done.length === 1);
      runtime.cut();
      await runtime.closed;
      await runtime.connect();
      await until('the call is there again', () => runtime.received.length === 2);
      come({ exitCode: 0, output: 'up', errorOutput: '', isTruncated: false, durationMs: 3 } as never);
      const answer = await fired;
      expect(answer.body.outcome).toBe('observed');
      expect(runtime.done).toHaveLength(1);
      expect(await callsOf(answer.body.invocationId)).toMatchObject([{ member: 'ssh.command', state: 'answered' }, {}]);
    });
    await gone(runtime);
  });

  it('sends a call again to a runtime without a name that comes back with its key', async () => {
    let wasCut = false;
    const runtime = await connect(() => (wasCut ? { exitCode: 0, output: '', errorOutput: '' } : never), {
      runtimeId: null,
    });
    await withPlugin('plainback', sshRuns("'uptime'"), async () => {
      const fired = fire('sshConnectionOpening', opening(), { turnId: 'plainback' });
      await until('the call is there', () => runtime.received.length === 1);
      wasCut = true;
      runtime.cut();
      await runtime.closed;
      await runtime.connect();
      await until('the call is there again', () => runtime.received.length === 2);
      const [call] = runtime.received;
      runtime.say({ type: 'result', callId: call?.callId, value: { exitCode: 0, output: 'again', errorOutput: '' } });
      expect((await fired).body.outcome).toBe('observed');
    });
    await gone(runtime);
  });

  it('goes over to the newer connection of a runtime that comes back before the old one is seen to end', async () => {
    const runtime = await connect(() => never);
    await withPlugin('twice', sshRuns("'uptime'"), async () => {
      const fired = fire('sshConnectionOpening', opening(), { turnId: 'twice' });
      await until('the call is there', () => runtime.received.length === 1);
      const first = runtime.closed;
      await runtime.connect();
      expect(await first).toBe(4409);
      await until('the call is there again', () => runtime.received.length === 2);
      runtime.say({
        type: 'result',
        callId: runtime.received[0]?.callId,
        value: { exitCode: 0, output: '', errorOutput: '' },
      });
      expect((await fired).body.outcome).toBe('observed');
    });
    await gone(runtime);
  });

  it('does not send a call to another runtime when the first one is gone, and records it as unknown', async () => {
    const first = await connect(() => never, { serves: { sshHostIds: ['h1'] } });
    await withPlugin('gone', sshRuns("'reboot', { timeoutSeconds: 1 }"), async () => {
      const fired = fire('sshConnectionOpening', opening(), { turnId: 'gone' });
      await until('the call is there', () => first.received.length === 1);
      const second = await connect(() => ({ exitCode: 0, output: '', errorOutput: '' }));
      await gone(first);
      const answer = await fired;
      expect(answer.body.cancellation.reason).toBe('rejected timeout');
      expect(second.received).toEqual([]);
      expect((await callsOf(answer.body.invocationId))[0]).toMatchObject({
        state: 'unknown',
        code: 'timeout',
      });
      await gone(second);
    });
  });

  it('ignores a second answer to a call, and one to a call that is not there', async () => {
    const runtime = await connect(() => never);
    await withPlugin('second', asks('agents', 'host.agents.list()'), async () => {
      const fired = fire('userMessageInbound', inbound('x'));
      await until('the call is there', () => runtime.received.length === 1);
      const callId = runtime.received[0]?.callId;
      runtime.say({ type: 'result', callId: 'none', value: 'wrong' });
      runtime.say({ type: 'result', callId, value: 'first' });
      runtime.say({ type: 'result', callId, value: 'second' });
      runtime.say({ type: 'error', callId, message: 'third' });
      expect((await fired).body.value).toBe('"first"');
      expect(await callsOf((await fired).body.invocationId)).toHaveLength(1);
    });
    await gone(runtime);
  });

  it('takes a call back when the run that asked has ended', async () => {
    const runtime = await connect(() => never);
    const source = `globalThis.middleware.userMessageInbound = async (c) => { void host.agents.list().catch(() => {}); await host.session.conversation.read(); return c.text; };`;
    const answer = await withPlugin('ended', source, () => fire('userMessageInbound', inbound('x')), {
      timeouts: { hooks: { userMessageInbound: 300 } },
    });
    expect(answer.body.handlers[0]).toMatchObject({ outcome: 'skipped', cause: 'timed_out' });
    await until('both are cancelled', () => runtime.cancelled.length === 2);
    const calls = await callsOf(answer.body.invocationId);
    expect(calls.map(({ state, code }) => [state, code])).toEqual([
      ['unknown', 'closed'],
      ['unknown', 'closed'],
    ]);
    await gone(runtime);
  });

  it('stops the clock of a handler for ssh.command and for nothing else (MW-52)', async () => {
    const late = <T>(value: T): Promise<T> => new Promise((resolve) => setTimeout(() => resolve(value), 700));
    const runtime = await connect(({ member }) =>
      late(member === 'ssh.command' ? { exitCode: 3, output: 'o', errorOutput: 'e' } : {}),
    );
    const source = `globalThis.middleware.sshConnectionOpening = async (c, tools) => tools.cancel(JSON.stringify(await (c.username === 'root' ? host.ssh.command('x') : host.agents.list())));`;
    await withPlugin(
      'clock',
      source,
      async () => {
        const stood = await fire('sshConnectionOpening', opening(), { turnId: 'clock' });
        expect(JSON.parse(stood.body.cancellation.reason)).toEqual({
          exitCode: 3,
          output: 'o',
          errorOutput: 'e',
          isTruncated: false,
        });
        const ran = await fire('sshConnectionOpening', { ...opening(), username: 'ada' }, { turnId: 'clock2' });
        expect(ran.body.handlers[0]).toMatchObject({ outcome: 'skipped', cause: 'timed_out' });
      },
      { timeouts: { hooks: { sshConnectionOpening: 400 } } },
    );
    await gone(runtime);
  });

  it('takes ten commands of a run and refuses the eleventh; 60 s unless the plugin says, 90 at most', async () => {
    const runtime = await connect(() => ({ exitCode: 0, output: 'x'.repeat(2_000_000), errorOutput: '' }));
    const source = `globalThis.middleware.sshConnectionOpening = async (c, tools) => {
      const said = [];
      for (let i = 0; i < 11; i++) {
        const r = await host.ssh.command('n' + i, i === 1 ? { timeoutSeconds: 500 } : undefined).catch((e) => e.code);
        said.push(r.output === undefined ? r : r.output.length + ' ' + r.isTruncated);
      }
      return tools.cancel(said.slice(9).join());
    };`;
    const answer = await withPlugin('eleven', source, () =>
      fire('sshConnectionOpening', opening(), { turnId: 'eleven' }),
    );
    expect(answer.body.cancellation.reason).toBe('1048576 true,ssh_call_limit');
    expect(answer.body.handlers[0]?.warnings).toContainEqual({ code: 'ssh_timeout_clamped', detail: null });
    expect(runtime.done.map(({ args }) => (args[1] as { timeoutSeconds: number }).timeoutSeconds).slice(0, 2)).toEqual([
      60, 90,
    ]);
    expect(runtime.done).toHaveLength(10);
    await gone(runtime);
  });

  it('takes OpenClaw’s getCron to the runtime', async () => {
    const runtime = await connect(({ member, args }) => ({ member, args }));
    const source = `import { definePluginEntry } from 'openclaw/plugin-sdk/plugin-entry';
      export default definePluginEntry({ id: 'oc', name: 'oc', register(api) {
        api.on('gateway_start', async (event, ctx) => { api.logger.info(JSON.stringify(await ctx.getCron().list({ all: true }))); });
      } });`;
    await withPlugin(
      'oc',
      source,
      async () => {
        const answer = await server.call('POST', `${base}/hooks/openclaw/gateway_start`, {
          key,
          body: { event: { port: 1 }, context: {} },
        });
        expect([answer.status, answer.text]).toEqual([200, expect.anything()]);
        expect(runtime.done).toMatchObject([{ member: 'cron.list', args: [{ all: true }] }]);
      },
      { dialect: 'openclaw' },
    );
    await gone(runtime);
  });
});

describe('what the platform serves itself', () => {
  let inside: Server;
  let port = 0;
  let reached: string[] = [];
  beforeAll(async () => {
    inside = createServer((request, response) => {
      reached.push(`${request.method ?? ''} ${request.url ?? ''} ${request.headers.authorization ?? ''}`);
      const message = { content: '{"allow":true,"why":"fine"}' };
      response.end(JSON.stringify({ choices: [{ message, finish_reason: 'stop' }], usage: null }));
    });
    await new Promise<void>((resolve) => inside.listen(0, '127.0.0.1', resolve));
    port = (inside.address() as AddressInfo).port;
  });
  afterAll(() => {
    inside.close();
  });
  beforeEach(() => {
    reached = [];
  });

  const settings = async (body: object): Promise<void> => {
    const answer = await server.call('PATCH', `${base}/settings`, { body });
    if (answer.status !== 200) throw new Error(answer.text);
  };

  it('is host.fetch, to no host that the account does not name and to no address that is not public', async () => {
    const local = `localhost:${String(port)}`;
    await settings({
      fetchHosts: [local, `127.0.0.1:${String(port)}`],
      pluginFetchHosts: { narrow: ['api.example.org'] },
    });
    const said = async (id: string, url: string): Promise<readonly [string, RecordedCall | undefined]> => {
      const source = asks('fetch', `host.fetch(${JSON.stringify(url)})`);
      const answer = await withPlugin(id, source, () => fire('userMessageInbound', inbound('x')));
      const [call] = await callsOf(answer.body.invocationId);
      return [answer.body.value.split(':')[0] ?? '', call];
    };
    for (const url of [`http://${local}/`, `http://127.0.0.1:${String(port)}/`, `http://2130706433:${String(port)}/`]) {
      const [told, call] = await said('wide', url);
      expect([told, call?.state, call?.code]).toEqual([
        'rejected address_not_allowed',
        'refused',
        'address_not_allowed',
      ]);
    }
    expect((await said('narrow', `http://${local}/`))[0]).toBe('rejected host_not_allowed');
    expect((await said('wide', 'http://api.example.org/'))[0]).toBe('rejected host_not_allowed');
    expect(reached).toEqual([]);
    await settings({ fetchHosts: null, pluginFetchHosts: null });
  }, 30_000);

  it('is the account’s model, with its secret, unless its address is not public and the operator does not name it', async () => {
    const other = await startServer({ env: { HOOKLEDGER_MODEL_HOSTS: `localhost:${String(port)}` } });
    const ask = async (at: RunningServer): Promise<string> => {
      const url = `http://localhost:${String(port)}/v1`;
      await at.call('PUT', `${base}/secrets/model`, { body: { value: 'the-key' } });
      await at.call('PATCH', `${base}/settings`, {
        body: { modelEndpoint: { url, model: 'm', apiKey: { $secret: 'model' } } },
      });
      const source = asks('decide', "host.decide({ question: 'may it?' })");
      const body = {
        id: 'asks',
        name: 'asks',
        version: '1',
        dialect: 'middleware',
        language: 'javascript',
        source,
        reason: 'test',
      };
      await at.call('POST', `${base}/plugins`, { body });
      const fired = await at.call<Fired>('POST', `${base}/hooks/middleware/userMessageInbound`, {
        body: { context: inbound('x') },
      });
      await at.call('PATCH', `${base}/settings`, { body: { modelEndpoint: null } });
      await at.call('DELETE', `${base}/plugins/asks`, { headers: { 'if-match': '*' } });
      return fired.body.value;
    };
    try {
      expect(await ask(server)).toContain('rejected address_not_allowed');
      expect(reached).toEqual([]);
      expect(await ask(other)).toBe('{"allow":true,"why":"fine"}');
      expect(reached).toEqual(['POST /v1/chat/completions Bearer the-key']);
    } finally {
      await other.close();
    }
  }, 60_000);
});

describe('who may connect', () => {
  const tried = (path: string, headers: Readonly<Record<string, string>>, protocols: string[] = []): Promise<number> =>
    new Promise((resolve) => {
      const socket = new WebSocket(`${server.url.replace('http', 'ws')}${path}`, protocols, { headers });
      socket.on('error', () => undefined);
      socket.once('open', () => {
        socket.close();
        resolve(101);
      });
      socket.once('unexpected-response', (_, response) => resolve(response.statusCode ?? 0));
    });

  it('is a runtime of the account, with a live key', async () => {
    const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });
    const auditor = await server.call<{ secret: string }>('POST', `${base}/keys`, {
      body: { role: 'auditor', name: 'a' },
    });
    await server.call('POST', '/v1/accounts', { body: { id: 'other', name: 'Other' } });
    expect(await tried(`${base}/host-link`, bearer(key))).toBe(101);
    expect(await tried(`${base}/host-link`, {})).toBe(401);
    expect(await tried(`${base}/host-link`, bearer('wrong'))).toBe(401);
    expect(await tried(`${base}/host-link`, bearer(auditor.body.secret))).toBe(403);
    expect(await tried('/v1/accounts/other/host-link', bearer(key))).toBe(404);
    expect(await tried('/v1/accounts/none/host-link', bearer(key))).toBe(404);
    expect(await tried('/v1/accounts/%00/host-link', bearer(key))).toBe(400);
    expect(await tried(`${base}/host-link?x=1`, bearer(key))).toBe(400);
    expect(await tried(`${base}/host-link`, bearer(key), ['other.v9'])).toBe(400);
    expect(await tried(`${base}/events`, bearer(key))).not.toBe(101);
  });

  it('is told to ask for a WebSocket, and other upgrades are answered as plain requests', async () => {
    const plain = await server.call<{ code: string }>('GET', `${base}/host-link`, { key });
    expect([plain.status, plain.body.code]).toEqual([426, 'upgrade_required']);
    const socket = await server.call('GET', '/health/live');
    expect(socket.status).toBe(200);
  });

  it('is sent away when its key is revoked', async () => {
    const made = await server.call<{ secret: string; id: string }>('POST', `${base}/keys`, {
      body: { role: 'runtime', name: 'brief' },
    });
    const runtime = await startRuntime(server.url, made.body.secret, () => never);
    await server.call('DELETE', `${base}/keys/${made.body.id}`, { headers: { 'if-match': '*' } });
    expect(await runtime.closed).toBe(4401);
  });

  it('reaches no call of another account', async () => {
    const foreign = await connect(() => 'foreign', { account: 'other' });
    const answer = await withPlugin('apart', asks('agents', 'host.agents.list()'), () =>
      fire('userMessageInbound', inbound('x')),
    );
    expect(answer.body.value).toContain('no_runtime');
    const own = await connect(() => never);
    await withPlugin('apart', asks('agents', 'host.agents.list()'), async () => {
      const fired = fire('userMessageInbound', inbound('x'));
      await until('the call is there', () => own.received.length === 1);
      foreign.say({ type: 'result', callId: own.received[0]?.callId, value: 'forged' });
      own.say({ type: 'result', callId: own.received[0]?.callId, value: 'own' });
      expect((await fired).body.value).toBe('"own"');
    });
    await gone(foreign, own);
  });
});

describe('a hostile runtime', () => {
  it('fails its own call with a frame that cannot be kept as it came, and stays', async () => {
    const runtime = await connect(() => never);
    await withPlugin('bad', asks('agents', 'host.agents.list()'), async () => {
      const answers: string[] = [];
      for (const value of ['{"a":1,"a":2}', '12345678901234567890123', `${'['.repeat(300)}${']'.repeat(300)}`]) {
        const before = runtime.received.length;
        const fired = fire('userMessageInbound', inbound('x'));
        await until('the call is there', () => runtime.received.length === before + 1);
        runtime.sayBytes(
          `{"type":"result","callId":${JSON.stringify(runtime.received.at(-1)?.callId)},"value":${value}}`,
        );
        answers.push((await fired).body.value);
      }
      for (const answer of answers) expect(answer).toContain('rejected bad_result');
      expect(runtime.said.filter(({ type }) => type === 'fault').map(({ code }) => code)).toEqual([
        'not_json',
        'not_json',
        'not_json',
      ]);
    });
    await gone(runtime);
  });

  it('is told of frames that are none, and its texts arrive as they are', async () => {
    const odd = { __proto__x: 1, text: 'a\u0000\ud800\u2028b' };
    const runtime = await connect(() => odd);
    for (const bytes of [
      '',
      'null',
      '[]',
      '{}',
      '{"type":"call"}',
      '{"type":"result"}',
      '{"type":"error","callId":"x"}',
      '{"type":"hello"}',
    ])
      runtime.sayBytes(bytes);
    runtime.sayBytes('{"type":"hello","runtimeId":"another"}');
    await until('all are answered', () => runtime.said.filter(({ type }) => type === 'fault').length === 9);
    const answer = await withPlugin('odd', asks('agents', 'host.agents.list()'), () =>
      fire('userMessageInbound', inbound('x')),
    );
    expect(JSON.parse(answer.body.value)).toEqual(odd);
    await gone(runtime);
  });

  it.each([
    ['sends bytes', (runtime: TestRuntime) => runtime.sayBytes(Buffer.from([1, 2, 3])), 1003],
    ['sends too much in one frame', (runtime: TestRuntime) => runtime.sayBytes('x'.repeat(9 * 1024 * 1024)), 1009],
    [
      'sends what nobody wants without end',
      (runtime: TestRuntime) => {
        for (let i = 0; i < 1_500; i += 1) runtime.say({ type: 'result', callId: 'none', value: i });
      },
      1008,
    ],
  ])('is closed when it %s', async (_, act, code) => {
    const runtime = await connect(() => never);
    act(runtime);
    expect(await runtime.closed).toBe(code);
    runtimes.splice(runtimes.indexOf(runtime), 1);
  });

  it('gives a megabyte of result and more, whole', async () => {
    const text = '𐍈'.repeat(600_000);
    const runtime = await connect(() => text);
    const answer = await withPlugin(
      'big',
      'globalThis.middleware.userMessageInbound = async (c) => String((await host.agents.list()).length);',
      () => fire('userMessageInbound', inbound('x')),
    );
    expect(answer.body.value).toBe('1200000');
    await gone(runtime);
  });
});

interface Delivered {
  readonly hop: number;
  readonly hostSession: string;
}

interface Messenger {
  readonly delivered: readonly Delivered[];
  /** Sends a message of an agent's; resolves when all that it led to is delivered. */
  readonly send: (text: string) => Promise<void>;
}

/** A runtime that carries messages: what a plugin sent is an operation of its own once its sender's chain is done. */
const messenger = async (): Promise<Messenger> => {
  const outbox = new Map<string, RuntimeCall[]>();
  const delivered: Delivered[] = [];
  await connect((call) => {
    outbox.set(call.invocationId, [...(outbox.get(call.invocationId) ?? []), call]);
    return { accepted: true };
  });
  const send = async (first: string): Promise<void> => {
    const queue: { readonly text: string; readonly cause: string | null }[] = [{ text: first, cause: null }];
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const { text, cause } = next;
      const answer = await fire('interAgentMessage', message(text), cause === null ? {} : { cause });
      if (answer.status !== 200) throw new Error(answer.text);
      const { invocationId, hop, hostSession } = answer.body;
      delivered.push({ hop, hostSession });
      for (const call of outbox.get(invocationId) ?? [])
        queue.push({ text: call.args[1] as string, cause: call.cause });
    }
  };
  return { delivered, send };
};

const sendsBack = (when: string, what: string): string =>
  `globalThis.middleware.interAgentMessage = async (c) => {
    if (c.text.startsWith('${when}')) await host.session.peer.send('9', '${what}');
    return c.text;
  };`;

interface RootTotals {
  readonly invocations: number;
  readonly sent: number;
  readonly refused: number;
  readonly metered: number;
  readonly withheld: number;
  readonly warnings: readonly string[];
}

interface SeenEvent {
  readonly type: string;
  readonly position: string;
  readonly data: {
    readonly member?: string;
    readonly ok?: boolean;
    readonly metered?: number;
    readonly warnings?: readonly { readonly code: string }[];
  };
}

/** Every event after a position; `''`: from the beginning. */
const eventsSince = async (after: string): Promise<readonly SeenEvent[]> => {
  const found: SeenEvent[] = [];
  for (let at = after; ;) {
    const path = `${base}/events?limit=500${at === '' ? '' : `&after=${at}`}`;
    const { items } = (await server.call<{ items: SeenEvent[] }>('GET', path)).body;
    found.push(...items);
    const last = items.at(-1);
    if (last === undefined || items.length < 500) return found;
    at = last.position;
  }
};

const lastPosition = async (): Promise<string> => (await eventsSince('')).at(-1)?.position ?? '';

const totalsSince = async (after: string): Promise<RootTotals> => {
  const events = await eventsSince(after);
  const of = (type: string) => events.filter((event) => event.type === type);
  return {
    invocations: of('invocation.closed').length,
    sent: of('host.answered').filter(({ data }) => data.member === 'session.peer.send' && data.ok === true).length,
    refused: of('host.refused').length,
    metered: of('invocation.closed').reduce((sum, { data }) => sum + (data.metered ?? 0), 0),
    withheld: of('session.withheld').length,
    warnings: events.flatMap(({ data }) => (data.warnings ?? []).map(({ code }) => code)),
  };
};

describe('the worked examples of the specification, over the link', () => {
  it('one: two plugins ping-pong and end at hop 5', async () => {
    const { send, delivered } = await messenger();
    await install('p', sendsBack('ping', 'pong'));
    await install('q', sendsBack('pong', 'ping'));
    const before = await lastPosition();
    await send('ping');
    await uninstall('p');
    await uninstall('q');
    expect(delivered.map(({ hop, hostSession }) => [hop, hostSession])).toEqual([
      [0, 'granted'],
      [1, 'granted'],
      [2, 'granted'],
      [3, 'granted'],
      [4, 'granted'],
      [5, 'withheld'],
    ]);
    expect(await totalsSince(before)).toEqual({
      invocations: 6,
      sent: 5,
      refused: 0,
      metered: 12,
      withheld: 1,
      warnings: ['handler_threw'],
    });
  });

  const twice = `globalThis.middleware.interAgentMessage = async (c) => {
    for (const n of ['a', 'b']) await host.session?.peer.send('9', n).catch(() => undefined);
    return c.text;
  };`;

  it('two: one plugin that sends two messages each time', async () => {
    const { send, delivered } = await messenger();
    await install('two', twice);
    const before = await lastPosition();
    await send('go');
    await uninstall('two');
    const perHop = [0, 1, 2, 3, 4, 5].map((hop) => delivered.filter((one) => one.hop === hop).length);
    expect(perHop).toEqual([1, 2, 4, 8, 16, 32]);
    expect(await totalsSince(before)).toEqual({
      invocations: 63,
      sent: 62,
      refused: 0,
      metered: 63,
      withheld: 32,
      warnings: [],
    });
  }, 120_000);

  it('two, in an account that lets ten messages descend from an event', async () => {
    await server.call('PATCH', `${base}/settings`, { body: { breadthPerRoot: 10 } });
    const { send } = await messenger();
    await install('two', twice);
    const before = await lastPosition();
    await send('go');
    await uninstall('two');
    await server.call('PATCH', `${base}/settings`, { body: { breadthPerRoot: null } });
    expect(await totalsSince(before)).toMatchObject({ invocations: 11, sent: 10, refused: 12 });
  }, 120_000);
});
