import pg from 'pg';
import type { NoteSigner } from '#proof';
import { GrowingTree, originOf, signCheckpoint } from '#proof';

/**
 * Seals the rows of an account as they are, as somebody does who holds the database and a key of their own: tiles and
 * one checkpoint of everything, in place of those that were there. No trigger stops them.
 */
export const sealByHand = async (url: string, logId: string, account: string, signer: NoteSigner): Promise<void> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query('begin');
    await client.query("set local session_replication_role = 'replica'");
    const { rows } = await client.query<{ leaf: Buffer }>(
      "select sha256('\\x00'::bytea || bytes) as leaf from event where account = $1 order by account_position",
      [account],
    );
    const tree = new GrowingTree();
    for (const { leaf } of rows) tree.push(leaf);
    for (const table of ['tile', 'checkpoint', 'tree'])
      await client.query(`delete from ${table} where account = $1`, [account]);
    for (const { level, index, hashes } of tree.takeTiles()) {
      const values = [account, level, String(index), Buffer.from(hashes)];
      await client.query('insert into tile (account, level, idx, hashes) values ($1, $2, $3, $4)', values);
    }
    const note = signCheckpoint({ origin: originOf(logId, account), size: tree.size, root: tree.root() }, signer);
    await client.query(
      'insert into checkpoint (account, size, root, note, signed_at, key_id) values ($1, $2, $3, $4, now(), $5)',
      [account, String(tree.size), tree.root(), note, signer.id],
    );
    await client.query('insert into tree (account, size, signed) values ($1, $2, $2)', [account, String(tree.size)]);
    await client.query('commit');
  } finally {
    await client.end();
  }
};
