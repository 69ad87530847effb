import { Body, Controller, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiCreatedResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import {
  AccountCommand,
  AccountCommandHandler,
  Allow,
  Meta,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import { replayable } from '../../gateway/replayable.js';
import { pluginPath, tagReply, type PluginAnswer } from './plugin-answer.js';
import { PluginCommands } from './plugin-commands.js';
import { InstallPluginBody } from './plugin-fields.js';
import { pluginSchema, Problems } from './plugin-schemas.js';
import { PluginViews, type PluginView } from './plugin-view.js';

/** Installs a plugin: compiled, loaded once, then stored with what it registers and asks for. */
export class InstallPlugin extends AccountCommand<PluginAnswer> {
  override readonly allows: readonly Role[] = ['admin'];

  constructor(
    meta: CommandMeta,
    readonly body: InstallPluginBody,
  ) {
    super(meta);
  }
}

@CommandHandler(InstallPlugin)
export class InstallPluginHandler extends AccountCommandHandler<InstallPlugin, PluginAnswer> {
  constructor(@Inject(PluginCommands) private readonly commands: PluginCommands) {
    super();
  }

  protected override async run(command: InstallPlugin): Promise<PluginAnswer> {
    const { body, meta } = command;
    await this.commands.requireAbsent(meta.account, body.id);
    const prepared = await this.commands.prepare(meta.account, body);
    return this.commands.decide(command, body.id, { status: 201, reason: body.reason }, (_, envelope) => ({
      kind: 'install',
      plugin: this.commands.seal(prepared, envelope),
    }));
  }

  protected override replay(command: InstallPlugin, done: DoneCommand): Promise<PluginAnswer> {
    return this.commands.replay(command.meta.account, done);
  }
}

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugins')
export class InstallPluginRoute {
  constructor(
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(PluginViews) private readonly views: PluginViews,
  ) {}

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
    const { plugin } = await replayable(this.bus, new InstallPlugin(meta, body), reply);
    tagReply(reply, plugin);
    reply.header('location', pluginPath(meta.account, plugin.id));
    return this.views.plugin(meta.account, meta.caller, plugin);
  }
}
