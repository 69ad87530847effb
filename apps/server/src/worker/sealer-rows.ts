import type { Sql } from '#event-store';
import type { RowTagKey } from '#proof';
import { hashBytes, rowTagger } from '#proof';

/** Why the sealer goes no further in an account. */
export type Refusal =
  /** A row's tag is not that of its account, place and bytes; or it has none and should. */
  | 'tag_mismatch'
  | 'tag_missing'
  /** A row's leaf hash is not that of its bytes. */
  | 'leaf_mismatch'
  /** There is no row where one must be. */
  | 'row_missing'
  /** The tree in the database is not the one that was signed. */
  | 'tree_changed'
  /** The log is shorter than a checkpoint outside the database says it was. */
  | 'log_rolled_back';

/** Neighbouring rows of an account, as far as they can be sealed. */
export interface AccountRows {
  readonly account: string;
  readonly first: bigint;
  /** Rows that were found, those that cannot be sealed among them. */
  readonly found: number;
  readonly leaves: readonly Uint8Array[];
  /** What ends them; the position is the one after the last leaf. */
  readonly refusal: Refusal | null;
}

interface RowsOfAccount {
  readonly account: string;
  readonly first: string;
  readonly count: number;
  readonly leaves: Buffer;
  readonly tags: Buffer;
  /** Places in the two, from 0: rows that are not where they should be, whose leaf is not theirs, without a tag. */
  readonly displaced: readonly number[];
  readonly changed: readonly number[];
  readonly untagged: readonly number[];
  /** Without a tag, and from before there were tags. */
  readonly old: readonly number[];
}

const places = (name: string, where: string): string =>
  `coalesce(array_agg(place order by place) filter (where ${where}), '{}') as ${name}`;

// The leaf is taken from the bytes, whatever the row says it is. Aggregated, since a row for each event costs more to
// read than all the rest.
const rowsWhere = (
  where: string,
): string => `select account, min(account_position) as first, count(*)::integer as count,
    string_agg(hash, ''::bytea order by place) as leaves,
    string_agg(case when octet_length(tag) = 32 then tag else hash end, ''::bytea order by place) as tags,
    ${places('displaced', 'account_position <> lowest + place')},
    ${places('changed', 'leaf is distinct from hash')},
    ${places('untagged', 'tag is null and position > $1')},
    ${places('old', 'tag is null and position <= $1')}
  from (
    select e.account, e.account_position, e.position, e.tag, e.leaf, sha256('\\x00'::bytea || e.bytes) as hash,
        (row_number() over (partition by e.account order by e.position) - 1)::integer as place,
        min(e.account_position) over (partition by e.account) as lowest
      from event e where ${where}
  ) row group by account`;

const inRange = rowsWhere('e.position > $2 and e.position <= $3');
const ofAccount = rowsWhere(`e.position = any (array(select position from event
        where account = $2 and account_position >= $3 and position <= $4 order by account_position limit $5))`);

/** How rows are checked. */
export interface RowCheck {
  readonly key: RowTagKey;
  /** Rows up to this global position may be without a tag. */
  readonly untaggedUntil: bigint;
}

/** What was written to each account between two global positions `(after, until]`. */
export const readRows = async (
  sql: Sql,
  after: bigint,
  until: bigint,
  check: RowCheck,
): Promise<readonly AccountRows[]> => {
  const values = [String(check.untaggedUntil), String(after), String(until)];
  return checkAll(await sql.query<RowsOfAccount>(inRange, values), check);
};

/** Up to `limit` events of one account from its position `from` on, none beyond the global position `until`. */
export const readRowsOf = async (
  sql: Sql,
  account: string,
  from: bigint,
  until: bigint,
  limit: number,
  check: RowCheck,
): Promise<AccountRows | null> => {
  const values = [String(check.untaggedUntil), account, String(from), String(until), limit];
  return (await checkAll(await sql.query<RowsOfAccount>(ofAccount, values), check))[0] ?? null;
};

const checkAll = async (rows: readonly RowsOfAccount[], check: RowCheck): Promise<readonly AccountRows[]> => {
  const checked: AccountRows[] = [];
  for (const row of rows) checked.push(await checkRows(row, check.key));
  return checked;
};

/** Tags checked between two breaths: hooks are fired in this process too. */
const breath = 250;

const checkRows = async (row: RowsOfAccount, key: RowTagKey): Promise<AccountRows> => {
  const { account } = row;
  const first = BigInt(row.first);
  const refusalAt = refusals(row, key);
  const leaves: Uint8Array[] = [];
  for (let place = 0; place < row.count; place += 1) {
    if (place % breath === breath - 1) await new Promise(setImmediate);
    const refusal = refusalAt(place);
    if (refusal !== null) return { account, first, found: row.count, leaves, refusal };
    leaves.push(hashAt(row.leaves, place));
  }
  return { account, first, found: row.count, leaves, refusal: null };
};

const refusals = (row: RowsOfAccount, key: RowTagKey): ((place: number) => Refusal | null) => {
  const tag = rowTagger(key, row.account);
  const first = BigInt(row.first);
  const [displaced = Infinity] = row.displaced;
  const changed = new Set(row.changed);
  const untagged = new Set(row.untagged);
  const old = new Set(row.old);
  return (place) => {
    if (place >= displaced) return 'row_missing';
    if (changed.has(place)) return 'leaf_mismatch';
    if (untagged.has(place)) return 'tag_missing';
    if (old.has(place)) return null;
    const expected = tag(first + BigInt(place), hashAt(row.leaves, place));
    return expected.equals(hashAt(row.tags, place)) ? null : 'tag_mismatch';
  };
};

const hashAt = (hashes: Buffer, place: number): Buffer => hashes.subarray(place * hashBytes, (place + 1) * hashBytes);
