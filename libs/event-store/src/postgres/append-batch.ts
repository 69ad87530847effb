import type pg from 'pg';
import type { RowTagger, RowTagKey } from '#proof';
import { rowTagger } from '#proof';
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
  | { readonly kind: 'claim-lost' }
  /** Another one lost, so nothing was written: to be sent again. */
  | { readonly kind: 'held-back' };

/** What the database did with a batch. */
export interface BatchOutcome {
  /** One for each item, in their order. */
  readonly items: readonly ItemOutcome[];
  /** Accounts that had another size than the tags were made for, and their size: nothing was written. */
  readonly moved: ReadonlyMap<string, bigint>;
}

/** What a batch's rows are tagged with: the key, and where the batch's part of each account will begin. */
export interface BatchTags {
  readonly key: RowTagKey;
  readonly sizeOf: (account: string) => bigint;
}

interface OutcomeRow {
  /** Place of the append in the batch, or of the account among the batch's, from 1. */
  readonly command: number;
  readonly status: 'appended' | 'conflict' | 'claim-lost' | 'sizes-moved';
  readonly global_position: string | null;
  readonly account_position: string | null;
  readonly moved_stream: string | null;
  readonly moved_version: number | null;
}

const parameters = 40;
const text = `select * from append_events(${Array.from({ length: parameters }, (_, n) => `$${String(n + 1)}`).join(',')})`;

/**
 * The call of `append_events` for a batch. Long values travel as bytes, one after another, not as escaped text. Without
 * tags the rows have none, and no size is expected.
 */
export const appendCall = (
  items: readonly BatchItem[],
  tags: BatchTags | null,
  timeoutMs: number,
): pg.QueryConfig & { query_timeout: number } => ({
  name: 'append_events',
  text,
  values: [...eventColumns(items, tags), ...blobColumns(items)],
  query_timeout: timeoutMs,
});

/** The call that stores a batch's blobs and nothing else. */
export const blobsCall = (items: readonly BatchItem[]): pg.QueryConfig => ({
  name: 'store_blobs',
  text: 'select store_blobs($1, $2, $3, $4, $5)',
  values: [...blobColumns(items)],
});

/** Everything but the blobs, in the order of the function's parameters. */
const eventColumns = (items: readonly BatchItem[], tags: BatchTags | null): readonly (string | Buffer)[] => {
  const accounts = new Map<string, { readonly at: number; events: number }>();
  const c = { account: [] as number[], offset: [] as number[], accountOffset: [] as number[], events: [] as number[] };
  const w = {
    command: [] as number[],
    account: [] as string[],
    stream: [] as string[],
    expected: [] as number[],
    version: [] as number[],
    first: [] as number[],
    last: [] as number[],
  };
  const k = { command: [] as number[], account: [] as string[], completed: [] as CompletedCommand[] };
  const e = { accountAt: [] as number[], accountOffset: [] as number[], written: [] as WrittenEvent[] };
  items.forEach((item, index) => {
    const account = accounts.get(item.account) ?? { at: accounts.size + 1, events: 0 };
    accounts.set(item.account, account);
    c.account.push(account.at);
    c.offset.push(e.written.length);
    c.accountOffset.push(account.events);
    for (const { draft, version, events } of item.streams) {
      w.command.push(index + 1);
      w.account.push(item.account);
      w.stream.push(draft.stream);
      w.expected.push(version);
      w.version.push(version + events.length);
      w.first.push(e.written.length);
      w.last.push(e.written.length + events.length - 1);
      for (const event of events) {
        e.accountAt.push(account.at);
        e.accountOffset.push(account.events);
        e.written.push(event);
        account.events += 1;
      }
    }
    c.events.push(account.events - (c.accountOffset.at(-1) ?? 0));
    for (const completed of item.commands) {
      k.command.push(index + 1);
      k.account.push(item.account);
      k.completed.push(completed);
    }
  });
  const places = placesOf(e.written.map(({ bytes }) => bytes));
  const events = e.written.map(({ event }) => event);
  return [
    texts([...accounts.keys()]),
    plain([...accounts.values()].map((account) => account.events)),
    plain(tags === null ? [] : [...accounts.keys()].map(tags.sizeOf)),
    plain(c.account),
    plain(c.offset),
    plain(c.accountOffset),
    plain(c.events),
    plain(w.command),
    texts(w.account),
    texts(w.stream),
    plain(w.expected),
    plain(w.version),
    plain(w.first),
    plain(w.last),
    plain(k.command),
    texts(k.account),
    texts(k.completed.map(({ key }) => key)),
    texts(k.completed.map(({ token }) => token)),
    texts(k.completed.map(({ result }) => JSON.stringify(result))),
    plain(e.accountAt),
    plain(e.accountOffset),
    texts(events.map((event) => event.account)),
    texts(events.map((event) => event.stream)),
    plain(events.map((event) => event.streamVersion)),
    plain(events.map((event) => event.id)),
    plain(events.map((event) => event.type)),
    plain(events.map((event) => event.schema)),
    plain(events.map((event) => event.recordedAt)),
    plain(events.map((event) => event.occurredAt)),
    texts(events.map((event) => event.sessionId ?? null)),
    plain(places.start),
    plain(places.length),
    places.bytes,
    Buffer.concat(e.written.map(({ leaf }) => leaf)),
    tags === null ? Buffer.alloc(0) : tagsOf(items, e.written.length, tags),
  ];
};

/** The tags of a batch's events, one after another, in their order. */
const tagsOf = (items: readonly BatchItem[], events: number, { key, sizeOf }: BatchTags): Buffer => {
  const accounts = new Map<string, { readonly tag: RowTagger; next: bigint }>();
  const tags = Buffer.allocUnsafe(events * 32);
  let at = 0;
  for (const { account, streams } of items) {
    const place = accounts.get(account) ?? { tag: rowTagger(key, account), next: sizeOf(account) };
    accounts.set(account, place);
    for (const stream of streams) {
      for (const { leaf } of stream.events) {
        place.tag(place.next, leaf, tags, at);
        place.next += 1n;
        at += 32;
      }
    }
  }
  return tags;
};

/** How many events a batch has for each account, accounts in the order of the call. */
export const eventsByAccount = (items: readonly BatchItem[]): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>();
  for (const { account, streams } of items) {
    const events = streams.reduce((sum, stream) => sum + stream.events.length, 0);
    counts.set(account, (counts.get(account) ?? 0) + events);
  }
  return counts;
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
export const plain = (values: readonly (string | number | bigint)[]): string => `{${values.join(',')}}`;

/** Array literal of any text. */
export const texts = (values: readonly (string | null)[]): string => `{${values.map(quoted).join(',')}}`;

const special = /[\\"]/u;

const quoted = (value: string | null): string => {
  if (value === null) return 'NULL';
  return special.test(value) ? `"${value.replace(/[\\"]/gu, '\\$&')}"` : `"${value}"`;
};

/** What the rows of `append_events` say of a batch. */
export const outcomesOf = (rows: readonly unknown[], items: readonly BatchItem[]): BatchOutcome => {
  const outcomes = items.map((): ItemOutcome => ({ kind: 'held-back' }));
  const moved = new Map<string, bigint>();
  for (const row of rows as readonly OutcomeRow[]) {
    if (row.status === 'sizes-moved') {
      const account = [...eventsByAccount(items).keys()][row.command - 1] ?? '';
      moved.set(account, BigInt(row.account_position ?? 0));
    } else outcomes[row.command - 1] = outcomeOf(row);
  }
  return { items: outcomes, moved };
};

const outcomeOf = (row: OutcomeRow): ItemOutcome => {
  if (row.status === 'claim-lost') return { kind: 'claim-lost' };
  if (row.status === 'conflict') {
    return { kind: 'moved', stream: row.moved_stream ?? '', version: row.moved_version ?? 0 };
  }
  return { kind: 'appended', globalFirst: BigInt(row.global_position ?? -1), first: BigInt(row.account_position ?? 0) };
};
