import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { EventType } from '#record';
import type { TestDatabase } from '../../../test/support/test-postgres.js';
import { createLedgerDatabase, startTestCluster } from '../../../test/support/test-postgres.js';
import type { EventStore, StoredEvent } from './event-store.js';
import type { Follower, FollowerOptions } from './follower.js';
import { startFollower } from './follower.js';
import { createPool, sqlOver } from './postgres/pool.js';
import { postgresEventStore } from './postgres/postgres-store.js';
import type { Sql } from './sql.js';

/** One replica: a store and a pool of its own. */
interface Replica {
  readonly store: EventStore;
  readonly sql: Sql;
  follow(options?: Partial<FollowerOptions>): Follower;
  close(): Promise<void>;
}

const replicaOn = (url: string): Replica => {
  const store = postgresEventStore({ connectionString: url });
  const pool = createPool({ connectionString: url });
  const sql = sqlOver(pool);
  const followers: Follower[] = [];
  return {
    store,
    sql,
    follow: (options = {}) => {
      const follower = startFollower({ store, sql, name: 'copy', handle: copyEvents, ...options });
      followers.push(follower);
      return follower;
    },
    close: async () => {
      await Promise.all(followers.map((follower) => follower.stop()));
      await store.close();
      await pool.end();
    },
  };
};

/** A read model that notices a repetition (`place` rises by one for each row) and keeps the order it was given. */
const copyEvents = async (events: readonly StoredEvent[], sql: Sql): Promise<void> => {
  for (const { globalPosition, event } of events) {
    await sql.query('insert into copy (position, n) values ($1, $2)', [String(globalPosition), event.data.n]);
  }
};

const put = async (
  store: EventStore,
  numbers: readonly number[],
  type: EventType = 'plugin.tried',
): Promise<bigint> => {
  const events = numbers.map((n) => ({ type, data: { n } }));
  const writes = [{ stream: `s/${randomUUID()}`, expectedVersion: 0, events }];
  const result = await store.append({ account: 'a', writes });
  if (result.kind !== 'appended') throw new Error(result.kind);
  return result.events.at(-1)?.globalPosition ?? -1n;
};

const copied = async (sql: Sql): Promise<readonly unknown[]> =>
  (await sql.query('select n from copy order by place')).map((row) => row.n);

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, n) => from + n);

describe('a follower', () => {
  let database: TestDatabase;
  let replica: Replica;

  beforeEach(async () => {
    database = await createLedgerDatabase();
    replica = replicaOn(database.url);
    await replica.sql.query('create table copy (place bigserial, position bigint primary key, n int)');
  });

  afterEach(async () => {
    await replica.close();
    await database.drop();
  });

  it('gives every event once and in order, those from before it started too', async () => {
    await put(replica.store, range(0, 30));
    const follower = replica.follow({ batch: 7 });
    await put(replica.store, range(30, 40));
    const last = await put(replica.store, range(40, 60));
    await follower.reached(last);
    expect(await copied(replica.sql)).toEqual(range(0, 60));
  });

  it('goes on from its checkpoint after it was stopped', async () => {
    const first = replica.follow();
    await first.reached(await put(replica.store, range(0, 5)));
    await first.stop();
    await put(replica.store, range(5, 10));
    const second = replica.follow();
    await second.reached(await put(replica.store, range(10, 12)));
    expect(await copied(replica.sql)).toEqual(range(0, 12));
  });

  it('gives only the types it asked for and counts the others as seen', async () => {
    const follower = replica.follow({ types: ['plugin.tripped'] });
    await put(replica.store, [1, 2]);
    await put(replica.store, [3], 'plugin.tripped');
    const last = await put(replica.store, [4]);
    await follower.reached(last);
    expect(await copied(replica.sql)).toEqual([3]);
    expect(follower.lag()).toMatchObject({ positions: 0n, position: last, failures: 0 });
  });

  it('does not go to the database for all the many events that do not concern it', async () => {
    let steps = 0;
    const counted: Sql = {
      ...replica.sql,
      transaction: (work) => {
        steps += 1;
        return replica.sql.transaction(work);
      },
    };
    const follower = replica.follow({ sql: counted, types: ['plugin.tripped'] });
    await follower.reached(await put(replica.store, [0]));
    const before = steps;
    for (let n = 0; n < 20; n += 1) await follower.reached(await put(replica.store, range(100, 200)));
    expect(steps - before).toBeLessThan(5);
    await follower.reached(await put(replica.store, [20], 'plugin.tripped'));
    const last = await put(replica.store, [21]);
    await follower.reached(last);
    expect(await copied(replica.sql)).toEqual([20]);
    const checkpoint = async (): Promise<unknown> =>
      (await replica.sql.query("select position from follower where name = 'copy'"))[0]?.position;
    while ((await checkpoint()) !== String(last)) await new Promise((resolve) => setTimeout(resolve, 50));
  });

  it('writes nothing of a batch that fails, tries again, and shows it', async () => {
    let failing = true;
    const failed = new Set<number>();
    const follower = replica.follow({
      handle: async (events, sql) => {
        await copyEvents(events, sql);
        if (!failing || !events.some(({ event }) => event.data.n === 3)) return;
        failed.add(events.length);
        throw new Error('cannot take 3');
      },
    });
    await put(replica.store, range(0, 3));
    const last = await put(replica.store, range(3, 6));
    await follower.reached(2n);
    while (!failed.has(1)) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(await copied(replica.sql)).toEqual([0, 1, 2]);
    expect(follower.lag().failures).toBeGreaterThan(0);
    expect(follower.lag().positions).toBe(3n);
    failing = false;
    await follower.reached(last);
    expect(await copied(replica.sql)).toEqual(range(0, 6));
    expect(follower.lag()).toMatchObject({ positions: 0n, failures: 0, ms: 0 });
  });

  it('works in one of several replicas at a time, and notices what other replicas append', async () => {
    const others = [replicaOn(database.url), replicaOn(database.url)];
    const all = [replica, ...others];
    let busy = 0;
    let most = 0;
    const followers = all.map((each) =>
      each.follow({
        batch: 3,
        handle: async (events, sql) => {
          busy += 1;
          most = Math.max(most, busy);
          await copyEvents(events, sql);
          busy -= 1;
        },
      }),
    );
    let last = -1n;
    for (const n of range(0, 60)) last = await put((all[n % 3] ?? replica).store, [n]);
    await Promise.all(followers.map((follower) => follower.reached(last)));
    expect(await copied(replica.sql)).toEqual(range(0, 60));
    expect(most).toBe(1);
    await Promise.all(others.map((each) => each.close()));
  });

  it('gives every event once and in order while two replicas append at once, each many at a time', async () => {
    const other = replicaOn(database.url);
    const seen: bigint[] = [];
    const follower = replica.follow({
      handle: (events) => {
        seen.push(...events.map(({ globalPosition }) => globalPosition));
        return Promise.resolve();
      },
    });
    const stores = [replica.store, other.store];
    const lasts = await Promise.all(
      range(0, 300).map(async (n) => {
        // In waves, so that commits of both come close upon each other and also far apart.
        await new Promise((resolve) => setTimeout(resolve, (n % 10) * 7));
        return put(stores[n % 2] ?? replica.store, range(0, 1 + (n % 3)));
      }),
    );
    const last = lasts.reduce((most, position) => (position > most ? position : most));
    await follower.reached(last);
    expect(seen).toEqual(Array.from({ length: Number(last) + 1 }, (_, n) => BigInt(n)));
    await other.close();
  });

  it('is not held up by a replica whose connections die', async () => {
    const other = replicaOn(database.url);
    const followers = [replica.follow({ batch: 2 }), other.follow({ batch: 2 })];
    let last = -1n;
    for (const n of range(0, 40)) {
      last = await put(replica.store, [n]);
      if (n % 10 === 5) {
        await replica.sql.query(
          'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
        );
      }
    }
    await Promise.all(followers.map((follower) => follower.reached(last)));
    expect(await copied(replica.sql)).toEqual(range(0, 40));
    await other.close();
  });

  it('keeps followers of other names and shards apart', async () => {
    const seen: string[] = [];
    const noting = (name: string): FollowerOptions['handle'] => {
      return async (events) => {
        await Promise.resolve();
        for (const { event } of events) seen.push(`${name}${JSON.stringify(event.data.n)}`);
      };
    };
    const followers = [
      replica.follow({ name: 'x', handle: noting('x') }),
      replica.follow({ name: 'x', shard: 1, handle: noting('x1-') }),
      replica.follow({ name: 'y', handle: noting('y') }),
    ];
    const last = await put(replica.store, [1, 2]);
    await Promise.all(followers.map((follower) => follower.reached(last)));
    expect(seen.sort()).toEqual(['x1', 'x1-1', 'x1-2', 'x2', 'y1', 'y2']);
  });

  it('tells whoever waits that it was stopped', async () => {
    const follower = replica.follow();
    const waiting = follower.reached(1_000n);
    const told = expect(waiting).rejects.toThrow('stopped');
    await follower.stop();
    await told;
  });
});

describe('a follower and its database', () => {
  it('goes on after the database was stopped and after it was killed, in the same process', async () => {
    const cluster = await startTestCluster();
    const { url } = await cluster.createLedgerDatabase();
    const replica = replicaOn(url);
    try {
      await replica.sql.query('create table copy (place bigserial, position bigint primary key, n int)');
      const follower = replica.follow();
      await follower.reached(await put(replica.store, [0]));
      cluster.stop();
      cluster.start();
      await follower.reached(await put(replica.store, [1]));
      cluster.kill();
      cluster.start();
      await follower.reached(await put(replica.store, [2]));
      expect(await copied(replica.sql)).toEqual([0, 1, 2]);
    } finally {
      await replica.close();
      cluster.close();
    }
  }, 60_000);
});
