import { Inject, Injectable } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import type { FastifyReply } from 'fastify';
import { AccountCommand, AccountCommandHandler, type CommandMeta, type DoneCommand, type Role } from '#platform';
import { replayable } from '../../gateway/replayable.js';
import { tagReply, type PluginAnswer } from './plugin-answer.js';
import type { PluginCommands } from './plugin-commands.js';
import type { InstallScanned } from './install-scan.js';
import { PluginViews, type PluginView } from './plugin-view.js';

/** What an administrator does with one plugin: what the body says, and the revision it insists on. */
export abstract class OnePlugin<Body> extends AccountCommand<PluginAnswer> {
  override readonly allows: readonly Role[] = ['admin'];

  constructor(
    meta: CommandMeta,
    readonly id: string,
    readonly body: Body,
    readonly ifMatch?: string,
  ) {
    super(meta);
  }
}

/** Handles such a command. A repetition is answered with the revision that the first one made. */
export abstract class OnePluginHandler<C extends AccountCommand<PluginAnswer>> extends AccountCommandHandler<
  C,
  PluginAnswer
> {
  constructor(protected readonly commands: PluginCommands) {
    super();
  }

  protected override replay(command: C, done: DoneCommand): Promise<PluginAnswer> {
    return this.commands.replay(command.meta.account, done);
  }
}

/** A plugin as a change left it, with what `before_install` found, where plugins of the account were asked. */
export interface ChangedPluginView extends PluginView {
  readonly beforeInstall?: InstallScanned;
}

/** Sends such commands and answers with the plugin as its reader may see it. */
@Injectable()
export class PluginDesk {
  constructor(
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(PluginViews) private readonly views: PluginViews,
  ) {}

  async send(command: AccountCommand<PluginAnswer>, reply: FastifyReply): Promise<ChangedPluginView> {
    const { plugin, scan } = await replayable(this.bus, command, reply);
    tagReply(reply, plugin);
    const view = await this.views.plugin(command.meta.account, command.meta.caller, plugin);
    return scan === undefined ? view : { ...view, beforeInstall: scan };
  }
}
