import { createHash } from 'node:crypto';
import { Body, Controller, Get, Headers, Inject, Put, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiHeader, ApiOkResponse, ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import { ArrayMaxSize, IsArray } from 'class-validator';
import type { FastifyReply } from 'fastify';
import {
  Account,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  etagOf,
  IsWireId,
  Meta,
  requireMatch,
  SEALING,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import { decideOrder } from '#plugins';
import { pluginOrderStream } from '#record';
import type { Sealing } from '#sealing';
import { replayable } from '../../gateway/replayable.js';
import { ActivePlugins } from './active-plugins.js';
import { sealReason } from './plugin-commands.js';
import { ReasonBody } from './plugin-fields.js';
import { PluginLog, type Change } from './plugin-log.js';
import { factsOf } from './plugin-rules.js';
import { orderSchema, Problems } from './plugin-schemas.js';
import { problemOfRefusal } from './refusals.js';

/** The order in which an account's plugins stand; each dialect takes its own out of it. */
export interface PluginOrderAnswer {
  readonly pluginIds: readonly string[];
}

class PluginOrderBody extends ReasonBody {
  @ApiProperty({ type: String, isArray: true, description: 'Every installed plugin once, the first to run first.' })
  @IsArray()
  @ArrayMaxSize(10_000)
  @IsWireId({ each: true })
  pluginIds!: readonly string[];
}

/** Puts the account's plugins in an order. */
export class ReorderPlugins extends AccountCommand<PluginOrderAnswer> {
  override readonly allows: readonly Role[] = ['admin'];

  constructor(
    meta: CommandMeta,
    readonly body: PluginOrderBody,
    readonly ifMatch: string | undefined,
  ) {
    super(meta);
  }
}

@CommandHandler(ReorderPlugins)
export class ReorderPluginsHandler extends AccountCommandHandler<ReorderPlugins, PluginOrderAnswer> {
  constructor(
    @Inject(PluginLog) private readonly log: PluginLog,
    @Inject(SEALING) private readonly sealing: Sealing,
  ) {
    super();
  }

  protected override run(command: ReorderPlugins): Promise<PluginOrderAnswer> {
    const { account, caller } = command.meta;
    return this.log.commit(command, async (): Promise<Change<PluginOrderAnswer>> => {
      const { set, versions } = await this.log.streams(account);
      requireMatch(command.ifMatch, orderEtag(set.order));
      const envelope = await this.sealing.envelope(account, { kind: 'account' });
      const reason = sealReason(command.body.reason, envelope);
      const decision = decideOrder(command.body.pluginIds, set, { actor: actorOf(caller), reason, factsOf });
      if (decision.kind === 'refused') throw problemOfRefusal(decision, '');
      const { events } = decision;
      const expectedVersion = versions.get(pluginOrderStream) ?? 0;
      return {
        writes: events.length === 0 ? [] : [{ stream: pluginOrderStream, expectedVersion, events }],
        blobs: events.length === 0 ? [] : envelope.blobs(),
        kept: { stream: pluginOrderStream, status: 200, note: {} },
        answer: { pluginIds: decision.after },
      };
    });
  }

  protected override replay(command: ReorderPlugins, _done: DoneCommand): Promise<PluginOrderAnswer> {
    // The key is bound to the body, and the order that was accepted is the one that the body names.
    return Promise.resolve({ pluginIds: command.body.pluginIds });
  }
}

/** Names an order by what it is, so that an install or uninstall beside it changes the tag too. */
export const orderEtag = (order: readonly string[]): string =>
  etagOf(createHash('sha256').update(JSON.stringify(order)).digest('base64url').slice(0, 22));

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugin-order')
export class PluginOrderRoute {
  constructor(
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(ActivePlugins) private readonly active: ActivePlugins,
  ) {}

  @Get()
  @Allow('admin', 'auditor')
  @ApiOperation({ summary: 'The order of the installed plugins' })
  @ApiOkResponse({ description: 'First runs first.', schema: orderSchema })
  async read(@Account() account: string, @Res({ passthrough: true }) reply: FastifyReply): Promise<PluginOrderAnswer> {
    const { set } = await this.active.current(account);
    reply.header('etag', orderEtag(set.order));
    return { pluginIds: set.order };
  }

  @Put()
  @Allow('admin')
  @Problems(412, 422)
  @ApiOperation({ summary: 'Put the installed plugins in an order' })
  @ApiHeader({ name: 'If-Match', required: false, description: 'The ETag of the order that was read, or `*`.' })
  @ApiOkResponse({ description: 'In force from the next invocation.', schema: orderSchema })
  async reorder(
    @Meta() meta: CommandMeta,
    @Body() body: PluginOrderBody,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<PluginOrderAnswer> {
    const answer = await replayable(this.bus, new ReorderPlugins(meta, body, ifMatch), reply);
    reply.header('etag', orderEtag(answer.pluginIds));
    return answer;
  }
}
