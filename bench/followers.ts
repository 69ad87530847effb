import { setTimeout as delay } from 'node:timers/promises';
import { startTestBroker } from '../test/support/kafka-broker.js';
import type { Figure } from './figures.js';
import { at, atMost, median, rounded, spread } from './figures.js';
import { closedLoop, openLoop } from './load.js';
import { startMeasuredServer } from './measured-server.js';
import type { MeasuredServer } from './measured-server.js';
import { commandBody, fivePlugins, installation } from './plugins.js';
import { pooled, type PooledCalls } from './pooled-calls.js';

/**
 * What everything that follows the log costs those who fire: relay to a real broker, sealer and read models against
 * none of them, in turns, at half of what the program can do. And how soon what was committed can be read.
 */
export const measureFollowers = async (rounds: number, roundMs: number): Promise<readonly Figure[]> => {
  const broker = await startTestBroker();
  const following = await startMeasuredServer({ HOOKLEDGER_KAFKA_BROKERS: broker.address() });
  const alone = await startMeasuredServer({ HOOKLEDGER_ROLES: 'gateway,control' });
  try {
    for (const server of [following, alone]) {
      for (const plugin of fivePlugins) await server.call('POST', '/accounts/default/plugins', installation(plugin));
    }
    return [await besideFollowers(following, alone, rounds, roundMs), await untilVisible(following, rounds * 20)];
  } finally {
    await following.close();
    await alone.close();
    await broker.close();
  }
};

const connections = 256;

const besideFollowers = async (
  following: MeasuredServer,
  alone: MeasuredServer,
  rounds: number,
  roundMs: number,
): Promise<Figure> => {
  const calls = {
    following: await pooled(following, 'default', connections),
    alone: await pooled(alone, 'default', connections),
  };
  const half = (await mostPerSecond(calls.following, roundMs)) / 2;
  await mostPerSecond(calls.alone, roundMs);
  const tails: { readonly following: number; readonly alone: number }[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await following.settled();
    const without = await openLoop(calls.alone.call, half, roundMs);
    const beside = await openLoop(calls.following.call, half, roundMs);
    tails.push({ following: at(beside.times, 0.99), alone: at(without.times, 0.99) });
  }
  calls.following.close();
  calls.alone.close();
  const ratios = tails.map((tail) => tail.following / tail.alone);
  const [beside, without] = [median(tails.map((tail) => tail.following)), median(tails.map((tail) => tail.alone))];
  const from = `${rounded(beside)} ms against ${rounded(without)} ms at ${rounded(half)}/s; rounds ${spread(ratios)}`;
  return atMost('p99 beside relay, sealer and read models, against without', 1.5, median(ratios), '×', from);
};

const mostPerSecond = async ({ call }: PooledCalls, roundMs: number): Promise<number> => {
  const load = await closedLoop(
    Array.from({ length: 64 }, () => call),
    roundMs,
  );
  return load.times.length / load.seconds;
};

/** From an answer to the first list that is complete up to its events; nothing else is asked of the program. */
const untilVisible = async (server: MeasuredServer, times: number): Promise<Figure> => {
  const connection = await server.firing('default', 'sshCommandSending');
  await server.settled();
  const waited: number[] = [];
  for (let n = 0; n < times; n += 1) {
    await delay(100 + Math.random() * 200);
    const { positions } = JSON.parse(await connection.post(commandBody)) as { positions: { last: string } };
    const answered = performance.now();
    while ((await completeUpTo(server)) < BigInt(positions.last));
    waited.push(performance.now() - answered);
  }
  connection.close();
  const from = `p50 ${rounded(median(waited))} ms, slowest ${rounded(Math.max(...waited))} ms of ${times}`;
  return atMost('commit to visible in the read model, idle: p95', 100, at(waited, 0.95), 'ms', from);
};

const completeUpTo = async (server: MeasuredServer): Promise<bigint> => {
  const page = (await server.call('GET', '/accounts/default/invocations?limit=1')) as { completeUpTo: string };
  return BigInt(page.completeUpTo);
};
