import { Body, Controller, Inject, Post, Res } from '@nestjs/common';
import { CommandHandler } from '@nestjs/cqrs';
import { ApiCreatedResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { AccountCommand, Allow, Meta, type CommandMeta, type Role } from '#platform';
import { newId } from '../../gateway/new-id.js';
import { OnePluginHandler, PluginDesk } from './one-plugin.js';
import { pluginPath, type PluginAnswer } from './plugin-answer.js';
import { candidateOf, PluginCommands } from './plugin-commands.js';
import { InstallPluginBody } from './plugin-fields.js';
import { pluginSchema, Problems } from './plugin-schemas.js';
import type { PluginView } from './plugin-view.js';

/** Installs a plugin: compiled, loaded once, then stored with what it registers and asks for. */
export class InstallPlugin extends AccountCommand<PluginAnswer> {
  override readonly allows: readonly Role[] = ['admin'];
  override readonly invocationId = newId();

  constructor(
    meta: CommandMeta,
    readonly body: InstallPluginBody,
  ) {
    super(meta);
  }
}

@CommandHandler(InstallPlugin)
export class InstallPluginHandler extends OnePluginHandler<InstallPlugin> {
  constructor(@Inject(PluginCommands) commands: PluginCommands) {
    super(commands);
  }

  protected override async run(command: InstallPlugin): Promise<PluginAnswer> {
    const { body, meta } = command;
    await this.commands.requireAbsent(meta.account, body.id);
    const prepared = await this.commands.prepare(meta.account, body);
    const scan = await this.commands.scan(command, candidateOf(prepared, 'install'));
    return this.commands.decide(command, body.id, { status: 201, reason: body.reason, scan }, (_, envelope) => ({
      kind: 'install',
      plugin: this.commands.seal(prepared, envelope),
    }));
  }
}

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugins')
export class InstallPluginRoute {
  constructor(@Inject(PluginDesk) private readonly desk: PluginDesk) {}

  @Post()
  @Allow('admin')
  @Problems(409, 422)
  @ApiOperation({ summary: 'Install a plugin' })
  @ApiCreatedResponse({ description: 'Installed and in force from the next invocation.', schema: pluginSchema })
  async install(
    @Meta() meta: CommandMeta,
    @Body() body: InstallPluginBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<PluginView> {
    const plugin = await this.desk.send(new InstallPlugin(meta, body), reply);
    reply.header('location', pluginPath(meta.account, body.id));
    return plugin;
  }
}
