import type { Figure } from './figures.js';
import { at, atMost, median, rounded, spread } from './figures.js';
import { openLoop } from './load.js';
import { startMeasuredServer } from './measured-server.js';
import type { MeasuredServer } from './measured-server.js';
import { pooled } from './pooled-calls.js';
import { commandBody, fivePlugins, installation } from './plugins.js';

/** An account fired at 50/s, alone and beside an account whose handler never ends, in turns. */
export const measureNeighbours = async (rounds: number, roundMs: number): Promise<readonly Figure[]> => {
  const server = await startMeasuredServer();
  try {
    await server.call('POST', '/accounts', { id: 'quiet', name: 'quiet' });
    await server.call('POST', '/accounts', { id: 'looping', name: 'looping' });
    for (const plugin of fivePlugins) await server.call('POST', '/accounts/quiet/plugins', installation(plugin));
    const loop = { id: 'loop', source: 'globalThis.middleware.sshCommandSending = () => { for (;;) {} };' };
    await server.call('POST', '/accounts/looping/plugins', installation(loop));
    return [await compare(server, rounds, roundMs)];
  } finally {
    await server.close();
  }
};

const compare = async (server: MeasuredServer, rounds: number, roundMs: number): Promise<Figure> => {
  const quiet = await pooled(server, 'quiet', 64);
  await openLoop(quiet.call, 50, roundMs);
  const alone: number[] = [];
  const beside: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    alone.push(at((await openLoop(quiet.call, 50, roundMs)).times, 0.99));
    const noise = await startNoise(server);
    beside.push(at((await openLoop(quiet.call, 50, roundMs)).times, 0.99));
    await noise.stop();
  }
  quiet.close();
  const ratios = beside.map((time, round) => time / (alone[round] ?? Number.NaN));
  const from = `p99 ${rounded(median(beside))} ms against ${rounded(median(alone))} ms; rounds ${spread(ratios)}`;
  return atMost('p99 at 50/s beside an account that loops for ever, against alone', 2, median(ratios), '×', from);
};

/** Two clients that fire at the looping handler again and again. */
const startNoise = async (server: MeasuredServer): Promise<{ stop: () => Promise<void> }> => {
  let stopped = false;
  const clients = await Promise.all([0, 1].map(() => server.firing('looping', 'sshCommandSending')));
  const loops = clients.map(async (connection) => {
    while (!stopped) await connection.post(commandBody);
    connection.close();
  });
  return {
    stop: async () => {
      stopped = true;
      await Promise.all(loops);
    },
  };
};
