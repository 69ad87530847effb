/* eslint-disable @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-member-access,
   @typescript-eslint/no-unsafe-call, @typescript-eslint/no-unsafe-argument
   -- an answer is whatever the server said; expectations say what it is */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import { rowTagKey } from '#proof';
import { asData, invocationStream, type NewEvent } from '#record';
import { masterKeyFrom, masterKeysOf, openRootSecret, postgresSealing, type Sealing } from '#sealing';
import { openEventSource } from './support/event-source.js';
import { startServer, until, type CallAnswer, type CallOptions, type RunningServer } from './support/running-server.js';
import { verifyAt } from './support/tampering.js';
import { createTestDatabase, type TestDatabase } from './support/test-postgres.js';

const base = '/v1/accounts/default';
const masterKey = Buffer.alloc(32, 7);
const env = { HOOKLEDGER_MASTER_KEY: masterKey.toString('hex') };

let database: TestDatabase;
let server: RunningServer;
let other: RunningServer;
let sql: Sql;
let rootSecret: Buffer;
let sealing: Sealing;
let past: EventStore;
let auditor = '';
const ends: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  const withDatabase = { ...env, DATABASE_URL: database.url };
  server = await startServer({ env: withDatabase });
  other = await startServer({ env: { ...withDatabase, HOOKLEDGER_ROLES: 'gateway,control' } });
  const pool = createPool({ connectionString: database.url, max: 3 });
  sql = sqlOver(pool);
  const masterKeys = masterKeysOf(masterKeyFrom(masterKey, 'environment'));
  rootSecret = await openRootSecret(sql, masterKeys);
  // What the server would have written 300 days ago.
  past = postgresEventStore({
    connectionString: database.url,
    tagKey: rowTagKey(rootSecret),
    now: () => new Date(Date.now() - 300 * 86_400_000),
  });
  sealing = postgresSealing({ sql, store: past, masterKeys });
  ends.push(
    () => server.close(),
    () => other.close(),
    () => past.close(),
    () => pool.end(),
    () => database.drop(),
  );
  auditor = (await call('POST', '/keys', { body: { role: 'auditor', name: 'a' } })).body.secret;
}, 120_000);
afterAll(async () => {
  for (const end of ends) await end();
});

const call = (method: string, path: string, options: CallOptions = {}, at = server): Promise<CallAnswer> =>
  at.call(method, `${base}${path}`, options);

const say = async (text: string, envelope: object = {}, at = server): Promise<CallAnswer> => {
  const context = { sessionId: '42', channelId: null, text, mediaIds: [] };
  const answer = await call('POST', '/hooks/middleware/userMessageInbound', { body: { ...envelope, context } }, at);
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
  return answer;
};

const contextOf = async (id: string, at = server): Promise<unknown> =>
  (await call('GET', `/invocations/${id}`, { key: auditor }, at)).body.context;

/** Everything sealed, then verified with all that there is. */
const faults = async (): Promise<readonly string[]> => {
  await until('the log is sealed', async () => {
    const [row] = await sql.query(
      'select 1 from account_head h left join tree t using (account) where t.signed is distinct from h.size limit 1',
    );
    return row === undefined;
  });
  return (await verifyAt(database.url, { rootSecret })).named;
};

describe('an erasure', () => {
  const secret = `the secret word is xylophone ${'and more '.repeat(300)}`;
  let id = '';
  let same = '';

  beforeAll(async () => {
    id = (await say(secret, { dataSubject: 'user:42' })).body.invocationId;
    same = (await say('a zebra', { turnId: 't-1' })).body.invocationId;
    await until(
      'the words are found',
      async () => (await call('GET', '/invocations?text=xylophone')).body.items.length > 0,
    );
    expect(await contextOf(id, other)).toMatchObject({ text: secret });
  });

  it('is for operators, names one scope, and is refused while a hold is on it', async () => {
    const body = { scope: { dataSubject: 'user:42' }, reason: 'they asked' };
    expect((await call('POST', '/erasures', { key: auditor, body })).status).toBe(403);
    for (const scope of [{}, { dataSubject: 'a', sessionId: 'b' }, { agentId: 'a' }, { account: false }]) {
      expect((await call('POST', '/erasures', { body: { scope } })).status).toBe(422);
    }
    for (const path of ['/erasures', '/holds']) {
      const unscoped = await call('POST', path, { body: { reason: 'case 7' } });
      expect([path, unscoped.status, unscoped.body.errors]).toEqual([
        path,
        422,
        [{ pointer: '/scope', reason: 'scope must be a JSON object' }],
      ]);
    }
    const hold = await call('POST', '/holds', { body: { scope: { sessionId: '42' }, reason: 'case 7' } });
    expect(hold.status).toBe(201);
    expect(hold.body).toMatchObject({ scope: { kind: 'session', id: '42' }, reason: 'case 7' });
    const refused = await call('POST', '/erasures', { body });
    expect([refused.status, refused.body.code]).toEqual([409, 'held']);
    expect(await contextOf(id)).toMatchObject({ text: secret });
    expect((await call('GET', '/holds', { key: auditor })).body.items).toHaveLength(1);
    const release = `/holds/${hold.body.holdId}`;
    expect((await call('DELETE', release, { headers: { 'if-match': '"7"' } })).status).toBe(412);
    expect((await call('DELETE', release, { headers: { 'if-match': '"1"' } })).status).toBe(204);
    expect((await call('DELETE', release)).status).toBe(410);
    expect((await call('DELETE', '/holds/none')).status).toBe(404);
    expect((await call('GET', '/holds')).body.items).toEqual([]);
  });

  it('takes the content from reads, search and every replica, and the record stays and verifies', async () => {
    const body = { scope: { dataSubject: 'user:42' }, reason: 'they asked' };
    const headers = { 'idempotency-key': 'erase-1' };
    const erased = await call('POST', '/erasures', { body, headers });
    expect(erased.status).toBe(201);
    expect(erased.body).toMatchObject({ state: 'done', scope: { kind: 'subject' }, reason: 'they asked' });
    expect(erased.body.keys).toHaveLength(1);
    expect(erased.body.blobs).toBeGreaterThan(0);
    expect(await contextOf(id)).toMatchObject({ erased: true });
    await until(
      'the other replica forgot',
      async () => ((await contextOf(id, other)) as { erased?: boolean }).erased === true,
    );
    expect((await call('GET', '/invocations?text=xylophone')).body.items).toEqual([]);
    expect((await call('GET', '/invocations?text=zebra')).body.items).toHaveLength(1);
    expect(await contextOf(same)).toMatchObject({ text: 'a zebra' });

    const again = await call('POST', '/erasures', { body, headers });
    expect([again.headers.get('idempotency-replayed'), again.body]).toEqual(['true', erased.body]);
    const repeated = await call('POST', '/erasures', { body });
    expect(repeated.body.erasureId).toBe(erased.body.erasureId);
    expect((await call('GET', `/erasures/${erased.body.erasureId}`, { key: auditor })).body).toEqual(erased.body);
    expect((await call('GET', '/erasures', { key: auditor })).body.items).toEqual([erased.body]);
    expect(await faults()).toEqual([]);
  }, 60_000);

  it('lets the same subject be recorded anew, and erased again', async () => {
    const anew = (await say('back again', { dataSubject: 'user:42' })).body.invocationId;
    expect(await contextOf(anew)).toMatchObject({ text: 'back again' });
    const erased = await call('POST', '/erasures', { body: { scope: { dataSubject: 'user:42' } } });
    expect([erased.status, erased.body.keys.length]).toEqual([201, 1]);
    expect(await contextOf(anew)).toMatchObject({ erased: true });
  });
});

describe('retention and purging', () => {
  const invocation = async (id: string, sessionId: string): Promise<void> => {
    const about = {
      invocationId: id,
      sessionId,
      turnId: 'old-turn',
      dialect: 'middleware',
      hook: 'userMessageInbound',
      hop: 0,
      root: id,
    };
    const envelope = await sealing.envelope('default', { kind: 'session', id: sessionId });
    const context = envelope.seal({ text: 'old' });
    const events: NewEvent[] = [
      {
        ...about,
        type: 'invocation.opened',
        data: asData({ chain: [], withoutHook: 0, context, hostSession: 'absent' }),
      },
      {
        ...about,
        type: 'invocation.closed',
        outcome: 'passed',
        data: asData({ value: null, cancellation: null, hostSession: 'absent', metered: 0 }),
      },
    ];
    await past.append({ account: 'default', writes: [{ stream: invocationStream(id), expectedVersion: 0, events }] });
  };
  const setRetention = (body: object, headers: Record<string, string> = {}): Promise<CallAnswer> =>
    call('PUT', '/retention', { body, headers });

  it('keeps everything for good until somebody says otherwise, with a reason where it is for less than six months', async () => {
    const first = await call('GET', '/retention', { key: auditor });
    expect([first.status, first.headers.get('etag')]).toEqual([200, '"0"']);
    expect(Object.values(first.body.classes).every((days) => days === null)).toBe(true);
    expect(first.body.purges.invocation).toContain('invocation.opened');
    const refused = await setRetention({ classes: { invocation: 30 } });
    expect([refused.status, refused.body.errors]).toEqual([
      422,
      [expect.objectContaining({ pointer: '/classes/invocation' })],
    ]);
    for (const classes of [{ invocation: 0 }, { invocation: 1.5 }, { none: 400 }, { invocation: '400' }]) {
      expect((await setRetention({ classes, reason: 'r' })).status).toBe(422);
    }
    const set = await setRetention({ classes: { invocation: 200 } }, { 'if-match': '"0"' });
    expect([set.status, set.body.classes.invocation, set.headers.get('etag')]).toEqual([200, 200, '"1"']);
    expect((await setRetention({ classes: {} }, { 'if-match': '"0"' })).status).toBe(412);
    expect((await call('PUT', '/retention', { key: auditor, body: { classes: {} } })).status).toBe(403);
  });

  it('purges what is past and not held, says so wherever it was read, and verifies', async () => {
    await invocation('old-1', 'old');
    await invocation('old-2', 'kept');
    await invocation('old-3', 'old');
    const hold = await call('POST', '/holds', { body: { scope: { sessionId: 'kept' } } });
    expect(await faults()).toEqual([]);
    const plan = await call('POST', '/purges', { body: { dryRun: true } });
    expect([plan.status, plan.body.events, plan.body.held]).toEqual([200, 4, 2]);
    const turn = (await call('GET', '/turns/old-turn')).body;
    expect(turn.sessions).toHaveLength(2);

    const purged = await call('POST', '/purges', { body: { reason: 'policy' }, headers: { 'idempotency-key': 'p-1' } });
    expect(purged.status).toBe(201);
    expect(purged.body).toMatchObject({
      dryRun: false,
      events: 4,
      held: 2,
      holds: [hold.body.holdId],
      purgeId: expect.any(String),
    });
    const again = await call('POST', '/purges', { body: { reason: 'policy' }, headers: { 'idempotency-key': 'p-1' } });
    expect([again.headers.get('idempotency-replayed'), again.body.purgeId]).toEqual(['true', purged.body.purgeId]);

    const gone = await call('GET', '/invocations/old-1', { key: auditor });
    expect([gone.status, gone.body.code]).toEqual([410, 'purged']);
    expect((await call('GET', '/answers/old-1')).status).toBe(410);
    expect((await call('GET', '/invocations/old-2', { key: auditor })).status).toBe(200);
    expect((await call('GET', '/invocations/never', { key: auditor })).status).toBe(404);
    const found = (await call('GET', '/invocations?turnId=old-turn')).body.items;
    expect(found.map((item: { invocationId: string }) => item.invocationId)).toEqual(['old-2']);

    const [first, second] = purged.body.ranges;
    const page = (await call('GET', `/events?after=${BigInt(first.first) - 1n}&until=${second.last}`)).body;
    expect(page.items.map(({ invocationId }: { invocationId: string }) => invocationId)).toEqual(['old-2', 'old-2']);
    const [saidAt] = purged.body.positions;
    expect(page.purged).toEqual([
      { first: first.first, last: first.last, saidAt },
      { first: second.first, last: second.last, saidAt },
    ]);
    const from = String(BigInt(first.first) - 1n);
    const reader = await openEventSource(`${server.url}${base}/events/stream?after=${from}`, auditor);
    await until('the stream passed over what was purged', () => reader.events.length > 0);
    await reader.close();
    expect(reader.events[0]).toEqual({ id: first.last, data: { purged: page.purged[0] } });
    expect(await faults()).toEqual([]);

    await call('DELETE', `/holds/${hold.body.holdId}`);
    expect((await call('POST', '/purges', { body: {} })).body).toMatchObject({ events: 2, held: 0 });
    expect(await faults()).toEqual([]);
    expect((await call('GET', '/purges', { key: auditor })).body.items.length).toBe(2);
  }, 90_000);
});

describe('reading what is kept and what is not', () => {
  it('is on record, like every reading of the record', async () => {
    const paths = ['/holds', '/erasures', '/purges', '/retention'];
    for (const path of paths) expect((await call('GET', path, { key: auditor })).status).toBe(200);
    const reads = (await call('GET', '/events?type=audit.read&limit=500')).body.items;
    const read = new Set(reads.map(({ data }: { data: { path: string } }) => data.path));
    expect(paths.filter((path) => !read.has(path))).toEqual([]);
  });
});
