import { writeSync } from 'node:fs';
import { followAccount, handleEvents, openReading, rebuildReadModel, record, searchInvocations } from '#audit';
import { createPool, postgresEventStore, sqlOver, type StoredEvent } from '#event-store';

/**
 * Reads an account in every way there is: its log, the log live, a stream, and a read model that it builds anew; then
 * appends an event. Prints what it saw as JSON.
 */
const [url = '', account = ''] = process.argv.slice(2);
const pool = createPool({ connectionString: url, max: 2 });
const sql = sqlOver(pool);
const store = postgresEventStore({ connectionString: url });

const seen = ({ event }: StoredEvent): object => ({ type: event.type, schema: event.schema, data: event.data });

const all = await store.readAccount(account, { limit: 1_000 });
const [first] = all;
const stream = await store.readStream(account, first?.event.stream ?? '');

const live: StoredEvent[] = [];
const enough = new AbortController();
for await (const step of followAccount(store, { account, after: -1n }, enough.signal, 1_000)) {
  if (step.kind === 'events') live.push(...step.events);
  if (live.length >= all.length) break;
}

const generation = await rebuildReadModel(sql, record);
const log = await store.readAll(-1n, 1_000);
await sql.transaction((tx) => handleEvents(record, generation, log, tx, store));
const { table } = await openReading(sql, store, record, account);
const search = { account, clock: 'recorded', order: 'oldest', limit: 100 } as const;
const found = await searchInvocations(sql, table, search);

const { invocationId = '' } = first?.event ?? {};
const closing = { type: 'invocation.closed', invocationId, data: { value: null, cancellation: null } } as const;
const appended = await store.append({
  account,
  writes: [{ stream: 'tomorrow', expectedVersion: 'any', events: [closing] }],
});
writeSync(
  1,
  `${JSON.stringify({
    log: all.map(seen),
    stream: stream.map(seen),
    live: live.map(seen),
    runs: found.items.map((item) => [item.invocationId, item.hostSession, item.durationMs]),
    wrote: appended.kind === 'appended' ? appended.events.map(seen) : appended.kind,
  })}\n`,
);
await store.close();
await pool.end();
