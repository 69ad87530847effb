import { existsSync, readFileSync, truncateSync, appendFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { NoteVerifier, SealingRound } from '#proof';
import { openCheckpoint, originOf, readRoundLine, readVerifierKey, verifyConsistency, verifyInclusion } from '#proof';
import { leafHash } from '#record';
import { startServer, until, type CallAnswer, type RunningServer } from './support/running-server.js';

let server: RunningServer;
const keys = { auditor: '', admin: '', foreign: '' };
const base = '/v1/accounts/default';
const env = { HOOKLEDGER_HEARTBEAT_SECONDS: '1' };

const newKey = async (account: string, role: string): Promise<string> => {
  const answer = await server.call<{ secret: string }>('POST', `/v1/accounts/${account}/keys`, {
    body: { role, name: role },
  });
  expect(answer.status).toBe(201);
  return answer.body.secret;
};

const get = <T>(path: string, key = keys.auditor): Promise<CallAnswer<T>> => server.call<T>('GET', path, { key });

interface LogKeyBody {
  readonly id: string;
  readonly verifierKey: string;
  readonly validFrom: string;
  readonly validUntil: string | null;
}

const logKeys = async (): Promise<{ readonly log: string; readonly items: readonly LogKeyBody[] }> =>
  (await get<{ log: string; items: readonly LogKeyBody[] }>('/v1/log-keys')).body;

const verifierOf = ({ verifierKey }: LogKeyBody): NoteVerifier => {
  const verifier = readVerifierKey(verifierKey);
  if (verifier === null) throw new Error('no verifier key');
  return verifier;
};

const signedHead = async (account = 'default'): Promise<{ size: bigint; root: Uint8Array; by: readonly string[] }> => {
  const { log, items } = await logKeys();
  const answer = await server.call('GET', `/v1/accounts/${account}/checkpoint`);
  expect(answer.status).toBe(200);
  const opened = openCheckpoint(answer.text, items.map(verifierOf));
  if (opened.kind !== 'signed') throw new Error(opened.kind);
  expect(opened.checkpoint.origin).toBe(originOf(log, account));
  return { ...opened.checkpoint, by: opened.by.map(({ id }) => id) };
};

const sizeOf = async (account = 'default'): Promise<bigint> => {
  const answer = await server.call<{ completeUpTo: string | null }>('GET', `/v1/accounts/${account}/events?limit=1`);
  return BigInt(answer.body.completeUpTo ?? -1) + 1n;
};

const sealed = (account = 'default'): Promise<void> =>
  until('all of it is sealed', async () => {
    const answer = await server.call('GET', `/v1/accounts/${account}/checkpoint`);
    return answer.status === 200 && (await signedHead(account)).size >= (await sizeOf(account));
  });

const write = async (count: number): Promise<void> => {
  for (let n = 0; n < count; n += 1) await newKey('default', 'runtime');
};

const bytesOf = (base64: string): Buffer => Buffer.from(base64, 'base64');
const linesFile = (): string => join(server.dataDir, 'checkpoints', 'checkpoints.jsonl');

const rounds = async (): Promise<readonly SealingRound[]> => {
  const verifiers = (await logKeys()).items.map(verifierOf);
  const lines = readFileSync(linesFile(), 'utf8').split('\n').slice(0, -1);
  return lines.flatMap((line) => {
    const read = readRoundLine(line, verifiers);
    return read.kind === 'signed' ? [read.round] : [];
  });
};

beforeAll(async () => {
  server = await startServer({ env });
  await server.call('POST', '/v1/accounts', { body: { id: 'other', name: 'Other' } });
  keys.auditor = await newKey('default', 'auditor');
  keys.admin = await newKey('default', 'admin');
  keys.foreign = await newKey('other', 'auditor');
  await write(5);
  await sealed();
}, 120_000);

afterAll(() => server.close());

interface ProofBody {
  readonly size: string;
  readonly rootHash: string;
  readonly leafBytes: string;
  readonly leafHash: string;
  readonly inclusionPath: readonly string[];
  readonly checkpoint: string | null;
}

interface ConsistencyBody {
  readonly from: string;
  readonly to: string;
  readonly fromRootHash: string;
  readonly toRootHash: string;
  readonly consistencyPath: readonly string[];
}

describe('a checkpoint', () => {
  it('is a signed note of the account’s log, as text', async () => {
    const answer = await get(`${base}/checkpoint`);
    expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    const head = await signedHead();
    expect(head.size).toBeGreaterThan(0n);
    expect(head.by).toEqual([(await logKeys()).items.at(-1)?.id]);
  });
});

describe('a proof', () => {
  it('shows that an event is under the checkpoint, for every event and every size', async () => {
    const head = await signedHead();
    for (let position = 0n; position < head.size; position += 1n) {
      const { body } = await get<ProofBody>(`${base}/events/${String(position)}/proof?size=${String(head.size)}`);
      const leaf = bytesOf(body.leafHash);
      expect(leafHash(bytesOf(body.leafBytes))).toEqual(leaf);
      expect(JSON.parse(bytesOf(body.leafBytes).toString('utf8'))).toMatchObject({ account: 'default' });
      expect(verifyInclusion(leaf, position, head.size, body.inclusionPath.map(bytesOf), head.root)).toBe(true);
      const small = await get<ProofBody>(`${base}/events/${String(position)}/proof?size=${String(position + 1n)}`);
      const path = small.body.inclusionPath.map(bytesOf);
      expect(verifyInclusion(leaf, position, position + 1n, path, bytesOf(small.body.rootHash))).toBe(true);
    }
  });

  it('is for the newest checkpoint where no size is asked for, and brings it', async () => {
    await sealed();
    const { body } = await get<ProofBody>(`${base}/events/0/proof`);
    const opened = openCheckpoint(body.checkpoint ?? '', (await logKeys()).items.map(verifierOf));
    expect(opened).toMatchObject({
      kind: 'signed',
      checkpoint: { size: BigInt(body.size), root: bytesOf(body.rootHash) },
    });
  });

  it('of consistency shows that the log was only added to', async () => {
    const before = await signedHead();
    await write(4);
    await sealed();
    const after = await signedHead();
    const sizes = `from=${String(before.size)}&to=${String(after.size)}`;
    const { body } = await get<ConsistencyBody>(`${base}/consistency?${sizes}`);
    expect(verifyConsistency(before, after, body.consistencyPath.map(bytesOf))).toBe(true);
    const open = await get<ConsistencyBody>(`${base}/consistency?from=${String(before.size)}`);
    expect(BigInt(open.body.to)).toBeGreaterThanOrEqual(after.size);
    expect((await get<ConsistencyBody>(`${base}/consistency?from=0&to=1`)).body.consistencyPath).toEqual([]);
  });

  it.each([
    ['/events/0/proof?size=100000', 400, 'bad_query'],
    ['/events/3/proof?size=3', 400, 'bad_query'],
    ['/events/0/proof?size=0', 400, 'bad_query'],
    ['/events/0/proof?size=-1', 400, 'bad_query'],
    ['/events/0/proof?size=1.5', 400, 'bad_query'],
    ['/events/0/proof?size=1&size=2', 400, 'bad_query'],
    ['/events/0/proof?sice=1', 400, 'bad_query'],
    ['/events/100000/proof', 404, 'unknown_event'],
    ['/events/x/proof', 400, 'bad_position'],
    ['/events/-1/proof', 400, 'bad_position'],
    ['/events/99999999999999999999/proof', 400, 'bad_position'],
    ['/events/%00/proof', 400, 'bad_id'],
    ['/consistency', 400, 'bad_query'],
    ['/consistency?to=1', 400, 'bad_query'],
    ['/consistency?from=3&to=2', 400, 'bad_query'],
    ['/consistency?from=1&to=100000', 400, 'bad_query'],
    ['/consistency?from=100000', 400, 'bad_query'],
    ['/consistency?from=x', 400, 'bad_query'],
    ['/checkpoint?size=1', 400, 'bad_query'],
  ])('is refused: %s is %d %s', async (path, status, code) => {
    const answer = await get<{ code: string }>(`${base}${path}`);
    expect([answer.status, answer.body.code]).toEqual([status, code]);
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
  });

  it.each(['/checkpoint', '/events/0/proof', '/consistency?from=1'])(
    '%s is for the account’s auditors',
    async (path) => {
      expect((await server.call('GET', `${base}${path}`, { key: null })).status).toBe(401);
      expect((await get(`${base}${path}`, keys.admin)).status).toBe(403);
      expect((await get(`${base}${path}`, keys.foreign)).status).toBe(404);
      expect((await get(`/v1/accounts/nobody${path}`, server.operatorKey)).status).toBe(404);
      expect((await get(`${base}${path}`, server.operatorKey)).status).toBe(200);
    },
  );
});

describe('the folder of checkpoints', () => {
  it('has every account in its newest line, and the keys', async () => {
    await sealed('system');
    const newest = (await rounds()).at(-1);
    expect(newest?.accounts.map(({ account }) => account)).toEqual(['default', 'other', 'system']);
    const { log, items } = await logKeys();
    const kept = JSON.parse(readFileSync(join(server.dataDir, 'checkpoints', 'log-keys.json'), 'utf8')) as {
      log: string;
      keys: readonly LogKeyBody[];
    };
    expect([kept.log, kept.keys.map(({ verifierKey }) => verifierKey)]).toEqual([
      log,
      items.map(({ verifierKey }) => verifierKey),
    ]);
  });
});

describe('a log key', () => {
  it('is rotated once for an Idempotency-Key; what was signed before stays good', async () => {
    const before = await logKeys();
    const first = await signedHead();
    const options = { body: { reason: 'drill' }, headers: { 'idempotency-key': 'rotate-1' } };
    const rotated = await server.call<LogKeyBody>('POST', '/v1/log-keys/rotation', options);
    expect([rotated.status, rotated.body.validUntil]).toEqual([201, null]);
    const again = await server.call<LogKeyBody>('POST', '/v1/log-keys/rotation', options);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(again.body).toEqual(rotated.body);
    const after = await logKeys();
    expect(after.items.map(({ id }) => id)).toEqual([...before.items.map(({ id }) => id), rotated.body.id]);
    expect(after.items.at(-2)?.validUntil).toBe(rotated.body.validFrom);
    await write(1);
    await sealed();
    const head = await signedHead();
    expect(head.by).toEqual([rotated.body.id]);
    const { body } = await get<ConsistencyBody>(
      `${base}/consistency?from=${String(first.size)}&to=${String(head.size)}`,
    );
    expect(verifyConsistency(first, head, body.consistencyPath.map(bytesOf))).toBe(true);
    const events = await server.call<{ items: readonly { data: object }[] }>(
      'GET',
      '/v1/accounts/system/events?type=log_key.rotated',
    );
    expect(events.body.items.at(-1)?.data).toMatchObject({ to: rotated.body.id, log: after.log });
  });

  it('is rotated by operators only, and its body is checked', async () => {
    expect((await server.call('POST', '/v1/log-keys/rotation', { key: keys.admin, body: {} })).status).toBe(403);
    expect((await server.call('POST', '/v1/log-keys/rotation', { body: { why: 'x' } })).status).toBe(422);
    expect((await server.call('GET', '/v1/log-keys', { key: null })).status).toBe(401);
  });
});

describe('a heartbeat', () => {
  it('says how large every account’s log is', async () => {
    interface Beat {
      readonly data: { readonly sizes: { readonly [account: string]: string }; readonly instance: string };
    }
    const path = '/v1/accounts/system/events?type=instance.heartbeat&limit=500';
    const beats = async (): Promise<readonly Beat[]> =>
      (await server.call<{ items: readonly Beat[] }>('GET', path)).body.items;
    await until('there are some', async () => (await beats()).length >= 2);
    const sizes = (await beats()).at(-1)?.data.sizes ?? {};
    expect(Object.keys(sizes).sort()).toEqual(['default', 'other', 'system']);
    expect(BigInt(sizes.default ?? 0)).toBe(await sizeOf());
  });
});

describe('sealing over a restart', () => {
  it('goes on where it was killed, with a line of its folder cut in the middle', async () => {
    await write(2);
    await server.kill();
    const lines = readFileSync(linesFile(), 'utf8');
    truncateSync(linesFile(), statSync(linesFile()).size - 40);
    server = await startServer({ dataDir: server.dataDir, env });
    await write(2);
    await sealed();
    const after = readFileSync(linesFile(), 'utf8');
    expect(after.startsWith(lines.slice(0, -40))).toBe(true);
    const head = await signedHead();
    await until('it is outside too', async () =>
      ((await rounds()).at(-1)?.accounts ?? []).some(({ account, size }) => account === 'default' && size >= head.size),
    );
    const sizes = (await rounds()).map(
      ({ accounts }) => accounts.find(({ account }) => account === 'default')?.size ?? 0n,
    );
    expect(sizes).toEqual([...sizes].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)));
    expect(await server.call<{ details: { sealer: { state: string } } }>('GET', '/health/ready')).toMatchObject({
      status: 200,
      body: { sealer: 'ok' },
    });
  }, 60_000);

  it('says so when its folder is another log’s, and goes on in the database', async () => {
    await server.kill();
    const keysFile = join(server.dataDir, 'checkpoints', 'log-keys.json');
    const kept = readFileSync(keysFile, 'utf8');
    const { log } = JSON.parse(kept) as { log: string };
    truncateSync(keysFile, 0);
    appendFileSync(keysFile, kept.replace(log, '00000000-0000-4000-8000-000000000000'));
    server = await startServer({ dataDir: server.dataDir, env });
    await write(1);
    await sealed();
    await until('it says so', async () => {
      const { body } = await server.call<{ sealer: string }>('GET', '/health/ready');
      return body.sealer === 'degraded';
    });
    expect(existsSync(keysFile)).toBe(true);
    await server.stop();
    truncateSync(keysFile, 0);
    appendFileSync(keysFile, kept);
    server = await startServer({ dataDir: server.dataDir, env });
  }, 60_000);
});
