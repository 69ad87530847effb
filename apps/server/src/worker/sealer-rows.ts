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
  /** What is looked at of each row, in the order of the log. */
  readonly rows: Buffer;
}

/** Bytes for a row: its account position, the leaf hash of its bytes, its tag, and what is odd about it. */
const rowBytes = 8 + 2 * hashBytes + 1;
const odd = { changed: 1, untagged: 2, old: 4 } as const;

// The leaf is taken from the bytes, whatever the row says it is. Aggregated, since a row for each event costs more to
// read than all the rest.
const rowsWhere = (where: string): string => `select account, min(account_position) as first,
    string_agg(int8send(account_position) || hash || case when octet_length(tag) = 32 then tag else hash end || case
      when leaf is distinct from hash then '\\x01'::bytea
      when tag is not null then '\\x00'
      when position > $1 then '\\x02'
      else '\\x04' end, ''::bytea order by position) as rows
  from (
    select e.account, e.account_position, e.position, e.tag, e.leaf, sha256('\\x00'::bytea || e.bytes) as hash
      from event e where ${where} offset 0
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

const checkRows = async (found: RowsOfAccount, key: RowTagKey): Promise<AccountRows> => {
  const { account, rows } = found;
  const first = BigInt(found.first);
  const count = rows.length / rowBytes;
  const refusalOf = refusals(account, key);
  const leaves: Uint8Array[] = [];
  for (let place = 0; place < count; place += 1) {
    if (place % breath === breath - 1) await new Promise(setImmediate);
    const row = rows.subarray(place * rowBytes, (place + 1) * rowBytes);
    const refusal = refusalOf(first + BigInt(place), row);
    if (refusal !== null) return { account, first, found: count, leaves, refusal };
    leaves.push(leafOf(row));
  }
  return { account, first, found: count, leaves, refusal: null };
};

/** Why a row is not what must stand at a position; null where it is. */
const refusals = (account: string, key: RowTagKey): ((position: bigint, row: Buffer) => Refusal | null) => {
  const tag = rowTagger(key, account);
  const expected = Buffer.alloc(hashBytes);
  return (position, row) => {
    const oddity = row[rowBytes - 1];
    if (row.readBigUInt64BE(0) !== position) return 'row_missing';
    if (oddity === odd.changed) return 'leaf_mismatch';
    if (oddity === odd.untagged) return 'tag_missing';
    if (oddity === odd.old) return null;
    tag(position, leafOf(row), expected, 0);
    return expected.equals(row.subarray(8 + hashBytes, rowBytes - 1)) ? null : 'tag_mismatch';
  };
};

const leafOf = (row: Buffer): Buffer => row.subarray(8, 8 + hashBytes);
