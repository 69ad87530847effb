import type { Sql } from '#event-store';

/** How long a root's count is kept, hours: longer than any of its tokens lives. */
const keptHours = 24;

/**
 * Counts the messages of plugins that descend from a root (MW-103), over all replicas. True where this one is within
 * the account's budget; then it is counted, whatever becomes of it.
 */
export const takeBreadth = async (sql: Sql, account: string, root: string, most: number): Promise<boolean> => {
  const rows = await sql.query(
    `insert into root_breadth as b (account, root, sent, at) values ($1, $2, 1, clock_timestamp())
     on conflict (account, root) do update set sent = b.sent + 1, at = clock_timestamp() where b.sent < $3
     returning b.sent`,
    [account, root, most],
  );
  return rows.length > 0;
};

/** Forgets roots from which nothing can descend any more. */
export const forgetBreadth = async (sql: Sql): Promise<void> => {
  await sql.query('delete from root_breadth where at < clock_timestamp() - make_interval(hours => $1)', [keptHours]);
};
