import { Controller, Get, Inject, UseInterceptors } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { dialectOf, type Arranged, type Dialect } from '#dialects';
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
import { chainFor, foldSet, pluginChangeTypes, timeoutOf, type ChainPlace } from '#plugins';
import type { StoredEvent } from '#event-store';
import type { EventType, PluginSnapshot } from '#record';
import { isInForce } from '../accounts/account-rules.js';
import { evolveAccount, newAccount, type AccountFacts } from '../accounts/directory-state.js';
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
  /** Last change that counts, of plugins, settings or halts: a position; null when there was none. */
  readonly position: string | null;
  /** The halt that stops the whole chain; null: it runs. */
  readonly halt: HaltInForce | null;
  readonly plugins: readonly (PluginView & {
    readonly place: number;
    /** The handler's time limit: the plugin's own, else the account's, else the dialect's. */
    readonly timeoutMs: number;
    /** OpenClaw: the registration that runs here, and its priority; null for a policy. */
    readonly handler?: string;
    readonly handlerPriority?: number | null;
  })[];
  readonly withoutHook: number;
}

interface HaltInForce {
  readonly failureMode: 'open' | 'closed';
  readonly since: string;
  readonly until: string | null;
}

/** What an account's own events say of how its chains run. */
const ruleTypes: readonly EventType[] = ['settings.changed', 'account.halted', 'account.resumed'];

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
    const rules = events.reduce((facts, { event }) => evolveAccount(facts, event), newAccount(account, '', ''));
    const ofAccount = rules.settings.timeouts[dialect.name] ?? null;
    const { places, withoutHook } = chainFor(foldSet(events.map(({ event }) => event)), dialect.name, hook);
    const plugins = await Promise.all(
      handlersOf(dialect, hook, places, rules.settings).map(async ({ plugin, arranged }, place) => ({
        place,
        timeoutMs:
          arranged?.hasNoLimit === true
            ? dialect.timeoutBounds.max
            : timeoutOf(plugin.timeouts, hook, dialect, ofAccount, arranged?.timeoutMs ?? null),
        ...(arranged === null ? {} : { handler: arranged.handler, handlerPriority: arranged.priority }),
        ...(await this.views.plugin(account, caller, plugin)),
      })),
    );
    const last = events.at(-1)?.position;
    return {
      dialect: dialect.name,
      hook,
      asOf: asOfText(asOf),
      position: last === undefined ? null : String(last),
      halt: haltAt(rules, await this.instantOf(account, asOf)),
      plugins,
      withoutHook,
    };
  }

  private async eventsUntil(account: string, asOf: AsOf): Promise<readonly StoredEvent[]> {
    const until = asOf.kind === 'position' ? asOf.position : undefined;
    const events = await this.log.changes(account, [...pluginChangeTypes, ...ruleTypes], until);
    return asOf.kind === 'time' ? events.filter(({ event }) => event.recordedAt <= asOf.time) : events;
  }

  /** The instant that is asked about: a position's is the one at which its event was recorded. */
  private async instantOf(account: string, asOf: AsOf): Promise<Date> {
    if (asOf.kind === 'time') return new Date(asOf.time);
    const [at] = asOf.kind === 'now' ? [] : await this.log.between(account, asOf.position, asOf.position);
    return at === undefined ? new Date() : new Date(at.event.recordedAt);
  }
}

/** Every handler of the chain: one per plugin, or one per registration where a plugin may have several. */
const handlersOf = (
  base: Dialect,
  hook: string,
  places: readonly ChainPlace[],
  { profiles, openclawHookGates }: AccountFacts['settings'],
): readonly { readonly plugin: PluginSnapshot; readonly arranged: Arranged | null }[] => {
  const dialect = base.profiles?.get(profiles.openclaw) ?? base;
  if (dialect.arrange === undefined) return places.map(({ plugin }) => ({ plugin, arranged: null }));
  const plugins = places.map(({ plugin: { id, findings } }) => ({
    id,
    registrations: findings.registrations,
    gates: Object.hasOwn(openclawHookGates, id) ? (openclawHookGates[id] ?? {}) : {},
  }));
  return dialect.arrange({ hook, plugins, input: null }).flatMap((arranged) => {
    const plugin = places[arranged.plugin]?.plugin;
    return plugin === undefined ? [] : [{ plugin, arranged }];
  });
};

const haltAt = ({ halt }: AccountFacts, instant: Date): HaltInForce | null => {
  if (halt === null || !isInForce(halt, instant)) return null;
  const { failureMode, since, until } = halt;
  return { failureMode, since, until };
};

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
