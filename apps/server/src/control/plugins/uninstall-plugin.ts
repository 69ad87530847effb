import { Controller, Delete, Headers, HttpCode, Inject, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiHeader, ApiNoContentResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import {
  AccountCommand,
  AccountCommandHandler,
  Allow,
  Meta,
  PathId,
  queryFreeText,
  SANDBOX,
  StrictQuery,
  type CommandMeta,
  type DoneCommand,
  type QueryOf,
  type Role,
} from '#platform';
import type { Sandbox } from '#sandbox';
import { replayable } from '../../gateway/replayable.js';
import type { PluginAnswer } from './plugin-answer.js';
import { PluginCommands } from './plugin-commands.js';
import { Problems } from './plugin-schemas.js';

/** Takes a plugin out of every chain; its history and what it did stay readable. */
export class UninstallPlugin extends AccountCommand<PluginAnswer> {
  override readonly allows: readonly Role[] = ['admin'];

  constructor(
    meta: CommandMeta,
    readonly id: string,
    readonly reason: string | null,
    readonly ifMatch: string | undefined,
  ) {
    super(meta);
  }
}

@CommandHandler(UninstallPlugin)
export class UninstallPluginHandler extends AccountCommandHandler<UninstallPlugin, PluginAnswer> {
  constructor(
    @Inject(PluginCommands) private readonly commands: PluginCommands,
    @Inject(SANDBOX) private readonly sandbox: Sandbox,
  ) {
    super();
  }

  protected override async run(command: UninstallPlugin): Promise<PluginAnswer> {
    const { id, reason, ifMatch, meta } = command;
    await this.commands.installed(meta.account, id);
    const answer = await this.commands.decide(command, id, { status: 204, reason, ifMatch }, () => ({
      kind: 'uninstall',
    }));
    this.sandbox.forget(meta.account, id);
    return answer;
  }

  protected override replay(command: UninstallPlugin, done: DoneCommand): Promise<PluginAnswer> {
    return this.commands.replay(command.meta.account, done);
  }
}

const fields = { reason: queryFreeText('A ticket or words; kept with the event.', 4000) } as const;

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugins')
export class UninstallPluginRoute {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

  @Delete(':plugin')
  @HttpCode(204)
  @Allow('admin')
  @Problems(404, 412)
  @ApiOperation({ summary: 'Uninstall a plugin; its history and reads stay' })
  @ApiHeader({ name: 'If-Match', required: false, description: 'The ETag that was read, or `*`.' })
  @ApiNoContentResponse({ description: 'Out of every chain from the next invocation.' })
  async uninstall(
    @Meta() meta: CommandMeta,
    @PathId('plugin', 'The plugin.') id: string,
    @Headers('if-match') ifMatch: string | undefined,
    @StrictQuery(fields) query: QueryOf<typeof fields>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<void> {
    await replayable(this.bus, new UninstallPlugin(meta, id, query.reason, ifMatch), reply);
  }
}
