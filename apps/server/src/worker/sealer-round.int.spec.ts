import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { EventStore, Sql } from '#event-store';
import { createPool, postgresEventStore, sqlOver } from '#event-store';
import type { RoundAccount, SealingRound } from '#proof';
import {
  GrowingTree,
  logFormatMac,
  noteSigner,
  openCheckpoint,
  originOf,
  readRoundLine,
  rowTagKey,
  verifierKeyText,
} from '#proof';
import { leafHash } from '#record';
import { createLedgerDatabase, type TestDatabase } from '../../../../test/support/test-postgres.js';
import { LogKeys } from '../control/proofs/log-keys.js';
import { SealerRounds, type RoundOrder, type RoundOutcome } from './sealer-round.js';
import { readRefused, type TreeState } from './sealer-trees.js';

const rootSecret = randomBytes(32);
const tagKey = rowTagKey(rootSecret);

let database: TestDatabase;
let pool: ReturnType<typeof createPool>;
let sql: Sql;
let store: EventStore;
let keys: LogKeys;
/** The sealer's clock: every round is a second later. */
let time = 0;

const nothing: ReadonlyMap<string, RoundAccount> = new Map();
const sealer = (batch = 10_000): SealerRounds =>
  new SealerRounds({ sql, keys, tagKey, batch, sealMs: 1000, now: () => new Date(time) });

const round = (of: SealerRounds, order: Partial<RoundOrder> = {}): Promise<RoundOutcome> => {
  time += 1000;
  return of.run({ outside: nothing, retry: false, line: 'if-news', ...order });
};

/** Rounds until everything that was there is sealed. */
const seal = async (of: SealerRounds, order: Partial<RoundOrder> = {}): Promise<RoundOutcome & { kind: 'sealed' }> => {
  for (;;) {
    const outcome = await round(of, order);
    if (outcome.kind !== 'sealed') throw new Error('another sealer is at work');
    if (outcome.position === outcome.head) return outcome;
  }
};

const append = async (account: string, events = 1): Promise<void> => {
  const result = await store.append({
    account,
    writes: [
      {
        stream: `s/${randomUUID()}`,
        expectedVersion: 0,
        events: Array.from({ length: events }, (_, n) => ({ type: 'plugin.tried' as const, data: { n } })),
      },
    ],
  });
  expect(result.kind).toBe('appended');
};

/** As somebody with the whole database in hand does it. */
const forge = async (...statements: readonly string[]): Promise<void> => {
  await sql.query("set session_replication_role = 'replica'");
  await sql.transaction(async (inside) => {
    await inside.query("set local session_replication_role = 'replica'");
    for (const statement of statements) await inside.query(statement);
  });
  await sql.query("set session_replication_role = 'origin'");
};

const treeOf = async (account: string): Promise<GrowingTree> => {
  const events = await store.readAccount(account, { limit: 100_000 });
  const tree = new GrowingTree();
  for (const { bytes } of events) tree.push(leafHash(bytes));
  return tree;
};

interface SignedHead {
  readonly size: bigint;
  readonly root: Buffer;
}

const checkpoints = async (account: string): Promise<readonly SignedHead[]> => {
  const rows = await sql.query<{ note: string }>('select note from checkpoint where account = $1 order by size', [
    account,
  ]);
  return rows.map(({ note }) => {
    const opened = openCheckpoint(note, keys.verifiers());
    if (opened.kind !== 'signed') throw new Error(opened.kind);
    expect(opened.checkpoint.origin).toBe(originOf(keys.log, account));
    return { size: opened.checkpoint.size, root: Buffer.from(opened.checkpoint.root) };
  });
};

const refusedOf = async (account: string): Promise<Pick<TreeState, 'size' | 'refused' | 'reason'> | undefined> => {
  const found = (await readRefused(sql)).find((state) => state.account === account);
  return found && { size: found.size, refused: found.refused, reason: found.reason };
};

const roundIn = (line: string | null): SealingRound => {
  const read = readRoundLine(line ?? '', keys.verifiers());
  if (read.kind !== 'signed') throw new Error(read.kind);
  return read.round;
};

beforeEach(async () => {
  database = await createLedgerDatabase();
  pool = createPool({ connectionString: database.url });
  sql = sqlOver(pool);
  store = postgresEventStore({ connectionString: database.url, tagKey });
  keys = new LogKeys({ store, sql, rootSecret });
  await keys.start();
  // Ahead of the keys, whose times are those of the real clock.
  time = Date.now() + 60_000;
}, 60_000);

afterEach(async () => {
  await store.close();
  await pool.end();
  await database.drop();
});

describe('sealing', () => {
  it('signs, for every account, the tree of what was stored', async () => {
    const rounds = sealer();
    for (const [account, events] of [
      ['a', 3],
      ['b', 600],
      ['a b/ü', 1],
    ] as const)
      await append(account, events);
    await seal(rounds);
    await append('b', 700);
    await seal(rounds);
    for (const account of ['a', 'b', 'a b/ü', 'system']) {
      const [newest, ...older] = [...(await checkpoints(account))].reverse();
      const tree = await treeOf(account);
      expect(newest).toEqual({ size: tree.size, root: tree.root() });
      expect(older.map(({ size }) => size)).toEqual(account === 'b' ? [600n] : []);
    }
  });

  it('comes to the same tree in small rounds, by several sealers in turn, and after each was forgotten', async () => {
    for (let n = 0; n < 40; n += 1) await append(n % 3 === 0 ? 'a' : 'b', 20 + n);
    const two = [sealer(97), sealer(300)];
    for (let n = 0; n < 6; n += 1) await round(two[n % 2] ?? sealer());
    await seal(sealer(64));
    for (const account of ['a', 'b']) {
      const tree = await treeOf(account);
      expect((await checkpoints(account)).at(-1)).toEqual({ size: tree.size, root: tree.root() });
    }
  });

  it('signs at most once in its interval, and only what grew', async () => {
    const rounds = sealer();
    await append('a');
    await seal(rounds);
    await append('a');
    expect(await rounds.run({ outside: nothing, retry: false, line: 'if-news' })).toMatchObject({
      signed: 0,
      line: null,
    });
    expect(await round(rounds)).toMatchObject({ signed: 1 });
    expect(await round(rounds)).toMatchObject({ signed: 0, line: null });
    // Another replica counts what this one signed.
    await append('a');
    time -= 1900;
    expect(await round(sealer())).toMatchObject({ signed: 0 });
  });

  it('lists every account in its line, also those that did not grow', async () => {
    const rounds = sealer();
    await append('a', 2);
    await append('b', 3);
    await seal(rounds);
    await append('b');
    const said = roundIn((await seal(rounds)).line);
    expect(said.accounts.map(({ account, size }) => [account, size])).toEqual([
      ['a', 2n],
      ['b', 4n],
      ['system', 1n],
    ]);
    expect(Object.keys(said.notes)).toEqual(['b']);
    expect(said.accounts[1]?.root).toEqual((await treeOf('b')).root());
    expect(roundIn(((await round(sealer(), { line: 'owed' })) as { line: string }).line).accounts).toEqual(
      said.accounts,
    );
  });

  it('gives checkpoints a sequence in the order of their commits', async () => {
    const rounds = sealer();
    for (let n = 0; n < 3; n += 1) {
      await append('a');
      await append('b');
      await seal(rounds);
    }
    const rows = await sql.query<{ account: string; size: string }>(
      "select account, size from checkpoint where account <> 'system' order by sequence",
    );
    expect(rows.map(({ account, size }) => `${account}${size}`)).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'b3']);
  });

  it('is done by one replica at a time, and nothing is signed twice with another root', async () => {
    const many = [sealer(50), sealer(70), sealer(110)];
    const writing = (async () => {
      for (let n = 0; n < 60; n += 1) await append('a', 7);
    })();
    let working = true;
    const sealing = many.map(async (rounds) => {
      while (working) await round(rounds);
    });
    await writing;
    working = false;
    await Promise.all(sealing);
    await seal(sealer());
    const events = await store.readAccount('a', { limit: 100_000 });
    for (const { size, root } of await checkpoints('a')) {
      const tree = new GrowingTree();
      for (const { bytes } of events.slice(0, Number(size))) tree.push(leafHash(bytes));
      expect(tree.root()).toEqual(root);
    }
    expect((await checkpoints('a')).at(-1)?.size).toBe(420n);
  });

  it('takes rows that were there before rows had tags, and no other row without one', async () => {
    const untagged = postgresEventStore({ connectionString: database.url });
    const write = (account: string): Promise<unknown> =>
      untagged.append({
        account,
        writes: [{ stream: 's', expectedVersion: 'any', events: [{ type: 'plugin.tried', data: {} }] }],
      });
    await write('old');
    const head = await store.head();
    await write('new');
    await untagged.close();
    const format = { log: keys.log, untaggedUntil: head };
    await sql.query('update log_format set untagged_until = $1, mac = $2', [
      String(head),
      logFormatMac(rootSecret, format),
    ]);
    keys = new LogKeys({ store, sql, rootSecret });
    await keys.start();
    await seal(sealer());
    expect((await checkpoints('old')).at(-1)?.size).toBe(1n);
    expect(await refusedOf('new')).toEqual({ size: 0n, refused: 0n, reason: 'tag_missing' });
  });
});

describe('a row that nobody of this program wrote', () => {
  const cases: readonly (readonly [string, readonly string[], bigint, string])[] = [
    [
      'whose bytes were changed',
      [
        `update event set bytes = convert_to(replace(convert_from(bytes, 'UTF8'), '"n":2', '"n":9'), 'UTF8') where account = 'a' and account_position = 2`,
      ],
      2n,
      'leaf_mismatch',
    ],
    [
      'whose bytes and leaf were changed',
      [`update event set bytes = '\\x7b7d', leaf = sha256('\\x007b7d') where account = 'a' and account_position = 2`],
      2n,
      'tag_mismatch',
    ],
    [
      'whose leaf was changed',
      [`update event set leaf = sha256('x') where account = 'a' and account_position = 3`],
      3n,
      'leaf_mismatch',
    ],
    [
      'whose tag was changed',
      [`update event set tag = sha256('x') where account = 'a' and account_position = 0`],
      0n,
      'tag_mismatch',
    ],
    [
      'whose tag was cut',
      [`update event set tag = substr(tag, 1, 31) where account = 'a' and account_position = 1`],
      1n,
      'tag_mismatch',
    ],
    [
      'whose tag was taken away',
      [`update event set tag = null where account = 'a' and account_position = 4`],
      4n,
      'tag_missing',
    ],
    [
      'that stands for another account',
      [
        `update event set account = 'a', account_position = 5 where account = 'other' and account_position = 0`,
        `update account_head set size = 6 where account = 'a'`,
      ],
      5n,
      'tag_mismatch',
    ],
    [
      'that changed places with another',
      [
        `update event set account_position = case account_position when 1 then 3 else 1 end where account = 'a' and account_position in (1, 3)`,
      ],
      1n,
      'row_missing',
    ],
    [
      'whose bytes, leaf and tag changed places with another’s',
      [
        `update event e set bytes = o.bytes, leaf = o.leaf, tag = o.tag from event o where e.account = 'a' and o.account = 'a' and (e.account_position, o.account_position) in ((1, 3), (3, 1))`,
      ],
      1n,
      'tag_mismatch',
    ],
    [
      'and one that was removed from the middle',
      [`delete from event where account = 'a' and account_position = 2`],
      2n,
      'row_missing',
    ],
    [
      'and one that was removed from the beginning',
      [`delete from event where account = 'a' and account_position = 0`],
      0n,
      'row_missing',
    ],
    [
      'and one that was removed from the end',
      [`delete from event where account = 'a' and account_position = 4`],
      4n,
      'row_missing',
    ],
  ];

  it.each(cases)(
    '%s is refused by its position, and other accounts go on',
    async (_what, statements, position, reason) => {
      await append('a', 5);
      await append('other', 5);
      const before = await treeOf('a');
      await forge(...statements);
      await seal(sealer());
      const stopped = await refusedOf('a');
      expect(stopped).toEqual({ size: position, refused: position, reason });
      expect((await checkpoints('a')).at(-1)?.size ?? 0n).toBe(position);
      await append('third', 2);
      await append('a', 2);
      await seal(sealer(), { retry: true });
      expect(await refusedOf('a')).toEqual(stopped);
      expect((await checkpoints('third')).at(-1)?.size).toBe(2n);
      expect(before.size).toBe(5n);
    },
  );

  it('is sealed once it is what it was, with all that came after it', async () => {
    await append('a', 5);
    await sql.query("create table kept as select * from event where account = 'a' and account_position = 2");
    await forge("update event set tag = sha256('x') where account = 'a' and account_position = 2");
    const rounds = sealer();
    await seal(rounds);
    await append('a', 8);
    await seal(rounds);
    expect((await checkpoints('a')).at(-1)?.size).toBe(2n);
    await forge('update event e set tag = k.tag from kept k where e.position = k.position');
    await seal(rounds, { retry: true });
    expect(await refusedOf('a')).toBeUndefined();
    const tree = await treeOf('a');
    expect((await checkpoints('a')).at(-1)).toEqual({ size: tree.size, root: tree.root() });
    expect(tree.size).toBe(13n);
  });
});

describe('a tree that is not what was signed', () => {
  const cases: readonly (readonly [string, string])[] = [
    [
      'a tile at its edge was changed',
      "update tile set hashes = sha256('x') || substr(hashes, 33) where account = 'a' and level = 0 and idx = 1",
    ],
    ['a tile was cut', "update tile set hashes = substr(hashes, 1, 32) where account = 'a' and level = 0 and idx = 1"],
    ['a tile was removed', "delete from tile where account = 'a' and level = 0 and idx = 1"],
    ['the upper tile was changed', "update tile set hashes = sha256('x') where account = 'a' and level = 1"],
    ['the newest checkpoint was removed', "delete from checkpoint where account = 'a'"],
    [
      'the newest checkpoint is another account’s',
      "update checkpoint set note = (select note from checkpoint where account = 'b') where account = 'a'",
    ],
    [
      'the checkpoint has another text',
      "update checkpoint set note = replace(note, E'\\n300\\n', E'\\n200\\n') where account = 'a'",
    ],
    ['it was begun anew', "delete from tree where account = 'a'"],
    ['its size was changed', "update tree set size = 299, signed = 299 where account = 'a'"],
  ];

  it.each(cases)('is not gone on with: %s', async (_what, statement) => {
    await append('a', 300);
    await append('b', 3);
    await seal(sealer());
    const before = await checkpoints('b');
    await forge(statement);
    await append('a', 5);
    await append('b', 5);
    await seal(sealer());
    expect((await refusedOf('a'))?.reason).toMatch(/^(?:tree_changed|row_missing)$/u);
    const rows = await sql.query<{ size: string }>("select size from checkpoint where account = 'a' and size > 300");
    expect(rows).toEqual([]);
    expect((await checkpoints('b')).length).toBe(before.length + 1);
  });
});

describe('a log that is shorter than it was known to be', () => {
  const outsideOf = async (account: string, more = 0n): Promise<ReadonlyMap<string, RoundAccount>> => {
    const tree = await treeOf(account);
    return new Map([[account, { account, size: tree.size + more, root: tree.root() }]]);
  };

  it('is not gone on with, nor is one that vanished', async () => {
    await append('a', 5);
    await append('b', 2);
    await seal(sealer());
    const outside = new Map([
      ...(await outsideOf('a', 3n)),
      ['gone', { account: 'gone', size: 4n, root: Buffer.alloc(32) }],
    ]);
    const rounds = sealer();
    await append('a', 1);
    await append('b', 1);
    await seal(rounds, { outside, retry: true });
    expect(await refusedOf('a')).toEqual({ size: 5n, refused: 6n, reason: 'log_rolled_back' });
    expect(await refusedOf('gone')).toEqual({ size: 0n, refused: 0n, reason: 'log_rolled_back' });
    expect((await checkpoints('b')).at(-1)?.size).toBe(3n);
  });

  it('is found out when it grows to that size with other events', async () => {
    await append('a', 5);
    await seal(sealer());
    const outside = new Map([['a', { account: 'a', size: 8n, root: Buffer.alloc(32, 1) }]]);
    await append('a', 6);
    await seal(sealer(), { outside, retry: true });
    expect(await refusedOf('a')).toEqual({ size: 5n, refused: 5n, reason: 'tree_changed' });
  });

  it('is taken for what it is where only the trees were behind', async () => {
    await append('a', 5);
    await seal(sealer());
    await append('a', 6);
    await seal(sealer(), { outside: await outsideOf('a'), retry: true });
    expect(await refusedOf('a')).toBeUndefined();
    expect((await checkpoints('a')).at(-1)?.size).toBe(11n);
  });
});

describe('a log key', () => {
  it('that came into force signs from then on, and the one before is still known', async () => {
    const rounds = sealer();
    await append('a');
    await seal(rounds);
    const other = new LogKeys({ store, sql, rootSecret });
    await other.start();
    await other.rotate({ actor: { kind: 'system', id: 'test' } });
    await append('a');
    await seal(rounds);
    const rows = await sql.query<{ key_id: string; at: string }>(
      "select key_id, to_char(signed_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') as at from checkpoint where account = 'a' order by size",
    );
    const all = keys.all();
    expect(rows.map((row) => row.key_id)).toEqual(all.map(({ id }) => id));
    expect(all.map(({ validUntil }) => validUntil === null)).toEqual([false, true]);
    expect((rows[1]?.at ?? '') >= (all[1]?.validFrom ?? 'z')).toBe(true);
    expect((await checkpoints('a')).map(({ size }) => size)).toEqual([1n, 2n]);
  });

  it('is one for all replicas that start at once on an empty database', async () => {
    await database.drop();
    await pool.end();
    await store.close();
    database = await createLedgerDatabase();
    pool = createPool({ connectionString: database.url });
    sql = sqlOver(pool);
    store = postgresEventStore({ connectionString: database.url, tagKey });
    const replicas = Array.from({ length: 4 }, () => new LogKeys({ store, sql, rootSecret }));
    await Promise.all(replicas.map((replica) => replica.start()));
    expect(new Set(replicas.map((replica) => replica.log)).size).toBe(1);
    expect(replicas.map((replica) => replica.all().length)).toEqual([1, 1, 1, 1]);
    expect(new Set(replicas.map((replica) => replica.signer().signer.id)).size).toBe(1);
  });

  it('takes the place of one whose private part is gone, which is kept nowhere once it is out of force', async () => {
    await sql.query('update log_key set wrapped = null');
    const again = new LogKeys({ store, sql, rootSecret });
    await again.start();
    expect(again.all().map(({ validUntil }) => validUntil === null)).toEqual([false, true]);
    const rows = await sql.query<{ gone: boolean }>('select wrapped is null as gone from log_key order by valid_from');
    expect(rows.map(({ gone }) => gone)).toEqual([true, false]);
  });

  it('does not open under another installation’s secret, and is not used when its row was changed', async () => {
    await expect(new LogKeys({ store, sql, rootSecret: randomBytes(32) }).start()).rejects.toThrow('log_format');
    await sql.query('update log_key set wrapped = wrapped || wrapped');
    await expect(new LogKeys({ store, sql, rootSecret }).start()).rejects.toThrow('log_key');
  });

  it('is not brought by an event that somebody put into the log', async () => {
    const before = keys.all().map(({ id }) => id);
    const forged = postgresEventStore({ connectionString: database.url, tagKey: rowTagKey(randomBytes(32)) });
    const { signer } = keys.signer();
    const other = noteSigner(signer.name, generateKeyPairSync('ed25519').privateKey);
    const data = { from: signer.id, to: other.id, log: keys.log, publicKey: verifierKeyText(other) };
    const events = [{ type: 'log_key.rotated' as const, data }];
    const writes = [{ stream: 'log-keys', expectedVersion: 1, events }];
    expect((await forged.append({ account: 'system', writes })).kind).toBe('appended');
    await forged.close();
    const again = new LogKeys({ store, sql, rootSecret });
    await again.start();
    await keys.refresh();
    expect([again.all().map(({ id }) => id), keys.all().map(({ id }) => id)]).toEqual([before, before]);
    await seal(sealer());
    expect(await refusedOf('system')).toEqual({ size: 1n, refused: 1n, reason: 'tag_mismatch' });
  });

  it('is of a log whose format nobody changed', async () => {
    await sql.query('update log_format set untagged_until = 1000');
    await expect(new LogKeys({ store, sql, rootSecret }).start()).rejects.toThrow('log_format');
  });
});
