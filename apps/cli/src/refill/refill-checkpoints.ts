import { decodeCheckpoint, decodeLeaves, type CheckpointRecord } from '#kafka';
import { openCheckpoint, originOf } from '#proof';
import type { RefilledLog } from './refill-events.js';
import { RefillRefused, type Refilling } from './refilling.js';

/**
 * Reads the checkpoints topic, and lets the trees' table say how far each account is signed. A checkpoint of more events
 * than the topics have is a reason to stop: the end of the log is missing.
 */
export const refillCheckpoints = async (refilling: Refilling, log: RefilledLog): Promise<number> => {
  const { sql, kafka, names, warn, read } = refilling;
  let strange = 0;
  await sql.query('create temporary table refill_checkpoint (like checkpoint) on commit drop');
  await sql.query('alter table refill_checkpoint alter column sequence drop not null');
  await kafka.readTopic({
    topic: names.checkpoints,
    handle: async (messages) => {
      const found = messages.flatMap((message) => {
        if (decodeLeaves(message) !== null) return [];
        const decoded = decodeCheckpoint(message);
        const checked = decoded.kind === 'checkpoint' ? check(decoded.record, log) : null;
        if (checked === null) strange += 1;
        return checked ?? [];
      });
      await sql.query(
        `insert into refill_checkpoint (account, size, root, note, signed_at, key_id)
           select * from unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[], $5::timestamptz[], $6::text[])`,
        [
          found.map(({ account }) => account),
          found.map(({ size }) => String(size)),
          found.map(({ root }) => Buffer.from(root)),
          found.map(({ note }) => note),
          found.map(({ signedAt }) => signedAt),
          found.map(({ keyId }) => keyId),
        ],
      );
      read(messages.length);
    },
  });
  if (strange > 0) warn(`${String(strange)} messages of ${names.checkpoints} are no checkpoints that this log signed.`);
  return settle(sql, log);
};

/** Reads from the checkpoints topic the leaves of what was purged: they stand in the trees for events that are gone. */
export const refillLeaves = async ({ sql, kafka, names }: Refilling): Promise<void> => {
  await sql.query(
    `create temporary table refill_leaves (account text collate "C", first bigint, last bigint, hashes bytea,
       primary key (account, first)) on commit drop`,
  );
  await kafka.readTopic({
    topic: names.checkpoints,
    handle: async (messages) => {
      for (const { account, first, hashes } of messages.flatMap((message) => decodeLeaves(message) ?? [])) {
        await sql.query(
          `insert into refill_leaves (account, first, last, hashes) values ($1, $2, $3, $4)
             on conflict (account, first) do update set last = excluded.last, hashes = excluded.hashes
             where excluded.last > refill_leaves.last`,
          [account, first, first + BigInt(hashes.length / 32) - 1n, Buffer.from(hashes)],
        );
      }
    },
  });
};

/** With the key that signed it; null for what no key of this log signed. */
const check = (
  record: CheckpointRecord,
  { verifiers, format, accounts }: RefilledLog,
): (CheckpointRecord & { readonly keyId: string }) | null => {
  const opened = openCheckpoint(record.note, verifiers);
  if (opened.kind !== 'signed' || format === null) return null;
  if (opened.checkpoint.origin !== originOf(format.log, record.account)) return null;
  const size = accounts.get(record.account)?.size ?? 0n;
  if (record.size > size) {
    throw new RefillRefused(
      `Account ${record.account} had ${String(record.size)} events when a checkpoint was signed, and the topics have ${String(size)}: positions ${String(size)} to ${String(record.size - 1n)} are missing.`,
    );
  }
  const keyId = opened.by[0]?.id;
  return keyId === undefined ? null : { ...record, keyId };
};

const settle = async (sql: Refilling['sql'], { accounts }: RefilledLog): Promise<number> => {
  const rows = await sql.query(
    `insert into checkpoint (account, size, root, note, signed_at, key_id)
       select account, size, root, note, signed_at, key_id from (
         select distinct on (account, size) account, size, root, note, signed_at, key_id
           from refill_checkpoint order by account, size, signed_at
       ) c order by signed_at, account, size returning 1`,
  );
  await sql.query(
    `insert into tree (account, size, signed)
       select a.account, a.size, coalesce((select max(c.size) from checkpoint c where c.account = a.account), 0)
         from unnest($1::text[], $2::bigint[]) a(account, size)`,
    [[...accounts.keys()], [...accounts.values()].map(({ size }) => String(size))],
  );
  return rows.length;
};
