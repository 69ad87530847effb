import { LRUCache } from 'lru-cache';
import type { Sql } from '#event-store';
import type { GrowingTree, NoteSigner, RoundAccount, RowTagKey } from '#proof';
import { originOf, roundLine, sameBytes, signCheckpoint } from '#proof';
import { TreeChanged } from '../control/proofs/stored-tiles.js';
import type { LogKeys } from '../control/proofs/log-keys.js';
import type { AccountRows, Refusal, RowCheck } from './sealer-rows.js';
import { readRows, readRowsOf } from './sealer-rows.js';
import type { AccountTile, TreeState, Witnesses } from './sealer-trees.js';
import { openTree, readRefused, readStates, readUnsigned, writeStates, writeTiles } from './sealer-trees.js';

/** What a sealing round came to. */
export type RoundOutcome =
  /** Another replica is at work. */
  | { readonly kind: 'elsewhere'; readonly position: bigint; readonly head: bigint }
  | {
      readonly kind: 'sealed';
      /** Everything up to this global position is in its account's tree, or was refused. */
      readonly position: bigint;
      readonly head: bigint;
      /** Checkpoints that were signed. */
      readonly signed: number;
      /** Line for the folder outside the database: all accounts, signed; null when there is nothing new to say. */
      readonly line: string | null;
    };

/** What the rounds of a sealer need. */
export interface SealerParts {
  readonly sql: Sql;
  readonly keys: LogKeys;
  readonly tagKey: RowTagKey;
  /** Events in one round. */
  readonly batch: number;
  /** Shortest time between two signings, ms. */
  readonly sealMs: number;
  readonly now: () => Date;
}

/** What decides a round, from outside of it. */
export interface RoundOrder {
  /** The newest round outside the database, by account. */
  readonly outside: ReadonlyMap<string, RoundAccount>;
  /** Look again at what was refused. */
  readonly retry: boolean;
  /** A line may be written, and whether one is owed from before. */
  readonly line: 'not-yet' | 'if-news' | 'owed';
}

/** Trees that are kept open; one takes up to 8 KiB a level. */
const openTrees = 500;

/** Leaves that enter a tree between two breaths: hooks are fired in this process too. */
const breath = 500;

/** Accounts below the position that was sealed that wait to be looked at again take so many events in one step. */
const retryBatch = 5_000;

/**
 * Sealing rounds: each takes what was written since the last, checks every row, lets the trees grow and signs them. All
 * of a round is one commit, with the follower's row locked for it: one replica at a time, and what was signed is what is
 * stored. A round that fails leaves nothing behind.
 */
export class SealerRounds {
  private readonly trees = new LRUCache<string, GrowingTree>({ max: openTrees });
  /** The newest checkpoint of every account. */
  private readonly signed = new Map<string, RoundAccount>();
  private lastSequence = 0n;
  private lastSigned = 0;

  constructor(private readonly parts: SealerParts) {}

  /** The newest checkpoints as of the last round that this process worked on. */
  checkpoints(): ReadonlyMap<string, RoundAccount> {
    return this.signed;
  }

  async run(order: RoundOrder): Promise<RoundOutcome> {
    try {
      return await this.parts.sql.transaction((inside) => this.runInside(inside, order));
    } catch (error) {
      // Trees have grown beyond what is stored.
      this.trees.clear();
      throw error;
    }
  }

  private async runInside(inside: Sql, order: RoundOrder): Promise<RoundOutcome> {
    const from = await lockPosition(inside);
    const head = await readHead(inside);
    if (from === null) return { kind: 'elsewhere', position: await readPosition(inside), head };
    const limit = from + BigInt(this.parts.batch);
    const until = head < limit ? head : limit;
    // Before anything grows: a log that was rolled back is not gone on with as if nothing had happened.
    if (order.retry) await this.retry(inside, from, order);
    if (until > from) await this.grow(inside, from, until, order);
    if (until > from) await movePosition(inside, until);
    await this.learnCheckpoints(inside);
    const isTime = this.parts.now().getTime() - this.lastSigned >= this.parts.sealMs;
    const { signed, line } = isTime ? await this.sign(inside, order) : { signed: 0, line: null };
    return { kind: 'sealed', position: until, head, signed, line };
  }

  private async grow(inside: Sql, from: bigint, until: bigint, order: RoundOrder): Promise<void> {
    const found = await readRows(inside, from, until, this.check());
    const states = await readStates(
      inside,
      found.map(({ account }) => account),
    );
    const grown: (TreeState & { readonly from: bigint })[] = [];
    const tiles: AccountTile[] = [];
    for (const rows of found) {
      const state = states.get(rows.account) ?? noTree(rows.account);
      if (state.refused === null) {
        grown.push({ ...(await this.extend(inside, state, rows, tiles, order)), from: state.size });
      }
    }
    await writeTiles(inside, tiles);
    await writeStates(inside, grown);
    const rows = found.reduce((sum, account) => sum + account.found, 0);
    if (BigInt(rows) !== until - from) await refuseMissing(inside);
  }

  /** The account's state after its rows, or after those of them that can be sealed. */
  private async extend(
    inside: Sql,
    state: TreeState,
    rows: AccountRows,
    tiles: AccountTile[],
    order: RoundOrder,
  ): Promise<TreeState> {
    const { account, size } = state;
    if (rows.first > size) return refused(state, size, 'row_missing');
    try {
      const tree = await this.treeOf(inside, state, order);
      const leaves = rows.leaves.slice(Number(size - rows.first));
      await pushAll(tree, leaves, order.outside.get(account));
      for (const tile of tree.takeTiles()) tiles.push({ account, ...tile });
      const next = { ...state, size: tree.size };
      return rows.refusal === null ? next : refused(next, tree.size, rows.refusal);
    } catch (error) {
      if (!(error instanceof TreeChanged)) throw error;
      this.trees.delete(account);
      return refused(state, size, 'tree_changed');
    }
  }

  /** What was refused and has been put right since goes on from where it stopped. */
  private async retry(inside: Sql, until: bigint, order: RoundOrder): Promise<void> {
    await refuseRolledBack(inside, order.outside);
    for (const state of await readRefused(inside)) {
      this.trees.delete(state.account);
      const next = await this.catchUp(inside, state, until, order);
      if (next.size !== state.size || next.refused !== state.refused || next.reason !== state.reason) {
        await writeStates(inside, [{ ...next, from: state.size }]);
      }
    }
  }

  private async catchUp(inside: Sql, stopped: TreeState, until: bigint, order: RoundOrder): Promise<TreeState> {
    if (stopped.reason === 'log_rolled_back' && (await isRolledBack(inside, stopped.account, order))) return stopped;
    let state: TreeState = { ...stopped, refused: null, reason: null };
    const tiles: AccountTile[] = [];
    if (!(await this.isSound(inside, state, order))) return refused(state, state.size, 'tree_changed');
    for (;;) {
      const rows = await readRowsOf(inside, state.account, state.size, until, retryBatch, this.check());
      if (rows === null) break;
      state = await this.extend(inside, state, rows, tiles, order);
      await writeTiles(inside, tiles.splice(0));
      if (state.refused !== null) return state;
    }
    // Nothing came after it; a row that is gone from the end of the log is missing all the same.
    return (await isMissing(inside, state)) ? refused(state, state.size, 'row_missing') : state;
  }

  private async isSound(inside: Sql, state: TreeState, order: RoundOrder): Promise<boolean> {
    try {
      await this.treeOf(inside, state, order);
      return true;
    } catch (error) {
      if (error instanceof TreeChanged) return false;
      throw error;
    }
  }

  private async sign(
    inside: Sql,
    order: RoundOrder,
  ): Promise<{ readonly signed: number; readonly line: string | null }> {
    const unsigned = await readUnsigned(inside);
    if (unsigned.length === 0 && order.line !== 'owed') return { signed: 0, line: null };
    const { keys } = this.parts;
    await keys.holdStill(inside);
    await keys.refresh();
    const { signer, since } = keys.signer();
    const now = this.parts.now();
    // Clocks of replicas differ, and a key signs nothing before it is in force.
    const at = now.toISOString() < since ? since : now.toISOString();
    const notes = await this.signTrees(inside, unsigned, signer, at, order);
    if (notes.size > 0) this.lastSigned = now.getTime();
    await this.learnCheckpoints(inside);
    if (order.line === 'not-yet') return { signed: notes.size, line: null };
    const accounts = [...this.signed.values()].sort((a, b) => (a.account < b.account ? -1 : 1));
    const line = roundLine({ log: keys.log, at, accounts, notes: Object.fromEntries(notes) }, signer);
    return { signed: notes.size, line };
  }

  private async signTrees(
    inside: Sql,
    unsigned: readonly TreeState[],
    signer: NoteSigner,
    at: string,
    order: RoundOrder,
  ): Promise<ReadonlyMap<string, string>> {
    const heads: RoundAccount[] = [];
    for (const state of unsigned) {
      try {
        const tree = await this.treeOf(inside, state, order);
        heads.push({ account: state.account, size: tree.size, root: tree.root() });
      } catch (error) {
        if (!(error instanceof TreeChanged)) throw error;
        if (state.refused === null) {
          await writeStates(inside, [{ ...refused(state, state.size, 'tree_changed'), from: state.size }]);
        }
      }
    }
    const { log } = this.parts.keys;
    const notes = heads.map(({ account, size, root }) =>
      signCheckpoint({ origin: originOf(log, account), size, root }, signer),
    );
    if (heads.length > 0) await writeCheckpoints(inside, heads, notes, at, signer.id);
    return new Map(heads.map(({ account }, index) => [account, notes[index] ?? '']));
  }

  /** The account's tree as it is stored; what is kept open is only believed at the stored size. */
  private async treeOf(inside: Sql, state: TreeState, { outside }: RoundOrder): Promise<GrowingTree> {
    const known = this.trees.get(state.account);
    if (known?.size === state.size) return known;
    const { keys } = this.parts;
    const witnesses: Witnesses = { log: keys.log, verifiers: keys.verifiers(), outside };
    const tree = await openTree(inside, state, witnesses);
    this.trees.set(state.account, tree);
    return tree;
  }

  private async learnCheckpoints(inside: Sql): Promise<void> {
    const columns = 'c.account, c.size, c.root, c.sequence, c.signed_at';
    // The first look takes the newest of each account, the later ones what came since.
    const text =
      this.lastSequence === 0n
        ? `select ${columns} from tree t cross join lateral
            (select * from checkpoint where account = t.account order by size desc limit 1) c where c.sequence > $1`
        : `select ${columns} from checkpoint c where c.sequence > $1 order by c.sequence`;
    const rows = await inside.query<{ account: string; size: string; root: Buffer; sequence: string; signed_at: Date }>(
      text,
      [String(this.lastSequence)],
    );
    for (const { account, size, root, sequence, signed_at: at } of rows) {
      this.signed.set(account, { account, size: BigInt(size), root });
      if (BigInt(sequence) > this.lastSequence) this.lastSequence = BigInt(sequence);
      // A clock that was ahead keeps nobody waiting.
      this.lastSigned = Math.max(this.lastSigned, Math.min(at.getTime(), this.parts.now().getTime()));
    }
  }

  private check(): RowCheck {
    return { key: this.parts.tagKey, untaggedUntil: this.parts.keys.untaggedUntil };
  }
}

const noTree = (account: string): TreeState => ({ account, size: 0n, signed: 0n, refused: null, reason: null });

const refused = (state: TreeState, position: bigint, reason: Refusal): TreeState => ({
  ...state,
  refused: position,
  reason,
});

/** Lets a tree grow; where it comes to the size that is known from outside it must have that root. */
const pushAll = async (
  tree: GrowingTree,
  leaves: readonly Uint8Array[],
  outside: RoundAccount | undefined,
): Promise<void> => {
  for (const [index, leaf] of leaves.entries()) {
    if (index % breath === breath - 1) await new Promise(setImmediate);
    tree.push(leaf);
    if (tree.size === outside?.size && !sameBytes(tree.root(), outside.root)) {
      throw new TreeChanged('the log is not the one that was signed');
    }
  }
};

const followerName = 'sealer';

/** The follower's position, locked for the round; null while another replica is at work. */
const lockPosition = async (inside: Sql): Promise<bigint | null> => {
  const lock = 'select position from follower where name = $1 and shard = 0 for update skip locked';
  const [row] = await inside.query<{ position: string }>(lock, [followerName]);
  if (row !== undefined) return BigInt(row.position);
  const make = 'insert into follower (name, shard) values ($1, 0) on conflict do nothing returning position';
  const [made] = await inside.query<{ position: string }>(make, [followerName]);
  return made === undefined ? null : BigInt(made.position);
};

const readPosition = async (inside: Sql): Promise<bigint> => {
  const text = 'select position from follower where name = $1 and shard = 0';
  const [row] = await inside.query<{ position: string }>(text, [followerName]);
  return BigInt(row?.position ?? -1);
};

const movePosition = async (inside: Sql, position: bigint): Promise<void> => {
  await inside.query('update follower set position = $2 where name = $1 and shard = 0', [
    followerName,
    String(position),
  ]);
};

const readHead = async (inside: Sql): Promise<bigint> => {
  const [row] = await inside.query<{ position: string }>('select position from head');
  return BigInt(row?.position ?? -1);
};

const writeCheckpoints = async (
  inside: Sql,
  heads: readonly RoundAccount[],
  notes: readonly string[],
  at: string,
  keyId: string,
): Promise<void> => {
  const accounts = heads.map(({ account }) => account);
  const sizes = heads.map(({ size }) => String(size));
  await inside.query(
    `insert into checkpoint (account, size, root, note, signed_at, key_id)
      select c.account, c.size, c.root, c.note, $5::timestamptz, $6
        from unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[]) c(account, size, root, note)`,
    [accounts, sizes, heads.map(({ root }) => Buffer.from(root)), notes, at, keyId],
  );
  await inside.query(
    `update tree t set signed = c.size from unnest($1::text[], $2::bigint[]) c(account, size)
      where t.account = c.account`,
    [accounts, sizes],
  );
};

// One snapshot sees an account's size and all rows up to it, so that a row which is not there is missing.
const missing = `h.size > coalesce(t.size, 0) and not exists (
  select from event e where e.account = h.account and e.account_position = coalesce(t.size, 0))`;

/** A hole in the log of which no later event of its account tells yet. */
const refuseMissing = async (inside: Sql): Promise<void> => {
  const rows = await inside.query<{ account: string }>(
    `select h.account from account_head h left join tree t using (account) where t.refused is null and ${missing}`,
  );
  const accounts = rows.map(({ account }) => account);
  const states = await readStates(inside, accounts);
  await writeStates(
    inside,
    accounts.map((account) => {
      const state = states.get(account) ?? noTree(account);
      return { ...refused(state, state.size, 'row_missing'), from: state.size };
    }),
  );
};

const isMissing = async (inside: Sql, { account, size }: TreeState): Promise<boolean> => {
  const [row] = await inside.query(
    `select 1 from account_head h join (select $1::text as account, $2::bigint as size) t using (account)
      where ${missing}`,
    [account, String(size)],
  );
  return row !== undefined;
};

/** Accounts whose log is shorter than it was known to be outside, one that vanished altogether among them. */
const refuseRolledBack = async (inside: Sql, outside: ReadonlyMap<string, RoundAccount>): Promise<void> => {
  const sizes = await logSizes(inside, [...outside.keys()]);
  const short = [...outside.values()].filter(({ account, size }) => (sizes.get(account) ?? 0n) < size);
  const states = await readStates(
    inside,
    short.map(({ account }) => account),
  );
  const stopped = short
    .map(({ account }) => states.get(account) ?? noTree(account))
    .filter((state) => state.refused === null)
    .map((state) => ({
      ...refused(state, sizes.get(state.account) ?? 0n, 'log_rolled_back'),
      from: state.size,
    }));
  await writeStates(inside, stopped);
};

const isRolledBack = async (inside: Sql, account: string, { outside }: RoundOrder): Promise<boolean> => {
  const sizes = await logSizes(inside, [account]);
  return (sizes.get(account) ?? 0n) < (outside.get(account)?.size ?? 0n);
};

const logSizes = async (inside: Sql, accounts: readonly string[]): Promise<ReadonlyMap<string, bigint>> => {
  const rows = await inside.query<{ account: string; size: string }>(
    'select account, size from account_head where account = any ($1::text[])',
    [accounts],
  );
  return new Map(rows.map(({ account, size }) => [account, BigInt(size)]));
};
