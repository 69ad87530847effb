import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startServer, until, type RunningServer } from './support/running-server.js';

const program = join(import.meta.dirname, '../bin/hookledger.js');
const base = '/v1/accounts/default';
let server: RunningServer;
let folder: string;
let runtime = '';
let auditor = '';

interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs the command with the server's environment. */
const run = (args: readonly string[], env: Record<string, string> = {}): Promise<Ran> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [program, ...args], {
      env: { PATH: process.env.PATH ?? '', HOOKLEDGER_DATA: server.dataDir, HOOKLEDGER_URL: server.url, ...env },
      cwd: folder,
    });
    let [out, err] = ['', ''];
    child.stdout.on('data', (piece) => {
      out += String(piece);
    });
    child.stderr.on('data', (piece) => {
      err += String(piece);
    });
    child.once('close', (code) => resolve({ code, out, err }));
  });

const newKey = async (role: string): Promise<string> => {
  const answer = await server.call<{ secret: string }>('POST', `${base}/keys`, { body: { role, name: role } });
  return answer.body.secret;
};

const say = async (n: number): Promise<void> => {
  const context = { sessionId: `s-${String(n % 3)}`, channelId: null, text: `word ${String(n)}`, mediaIds: [] };
  const answer = await server.call('POST', `${base}/hooks/middleware/userMessageInbound`, {
    key: runtime,
    body: { turnId: `t-${String(n % 4)}`, context },
  });
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
};

const systemEvents = async (type: string): Promise<readonly { data: Record<string, unknown> }[]> => {
  const answer = await server.call('GET', `/v1/accounts/system/events?type=${type}&limit=500`);
  return (answer.body as { items: { data: Record<string, unknown> }[] }).items;
};

beforeAll(async () => {
  server = await startServer();
  folder = mkdtempSync(join(tmpdir(), 'hookledger-replay-'));
  runtime = await newKey('runtime');
  auditor = await newKey('auditor');
  for (let n = 0; n < 30; n += 1) await say(n);
}, 120_000);

afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

describe('hookledger replay', () => {
  it('rebuilds every read model beside the live ones while the server runs, and finds no row that differs', async () => {
    const firing = (async (): Promise<void> => {
      for (let n = 30; n < 60; n += 1) await say(n);
    })();
    const ran = await run(['replay', '--to', 'projection:all', '--check', '--json']);
    await firing;
    expect([ran.code, ran.err]).toEqual([0, '']);
    const summary = JSON.parse(ran.out) as { swapped: string[]; differences: number; events: number };
    expect(summary).toMatchObject({ outcome: 'finished', differences: 0, rows: [], setAside: 0 });
    expect(summary.swapped).toContain('record');
    await until('reads go on in the new tables', async () => {
      const answer = await server.call('GET', `${base}/invocations?limit=100`, { key: auditor });
      return (answer.body as { items: unknown[] }).items.length === 60;
    });
    expect(await systemEvents('replay.started')).toMatchObject([
      { data: { to: 'projection:all', source: 'postgres' } },
    ]);
    expect(await systemEvents('replay.finished')).toMatchObject([{ data: { outcome: 'finished', differences: 0 } }]);
  }, 120_000);

  it('writes a file of the stored bytes, and nothing when it is interrupted', async () => {
    const path = join(folder, 'log.jsonl');
    const ran = await run(['replay', '--to', `file:${path}`, '--account', 'default', '--type', 'invocation.*']);
    expect([ran.code, ran.out]).toEqual([0, expect.stringContaining('SHA-256')]);
    const bytes = readFileSync(path);
    expect(ran.out).toContain(createHash('sha256').update(bytes).digest('hex'));
    expect(bytes.toString('utf8').trim().split('\n')).toHaveLength(120);
    expect((await run(['replay', '--to', `file:${path}`])).err).toContain('exists already');

    const slow = ['replay', '--to', 'file:slow.jsonl', '--rate', '1'];
    const interrupted = spawn(process.execPath, [program, ...slow], {
      env: { PATH: process.env.PATH ?? '', HOOKLEDGER_DATA: server.dataDir },
      cwd: folder,
      stdio: 'ignore',
    });
    await until('it has begun', () => Promise.resolve(existsSync(join(folder, 'slow.jsonl.partial'))));
    const ended = new Promise((resolve) => interrupted.once('exit', resolve));
    interrupted.kill('SIGINT');
    expect(await ended).toBe(130);
    expect(readdirSync(folder)).toEqual(['log.jsonl']);
    expect((await systemEvents('replay.finished')).at(-1)).toMatchObject({ data: { outcome: 'interrupted' } });
  }, 60_000);

  it('prints to standard output, and only events', async () => {
    const ran = await run(['replay', '--to', 'stdout', '--account', 'default', '--from', '0', '--to-position', '1']);
    const lines = ran.out.trim().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { type: string }).type)).toEqual(['key.created', 'key.created']);
    expect([ran.code, ran.err]).toEqual([0, expect.stringContaining('2 events')]);
  }, 60_000);

  it.each([
    ['no target', [], '--to is missing'],
    ['a target that is none', ['--to', 'somewhere'], 'is none of'],
    ['a read model that is none', ['--to', 'projection:nope'], 'record'],
    ['a filter for a read model', ['--to', 'projection:record', '--account', 'a'], 'whole log'],
    ['a check without a read model', ['--to', 'stdout', '--check'], '--check'],
    ['a session without its account', ['--to', 'stdout', '--session', 's'], '--account'],
    ['an inverted range', ['--to', 'stdout', '--from', '5', '--to-position', '4'], 'above'],
  ])(
    'is misused with %s, and says so',
    async (_what, args, words) => {
      const ran = await run(['replay', ...args]);
      expect([ran.code, ran.err]).toEqual([2, expect.stringContaining(words)]);
    },
    60_000,
  );

  it('needs Kafka only where Kafka is asked for, and says what is missing', async () => {
    const ran = await run(['replay', '--to', 'topic:replays']);
    expect([ran.code, ran.err]).toEqual([1, expect.stringContaining('HOOKLEDGER_KAFKA_BROKERS')]);
  }, 60_000);
});

describe('hookledger export', () => {
  it('keeps a whole file, and says what it holds', async () => {
    const ran = await run(['export', '--to', 'default.tar', '--content', '--json'], { HOOKLEDGER_KEY: auditor });
    expect([ran.code, ran.err]).toEqual([0, '']);
    const said = JSON.parse(ran.out) as { bytes: number; manifest: { complete: boolean; events: number } };
    expect(readFileSync(join(folder, 'default.tar'))).toHaveLength(said.bytes);
    expect(said.manifest).toMatchObject({ complete: true });
    const again = await run(['export', '--to', 'default.tar'], { HOOKLEDGER_KEY: auditor });
    expect([again.code, again.err]).toEqual([1, expect.stringContaining('exists already')]);
  }, 60_000);

  it('makes a CSV where the name says so', async () => {
    const ran = await run(['export', '--to', 'turns.csv', '--type', 'invocation.opened', '--session', 's-1'], {
      HOOKLEDGER_KEY: auditor,
    });
    expect([ran.code, ran.out]).toEqual([0, expect.stringContaining('20 events')]);
    expect(readFileSync(join(folder, 'turns.csv'), 'utf8').trim().split('\r\n')).toHaveLength(21);
    const refused = await run(['export', '--to', 'x.csv', '--from', 'yesterday'], { HOOKLEDGER_KEY: auditor });
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('/query/from')]);
    expect(existsSync(join(folder, 'x.csv'))).toBe(false);
  }, 60_000);
});

describe('hookledger keys rotate', () => {
  it('goes over to a new master key while the server runs, and after it starts again', async () => {
    const before = await run(['keys', 'rotate', '--json']);
    expect([before.code, before.err]).toEqual([0, '']);
    const { from, to } = JSON.parse(before.out) as { from: string; to: string };
    expect(await systemEvents('master_key.rotated')).toMatchObject([{ data: { from, to } }]);
    const content = async (): Promise<string> =>
      (await server.call('GET', `${base}/events?type=invocation.opened&content=open&limit=500`, { key: auditor })).text;
    expect(await content()).toContain('word 7');
    // A session that is new: its key is made under the new master.
    await server.call('POST', `${base}/hooks/middleware/userMessageInbound`, {
      key: runtime,
      body: { context: { sessionId: 'after', channelId: null, text: 'after the change', mediaIds: [] } },
    });
    expect(await content()).toContain('after the change');
    expect((await run(['doctor', '--json'])).out).toContain('one place only');
    await server.stop();
    server = await startServer({ dataDir: server.dataDir });
    expect(await content()).toContain('after the change');
    // What is derived is what it was: keys are still known, rows are still sealed.
    const sealed = await server.call('GET', `${base}/checkpoint`, { key: auditor });
    expect(sealed.status).toBe(200);
    const ready = await server.call('GET', '/health/ready', { key: null });
    expect(ready.body).toMatchObject({ sealer: 'ok' });
  }, 120_000);

  it('raises no alarm over keys that were destroyed, however many rotations ago', async () => {
    const erased = await server.call('POST', `${base}/erasures`, { body: { scope: { sessionId: 's-1' } } });
    expect([erased.status, erased.text]).toEqual([201, erased.text]);
    for (let rotation = 0; rotation < 2; rotation += 1) {
      expect((await run(['keys', 'rotate', '--json'])).code).toBe(0);
    }
    const { code, out } = await run(['verify']);
    expect([code, out]).toEqual([0, expect.stringContaining('No fault was found.')]);
  }, 120_000);
});
