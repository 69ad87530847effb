import type { Sql } from '#event-store';
import type { LeavesRecord } from '#kafka';

const tileWidth = 256n;
const hashBytes = 32;

/**
 * Leaf hashes of what a `retention.purged` names, from the tiles: a tree can be built again without the events. An
 * event that cannot be read names nothing.
 */
export const purgedLeaves = async (sql: Sql, account: string, bytes: Uint8Array): Promise<readonly LeavesRecord[]> => {
  const found: LeavesRecord[] = [];
  for (const { first, last } of rangesIn(bytes)) {
    const rows = await sql.query<{ idx: string; hashes: Buffer }>(
      'select idx, hashes from tile where account = $1 and level = 0 and idx between $2 and $3 order by idx',
      [account, first / tileWidth, last / tileWidth],
    );
    for (const { idx, hashes } of rows) {
      const start = BigInt(idx) * tileWidth;
      const from = first > start ? first - start : 0n;
      const leaves = hashes.subarray(Number(from) * hashBytes, Number(last - start + 1n) * hashBytes);
      if (leaves.length > 0) found.push({ account, first: start + from, hashes: leaves });
    }
  }
  return found;
};

const rangesIn = (bytes: Uint8Array): readonly { readonly first: bigint; readonly last: bigint }[] => {
  try {
    const { data } = JSON.parse(Buffer.from(bytes).toString('utf8')) as {
      readonly data: { readonly ranges: readonly { readonly first: string; readonly last: string }[] };
    };
    return data.ranges.map(({ first, last }) => ({ first: BigInt(first), last: BigInt(last) }));
  } catch {
    return [];
  }
};
