import { Body, Controller, Get, Headers, Inject, Patch, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiBody, ApiHeader, ApiOkResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import type { EventStore } from '#event-store';
import type { CommandMeta, DoneCommand, Role } from '#platform';
import {
  Account,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  etagOf,
  EVENT_STORE,
  Meta,
  noAccount,
  Problem,
  requireMatch,
} from '#platform';
import type { Json, JsonObject } from '#record';
import { asData } from '#record';
import { AccountDirectory } from './account-directory.js';
import { changeAccount } from './change-account.js';
import { completing } from './completion.js';
import { accountStream } from './directory-state.js';
import type { Settings } from './settings.js';
import { changeSettings, defaultSettings, settingsSchema } from './settings.js';

interface SettingsAt {
  readonly settings: Settings;
  readonly version: number;
}

/** Changes settings: one event with all of them before and after. */
export class ChangeSettings extends AccountCommand<SettingsAt> {
  override readonly allows: readonly Role[] = ['admin', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly patch: JsonObject,
    readonly ifMatch: string | undefined,
  ) {
    super(meta);
  }
}

@CommandHandler(ChangeSettings)
export class ChangeSettingsHandler extends AccountCommandHandler<ChangeSettings, SettingsAt> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    private readonly directory: AccountDirectory,
  ) {
    super();
  }

  protected override async run(command: ChangeSettings): Promise<SettingsAt> {
    const { meta, patch } = command;
    const appended = await changeAccount(this.store, this.directory, meta.account, (account) => {
      requireMatch(command.ifMatch, etagOf(account.settingsVersion));
      const change = changeSettings(account.settings, patch);
      if (change.kind === 'refused') throw new Problem(422, 'bad_settings', 'The settings do not fit.', change.faults);
      const data = {
        version: account.settingsVersion + 1,
        before: account.settings,
        after: change.after,
        changed: change.changed,
      };
      return {
        account: meta.account,
        writes: [
          {
            stream: accountStream,
            expectedVersion: account.streamVersion,
            events: [{ type: 'settings.changed', actor: actorOf(meta.caller), data: asData(data) }],
          },
        ],
        commands: completing(command, accountStream, 200),
      };
    });
    return settingsIn(appended.events[0]?.event.data);
  }

  protected override async replay({ meta }: ChangeSettings, done: DoneCommand): Promise<SettingsAt> {
    const [stored] = await this.store.readAccount(meta.account, { after: done.first - 1n, until: done.last, limit: 1 });
    return settingsIn(stored?.event.data);
  }
}

const settingsIn = (data: JsonObject | undefined): SettingsAt => {
  if (data === undefined) throw new Error('settings without their event');
  return { settings: { ...defaultSettings, ...(data.after as object) }, version: Number(data.version) };
};

@ApiTags('accounts')
@Controller('v1/accounts/:account/settings')
export class SettingsRoutes {
  constructor(
    private readonly bus: CommandBus,
    private readonly directory: AccountDirectory,
  ) {}

  @Get()
  @Allow('admin', 'auditor')
  @ApiOkResponse({ description: 'All settings, with their defaults.', schema: settingsSchema as object })
  async read(@Account() account: string, @Res({ passthrough: true }) reply: FastifyReply): Promise<Settings> {
    await this.directory.catchUp();
    const facts = this.directory.account(account);
    if (facts === null) throw noAccount();
    void reply.header('etag', etagOf(facts.settingsVersion));
    return facts.settings;
  }

  @Patch()
  @Allow('admin')
  @ApiHeader({ name: 'If-Match', required: false })
  @ApiBody({
    schema: settingsSchema as object,
    description: 'Named settings are replaced whole; null means the default.',
  })
  @ApiOkResponse({ description: 'All settings after the change.', schema: settingsSchema as object })
  async change(
    @Meta() meta: CommandMeta,
    @Body() body: unknown,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<Settings> {
    const command = new ChangeSettings(meta, objectOf(body as Json | undefined), ifMatch);
    const { settings, version } = await this.bus.execute(command);
    void reply.header('etag', etagOf(version));
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
    return settings;
  }
}

const objectOf = (body: Json | undefined): JsonObject => {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as JsonObject;
  throw new Problem(body === undefined ? 400 : 422, 'bad_settings', 'This request needs a JSON object as its body.', [
    { pointer: '', reason: 'must be a JSON object' },
  ]);
};
