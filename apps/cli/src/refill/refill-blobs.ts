import type { WholeBlob } from '#kafka';
import { BlobParts } from '#kafka';
import type { Refilling } from './refilling.js';

/** Blobs of one statement, bytes. */
const batchBytes = 4 * 1024 * 1024;

/** Reads the blobs topic: every blob whose parts are all there and make its hash. */
export const refillBlobs = async ({ sql, kafka, names, warn, read }: Refilling): Promise<void> => {
  const parts = new BlobParts();
  let whole: WholeBlob[] = [];
  let size = 0;
  const write = async (): Promise<void> => {
    const blobs = whole;
    [whole, size] = [[], 0];
    if (blobs.length === 0) return;
    await sql.query(
      `insert into blob (hash, key_id, bytes) select b.hash, b.key_id, b.bytes
         from unnest($1::bytea[], $2::text[], $3::bytea[]) b(hash, key_id, bytes) on conflict do nothing`,
      [
        blobs.map(({ hash }) => Buffer.from(hash, 'hex')),
        blobs.map(({ keyId }) => keyId),
        blobs.map(({ bytes }) => bytes),
      ],
    );
    // So that the relay can make the topic forget them.
    await sql.query(
      `insert into relayed_blob (hash, parts) select * from unnest($1::bytea[], $2::integer[])
         on conflict (hash) do update set parts = excluded.parts`,
      [blobs.map(({ hash }) => Buffer.from(hash, 'hex')), blobs.map(({ parts }) => parts)],
    );
  };
  await kafka.readTopic({
    topic: names.blobs,
    handle: async (messages) => {
      for (const message of messages) {
        if (message.value === null) {
          await write();
          const hash = message.key?.split('/')[0] ?? '';
          if (/^[0-9a-f]{64}$/u.test(hash))
            await sql.query('delete from blob where hash = $1', [Buffer.from(hash, 'hex')]);
        }
        const blob = parts.take(message);
        if (blob === null) continue;
        whole.push(blob);
        size += blob.bytes.length;
        if (size > batchBytes) await write();
      }
      read(messages.length);
    },
  });
  await write();
  if (parts.unfinished.length > 0) {
    warn(`${String(parts.unfinished.length)} blobs of ${names.blobs} are not whole, and were left out.`);
  }
};
