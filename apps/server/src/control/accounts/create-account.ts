import { Body, Controller, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiCreatedResponse, ApiProperty, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import type { EventStore, StoredEvent } from '#event-store';
import type { Caller, CommandMeta, DoneCommand, Role } from '#platform';
import {
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  CurrentCaller,
  EVENT_STORE,
  IdempotencyMeta,
  IsPathName,
  IsText,
  Problem,
} from '#platform';
import { accountSchema } from './account-schemas.js';
import { AccountDirectory } from './account-directory.js';
import { claimLost } from './change-account.js';
import { completing } from './completion.js';
import type { AccountCreated } from './directory-state.js';
import { accountBirthStream, systemAccount } from './directory-state.js';

/** An account as people see it. */
export interface AccountView {
  readonly id: string;
  readonly name: string;
  readonly createdAt: string;
}

class NewAccount {
  @ApiProperty({ minLength: 1, maxLength: 200, example: 'acme' })
  @IsPathName()
  id!: string;

  @ApiProperty({ minLength: 1, maxLength: 200, example: 'Acme Ltd' })
  @IsText(1, 200)
  name!: string;
}

/** Makes an account. Its birth stands in the log of `system`, as everything across accounts does. */
export class CreateAccount extends AccountCommand<AccountView> {
  override readonly allows: readonly Role[] = ['operator'];

  constructor(
    meta: CommandMeta,
    readonly id: string,
    readonly name: string,
  ) {
    super(meta);
  }
}

@CommandHandler(CreateAccount)
export class CreateAccountHandler extends AccountCommandHandler<CreateAccount, AccountView> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    private readonly directory: AccountDirectory,
  ) {
    super();
  }

  protected override async run(command: CreateAccount): Promise<AccountView> {
    const { id, name, meta } = command;
    if (await this.directory.accountExists(id)) throw taken();
    const stream = accountBirthStream(id);
    const result = await this.store.append({
      account: systemAccount,
      writes: [
        {
          stream,
          expectedVersion: 0,
          events: [{ type: 'account.created', actor: actorOf(meta.caller), data: { id, name } }],
        },
      ],
      commands: completing(command, stream, 201),
    });
    if (result.kind === 'conflict') throw taken();
    if (result.kind === 'claim-lost') throw claimLost();
    await this.directory.catchUp();
    return viewOf(result.events);
  }

  protected override async replay(_: CreateAccount, done: DoneCommand): Promise<AccountView> {
    return viewOf(await this.store.readStream(systemAccount, done.result.stream));
  }
}

const taken = (): Problem =>
  new Problem(409, 'account_exists', 'There is an account with this id already.', [
    { pointer: '/id', reason: 'is taken' },
  ]);

const viewOf = (events: readonly StoredEvent[]): AccountView => {
  const [stored] = events;
  if (stored === undefined) throw new Error('an account without its birth');
  const { id, name } = stored.event.data as unknown as AccountCreated;
  return { id, name, createdAt: stored.event.recordedAt };
};

@ApiTags('accounts')
@Controller('v1/accounts')
export class CreateAccountRoute {
  constructor(private readonly bus: CommandBus) {}

  @Post()
  @Allow('operator')
  @ApiCreatedResponse({ description: 'The account, empty.', schema: accountSchema })
  async create(
    @CurrentCaller() caller: Caller,
    @IdempotencyMeta() idempotency: CommandMeta['idempotency'],
    @Body() body: NewAccount,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<AccountView> {
    const command = new CreateAccount({ account: systemAccount, caller, idempotency }, body.id, body.name);
    const account = await this.bus.execute(command);
    void reply.header('location', `/v1/accounts/${encodeURIComponent(account.id)}`);
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
    return account;
  }
}
