import { readRootSecret } from '#sealing';
import { RefillRefused, type Refilling } from './refilling.js';

/** The root secret, a data key of `system` (ADR 8): put in place before all others, since rows are tagged under it. */
export const openRefilledRoot = async ({ sql, masters, names }: Refilling): Promise<Buffer> => {
  await sql.query(
    `insert into data_key (id, account, scope, wrapped, master, created_at)
       select id, account, scope, wrapped, master, created_at from refill_key
       where account = 'system' and scope = 'root' order by created_at desc limit 1`,
  );
  const root = await readRootSecret(sql, masters);
  if (root === null) throw new RefillRefused(`${names.keys} has no root secret: no row could be tagged.`);
  return root;
};
