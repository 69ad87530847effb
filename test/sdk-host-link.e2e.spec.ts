import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { WebSocket as WsSocket } from 'ws';
import { createClient, type Client, type HostCall, type LinkSocket } from '#sdk';
import { startFaultyProxy } from './support/faulty-proxy.js';
import { freePort, startServer, until, type RunningServer } from './support/running-server.js';

/** `serveHost` of the client against the running server. */

let server: RunningServer;
let port: number;
const clients: Client[] = [];

beforeAll(async () => {
  port = await freePort();
  server = await startServer({ port });
}, 120_000);

afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await server.close();
}, 120_000);

interface Account {
  readonly base: string;
  client(url?: string): Promise<Client>;
  events(...types: readonly string[]): Promise<readonly { type: string; hop?: number; data: { ok?: boolean } }[]>;
}

let accounts = 0;

const newAccount = async (source: string): Promise<Account> => {
  const id = `link-${String((accounts += 1))}`;
  expect((await server.call('POST', '/v1/accounts', { body: { id, name: id } })).status).toBe(201);
  const base = `/v1/accounts/${id}`;
  const key = await server.call<{ secret: string }>('POST', `${base}/keys`, { body: { role: 'runtime', name: 'r' } });
  const body = { id: 'asker', dialect: 'middleware', language: 'javascript', source, enabled: true, reason: 'test' };
  const installed = await server.call('POST', `${base}/plugins`, { body });
  expect([installed.status, installed.text]).toEqual([201, installed.text]);
  return {
    base,
    client: (url = server.url) => {
      const backoff = { firstMs: 10, mostMs: 100 };
      const client = createClient({ url, account: id, key: key.body.secret, backoff, deadlineMs: 120_000 });
      clients.push(client);
      return Promise.resolve(client);
    },
    events: async (...types) => {
      const path = `${base}/events?limit=500&content=open&type=${types.join(',')}`;
      return (await server.call<{ items: never[] }>('GET', path)).body.items;
    },
  };
};

const asksForUptime = `
  globalThis.middleware.sshCommandCompleted = async (c) => {
    const { output } = await host.ssh.command('uptime', { timeoutSeconds: 30 });
    return { output: c.output + output };
  };`;

const completed = {
  context: {
    sessionId: '42',
    agentId: '7',
    sshHostId: '9',
    hostDisplayName: 'web-1',
    kind: 'command',
    command: 'ls',
    path: null,
    exitCode: 0,
    output: 'a file; ',
    errorOutput: '',
    isTruncated: false,
    durationMs: 1,
  },
} as const;

const up = { exitCode: 0, output: 'up 3 days', errorOutput: '', isTruncated: false };

describe('a link', () => {
  it('serves what plugins ask for, with the server it is for and the time that there is', async () => {
    const account = await newAccount(asksForUptime);
    const client = await account.client();
    const calls: HostCall[] = [];
    const link = client.serveHost({
      'ssh.command': (call, command, { timeoutSeconds }) => {
        calls.push(call);
        expect([command, timeoutSeconds]).toEqual(['uptime', 30]);
        return up;
      },
    });
    await link.connected;
    const answer = await client.fire('middleware/sshCommandCompleted', completed);
    expect(answer.value).toEqual({ output: 'a file; up 3 days', errorOutput: '' });
    expect(calls).toMatchObject([
      { member: 'ssh.command', pluginId: 'asker', scope: { sshHostId: '9', sessionId: '42' } },
    ]);
    await link.close();
    expect([link.state, link.serving]).toEqual(['closed', 0]);
  }, 60_000);

  it('rejects in the plugin with what a handler throws, and refuses members that it does not serve', async () => {
    const account = await newAccount(`
      globalThis.middleware.sshCommandCompleted = async () => {
        const said = await host.ssh.command('uptime').catch((error) => error.message);
        const agents = await host.agents.list().catch((error) => error.message);
        return { output: JSON.stringify([said, agents]) };
      };`);
    const client = await account.client();
    const link = client.serveHost({
      'ssh.command': () => {
        throw new Error('no route to host');
      },
    });
    await link.connected;
    const answer = await client.fire('middleware/sshCommandCompleted', completed);
    const [said, agents] = JSON.parse(answer.value?.output ?? '') as readonly [string, string];
    expect(said).toContain('no route to host');
    expect(agents).toContain('no runtime');
    await link.close();
  }, 60_000);

  it('hands on the cause, so that what a message leads to is one hop further, after its sender has closed', async () => {
    const account = await newAccount(`
      globalThis.middleware.userMessageInbound = async (c) => { await host.session.peer.send('other', c.text); return c.text; };
      globalThis.middleware.interAgentMessage = (c) => c.text + '!';`);
    const client = await account.client();
    const delivered: { readonly text: string; readonly hop: number; readonly closedBefore: boolean }[] = [];
    const deliver = async (call: HostCall, targetSessionId: string, text: string): Promise<void> => {
      await call.invocationClosed();
      const closedBefore = (await account.events('invocation.closed')).length === 1;
      const answer = await client.descending({ cause: call.cause }).fire('middleware/interAgentMessage', {
        context: { senderSessionId: '42', senderAgentId: '7', targetSessionId, isSubagentReport: false, text },
      });
      if (answer.decidedAlone || answer.outcome === 'cancelled') throw new Error('it was delivered');
      delivered.push({ text: answer.value, hop: answer.hop, closedBefore });
    };
    const link = client.serveHost({
      'session.peer.send': (call, target, text) => {
        void deliver(call, target, text);
        return null;
      },
    });
    await link.connected;
    const said = { context: { sessionId: '42', channelId: null, text: 'hello', mediaIds: [] } };
    expect((await client.fire('middleware/userMessageInbound', said)).outcome).toBe('passed');
    await until('it was delivered', () => delivered.length === 1);
    expect(delivered).toEqual([{ text: 'hello!', hop: 1, closedBefore: true }]);
    await link.close();
  }, 60_000);

  it('runs a call once though its connection breaks before it is answered, and answers over the next', async () => {
    const account = await newAccount(asksForUptime);
    let runs = 0;
    let go = (): void => undefined;
    const going = new Promise<void>((resolve) => (go = resolve));
    let proxy = await startFaultyProxy(server.url, () => ({ kind: 'none' }));
    const { url } = proxy;
    const connected: unknown[] = [];
    const runtime = await account.client(url);
    const link = runtime.serveHost(
      {
        'ssh.command': async () => {
          runs += 1;
          await going;
          return up;
        },
      },
      { onConnected: () => connected.push(1) },
    );
    await link.connected;
    const firing = (await account.client()).fire('middleware/sshCommandCompleted', completed);
    await until('the call came', () => runs === 1);
    await proxy.close();
    proxy = await startFaultyProxy(server.url, () => ({ kind: 'none' }), Number(new URL(url).port));
    await until('it is connected again', () => connected.length === 2);
    go();
    expect((await firing).value).toEqual({ output: 'a file; up 3 days', errorOutput: '' });
    expect(runs).toBe(1);
    expect((await account.events('host.answered')).map(({ data }) => data.ok)).toEqual([true]);
    await link.close();
    await proxy.close();
  }, 60_000);

  it('answers from memory where the answer itself was lost on the way', async () => {
    const account = await newAccount(asksForUptime);
    let runs = 0;
    const client = await account.client();
    let sockets = 0;
    // The first connection swallows every answer, and breaks.
    const link = client.serveHost(
      {
        'ssh.command': () => {
          runs += 1;
          return up;
        },
      },
      {
        openSocket: (url, { protocol, headers }) => {
          const socket = new WsSocket(url, protocol, { headers });
          sockets += 1;
          if (sockets > 1) return socket as unknown as LinkSocket;
          const send = socket.send.bind(socket);
          socket.send = (text: string) => (text.includes('"result"') ? socket.terminate() : send(text));
          return socket as unknown as LinkSocket;
        },
      },
    );
    await link.connected;
    const answer = await client.fire('middleware/sshCommandCompleted', completed);
    expect(answer.value).toEqual({ output: 'a file; up 3 days', errorOutput: '' });
    expect([runs, sockets]).toEqual([1, 2]);
    await link.close();
  }, 60_000);

  it('aborts the work of a call that nobody waits for any more', async () => {
    const account = await newAccount(`
      globalThis.middleware.userMessageInbound = async (c) => { await host.session.conversation.read(); return c.text; };`);
    await server.call('PATCH', `${account.base}/plugins/asker`, {
      body: { timeouts: { hooks: { userMessageInbound: 500 } }, reason: 'test' },
      headers: { 'if-match': '*' },
    });
    const client = await account.client();
    let reason: unknown = null;
    const link = client.serveHost({
      'session.conversation.read': ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            reason = signal.reason;
            reject(new Error('aborted'));
          });
        }),
    });
    await link.connected;
    const said = { context: { sessionId: '42', channelId: null, text: 'hello', mediaIds: [] } };
    const answer = await client.fire('middleware/userMessageInbound', said);
    if (answer.decidedAlone) throw new Error('the server was there');
    expect(answer.handlers[0]).toMatchObject({ outcome: 'skipped', cause: 'timed_out' });
    await until('the work was aborted', () => reason !== null);
    await link.close();
  }, 60_000);

  it('connects again to a server that was killed, and serves the attempt that follows', async () => {
    const account = await newAccount(asksForUptime);
    const client = await account.client();
    let runs = 0;
    const callIds = new Set<string>();
    const link = client.serveHost({
      'ssh.command': async (call) => {
        runs += 1;
        callIds.add(call.callId);
        if (runs === 1) await new Promise((_, reject) => call.signal.addEventListener('abort', reject));
        return up;
      },
    });
    await link.connected;
    const firing = client.fire('middleware/sshCommandCompleted', completed, { reachMs: 100_000 });
    await until('the call came', () => runs === 1);
    await server.kill();
    server = await startServer({ port, dataDir: server.dataDir });
    const answer = await firing;
    expect(answer.value).toEqual({ output: 'a file; up 3 days', errorOutput: '' });
    if (answer.decidedAlone) throw new Error('the server was back');
    // A new attempt asks anew: each call was run once.
    expect([answer.attempt, runs, callIds.size]).toEqual([2, 2, 2]);
    await link.close();
  }, 120_000);
});
