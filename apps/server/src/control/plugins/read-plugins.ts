import { createHash } from 'node:crypto';
import { Controller, Get, Inject, Res, UseInterceptors } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import {
  Account,
  Allow,
  CurrentCaller,
  Cursors,
  etagOf,
  pagingFields,
  PathId,
  Problem,
  queryMaybeInt,
  queryText,
  queryWord,
  SEALING,
  show,
  StrictQuery,
  type Caller,
  type QueryOf,
  type Shown,
} from '#platform';
import { inOrder, type PluginSet } from '#plugins';
import type { PluginSnapshot } from '#record';
import type { Sealing } from '#sealing';
import { RecordReads } from '../audit/record-reads.js';
import { ActivePlugins } from './active-plugins.js';
import { tagReply } from './plugin-answer.js';
import { PluginCondition, type ConditionView } from './plugin-condition.js';
import { PluginLog } from './plugin-log.js';
import { installedPageSchema, installedSchema, Problems, sourceSchema } from './plugin-schemas.js';
import { PluginViews, type PluginView } from './plugin-view.js';
import { noPlugin } from './refusals.js';

/** A plugin with its place in the account's order and how it does. */
export interface InstalledView extends PluginView {
  /** Place among the account's plugins, from 0. */
  readonly place: number;
  readonly health: ConditionView;
}

const listFields = {
  ...pagingFields,
  dialect: queryWord('Plugins of this dialect only.', ['middleware', 'openclaw', 'kohaku'], null),
  hook: queryText('Plugins with a handler for this hook only.', 200),
  enabled: queryWord('Enabled or disabled plugins only.', ['true', 'false'], null),
} as const;

const sourceFields = {
  revision: queryMaybeInt('Revision whose source is wanted; omitted: the one in force.', { least: 1, most: 1e9 }),
} as const;

interface ListPage {
  readonly items: readonly InstalledView[];
  readonly nextCursor: string | null;
  readonly completeUpTo: string | null;
  readonly from: null;
  readonly to: null;
}

/** A revision's code as it was sent and as it runs. */
interface SourceView {
  readonly id: string;
  readonly version: string;
  readonly revision: number;
  readonly language: PluginSnapshot['code']['language'];
  readonly source: Shown;
  readonly files?: Shown;
  readonly entry?: Shown;
  readonly sourceDigest: string;
  readonly compiled: Shown;
  readonly compiledDigest: string;
  readonly compiler: string | null;
}

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugins')
export class ReadPluginsRoute {
  constructor(
    @Inject(PluginLog) private readonly log: PluginLog,
    @Inject(ActivePlugins) private readonly active: ActivePlugins,
    @Inject(PluginViews) private readonly views: PluginViews,
    @Inject(PluginCondition) private readonly condition: PluginCondition,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(Cursors) private readonly cursors: Cursors,
  ) {}

  @Get()
  @Allow('admin', 'auditor')
  @ApiOperation({ summary: 'Installed plugins in their order, with their health' })
  @ApiOkResponse({ description: 'The ETag names the whole set.', schema: installedPageSchema })
  @Problems(400)
  async list(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(listFields) query: QueryOf<typeof listFields>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<ListPage> {
    const { set, position } = await this.active.current(account);
    const filter = JSON.stringify(['plugins', account, query.dialect, query.hook, query.enabled]);
    const all = inOrder(set);
    const start = query.cursor === null ? 0 : startAfter(all, this.cursors.decode(filter, query.cursor));
    const fitting = all.flatMap((plugin, place) => (place >= start && fits(plugin, query) ? [{ plugin, place }] : []));
    const page = fitting.slice(0, query.limit);
    const last = page.at(-1);
    reply.header('etag', setEtag(set));
    return {
      items: await Promise.all(page.map(({ plugin, place }) => this.view(account, caller, plugin, place))),
      nextCursor:
        last === undefined || fitting.length <= query.limit
          ? null
          : this.cursors.encode(filter, [last.plugin.id, last.place]),
      completeUpTo: position < 0n ? null : String(position),
      from: null,
      to: null,
    };
  }

  @Get(':plugin')
  @Allow('admin', 'auditor')
  @ApiOperation({ summary: 'An installed plugin with its health' })
  @ApiOkResponse({ description: 'The state in force.', schema: installedSchema })
  @Problems(404)
  async read(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @PathId('plugin', 'The plugin.') id: string,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<InstalledView> {
    const { set } = await this.active.current(account);
    const plugin = set.plugins.get(id);
    if (plugin === undefined) throw noPlugin(id);
    tagReply(reply, plugin);
    return this.view(account, caller, plugin, set.order.indexOf(id));
  }

  @Get(':plugin/source')
  @UseInterceptors(RecordReads)
  @Allow('admin', 'auditor')
  @ApiOperation({ summary: 'The code of a revision, as it was sent and as it runs' })
  @ApiOkResponse({ description: 'Content; also of a plugin that was uninstalled.', schema: sourceSchema })
  @Problems(400, 404)
  async source(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @PathId('plugin', 'The plugin.') id: string,
    @StrictQuery(sourceFields) query: QueryOf<typeof sourceFields>,
  ): Promise<SourceView> {
    const { history } = await this.log.plugin(account, id);
    if (history.lastRevision === 0) throw noPlugin(id);
    const plugin = query.revision === null ? latest(history) : history.revisions.get(query.revision);
    if (plugin === undefined) throw new Problem(404, 'unknown_revision', 'This plugin never had that revision.');
    const { code } = plugin;
    const [source, compiled] = await Promise.all([
      show(this.sealing, caller, account, code.source),
      show(this.sealing, caller, account, code.compiled),
    ]);
    return {
      id,
      version: plugin.version,
      revision: plugin.revision,
      language: code.language,
      ...parts(source),
      sourceDigest: code.sourceDigest,
      compiled,
      compiledDigest: code.compiledDigest,
      compiler: code.compiler,
    };
  }

  private async view(account: string, caller: Caller, plugin: PluginSnapshot, place: number): Promise<InstalledView> {
    const [view, health] = await Promise.all([
      this.views.plugin(account, caller, plugin),
      this.condition.of(account, plugin),
    ]);
    return { ...view, place, health };
  }
}

/** The whole set with its order: what `PUT …/plugins` replaces. */
export const setEtag = (set: PluginSet): string => {
  const hash = createHash('sha256');
  for (const { id, revision } of inOrder(set)) hash.update(JSON.stringify([id, revision]));
  return etagOf(hash.digest('base64url').slice(0, 22));
};

/** After the plugin that ended the page before, wherever it stands now; where it is gone, after its place. */
const startAfter = (all: readonly PluginSnapshot[], [id, place]: readonly unknown[]): number => {
  const now = all.findIndex((plugin) => plugin.id === id);
  return now < 0 ? Number(place) : now + 1;
};

const fits = (
  plugin: PluginSnapshot,
  { dialect, hook, enabled }: Pick<QueryOf<typeof listFields>, 'dialect' | 'hook' | 'enabled'>,
): boolean =>
  (dialect === null || plugin.dialect === dialect) &&
  (hook === null || plugin.findings.hooks.includes(hook)) &&
  (enabled === null || plugin.enabled === (enabled === 'true'));

const latest = ({
  current,
  lastRevision,
  revisions,
}: {
  readonly current: PluginSnapshot | null;
  readonly lastRevision: number;
  readonly revisions: ReadonlyMap<number, PluginSnapshot>;
}): PluginSnapshot | undefined => current ?? revisions.get(lastRevision);

/** An opened source is one text or several files; anything else stays as it shows. */
const parts = (shown: Shown): Pick<SourceView, 'source' | 'files' | 'entry'> => {
  if (typeof shown !== 'object' || shown === null || Array.isArray(shown)) return { source: shown };
  const { source, files, entry } = shown as { readonly source?: Shown; readonly files?: Shown; readonly entry?: Shown };
  if (source !== undefined) return { source };
  return files === undefined ? { source: shown } : { source: null, files, entry: entry ?? null };
};
