import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { findNodeAtLocation, parseTree } from 'jsonc-parser';
import { readOptions, wholeNumber } from '../options.js';
import { Failure, jsonLine, Misuse } from '../words.js';
import type { Connection } from './connection.js';
import { ask, connectionOptions, readConnection, Refused, textOf, Unreached } from './connection.js';
import { BlockReader } from './event-source.js';

const eventOptions = {
  ...connectionOptions,
  follow: { type: 'boolean' },
  after: { type: 'string' },
  until: { type: 'string' },
  type: { type: 'string', multiple: true },
  session: { type: 'string' },
  open: { type: 'boolean' },
} as const;

/** What is read of a log. */
export interface Reading {
  readonly follow: boolean;
  /** Position after which it begins; `start`: before the first; null: nothing was said. */
  readonly after: string | null;
  readonly until: string | null;
  /** Filters, as parameters of a query. */
  readonly filter: Readonly<Record<string, string>>;
}

/** Reads the words of `hookledger events`. Throws `Misuse`. */
export const readReading = (
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): { readonly connection: Connection; readonly reading: Reading } => {
  const { values } = readOptions(args, eventOptions);
  if (values.follow === true && values.until !== undefined) throw new Misuse('--until and --follow exclude each other');
  const types = values.type ?? [];
  return {
    connection: readConnection(values, env),
    reading: {
      follow: values.follow === true,
      after:
        values.after === undefined || values.after === 'start'
          ? (values.after ?? null)
          : position('after', values.after),
      until: values.until === undefined ? null : position('until', values.until),
      filter: {
        ...(types.length === 0 ? {} : { type: types.join(',') }),
        ...(values.session === undefined ? {} : { sessionId: values.session }),
        ...(values.open === true ? { content: 'open' } : {}),
      },
    },
  };
};

const position = (name: string, text: string): string => String(wholeNumber(name, text, 0, Number.MAX_SAFE_INTEGER));

/**
 * `hookledger events`: prints events of an account's log, a JSON line each, as the server gives them. With `--follow`
 * it goes on until it is stopped, and misses and repeats nothing when the connection is lost.
 */
export const events = async (args: readonly string[]): Promise<number> => {
  const { connection, reading } = readReading(args, process.env);
  if (reading.follow) await follow(connection, reading);
  else await printPages(connection, reading, reading.after === 'start' ? null : reading.after);
  return 0;
};

interface Page {
  readonly items: readonly string[];
  readonly nextCursor: string | null;
  /** Null while the log is empty. */
  readonly completeUpTo: string | null;
}

/**
 * Prints what there is after a position, and says after each page how far that was. Answers with how far the log is
 * read then, null for an empty one.
 */
const printPages = async (
  connection: Connection,
  reading: Reading,
  after: string | null,
  reached: (position: string) => void = () => undefined,
): Promise<string | null> => {
  let cursor: string | null = null;
  for (;;) {
    const page: Page = await pageOf(connection, {
      ...reading.filter,
      ...(after === null ? {} : { after }),
      ...(reading.until === null ? {} : { until: reading.until }),
      limit: '500',
      ...(cursor === null ? {} : { cursor }),
    });
    for (const item of page.items) await print(item);
    const last = page.items.at(-1);
    if (last !== undefined) reached((JSON.parse(last) as { readonly position: string }).position);
    if (page.nextCursor === null) return page.completeUpTo;
    cursor = page.nextCursor;
  }
};

const pageOf = async (connection: Connection, query: Readonly<Record<string, string>>): Promise<Page> => {
  const path = `/events?${String(new URLSearchParams(query))}`;
  return readPage(await textOf(connection, await ask(connection, path)));
};

/** Reads a page of events. The events stay text, so that their numbers keep their digits. Throws `Failure`. */
export const readPage = (text: string): Page => {
  const tree = parseTree(text);
  const items = tree === undefined ? undefined : findNodeAtLocation(tree, ['items']);
  if (tree === undefined || items?.type !== 'array') throw new Failure('The server answered with no page of events.');
  const field = (name: string): string | null => {
    const value: unknown = findNodeAtLocation(tree, [name])?.value;
    return typeof value === 'string' ? value : null;
  };
  return {
    items: (items.children ?? []).map(({ offset, length }) => text.slice(offset, offset + length)),
    nextCursor: field('nextCursor'),
    completeUpTo: field('completeUpTo'),
  };
};

const print = async (json: string): Promise<void> => {
  if (!process.stdout.write(`${jsonLine(json)}\n`)) await once(process.stdout, 'drain');
};

/** How long to wait before a lost connection is opened again, ms: the first time, and at most. */
const firstPauseMs = 250;
const longestPauseMs = 5_000;
/** The server says at least every 15 s that it lives. */
const silenceMs = 45_000;

/** Prints what comes, from the end of the log as it is now unless a position was given. Never ends by itself. */
const follow = async (connection: Connection, reading: Reading): Promise<void> => {
  // The first answer decides: a wrong address or key is not tried for ever.
  const end = await endOf(connection);
  const place = { after: reading.after ?? end };
  let pauseMs = firstPauseMs;
  let isLost = false;
  for (;;) {
    const from = place.after;
    try {
      if (place.after === 'start') await catchUp(connection, reading, place);
      else await listen(connection, reading, place);
    } catch (error) {
      if (!mayPass(error)) throw error;
      if (!isLost) console.error('hookledger events: the connection was lost; trying again');
    }
    isLost = place.after === from;
    pauseMs = isLost ? Math.min(pauseMs * 2, longestPauseMs) : firstPauseMs;
    await delay(pauseMs);
  }
};

interface Place {
  after: string;
}

/** Position of the last event; `start` while there is none. */
const endOf = async (connection: Connection): Promise<string> =>
  (await pageOf(connection, { limit: '1' })).completeUpTo ?? 'start';

/** A stream begins after a position, so what there is until then is read as pages. */
const catchUp = async (connection: Connection, reading: Reading, place: Place): Promise<void> => {
  const reached = (position: string): void => void (place.after = position);
  place.after = (await printPages(connection, reading, null, reached)) ?? 'start';
};

const listen = async (connection: Connection, reading: Reading, place: Place): Promise<void> => {
  const silence = new AbortController();
  const watch = setTimeout(() => silence.abort(), silenceMs);
  try {
    const response = await ask(connection, `/events/stream?${String(new URLSearchParams({ ...reading.filter }))}`, {
      headers: { accept: 'text/event-stream', 'last-event-id': place.after },
      signal: silence.signal,
    });
    const blocks = new BlockReader();
    for await (const piece of piecesOf(response)) {
      watch.refresh();
      for (const { id, data } of blocks.read(piece)) {
        if (data !== null) await print(data);
        if (id !== null) place.after = id;
      }
    }
  } finally {
    clearTimeout(watch);
  }
};

const piecesOf = async function* (response: Response): AsyncGenerator<string> {
  if (response.body === null) return;
  const decoder = new TextDecoder();
  try {
    for await (const bytes of response.body) yield decoder.decode(bytes as Uint8Array, { stream: true });
  } catch {
    throw new Unreached('The stream broke off.');
  }
};

const mayPass = (error: unknown): boolean =>
  error instanceof Unreached || (error instanceof Refused && (error.status >= 500 || error.status === 429));
