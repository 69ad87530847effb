import { randomUUID } from 'node:crypto';
import { writeSync } from 'node:fs';
import { postgresEventStore } from '#event-store';
import { rowTagKey } from '#proof';

/**
 * Appends from several clients at once until it is killed, or `count` times each, and prints the id of every append
 * that was answered. Each append writes two streams of its own with `of` events together, and one that all share.
 */
const [url = '', account = '', clients = '1', count = 'Infinity'] = process.argv.slice(2);
// Every process of a test has the same key, as replicas do.
const store = postgresEventStore({ connectionString: url, tagKey: rowTagKey(Buffer.alloc(32, 1)) });

const appendOnce = async (): Promise<void> => {
  const id = randomUUID();
  const of = 2 + Math.floor(Math.random() * 6);
  const events = Array.from({ length: of }, (_, n) => ({ type: 'plugin.tried' as const, data: { id, n, of } }));
  const blobs = [{ hash: id.replaceAll('-', '').repeat(2), bytes: Buffer.from(id) }];
  const result = await store.append({
    account,
    writes: [
      { stream: `one/${id}`, expectedVersion: 0, events: events.slice(0, of / 2) },
      { stream: `two/${id}`, expectedVersion: 0, events: events.slice(of / 2, of - 1) },
      { stream: 'shared', expectedVersion: 'any', events: events.slice(of - 1) },
    ],
    blobs,
  });
  if (result.kind !== 'appended') throw new Error(`not appended: ${result.kind}`);
  writeSync(1, `${id}\n`);
};

const client = async (): Promise<void> => {
  for (let n = 0; n < Number(count); n += 1) await appendOnce();
};

await Promise.all(Array.from({ length: Number(clients) }, client));
await store.close();
