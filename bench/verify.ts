import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createPool, openLogSource, postgresEventStore, sqlOver } from '#event-store';
import { logKeyName, noteSigner, rowTagKey, verifyLog } from '#proof';
import { masterKeyFrom, masterKeysOf, openRootSecret, postgresSealing, tryDataKey } from '#sealing';
import { measureAppends, sevenEvents } from '../libs/event-store/bench/append.js';
import { sealByHand } from '../test/support/hand-sealer.js';
import { startTestCluster } from '../test/support/test-postgres.js';
import type { Figure } from './figures.js';
import { atLeast, median, rounded, shown, spread } from './figures.js';

/** How fast a log is verified whose rows, tree, streams and keys are all checked: chains of five plugins, sealed. */
export const measureVerifying = async (events: number, rounds: number): Promise<readonly Figure[]> => {
  const cluster = await startTestCluster({ settings: ['max_wal_size = 4GB'] });
  try {
    const { url } = await cluster.createLedgerDatabase();
    const { bytes, ...log } = await writeLog(url, events);
    const rates: number[] = [];
    const cores: number[] = [];
    let count = 0;
    for (let round = 0; round < rounds; round += 1) {
      const opened = await openLogSource(url);
      const cpu = process.cpuUsage();
      const began = performance.now();
      const summary = await verifyLog(opened.source, { ...log, account: null, outside: null, ...silent });
      const seconds = (performance.now() - began) / 1_000;
      const used = process.cpuUsage(cpu);
      await opened.close();
      if (!summary.ok)
        throw new Error(`the log of the measurement has faults: ${JSON.stringify(summary.faultsByCode)}`);
      count = summary.events;
      rates.push(summary.events / seconds);
      cores.push((used.user + used.system) / 1e6 / seconds);
    }
    const size = `${rounded(count / 1e6)} M events of ${rounded(bytes / count)} bytes`;
    const used = rates.map((rate, round) => rate / (cores[round] ?? 1));
    return [
      atLeast('verify, one core', 50_000, median(rates), 'events/s', `${size}; rounds ${spread(rates)}`),
      shown('the same, by the time of its process', median(used), 'events/s', `rounds ${spread(used)}`),
    ];
  } finally {
    cluster.close();
  }
};

const silent = { onFault: () => undefined, onProgress: () => undefined };

const writeLog = async (url: string, events: number) => {
  const pool = createPool({ connectionString: url, max: 4 });
  const sql = sqlOver(pool);
  const masters = masterKeysOf(masterKeyFrom(Buffer.alloc(32, 7), 'environment'));
  const rootSecret = await openRootSecret(sql, masters);
  const store = postgresEventStore({ connectionString: url, tagKey: rowTagKey(rootSecret) });
  const envelope = await postgresSealing({ sql, store, masterKeys: masters }).envelope('default', { kind: 'account' });
  const { k } = (envelope.seal('') as { readonly $sealed: { readonly k: string } }).$sealed;
  const appendOf = () => {
    const append = sevenEvents();
    // The key that sealed the values must be one that is there.
    return JSON.parse(JSON.stringify(append).replaceAll('AbCdEfGhIjKlMnOp', k)) as typeof append;
  };
  for (let left = Math.ceil(events / 7); left > 0;) {
    const count = Math.min(left, 2_000);
    await measureAppends(store, { clients: 64, durationMs: 0, warmUp: count }, appendOf);
    left -= count;
  }
  const logId = randomUUID();
  const signer = noteSigner(logKeyName(logId), generateKeyPairSync('ed25519').privateKey);
  await sealByHand(url, logId, 'default', signer);
  await sql.query('vacuum analyze');
  const [row] = await sql.query<{ bytes: string }>('select sum(octet_length(bytes)) as bytes from event');
  await store.close();
  await pool.end();
  const logKeys = [{ verifier: signer, validFrom: 0, validUntil: null }];
  return {
    bytes: Number(row?.bytes ?? 0),
    rootSecret,
    logKeys,
    openDataKey: (row: Parameters<typeof tryDataKey>[1]) => tryDataKey(masters, row),
  };
};
