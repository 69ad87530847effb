import { Body, Controller, Get, Headers, Inject, Injectable, Put, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiHeader, ApiOkResponse, ApiProperty, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { v7 as uuidv7 } from 'uuid';
import type { EventStore, Sql } from '#event-store';
import type { CommandMeta, DoneCommand, QueryOf, Role } from '#platform';
import {
  Account,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  Cursors,
  etagOf,
  EVENT_STORE,
  isPathName,
  IsText,
  Meta,
  noAccount,
  pagingFields,
  PathId,
  pathPointer,
  Problem,
  requireMatch,
  SEALING,
  SQL,
  StrictQuery,
} from '#platform';
import type { Sealed } from '#record';
import { asData } from '#record';
import type { Sealing } from '#sealing';
import { SecretValues } from '../plugins/secrets.js';
import { secretSchema, secretsSchema } from './account-schemas.js';
import { AccountDirectory } from './account-directory.js';
import { changeAccount } from './change-account.js';
import { completing } from './completion.js';
import { secretStream } from './directory-state.js';
import type { Page } from './paging.js';
import { pageById } from './paging.js';
import { ReasonBody, sealReason } from './reason.js';

/** A secret as people see it: never its value. */
export interface SecretView {
  readonly name: string;
  readonly digest: string;
  readonly version: number;
  readonly setAt: string;
}

class SecretValue extends ReasonBody {
  @ApiProperty({ maxLength: 65_536, writeOnly: true })
  @IsText(1, 65_536)
  value!: string;
}

/**
 * Sets a secret. Its value is kept sealed in a table of its own, outside the log: an event is read by whoever may see
 * content, a secret by nobody. The event says which row holds, so the change is in force when, and only when, the event
 * is committed. The digest is an HMAC under an account key: it shows that a value changed and cannot be guessed at.
 */
export class SetSecret extends AccountCommand<SecretView> {
  override readonly allows: readonly Role[] = ['admin', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly name: string,
    readonly value: string,
    readonly ifMatch: string | undefined,
    readonly reason: string | null | undefined,
  ) {
    super(meta);
  }
}

@CommandHandler(SetSecret)
export class SetSecretHandler extends AccountCommandHandler<SetSecret, SecretView> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(SQL) private readonly sql: Sql,
    private readonly directory: AccountDirectory,
  ) {
    super();
  }

  protected override async run(command: SetSecret): Promise<SecretView> {
    const { meta, name, value } = command;
    const { account, caller } = meta;
    const digest = await this.sealing.searchHash(account, `secret ${name}\n${value}`);
    const envelope = await this.sealing.envelope(account, { kind: 'account' });
    const sealed = envelope.seal(value);
    const reason = await sealReason(this.sealing, account, command.reason);
    const valueId = uuidv7();
    let previous: string | null = null;
    await this.sql.query('insert into secret_value (id, account, name, sealed) values ($1, $2, $3, $4)', [
      valueId,
      account,
      name,
      JSON.stringify(sealed),
    ]);
    try {
      const appended = await changeAccount(this.store, this.directory, account, ({ secrets }) => {
        const current = secrets.get(name);
        requireExisting(command.ifMatch, current?.version);
        previous = current?.valueId ?? null;
        return {
          account,
          writes: [
            {
              stream: secretStream(name),
              expectedVersion: current?.version ?? 0,
              events: [
                { type: 'secret.set', actor: actorOf(caller), data: asData({ name, digest, valueId, ...reason.data }) },
              ],
            },
          ],
          blobs: [...envelope.blobs(), ...reason.blobs],
          commands: completing(command, secretStream(name), 200),
        };
      });
      await this.forget(previous);
      return viewOf(appended.events[0]?.event);
    } catch (error) {
      // A refusal wrote no event; after a failure of the log the event may be there, and its row must be.
      if (error instanceof Problem && error.status < 500) await this.forget(valueId);
      throw error;
    }
  }

  protected override async replay({ meta }: SetSecret, done: DoneCommand): Promise<SecretView> {
    const [stored] = await this.store.readAccount(meta.account, { after: done.first - 1n, until: done.last, limit: 1 });
    return viewOf(stored?.event);
  }

  /** The value that is no longer in force; a row that stays is sealed and nothing refers to it. */
  private async forget(valueId: string | null): Promise<void> {
    if (valueId !== null)
      await this.sql.query('delete from secret_value where id = $1', [valueId]).catch(() => undefined);
  }
}

/** `If-Match` on a secret that is not there never holds, `*` included (RFC 9110 §13.1.1). */
const requireExisting = (ifMatch: string | undefined, version: number | undefined): void => {
  if (version !== undefined) {
    requireMatch(ifMatch, etagOf(version));
    return;
  }
  if (ifMatch !== undefined) throw new Problem(412, 'stale_etag', 'There is no such secret yet.');
};

const viewOf = (
  event:
    | {
        readonly data: { readonly [key: string]: unknown };
        readonly streamVersion: number;
        readonly recordedAt: string;
      }
    | undefined,
): SecretView => {
  if (event === undefined) throw new Error('a secret without its event');
  const { data, streamVersion, recordedAt } = event;
  return { name: String(data.name), digest: String(data.digest), version: streamVersion, setAt: recordedAt };
};

/** The values of secrets, for the realms that plugins run in. */
@Injectable()
export class StoredSecretValues extends SecretValues {
  constructor(
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(SQL) private readonly sql: Sql,
    private readonly directory: AccountDirectory,
  ) {
    super();
  }

  override async read(
    account: string,
    name: string,
    mayLook = true,
  ): Promise<{ readonly value: string; readonly digest: string } | null> {
    const secret = this.directory.account(account)?.secrets.get(name);
    const rows = secret === undefined ? [] : await this.rowsOf(account, secret.valueId);
    const [row] = rows;
    if (secret !== undefined && row !== undefined) {
      const opened = await this.sealing.open(account, JSON.parse(row.sealed) as Sealed);
      return opened.kind === 'open' ? { value: opened.value as string, digest: secret.digest } : null;
    }
    if (!mayLook) return null;
    // Set, or set anew, on another replica since the last look.
    await this.directory.catchUp();
    return this.read(account, name, false);
  }

  private rowsOf(account: string, valueId: string): Promise<readonly { readonly sealed: string }[]> {
    return this.sql.query<{ sealed: string }>('select sealed from secret_value where id = $1 and account = $2', [
      valueId,
      account,
    ]);
  }
}

/** Most clients never send `.` and `..` as they stand, so nobody could set such a secret anew. */
const reachable = (name: string): string => {
  if (isPathName(name)) return name;
  const reason = 'must not be . or .., which clients take out of a path';
  throw new Problem(400, 'bad_id', 'An id in the path does not fit.', [{ pointer: pathPointer('secret'), reason }]);
};

@ApiTags('accounts')
@Controller('v1/accounts/:account/secrets')
export class SecretRoutes {
  constructor(
    private readonly bus: CommandBus,
    private readonly directory: AccountDirectory,
    private readonly cursors: Cursors,
  ) {}

  @Get()
  @Allow('admin', 'auditor')
  @ApiOkResponse({ description: 'Names and digests; values are never shown.', schema: secretsSchema })
  async list(
    @Account() account: string,
    @StrictQuery(pagingFields) query: QueryOf<typeof pagingFields>,
  ): Promise<Page<SecretView>> {
    const upTo = await this.directory.completeUpTo(account);
    const facts = this.directory.account(account);
    if (facts === null) throw noAccount();
    const named = [...facts.secrets.values()].map(({ valueId: _, ...view }) => ({ id: view.name, view }));
    const page = pageById(named, query, JSON.stringify(['secrets', account]), this.cursors, upTo);
    return { ...page, items: page.items.map(({ view }) => view) };
  }

  @Put(':secret')
  @Allow('admin')
  @ApiHeader({ name: 'If-Match', required: false })
  @ApiOkResponse({
    description: 'Set. `{ "$secret": "name" }` in a configuration or setting refers to it.',
    schema: secretSchema,
  })
  async set(
    @Meta() meta: CommandMeta,
    @PathId('secret') name: string,
    @Body() body: SecretValue,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<SecretView> {
    const command = new SetSecret(meta, reachable(name), body.value, ifMatch, body.reason);
    const secret = await this.bus.execute(command);
    void reply.header('etag', etagOf(secret.version));
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
    return secret;
  }
}
