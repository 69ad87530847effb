import type { Sql } from '#event-store';
import type { NoteVerifier, RoundAccount, Tile } from '#proof';
import { edgeTiles, GrowingTree, openCheckpoint, originOf } from '#proof';
import { changedIfShort, readTiles, rootAt, TreeChanged } from '../control/proofs/stored-tiles.js';
import type { Refusal } from './sealer-rows.js';

/** How far an account is sealed, as table `tree` says. */
export interface TreeState {
  readonly account: string;
  readonly size: bigint;
  /** Size of its newest checkpoint. */
  readonly signed: bigint;
  readonly refused: bigint | null;
  readonly reason: Refusal | null;
}

/** What an account's tree must agree with before it grows: what was signed of it, inside the database and outside. */
export interface Witnesses {
  readonly log: string;
  readonly verifiers: readonly NoteVerifier[];
  /** From the newest round outside the database. */
  readonly outside: ReadonlyMap<string, RoundAccount>;
}

/** The states of these accounts; those without a tree yet are not among them. */
export const readStates = async (sql: Sql, accounts: readonly string[]): Promise<ReadonlyMap<string, TreeState>> =>
  statesOf(await sql.query<StateRow>(`${selectState} where account = any ($1::text[])`, [accounts]));

/** Accounts that grew since their newest checkpoint. */
export const readUnsigned = async (sql: Sql): Promise<readonly TreeState[]> => [
  ...statesOf(await sql.query<StateRow>(`${selectState} where size > signed order by account`)).values(),
];

/** Accounts in which the sealer stopped. */
export const readRefused = async (sql: Sql): Promise<readonly TreeState[]> => [
  ...statesOf(await sql.query<StateRow>(`${selectState} where refused is not null order by account`)).values(),
];

interface StateRow {
  readonly account: string;
  readonly size: string;
  readonly signed: string;
  readonly refused: string | null;
  readonly reason: Refusal | null;
}

const selectState = 'select account, size, signed, refused, reason from tree';

const statesOf = (rows: readonly StateRow[]): ReadonlyMap<string, TreeState> =>
  new Map(
    rows.map(({ account, size, signed, refused, reason }) => [
      account,
      {
        account,
        size: BigInt(size),
        signed: BigInt(signed),
        refused: refused === null ? null : BigInt(refused),
        reason,
      },
    ]),
  );

/**
 * Writes how far accounts are sealed. The size it grew from is checked: whoever changed it meanwhile, the transaction
 * fails and nothing of it stays.
 */
export const writeStates = async (
  sql: Sql,
  states: readonly (TreeState & { readonly from: bigint })[],
): Promise<void> => {
  if (states.length === 0) return;
  const rows = await sql.query(
    `insert into tree (account, size, signed, refused, reason)
      select s.account, s.size, s.signed, s.refused, s.reason
        from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])
          s(account, size, signed, refused, reason)
      on conflict (account) do update
        set size = excluded.size, signed = excluded.signed, refused = excluded.refused, reason = excluded.reason
        where tree.size = any (select f.size from unnest($1::text[], $6::bigint[]) f(account, size)
          where f.account = tree.account)
      returning account`,
    [
      states.map(({ account }) => account),
      states.map(({ size }) => String(size)),
      states.map(({ signed }) => String(signed)),
      states.map(({ refused }) => (refused === null ? null : String(refused))),
      states.map(({ reason }) => reason),
      states.map(({ from }) => String(from)),
    ],
  );
  if (rows.length !== states.length) throw new Error('a tree grew under other hands');
};

/** A tile of an account. */
export interface AccountTile extends Tile {
  readonly account: string;
}

/** Writes tiles: full ones once, those at the right edge over and over. */
export const writeTiles = async (sql: Sql, tiles: readonly AccountTile[]): Promise<void> => {
  if (tiles.length === 0) return;
  await sql.query(
    `insert into tile (account, level, idx, hashes)
      select t.account, t.level, t.idx, t.hashes
        from unnest($1::text[], $2::integer[], $3::bigint[], $4::bytea[]) t(account, level, idx, hashes)
      on conflict (account, level, idx) do update set hashes = excluded.hashes`,
    [
      tiles.map(({ account }) => account),
      tiles.map(({ level }) => level),
      tiles.map(({ index }) => String(index)),
      tiles.map(({ hashes }) => Buffer.from(hashes)),
    ],
  );
};

/**
 * An account's tree, from its tiles. Nothing that was signed is contradicted by what grows from it: the tree must have
 * the root of the newest checkpoint, and that of the newest round outside the database as far as it reaches. Throws
 * `TreeChanged`.
 */
export const openTree = async (
  sql: Sql,
  { account, size, signed }: TreeState,
  witnesses: Witnesses,
): Promise<GrowingTree> => {
  const source = await readTiles(sql, account, edgeTiles(size));
  const tree = changedIfShort(() => GrowingTree.from(size, source));
  const [newest] = await sql.query<{ size: string; note: string }>(
    'select size, note from checkpoint where account = $1 order by size desc limit 1',
    [account],
  );
  if (BigInt(newest?.size ?? 0) !== signed)
    throw new TreeChanged('the newest checkpoint is not the one that was signed');
  if (newest !== undefined) await expectRoot(sql, account, size, checkpointIn(newest.note, account, witnesses));
  const outside = witnesses.outside.get(account);
  if (outside !== undefined && outside.size <= size) await expectRoot(sql, account, size, outside);
  return tree;
};

const checkpointIn = (
  note: string,
  account: string,
  { log, verifiers }: Witnesses,
): { readonly size: bigint; readonly root: Uint8Array } => {
  const opened = openCheckpoint(note, verifiers);
  if (opened.kind === 'signed' && opened.checkpoint.origin === originOf(log, account)) return opened.checkpoint;
  throw new TreeChanged('the newest checkpoint is not one of this log');
};

const expectRoot = async (
  sql: Sql,
  account: string,
  size: bigint,
  head: { readonly size: bigint; readonly root: Uint8Array },
): Promise<void> => {
  if (head.size <= size && (await rootAt(sql, account, head.size)).equals(head.root)) return;
  throw new TreeChanged('the tree does not have the root that was signed');
};
