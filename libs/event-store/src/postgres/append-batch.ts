import type pg from 'pg';
import type { StreamDraft, WrittenEvent } from '../drafts.js';
import type { BlobWrite, CompletedCommand } from '../event-store.js';

/** One append, serialised for the versions that its streams are believed to have. */
export interface BatchItem {
  readonly account: string;
  readonly streams: readonly WrittenStream[];
  readonly blobs: readonly BlobWrite[];
  readonly commands: readonly CompletedCommand[];
}

/** A stream's new events for the place after `version`. */
export interface WrittenStream {
  readonly draft: StreamDraft;
  readonly version: number;
  readonly events: readonly WrittenEvent[];
}

/** What the database did with one append of a batch. */
export type ItemOutcome =
  | { readonly kind: 'appended'; readonly globalFirst: bigint; readonly first: bigint }
  | { readonly kind: 'moved'; readonly stream: string; readonly version: number }
  | { readonly kind: 'claim-lost' };

interface OutcomeRow {
  readonly command: number;
  readonly status: 'appended' | 'conflict' | 'claim-lost';
  readonly global_position: string | null;
  readonly account_position: string;
  readonly moved_stream: string | null;
  readonly moved_version: number | null;
}

const text = `select * from append_events(${Array.from({ length: 27 }, (_, n) => `$${String(n + 1)}`).join(',')})`;

/** The call of `append_events` for a batch. Long values travel as bytes, one after another, not as escaped text. */
export const appendCall = (
  items: readonly BatchItem[],
  timeoutMs: number,
): pg.QueryConfig & { query_timeout: number } => ({
  name: 'append_events',
  text,
  values: [
    texts(items.map((item) => item.account)),
    ...streamColumns(items),
    ...commandColumns(items),
    ...eventColumns(items),
    ...blobColumns(items),
  ],
  query_timeout: timeoutMs,
});

/** The call that stores a batch's blobs and nothing else. */
export const blobsCall = (items: readonly BatchItem[]): pg.QueryConfig => ({
  name: 'store_blobs',
  text: 'select store_blobs($1, $2, $3, $4, $5)',
  values: [...blobColumns(items)],
});

const streamColumns = (items: readonly BatchItem[]): readonly string[] => {
  const command: number[] = [];
  const account: string[] = [];
  const stream: string[] = [];
  const expected: number[] = [];
  items.forEach((item, index) => {
    for (const { draft, version } of item.streams) {
      command.push(index + 1);
      account.push(item.account);
      stream.push(draft.stream);
      expected.push(version);
    }
  });
  return [plain(command), texts(account), texts(stream), plain(expected)];
};

const commandColumns = (items: readonly BatchItem[]): readonly string[] => {
  const command: number[] = [];
  const account: string[] = [];
  const ended: CompletedCommand[] = [];
  items.forEach((item, index) => {
    for (const completed of item.commands) {
      command.push(index + 1);
      account.push(item.account);
      ended.push(completed);
    }
  });
  return [
    plain(command),
    texts(account),
    texts(ended.map(({ key }) => key)),
    texts(ended.map(({ token }) => token)),
    texts(ended.map(({ result }) => JSON.stringify(result))),
  ];
};

const eventColumns = (items: readonly BatchItem[]): readonly (string | Buffer)[] => {
  const write: number[] = [];
  const events: WrittenEvent[] = [];
  let writes = 0;
  for (const { streams } of items) {
    for (const stream of streams) {
      writes += 1;
      for (const event of stream.events) {
        write.push(writes);
        events.push(event);
      }
    }
  }
  const places = placesOf(events.map(({ bytes }) => bytes));
  return [
    plain(write),
    plain(events.map(({ event }) => event.streamVersion)),
    plain(events.map(({ event }) => event.id)),
    plain(events.map(({ event }) => event.type)),
    plain(events.map(({ event }) => event.schema)),
    plain(events.map(({ event }) => event.recordedAt)),
    plain(events.map(({ event }) => event.occurredAt)),
    texts(events.map(({ event }) => event.sessionId ?? null)),
    plain(places.start),
    plain(places.length),
    places.bytes,
    Buffer.concat(events.map(({ leaf }) => leaf)),
  ];
};

const blobColumns = (items: readonly BatchItem[]): readonly (string | Buffer)[] => {
  const blobs = new Map<string, BlobWrite>();
  for (const item of items) for (const blob of item.blobs) blobs.set(blob.hash, blob);
  const all = [...blobs.values()];
  const places = placesOf(all.map(({ bytes }) => bytes));
  return [
    Buffer.concat(all.map(({ hash }) => Buffer.from(hash, 'hex'))),
    texts(all.map(({ keyId }) => keyId ?? null)),
    plain(places.start),
    plain(places.length),
    places.bytes,
  ];
};

/** Values one after another, and where each is: counted from 1, as SQL does. */
const placesOf = (
  values: readonly Uint8Array[],
): { readonly start: readonly number[]; readonly length: readonly number[]; readonly bytes: Buffer } => {
  let next = 1;
  const start = values.map(({ length }) => {
    next += length;
    return next - length;
  });
  return { start, length: values.map(({ length }) => length), bytes: Buffer.concat(values) };
};

/** Array literal of values that need no quotes. */
export const plain = (values: readonly (string | number)[]): string => `{${values.join(',')}}`;

/** Array literal of any text. */
export const texts = (values: readonly (string | null)[]): string => `{${values.map(quoted).join(',')}}`;

const special = /[\\"]/u;

const quoted = (value: string | null): string => {
  if (value === null) return 'NULL';
  return special.test(value) ? `"${value.replace(/[\\"]/gu, '\\$&')}"` : `"${value}"`;
};

/** The rows of `append_events`, one for each append of the batch, in its order. */
export const outcomesOf = (rows: readonly unknown[]): readonly ItemOutcome[] => {
  const outcomes: ItemOutcome[] = [];
  for (const row of rows as readonly OutcomeRow[]) outcomes[row.command - 1] = outcomeOf(row);
  return outcomes;
};

const outcomeOf = (row: OutcomeRow): ItemOutcome => {
  if (row.status === 'claim-lost') return { kind: 'claim-lost' };
  if (row.status === 'conflict')
    return { kind: 'moved', stream: row.moved_stream ?? '', version: row.moved_version ?? 0 };
  // An append without events has no place in the whole log.
  return { kind: 'appended', globalFirst: BigInt(row.global_position ?? -1), first: BigInt(row.account_position) };
};
