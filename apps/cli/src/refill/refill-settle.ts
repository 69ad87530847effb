import type { RefilledLog } from './refill-events.js';
import type { Refilling } from './refilling.js';

/** Events that one call removes at most. */
const purgedAtOnce = 10_000;

/** Followers that have seen the log before, and must not act on it again. */
const followersAtTheEnd = ['kafka-relay', 'sealer', 'circuit-breaker', 'session-cleanup'] as const;

/**
 * Lets go of what the record had let go of: events by the same function that once purged them, and blobs. What follows
 * the log to have effects stands at its end; what keeps tables of its own begins anew.
 */
export const settleLog = async (
  { sql }: Refilling,
  log: RefilledLog,
): Promise<{ readonly purged: number; readonly blobs: number }> => {
  let purged = 0;
  for (const { account, position } of log.purges) {
    for (;;) {
      const [row] = await sql.query<{ removed: number }>('select purge_recorded($1, $2, $3) as removed', [
        account,
        position,
        purgedAtOnce,
      ]);
      const removed = row?.removed ?? 0;
      purged += removed;
      if (removed === 0) break;
    }
  }
  const bodies = [...log.bodies.keys()].map((hash) => Buffer.from(hash, 'hex'));
  const erased = log.erasedBlobs.map((hash) => Buffer.from(hash, 'hex'));
  await sql.query('delete from blob where hash = any ($1::bytea[])', [[...erased, ...bodies]]);
  await sql.query(
    `update relayed_blob r set gone = false, of_event = b.position
       from unnest($1::bytea[], $2::bigint[]) b(hash, position) where r.hash = b.hash`,
    [bodies, [...log.bodies.values()].map(String)],
  );
  const [blobs] = await sql.query<{ count: string }>('select count(*) from blob');
  for (const name of followersAtTheEnd) {
    await sql.query(
      `insert into follower (name, shard, position, epoch) values ($1, 0, $2, $3)
         on conflict (name, shard) do update set position = excluded.position, epoch = excluded.epoch`,
      [name, log.position, log.epoch],
    );
  }
  await sql.query(
    `insert into relayed_note (name, value)
       select 'checkpoints', max(sequence)::text from checkpoint having max(sequence) is not null`,
  );
  return { purged, blobs: Number(blobs?.count) };
};
