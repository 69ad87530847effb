import { Body, Controller, Delete, Get, Headers, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import {
  ApiCreatedResponse,
  ApiHeader,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiProperty,
  ApiTags,
} from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import type { FastifyReply } from 'fastify';
import type { EventStore, StoredEvent } from '#event-store';
import type { Caller, CommandMeta, DoneCommand, QueryOf, Role, Shown } from '#platform';
import {
  AbsentOrNull,
  Account,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  CurrentCaller,
  etagOf,
  EVENT_STORE,
  formatInstant,
  IsInstant,
  IsText,
  Meta,
  noAccount,
  Problem,
  readInstant,
  requireMatch,
  SEALING,
  show,
  StrictQuery,
} from '#platform';
import type { Sealed } from '#record';
import { asData } from '#record';
import type { Sealing } from '#sealing';
import { haltSchema, haltStateSchema } from './account-schemas.js';
import { AccountDirectory } from './account-directory.js';
import { isInForce } from './account-rules.js';
import { changeAccount } from './change-account.js';
import { completing } from './completion.js';
import type { AccountFacts } from './directory-state.js';
import { accountStream } from './directory-state.js';
import { reasonQuery, sealReason } from './reason.js';
import { haltWeakens } from './weakening.js';

const failureModes = ['open', 'closed'] as const;

/** A halt as people see it. */
export interface HaltView {
  readonly halted: true;
  readonly failureMode: 'open' | 'closed';
  readonly until: string | null;
  readonly reason: Shown;
  readonly since: string;
}

class NewHalt {
  @ApiProperty({ minLength: 1, maxLength: 10_000 })
  @IsText(1, 10_000)
  reason!: string;

  @ApiProperty({
    type: 'string',
    format: 'date-time',
    required: false,
    nullable: true,
    description: 'When it ends by itself; no event is written then, since account.halted says when.',
  })
  @AbsentOrNull()
  @IsInstant()
  until?: string | null;

  @ApiProperty({ enum: failureModes, description: 'open passes everything, closed cancels what can be cancelled.' })
  @IsIn(failureModes, { message: 'failureMode must be open or closed' })
  failureMode!: 'open' | 'closed';
}

interface HaltRecorded {
  readonly failureMode: 'open' | 'closed';
  readonly until: string | null;
  readonly reason: Sealed;
  readonly since: string;
}

/** Stops all plugins of an account at once. A halt of a halted account takes the place of the one before. */
export class HaltAccount extends AccountCommand<HaltRecorded> {
  override readonly allows: readonly Role[] = ['admin', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly wanted: NewHalt,
  ) {
    super(meta);
  }
}

@CommandHandler(HaltAccount)
export class HaltAccountHandler extends AccountCommandHandler<HaltAccount, HaltRecorded> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly directory: AccountDirectory,
  ) {
    super();
  }

  protected override async run(command: HaltAccount): Promise<HaltRecorded> {
    const { meta, wanted } = command;
    const until = endOf(wanted);
    const envelope = await this.sealing.envelope(meta.account, { kind: 'account' });
    const reason = envelope.seal(wanted.reason);
    const appended = await changeAccount(this.store, this.directory, meta.account, (account) => ({
      account: meta.account,
      writes: [
        {
          stream: accountStream,
          expectedVersion: account.streamVersion,
          events: [
            {
              type: 'account.halted',
              actor: actorOf(meta.caller),
              data: asData({
                failureMode: wanted.failureMode,
                until,
                reason,
                weakensEnforcement: haltWeakens(wanted.failureMode),
              }),
            },
          ],
        },
      ],
      blobs: envelope.blobs(),
      commands: completing(command, accountStream, 201),
    }));
    return recordedIn(appended.events);
  }

  protected override async replay({ meta }: HaltAccount, done: DoneCommand): Promise<HaltRecorded> {
    return recordedIn(
      await this.store.readAccount(meta.account, { after: done.first - 1n, until: done.last, limit: 1 }),
    );
  }
}

const endOf = ({ until }: NewHalt): string | null => {
  if (until === undefined || until === null) return null;
  const read = readInstant(until);
  if ('time' in read && read.time.getTime() > Date.now()) return formatInstant(read.time);
  throw new Problem(422, 'bad_fields', 'The body does not fit.', [
    { pointer: '/until', reason: 'must be in the future' },
  ]);
};

const recordedIn = ([stored]: readonly StoredEvent[]): HaltRecorded => {
  if (stored === undefined) throw new Error('a halt without its event');
  const { failureMode, until, reason } = stored.event.data as unknown as Omit<HaltRecorded, 'since'>;
  return { failureMode, until, reason, since: stored.event.recordedAt };
};

/** Lets an account's plugins run again. */
export class ResumeAccount extends AccountCommand<null> {
  override readonly allows: readonly Role[] = ['admin', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly ifMatch: string | undefined,
    readonly reason: string | null,
  ) {
    super(meta);
  }
}

@CommandHandler(ResumeAccount)
export class ResumeAccountHandler extends AccountCommandHandler<ResumeAccount, null> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly directory: AccountDirectory,
  ) {
    super();
  }

  protected override async run(command: ResumeAccount): Promise<null> {
    const { meta } = command;
    const reason = await sealReason(this.sealing, meta.account, command.reason);
    await changeAccount(this.store, this.directory, meta.account, (account) => {
      if (haltOf(account) === null) throw notHalted();
      requireMatch(command.ifMatch, etagOf(account.streamVersion));
      return {
        account: meta.account,
        writes: [
          {
            stream: accountStream,
            expectedVersion: account.streamVersion,
            events: [{ type: 'account.resumed', actor: actorOf(meta.caller), data: asData(reason.data) }],
          },
        ],
        blobs: reason.blobs,
        commands: completing(command, accountStream, 204),
      };
    });
    return null;
  }

  protected override replay(): Promise<null> {
    return Promise.resolve(null);
  }
}

const notHalted = (): Problem => new Problem(404, 'not_halted', 'This account is not halted.');

const haltOf = ({ halt }: AccountFacts): AccountFacts['halt'] =>
  halt !== null && isInForce(halt, new Date()) ? halt : null;

@ApiTags('accounts')
@Controller('v1/accounts/:account/halt')
export class HaltRoutes {
  constructor(
    private readonly bus: CommandBus,
    private readonly directory: AccountDirectory,
    @Inject(SEALING) private readonly sealing: Sealing,
  ) {}

  @Get()
  @Allow('admin', 'auditor')
  @ApiOkResponse({ description: 'Whether the account is halted, and how.', schema: haltStateSchema })
  async read(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<HaltView | { readonly halted: false }> {
    await this.directory.catchUp();
    const facts = this.directory.account(account);
    if (facts === null) throw noAccount();
    void reply.header('etag', etagOf(facts.streamVersion));
    const halt = haltOf(facts);
    if (halt === null) return { halted: false };
    return { halted: true, ...halt, reason: await show(this.sealing, caller, account, halt.reason) };
  }

  @Post()
  @Allow('admin')
  @ApiCreatedResponse({ description: 'All plugins of the account are stopped.', schema: haltSchema })
  async halt(
    @Meta() meta: CommandMeta,
    @Body() body: NewHalt,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<HaltView> {
    const command = new HaltAccount(meta, body);
    const { reason, ...halt } = await this.bus.execute(command);
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
    // Who wrote the reason may read it in the answer; others by what their key says.
    return { halted: true, ...halt, reason: await show(this.sealing, { content: 'full' }, meta.account, reason) };
  }

  @Delete()
  @Allow('admin')
  @HttpCode(204)
  @ApiHeader({ name: 'If-Match', required: false })
  @ApiNoContentResponse({ description: 'Plugins run again.' })
  async resume(
    @Meta() meta: CommandMeta,
    @StrictQuery(reasonQuery) { reason }: QueryOf<typeof reasonQuery>,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<void> {
    const command = new ResumeAccount(meta, ifMatch, reason);
    await this.bus.execute(command);
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
  }
}
