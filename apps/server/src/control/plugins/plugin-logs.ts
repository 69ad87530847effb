import { Controller, Get, Inject, UseInterceptors } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { openReading, pluginLogs, ReadModelMissing, type TableName } from '#audit';
import type { EventStore, Sql, StoredEvent } from '#event-store';
import {
  Account,
  Allow,
  CurrentCaller,
  Cursors,
  EVENT_STORE,
  pagingFields,
  PathId,
  Problem,
  queryId,
  queryWord,
  rangeFields,
  SEALING,
  show,
  SQL,
  StrictQuery,
  type Caller,
  type QueryOf,
  type Shown,
} from '#platform';
import {
  invocationStream,
  pluginStream,
  type ChainEntry,
  type HostCall,
  type InvocationOpened,
  type Json,
  type Sealed,
} from '#record';
import type { Sealing } from '#sealing';
import { RecordReads } from '../audit/record-reads.js';
import { logLevels, logsSchema, Problems } from './plugin-schemas.js';
import { hidden } from './plugin-view.js';
import { noPlugin } from './refusals.js';

const fields = {
  ...pagingFields,
  ...rangeFields,
  sessionId: queryId('Lines of this session only.'),
  order: queryWord('Newest or oldest first.', ['newest', 'oldest'], 'newest'),
} as const;

type LogsQuery = QueryOf<typeof fields>;

/** One line of `host.log`. */
interface LogLine {
  readonly position: string;
  readonly recordedAt: string;
  readonly invocationId: string | null;
  readonly hook: string | null;
  readonly sessionId: string | null;
  readonly pluginVersion: string | null;
  readonly revision: number | null;
  readonly level: Shown;
  readonly message: Shown;
}

interface LogsPage {
  readonly items: readonly LogLine[];
  readonly nextCursor: string | null;
  readonly completeUpTo: string | null;
  readonly from: string | null;
  readonly to: string | null;
}

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugins')
@UseInterceptors(RecordReads)
export class PluginLogsRoute {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(Cursors) private readonly cursors: Cursors,
  ) {}

  @Get(':plugin/logs')
  @Allow('admin', 'auditor')
  @ApiOperation({ summary: 'What the plugin wrote with `host.log`' })
  @ApiOkResponse({
    description: 'Newest first unless asked otherwise; also of a plugin that was uninstalled.',
    schema: logsSchema,
  })
  @Problems(400, 404)
  async logs(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @PathId('plugin', 'The plugin.') id: string,
    @StrictQuery(fields) query: LogsQuery,
  ): Promise<LogsPage> {
    const [first] = await this.store.readStream(account, pluginStream(id));
    if (first === undefined) throw noPlugin(id);
    const { cursor, order, sessionId, limit } = query;
    const [from, to] = [query.from?.toISOString() ?? null, query.to?.toISOString() ?? null];
    const filter = JSON.stringify(['plugin logs', account, id, order, sessionId, from, to]);
    const after = cursor === null ? null : String(this.cursors.decode(filter, cursor)[0]);
    const { table, completeUpTo } = await this.reading(account);
    const positions = await linePositions(this.sql, table, {
      account,
      id,
      order,
      sessionId,
      from,
      to,
      after,
      limit: limit + 1,
    });
    const shown = positions.slice(0, limit);
    const lines = await eventsAt(this.store, account, shown);
    const revisions = await this.revisions(account, id, lines);
    const more = positions.length > limit ? (shown.at(-1) ?? null) : null;
    return {
      items: await Promise.all(lines.map((stored) => this.line(account, caller, stored, revisions))),
      nextCursor: more === null ? null : this.cursors.encode(filter, [String(more)]),
      completeUpTo: completeUpTo === null ? null : String(completeUpTo),
      from,
      to,
    };
  }

  private async reading(account: string) {
    try {
      return await openReading(this.sql, this.store, pluginLogs, account);
    } catch (error) {
      if (!(error instanceof ReadModelMissing)) throw error;
      throw new Problem(503, 'read_model_missing', 'The log lines are not collected yet. Try again.', [], {
        'retry-after': '5',
      });
    }
  }

  /** The revision that wrote the lines of an invocation: what its chain says, where the line itself does not. */
  private async revisions(account: string, id: string, lines: readonly StoredEvent[]): Promise<Revisions> {
    const asked = lines.filter(({ event }) => event.pluginRevision === undefined);
    const invocations = [...new Set(asked.flatMap(({ event }) => event.invocationId ?? []))];
    const found = new Map<string, ChainEntry>();
    for (let start = 0; start < invocations.length; start += streamsAtOnce) {
      const some = invocations.slice(start, start + streamsAtOnce);
      await Promise.all(
        some.map(async (invocation) => {
          const entry = await this.chainEntry(account, invocation, id);
          if (entry !== undefined) found.set(invocation, entry);
        }),
      );
    }
    return found;
  }

  private async chainEntry(account: string, invocation: string, id: string): Promise<ChainEntry | undefined> {
    const stream = invocationStream(invocation);
    const [opened] = await this.store.readAccount(account, { stream, types: ['invocation.opened'], limit: 1 });
    const { chain = [] } = (opened?.event.data ?? {}) as Partial<InvocationOpened>;
    return chain.find(({ pluginId }) => pluginId === id);
  }

  private async line(
    account: string,
    caller: Caller,
    { event, position }: StoredEvent,
    revisions: Revisions,
  ): Promise<LogLine> {
    const entry = revisions.get(event.invocationId ?? '');
    const { args } = event.data as unknown as HostCall;
    const { level, message } = await this.said(account, caller, args ?? null);
    return {
      position: String(position),
      recordedAt: event.recordedAt,
      invocationId: event.invocationId ?? null,
      hook: event.hook ?? null,
      sessionId: event.sessionId ?? null,
      pluginVersion: event.pluginVersion ?? entry?.version ?? null,
      revision: event.pluginRevision ?? entry?.revision ?? null,
      level,
      message,
    };
  }

  private async said(account: string, caller: Caller, args: Sealed | null): Promise<{ level: Shown; message: Shown }> {
    const opened = await show(this.sealing, { content: 'full' }, account, args);
    if (!Array.isArray(opened)) return { level: null, message: await show(this.sealing, caller, account, args) };
    const [level = null, ...rest] = opened as readonly Json[];
    const message = rest.length <= 1 ? (rest[0] ?? null) : rest;
    if (caller.content === 'full') return { level, message };
    return { level: isLevel(level) ? level : hidden(level), message: hidden(message) };
  }
}

/** Only a word of the usual ones is no content: a plugin may put any text in its place. */
const isLevel = (level: Json): boolean => typeof level === 'string' && logLevels.includes(level);

/** By invocation. */
type Revisions = ReadonlyMap<string, ChainEntry>;

/** Streams that one request reads at the same time: the pool is everybody's. */
const streamsAtOnce = 4;

/** The events at these positions, in their order. Positions close together are read at once. */
const eventsAt = async (
  store: EventStore,
  account: string,
  positions: readonly bigint[],
): Promise<readonly StoredEvent[]> => {
  const found = new Map<bigint, StoredEvent>();
  for (const { first, last } of spansOf(positions)) {
    const events = await store.readAccount(account, {
      ...(first === 0n ? {} : { after: first - 1n }),
      until: last,
      limit: spanMost,
      types: ['host.called'],
    });
    for (const stored of events) found.set(stored.position, stored);
  }
  return positions.flatMap((position) => found.get(position) ?? []);
};

/** Most positions that one read goes over. */
const spanMost = 500;

const spansOf = (positions: readonly bigint[]): readonly { readonly first: bigint; readonly last: bigint }[] => {
  const spans: { first: bigint; last: bigint }[] = [];
  for (const position of [...positions].sort((a, b) => (a < b ? -1 : 1))) {
    const span = spans.at(-1);
    if (span !== undefined && position - span.first < BigInt(spanMost)) span.last = position;
    else spans.push({ first: position, last: position });
  }
  return spans;
};

interface LineQuery {
  readonly account: string;
  readonly id: string;
  readonly order: 'newest' | 'oldest';
  readonly sessionId: string | null;
  readonly from: string | null;
  readonly to: string | null;
  readonly after: string | null;
  readonly limit: number;
}

const linePositions = async (sql: Sql, table: TableName, query: LineQuery): Promise<readonly bigint[]> => {
  const newest = query.order === 'newest';
  const rows = await sql.query(
    `select position::text as position from ${table('plugin_log_line')}
     where account = $1 and plugin_id = $2
       and ($3::text is null or session_id = $3)
       and ($4::timestamptz is null or recorded_at >= $4)
       and ($5::timestamptz is null or recorded_at < $5)
       and ($6::bigint is null or position ${newest ? '<' : '>'} $6)
     order by position ${newest ? 'desc' : 'asc'} limit $7`,
    [query.account, query.id, query.sessionId, query.from, query.to, query.after, query.limit],
  );
  return rows.map(({ position }) => BigInt(String(position)));
};
