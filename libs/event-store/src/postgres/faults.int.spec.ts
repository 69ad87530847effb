import { randomUUID } from 'node:crypto';
import type { Server, Socket } from 'node:net';
import { connect, createServer } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type pg from 'pg';
import { rowTagKey } from '#proof';
import type { NewEvent } from '#record';
import { migrate } from '#migrations';
import type { TestCluster, TestDatabase } from '../../../../test/support/test-postgres.js';
import { createLedgerDatabase, createTestDatabase, startTestCluster } from '../../../../test/support/test-postgres.js';
import type { Append, AppendResult, EventStore } from '../event-store.js';
import { LogBusy, LogRefused, LogUnavailable } from '../event-store.js';
import { createPool, sqlOver } from './pool.js';
import type { PostgresStoreOptions } from './postgres-store.js';
import { postgresEventStore } from './postgres-store.js';

const append = (stream: string, more: Partial<NewEvent> = {}, account = 'a'): Append => ({
  account,
  writes: [{ stream, expectedVersion: 'any', events: [{ type: 'plugin.tried', data: { stream }, ...more }] }],
});

const kinds = (results: readonly PromiseSettledResult<AppendResult>[]): readonly string[] =>
  results.map((r) => (r.status === 'fulfilled' ? r.value.kind : (r.reason as Error).name));

const isDense = (numbers: readonly bigint[], from = 0n): boolean => numbers.every((n, at) => n === from + BigInt(at));

const tagKey = rowTagKey(Buffer.alloc(32, 1));

describe('the log when its database misbehaves', () => {
  let database: TestDatabase;
  let admin: pg.Pool;
  const stores: EventStore[] = [];

  beforeEach(async () => {
    database = await createLedgerDatabase();
    admin = createPool({ connectionString: database.url, max: 4 });
  }, 60_000);

  afterEach(async () => {
    await Promise.all(stores.splice(0).map((store) => store.close()));
    await admin.end();
    await database.drop();
  });

  const open = (options: Partial<PostgresStoreOptions> = {}): EventStore => {
    const store = postgresEventStore({ connectionString: database.url, tagKey, ...options });
    stores.push(store);
    return store;
  };

  /** Makes the database fail with an SQLSTATE when it stores an event of this type. */
  const failOn = (type: string, sqlstate: string): Promise<unknown> =>
    admin.query(`
      create or replace function fail_on_purpose() returns trigger language plpgsql as $$
      begin
        if new.type = '${type}' then raise exception 'on purpose' using errcode = '${sqlstate}'; end if;
        return new;
      end $$;
      create or replace trigger fail_on_purpose before insert on event for each row execute function fail_on_purpose()`);

  it('stores everything but the one event that the database refuses', async () => {
    await failOn('plugin.tripped', '22021');
    const store = open();
    const results = await Promise.allSettled(
      Array.from({ length: 50 }, (_, n) => store.append(append(`s/${n}`, n === 25 ? { type: 'plugin.tripped' } : {}))),
    );
    expect(kinds(results).map((kind, n) => (n === 25 ? kind === 'LogRefused' : kind === 'appended'))).toEqual(
      results.map(() => true),
    );
    const events = await store.readAccount('a', { limit: 100 });
    expect(events).toHaveLength(49);
    expect(isDense(events.map((e) => e.position))).toBe(true);
    expect((await store.append(append('s/25'))).kind).toBe('appended');
  });

  it('says no word of the content when the database refuses an event', async () => {
    await admin.query("alter table event add constraint odd check (stream <> 'secret-stream') not valid");
    const messages: string[] = [];
    const store = open({ log: (_level, message, facts) => messages.push(message + JSON.stringify(facts)) });
    const refusal = await store.append(append('secret-stream')).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(LogRefused);
    expect(`${String(refusal)} ${messages.join()}`).not.toContain('secret');
  });

  it.each(['53100', '58030', '57P03', '25006'])(
    'is unavailable while the database fails with %s, and works after',
    async (state) => {
      await failOn('plugin.tried', state);
      const store = open({ patienceMs: 1_500 });
      await expect(store.append(append('s'))).rejects.toBeInstanceOf(LogUnavailable);
      await admin.query('drop trigger fail_on_purpose on event');
      expect(await store.append(append('s'))).toMatchObject({ kind: 'appended', first: 0n });
    },
  );

  it('tries again what failed for a passing reason', async () => {
    await admin.query('create sequence tries');
    await failOn('plugin.tried', '40001');
    await admin.query(`
      create or replace function fail_on_purpose() returns trigger language plpgsql as $$
      begin
        if nextval('tries') < 4 then raise exception 'on purpose' using errcode = '40P01'; end if;
        return new;
      end $$`);
    expect(await open().append(append('s'))).toMatchObject({ kind: 'appended', first: 0n });
  });

  it('is busy when too many appends wait, and takes those that waited', async () => {
    const store = open({ maxQueued: 5 });
    const holder = await admin.connect();
    await holder.query('begin');
    await holder.query('select from head for update');
    const appends = Array.from({ length: 30 }, (_, n) => store.append(append(`s/${n}`)));
    const settled = Promise.allSettled(appends);
    await Promise.any(
      appends.map((each) =>
        each.then(
          () => Promise.reject(new Error()),
          () => undefined,
        ),
      ),
    );
    await holder.query('commit');
    holder.release();
    const results = kinds(await settled);
    expect(results.filter((kind) => kind === 'LogBusy').length).toBeGreaterThan(0);
    expect(results.filter((kind) => kind === 'appended').length).toBeGreaterThanOrEqual(5);
    expect(new Set(results)).toEqual(new Set(['LogBusy', 'appended']));
    expect(LogBusy.name).toBe('LogBusy');
    expect(await store.accountSize('a')).toBe(BigInt(results.filter((kind) => kind === 'appended').length));
  });

  it('refuses data that is no JSON to its own caller only', async () => {
    const store = open();
    const bad = store.append(append('bad', { data: { n: Number.NaN } }));
    const good = store.append(append('good'));
    await expect(bad).rejects.toBeInstanceOf(TypeError);
    expect((await good).kind).toBe('appended');
  });

  it('takes nothing more once it is closed, but answers what it took', async () => {
    const store = postgresEventStore({ connectionString: database.url, tagKey });
    const taken = Array.from({ length: 20 }, (_, n) => store.append(append(`s/${n}`)));
    await store.close();
    expect(new Set((await Promise.all(taken)).map(({ kind }) => kind))).toEqual(new Set(['appended']));
    await expect(store.append(append('late'))).rejects.toBeInstanceOf(LogUnavailable);
  });

  it('goes on without a gap where one part of the table ends, made ahead or not', async () => {
    const store = open();
    for (const last of [4_999_995n, 9_999_995n, 24_999_995n]) {
      await admin.query('update head set position = $1', [String(last)]);
      const before = await store.accountSize('a');
      await Promise.all(Array.from({ length: 12 }, (_, n) => store.append(append(`s/${n}`))));
      const events = await store.readAll(last, 100);
      expect(events).toHaveLength(12);
      expect(
        isDense(
          events.map((e) => e.globalPosition),
          last + 1n,
        ),
      ).toBe(true);
      expect(
        isDense(
          events.map((e) => e.position),
          before,
        ),
      ).toBe(true);
    }
    expect((await store.readAccount('a', { limit: 100 })).map((e) => e.position)).toEqual(
      Array.from({ length: 36 }, (_, n) => BigInt(n)),
    );
  });

  it.each([
    ['update event set type = type'],
    ['delete from event'],
    ['truncate event'],
    ['update event_0 set bytes = bytes'],
    ['delete from event_0'],
    ['truncate event_0'],
  ])('cannot be rewritten, not by the owner of the tables either: %s', async (statement) => {
    const store = open();
    await store.append(append('s'));
    await expect(admin.query(statement)).rejects.toThrow('events are never changed or removed');
    expect(await store.accountSize('a')).toBe(1n);
  });

  it('works as a role that can do no more than append and read', async () => {
    const role = `app_${randomUUID().replaceAll('-', '')}`;
    await admin.query(`create role ${role} login password 'p'`);
    await migrate(database.url, { appRole: role });
    const url = new URL(database.url);
    url.username = role;
    url.password = 'p';
    const store = open({ connectionString: url.href });
    const pool = createPool({ connectionString: url.href });
    const blob = { hash: 'ab'.repeat(32), bytes: Buffer.from('x') };
    expect(await store.append({ ...append('s'), blobs: [blob] })).toMatchObject({ kind: 'appended', first: 0n });
    expect(
      (await store.claim({ account: 'a', key: 'k', requestDigest: 'd', invocationId: null, leaseMs: 1 })).kind,
    ).toBe('claimed');
    expect(await store.readStream('a', 's')).toHaveLength(1);
    for (const statement of [
      'insert into event select * from event',
      'update event set type = type',
      'delete from event_0',
      'truncate event',
      'update head set position = 7',
      'delete from stream',
      'alter table event disable trigger all',
    ]) {
      await expect(pool.query(statement)).rejects.toThrow(/permission denied|must be owner/u);
    }
    await pool.query('create table read_model (n int)');
    await pool.query("insert into follower (name) values ('x')");
    await pool.query('drop table read_model');
    await pool.end();
    await store.close();
    stores.splice(stores.indexOf(store), 1);
    await admin.query(`drop owned by ${role}; drop role ${role}`);
  });
});

describe('migrating', () => {
  it('can be done by three replicas at once on an empty database, and again later', async () => {
    const database = await createTestDatabase();
    await Promise.all([migrate(database.url), migrate(database.url), migrate(database.url)]);
    await migrate(database.url);
    const store = postgresEventStore({ connectionString: database.url, tagKey });
    expect((await store.append(append('s'))).kind).toBe('appended');
    await store.close();
    await database.drop();
  }, 60_000);
});

/** A wire between store and database that can be cut. */
interface Wire {
  readonly url: string;
  /** `deaf`: what the server says no longer arrives, and the connection breaks at its next word. */
  mode: 'through' | 'deaf' | 'frozen';
  close(): Promise<void>;
}

const wireTo = async (url: string): Promise<Wire> => {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  const held: (() => void)[] = [];
  let mode: Wire['mode'] = 'through';
  const server: Server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => sockets.delete(socket));
    }
    client.on('data', (data) => {
      if (mode === 'frozen') held.push(() => upstream.write(data));
      else upstream.write(data);
    });
    upstream.on('data', (data) => {
      if (mode === 'deaf') client.destroy();
      else if (mode === 'frozen') held.push(() => client.write(data));
      else client.write(data);
    });
    client.on('close', () => upstream.end());
    upstream.on('close', () => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const through = new URL(url);
  through.port = String(address.port);
  return {
    url: through.href,
    get mode() {
      return mode;
    },
    set mode(next) {
      mode = next;
      if (mode === 'through') for (const send of held.splice(0)) send();
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
};

describe('the log when the way to its database breaks', () => {
  let database: TestDatabase;
  let wire: Wire;
  let store: EventStore;
  let direct: EventStore;

  beforeEach(async () => {
    database = await createLedgerDatabase();
    wire = await wireTo(database.url);
    direct = postgresEventStore({ connectionString: database.url, tagKey });
    store = postgresEventStore({ connectionString: wire.url, patienceMs: 1_500, tagKey });
    await store.append(append('warm'));
  });

  afterEach(async () => {
    await Promise.all([store.close(), direct.close()]);
    await wire.close();
    await database.drop();
  });

  it('counts an append as done whose commit was made but never answered', async () => {
    wire.mode = 'deaf';
    const appends = Array.from({ length: 8 }, (_, n) => store.append(append(`s/${n}`)));
    while ((await direct.accountSize('a')) < 9n) await new Promise((resolve) => setTimeout(resolve, 5));
    wire.mode = 'through';
    const results = await Promise.all(appends);
    expect(new Set(results.map(({ kind }) => kind))).toEqual(new Set(['appended']));
    const stored = await direct.readAccount('a', { limit: 100 });
    expect(stored).toHaveLength(9);
    for (const result of results) {
      if (result.kind !== 'appended') throw new Error(result.kind);
      const [told] = result.events;
      const there = stored[Number(told?.position)];
      expect({ ...told, bytes: null }).toEqual({ ...there, bytes: null });
      expect(told?.event.streamVersion).toBe(1);
    }
  });

  it('counts a command as done that recorded nothing and whose commit was never answered', async () => {
    const claim = await direct.claim({
      account: 'a',
      key: 'k',
      requestDigest: 'd',
      invocationId: null,
      leaseMs: 60_000,
    });
    if (claim.kind !== 'claimed') throw new Error(claim.kind);
    wire.mode = 'deaf';
    const command = { key: 'k', token: claim.token, result: { stream: 's', status: 200 } };
    const done = store.append({ account: 'a', writes: [], commands: [command] });
    const again = await direct.claim({
      account: 'a',
      key: 'k',
      requestDigest: 'd',
      invocationId: null,
      leaseMs: 60_000,
    });
    expect(again.kind).toBe('done');
    wire.mode = 'through';
    expect(await done).toEqual({ kind: 'appended', first: 1n, last: 0n, events: [] });
  });

  it('gives up on a database that is silent, and works again when it speaks', async () => {
    wire.mode = 'frozen';
    await expect(store.append(append('silent'))).rejects.toBeInstanceOf(LogUnavailable);
    await expect(store.append(append('silent too'))).rejects.toBeInstanceOf(LogUnavailable);
    wire.mode = 'through';
    let result: AppendResult | null = null;
    while (result === null) result = await store.append(append('spoken')).catch(() => null);
    expect(result.kind).toBe('appended');
    const events = await direct.readAccount('a', { limit: 100 });
    expect(isDense(events.map((e) => e.position))).toBe(true);
    expect(events.filter((e) => e.event.stream === 'spoken')).toHaveLength(1);
  });
});

describe('the log when its database is away', () => {
  let cluster: TestCluster;

  beforeAll(async () => {
    cluster = await startTestCluster();
  }, 60_000);

  afterAll(() => cluster.close());

  it('is unavailable to writers, readers and claimers, and works again without a new store', async () => {
    const database = await cluster.createLedgerDatabase();
    const levels: string[] = [];
    const store = postgresEventStore({
      connectionString: database.url,
      patienceMs: 1_500,
      log: (level, message) => levels.push(`${level} ${message}`),
    });
    const pool = createPool({ connectionString: database.url });
    await store.append(append('s'));
    await sqlOver(pool).query('select 1');
    cluster.stop();
    const claim = { account: 'a', key: 'k', requestDigest: 'd', invocationId: null, leaseMs: 1_000 };
    const attempts = [
      store.append(append('s')),
      ...Array.from({ length: 20 }, (_, n) => store.append(append(`s/${n}`))),
      store.head(),
      store.readAccount('a', { limit: 1 }),
      store.claim(claim),
    ];
    const settled = await Promise.allSettled<unknown>(attempts);
    expect(settled.map((r) => r.status === 'rejected' && r.reason instanceof LogUnavailable)).toEqual(
      attempts.map(() => true),
    );
    await expect(sqlOver(pool).query('select 1')).rejects.toThrow();
    cluster.start();
    // A database that is still starting is away, too.
    let again = null;
    while (again === null) again = await store.append(append('s')).catch(() => null);
    expect(again).toMatchObject({ kind: 'appended', first: 1n });
    expect((await store.claim(claim)).kind).toBe('claimed');
    expect(await sqlOver(pool).query('select 1 as one')).toEqual([{ one: 1 }]);
    expect(levels.filter((line) => line.includes('could not be written'))).toHaveLength(1);
    expect(levels.filter((line) => line.includes('written again'))).toHaveLength(1);
    await store.close();
    await pool.end();
  }, 60_000);
});

describe('the handle for read models', () => {
  let database: TestDatabase;
  let pool: pg.Pool;

  beforeAll(async () => {
    database = await createTestDatabase();
    pool = createPool({ connectionString: database.url, max: 2 });
    await pool.query('create table t (n int)');
  });

  afterAll(async () => {
    await pool.end();
    await database.drop();
  });

  it('writes all of a transaction or nothing, and hands on no open transaction', async () => {
    const sql = sqlOver(pool);
    await expect(
      sql.transaction(async (inside) => {
        await inside.query('insert into t values ($1)', [1]);
        throw new Error('changed my mind');
      }),
    ).rejects.toThrow('changed my mind');
    await expect(sql.transaction((inside) => inside.query('select from nowhere'))).rejects.toThrow('nowhere');
    for (let n = 0; n < 4; n += 1) {
      expect(
        await sql.query('select n, now() = statement_timestamp() as alone from t right join (select 1) o on true'),
      ).toEqual([{ n: null, alone: true }]);
    }
  });

  it('can undo an inner transaction and keep the outer one', async () => {
    await sqlOver(pool).transaction(async (outer) => {
      await outer.query('insert into t values (1)');
      await outer
        .transaction(async (inner) => {
          await inner.query('insert into t values (2)');
          await inner.query('select from nowhere');
        })
        .catch(() => undefined);
      await outer.transaction((inner) => inner.query('insert into t values (3)'));
    });
    expect(await sqlOver(pool).query('select n from t order by n')).toEqual([{ n: 1 }, { n: 3 }]);
  });

  it('outlives a session that is ended while it works', async () => {
    const sql = sqlOver(pool);
    const ended = sql.transaction(async (inside) => {
      const [row] = await inside.query<{ pid: number }>('select pg_backend_pid() as pid');
      await sql.query('select pg_terminate_backend($1)', [row?.pid]);
      await inside.query('select pg_sleep(1)');
    });
    await expect(ended).rejects.toThrow();
    expect(await sql.query('select 1 as one')).toEqual([{ one: 1 }]);
  });
});
