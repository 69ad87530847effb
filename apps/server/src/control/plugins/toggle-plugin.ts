import { Body, Controller, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { ApiOkResponse, ApiOperation, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { IsBoolean } from 'class-validator';
import type { FastifyReply } from 'fastify';
import { Absent, Allow, Meta, PathId, Problem, type CommandMeta } from '#platform';
import { replayable } from '../../gateway/replayable.js';
import { ChangePlugin } from './change-plugin.js';
import { PluginCommands } from './plugin-commands.js';
import { ChangePluginBody } from './plugin-fields.js';
import { Problems, toggledSchema } from './plugin-schemas.js';

/** Kohaku's own body; without `enabled` it is switched on (kohaku.md: it sets, it does not flip). */
class ToggleBody {
  @ApiPropertyOptional({ type: Boolean, default: true })
  @Absent()
  @IsBoolean()
  enabled?: boolean;
}

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugins')
export class TogglePluginRoute {
  constructor(
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(PluginCommands) private readonly commands: PluginCommands,
  ) {}

  @Post(':plugin/toggle')
  @HttpCode(200)
  @Allow('admin')
  @Problems(404, 422)
  @ApiOperation({ summary: "Kohaku's own switch: sets, does not flip" })
  @ApiOkResponse({ description: "Kohaku's own answer.", schema: toggledSchema })
  async toggle(
    @Meta() meta: CommandMeta,
    @PathId('plugin', "The plugin's name.") name: string,
    @Body() body: ToggleBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<{ readonly plugin: string; readonly enabled: boolean }> {
    const { id, dialect } = await this.commands.installed(meta.account, name);
    if (dialect !== 'kohaku') {
      throw new Problem(422, 'not_a_kohaku_plugin', 'Only Kohaku plugins are toggled. PATCH this one with `enabled`.');
    }
    const enabled = body.enabled ?? true;
    const change = Object.assign(new ChangePluginBody(), { enabled });
    const { plugin } = await replayable(this.bus, new ChangePlugin(meta, id, change, undefined), reply);
    return { plugin: name, enabled: plugin.enabled };
  }
}
