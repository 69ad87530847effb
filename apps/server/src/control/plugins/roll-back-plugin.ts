import { Body, Controller, Headers, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandHandler } from '@nestjs/cqrs';
import { ApiHeader, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Allow, Meta, PathId, type CommandMeta } from '#platform';
import { OnePlugin, OnePluginHandler, PluginDesk } from './one-plugin.js';
import type { PluginAnswer } from './plugin-answer.js';
import { PluginCommands } from './plugin-commands.js';
import { RollbackBody } from './plugin-fields.js';
import { pluginSchema, Problems } from './plugin-schemas.js';
import type { PluginView } from './plugin-view.js';

/** Brings code and settings of an earlier revision back, as a new one. */
export class RollBackPlugin extends OnePlugin<RollbackBody> {}

@CommandHandler(RollBackPlugin)
export class RollBackPluginHandler extends OnePluginHandler<RollBackPlugin> {
  constructor(@Inject(PluginCommands) commands: PluginCommands) {
    super(commands);
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
}

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugins')
export class RollBackPluginRoute {
  constructor(@Inject(PluginDesk) private readonly desk: PluginDesk) {}

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
  rollBack(
    @Meta() meta: CommandMeta,
    @PathId('plugin', 'The plugin.') id: string,
    @Body() body: RollbackBody,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<PluginView> {
    return this.desk.send(new RollBackPlugin(meta, id, body, ifMatch), reply);
  }
}
