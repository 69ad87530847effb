import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createPool, sqlOver } from '#event-store';
import { rowTagKey, type RowTagKey } from '#proof';
import { loadMasterKeys, readRootSecret } from '#sealing';
import { startTestCluster } from '../test/support/test-postgres.js';
import type { Connection } from './http-client.js';
import { openConnection } from './http-client.js';

/** The built program as a process of its own, on a Postgres that syncs its writes. */
export interface MeasuredServer {
  readonly pid: number;
  /** Where it listens. */
  readonly url: string;
  /** The database as its owner, so that a bare loop writes into the same one. */
  readonly databaseUrl: string;
  /** A database of the same cluster with the same tables, which no program follows. */
  readonly bareDatabaseUrl: string;
  /** What the server tags the rows of its log with. */
  rowTags(): Promise<RowTagKey>;
  /** Resolves when the read models have caught up, so that one round does not pay for the one before. */
  settled(): Promise<void>;
  /** A request of the API with the operator key. Rejects on any status but 2xx. */
  call(method: string, path: string, body?: unknown): Promise<unknown>;
  /** A connection that fires one hook of an account. */
  firing(account: string, hook: string): Promise<Connection>;
  close(): Promise<void>;
}

const operatorKey = 'operator-key-of-the-bench';
const root = fileURLToPath(new URL('../../', import.meta.url));

/** The words after `node` in `npm start`: what is measured is what people start. */
const startWords = (): readonly string[] => {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: { start: string } };
  return manifest.scripts.start.replace(/^exec node /u, '').split(' ');
};

/** Starts a cluster, a database and the program on it, with further settings where a measure wants them. */
export const startMeasuredServer = async (settings: Readonly<Record<string, string>> = {}): Promise<MeasuredServer> => {
  const cluster = await startTestCluster({ durable: true });
  const dataDir = mkdtempSync(join(tmpdir(), 'hookledger-bench-'));
  const { url: databaseUrl } = await cluster.createDatabase();
  const { url: bareDatabaseUrl } = await cluster.createLedgerDatabase();
  const child = spawn(process.execPath, startWords(), {
    cwd: root,
    stdio: ['ignore', 'pipe', 'ignore'],
    env: {
      PATH: process.env.PATH,
      PORT: '0',
      DATABASE_URL: databaseUrl,
      HOOKLEDGER_DATA: dataDir,
      HOOKLEDGER_OPERATOR_KEY: operatorKey,
      ...settings,
    },
  });
  const url = await listening(child);
  const call = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    const answer = await fetch(`${url}/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${operatorKey}`, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === '' ? null : JSON.parse(text);
  };
  return {
    pid: child.pid ?? -1,
    url,
    databaseUrl,
    bareDatabaseUrl,
    rowTags: async () => {
      const pool = createPool({ connectionString: databaseUrl });
      const secret = await readRootSecret(
        sqlOver(pool),
        loadMasterKeys({ environment: undefined, nextEnvironment: undefined, dataDir }),
      );
      await pool.end();
      if (secret === null) throw new Error('the server has made no secret yet');
      return rowTagKey(secret);
    },
    settled: () => caughtUp(url),
    call,
    firing: async (account, hook) => {
      const path = `/accounts/${account}/keys`;
      const { secret } = (await call('POST', path, { role: 'runtime', name: 'bench' })) as { secret: string };
      return openConnection(new URL(`${url}/v1/accounts/${account}/hooks/middleware/${hook}`), secret);
    },
    close: async () => {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      await ended;
      cluster.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
};

const caughtUp = async (url: string): Promise<void> => {
  for (;;) {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    const lags = [...metrics.matchAll(/^hookledger_read_model_lag_events\{[^}]*\} (\d+)/gmu)];
    if (lags.length > 0 && lags.every(([, lag]) => lag === '0')) return;
    await delay(100);
  }
};

const listening = (child: ChildProcess): Promise<string> =>
  new Promise((resolve, reject) => {
    let said = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      said += chunk.toString();
      const url = /listens on (http:\/\/\S+)/u.exec(said)?.[1];
      if (url !== undefined) resolve(url);
    });
    child.once('exit', (code) => {
      reject(new Error(`the server ended with ${String(code)}: ${said}`));
    });
  });
