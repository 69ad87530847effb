import { Body, Controller, Get, HttpStatus, Inject, Post, Res, UseInterceptors } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiCreatedResponse, ApiOkResponse, ApiOperation, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { IsBoolean } from 'class-validator';
import type { FastifyReply } from 'fastify';
import type { EventStore } from '#event-store';
import {
  AbsentOrNull,
  Account,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  Cursors,
  EVENT_STORE,
  Meta,
  pagingFields,
  Problem,
  SEALING,
  StrictQuery,
  type CommandMeta,
  type DoneCommand,
  type QueryOf,
  type Role,
} from '#platform';
import type { Sealing } from '#sealing';
import { claimLost } from '../accounts/change-account.js';
import { completing } from '../accounts/completion.js';
import { pageById, type Page } from '../accounts/paging.js';
import { ReasonBody, sealReason } from '../accounts/reason.js';
import { RecordReads } from '../audit/record-reads.js';
import { KeepingLog } from './keeping-log.js';
import { purgeSchema, purgesSchema } from './keeping-schemas.js';
import { foldPurges, purgeTypes, PurgeWork, type Purge } from './purge-work.js';

class NewPurge extends ReasonBody {
  @ApiPropertyOptional({ type: Boolean, nullable: true, description: 'Only say what would be removed.' })
  @AbsentOrNull()
  @IsBoolean({ message: 'must be true or false' })
  dryRun?: boolean | null;
}

/** Removes what is past its retention and not held. */
export class PurgeAccount extends AccountCommand<Purge> {
  override readonly allows: readonly Role[] = ['operator'];

  constructor(
    meta: CommandMeta,
    readonly wanted: NewPurge,
  ) {
    super(meta);
  }
}

@CommandHandler(PurgeAccount)
export class PurgeAccountHandler extends AccountCommandHandler<PurgeAccount, Purge> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly keeping: KeepingLog,
    private readonly work: PurgeWork,
  ) {
    super();
  }

  protected override async run(command: PurgeAccount): Promise<Purge> {
    const { meta, wanted } = command;
    const { account } = meta;
    if (wanted.dryRun === true) return this.work.plan(account);
    const reason = await sealReason(this.sealing, account, wanted.reason);
    const purge = await this.work.run({
      account,
      actor: actorOf(meta.caller),
      cause: 'asked',
      ...reason.data,
      reasonBlobs: reason.blobs,
    });
    // What was purged is on record whatever becomes of the key: a repetition purges what is past then.
    const commands = completing(command, 'keeping', 201, { purgeId: purge.purgeId });
    if (commands.length > 0) {
      const completed = await this.store.append({ account, writes: [], commands });
      if (completed.kind !== 'appended') throw claimLost();
    }
    return purge;
  }

  protected override async replay({ meta }: PurgeAccount, done: DoneCommand): Promise<Purge> {
    const purges = foldPurges(await this.keeping.all(meta.account, { types: purgeTypes }));
    const purge = purges.find(({ purgeId }) => purgeId === done.result.note?.purgeId);
    if (purge === undefined)
      throw new Problem(409, 'not_found', 'What the first request answered cannot be told again.');
    return purge;
  }
}

@ApiTags('keeping')
@Controller('v1/accounts/:account/purges')
export class PurgeRoutes {
  constructor(
    private readonly bus: CommandBus,
    private readonly keeping: KeepingLog,
    private readonly cursors: Cursors,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  @Get()
  @Allow('auditor')
  @UseInterceptors(RecordReads)
  @ApiOperation({ summary: 'What was purged' })
  @ApiOkResponse({ schema: purgesSchema })
  async list(
    @Account() account: string,
    @StrictQuery(pagingFields) query: QueryOf<typeof pagingFields>,
  ): Promise<Page<Purge>> {
    const size = await this.store.accountSize(account);
    const purges = foldPurges(await this.keeping.all(account, { types: purgeTypes }));
    const all = purges.map((purge) => ({ ...purge, id: purge.purgeId ?? '' }));
    const filter = JSON.stringify(['purges', account]);
    const page = pageById(all, query, filter, this.cursors, size === 0n ? null : String(size - 1n));
    return { ...page, items: page.items.map(({ id: _, ...purge }) => purge) };
  }

  @Post()
  @Allow()
  @ApiOperation({ summary: 'Remove what is past its retention and not held' })
  @ApiOkResponse({ description: 'A dry run: what would be removed.', schema: purgeSchema })
  @ApiCreatedResponse({ description: 'Removed, and on record.', schema: purgeSchema })
  async purge(
    @Meta() meta: CommandMeta,
    @Body() body: NewPurge,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<Purge> {
    const command = new PurgeAccount(meta, body);
    const purge = await this.bus.execute(command);
    void reply.status(purge.dryRun ? HttpStatus.OK : HttpStatus.CREATED);
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
    return purge;
  }
}
