import { Controller, Get, Inject, UseInterceptors } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { EventStore, StoredEvent } from '#event-store';
import {
  Account,
  Allow,
  CurrentCaller,
  Cursors,
  EVENT_STORE,
  formatInstant,
  pagingFields,
  PathId,
  queryFlag,
  queryId,
  queryWord,
  rangeFields,
  StrictQuery,
  type Caller,
  type QueryField,
  type QueryOf,
} from '#platform';
import { pluginChangeTypes } from '#plugins';
import { pluginStream, type EventType } from '#record';
import { RecordReads } from '../audit/record-reads.js';
import { changesSchema, Problems } from './plugin-schemas.js';
import { PluginViews, type ChangeView } from './plugin-view.js';
import { noPlugin } from './refusals.js';

/** What changes what an account's chains do, or who may change it. */
const accountChangeTypes: readonly EventType[] = [
  ...pluginChangeTypes,
  'plugin.tripped',
  'settings.changed',
  'secret.set',
  'account.halted',
  'account.resumed',
  'key.created',
  'key.revoked',
];

const fields = {
  ...pagingFields,
  ...rangeFields,
  order: queryWord('Newest or oldest first.', ['newest', 'oldest'], 'newest'),
} as const;

const changesFields = {
  ...fields,
  pluginId: queryId('Changes of this plugin only.'),
  actor: queryId('Changes by this key, or on behalf of this person.'),
  weakening: {
    ...queryFlag('`true`: only changes that weaken enforcement; `false`: only those that do not.'),
    schema: { type: 'boolean' },
    absent: null,
  } satisfies QueryField<boolean | null>,
} as const;

type ChangesQuery = QueryOf<typeof changesFields>;

interface ChangesPage {
  readonly items: readonly ChangeView[];
  readonly nextCursor: string | null;
  readonly completeUpTo: string;
  readonly from: string | null;
  readonly to: string | null;
}

/** Events looked at for one page at most; a page that stops there says where to go on. */
const scanMost = 20_000;

const scanPage = 500;

@ApiTags('plugins')
@Controller('v1/accounts/:account')
@UseInterceptors(RecordReads)
export class PluginHistoryRoute {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(PluginViews) private readonly views: PluginViews,
    @Inject(Cursors) private readonly cursors: Cursors,
  ) {}

  @Get('plugins/:plugin/history')
  @Allow('admin', 'auditor')
  @ApiOperation({ summary: 'Every change of a plugin: who, on whose behalf, when, why, before and after' })
  @ApiOkResponse({ description: 'Also of a plugin that was uninstalled.', schema: changesSchema })
  @Problems(400, 404)
  async history(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @PathId('plugin', 'The plugin.') id: string,
    @StrictQuery(fields) query: QueryOf<typeof fields>,
  ): Promise<ChangesPage> {
    const [first] = await this.store.readStream(account, pluginStream(id));
    if (first === undefined) throw noPlugin(id);
    const everything = { ...query, pluginId: null, actor: null, weakening: null };
    return this.page(account, caller, everything, pluginStream(id), ['history', id]);
  }

  @Get('changes')
  @Allow('admin', 'auditor')
  @ApiOperation({
    summary: 'Every change of plugins, settings, secrets, keys and halts, with what weakens enforcement',
  })
  @ApiOkResponse({ description: 'Newest first unless asked otherwise.', schema: changesSchema })
  @Problems(400)
  changes(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(changesFields) query: ChangesQuery,
  ): Promise<ChangesPage> {
    return this.page(account, caller, query, undefined, ['changes']);
  }

  private async page(
    account: string,
    caller: Caller,
    query: ChangesQuery,
    stream: string | undefined,
    route: readonly string[],
  ): Promise<ChangesPage> {
    const { cursor, from, to, pluginId, actor, weakening, order } = query;
    const range = { from: from === null ? null : formatInstant(from), to: to === null ? null : formatInstant(to) };
    const filter = JSON.stringify([account, route, range, pluginId, actor, weakening, order]);
    const size = await this.store.accountSize(account);
    const start = cursor === null ? null : BigInt(String(this.cursors.decode(filter, cursor)[0]));
    const { found, next } = await this.scan(account, query, stream, start);
    return {
      items: await Promise.all(found.map((stored) => this.views.change(account, caller, stored))),
      nextCursor: next === null ? null : this.cursors.encode(filter, [String(next)]),
      completeUpTo: String(size - 1n),
      ...range,
    };
  }

  /** Goes through the account's changes from where the page before ended until this one is full. */
  private async scan(
    account: string,
    query: ChangesQuery,
    stream: string | undefined,
    start: bigint | null,
  ): Promise<{ readonly found: readonly StoredEvent[]; readonly next: bigint | null }> {
    const found: StoredEvent[] = [];
    let last = start;
    for (let scanned = 0; scanned < scanMost; scanned += scanPage) {
      if (query.order === 'newest' && last === 0n) return { found, next: null };
      const events = await this.store.readAccount(account, {
        ...(last === null ? {} : query.order === 'newest' ? { until: last - 1n } : { after: last }),
        ...(stream === undefined ? {} : { stream }),
        limit: scanPage,
        types: accountChangeTypes,
        order: query.order,
      });
      for (const stored of events) {
        if (fits(stored, query)) {
          if (found.length === query.limit) return { found, next: last };
          found.push(stored);
        }
        last = stored.position;
      }
      if (events.length < scanPage) return { found, next: null };
    }
    return { found, next: last };
  }
}

const fits = ({ event }: StoredEvent, { from, to, pluginId, actor, weakening }: ChangesQuery): boolean => {
  if (from !== null && event.recordedAt < formatInstant(from)) return false;
  if (to !== null && event.recordedAt >= formatInstant(to)) return false;
  if (pluginId !== null && event.pluginId !== pluginId) return false;
  if (actor !== null && event.actor?.id !== actor && event.actor?.onBehalfOf !== actor) return false;
  return weakening === null || (event.data.weakensEnforcement === true) === weakening;
};
