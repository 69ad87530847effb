import { spawn, type ChildProcess } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createPool, sqlOver } from '#event-store';
import { createTestDatabase, type TestDatabase } from './support/test-postgres.js';
import { startServer, until, type CallAnswer, type RunningServer } from './support/running-server.js';
import { never, startRuntime, type TestRuntime } from './support/test-runtime.js';

const base = '/v1/accounts/default';
const masterKey = '7a'.repeat(32);

let database: TestDatabase;
let one: RunningServer;
let two: RunningServer;
let key: string;
const runtimes: TestRuntime[] = [];

const start = (): Promise<RunningServer> =>
  startServer({ env: { DATABASE_URL: database.url, HOOKLEDGER_MASTER_KEY: masterKey, HOOKLEDGER_DRAIN_SECONDS: '1' } });

beforeAll(async () => {
  database = await createTestDatabase();
  one = await start();
  two = await start();
  const made = await one.call<{ secret: string }>('POST', `${base}/keys`, { body: { role: 'runtime', name: 'r' } });
  key = made.body.secret;
  const source = `globalThis.middleware.sshConnectionOpening = async (c, tools) => {
    const said = await host.ssh.command(c.username, { timeoutSeconds: Number(c.port) }).catch((e) => ({ output: 'rejected ' + e.code }));
    return tools.cancel(said.output);
  };`;
  const body = {
    id: 'runs',
    name: 'runs',
    version: '1',
    dialect: 'middleware',
    language: 'javascript',
    source,
    reason: 'test',
  };
  const installed = await one.call('POST', `${base}/plugins`, { body });
  if (installed.status !== 201) throw new Error(installed.text);
}, 120_000);

afterAll(async () => {
  for (const runtime of runtimes) await runtime.close().catch(() => undefined);
  await one.close();
  await two.close();
  await database.drop();
}, 60_000);

const connect = async (...given: Parameters<typeof startRuntime>): Promise<TestRuntime> => {
  const runtime = await startRuntime(...given);
  runtimes.push(runtime);
  return runtime;
};

const gone = async (runtime: TestRuntime): Promise<void> => {
  runtimes.splice(runtimes.indexOf(runtime), 1);
  await runtime.close();
};

interface Fired {
  readonly invocationId: string;
  readonly cancellation: { readonly reason: string } | null;
}

let turns = 0;
const fire = (server: RunningServer, command: string, seconds = 60): Promise<CallAnswer<Fired>> =>
  server.call('POST', `${base}/hooks/middleware/sshConnectionOpening?wait=55`, {
    key,
    body: {
      turnId: `t-${String((turns += 1))}`,
      context: {
        sessionId: '42',
        agentId: '7',
        sshHostId: 'h1',
        hostDisplayName: 'web',
        hostname: 'web.example',
        port: seconds,
        connectionType: 'direct',
        username: command,
      },
    },
  });

const ran = (output: string): object => ({ exitCode: 0, output, errorOutput: '', isTruncated: false, durationMs: 1 });

interface SeenEvent {
  readonly type: string;
  readonly position: string;
  readonly invocationId?: string;
  readonly data: {
    readonly callId?: string;
    readonly unknown?: boolean;
    readonly hostCalls?: readonly { readonly state: string }[];
  };
}

const events = async (server: RunningServer, type: string): Promise<readonly SeenEvent[]> => {
  const page = await server.call<{ items: SeenEvent[] }>('GET', `${base}/events?limit=500&type=${type}`);
  return page.body.items;
};

/** Everybody has heard of a runtime when a call from there reaches it. */
const reachableFrom = (server: RunningServer, runtime: TestRuntime): Promise<void> =>
  until(
    'the runtime is reached',
    async () => (await fire(server, 'hello')).body.cancellation?.reason === 'hello' && runtime.done.length > 0,
  );

describe('two replicas and a runtime', () => {
  it('bring calls of either to it and its answers back, once each', async () => {
    const runtime = await connect(two.url, key, ({ args }) => ran(args[0] as string));
    await reachableFrom(one, runtime);
    const before = runtime.done.length;
    const texts = Array.from({ length: 40 }, (_, index) => `${String(index)} ${'\u{1F40C}'.repeat(index * 50)}`);
    const answers = await Promise.all(texts.map((text, index) => fire(index % 2 === 0 ? one : two, text)));
    expect(answers.map(({ body }) => body.cancellation?.reason)).toEqual(
      texts.map((text) => (text.length <= 500 ? text : expect.stringMatching(/…$/u))),
    );
    expect(runtime.done.length - before).toBe(40);
    expect(runtime.received).toHaveLength(runtime.done.length);
    await gone(runtime);
    await until(
      'it is not there for the other one',
      async () => (await fire(one, 'x')).body.cancellation?.reason === 'rejected no_runtime',
    );
  }, 60_000);

  it('prefer a runtime of their own, unless the other’s names the server', async () => {
    const near = await connect(one.url, key, () => ran('near'));
    const far = await connect(two.url, key, () => ran('far'), { serves: { sshHostIds: ['h2'] } });
    const other = await connect(two.url, key, () => ran('named'), { serves: { sshHostIds: ['h1'] } });
    await until('the named one is preferred', async () => (await fire(one, 'x')).body.cancellation?.reason === 'named');
    await gone(other);
    await until('the near one is left', async () => (await fire(one, 'x')).body.cancellation?.reason === 'near');
    expect(far.done).toEqual([]);
    await gone(near);
    await gone(far);
  }, 60_000);

  it.each([
    ['from the one that waits to the other', () => [one, two] as const],
    ['from the other to the one that waits', () => [two, one] as const],
  ])(
    'send a call again when its runtime goes over %s',
    async (_, places) => {
      const [from, to] = places();
      let come: (value: object) => void = () => undefined;
      const runtime = await connect(from.url, key, ({ args }) =>
        args[0] === 'long' ? new Promise((resolve) => (come = resolve)) : ran(args[0] as string),
      );
      await reachableFrom(one, runtime);
      const began = runtime.done.length;
      const fired = fire(one, 'long');
      await until('the call is there', () => runtime.done.length === began + 1);
      runtime.cut();
      await runtime.closed;
      await runtime.connect(to.url);
      await until('the call is there again', () => runtime.received.length > runtime.done.length);
      come(ran('done once'));
      expect((await fired).body.cancellation?.reason).toBe('done once');
      expect(runtime.done.length).toBe(began + 1);
      await gone(runtime);
    },
    60_000,
  );

  it('go over although the old connection still seems to be there', async () => {
    let come: (value: object) => void = () => undefined;
    const runtime = await connect(one.url, key, ({ args }) =>
      args[0] === 'half' ? new Promise((resolve) => (come = resolve)) : ran(args[0] as string),
    );
    await reachableFrom(one, runtime);
    const began = runtime.done.length;
    const fired = fire(one, 'half');
    await until('the call is there', () => runtime.done.length === began + 1);
    const first = runtime.closed;
    await runtime.connect(two.url);
    expect(await first).toBe(4409);
    await until('the call is there again', () => runtime.received.length > runtime.done.length);
    come(ran('over there'));
    expect((await fired).body.cancellation?.reason).toBe('over there');
    await gone(runtime);
  }, 60_000);

  it('take a call back from the other’s runtime when its time is up, and record it as unknown', async () => {
    const runtime = await connect(two.url, key, ({ args }) => (args[0] === 'slow' ? never : ran(args[0] as string)));
    await reachableFrom(one, runtime);
    const answer = await fire(one, 'slow', 1);
    expect(answer.body.cancellation?.reason).toBe('rejected timeout');
    await until('it is told', () => runtime.cancelled.length === 1);
    const ended = (await events(one, 'host.answered')).filter(
      ({ invocationId }) => invocationId === answer.body.invocationId,
    );
    expect(ended).toMatchObject([{ data: { unknown: true } }]);
    await gone(runtime);
  }, 60_000);

  it('hand calls over sealed, and leave nothing of them', async () => {
    const pool = createPool({ connectionString: database.url, max: 1 });
    const rows = async (): Promise<readonly { readonly frame: Buffer; readonly answer: Buffer | null }[]> =>
      sqlOver(pool).query<{ frame: Buffer; answer: Buffer | null }>('select frame, answer from host_call_transit');
    let come: (value: object) => void = () => undefined;
    const runtime = await connect(two.url, key, ({ args }) =>
      args[0] === 'words of a person' ? new Promise((resolve) => (come = resolve)) : ran(args[0] as string),
    );
    await reachableFrom(one, runtime);
    const fired = fire(one, 'words of a person');
    await until('the call is there', () => runtime.done.some(({ args }) => args[0] === 'words of a person'));
    const [row] = await rows();
    expect(row?.frame.length).toBeGreaterThan(100);
    expect(row?.frame.includes('words')).toBe(false);
    come(ran('words of a server'));
    expect((await fired).body.cancellation?.reason).toBe('words of a server');
    expect(await rows()).toEqual([]);
    await pool.end();
    await gone(runtime);
  }, 60_000);

  it('say that they hear each other', async () => {
    const report = await one.call<{ hostLink: string }>('GET', '/health/ready', { key: null });
    expect(report.body.hostLink).toBe('ok');
  });
});

describe('kill -9 in the middle of a call', () => {
  it('of the server that waits: the call is on record as asked, then as unknown; the runtime did it once', async () => {
    const third = await start();
    const runtime = await connect(two.url, key, ({ args }) => (args[0] === 'killed' ? never : ran(args[0] as string)));
    await reachableFrom(third, runtime);
    const fired = fire(third, 'killed').catch(() => null);
    await until('the call is there', () => runtime.done.some(({ args }) => args[0] === 'killed'));
    await third.kill();
    await fired;
    await until('it is closed as lost', async () => (await events(one, 'invocation.lost')).length > 0, 45);
    const [lost] = await events(one, 'invocation.lost');
    expect(lost?.data.hostCalls).toMatchObject([{ state: 'unknown' }]);
    expect(runtime.done.filter(({ args }) => args[0] === 'killed')).toHaveLength(1);
    await gone(runtime);
    await third.close();
  }, 120_000);

  it('of the server that holds the runtime: it goes on over the one that is left', async () => {
    const third = await start();
    let come: (value: object) => void = () => undefined;
    const runtime = await connect(third.url, key, ({ args }) =>
      args[0] === 'holder' ? new Promise((resolve) => (come = resolve)) : ran(args[0] as string),
    );
    await reachableFrom(one, runtime);
    const fired = fire(one, 'holder');
    await until('the call is there', () => runtime.done.some(({ args }) => args[0] === 'holder'));
    await third.kill();
    await runtime.closed;
    await runtime.connect(two.url);
    await until('the call is there again', () => runtime.received.length > runtime.done.length);
    come(ran('went on'));
    expect((await fired).body.cancellation?.reason).toBe('went on');
    await gone(runtime);
    await third.close();
  }, 120_000);

  it('of the runtime: nobody else gets its call, which ends as unknown', async () => {
    const child = await startChildRuntime(two.url);
    const fired = fire(one, 'child', 2);
    await until('the call is there', () => child.said().includes('got child'));
    child.process.kill('SIGKILL');
    const other = await connect(two.url, key, ({ args }) => ran(args[0] as string));
    const answer = await fired;
    expect(answer.body.cancellation?.reason).toBe('rejected timeout');
    expect(other.done.filter(({ args }) => args[0] === 'child')).toEqual([]);
    const ended = (await events(one, 'host.answered')).filter(
      ({ invocationId }) => invocationId === answer.body.invocationId,
    );
    expect(ended).toMatchObject([{ data: { unknown: true } }]);
    await gone(other);
  }, 60_000);
});

/** A runtime in a process of its own that says what it gets and answers nothing but hellos. */
const startChildRuntime = async (
  url: string,
): Promise<{ readonly process: ChildProcess; readonly said: () => string }> => {
  const program = `
    import { WebSocket } from 'ws';
    const socket = new WebSocket(process.argv[1], { headers: { authorization: 'Bearer ' + process.argv[2] } });
    socket.on('message', (data) => {
      const { callId, args } = JSON.parse(data);
      console.log('got ' + args[0]);
      if (args[0] === 'hello') socket.send(JSON.stringify({ type: 'result', callId, value: { exitCode: 0, output: 'hello', errorOutput: '' } }));
    });`;
  const address = `${url.replace('http', 'ws')}${base}/host-link`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, address, key], {
    cwd: process.cwd(),
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH },
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  await until('the child serves', async () => (await fire(one, 'hello')).body.cancellation?.reason === 'hello');
  return { process: child, said: () => text };
};
