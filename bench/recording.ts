import { randomUUID } from 'node:crypto';
import { postgresEventStore } from '#event-store';
import type { Append, EventStore } from '#event-store';
import type { NewEvent, RecordedEvent } from '#record';
import type { Figure } from './figures.js';
import { at, atLeast, atMost, median, rounded, spread } from './figures.js';
import type { Connection } from './http-client.js';
import { closedLoop } from './load.js';
import { startMeasuredServer } from './measured-server.js';
import type { MeasuredServer } from './measured-server.js';
import { commandBody, fivePlugins, installation } from './plugins.js';

/**
 * A chain of five over HTTP, committed, against a bare append of the very events that such a chain records, in the same
 * database, in turns.
 */
export const measureRecording = async (rounds: number, roundMs: number): Promise<readonly Figure[]> => {
  const server = await startMeasuredServer();
  const store = postgresEventStore({ connectionString: server.databaseUrl });
  try {
    for (const plugin of fivePlugins) await server.call('POST', '/accounts/default/plugins', installation(plugin));
    const append = await bareAppend(server, store);
    return [
      ...(await oneClient(server, store, append, rounds, roundMs)),
      ...(await manyClients(server, store, append, rounds, roundMs)),
    ];
  } finally {
    await store.close();
    await server.close();
  }
};

/** Fires one chain and makes appends of exactly its events, each for a stream of its own. */
const bareAppend = async (server: MeasuredServer, store: EventStore): Promise<() => Append> => {
  const connection = await server.firing('default', 'sshCommandSending');
  const answer = JSON.parse(await connection.post(commandBody)) as {
    readonly invocationId: string;
    readonly handlers: readonly unknown[];
  };
  connection.close();
  const stored = await store.readStream('default', `invocation/${answer.invocationId}`);
  if (stored.length !== 7) throw new Error(`a chain of five recorded ${stored.length} events, not seven`);
  const events = stored.map(({ event }) => asNew(event));
  return () => {
    const invocationId = randomUUID();
    const own = events.map((event) => ({ ...event, invocationId, root: invocationId }));
    return { account: 'default', writes: [{ stream: `invocation/${invocationId}`, expectedVersion: 0, events: own }] };
  };
};

/** Without what the log adds when it stores an event. */
const asNew = (event: RecordedEvent): NewEvent => {
  const { id: _id, schema: _schema, account: _account, stream: _stream, ...rest } = event;
  const { streamVersion: _version, recordedAt: _recordedAt, ...own } = rest;
  return own;
};

const appended = async (store: EventStore, append: Append): Promise<void> => {
  const { kind } = await store.append(append);
  if (kind !== 'appended') throw new Error(`a bare append ended as ${kind}`);
};

const oneClient = async (
  server: MeasuredServer,
  store: EventStore,
  append: () => Append,
  rounds: number,
  roundMs: number,
): Promise<readonly Figure[]> => {
  const connection = await server.firing('default', 'sshCommandSending');
  const fire = (): Promise<string> => connection.post(commandBody);
  const write = (): Promise<void> => appended(store, append());
  await closedLoop([fire], roundMs);
  await closedLoop([write], roundMs);
  const fired: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    bare.push(median((await closedLoop([write], roundMs)).times));
    fired.push(median((await closedLoop([fire], roundMs)).times));
  }
  connection.close();
  const ratios = fired.map((time, round) => time / (bare[round] ?? Number.NaN));
  const from = `${rounded(median(fired))} ms against ${rounded(median(bare))} ms; rounds ${spread(ratios)}`;
  return [atMost('chain of five over HTTP, one client: p50 against a bare append', 2.5, median(ratios), '×', from)];
};

const clients = 64;

const manyClients = async (
  server: MeasuredServer,
  store: EventStore,
  append: () => Append,
  rounds: number,
  roundMs: number,
): Promise<readonly Figure[]> => {
  const connections: Connection[] = [];
  for (let n = 0; n < clients; n += 1) connections.push(await server.firing('default', 'sshCommandSending'));
  const fires = connections.map((connection) => () => connection.post(commandBody));
  const writes = Array.from({ length: clients }, () => () => appended(store, append()));
  await closedLoop(fires, roundMs);
  await closedLoop(writes, roundMs);
  const fired: number[] = [];
  const bare: number[] = [];
  const tails: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const alone = await closedLoop(writes, roundMs);
    const together = await closedLoop(fires, roundMs);
    bare.push(alone.times.length / alone.seconds);
    fired.push(together.times.length / together.seconds);
    tails.push(at(together.times, 0.99) / at(together.times, 0.5));
  }
  const slowest = await slowestHandler(connections[0]);
  for (const connection of connections) connection.close();
  const shares = fired.map((rate, round) => (100 * rate) / (bare[round] ?? Number.NaN));
  const made = `${rounded(median(fired))}/s against ${rounded(median(bare))}/s; rounds ${spread(shares)}`;
  const tail = `rounds ${spread(tails)}; slowest of 500 handlers seen ${rounded(slowest)} ms`;
  return [
    atLeast(`chains per second, ${clients} clients, of a bare group-commit loop`, 45, median(shares), '%', made),
    atMost(`p99 against p50, ${clients} clients`, 10, median(tails), '×', tail),
  ];
};

/** The tail counts only while no handler takes a millisecond of its own. */
const slowestHandler = async (connection: Connection | undefined): Promise<number> => {
  let slowest = 0;
  for (let n = 0; n < 100 && connection !== undefined; n += 1) {
    const answer = JSON.parse(await connection.post(commandBody)) as { handlers: { durationMs: number }[] };
    slowest = Math.max(slowest, ...answer.handlers.map(({ durationMs }) => durationMs));
  }
  return slowest;
};
