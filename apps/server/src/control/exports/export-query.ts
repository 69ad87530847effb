import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { ArrayMaxSize, IsArray, IsIn } from 'class-validator';
import type { EventStore, StoredEvent } from '#event-store';
import { AbsentOrNull, IsJsonObject, IsWireId, Nested, Problem, readBound, type FieldFault } from '#platform';
import type { EventType, JsonObject } from '#record';
import { eventTypes, isEventType } from '#record';

const formats = ['jsonl', 'csv'] as const;
const contents = ['full', 'none'] as const;

/** Which events: everything that is said must hold. */
export class ExportQuery {
  @ApiPropertyOptional({
    type: String,
    nullable: true,
    description: 'Recorded at or after: RFC 3339, or a date. Never relative: an export is of what it says, for good.',
  })
  @AbsentOrNull()
  from?: string | null;

  @ApiPropertyOptional({ type: String, nullable: true, description: 'Recorded before; a date includes its day.' })
  @AbsentOrNull()
  to?: string | null;

  @ApiPropertyOptional({ type: String, nullable: true, pattern: '^[0-9]{1,18}$', description: 'First position.' })
  @AbsentOrNull()
  first?: string | null;

  @ApiPropertyOptional({ type: String, nullable: true, pattern: '^[0-9]{1,18}$', description: 'Last position.' })
  @AbsentOrNull()
  last?: string | null;

  @ApiPropertyOptional({
    type: [String],
    nullable: true,
    maxItems: 100,
    description: 'Types; `handler.*` is a family.',
  })
  @AbsentOrNull()
  @IsArray()
  @ArrayMaxSize(100)
  types?: string[] | null;

  @ApiPropertyOptional({ type: String, nullable: true, maxLength: 200 })
  @AbsentOrNull()
  @IsWireId()
  sessionId?: string | null;

  @ApiPropertyOptional({ type: String, nullable: true, description: 'One stream, such as `invocation/ID`.' })
  @AbsentOrNull()
  stream?: string | null;
}

/** What a POST asks for. */
export class NewExport {
  @ApiProperty({ type: ExportQuery })
  @IsJsonObject()
  @Nested(() => ExportQuery)
  query!: ExportQuery;

  @ApiProperty({ enum: formats, description: 'jsonl: a tar that can be verified. csv: for a spreadsheet.' })
  @IsIn(formats, { message: 'format must be jsonl or csv' })
  format!: (typeof formats)[number];

  @ApiPropertyOptional({
    enum: contents,
    default: 'none',
    description: 'full: content opened, beside the stored bytes.',
  })
  @AbsentOrNull()
  @IsIn(contents, { message: 'content must be full or none' })
  content?: (typeof contents)[number] | null;
}

/** A query with its words read. */
export interface ExportFilter {
  readonly from: Date | null;
  readonly to: Date | null;
  readonly first: bigint | null;
  readonly last: bigint | null;
  readonly types: readonly EventType[] | null;
  readonly sessionId: string | null;
  readonly stream: string | null;
}

/** Reads a query. Throws 422 with every word that does not fit. */
export const readExportQuery = (query: ExportQuery): ExportFilter => {
  const faults: FieldFault[] = [];
  const fault = (name: string, reason: string): null => {
    faults.push({ pointer: `/query/${name}`, reason });
    return null;
  };
  const time = (name: 'from' | 'to'): Date | null => {
    const text: unknown = query[name] ?? null;
    if (text === null) return null;
    if (typeof text !== 'string') return fault(name, 'must be a time as text');
    const read = readBound(text, name);
    return 'time' in read ? read.time : fault(name, read.reason);
  };
  const position = (name: 'first' | 'last'): bigint | null => {
    const text: unknown = query[name] ?? null;
    if (text === null) return null;
    return typeof text === 'string' && /^\d{1,18}$/u.test(text)
      ? BigInt(text)
      : fault(name, 'must be a position: a whole number, as text');
  };
  const stream: unknown = query.stream ?? null;
  if (stream !== null && (typeof stream !== 'string' || stream.length < 1 || stream.length > 500)) {
    fault('stream', 'must be a text of 1 to 500 characters');
  }
  const filter: ExportFilter = {
    from: time('from'),
    to: time('to'),
    first: position('first'),
    last: position('last'),
    types: typesOf(query.types ?? null, fault),
    sessionId: query.sessionId ?? null,
    stream: typeof stream === 'string' ? stream : null,
  };
  if (filter.from !== null && filter.to !== null && filter.from >= filter.to) fault('to', 'is not after `from`');
  if (filter.first !== null && filter.last !== null && filter.first > filter.last) fault('last', 'is below `first`');
  if (faults.length > 0) throw new Problem(422, 'bad_fields', 'The body does not fit.', faults);
  return filter;
};

const typesOf = (
  words: readonly unknown[] | null,
  fault: (name: string, reason: string) => null,
): readonly EventType[] | null => {
  if (words === null) return null;
  const found = words.flatMap((word, index) => {
    const family = typeof word === 'string' ? typesNamed(word) : [];
    if (family.length === 0) fault(`types/${String(index)}`, 'is no event type');
    return family;
  });
  if (words.length === 0) fault('types', 'is empty; leave it out for all types');
  return [...new Set(found)];
};

const typesNamed = (word: string): readonly EventType[] => {
  if (isEventType(word)) return [word];
  return word.endsWith('.*') ? eventTypes.filter((type) => type.startsWith(word.slice(0, -1))) : [];
};

/** The query as events and manifests keep it: absolute, and only what was said. */
export const queryJson = ({ from, to, first, last, types, sessionId, stream }: ExportFilter): JsonObject => ({
  ...(from === null ? {} : { from: from.toISOString() }),
  ...(to === null ? {} : { to: to.toISOString() }),
  ...(first === null ? {} : { first: String(first) }),
  ...(last === null ? {} : { last: String(last) }),
  ...(types === null ? {} : { types }),
  ...(sessionId === null ? {} : { sessionId }),
  ...(stream === null ? {} : { stream }),
});

/** Positions, both included; empty when `last` is below `first`. */
export interface ExportRange {
  readonly first: bigint;
  readonly last: bigint;
}

/** Clocks of replicas differ; no two by more than this, ms. */
const clockMarginMs = 3_600_000;

/**
 * The positions that a query can concern, pinned to the log as it is now. Times narrow it by halving, with a margin
 * for clocks that differ, so that a day of a long log is not looked for in all of it.
 */
export const pinRange = async (store: EventStore, account: string, filter: ExportFilter): Promise<ExportRange> => {
  const end = (await store.accountSize(account)) - 1n;
  const first = filter.first ?? 0n;
  const last = filter.last === null || filter.last > end ? end : filter.last;
  const bound = (time: Date | null, otherwise: bigint, marginMs: number): Promise<bigint> =>
    time === null ? Promise.resolve(otherwise) : firstAt(store, account, { first, last }, time.getTime() + marginMs);
  const from = await bound(filter.from, first, -clockMarginMs);
  const to = await bound(filter.to, last + 1n, clockMarginMs);
  return { first: from > first ? from : first, last: to - 1n < last ? to - 1n : last };
};

/** The first position of the range that was recorded at a time or later; beyond it where none was. */
const firstAt = async (
  store: EventStore,
  account: string,
  { first, last }: ExportRange,
  time: number,
): Promise<bigint> => {
  let [low, high] = [first, last + 1n];
  while (low < high) {
    const middle = (low + high) / 2n;
    const [stored] = await store.readAccount(account, { after: middle - 1n, until: last, limit: 1 });
    if (stored === undefined || Date.parse(stored.event.recordedAt) >= time) high = middle;
    else low = stored.position + 1n;
  }
  return low;
};

/** Events of a pinned range by a filter, a page at a time: what memory holds does not grow with their number. */
export async function* selectEvents(
  store: EventStore,
  account: string,
  { first, last }: ExportRange,
  filter: ExportFilter,
): AsyncGenerator<Selected, void> {
  for (let after = first - 1n; after < last;) {
    const page = await store.readAccount(account, {
      after,
      until: last,
      limit: pageEvents,
      ...(filter.types === null ? {} : { types: filter.types }),
      ...(filter.sessionId === null ? {} : { sessionId: filter.sessionId }),
      ...(filter.stream === null ? {} : { stream: filter.stream }),
    });
    const at = page.at(-1);
    if (at === undefined) return;
    after = at.position;
    const events = page.filter(({ event }) => isWithin(filter, event.recordedAt));
    yield { events, seen: page };
  }
}

/** What a step found: the events that are wanted, and all that the filter but for its times let through. */
export interface Selected {
  readonly events: readonly StoredEvent[];
  readonly seen: readonly StoredEvent[];
}

const pageEvents = 1_000;

const isWithin = ({ from, to }: ExportFilter, recordedAt: string): boolean => {
  const time = Date.parse(recordedAt);
  return (from === null || time >= from.getTime()) && (to === null || time < to.getTime());
};
