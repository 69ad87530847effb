import { Controller, Get, Inject, UseInterceptors } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { dialectOf } from '#dialects';
import {
  Account,
  Allow,
  CurrentCaller,
  formatInstant,
  Problem,
  queryPointer,
  queryText,
  readInstant,
  StrictQuery,
  type Caller,
  type QueryOf,
} from '#platform';
import { chainFor, foldSet, ownTimeout, pluginChangeTypes, timeoutOf } from '#plugins';
import type { StoredEvent } from '#event-store';
import { AccountRules } from '../accounts/account-rules.js';
import { RecordReads } from '../audit/record-reads.js';
import { PluginLog } from './plugin-log.js';
import { chainSchema, Problems } from './plugin-schemas.js';
import { PluginViews, type PluginView } from './plugin-view.js';

const fields = {
  dialect: queryText('The family of hosts.', 40),
  hook: queryText('The hook.', 200),
  asOf: queryText('A position, or an RFC 3339 time; omitted: now.', 60),
} as const;

interface ChainView {
  readonly dialect: string;
  readonly hook: string;
  /** What `asOf` meant: a position or a time; null = now. */
  readonly asOf: string | null;
  /** Last change that counts, a position; null when there was none. */
  readonly position: string | null;
  readonly plugins: readonly (PluginView & {
    readonly place: number;
    /** The handler's time limit; of the past only where the plugin itself named one. */
    readonly timeoutMs: number | null;
  })[];
  readonly withoutHook: number;
}

type AsOf =
  | { readonly kind: 'now' }
  | { readonly kind: 'position'; readonly position: bigint }
  | { readonly kind: 'time'; readonly time: string };

@ApiTags('plugins')
@Controller('v1/accounts/:account/chain')
@UseInterceptors(RecordReads)
export class ChainInForceRoute {
  constructor(
    @Inject(PluginLog) private readonly log: PluginLog,
    @Inject(PluginViews) private readonly views: PluginViews,
    @Inject(AccountRules) private readonly rules: AccountRules,
  ) {}

  @Get()
  @Allow('admin', 'auditor')
  @ApiOperation({ summary: 'The exact chain of a hook in force now, at a time, or at a position' })
  @ApiOkResponse({ description: 'In the order it runs, each plugin as it was then.', schema: chainSchema })
  @Problems(400, 404)
  async read(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(fields) query: QueryOf<typeof fields>,
  ): Promise<ChainView> {
    const { dialect, hook } = knownHook(query.dialect, query.hook);
    const asOf = readAsOf(query.asOf);
    const events = await this.eventsUntil(account, asOf);
    const { places, withoutHook } = chainFor(foldSet(events.map(({ event }) => event)), dialect.name, hook);
    const plugins = await Promise.all(
      places.map(async ({ plugin }, place) => ({
        place,
        timeoutMs:
          asOf.kind === 'now'
            ? timeoutOf(plugin.timeouts, hook, dialect, this.rules.timeoutMs(account, dialect.name))
            : ownTimeout(plugin.timeouts, hook),
        ...(await this.views.plugin(account, caller, plugin)),
      })),
    );
    const last = events.at(-1)?.position;
    return {
      dialect: dialect.name,
      hook,
      asOf: asOfText(asOf),
      position: last === undefined ? null : String(last),
      plugins,
      withoutHook,
    };
  }

  private async eventsUntil(account: string, asOf: AsOf): Promise<readonly StoredEvent[]> {
    const until = asOf.kind === 'position' ? asOf.position : undefined;
    const events = await this.log.changes(account, pluginChangeTypes, until);
    return asOf.kind === 'time' ? events.filter(({ event }) => event.recordedAt <= asOf.time) : events;
  }
}

const knownHook = (dialectName: string | null, hook: string | null) => {
  const missing = [...(dialectName === null ? ['dialect'] : []), ...(hook === null ? ['hook'] : [])].map((name) => ({
    pointer: queryPointer(name),
    reason: 'is missing',
  }));
  if (dialectName === null || hook === null) {
    throw new Problem(400, 'bad_query', 'Name the dialect and the hook.', missing);
  }
  const dialect = dialectOf(dialectName);
  if (dialect === undefined) throw new Problem(404, 'unknown_dialect', 'There is no such dialect.');
  if (!dialect.entries.has(hook)) {
    throw new Problem(404, 'unknown_hook', `The dialect ${dialectName} has no such hook.`);
  }
  return { dialect, hook };
};

const readAsOf = (text: string | null): AsOf => {
  if (text === null) return { kind: 'now' };
  if (/^\d{1,18}$/.test(text)) return { kind: 'position', position: BigInt(text) };
  const instant = readInstant(text);
  if ('time' in instant) return { kind: 'time', time: formatInstant(instant.time) };
  throw new Problem(400, 'bad_query', 'The query parameters do not fit.', [
    { pointer: queryPointer('asOf'), reason: `must be a position, or ${instant.reason.replace(/^must be /, '')}` },
  ]);
};

const asOfText = (asOf: AsOf): string | null => {
  if (asOf.kind === 'now') return null;
  return asOf.kind === 'time' ? asOf.time : String(asOf.position);
};
