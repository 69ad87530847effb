import { randomUUID } from 'node:crypto';
import { Body, Controller, Get, HttpStatus, Inject, Post, Res, UseInterceptors } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiCreatedResponse, ApiOkResponse, ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { areTogether, type Reading } from '#audit';
import type { EventStore } from '#event-store';
import { keepingStream, type Hold } from '#keeping';
import {
  Account,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  CurrentCaller,
  Cursors,
  EVENT_STORE,
  IsJsonObject,
  Meta,
  Nested,
  pagingFields,
  PathId,
  Problem,
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
import { asData, type Sealed } from '#record';
import type { KeyErasure, Scope, Sealing } from '#sealing';
import { completing } from '../accounts/completion.js';
import { systemAccount } from '../accounts/directory-state.js';
import { pageById, type Page } from '../accounts/paging.js';
import { ReasonBody } from '../accounts/reason.js';
import { Readings } from '../audit/readings.js';
import { RecordReads } from '../audit/record-reads.js';
import { ErasureWork, erasureTypes, foldErasures, type Erasure, type PayloadErased } from './erasure-work.js';
import { KeepingLog, type KeepingChange } from './keeping-log.js';
import { erasureSchema, erasuresSchema } from './keeping-schemas.js';
import { ErasureScopeBody, onlyField } from './scopes.js';

class NewErasure extends ReasonBody {
  @ApiProperty({ type: ErasureScopeBody })
  @IsJsonObject()
  @Nested(() => ErasureScopeBody)
  scope!: ErasureScopeBody;
}

/** Erases the content of a scope: destroys its keys and blobs; what was recorded of it stays, without the content. */
export class EraseScope extends AccountCommand<Erasure> {
  override readonly allows: readonly Role[] = ['operator'];

  constructor(
    meta: CommandMeta,
    readonly wanted: NewErasure,
  ) {
    super(meta);
  }
}

/** The scope of an erasure, for the keys and for the record. */
interface Erased {
  readonly keys: Scope | { readonly kind: 'everything' };
  readonly scope: PayloadErased['scope'];
}

@CommandHandler(EraseScope)
export class EraseScopeHandler extends AccountCommandHandler<EraseScope, Erasure> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing & KeyErasure,
    private readonly keeping: KeepingLog,
    private readonly work: ErasureWork,
    private readonly readings: Readings,
  ) {
    super();
  }

  protected override async run(command: EraseScope): Promise<Erasure> {
    const { meta, wanted } = command;
    const { account } = meta;
    const erased = await this.scopeOf(account, wanted.scope);
    const erasureId = randomUUID();
    let same: string | undefined;
    await this.keeping.change(account, async ({ holds }) => {
      await this.refuseHeld(account, erased.scope, [...holds.values()]);
      // Anew on each try: a key that was made meanwhile is among them.
      const { ids } = await this.sealing.livingKeys(account, erased.keys);
      same = await this.earlier(account, erased.scope, ids);
      if (same !== undefined) {
        return { events: [], commands: completing(command, keepingStream, 200, { erasureId: same }) };
      }
      return this.begin(command, erasureId, erased.scope, ids);
    });
    return this.finished(account, same ?? erasureId);
  }

  protected override replay({ meta }: EraseScope, done: DoneCommand): Promise<Erasure> {
    return this.finished(meta.account, String(done.result.note?.erasureId));
  }

  private async scopeOf(account: string, body: ErasureScopeBody): Promise<Erased> {
    const field = onlyField(body);
    const id = String(body[field]);
    switch (field) {
      case 'sessionId':
        return { keys: { kind: 'session', id }, scope: { kind: 'session', id } };
      case 'dataSubject':
        return {
          keys: { kind: 'subject', id },
          scope: { kind: 'subject', id: await this.sealing.searchHash(account, id) },
        };
      case 'account':
        if (account === systemAccount)
          throw new Problem(422, 'not_erasable', 'The account system holds what the others are proved by.');
        return { keys: { kind: 'everything' }, scope: { kind: 'account' } };
    }
  }

  /** The intent. From its commit on the erasure is done, by whoever comes to it. */
  private async begin(
    command: EraseScope,
    erasureId: string,
    scope: PayloadErased['scope'],
    keys: readonly string[],
  ): Promise<KeepingChange> {
    const { account, caller } = command.meta;
    const { reason, blobs } = await this.sealReason(account, erasureId, command.wanted.reason ?? null);
    const data: PayloadErased = { erasureId, state: 'begun', scope, keys, blobs: 0, reason };
    return {
      events: [{ type: 'payload.erased', actor: actorOf(caller), data: asData(data) }],
      blobs,
      commands: completing(command, keepingStream, 201, { erasureId }),
    };
  }

  /** Under a key of its own, which is made after the keys were listed: the reason outlives what it was for. */
  private async sealReason(
    account: string,
    erasureId: string,
    reason: string | null,
  ): Promise<{ readonly reason: Sealed | null; readonly blobs: KeepingChange['blobs'] }> {
    if (reason === null || reason === '') return { reason: null, blobs: [] };
    const envelope = await this.sealing.envelope(account, { kind: 'session', id: `erasure/${erasureId}` });
    return { reason: envelope.seal(reason), blobs: envelope.blobs() };
  }

  /** The last erasure of this scope, when no key of it was made since. */
  private async earlier(
    account: string,
    scope: PayloadErased['scope'],
    living: readonly string[],
  ): Promise<string | undefined> {
    const erasures = foldErasures(await this.keeping.all(account, { types: erasureTypes }));
    const same = erasures.findLast((one) => one.scope.kind === scope.kind && one.scope.id === (scope.id ?? null));
    return same !== undefined && living.every((id) => same.keys.includes(id)) ? same.erasureId : undefined;
  }

  private async finished(account: string, erasureId: string): Promise<Erasure> {
    const events = await this.keeping.all(account, { types: erasureTypes });
    const begun = events.find(({ event }) => event.data.erasureId === erasureId && event.data.state === 'begun');
    if (begun === undefined) throw new Error('an erasure without its intent');
    await this.work.finish(account, begun.event);
    const erasures = foldErasures(await this.keeping.all(account, { types: erasureTypes }));
    const erasure = erasures.find((one) => one.erasureId === erasureId);
    if (erasure === undefined) throw new Error('an erasure without its events');
    return erasure;
  }

  private async refuseHeld(account: string, scope: PayloadErased['scope'], holds: readonly Hold[]): Promise<void> {
    const inTheWay: string[] = [];
    for (const hold of holds) if (await this.stands(account, scope, hold)) inTheWay.push(hold.holdId);
    if (inTheWay.length === 0) return;
    const detail = `A legal hold is on what would be erased: ${inTheWay.join(', ')}. Release it first.`;
    throw new Problem(409, 'held', detail);
  }

  /** Whether a hold stands in the way: it is on the scope itself, or on something that is on record together with it. */
  private async stands(account: string, scope: PayloadErased['scope'], { scope: held }: Hold): Promise<boolean> {
    if (scope.kind === 'account' || held.kind === 'account') return true;
    if (held.kind === scope.kind) return held.id === scope.id;
    const [erased, id] = [{ kind: scope.kind, id: scope.id ?? '' }, held.id ?? ''];
    const { kind } = held;
    const size = await this.store.accountSize(account);
    return this.readings.ofRecord(account, ({ table, completeUpTo }: Reading) => {
      if ((completeUpTo ?? -1n) < size - 1n) throw behind();
      return areTogether(this.readings.sql, table, account, erased, { kind, id });
    });
  }
}

/** What is held is not erased on the word of a read model that has not seen all. */
const behind = (): Problem =>
  new Problem(503, 'read_model_behind', 'Holds cannot be looked up yet: the read model is behind. Try again.', [], {
    'retry-after': '5',
  });

/** An erasure as people see it. */
interface ErasureView extends Omit<Erasure, 'reason'> {
  readonly reason: Shown;
}

@ApiTags('keeping')
@Controller('v1/accounts/:account/erasures')
export class ErasureRoutes {
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
  @ApiOperation({ summary: 'Erasures' })
  @ApiOkResponse({ schema: erasuresSchema })
  async list(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(pagingFields) query: QueryOf<typeof pagingFields>,
  ): Promise<Page<ErasureView>> {
    const size = await this.store.accountSize(account);
    const all = (await this.erasures(account)).map((erasure) => ({ ...erasure, id: erasure.erasureId }));
    const filter = JSON.stringify(['erasures', account]);
    const page = pageById(all, query, filter, this.cursors, size === 0n ? null : String(size - 1n));
    const items = page.items.map(({ id: _, ...erasure }) => this.view(account, caller, erasure));
    return { ...page, items: await Promise.all(items) };
  }

  @Get(':erasure')
  @Allow('auditor')
  @UseInterceptors(RecordReads)
  @ApiOperation({ summary: 'One erasure' })
  @ApiOkResponse({ schema: erasureSchema })
  async read(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @PathId('erasure', 'The erasure.') id: string,
  ): Promise<ErasureView> {
    const erasure = (await this.erasures(account)).find(({ erasureId }) => erasureId === id);
    if (erasure === undefined) throw new Problem(404, 'not_found', 'There is no such erasure.');
    return this.view(account, caller, erasure);
  }

  @Post()
  @Allow()
  @ApiOperation({ summary: 'Erase the content of a data subject, a session or the account' })
  @ApiCreatedResponse({
    description: 'Erased. The same scope again, with nothing new under it, answers with the earlier erasure.',
    schema: erasureSchema,
  })
  async erase(
    @Meta() meta: CommandMeta,
    @CurrentCaller() caller: Caller,
    @Body() body: NewErasure,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<ErasureView> {
    const command = new EraseScope(meta, body);
    const erasure = await this.bus.execute(command);
    void reply.status(HttpStatus.CREATED);
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
    return this.view(meta.account, caller, erasure);
  }

  private async erasures(account: string): Promise<readonly Erasure[]> {
    return foldErasures(await this.keeping.all(account, { types: erasureTypes }));
  }

  private async view(account: string, caller: Caller, erasure: Erasure): Promise<ErasureView> {
    return { ...erasure, reason: await show(this.sealing, caller, account, erasure.reason) };
  }
}
