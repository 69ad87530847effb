import { hash } from 'node:crypto';
import { LogUnavailable, type Sql, type StoredEvent } from '#event-store';
import type { Json, Sealed } from '#record';
import { isSealed, type Sealing } from '#sealing';
import { bytewise, columnArrays, batchOf, columnText, insertBatch, type Column } from './columns.js';
import { invocations } from './invocations.js';
import { EventFault, type Projection, type TableName, type Target } from './projection.js';
import { partsOf, searchable, shortestIndexed } from './text-parts.js';

/** Text of one batch is written when this much has gathered, in UTF-16 units: a batch may hold many large values. */
const mostGathered = 4 * 1024 * 1024;

interface Part {
  readonly account: string;
  /** The data key that the text was sealed under: with it the text must go. */
  readonly keyId: string;
  readonly digest: Buffer;
  readonly body: string;
}

interface Use extends Part {
  readonly invocationId: string;
}

/** A sealed value as this batch opened it. */
interface OpenedValue {
  readonly parts: readonly Pick<Part, 'digest' | 'body'>[];
  /** Where it was last met: what passes through a chain unchanged is noted once. */
  lastUsedBy: string;
}

interface KeySample {
  readonly account: string;
  readonly keyId: string;
  readonly sample: Sealed;
}

/**
 * The searchable plaintext of the record, the one read model that holds any (events.md §3). Equal texts under one key
 * are kept once. It can be dropped and built again, and forgets what is erased.
 */
export const textSearch = (sealing: Sealing): Projection => ({
  name: 'text-search',
  version: 2,
  types: [...invocations.types, 'payload.erased'],
  tables: ['text_use', 'text_part', 'text_key'],
  // Parts are numbered as they come, and any value under a key may be its sample: neither is compared.
  compared: {
    text_part: {
      select: (table) => `select account, key_id, digest, body from ${table('text_part')}`,
      key: ['account', 'key_id', 'digest'],
    },
    text_use: {
      select: (table) => `select u.account, u.invocation_id, p.key_id, p.digest
        from ${table('text_use')} u join ${table('text_part')} p on p.id = u.part_id`,
      key: ['account', 'invocation_id', 'key_id', 'digest'],
    },
    text_key: { select: (table) => `select account, key_id from ${table('text_key')}`, key: ['account', 'key_id'] },
  },
  create: async (sql, table) => {
    await sql.query(
      bytewise(`create table ${table('text_part')} (
      id bigint generated always as identity primary key, account text not null, key_id text not null,
      digest bytea not null, body text not null, unique (account, key_id, digest)
    )`),
    );
    await sql.query(
      bytewise(`create table ${table('text_use')} (
      account text not null, invocation_id text not null, part_id bigint not null,
      primary key (account, invocation_id, part_id)
    )`),
    );
    await sql.query(
      bytewise(`create table ${table('text_key')} (
      account text not null, key_id text not null, sample text not null, primary key (account, key_id)
    )`),
    );
  },
  index: async (sql, table) => {
    await sql.query(`create index on ${table('text_use')} (part_id)`);
    await indexTrigrams(sql, table('text_part'));
  },
  apply: async (events, target) => {
    let run: StoredEvent[] = [];
    for (const stored of events) {
      if (stored.event.type !== 'payload.erased') {
        run.push(stored);
        continue;
      }
      await takeTexts(run, target, sealing);
      run = [];
      await forget(stored, target, sealing);
    }
    await takeTexts(run, target, sealing);
  },
});

/**
 * The trigram index, in the best form that this database allows: with the account in it, without, or none. Without an
 * extension a search still finds everything, only by looking at every text of the account.
 */
const indexTrigrams = async (sql: Sql, table: string): Promise<void> => {
  const forms = [
    [
      'create extension if not exists pg_trgm',
      'create extension if not exists btree_gin',
      `create index on ${table} using gin (account, body gin_trgm_ops)`,
    ],
    ['create extension if not exists pg_trgm', `create index on ${table} using gin (body gin_trgm_ops)`],
  ];
  for (const statements of forms) {
    await sql.query('savepoint trigrams');
    try {
      for (const statement of statements) await sql.query(statement);
      await sql.query('release savepoint trigrams');
      return;
    } catch {
      await sql.query('rollback to savepoint trigrams');
    }
  }
};

/** Whether searches by text have their index; without it they are right and slow. */
export const hasTrigramIndex = async (sql: Sql, table: TableName): Promise<boolean> => {
  const rows = await sql.query(
    `select 1 from pg_index x join pg_class i on i.oid = x.indexrelid join pg_am a on a.oid = i.relam
     where x.indrelid = to_regclass($1) and a.amname = 'gin' limit 1`,
    [table('text_part')],
  );
  return rows.length > 0;
};

const takeTexts = async (events: readonly StoredEvent[], target: Target, sealing: Sealing): Promise<void> => {
  const opened = new Map<string, OpenedValue>();
  let uses: Use[] = [];
  let samples = new Map<string, KeySample>();
  let gathered = 0;
  for (const { event } of events) {
    const { invocationId, account } = event;
    if (invocationId === undefined) continue;
    for (const sealed of sealedWithin(event.data)) {
      const value = await openedValue(account, sealed, sealing, opened);
      if (value.lastUsedBy === invocationId) continue;
      value.lastUsedBy = invocationId;
      const keyId = '$blob' in sealed ? sealed.k : sealed.$sealed.k;
      samples.set(`${account}\0${keyId}`, { account, keyId, sample: sealed });
      for (const { body, digest } of value.parts) {
        uses.push({ account, keyId, invocationId, body, digest });
        gathered += body.length;
      }
    }
    if (gathered < mostGathered) continue;
    await write(target, uses, [...samples.values()]);
    uses = [];
    samples = new Map();
    gathered = 0;
  }
  await write(target, uses, [...samples.values()]);
};

/** Within a batch a value is opened once. */
const openedValue = async (
  account: string,
  sealed: Sealed,
  sealing: Sealing,
  opened: Map<string, OpenedValue>,
): Promise<OpenedValue> => {
  const key = `${account}\0${'$blob' in sealed ? sealed.$blob : sealed.$sealed.b}`;
  const known = opened.get(key);
  if (known !== undefined) return known;
  const content = await sealing.open(account, sealed).catch(asEventFault);
  const bodies = content.kind === 'open' ? partsOf(content.value) : [];
  const value = { parts: bodies.map((body) => ({ body, digest: hash('sha256', body, 'buffer') })), lastUsedBy: '' };
  if (opened.size > 500) opened.clear();
  opened.set(key, value);
  return value;
};

/**
 * A value that does not open (its key was never there, its bytes were changed) is its event's fault. What has a code
 * came from the database or the network and passes.
 */
const asEventFault = (error: unknown): never => {
  const hasCode = error instanceof Error && 'code' in error && /^([0-9A-Z]{5}|E[A-Z]+)$/.test(String(error.code));
  if (hasCode || error instanceof LogUnavailable) throw error;
  throw new EventFault('a sealed value does not open');
};

/** Every sealed value of an event's data. */
export const sealedWithin = function* (value: Json | undefined): Generator<Sealed> {
  if (typeof value !== 'object' || value === null) return;
  if (isSealed(value)) yield value;
  else for (const item of Object.values(value)) yield* sealedWithin(item);
};

const partColumns: readonly Column<Part>[] = [
  { name: 'account', type: 'text', of: (row) => row.account },
  { name: 'key_id', type: 'text', of: (row) => row.keyId },
  { name: 'digest', type: 'bytea', of: (row) => row.digest },
  { name: 'body', type: 'text', of: (row) => row.body },
];

const useColumns: readonly Column<Use>[] = [
  { name: 'account', type: 'text', of: (row) => row.account },
  { name: 'key_id', type: 'text', of: (row) => row.keyId },
  { name: 'digest', type: 'bytea', of: (row) => row.digest },
  { name: 'invocation_id', type: 'text', of: (row) => columnText(row.invocationId) },
];

const keyColumns: readonly Column<KeySample>[] = [
  { name: 'account', type: 'text', of: (row) => row.account },
  { name: 'key_id', type: 'text', of: (row) => row.keyId },
  { name: 'sample', type: 'text', of: (row) => JSON.stringify(row.sample) },
];

const write = async ({ sql, table }: Target, uses: readonly Use[], samples: readonly KeySample[]): Promise<void> => {
  if (uses.length === 0) return;
  const keyOf = (use: Use): string => `${use.account}\0${use.keyId}\0${use.digest.toString('base64')}`;
  const parts = new Map(uses.map((use) => [keyOf(use), use]));
  const distinct = new Map(uses.map((use) => [`${keyOf(use)}\0${use.invocationId}`, use]));
  await insertBatch(sql, table('text_key'), keyColumns, samples, 'on conflict do nothing');
  await insertBatch(
    sql,
    table('text_part'),
    partColumns,
    [...parts.values()],
    'on conflict (account, key_id, digest) do nothing',
  );
  await sql.query(
    `insert into ${table('text_use')} (account, invocation_id, part_id)
     select x.account, x.invocation_id, p.id from ${batchOf(useColumns)}
     join ${table('text_part')} p on p.account = x.account and p.key_id = x.key_id and p.digest = x.digest
     on conflict do nothing`,
    columnArrays(useColumns, [...distinct.values()]),
  );
};

/** Drops every text whose key is destroyed: those that the event names, and any other that no longer opens. */
const forget = async ({ event }: StoredEvent, { sql, table }: Target, sealing: Sealing): Promise<void> => {
  const named = stringsWithin(event.data);
  const rows = await sql.query(`select key_id, sample from ${table('text_key')} where account = $1`, [event.account]);
  const gone: string[] = [];
  for (const row of rows) {
    const keyId = String(row.key_id);
    if (named.has(keyId) || (await isErased(event.account, String(row.sample), sealing))) gone.push(keyId);
  }
  if (gone.length === 0) return;
  await sql.query(
    `delete from ${table('text_use')} where part_id in
       (select id from ${table('text_part')} where account = $1 and key_id = any($2::text[]))`,
    [event.account, gone],
  );
  await sql.query(`delete from ${table('text_part')} where account = $1 and key_id = any($2::text[])`, [
    event.account,
    gone,
  ]);
  await sql.query(`delete from ${table('text_key')} where account = $1 and key_id = any($2::text[])`, [
    event.account,
    gone,
  ]);
};

const isErased = async (account: string, sample: string, sealing: Sealing): Promise<boolean> =>
  (await sealing.open(account, JSON.parse(sample) as Sealed)).kind === 'erased';

const stringsWithin = (value: Json | undefined, found = new Set<string>()): Set<string> => {
  if (typeof value === 'string') found.add(value);
  else if (typeof value === 'object' && value !== null)
    for (const item of Object.values(value)) stringsWithin(item, found);
  return found;
};

/**
 * How many uses of texts are looked up by their index before the search walks the invocations instead: about where
 * the two cost the same in a record of a million events.
 */
const mostUses = 4000;

/** What the text of a search means for its SQL: the invocations that have it when they are few, else the pattern. */
export type TextMatch =
  | { readonly kind: 'invocations'; readonly ids: readonly string[] }
  | { readonly kind: 'pattern'; readonly table: TableName; readonly pattern: string };

/** Looks the text up; `table` names the tables of the text search. */
export const matchText = async (sql: Sql, table: TableName, account: string, text: string): Promise<TextMatch> => {
  const body = searchable(text);
  const pattern = `%${body.replace(/[\\%_]/g, '\\$&')}%`;
  // A pattern without a trigram would make Postgres go through the whole index before it looks at the texts.
  const [matches, wanted] =
    body.length < shortestIndexed ? ['strpos(p.body, $2) > 0', body] : ['p.body like $2', pattern];
  const rows = await sql.query(
    `select u.invocation_id from ${table('text_part')} p join ${table('text_use')} u on u.part_id = p.id
       where p.account = $1 and ${matches} limit ${String(mostUses + 1)}`,
    [account, wanted],
  );
  if (rows.length > mostUses) return { kind: 'pattern', table, pattern };
  return { kind: 'invocations', ids: [...new Set(rows.map((row) => String(row.invocation_id)))] };
};

/** Too many texts had to be looked at for the time that a search has. HTTP: 400. */
export class SearchTooWide extends Error {
  override readonly name = 'SearchTooWide';
}

/** How long one statement of a search by text may take, ms. */
const searchMs = 10_000;

/**
 * Runs a search by text on one connection. What no index shortens (a text of one or two characters, a common one with a
 * rare filter) is bounded by time: rejects with `SearchTooWide` when it is up.
 */
export const withinSearchTime = <T>(sql: Sql, search: (sql: Sql) => Promise<T>, ms = searchMs): Promise<T> =>
  sql.transaction(async (tx) => {
    await tx.query(`set local statement_timeout = ${String(ms)}`);
    try {
      return await search(tx);
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === '57014') throw new SearchTooWide();
      throw error;
    }
  });

/** The match as a condition on an invocation row `i`. */
export const textCondition = (match: TextMatch, bind: (value: unknown) => string): string => {
  // As a list of ids the planner knows how many there are; a join of the uses it takes for many times as many.
  if (match.kind === 'invocations') return `i.invocation_id = any(${bind(match.ids)}::text[])`;
  const same = 'u.account = i.account and u.invocation_id = i.invocation_id';
  const part = `join ${match.table('text_part')} p on p.id = u.part_id`;
  return `exists (select 1 from ${match.table('text_use')} u ${part} where ${same} and p.body like ${bind(match.pattern)})`;
};
