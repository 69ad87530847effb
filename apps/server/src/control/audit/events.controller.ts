import { Body, Controller, Get, HttpCode, Inject, Post, Req, Res } from '@nestjs/common';
import { ApiBody, ApiHeader, ApiOkResponse, ApiOperation, ApiProduces, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { LogUnavailable, type EventStore, type ReadRange, type Sql, type StoredEvent } from '#event-store';
import {
  Account,
  Allow,
  CurrentCaller,
  Cursors,
  escapePointer,
  EVENT_STORE,
  KEY_RING,
  Problem,
  queryPointer,
  SEALING,
  SQL,
  STOPPING,
  StrictQuery,
  type Caller,
  type FieldFault,
  type KeyRing,
  type PlatformRequest,
  type QueryOf,
} from '#platform';
import type { Sealed } from '#record';
import { isSealed, type Sealing } from '#sealing';
import { EventStream } from './event-stream.js';
import { eventJson } from './event-json.js';
import { Paging } from './paging.js';
import { purgedWithin } from './purged.js';
import { eventFields, streamFields } from './queries.js';
import { ReadRoute } from './read-routes.js';
import { RecordReads } from './record-reads.js';
import { eventsSchema, openedSchema } from './schemas.js';
import { shownJson } from './shown-json.js';

type EventQuery = QueryOf<typeof eventFields>;

/** Most sealed values that one request opens. */
const openMost = 500;

/** The log itself: as pages, live, and the content of its sealed values. */
@ApiTags('record')
@Controller('v1/accounts/:account')
export class EventsController {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(Cursors) private readonly cursors: Cursors,
    @Inject(KEY_RING) private readonly keys: KeyRing,
    @Inject(RecordReads) private readonly reads: RecordReads,
    @Inject(STOPPING) private readonly stopping: AbortSignal,
    @Inject(SQL) private readonly sql: Sql,
  ) {}

  @Get('events')
  @ReadRoute('The stored events, by position', eventsSchema)
  async events(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(eventFields) query: EventQuery,
  ): Promise<string> {
    const open = mayOpen(query.content, caller);
    if (query.after !== null && query.until !== null && query.after > query.until) throw invertedPositions();
    const paging = new Paging(this.cursors, ['events', account], query);
    const place = paging.place();
    const size = await this.store.accountSize(account);
    const range = rangeOf(query, place === null ? query.after : BigInt(String(place[0])), size);
    const found = await this.store.readAccount(account, range);
    const events = found.slice(0, query.limit);
    const last = events.at(-1);
    const next = found.length > query.limit && last !== undefined ? [String(last.position)] : null;
    const page = paging.page([], next, size === 0n ? null : size - 1n);
    const upTo = next === null || last === undefined ? (range.until ?? size - 1n) : last.position;
    const purged = await purgedWithin(this.sql, account, (range.after ?? -1n) + 1n, upTo);
    return withItems({ ...page, purged }, await this.texts(account, events, open));
  }

  @Get('events/stream')
  @Allow('auditor', 'admin')
  @ApiOperation({ summary: 'The stored events as they come, as server-sent events' })
  @ApiHeader({ name: 'Last-Event-ID', required: false, description: 'Position after which to go on.' })
  @ApiProduces('text/event-stream')
  @ApiOkResponse({
    description:
      '`id` is the position, `data` the event. An event named `purged` stands for positions that were purged: `{ "purged": { first, last, saidAt } }`, `saidAt` being the position that says so. Comments keep the connection alive.',
    schema: { type: 'string' },
  })
  async stream(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(streamFields) query: QueryOf<typeof streamFields>,
    @Req() request: PlatformRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const open = mayOpen(query.content, caller);
    const after = lastEventId(request) ?? query.after ?? (await this.store.accountSize(account)) - 1n;
    await this.reads.note(request);
    const asked = { account, after, ...filterOf(query) };
    const purged = (first: bigint, last: bigint) => purgedWithin(this.sql, account, first, last);
    const stream = new EventStream(this.store, this.keys, this.stopping, asked, purged);
    stream.send(request, reply, (events) => this.texts(account, events, open));
  }

  @Post('open')
  @HttpCode(200)
  @ReadRoute('Open sealed values', openedSchema)
  @ApiBody({
    schema: {
      type: 'object',
      required: ['values'],
      properties: { values: { type: 'array', maxItems: openMost, items: { type: 'object' } } },
    },
  })
  async open(@Account() account: string, @CurrentCaller() caller: Caller, @Body() body: unknown): Promise<string> {
    mayOpen('open', caller);
    const values = readValues(body);
    const faults = await this.foreignOnes(account, values);
    if (faults.length > 0) throw badValues(faults);
    return shownJson(this.sealing, caller, account, { values });
  }

  /** A value of another account, or one that is forged, is not told from one that never was. */
  private async foreignOnes(account: string, values: readonly Sealed[]): Promise<readonly FieldFault[]> {
    const faults: FieldFault[] = [];
    for (const [index, value] of values.entries()) {
      await this.sealing.openText(account, value).catch((error: unknown) => {
        if (error instanceof LogUnavailable) throw error;
        faults.push(valueFault(index, 'is no sealed value of this account'));
      });
    }
    return faults;
  }

  private texts(account: string, events: readonly StoredEvent[], open: boolean): Promise<readonly string[]> {
    return Promise.all(events.map((stored) => eventJson(this.sealing, account, stored, open)));
  }
}

const mayOpen = (content: 'open' | 'sealed', caller: Caller): boolean => {
  if (content === 'sealed') return false;
  if (caller.content === 'full') return true;
  throw new Problem(403, 'content_hidden', 'Opening content needs a key with `content: full`.');
};

const invertedPositions = (): Problem =>
  new Problem(400, 'bad_query', 'The query parameters do not fit.', [
    { pointer: queryPointer('after'), reason: 'is above `until`' },
  ]);

const filterOf = (
  query: Pick<EventQuery, 'type' | 'sessionId' | 'stream'>,
): Pick<ReadRange, 'types' | 'sessionId' | 'stream'> => ({
  ...(query.type === null ? {} : { types: query.type }),
  ...(query.sessionId === null ? {} : { sessionId: query.sessionId }),
  ...(query.stream === null ? {} : { stream: query.stream }),
});

/** Up to the size that was read first, so that `completeUpTo` and the page speak of the same log. */
const rangeOf = (query: EventQuery, after: bigint | null, size: bigint): ReadRange => {
  const until = query.until === null || query.until > size - 1n ? size - 1n : query.until;
  return { ...filterOf(query), ...(after === null ? {} : { after }), until, limit: query.limit + 1 };
};

/** The page with items that are JSON text already. */
const withItems = (page: object, items: readonly string[]): string => {
  const rest = JSON.stringify(Object.fromEntries(Object.entries(page).filter(([name]) => name !== 'items')));
  return `{"items":[${items.join(',')}],${rest.slice(1)}`;
};

const lastEventId = (request: PlatformRequest): bigint | null => {
  const id = request.headers['last-event-id'];
  if (typeof id !== 'string' || id === '') return null;
  if (/^\d{1,18}$/u.test(id)) return BigInt(id);
  throw new Problem(400, 'bad_last_event_id', 'Last-Event-ID must be a position.');
};

const badValues = (faults: readonly FieldFault[]): Problem =>
  new Problem(422, 'invalid_body', 'The values cannot be opened.', faults);

const valueFault = (index: number, reason: string): FieldFault => ({ pointer: `/values/${String(index)}`, reason });

/** The values of a body that are sealed by their form. Throws 422 with everything that is wrong with it. */
const readValues = (body: unknown): readonly Sealed[] => {
  const { values, ...others } = (typeof body === 'object' && body !== null ? body : {}) as {
    readonly values?: unknown;
  };
  const faults: FieldFault[] = Object.keys(others).map((name) => ({
    pointer: `/${escapePointer(name)}`,
    reason: 'unknown field',
  }));
  if (!Array.isArray(values) || values.length > openMost) {
    throw badValues([
      ...faults,
      { pointer: '/values', reason: `must be a list of at most ${String(openMost)} sealed values` },
    ]);
  }
  for (const [index, value] of values.entries()) {
    if (!isWellSealed(value)) faults.push(valueFault(index, 'is no sealed value'));
  }
  if (faults.length > 0) throw badValues(faults);
  return values as readonly Sealed[];
};

const isWellSealed = (value: unknown): value is Sealed => {
  if (!isSealed(value)) return false;
  if ('$blob' in value) return typeof value.$blob === 'string' && typeof value.k === 'string';
  const inner: unknown = value.$sealed;
  return (
    typeof inner === 'object' &&
    inner !== null &&
    'k' in inner &&
    'b' in inner &&
    typeof inner.k === 'string' &&
    typeof inner.b === 'string'
  );
};
