import type { Sql } from '#event-store';
import type { TilePlace, TileSource } from '#proof';
import { rootProof } from '#proof';

/** The tree cannot be gone on with: what is stored of it is not what was signed. */
export class TreeChanged extends Error {
  override readonly name = 'TreeChanged';
}

/** Tiles of an account. Throws `TreeChanged` from the source where one is missing or too short. */
export const readTiles = async (sql: Sql, account: string, places: readonly TilePlace[]): Promise<TileSource> => {
  const rows = await sql.query<{ level: number; idx: string; hashes: Buffer }>(
    `select t.level, t.idx, t.hashes from tile t
      join unnest($2::integer[], $3::bigint[]) p(level, idx) on t.level = p.level and t.idx = p.idx
      where t.account = $1`,
    [account, places.map(({ level }) => level), places.map(({ index }) => String(index))],
  );
  const found = new Map(rows.map(({ level, idx, hashes }) => [`${String(level)}/${idx}`, hashes]));
  return ({ level, index }) => {
    const hashes = found.get(`${String(level)}/${String(index)}`);
    if (hashes === undefined) throw new TreeChanged(`tile ${String(level)}/${String(index)} is missing`);
    return hashes;
  };
};

/** The root that an account's tree had at a size, by its tiles. Throws `TreeChanged`. */
export const rootAt = async (sql: Sql, account: string, size: bigint): Promise<Buffer> => {
  const plan = rootProof(size);
  const source = await readTiles(sql, account, plan.tiles);
  return changedIfShort(() => plan.hashes(source)[0] ?? Buffer.alloc(0));
};

/** What is too short for the tree that it is of was changed. */
export const changedIfShort = <T>(work: () => T): T => {
  try {
    return work();
  } catch (error) {
    throw error instanceof RangeError ? new TreeChanged(error.message) : error;
  }
};
