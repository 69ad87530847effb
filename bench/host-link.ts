import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { WebSocket } from 'ws';
import { postgresEventStore, type Append } from '#event-store';
import type { NewEvent, RecordedEvent } from '#record';
import type { Figure } from './figures.js';
import { atMost, median, rounded, spread } from './figures.js';
import { startMeasuredServer, type MeasuredServer } from './measured-server.js';
import { installation } from './plugins.js';

/** Calls of one firing; the firing itself is taken off by one that makes none. */
const callsEach = 20;

/** What the runtime answers, about as long as a short conversation. */
const conversation = { messages: [{ role: 'user', text: 'x'.repeat(200) }] };

const plugin = {
  id: 'asks',
  source: `globalThis.middleware.systemPrompt = async (c) => {
    for (let i = 0; i < Number(c.systemPrompt); i++) await host.session.conversation.read();
    return c.systemPrompt;
  };`,
};

/**
 * A host call over the link, recorded before it is made, against its two parts: an echo over a bare WebSocket between
 * two processes, and a bare append of the events that one call records. All in turns, with one call under way.
 */
export const measureHostLink = async (rounds: number, roundMs: number): Promise<readonly Figure[]> => {
  const server = await startMeasuredServer();
  const store = postgresEventStore({ connectionString: server.databaseUrl, tagKey: await server.rowTags() });
  const runtime = await connectRuntime(server);
  const echo = await startEcho();
  const firing = await server.firing('default', 'systemPrompt');
  try {
    await server.call('POST', '/accounts/default/plugins', installation(plugin));
    const fire = (calls: number): Promise<string> =>
      firing.post(
        JSON.stringify({
          turnId: randomUUID(),
          context: { sessionId: '42', agentId: '7', sessionKind: 'chat', systemPrompt: String(calls) },
        }),
      );
    const answer = JSON.parse(await fire(3)) as { readonly invocationId: string };
    const stored = (await store.readStream('default', `invocation/${answer.invocationId}`)).map(({ event }) => event);
    const append = bareAppend(stored);
    const timed = (work: () => Promise<unknown>): Promise<readonly number[]> => timesOf(work, roundMs / 4);
    const results = [];
    for (let round = 0; round <= rounds; round += 1) {
      await server.settled();
      const echoed = median(await timed(() => echo.send(runtime.lastFrame())));
      await server.settled();
      const appended = median(await timed(() => store.append(append())));
      await server.settled();
      const without = median(await timed(() => fire(0)));
      await server.settled();
      const withCalls = median(await timed(() => fire(callsEach)));
      results.push({ echoed, appended, called: (withCalls - without) / callsEach });
    }
    // The first round only warms up.
    const measured = results.slice(1);
    const ratios = measured.map(({ echoed, appended, called }) => called / (echoed + appended));
    const of = (name: 'echoed' | 'appended' | 'called'): string => rounded(median(measured.map((one) => one[name])));
    const from = `${of('called')} ms a call; echo ${of('echoed')} ms, append ${of('appended')} ms; rounds ${spread(ratios)}`;
    return [atMost('host call over the link, recorded first, p50', 3, median(ratios), '× (echo + append)', from)];
  } finally {
    firing.close();
    echo.close();
    runtime.close();
    await store.close();
    await server.close();
  }
};

const timesOf = async (work: () => Promise<unknown>, forMs: number): Promise<readonly number[]> => {
  const times: number[] = [];
  const end = performance.now() + forMs;
  while (performance.now() < end || times.length < 3) {
    const began = performance.now();
    await work();
    times.push(performance.now() - began);
  }
  return times;
};

/** What stands between two calls on record: the answer to one, and the next as called. */
const bareAppend = (stored: readonly RecordedEvent[]): (() => Append) => {
  const answered = stored.find(({ type }) => type === 'host.answered');
  const called = stored.findLast(({ type }) => type === 'host.called');
  if (answered === undefined || called === undefined) throw new Error('a firing without host calls');
  const events = [answered, called].map(asNew);
  return () => ({
    account: 'default',
    writes: [{ stream: `invocation/${randomUUID()}`, expectedVersion: 0, events }],
  });
};

const asNew = ({
  id: _id,
  schema: _schema,
  account: _account,
  stream: _stream,
  streamVersion: _version,
  recordedAt: _at,
  ...event
}: RecordedEvent): NewEvent => event;

interface Runtime {
  /** A frame as the platform sends it. */
  readonly lastFrame: () => string;
  readonly close: () => void;
}

const connectRuntime = async (server: MeasuredServer): Promise<Runtime> => {
  const body = { role: 'runtime', name: 'runtime' };
  const { secret } = (await server.call('POST', '/accounts/default/keys', body)) as { readonly secret: string };
  const url = `${server.url.replace('http', 'ws')}/v1/accounts/default/host-link`;
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${secret}` } });
  let last = '';
  socket.on('message', (data: Buffer) => {
    last = data.toString('utf8');
    const { callId } = JSON.parse(last) as { readonly callId: string };
    socket.send(JSON.stringify({ type: 'result', callId, value: conversation }));
  });
  await opened(socket);
  return { lastFrame: () => last, close: () => socket.terminate() };
};

const opened = (socket: WebSocket): Promise<void> =>
  new Promise((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', reject);
  });

interface Echo {
  readonly send: (text: string) => Promise<void>;
  readonly close: () => void;
}

/** The same library in another process, which sends back what it gets. */
const startEcho = async (): Promise<Echo> => {
  const program = `import { WebSocketServer } from 'ws';
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false }, () => console.log(server.address().port));
    server.on('connection', (socket) => socket.on('message', (data) => socket.send(data.toString())));`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const port = await new Promise<string>((resolve) =>
    child.stdout.once('data', (data: Buffer) => resolve(data.toString().trim())),
  );
  const socket = new WebSocket(`ws://127.0.0.1:${port}`);
  await opened(socket);
  return {
    send: (text) =>
      new Promise((resolve) => {
        socket.once('message', () => resolve());
        socket.send(text);
      }),
    close: () => {
      socket.terminate();
      child.kill();
    },
  };
};
