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
  SEALING,
} from '#platform';
import type { Json, JsonObject } from '#record';
import { asData } from '#record';
import type { Sealing } from '#sealing';
import { AccountDirectory } from './account-directory.js';
import { changeAccount } from './change-account.js';
import { completing } from './completion.js';
import { accountStream } from './directory-state.js';
import { reasonSchema, sealReason } from './reason.js';
import type { Settings } from './settings.js';
import { changeSettings, defaultSettings, settingsSchema } from './settings.js';
import { settingsWeaken } from './weakening.js';

interface SettingsAt {
  readonly settings: Settings;
  readonly version: number;
}

/** Changes settings: one event with all of them before and after; none where nothing differs. */
export class ChangeSettings extends AccountCommand<SettingsAt> {
  override readonly allows: readonly Role[] = ['admin', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly patch: JsonObject,
    readonly ifMatch: string | undefined,
    readonly reason: string | null,
  ) {
    super(meta);
  }
}

@CommandHandler(ChangeSettings)
export class ChangeSettingsHandler extends AccountCommandHandler<ChangeSettings, SettingsAt> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly directory: AccountDirectory,
  ) {
    super();
  }

  protected override async run(command: ChangeSettings): Promise<SettingsAt> {
    const { meta, patch } = command;
    const reason = await sealReason(this.sealing, meta.account, command.reason);
    let found: SettingsAt = { settings: defaultSettings, version: 0 };
    const appended = await changeAccount(this.store, this.directory, meta.account, (account) => {
      requireMatch(command.ifMatch, etagOf(account.settingsVersion));
      const change = changeSettings(account.settings, patch);
      if (change.kind === 'refused') throw new Problem(422, 'bad_settings', 'The settings do not fit.', change.faults);
      found = { settings: account.settings, version: account.settingsVersion };
      const note = { version: account.settingsVersion };
      if (change.changed.length === 0) {
        return { account: meta.account, writes: [], commands: completing(command, accountStream, 200, note) };
      }
      const data = {
        version: account.settingsVersion + 1,
        before: account.settings,
        after: change.after,
        changed: change.changed,
        weakensEnforcement: settingsWeaken(account.settings, change.after),
        ...reason.data,
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
        blobs: reason.blobs,
        commands: completing(command, accountStream, 200),
      };
    });
    const [written] = appended.events;
    return written === undefined ? found : settingsIn(written.event.data);
  }

  protected override async replay({ meta }: ChangeSettings, done: DoneCommand): Promise<SettingsAt> {
    if (done.first > done.last) return this.settingsOf(meta.account, Number(done.result.note?.version ?? 0));
    const [stored] = await this.store.readAccount(meta.account, { after: done.first - 1n, until: done.last, limit: 1 });
    return settingsIn(stored?.event.data);
  }

  /** The settings of a version; the first ones stand in no event. */
  private async settingsOf(account: string, version: number): Promise<SettingsAt> {
    if (version === 0) return { settings: defaultSettings, version };
    const events = await this.store.readStream(account, accountStream);
    const made = events.find(({ event }) => event.type === 'settings.changed' && event.data.version === version);
    return settingsIn(made?.event.data);
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
    schema: { ...settingsSchema, properties: { ...settingsSchema.properties, reason: reasonSchema } } as object,
    description: 'Named settings are replaced whole; null means the default. What is already so writes nothing.',
  })
  @ApiOkResponse({ description: 'All settings after the change.', schema: settingsSchema as object })
  async change(
    @Meta() meta: CommandMeta,
    @Body() body: unknown,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<Settings> {
    const { reason = null, ...patch } = objectOf(body as Json | undefined);
    const command = new ChangeSettings(meta, patch, ifMatch, reasonIn(reason));
    const { settings, version } = await this.bus.execute(command);
    void reply.header('etag', etagOf(version));
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
    return settings;
  }
}

const reasonIn = (value: Json): string | null => {
  if (value === null || (typeof value === 'string' && value.length <= reasonSchema.maxLength)) return value;
  const reason = `must be a string of 0 to ${reasonSchema.maxLength} characters`;
  throw new Problem(422, 'bad_settings', 'The settings do not fit.', [{ pointer: '/reason', reason }]);
};

const objectOf = (body: Json | undefined): JsonObject => {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as JsonObject;
  throw new Problem(body === undefined ? 400 : 422, 'bad_settings', 'This request needs a JSON object as its body.', [
    { pointer: '', reason: 'must be a JSON object' },
  ]);
};
