import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { RunningServer } from './support/running-server.js';
import { clusterOf, ensureBuilt, startServer, testOperatorKey, until } from './support/running-server.js';
import { tamper } from './support/tampering.js';

const patience = 180_000;
const root = join(import.meta.dirname, '..');
const command = join(root, 'bin/hookledger.js');
/** Alone in a folder of its own: it must need nothing that lies beside it in the project. */
const alone = mkdtempSync(join(tmpdir(), 'hookledger-verify-'));
const verifier = join(alone, 'hookledger-verify.mjs');
const exported = join(alone, 'export.tar');
const unpacked = join(alone, 'export');

let server: RunningServer;

beforeAll(async () => {
  ensureBuilt();
  const built = spawnSync(process.execPath, [join(root, 'scripts/build-verifier.js')], { encoding: 'utf8' });
  if (built.status !== 0) throw new Error(built.stderr);
  copyFileSync(join(root, 'dist/verifier/hookledger-verify.mjs'), verifier);
  server = await startServer();
  for (let n = 0; n < 5; n += 1) {
    const body = { turnId: `t-${n}`, context };
    const fired = await server.call('POST', '/v1/accounts/default/hooks/middleware/systemPrompt', { body });
    if (fired.status !== 200) throw new Error(fired.text);
  }
  await until('all is sealed', () => sealedSize() >= 10);
}, patience);

afterAll(async () => {
  await server.close();
  rmSync(alone, { recursive: true, force: true });
}, patience);

const context = { sessionId: 's', systemPrompt: 'a long prompt '.repeat(200), agentId: 'a', sessionKind: 'chat' };

const checkpoints = (): string => join(server.dataDir, 'checkpoints');

/** Events of account `default` under the newest line outside of the database. */
const sealedSize = (): number => {
  const file = join(checkpoints(), 'checkpoints.jsonl');
  const newest = existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n').at(-1) : undefined;
  if (newest === undefined) return 0;
  const { accounts } = JSON.parse(newest) as { accounts: { account: string; size: string }[] };
  return Number(accounts.find(({ account }) => account === 'default')?.size ?? 0);
};

interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

const run = (program: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ran> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [program, ...args], {
      cwd: alone,
      env: { PATH: process.env.PATH ?? '', ...env },
    });
    const [out, err] = [child.stdout, child.stderr].map((stream) => {
      const parts: Buffer[] = [];
      stream.on('data', (part: Buffer) => parts.push(part));
      return parts;
    });
    const textOf = (parts: readonly Buffer[] | undefined): string => Buffer.concat(parts ?? []).toString();
    child.once('close', (code) => resolve({ code, out: textOf(out), err: textOf(err) }));
  });

const verify = (...args: readonly string[]): Promise<Ran> =>
  run(command, ['verify', ...args], { HOOKLEDGER_DATA: server.dataDir });

const linesOf = ({ out }: Ran): readonly { readonly kind: string; readonly [field: string]: unknown }[] =>
  out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { kind: string });

const superuser = (): string => {
  const password = readFileSync(join(server.dataDir, 'postgres.password'), 'utf8').trim();
  const port = readFileSync(join(clusterOf(server.dataDir), 'postmaster.pid'), 'utf8').split('\n')[3] ?? '';
  return `postgres://hookledger:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`;
};

describe('hookledger verify', () => {
  it('finds nothing in a log that a server writes and seals meanwhile', async () => {
    const [ran] = await Promise.all([
      verify('--json'),
      server.call('POST', '/v1/accounts/default/hooks/middleware/systemPrompt', { body: { context } }),
    ]);
    expect(ran.err).toBe('');
    const lines = linesOf(ran);
    expect(lines.map(({ kind }) => kind)).toEqual(['summary']);
    expect(lines[0]).toMatchObject({ ok: true, faults: 0 });
    expect(Number(lines[0]?.events)).toBeGreaterThan(10);
    expect(lines[0]?.outside).not.toBeNull();
    expect(ran.code).toBe(0);
  }, 60_000);

  it('says in words what it checked', async () => {
    const { code, out } = await verify();
    expect(out).toMatch(
      /Checked \d+ events of \d+ accounts \(\d+ sealed\), \d+ checkpoints, \d+ blobs, \d+ data keys/u,
    );
    expect(out).toMatch(/No fault was found\.\n$/u);
    expect(code).toBe(0);
  }, 60_000);

  it('ends with 2 where it cannot verify', async () => {
    const away = await run(command, ['verify'], { HOOKLEDGER_DATA: join(alone, 'nothing') });
    expect(away).toMatchObject({ code: 2, out: '' });
    expect(await verify('--account', 'nobody')).toMatchObject({ code: 2, out: '' });
    const misused = await verify('--checkpoints', join(alone, 'not-there'));
    expect(misused.code).toBe(2);
    const wrongKey = await run(command, ['verify'], {
      HOOKLEDGER_DATA: join(alone, 'nothing'),
      DATABASE_URL: superuser(),
      HOOKLEDGER_MASTER_KEY: 'ab'.repeat(32),
    });
    expect(wrongKey).toMatchObject({ code: 2, out: '' });
  }, 60_000);
});

describe('the verifier of one file', () => {
  beforeAll(async () => {
    const env = { HOOKLEDGER_URL: server.url, HOOKLEDGER_KEY: testOperatorKey };
    const { code, err } = await run(command, ['export', '--to', exported], env);
    if (code !== 0) throw new Error(err);
    mkdirSync(unpacked);
    const unpack = spawnSync('tar', ['xf', exported, '-C', unpacked, '--strip-components=0'], { encoding: 'utf8' });
    if (unpack.status !== 0) throw new Error(unpack.stderr);
  }, patience);

  it('proves an export, as a tar and as a folder, with the keys and checkpoints that somebody kept', async () => {
    for (const place of [exported, folderOf(unpacked)]) {
      const ran = await run(verifier, [place, '--checkpoints', checkpoints(), '--json']);
      expect(ran.err).toBe('');
      const [summary] = linesOf(ran);
      expect(summary).toMatchObject({ kind: 'summary', ok: true, account: 'default' });
      expect(Number(summary?.proven)).toBeGreaterThanOrEqual(10);
      expect((summary?.outside as { compared: number }).compared).toBeGreaterThan(0);
      expect(ran.code).toBe(0);
    }
  }, 60_000);

  it('names the event that was changed in an export', async () => {
    const file = join(folderOf(unpacked), 'events.jsonl');
    const before = readFileSync(file);
    const lines = before.toString('utf8').split('\n');
    lines[2] = (lines[2] ?? '').replace('"hook":"', '"hook":"x');
    writeFileSync(file, lines.join('\n'));
    try {
      const ran = await run(verifier, [folderOf(unpacked), '--json']);
      const faults = linesOf(ran).filter(({ kind }) => kind === 'fault');
      expect(faults.map(({ code, position }) => `${String(code)} ${String(position)}`)).toEqual(
        expect.arrayContaining(['bytes-changed 2', 'proof-wrong 2', 'file-changed null']),
      );
      expect(ran.code).toBe(1);
    } finally {
      writeFileSync(file, before);
    }
  }, 60_000);

  it('ends with 2 for an export that proves nothing, which anybody could have written', async () => {
    const folder = folderOf(unpacked);
    const [proofs, checkpointFile, manifest] = ['proofs.jsonl', 'checkpoints.jsonl', 'manifest.json'].map((name) =>
      join(folder, name),
    );
    if (proofs === undefined || checkpointFile === undefined || manifest === undefined) throw new Error('no files');
    const before = [proofs, checkpointFile, manifest].map((file) => [file, readFileSync(file, 'utf8')] as const);
    const unproven = readFileSync(proofs, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.stringify({ ...(JSON.parse(line) as object), proof: null }));
    writeFileSync(proofs, `${unproven.join('\n')}\n`);
    writeFileSync(checkpointFile, '');
    const told = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly files: object };
    const files = Object.keys(told.files).map((name) => {
      const bytes = readFileSync(join(folder, name));
      return [name, { bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }] as const;
    });
    writeFileSync(manifest, JSON.stringify({ ...told, checkpoint: null, files: Object.fromEntries(files) }));
    try {
      const ran = await run(verifier, [folder]);
      expect([ran.code, ran.err]).toEqual([2, expect.stringContaining('Not one event of this export is proven')]);
    } finally {
      for (const [file, text] of before) writeFileSync(file, text);
    }
  }, 60_000);

  it('checks a checkpoint file alone, and names the line that is not signed', async () => {
    const ran = await run(verifier, [checkpoints()]);
    expect(ran.code).toBe(0);
    const copy = join(alone, 'checkpoints');
    mkdirSync(copy);
    copyFileSync(join(checkpoints(), 'log-keys.json'), join(copy, 'log-keys.json'));
    const text = readFileSync(join(checkpoints(), 'checkpoints.jsonl'), 'utf8');
    writeFileSync(join(copy, 'checkpoints.jsonl'), text.replace('"size":"', '"size":"9'));
    const changed = await run(verifier, [copy, '--json']);
    expect(linesOf(changed)[0]).toMatchObject({
      kind: 'fault',
      code: 'outside-unsigned',
      at: 'checkpoints.jsonl line 1',
    });
    expect(changed.code).toBe(1);
  }, 60_000);

  it('verifies a database that it is given by its URL', async () => {
    const ran = await run(verifier, [superuser(), '--json', '--checkpoints', checkpoints()], {
      HOOKLEDGER_MASTER_KEY: readFileSync(join(server.dataDir, 'master.key'), 'utf8').trim(),
    });
    expect(linesOf(ran)).toEqual([expect.objectContaining({ kind: 'summary', ok: true })]);
  }, 60_000);

  it('ends with 2 for what is no record', async () => {
    expect((await run(verifier, [alone])).code).toBe(2);
    expect((await run(verifier, [join(alone, 'not-there')])).code).toBe(2);
    expect((await run(verifier, [])).code).toBe(2);
  }, 60_000);
});

/** A tar may hold its files in a folder. */
const folderOf = (place: string): string => {
  if (existsSync(join(place, 'manifest.json'))) return place;
  const found = spawnSync('find', [place, '-name', 'manifest.json'], { encoding: 'utf8' }).stdout.trim();
  return join(found, '..');
};

describe('a record that somebody changed while the server runs', () => {
  it('is found by the command, with the event and what is wrong with it', async () => {
    await tamper(
      superuser(),
      `update event set type = 'handler.skipped' where account = 'default' and account_position = 1`,
    );
    const ran = await verify();
    expect(ran.out).toMatch(/^default 1 {2}column-changed {2}event\.type: the bytes say another value$/mu);
    expect(ran.out).toMatch(/^1 fault\.$/mu);
    expect(ran.code).toBe(1);
  }, 60_000);
});
