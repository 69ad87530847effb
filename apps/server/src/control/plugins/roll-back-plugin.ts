import { Body, Controller, Headers, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandHandler } from '@nestjs/cqrs';
import { ApiHeader, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import type { PluginSource } from '#plugins';
import { Allow, Meta, PathId, type CommandMeta } from '#platform';
import { newId } from '../../gateway/new-id.js';
import { OnePlugin, OnePluginHandler, PluginDesk } from './one-plugin.js';
import type { PluginAnswer } from './plugin-answer.js';
import { PluginCommands } from './plugin-commands.js';
import { RollbackBody } from './plugin-fields.js';
import { pluginSchema, Problems } from './plugin-schemas.js';
import type { PluginView } from './plugin-view.js';
import type { InstallScanned } from './install-scan.js';

/** Brings code and settings of an earlier revision back, as a new one. */
export class RollBackPlugin extends OnePlugin<RollbackBody> {
  override readonly invocationId = newId();
}

@CommandHandler(RollBackPlugin)
export class RollBackPluginHandler extends OnePluginHandler<RollBackPlugin> {
  constructor(@Inject(PluginCommands) commands: PluginCommands) {
    super(commands);
  }

  protected override async run(command: RollBackPlugin): Promise<PluginAnswer> {
    const { id, body, ifMatch } = command;
    const scan = await this.scan(command);
    return this.commands.decide(command, id, { status: 200, reason: body.reason, ifMatch, scan }, () => ({
      kind: 'rollback',
      revision: body.revision,
    }));
  }

  /** What a revision was never changes: it is judged and scanned once, whatever else happens meanwhile. */
  private async scan(command: RollBackPlugin): Promise<InstallScanned | null> {
    const { id, body, meta } = command;
    const to = await this.commands.revision(meta.account, id, body.revision);
    if (to === undefined) return null;
    await this.commands.judge(meta.account, id, to.code.sourceDigest, { plugin: '/revision', source: '/revision' });
    const source = (await this.commands.open(meta.account, to.code.source)) as unknown as PluginSource;
    const { version, code } = to;
    return this.commands.scan(command, { id, version, language: code.language, source, mode: 'update' });
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
