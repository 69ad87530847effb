import { setTimeout as delay } from 'node:timers/promises';
import type { Figure } from './figures.js';
import { atMost, rounded } from './figures.js';
import { startMeasuredServer } from './measured-server.js';
import { commandBody, fivePlugins, installation } from './plugins.js';
import { pssOf, treeOf } from './processes.js';

const accounts = 10;
const pluginsEach = 10;

/** Memory of the server and its sandboxes, Postgres apart, with 100 plugins over 10 accounts that have all been fired. */
export const measureMemory = async (): Promise<readonly Figure[]> => {
  const server = await startMeasuredServer();
  try {
    for (let n = 0; n < accounts; n += 1) {
      const account = `account-${n}`;
      await server.call('POST', '/accounts', { id: account, name: account });
      for (let m = 0; m < pluginsEach; m += 1) {
        const plugin = fivePlugins[m % fivePlugins.length];
        if (plugin === undefined) continue;
        const body = installation({ id: `${plugin.id}-${m}`, source: `${plugin.source}\n// ${m}` });
        await server.call('POST', `/accounts/${account}/plugins`, body);
      }
      const connection = await server.firing(account, 'sshCommandSending');
      for (let m = 0; m < 20; m += 1) await connection.post(commandBody);
      connection.close();
    }
    // Idle, yet before a child without work is ended: every account still has its own.
    await delay(15_000);
    const processes = treeOf(server.pid);
    const sizes = processes.map(pssOf);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const from = `server ${rounded(sizes[0] ?? 0)} MB and ${processes.length - 1} processes below it`;
    return [
      atMost(`memory (PSS), ${accounts * pluginsEach} plugins over ${accounts} accounts, idle`, 450, total, 'MB', from),
    ];
  } finally {
    await server.close();
  }
};
