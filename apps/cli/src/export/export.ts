import { createHash } from 'node:crypto';
import { open, rename, rm, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { PassThrough, type Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import tar from 'tar-stream';
import type { Connection } from '../client/connection.js';
import { ask, connectionOptions, readConnection, Refused, textOf, Unreached } from '../client/connection.js';
import { readOptions } from '../options.js';
import { showProgress } from '../progress.js';
import { Failure, Misuse, plain } from '../words.js';

const exportOptions = {
  ...connectionOptions,
  to: { type: 'string' },
  format: { type: 'string' },
  content: { type: 'boolean' },
  from: { type: 'string' },
  until: { type: 'string' },
  first: { type: 'string' },
  last: { type: 'string' },
  type: { type: 'string', multiple: true },
  session: { type: 'string' },
  stream: { type: 'string' },
  resume: { type: 'string' },
  json: { type: 'boolean' },
} as const;

/** What `hookledger export` was asked for. */
export interface ExportWish {
  /** Where the file goes, absolute. */
  readonly to: string;
  /** An export that was asked for before; null = a new one. */
  readonly id: string | null;
  readonly body: { readonly query: object; readonly format: 'jsonl' | 'csv'; readonly content: 'full' | 'none' };
  readonly json: boolean;
}

/** Reads the words of `hookledger export`. Throws `Misuse`. */
export const readExport = (
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  cwd: string,
): { readonly connection: Connection; readonly wish: ExportWish } => {
  const { values } = readOptions(args, exportOptions);
  if (values.to === undefined || values.to === '') throw new Misuse('--to FILE is missing');
  const format = values.format ?? (values.to.endsWith('.csv') ? 'csv' : 'jsonl');
  if (format !== 'jsonl' && format !== 'csv') throw new Misuse('--format must be jsonl or csv');
  const { from, until: to, first, last, type: types, session: sessionId, stream } = values;
  const said = Object.entries({ from, to, first, last, types, sessionId, stream });
  const query = Object.fromEntries(said.filter(([, value]) => value !== undefined));
  if (values.resume !== undefined && (Object.keys(query).length > 0 || values.content === true)) {
    throw new Misuse('--resume takes an export as it was asked for: it goes without filters and without --content');
  }
  return {
    connection: readConnection(values, env),
    wish: {
      to: resolve(cwd, values.to),
      id: values.resume ?? null,
      body: { query, format, content: values.content === true ? 'full' : 'none' },
      json: values.json === true,
    },
  };
};

/** An export as the server shows it. */
interface ShownExport {
  readonly id: string;
  readonly state: 'waiting' | 'running' | 'done' | 'failed';
  readonly format: 'jsonl' | 'csv';
  readonly events: number;
  readonly range: { readonly first: string; readonly last: string };
  readonly manifest: Manifest | null;
}

interface Manifest {
  readonly events: number;
  readonly first: string | null;
  readonly last: string | null;
  readonly files: Readonly<Record<string, { readonly sha256: string; readonly bytes: number }>>;
}

/**
 * `hookledger export`: asks for an export, waits until it is made, fetches it, and keeps it only if it is whole and
 * every file in it is what the manifest says.
 */
export const exportRecord = async (args: readonly string[]): Promise<number> => {
  const { connection, wish } = readExport(args, process.env, process.cwd());
  if ((await stat(wish.to).catch(() => null)) !== null) {
    throw new Failure(`${plain(wish.to)} exists already and was not touched. Name a new file.`);
  }
  const asked = wish.id ?? (await begin(connection, wish)).id;
  const made = await waitFor(connection, asked, wish.json);
  const bytes = await keep(connection, made, wish.to);
  const { id, manifest } = made;
  if (wish.json) {
    console.log(JSON.stringify({ id, file: wish.to, bytes, manifest }));
    return 0;
  }
  const events = `${(manifest?.events ?? 0).toLocaleString('en-US')} events`;
  const place =
    manifest?.first === null ? '' : `, positions ${plain(String(manifest?.first))} to ${plain(String(manifest?.last))}`;
  console.log(`${plain(wish.to)}: ${events}${place}.`);
  if (made.format === 'jsonl') console.log('Check it without this server: hookledger verify --help says how.');
  return 0;
};

const begin = async (connection: Connection, { body }: ExportWish): Promise<ShownExport> =>
  shownIn(connection, await ask(connection, '/exports', { method: 'POST', body: JSON.stringify(body) }));

const shownIn = async (connection: Connection, response: Response): Promise<ShownExport> =>
  JSON.parse(await textOf(connection, response)) as ShownExport;

/** How often the server is asked how far it is, ms. */
const lookEveryMs = 500;

const waitFor = async (connection: Connection, id: string, isQuiet: boolean): Promise<ShownExport> => {
  const progress = showProgress({ unit: 'events', show: isQuiet ? 'none' : 'auto' });
  try {
    for (;;) {
      const shown = await shownIn(connection, await ask(connection, `/exports/${encodeURIComponent(id)}`));
      if (shown.state === 'done') return shown;
      if (shown.state === 'failed')
        throw new Failure(`Export ${plain(id)} could not be made; the server's log says why.`);
      const total = Number(BigInt(shown.range.last) - BigInt(shown.range.first) + 1n);
      progress.update(shown.events, Math.max(total, shown.events));
      await delay(lookEveryMs);
    }
  } finally {
    progress.stop();
  }
};

/** Fetches the file under another name, and gives it its own when it is whole. */
const keep = async (connection: Connection, made: ShownExport, to: string): Promise<number> => {
  const draft = `${to}.partial`;
  const file = await open(draft, 'w', 0o600).catch((error: unknown) => {
    throw new Failure(`${plain(draft)} cannot be written (${(error as { code?: string }).code ?? 'unknown error'}).`);
  });
  try {
    const response = await fetched(connection, made.id);
    const wanted = Number(response.headers.get('content-length') ?? -1);
    const check = made.format === 'csv' ? csvCheck(made) : tarCheck(made);
    let bytes = 0;
    try {
      for await (const piece of response.body ?? []) {
        const chunk = Buffer.from(piece as Uint8Array);
        bytes += chunk.length;
        await check.take(chunk);
        await file.writeFile(chunk);
      }
    } catch (error) {
      if (error instanceof Failure) throw error;
      throw new Unreached(`The download broke off after ${bytes.toLocaleString('en-US')} bytes; nothing was kept.`);
    }
    if (bytes !== wanted) throw new Failure('The download was cut short; nothing was kept.');
    await check.end();
    await file.sync();
    await file.close();
    await rename(draft, to);
    const folder = await open(dirname(to), 'r').catch(() => null);
    await folder?.sync().catch(() => undefined);
    await folder?.close();
    return bytes;
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(draft, { force: true });
    throw error;
  }
};

/** What was erased or purged since makes the server reckon it again. */
const fetched = async (connection: Connection, id: string): Promise<Response> => {
  const path = `/exports/${encodeURIComponent(id)}`;
  try {
    return await ask(connection, `${path}/file`);
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 409) throw error;
    await waitFor(connection, id, true);
    return ask(connection, `${path}/file`);
  }
};

interface Check {
  take(piece: Buffer): Promise<void>;
  end(): Promise<void>;
}

const notTheSame = (name: string): Failure =>
  new Failure(`${plain(name)} of the export is not what its manifest says; nothing was kept.`);

const csvCheck = ({ manifest }: ShownExport): Check => {
  const hash = createHash('sha256');
  return {
    take: (piece) => Promise.resolve(void hash.update(piece)),
    end: () =>
      hash.digest('hex') === manifest?.files['events.csv']?.sha256
        ? Promise.resolve()
        : Promise.reject(notTheSame('events.csv')),
  };
};

/** Holds each file of the tar against the manifest that comes first in it. */
const tarCheck = ({ manifest }: ShownExport): Check => {
  const source = new PassThrough();
  const found = new Map<string, string>();
  const reading = (async (): Promise<void> => {
    const extract = source.pipe(tar.extract());
    for await (const entry of extract as AsyncIterable<Readable & { readonly header: tar.Header }>) {
      const hash = createHash('sha256');
      for await (const piece of entry) hash.update(piece as Buffer);
      found.set(entry.header.name.split('/').at(-1) ?? '', hash.digest('hex'));
    }
  })();
  reading.catch(() => undefined);
  return {
    take: async (piece) => {
      if (!source.write(piece)) await Promise.race([reading, new Promise((go) => source.once('drain', go))]);
    },
    end: async () => {
      source.end();
      await reading.catch(() => {
        throw notTheSame('the tar');
      });
      for (const [name, { sha256 }] of Object.entries(manifest?.files ?? {})) {
        if (found.get(name) !== sha256) throw notTheSame(name);
      }
    },
  };
};
