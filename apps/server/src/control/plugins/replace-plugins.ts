import { Body, Controller, Headers, Inject, Put, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import {
  ApiExtraModels,
  ApiHeader,
  ApiOkResponse,
  ApiOperation,
  ApiProperty,
  ApiTags,
  getSchemaPath,
} from '@nestjs/swagger';
import { ArrayMaxSize, IsArray } from 'class-validator';
import type { FastifyReply } from 'fastify';
import type { StreamWrite } from '#event-store';
import {
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  Meta,
  Problem,
  queryFlag,
  readDto,
  requireMatch,
  SANDBOX,
  SEALING,
  StrictQuery,
  type Caller,
  type CommandMeta,
  type DoneCommand,
  type QueryOf,
  type Role,
} from '#platform';
import { decide, decideOrder, foldSet, neverInstalled, type Circumstances, type PluginCommand } from '#plugins';
import {
  canonicalJson,
  pluginOrderStream,
  pluginStream,
  type NewEvent,
  type PluginChanged,
  type PluginOrderChanged,
  type PluginSnapshot,
} from '#record';
import type { Sandbox } from '#sandbox';
import type { Envelope, Sealing } from '#sealing';
import { newId } from '../../gateway/new-id.js';
import { replayable } from '../../gateway/replayable.js';
import { ActivePlugins } from './active-plugins.js';
import { candidateOf, causedBy, PluginCommands, sealReason, type PreparedPlugin } from './plugin-commands.js';
import { InstallPluginBody, ReasonBody } from './plugin-fields.js';
import type { InstallScanned } from './install-scan.js';
import { PluginLog, type Change, type PluginStreams } from './plugin-log.js';
import { factsOf } from './plugin-rules.js';
import { differenceSchema, Problems } from './plugin-schemas.js';
import { PluginViews, type PluginView } from './plugin-view.js';
import { setEtag } from './read-plugins.js';
import { faultyPlugin, problemOfRefusal } from './refusals.js';

/** Most plugins of a set. */
const setMost = 500;

@ApiExtraModels(InstallPluginBody)
class PluginSetBody extends ReasonBody {
  @ApiProperty({
    type: 'array',
    items: { $ref: getSchemaPath(InstallPluginBody) },
    description: 'Every plugin that shall be installed, each as `POST …/plugins` takes it, the first to run first.',
  })
  @IsArray()
  @ArrayMaxSize(setMost)
  plugins!: readonly unknown[];
}

/** What becomes of one plugin of the set. */
interface PluginDifference {
  readonly id: string;
  readonly before: PluginSnapshot | null;
  readonly after: PluginSnapshot | null;
  readonly changed: readonly string[];
  readonly weakensEnforcement: boolean;
}

/** What a whole set changes, or would change. */
export interface SetDifference {
  readonly plugins: readonly PluginDifference[];
  readonly unchanged: readonly string[];
  readonly order: { readonly before: readonly string[]; readonly after: readonly string[] } | null;
  readonly weakensEnforcement: boolean;
  /** What `before_install` said of the code that came in, plugin by plugin, where plugins of the account were asked. */
  readonly beforeInstall: readonly InstallScanned[];
}

/** Makes the account's plugins exactly those of a set, in one commit. */
export class ReplacePlugins extends AccountCommand<SetDifference> {
  override readonly allows: readonly Role[] = ['admin'];
  override readonly invocationId = newId();

  constructor(
    meta: CommandMeta,
    readonly bodies: readonly InstallPluginBody[],
    readonly reason: string | null,
    readonly ifMatch: string | undefined,
    readonly intent: 'write' | 'compare',
  ) {
    super(meta);
  }
}

@CommandHandler(ReplacePlugins)
export class ReplacePluginsHandler extends AccountCommandHandler<ReplacePlugins, SetDifference> {
  constructor(
    @Inject(PluginCommands) private readonly commands: PluginCommands,
    @Inject(PluginLog) private readonly log: PluginLog,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(SANDBOX) private readonly sandbox: Sandbox,
  ) {
    super();
  }

  protected override async run(command: ReplacePlugins): Promise<SetDifference> {
    const { account } = command.meta;
    const prepared: PreparedPlugin[] = [];
    for (const [index, body] of command.bodies.entries()) {
      prepared.push(await atPlugin(index, () => this.commands.prepare(account, body)));
    }
    if (command.intent === 'compare') return (await this.change(command, prepared, [])).answer;
    const scans = await this.scan(command, prepared);
    const difference = await this.log.commit(command, () => this.change(command, prepared, scans));
    for (const { id, after } of difference.plugins) if (after === null) this.sandbox.forget(account, id);
    return difference;
  }

  protected override async replay({ meta, bodies }: ReplacePlugins, done: DoneCommand): Promise<SetDifference> {
    const events = await this.log.between(meta.account, done.first, done.last);
    const difference = differenceOf(
      events.map(({ event }) => event),
      bodies.map(({ id }) => id),
    );
    return { ...difference, beforeInstall: await this.earlierScans(meta.account, done) };
  }

  private async earlierScans(account: string, { result }: DoneCommand): Promise<readonly InstallScanned[]> {
    const { scans } = result.note ?? {};
    if (typeof scans !== 'string') return [];
    const found: InstallScanned[] = [];
    for (const id of scans.split(' ')) found.push(await this.commands.earlierScan(account, id));
    return found;
  }

  /** Code that is not there yet is scanned, by the plugins that are in force before the set is. */
  private async scan(command: ReplacePlugins, prepared: readonly PreparedPlugin[]): Promise<readonly InstallScanned[]> {
    const { histories } = await this.log.streams(command.meta.account);
    const scans: InstallScanned[] = [];
    for (const [index, plugin] of prepared.entries()) {
      const current = histories.get(plugin.body.id)?.current ?? null;
      if (current?.code.sourceDigest === plugin.loaded.sourceDigest) continue;
      const candidate = candidateOf(plugin, current === null ? 'install' : 'update');
      // The command's own id is that of its first scan.
      const id = scans.length === 0 ? command.invocationId : newId();
      const scan = await atPlugin(index, () => this.commands.scan(command, candidate, id));
      if (scan !== null) scans.push(scan);
    }
    return scans;
  }

  private async change(
    command: ReplacePlugins,
    prepared: readonly PreparedPlugin[],
    scans: readonly InstallScanned[],
  ): Promise<Change<SetDifference>> {
    const { meta, bodies, ifMatch } = command;
    const streams = await this.log.streams(meta.account);
    requireMatch(ifMatch, setEtag(streams.set));
    const envelope = await this.sealing.envelope(meta.account, { kind: 'account' });
    const circumstances: Circumstances = {
      actor: actorOf(meta.caller),
      reason: sealReason(command.reason, envelope),
      factsOf,
    };
    const writes: StreamWrite[] = [];
    const events: NewEvent[] = [];
    const put = (stream: string, decided: readonly NewEvent[]): void => {
      if (decided.length === 0) return;
      writes.push({ stream, expectedVersion: streams.versions.get(stream) ?? 0, events: decided });
      events.push(...decided);
    };
    const wanted = bodies.map(({ id }) => id);
    for (const id of streams.set.order.filter((installed) => !wanted.includes(installed))) {
      put(pluginStream(id), decided({ kind: 'uninstall' }, id, streams, circumstances));
    }
    for (const [index, plugin] of prepared.entries()) {
      const { id } = plugin.body;
      const command = await this.becoming(meta.account, plugin, streams, envelope);
      const changes = await atPlugin(index, () => decided(command, id, streams, circumstances));
      const scan = scans.find(({ pluginId }) => pluginId === id);
      put(pluginStream(id), scan === undefined ? changes : causedBy(scan, changes));
    }
    const order = decideOrder(wanted, foldSet(events, streams.set), circumstances);
    if (order.kind === 'refused') throw problemOfRefusal(order, '');
    put(pluginOrderStream, order.events);
    return {
      writes,
      blobs: writes.length === 0 ? [] : envelope.blobs(),
      kept: { stream: pluginOrderStream, status: 200, note: notedScans(scans) },
      answer: { ...differenceOf(events, wanted), beforeInstall: scans },
    };
  }

  private async becoming(
    account: string,
    prepared: PreparedPlugin,
    { histories }: PluginStreams,
    envelope: Envelope,
  ): Promise<PluginCommand> {
    const current = histories.get(prepared.body.id)?.current ?? null;
    const before = current?.configSchema ?? null;
    const schema = before === null ? null : await this.commands.open(account, before);
    return {
      kind: 'become',
      plugin: this.commands.seal(prepared, envelope),
      sameSchema: canonicalJson(schema) === canonicalJson(prepared.body.configSchema ?? null),
    };
  }
}

/** The scans, for an answer that is rebuilt. */
const notedScans = (scans: readonly InstallScanned[]): { readonly scans?: string } =>
  scans.length === 0 ? {} : { scans: scans.map(({ invocationId }) => invocationId).join(' ') };

const decided = (
  command: PluginCommand,
  id: string,
  { histories }: PluginStreams,
  circumstances: Circumstances,
): readonly NewEvent[] => {
  const decision = decide(command, histories.get(id) ?? neverInstalled, circumstances);
  if (decision.kind === 'refused') throw problemOfRefusal(decision, id);
  return decision.events;
};

/** Says in the pointers of a fault which plugin of the set it is about. */
const atPlugin = async <T>(index: number, work: () => T | Promise<T>): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const at = `/plugins/${String(index)}`;
    const faults = error.errors.map((fault) => ({ ...fault, pointer: `${at}${fault.pointer}` }));
    throw new Problem(
      error.status,
      error.code,
      error.detail,
      faults.length === 0 ? [{ pointer: at, reason: error.detail }] : faults,
      error.headers,
      error.members,
    );
  }
};

/** What the events of a set say, plugin by plugin. */
const differenceOf = (
  events: readonly Pick<NewEvent, 'type' | 'data'>[],
  wanted: readonly string[],
): Omit<SetDifference, 'beforeInstall'> => {
  const plugins = new Map<string, PluginDifference>();
  let order: SetDifference['order'] = null;
  let weakened = false;
  for (const { type, data } of events) {
    if (type === 'plugin.order_changed') {
      const { before, after, weakensEnforcement } = data as unknown as PluginOrderChanged;
      order = { before, after };
      weakened ||= weakensEnforcement;
      continue;
    }
    const change = data as unknown as PluginChanged;
    const id = (change.after ?? change.before)?.id ?? '';
    const known = plugins.get(id);
    plugins.set(id, {
      id,
      before: known === undefined ? change.before : known.before,
      after: change.after,
      changed: [...(known?.changed ?? []), ...change.changed],
      weakensEnforcement: (known?.weakensEnforcement ?? false) || change.weakensEnforcement,
    });
    weakened ||= change.weakensEnforcement;
  }
  return {
    plugins: [...plugins.values()],
    unchanged: wanted.filter((id) => !plugins.has(id)),
    order,
    weakensEnforcement: weakened,
  };
};

const fields = {
  dryRun: queryFlag('Compares only: the answer says what would change, and nothing is written.'),
} as const;

interface DifferenceView {
  readonly dryRun: boolean;
  readonly installed: readonly ChangedView[];
  readonly changed: readonly ChangedView[];
  readonly uninstalled: readonly ChangedView[];
  readonly unchanged: readonly string[];
  readonly order: SetDifference['order'];
  readonly weakensEnforcement: boolean;
  readonly beforeInstall: readonly InstallScanned[];
}

interface ChangedView {
  readonly id: string;
  readonly changed: readonly string[];
  readonly weakensEnforcement: boolean;
  readonly before: PluginView | null;
  readonly after: PluginView | null;
}

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugins')
export class ReplacePluginsRoute {
  constructor(
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(PluginViews) private readonly views: PluginViews,
    @Inject(ActivePlugins) private readonly active: ActivePlugins,
  ) {}

  @Put()
  @Allow('admin')
  @ApiOperation({ summary: 'Make the plugins exactly these, in one commit; or say what would change' })
  @ApiHeader({ name: 'If-Match', required: false, description: 'The ETag of the list that was read, or `*`.' })
  @ApiOkResponse({
    description: 'The difference; without `dryRun` in force from the next invocation.',
    schema: differenceSchema,
  })
  @Problems(412, 422)
  async replace(
    @Meta() meta: CommandMeta,
    @Body() body: PluginSetBody,
    @StrictQuery(fields) query: QueryOf<typeof fields>,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<DifferenceView> {
    const intent = query.dryRun ? 'compare' : 'write';
    // A key belongs to what is written: comparing uses none up.
    const own = query.dryRun ? { ...meta, idempotency: null } : meta;
    const command = new ReplacePlugins(own, await readBodies(body), body.reason ?? null, ifMatch, intent);
    const difference = await replayable(this.bus, command, reply);
    const { set } = await this.active.current(meta.account);
    reply.header('etag', setEtag(set));
    return this.view(meta.account, meta.caller, difference, query.dryRun);
  }

  private async view(
    account: string,
    caller: Caller,
    { plugins, ...rest }: SetDifference,
    dryRun: boolean,
  ): Promise<DifferenceView> {
    const shown = await Promise.all(
      plugins.map(async ({ before, after, ...difference }) => ({
        ...difference,
        before: before === null ? null : await this.views.plugin(account, caller, before),
        after: after === null ? null : await this.views.plugin(account, caller, after),
      })),
    );
    return {
      dryRun,
      installed: shown.filter(({ before }) => before === null),
      changed: shown.filter(({ before, after }) => before !== null && after !== null),
      uninstalled: shown.filter(({ after }) => after === null),
      ...rest,
    };
  }
}

const readBodies = async ({ plugins }: PluginSetBody): Promise<readonly InstallPluginBody[]> => {
  const bodies: InstallPluginBody[] = [];
  for (const [index, item] of plugins.entries()) {
    bodies.push(await atPlugin(index, () => readDto(InstallPluginBody, item)));
  }
  const twice = bodies.findIndex(({ id }, index) => bodies.findIndex((other) => other.id === id) < index);
  if (twice < 0) return bodies;
  throw faultyPlugin([{ pointer: `/plugins/${String(twice)}/id`, reason: 'names a plugin a second time' }]);
};
