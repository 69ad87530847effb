import { randomUUID } from 'node:crypto';
import { postgresEventStore } from '#event-store';
import type { Append, EventStore } from '#event-store';
import type { NewEvent, RecordedEvent } from '#record';
import type { Figure } from './figures.js';
import { at, atLeast, atMost, median, rounded, shown, spread } from './figures.js';
import type { Connection } from './http-client.js';
import { closedLoop } from './load.js';
import type { Load } from './load.js';
import { startMeasuredServer } from './measured-server.js';
import type { MeasuredServer } from './measured-server.js';
import { commandBody, fivePlugins, installation } from './plugins.js';

/**
 * A chain of five over HTTP, committed, against a bare append of the very events that such a chain records, in turns.
 * The bare loop writes into the same database, where the read models follow its events as they follow the chain's; and,
 * for whoever wants to know, into one that nothing follows.
 */
export const measureRecording = async (rounds: number, roundMs: number): Promise<readonly Figure[]> => {
  const server = await startMeasuredServer();
  const tagKey = await server.rowTags();
  const followed = postgresEventStore({ connectionString: server.databaseUrl, tagKey });
  const unfollowed = postgresEventStore({ connectionString: server.bareDatabaseUrl, tagKey });
  try {
    for (const plugin of fivePlugins) await server.call('POST', '/accounts/default/plugins', installation(plugin));
    const append = await bareAppend(server, followed);
    const scene: Scene = {
      server,
      rounds,
      roundMs,
      followed: () => appended(followed, append()),
      unfollowed: () => appended(unfollowed, append()),
    };
    return [...(await oneClient(scene)), ...(await manyClients(scene))];
  } finally {
    await followed.close();
    await unfollowed.close();
    await server.close();
  }
};

interface Scene {
  readonly server: MeasuredServer;
  readonly rounds: number;
  readonly roundMs: number;
  /** One bare append. */
  readonly followed: () => Promise<void>;
  readonly unfollowed: () => Promise<void>;
}

type Calls = readonly (() => Promise<unknown>)[];

/** Rounds of three loops in turns, each after the read models have caught up; the first round of each only warms up. */
const inTurns = async (
  { server, rounds, roundMs }: Scene,
  loops: readonly [Calls, Calls, Calls],
): Promise<readonly (readonly [Load, Load, Load])[]> => {
  const one = async (calls: Calls): Promise<Load> => {
    await server.settled();
    return closedLoop(calls, roundMs);
  };
  const results: [Load, Load, Load][] = [];
  for (let round = 0; round <= rounds; round += 1) {
    results.push([await one(loops[0]), await one(loops[1]), await one(loops[2])]);
  }
  return results.slice(1);
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

const oneClient = async (scene: Scene): Promise<readonly Figure[]> => {
  const connection = await scene.server.firing('default', 'sshCommandSending');
  const fire = (): Promise<string> => connection.post(commandBody);
  const results = await inTurns(scene, [[fire], [scene.followed], [scene.unfollowed]]);
  connection.close();
  const p50 = results.map(([fired, followed, unfollowed]) => ({
    fired: median(fired.times),
    followed: median(followed.times),
    unfollowed: median(unfollowed.times),
  }));
  const against = (bare: 'followed' | 'unfollowed'): { value: number; from: string } => {
    const ratios = p50.map((round) => round.fired / round[bare]);
    const [chain, append] = [median(p50.map(({ fired }) => fired)), median(p50.map((round) => round[bare]))];
    return {
      value: median(ratios),
      from: `${rounded(chain)} ms against ${rounded(append)} ms; rounds ${spread(ratios)}`,
    };
  };
  const [followed, unfollowed] = [against('followed'), against('unfollowed')];
  const what = 'chain of five over HTTP, one client: p50 against a bare append';
  return [
    atMost(what, 2.5, followed.value, '×', followed.from),
    shown('the same, against one into a database that nothing follows', unfollowed.value, '×', unfollowed.from),
  ];
};

const clients = 64;

const manyClients = async (scene: Scene): Promise<readonly Figure[]> => {
  const connections: Connection[] = [];
  for (let n = 0; n < clients; n += 1) connections.push(await scene.server.firing('default', 'sshCommandSending'));
  const fires = connections.map((connection) => () => connection.post(commandBody));
  const sixtyFour = (write: () => Promise<void>): Calls => Array.from({ length: clients }, () => write);
  const results = await inTurns(scene, [fires, sixtyFour(scene.followed), sixtyFour(scene.unfollowed)]);
  const slowest = await slowestHandler(connections[0]);
  for (const connection of connections) connection.close();
  const rates = results.map(([fired, followed, unfollowed]) => ({
    fired: fired.times.length / fired.seconds,
    followed: followed.times.length / followed.seconds,
    unfollowed: unfollowed.times.length / unfollowed.seconds,
  }));
  const against = (bare: 'followed' | 'unfollowed'): { value: number; from: string } => {
    const shares = rates.map((round) => (100 * round.fired) / round[bare]);
    const [chains, appends] = [median(rates.map(({ fired }) => fired)), median(rates.map((round) => round[bare]))];
    return {
      value: median(shares),
      from: `${rounded(chains)}/s against ${rounded(appends)}/s; rounds ${spread(shares)}`,
    };
  };
  const [followed, unfollowed] = [against('followed'), against('unfollowed')];
  const tails = results.map(([fired]) => at(fired.times, 0.99) / at(fired.times, 0.5));
  const tail = `rounds ${spread(tails)}; slowest of 500 handlers seen ${rounded(slowest)} ms`;
  return [
    atLeast(
      `chains per second, ${clients} clients, of a bare group-commit loop`,
      45,
      followed.value,
      '%',
      followed.from,
    ),
    shown('the same, of one into a database that nothing follows', unfollowed.value, '%', unfollowed.from),
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
