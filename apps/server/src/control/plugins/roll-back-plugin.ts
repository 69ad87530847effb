import { Body, Controller, Headers, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiHeader, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import {
  AccountCommand,
  AccountCommandHandler,
  Allow,
  Meta,
  PathId,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import { replayable } from '../../gateway/replayable.js';
import { tagReply, type PluginAnswer } from './plugin-answer.js';
import { PluginCommands } from './plugin-commands.js';
import { RollbackBody } from './plugin-fields.js';
import { pluginSchema, Problems } from './plugin-schemas.js';
import { PluginViews, type PluginView } from './plugin-view.js';

/** Brings code and settings of an earlier revision back, as a new one. */
export class RollBackPlugin extends AccountCommand<PluginAnswer> {
  override readonly allows: readonly Role[] = ['admin'];

  constructor(
    meta: CommandMeta,
    readonly id: string,
    readonly body: RollbackBody,
    readonly ifMatch: string | undefined,
  ) {
    super(meta);
  }
}

@CommandHandler(RollBackPlugin)
export class RollBackPluginHandler extends AccountCommandHandler<RollBackPlugin, PluginAnswer> {
  constructor(@Inject(PluginCommands) private readonly commands: PluginCommands) {
    super();
  }

  protected override run(command: RollBackPlugin): Promise<PluginAnswer> {
    const { id, body, ifMatch } = command;
    return this.commands.decide(command, id, { status: 200, reason: body.reason, ifMatch }, async ({ revisions }) => {
      const to = revisions.get(body.revision);
      const at = { plugin: '/revision', source: '/revision' };
      if (to !== undefined) await this.commands.judge(command.meta.account, id, to.code.sourceDigest, at);
      return { kind: 'rollback', revision: body.revision };
    });
  }

  protected override replay(command: RollBackPlugin, done: DoneCommand): Promise<PluginAnswer> {
    return this.commands.replay(command.meta.account, done);
  }
}

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugins')
export class RollBackPluginRoute {
  constructor(
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(PluginViews) private readonly views: PluginViews,
  ) {}

  @Post(':plugin/rollback')
  @HttpCode(200)
  @Allow('admin')
  @Problems(404, 412, 422)
  @ApiOperation({ summary: 'Bring code and settings of an earlier revision back' })
  @ApiHeader({ name: 'If-Match', required: false, description: 'The ETag that was read, or `*`.' })
  @ApiOkResponse({
    description: 'The new revision. Whether the plugin is enabled stays as it is.',
    schema: pluginSchema,
  })
  async rollBack(
    @Meta() meta: CommandMeta,
    @PathId('plugin', 'The plugin.') id: string,
    @Body() body: RollbackBody,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<PluginView> {
    const { plugin } = await replayable(this.bus, new RollBackPlugin(meta, id, body, ifMatch), reply);
    tagReply(reply, plugin);
    return this.views.plugin(meta.account, meta.caller, plugin);
  }
}
