import { randomUUID } from 'node:crypto';
import { Body, Controller, Delete, Get, Headers, HttpCode, Inject, Post, Res, UseInterceptors } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import {
  ApiCreatedResponse,
  ApiHeader,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiProperty,
  ApiTags,
} from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import type { BlobWrite, EventStore } from '#event-store';
import { foldKeeping, type Hold, type HoldScope } from '#keeping';
import {
  Account,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  CurrentCaller,
  Cursors,
  etagOf,
  EVENT_STORE,
  IsJsonObject,
  Meta,
  Nested,
  pagingFields,
  PathId,
  Problem,
  requireMatch,
  SEALING,
  show,
  StrictQuery,
  type Caller,
  type CommandMeta,
  type DoneCommand,
  type QueryOf,
  type Role,
  type Shown,
} from '#platform';
import { asData } from '#record';
import type { Sealing } from '#sealing';
import { completing } from '../accounts/completion.js';
import { pageById, type Page } from '../accounts/paging.js';
import { ReasonBody, reasonQuery, sealReason } from '../accounts/reason.js';
import { RecordReads } from '../audit/record-reads.js';
import { KeepingLog } from './keeping-log.js';
import { holdSchema, holdsSchema } from './keeping-schemas.js';
import { HoldScopeBody, onlyField } from './scopes.js';

class NewHold extends ReasonBody {
  @ApiProperty({ type: HoldScopeBody })
  @IsJsonObject()
  @Nested(() => HoldScopeBody)
  scope!: HoldScopeBody;
}

/** Places a legal hold: what it is on is neither purged nor erased until it is released. */
export class PlaceHold extends AccountCommand<Hold> {
  override readonly allows: readonly Role[] = ['operator'];

  constructor(
    meta: CommandMeta,
    readonly wanted: NewHold,
  ) {
    super(meta);
  }
}

@CommandHandler(PlaceHold)
export class PlaceHoldHandler extends AccountCommandHandler<PlaceHold, Hold> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly keeping: KeepingLog,
  ) {
    super();
  }

  protected override async run(command: PlaceHold): Promise<Hold> {
    const { meta, wanted } = command;
    const { account } = meta;
    const { scope, blobs } = await this.scopeOf(account, wanted.scope);
    const reason = await sealReason(this.sealing, account, wanted.reason);
    const holdId = randomUUID();
    const appended = await this.keeping.change(account, () => ({
      events: [
        {
          type: 'hold.placed',
          actor: actorOf(meta.caller),
          data: asData({ holdId, scope, reason: reason.data.reason ?? null }),
        },
      ],
      blobs: [...blobs, ...reason.blobs],
      commands: completing(command, 'keeping', 201),
    }));
    return holdIn(appended.events);
  }

  protected override async replay({ meta }: PlaceHold, done: DoneCommand): Promise<Hold> {
    return holdIn(await this.store.readAccount(meta.account, { after: done.first - 1n, until: done.last, limit: 1 }));
  }

  private async scopeOf(
    account: string,
    body: HoldScopeBody,
  ): Promise<{ readonly scope: HoldScope; readonly blobs: readonly BlobWrite[] }> {
    const field = onlyField(body);
    const id = String(body[field]);
    if (field === 'account') return { scope: { kind: 'account' }, blobs: [] };
    if (field !== 'dataSubject') return { scope: { kind: kinds[field], id }, blobs: [] };
    // Under the subject's own key: an erasure of them after the hold takes their name from here too.
    const envelope = await this.sealing.envelope(account, { kind: 'subject', id });
    const name = envelope.seal(id);
    return {
      scope: { kind: 'subject', id: await this.sealing.searchHash(account, id), name },
      blobs: envelope.blobs(),
    };
  }
}

const kinds = { sessionId: 'session', agentId: 'agent', pluginId: 'plugin' } as const;

const holdIn = (events: Parameters<typeof foldKeeping>[0]): Hold => {
  const [hold] = foldKeeping(events).holds.values();
  if (hold === undefined) throw new Error('a hold without its event');
  return hold;
};

/** Releases a hold: what it was on is purged and erased like everything else from then on. */
export class ReleaseHold extends AccountCommand<null> {
  override readonly allows: readonly Role[] = ['operator'];

  constructor(
    meta: CommandMeta,
    readonly holdId: string,
    readonly reason: string | null,
    readonly ifMatch: string | undefined,
  ) {
    super(meta);
  }
}

@CommandHandler(ReleaseHold)
export class ReleaseHoldHandler extends AccountCommandHandler<ReleaseHold, null> {
  constructor(
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly keeping: KeepingLog,
  ) {
    super();
  }

  protected override async run(command: ReleaseHold): Promise<null> {
    const { meta, holdId } = command;
    const reason = await sealReason(this.sealing, meta.account, command.reason);
    await this.keeping.change(meta.account, ({ holds, released }) => {
      if (released.has(holdId)) throw new Problem(410, 'hold_released', 'This hold was released before.');
      if (!holds.has(holdId)) throw new Problem(404, 'unknown_hold', 'There is no such hold.');
      // A hold never changes: it has one version for as long as it is in force.
      requireMatch(command.ifMatch, etagOf(1));
      return {
        events: [
          {
            type: 'hold.released',
            actor: actorOf(meta.caller),
            data: asData({ holdId, reason: reason.data.reason ?? null }),
          },
        ],
        blobs: reason.blobs,
        commands: completing(command, 'keeping', 204),
      };
    });
    return null;
  }

  protected override replay(): Promise<null> {
    return Promise.resolve(null);
  }
}

/** A hold as people see it. */
interface HoldView extends Omit<Hold, 'scope' | 'reason'> {
  readonly scope: { readonly kind: HoldScope['kind']; readonly id?: string; readonly name?: Shown };
  readonly reason: Shown;
}

@ApiTags('keeping')
@Controller('v1/accounts/:account/holds')
export class HoldRoutes {
  constructor(
    private readonly bus: CommandBus,
    private readonly keeping: KeepingLog,
    private readonly cursors: Cursors,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  @Get()
  @Allow('auditor')
  @UseInterceptors(RecordReads)
  @ApiOperation({ summary: 'The holds in force' })
  @ApiOkResponse({ schema: holdsSchema })
  async list(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(pagingFields) query: QueryOf<typeof pagingFields>,
  ): Promise<Page<HoldView & { readonly id?: never }>> {
    const size = await this.store.accountSize(account);
    const { holds } = await this.keeping.read(account);
    const all = [...holds.values()].map((hold) => ({ ...hold, id: hold.holdId }));
    const filter = JSON.stringify(['holds', account]);
    const page = pageById(all, query, filter, this.cursors, size === 0n ? null : String(size - 1n));
    return { ...page, items: await Promise.all(page.items.map((hold) => this.view(account, caller, hold))) };
  }

  @Post()
  @Allow()
  @ApiOperation({ summary: 'Place a legal hold' })
  @ApiCreatedResponse({ description: 'In force: what it is on is neither purged nor erased.', schema: holdSchema })
  async place(
    @Meta() meta: CommandMeta,
    @CurrentCaller() caller: Caller,
    @Body() body: NewHold,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<HoldView> {
    const command = new PlaceHold(meta, body);
    const hold = await this.bus.execute(command);
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
    return this.view(meta.account, caller, hold);
  }

  @Delete(':hold')
  @Allow()
  @HttpCode(204)
  @ApiHeader({ name: 'If-Match', required: false })
  @ApiOperation({ summary: 'Release a hold' })
  @ApiNoContentResponse({ description: 'Released; it stays on record that there was one.' })
  async release(
    @Meta() meta: CommandMeta,
    @PathId('hold', 'The hold.') holdId: string,
    @StrictQuery(reasonQuery) query: QueryOf<typeof reasonQuery>,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<void> {
    const command = new ReleaseHold(meta, holdId, query.reason, ifMatch);
    await this.bus.execute(command);
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
  }

  private async view(account: string, caller: Caller, hold: Hold): Promise<HoldView> {
    const { holdId, scope, placedAt, position, actor } = hold;
    const name = scope.name ?? null;
    return {
      holdId,
      scope: {
        kind: scope.kind,
        ...(scope.id === undefined ? {} : { id: scope.id }),
        ...(name === null ? {} : { name: await show(this.sealing, caller, account, name) }),
      },
      reason: await show(this.sealing, caller, account, hold.reason),
      placedAt,
      actor,
      position,
    };
  }
}
