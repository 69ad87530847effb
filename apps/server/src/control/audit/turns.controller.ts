import { Controller, Get, Inject } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import {
  invocationDetail,
  lineageOf,
  sessionSummary,
  sessionTimeline,
  sessionTurns,
  turnInvocations,
  turnsNamed,
  withPurged,
  type InvocationDetail,
  type TurnInvocation,
} from '#audit';
import type { EventStore } from '#event-store';
import {
  Account,
  CurrentCaller,
  Cursors,
  EVENT_STORE,
  PathId,
  Problem,
  SEALING,
  StrictQuery,
  type Caller,
  type CursorPosition,
  type QueryOf,
} from '#platform';
import { invocationStream } from '#record';
import type { Sealing } from '#sealing';
import { Paging } from './paging.js';
import { lineageFields, sessionTurnFields, timelineFields, turnFields } from './queries.js';
import { ReadRoute } from './read-routes.js';
import { Readings } from './readings.js';
import { lineageSchema, sessionTurnsSchema, timelineSchema, turnSchema } from './schemas.js';
import { shownJson } from './shown-json.js';

/** Streams that one request reads at the same time: the pool is everybody's. */
const streamsAtOnce = 4;

/** Turns, sessions, and what led to what. */
@ApiTags('record')
@Controller('v1/accounts/:account')
export class TurnsController {
  constructor(
    @Inject(Readings) private readonly readings: Readings,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(Cursors) private readonly cursors: Cursors,
  ) {}

  @Get('turns/:turn')
  @ReadRoute("A turn's whole history, session by session", turnSchema)
  async turn(
    @Account() account: string,
    @PathId('turn', 'The turn.') turnId: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(turnFields) query: QueryOf<typeof turnFields>,
  ): Promise<string> {
    const { sql } = this.readings;
    const { sessionId, limit } = query;
    const paging = new Paging(this.cursors, ['turns', account, turnId], query);
    const place = paging.place();
    const found = await this.readings.ofRecord(account, async ({ table, completeUpTo }) => ({
      completeUpTo,
      sessions: await withPurged(sql, table, account, await turnsNamed(sql, table, account, turnId, sessionId)),
      ...(await turnInvocations(sql, table, {
        account,
        turnId,
        sessionId,
        limit,
        ...(place === null ? {} : { after: { sessionBegan: String(place[0]), position: String(place[1]) } }),
      })),
    }));
    if (found.sessions.length === 0) throw new Problem(404, 'unknown_turn', 'There is no such turn.');
    const next = found.next === null ? null : [found.next.sessionBegan, found.next.position];
    const page = paging.page(await this.details(account, found.items), next, found.completeUpTo);
    return shownJson(this.sealing, caller, account, { turnId, sessions: found.sessions, ...page });
  }

  @Get('sessions/:session/turns')
  @ReadRoute('The turns of a session', sessionTurnsSchema)
  async turns(
    @Account() account: string,
    @PathId('session', 'The session.') sessionId: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(sessionTurnFields) query: QueryOf<typeof sessionTurnFields>,
  ): Promise<string> {
    const { sql } = this.readings;
    const paging = new Paging(this.cursors, ['session-turns', account, sessionId], query);
    const { order, limit, from, to } = query;
    const after = position(paging.place());
    const answer = await this.readings.ofRecord(account, async ({ table, completeUpTo }) => {
      const bounds = { ...(from === null ? {} : { from }), ...(to === null ? {} : { to }) };
      const { items, next } = await sessionTurns(sql, table, { account, sessionId, order, limit, ...after, ...bounds });
      const session = await sessionSummary(sql, table, account, sessionId);
      return { sessionId, session, ...paging.page(items, next === null ? null : [next], completeUpTo) };
    });
    return shownJson(this.sealing, caller, account, answer);
  }

  @Get('sessions/:session/timeline')
  @ReadRoute('Turns, clears, injections, session extensions and cron runs of a session', timelineSchema)
  async timeline(
    @Account() account: string,
    @PathId('session', 'The session.') sessionId: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(timelineFields) query: QueryOf<typeof timelineFields>,
  ): Promise<string> {
    const paging = new Paging(this.cursors, ['session-timeline', account, sessionId], query);
    const { order, limit } = query;
    const after = position(paging.place());
    const answer = await this.readings.ofRecord(account, async ({ table, completeUpTo }) => {
      const asked = { account, sessionId, order, limit, ...after };
      const { items, next } = await sessionTimeline(this.readings.sql, table, asked);
      return { sessionId, ...paging.page(items, next === null ? null : [next], completeUpTo) };
    });
    return shownJson(this.sealing, caller, account, answer);
  }

  @Get('lineage/:root')
  @ReadRoute('Everything that one original event led to', lineageSchema)
  async lineage(
    @Account() account: string,
    @PathId('root', 'The invocation that everything began with.') root: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(lineageFields) query: QueryOf<typeof lineageFields>,
  ): Promise<string> {
    const paging = new Paging(this.cursors, ['lineage', account, root], query);
    const after = position(paging.place());
    const answer = await this.readings.ofRecord(account, async ({ table, completeUpTo }) => {
      const { items, next } = await lineageOf(this.readings.sql, table, {
        account,
        root,
        limit: query.limit,
        ...after,
      });
      return { root, ...paging.page(items, next === null ? null : [next], completeUpTo) };
    });
    if (answer.items.length === 0 && query.cursor === null)
      throw new Problem(404, 'unknown_root', 'Nothing on record has this root.');
    return shownJson(this.sealing, caller, account, answer);
  }

  /** From the invocations' own streams: to the last event, whatever the read model has seen. */
  private async details(account: string, found: readonly TurnInvocation[]): Promise<readonly InvocationDetail[]> {
    const details: (InvocationDetail | null)[] = [];
    for (let start = 0; start < found.length; start += streamsAtOnce) {
      const some = found.slice(start, start + streamsAtOnce);
      const streams = some.map(({ invocationId }) => this.store.readStream(account, invocationStream(invocationId)));
      details.push(...(await Promise.all(streams)).map(invocationDetail));
    }
    return details.filter((detail) => detail !== null);
  }
}

const position = (place: CursorPosition | null): { readonly after?: string } =>
  place === null ? {} : { after: String(place[0]) };
