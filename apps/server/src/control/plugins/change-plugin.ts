import { Body, Controller, Headers, Inject, Patch, Res } from '@nestjs/common';
import { CommandHandler } from '@nestjs/cqrs';
import { ApiHeader, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Allow, Meta, PathId, type CommandMeta } from '#platform';
import { configDigest, type PluginHistory, type PluginPatch } from '#plugins';
import type { PluginSnapshot } from '#record';
import type { Envelope } from '#sealing';
import { OnePlugin, OnePluginHandler, PluginDesk } from './one-plugin.js';
import type { PluginAnswer } from './plugin-answer.js';
import { checkConfig, PluginCommands } from './plugin-commands.js';
import { ChangePluginBody } from './plugin-fields.js';
import { pluginSchema, Problems } from './plugin-schemas.js';
import type { PluginView } from './plugin-view.js';
import { noPlugin } from './refusals.js';
import { messagesTo, SourceLoader } from './source-loader.js';

/** Changes a plugin's settings; what the body does not name stays. */
export class ChangePlugin extends OnePlugin<ChangePluginBody> {}

@CommandHandler(ChangePlugin)
export class ChangePluginHandler extends OnePluginHandler<ChangePlugin> {
  constructor(
    @Inject(PluginCommands) commands: PluginCommands,
    @Inject(SourceLoader) private readonly loader: SourceLoader,
  ) {
    super(commands);
  }

  protected override run(command: ChangePlugin): Promise<PluginAnswer> {
    const { id, body, ifMatch } = command;
    const terms = { status: 200, reason: body.reason, ifMatch };
    return this.commands.decide(command, id, terms, async ({ current }: PluginHistory, envelope) => {
      if (current === null) throw noPlugin(id);
      return { kind: 'change', patch: await this.patch(command.meta, current, body, envelope) };
    });
  }

  private async patch(
    meta: CommandMeta,
    current: PluginSnapshot,
    body: ChangePluginBody,
    envelope: Envelope,
  ): Promise<PluginPatch> {
    const { config, enabled, priority, failureMode, mode, isolation, timeouts, permissions } = body;
    const digest = config === undefined ? current.configDigest : configDigest(config);
    const settings: PluginPatch = {
      ...given({ enabled, priority, failureMode, mode, isolation, timeouts, permissions }),
      ...(config === undefined || digest === current.configDigest
        ? {}
        : { config: { sealed: envelope.seal(config), digest } }),
    };
    return { ...settings, ...(await this.registered(meta, current, body, settings)) };
  }

  /** A source may look at its configuration and its members when it registers: it is loaded again with the new ones. */
  private async registered(
    { account, caller }: CommandMeta,
    current: PluginSnapshot,
    body: ChangePluginBody,
    settings: PluginPatch,
  ): Promise<Pick<PluginPatch, 'findings'>> {
    const permissions = settings.permissions ?? current.permissions;
    const samePermissions = [...new Set(permissions)].sort().join() === [...current.permissions].sort().join();
    if (settings.config === undefined && samePermissions) return {};
    const config = body.config ?? (await this.commands.open(account, current.config));
    const schema = current.configSchema === null ? null : await this.commands.open(account, current.configSchema);
    await checkConfig(schema, config);
    const compiled = await this.commands.compiledText(account, current);
    const messages = messagesTo(caller);
    return {
      findings: await this.loader.reload({
        account,
        plugin: current,
        compiled,
        config,
        permissions,
        messages,
        rules: this.commands.dialectRules(account, current),
      }),
    };
  }
}

/** The fields that were sent. */
const given = <T extends object>(fields: T): { readonly [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    readonly [K in keyof T]?: Exclude<T[K], undefined>;
  };

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugins')
export class ChangePluginRoute {
  constructor(@Inject(PluginDesk) private readonly desk: PluginDesk) {}

  @Patch(':plugin')
  @Allow('admin')
  @Problems(404, 412, 422)
  @ApiOperation({ summary: 'Change settings of a plugin; what is already so writes nothing' })
  @ApiHeader({ name: 'If-Match', required: false, description: 'The ETag that was read, or `*`.' })
  @ApiOkResponse({ description: 'The state in force from the next invocation.', schema: pluginSchema })
  change(
    @Meta() meta: CommandMeta,
    @PathId('plugin', 'The plugin.') id: string,
    @Body() body: ChangePluginBody,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<PluginView> {
    return this.desk.send(new ChangePlugin(meta, id, body, ifMatch), reply);
  }
}
