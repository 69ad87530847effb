import { Controller, Delete, Get, Header, Headers, HttpCode, Inject, Res, UseInterceptors } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiHeader, ApiNoContentResponse, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { decideRevoke, evolveGrant, unknownGrant } from '#approvals';
import { findGrants } from '#audit';
import type { EventStore } from '#event-store';
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
  Meta,
  pagingFields,
  PathId,
  Problem,
  queryWord,
  requireMatch,
  SEALING,
  StrictQuery,
  type Caller,
  type CommandMeta,
  type QueryOf,
  type Role,
} from '#platform';
import { grantStream, type RecordedEvent } from '#record';
import type { Sealing } from '#sealing';
import { replayable } from '../../gateway/replayable.js';
import { completing } from '../accounts/completion.js';
import { reasonQuery, sealReason } from '../accounts/reason.js';
import { given } from '../audit/given.js';
import { Paging } from '../audit/paging.js';
import { orderField } from '../audit/queries.js';
import { Readings } from '../audit/readings.js';
import { RecordReads } from '../audit/record-reads.js';
import { shownJson } from '../audit/shown-json.js';
import { appendDecided } from './append-decided.js';
import { grantsSchema } from './approval-schemas.js';
import { grantView } from './approval-view.js';

/** Takes a grant back: from then on its calls are asked for again. */
export class RevokeGrant extends AccountCommand<null> {
  override readonly allows: readonly Role[] = ['approver', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly grantId: string,
    readonly reason: string | null,
    readonly ifMatch: string | undefined,
  ) {
    super(meta);
  }
}

@CommandHandler(RevokeGrant)
export class RevokeGrantHandler extends AccountCommandHandler<RevokeGrant, null> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
  ) {
    super();
  }

  protected override async run(command: RevokeGrant): Promise<null> {
    const { meta, grantId, ifMatch } = command;
    const { account } = meta;
    const stream = grantStream(grantId);
    const reason = await sealReason(this.sealing, account, command.reason);
    for (;;) {
      const events = (await this.store.readStream(account, stream)).map(({ event }) => event);
      const revoked = decideRevoke(events.reduce(evolveGrant, unknownGrant), reason.data.reason ?? null);
      const last = events.at(-1);
      if (last === undefined) throw new Problem(404, 'unknown_grant', 'There is no such grant.');
      if (revoked.length === 0) throw new Problem(410, 'grant_revoked', 'This grant was revoked before.');
      requireMatch(ifMatch, etagOf(last.streamVersion));
      const fields = { ...about(last), actor: actorOf(meta.caller) };
      const writes = [
        { stream, expectedVersion: last.streamVersion, events: revoked.map((event) => ({ ...fields, ...event })) },
      ];
      const commands = completing(command, stream, 204);
      if (await appendDecided(this.store, { account, writes, blobs: reason.blobs, commands })) return null;
    }
  }

  protected override replay(): Promise<null> {
    return Promise.resolve(null);
  }
}

const about = ({ pluginId }: RecordedEvent): { readonly pluginId?: string } =>
  pluginId === undefined ? {} : { pluginId };

const fields = {
  state: queryWord('Whether it is in force.', ['in_force', 'revoked'], null),
  order: orderField,
  ...pagingFields,
} as const;

/** What was allowed for always. */
@ApiTags('approvals')
@Controller('v1/accounts/:account/approval-grants')
export class GrantRoutes {
  constructor(
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(Readings) private readonly readings: Readings,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(Cursors) private readonly cursors: Cursors,
  ) {}

  @Get()
  @UseInterceptors(RecordReads)
  @Header('content-type', 'application/json; charset=utf-8')
  @Allow('approver', 'auditor', 'admin')
  @ApiOperation({ summary: 'Grants: what was allowed for always, by whom, and how often it was used' })
  @ApiOkResponse({ schema: grantsSchema })
  async list(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(fields) query: QueryOf<typeof fields>,
  ): Promise<string> {
    const paging = new Paging(this.cursors, ['approval-grants', account], query);
    const place = paging.place();
    const { state, order, limit } = query;
    const answer = await this.readings.ofRecord(account, async ({ table, completeUpTo }) => {
      const { items, next } = await findGrants(this.readings.sql, table, {
        account,
        order,
        limit,
        ...(state === null ? {} : { inForce: state === 'in_force' }),
        ...given({ after: place === null ? null : String(place[0]) }),
      });
      const views = await Promise.all(
        items.map(async ({ grantId, uses }) => {
          const stored = await this.store.readStream(account, grantStream(grantId));
          return grantView(
            stored.map(({ event }) => event),
            uses,
          );
        }),
      );
      const shown = views.filter(
        (view) => view !== null && (state === null || view.inForce === (state === 'in_force')),
      );
      return paging.page(shown, next === null ? null : [next], completeUpTo);
    });
    return shownJson(this.sealing, caller, account, answer);
  }

  @Delete(':grant')
  @HttpCode(204)
  @Allow('approver')
  @ApiOperation({ summary: 'Revoke a grant' })
  @ApiHeader({ name: 'If-Match', required: false, description: '`*`, or the version of the grant.' })
  @ApiNoContentResponse({ description: 'Its calls are asked for again from now on.' })
  async revoke(
    @Meta() meta: CommandMeta,
    @PathId('grant', 'The grant.') grantId: string,
    @Headers('if-match') ifMatch: string | undefined,
    @StrictQuery(reasonQuery) { reason }: QueryOf<typeof reasonQuery>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<void> {
    await replayable(this.bus, new RevokeGrant(meta, grantId, reason, ifMatch), reply);
  }
}
