import { Body, Controller, Headers, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandHandler } from '@nestjs/cqrs';
import { ApiCreatedResponse, ApiHeader, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Allow, Meta, PathId, type CommandMeta } from '#platform';
import type { PluginSnapshot } from '#record';
import { newId } from '../../gateway/new-id.js';
import { OnePlugin, OnePluginHandler, PluginDesk } from './one-plugin.js';
import type { PluginAnswer } from './plugin-answer.js';
import { PluginCommands, sealCode } from './plugin-commands.js';
import { NewVersionBody, sourceOf, sourcePointer } from './plugin-fields.js';
import { pluginSchema, Problems } from './plugin-schemas.js';
import type { PluginView } from './plugin-view.js';
import { faultyPlugin } from './refusals.js';
import { messagesTo, SourceLoader } from './source-loader.js';

/** Gives a plugin new code; its settings and its place stay. */
export class AddVersion extends OnePlugin<NewVersionBody> {
  override readonly invocationId = newId();
}

@CommandHandler(AddVersion)
export class AddVersionHandler extends OnePluginHandler<AddVersion> {
  constructor(
    @Inject(PluginCommands) commands: PluginCommands,
    @Inject(SourceLoader) private readonly loader: SourceLoader,
  ) {
    super(commands);
  }

  protected override async run(command: AddVersion): Promise<PluginAnswer> {
    const { id, body, ifMatch } = command;
    const { account } = command.meta;
    const current = await this.commands.installed(account, id);
    const given = sourceOf(body);
    if (given.kind === 'faulty') throw faultyPlugin([given.fault]);
    const pointer = sourcePointer(given.source);
    await this.commands.judge(account, id, given.source, { plugin: pointer, source: pointer });
    const loaded = await this.loader.load({
      account,
      id,
      version: body.version,
      dialect: current.dialect,
      language: body.language ?? current.code.language,
      source: given.source,
      config: await this.commands.open(account, current.config),
      permissions: body.permissions ?? null,
      messages: messagesTo(command.meta.caller),
      rules: this.commands.dialectRules(account, current),
      ...namesIn(current, body.class),
    });
    const { source, language } = loaded;
    const scan = await this.commands.scan(command, { id, version: body.version, language, source, mode: 'update' });
    return this.commands.decide(command, id, { status: 201, reason: body.reason, ifMatch, scan }, (_, envelope) => ({
      kind: 'version',
      version: body.version,
      code: sealCode(loaded, envelope),
      findings: loaded.findings,
      permissions: body.permissions ?? null,
    }));
  }
}

/** The class that was named, and the name it is registered under, stay what they were. */
const namesIn = (
  { findings }: Pick<PluginSnapshot, 'findings'>,
  className: string | undefined,
): { readonly className?: string; readonly pluginName?: string } => {
  const { class: known, classGiven, pluginName } = findings.registrations;
  const named = className ?? (classGiven === true && typeof known === 'string' ? known : undefined);
  return {
    ...(named === undefined ? {} : { className: named }),
    ...(typeof pluginName === 'string' ? { pluginName } : {}),
  };
};

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugins')
export class AddVersionRoute {
  constructor(@Inject(PluginDesk) private readonly desk: PluginDesk) {}

  @Post(':plugin/versions')
  @HttpCode(201)
  @Allow('admin')
  @Problems(404, 412, 422)
  @ApiOperation({ summary: 'Give a plugin new code, in force from the next invocation' })
  @ApiHeader({ name: 'If-Match', required: false, description: 'The ETag that was read, or `*`.' })
  @ApiCreatedResponse({ description: 'The new revision.', schema: pluginSchema })
  add(
    @Meta() meta: CommandMeta,
    @PathId('plugin', 'The plugin.') id: string,
    @Body() body: NewVersionBody,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<PluginView> {
    return this.desk.send(new AddVersion(meta, id, body, ifMatch), reply);
  }
}
