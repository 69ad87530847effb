import { Controller, Get, Inject } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import {
  invocationDetail,
  matchText,
  operationsNamed,
  orphanOperations,
  searchInvocations,
  SearchTooWide,
  withinSearchTime,
  type HandlerFilter,
  type InvocationQuery,
  type SearchPlace,
} from '#audit';
import type { EventStore } from '#event-store';
import {
  Account,
  CurrentCaller,
  Cursors,
  EVENT_STORE,
  PathId,
  Problem,
  queryPointer,
  SEALING,
  StrictQuery,
  type Caller,
  type CursorPosition,
  type QueryOf,
} from '#platform';
import { invocationStream } from '#record';
import type { Sealing } from '#sealing';
import { given } from './given.js';
import { Paging } from './paging.js';
import { purgedProblem } from './purged.js';
import { orphanFields, searchFields } from './queries.js';
import { ReadRoute } from './read-routes.js';
import { Readings } from './readings.js';
import { invocationSchema, invocationsSchema, operationsSchema, orphansSchema } from './schemas.js';
import { shownJson } from './shown-json.js';
import { TextSearchSwitch } from './text-search-switch.js';

type SearchFilters = QueryOf<typeof searchFields>;

/** Invocations, and the operations that they stand before and after. */
@ApiTags('record')
@Controller('v1/accounts/:account')
export class InvocationsController {
  constructor(
    @Inject(Readings) private readonly readings: Readings,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(Cursors) private readonly cursors: Cursors,
    @Inject(TextSearchSwitch) private readonly textSearch: TextSearchSwitch,
  ) {}

  @Get('invocations')
  @ReadRoute('Search invocations', invocationsSchema)
  async search(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(searchFields) query: SearchFilters,
  ): Promise<string> {
    if (query.text !== null) this.textSearch.check(caller);
    const paging = new Paging(this.cursors, ['invocations', account], query);
    const asked = await this.asQuery(account, query, paging.place());
    const { sql } = this.readings;
    const answer =
      query.text === null
        ? await this.readings.ofRecord(account, async ({ table, completeUpTo }) => {
            const { items, next } = await searchInvocations(sql, table, asked);
            return paging.page(items, next === null ? null : [next.at, next.position], completeUpTo);
          })
        : await this.readings.ofText(account, async ({ table, completeUpTo }, words) => {
            const { items, next } = await withinSearchTime(sql, async (tx) => {
              const text = await matchText(tx, words.table, account, query.text ?? '');
              return searchInvocations(tx, table, { ...asked, text });
            }).catch(tooWide);
            return paging.page(items, next === null ? null : [next.at, next.position], completeUpTo);
          });
    return shownJson(this.sealing, caller, account, answer);
  }

  @Get('invocations/:invocation')
  @ReadRoute('One invocation, with the value before and after every handler', invocationSchema)
  async one(
    @Account() account: string,
    @PathId('invocation', 'The invocation.') invocation: string,
    @CurrentCaller() caller: Caller,
  ): Promise<string> {
    // Before the stream is read: it then holds everything up to there.
    const size = await this.store.accountSize(account);
    const detail = invocationDetail(await this.store.readStream(account, invocationStream(invocation)));
    if (detail === null) throw await this.missing(account, invocation);
    const joined =
      detail.operationId === null
        ? { operations: [], completeUpTo: String(size - 1n) }
        : await this.operations(account, detail.operationId);
    return shownJson(this.sealing, caller, account, { ...detail, ...joined });
  }

  /** What was purged is told from what never was: the log knows how many events a stream was given. */
  private async missing(account: string, invocation: string): Promise<Problem> {
    const given = await this.store.streamVersion(account, invocationStream(invocation));
    return given > 0 ? purgedProblem() : new Problem(404, 'unknown_invocation', 'There is no such invocation.');
  }

  @Get('operations')
  @ReadRoute('Operations of which one side is missing', orphansSchema)
  async orphans(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(orphanFields) query: QueryOf<typeof orphanFields>,
  ): Promise<string> {
    const paging = new Paging(this.cursors, ['operations', account], query);
    const place = searchPlace(paging.place());
    const answer = await this.readings.ofRecord(account, async ({ table, completeUpTo }) => {
      const { items, next } = await orphanOperations(this.readings.sql, table, {
        account,
        side: query.side,
        order: query.order,
        limit: query.limit,
        ...given({ from: query.from, to: query.to, after: place }),
      });
      return paging.page(items, next === null ? null : [next.at, next.position], completeUpTo);
    });
    return shownJson(this.sealing, caller, account, answer);
  }

  @Get('operations/:operation')
  @ReadRoute('The hooks before and after one operation', operationsSchema)
  async operation(
    @Account() account: string,
    @PathId('operation', 'The operation.') operation: string,
    @CurrentCaller() caller: Caller,
  ): Promise<string> {
    const { operations, completeUpTo } = await this.operations(account, operation);
    if (operations.length === 0)
      throw new Problem(404, 'unknown_operation', 'No hook before or after such an operation is on record.');
    return shownJson(this.sealing, caller, account, { operationId: operation, items: operations, completeUpTo });
  }

  private async operations(account: string, operationId: string) {
    return this.readings.ofRecord(account, async ({ table, completeUpTo }) => ({
      operations: await operationsNamed(this.readings.sql, table, account, operationId),
      completeUpTo: completeUpTo === null ? null : String(completeUpTo),
    }));
  }

  private async asQuery(account: string, query: SearchFilters, place: CursorPosition | null): Promise<InvocationQuery> {
    const { clock, order, limit, dialect, hook, outcome, agentId, sessionId, turnId, correlationId, operationId } =
      query;
    const { root, hop, reasonCode, actor, effect, from, to } = query;
    const hash = (text: string): Promise<string> => this.sealing.searchHash(account, text);
    return {
      account,
      clock,
      order,
      limit,
      ...given({ dialect, hook, outcome, agentId, sessionId, turnId, correlationId, operationId, root, hop }),
      ...given({ reasonCode, actor, effect, from, to, after: searchPlace(place) }),
      ...given({ dataSubject: query.dataSubject === null ? null : await hash(query.dataSubject) }),
      // A recipient who is a person is on record as an HMAC only.
      ...given({ target: query.target === null ? null : [query.target, await hash(query.target)] }),
      ...given({ handler: handlerFilter(query) }),
    };
  }
}

const tooWide = (error: unknown): never => {
  if (!(error instanceof SearchTooWide)) throw error;
  const reason = 'would have to be looked for in too many texts: give a longer text, or narrow by other filters';
  throw new Problem(400, 'search_too_wide', 'The search took too long.', [{ pointer: queryPointer('text'), reason }]);
};

const handlerFilter = ({ pluginId, pluginVersion, handlerOutcome, cause }: SearchFilters): HandlerFilter | null => {
  const filter = given({ pluginId, pluginVersion, outcome: handlerOutcome, cause });
  return Object.keys(filter).length === 0 ? null : filter;
};

const searchPlace = (place: CursorPosition | null): SearchPlace | null =>
  place === null ? null : { at: String(place[0]), position: String(place[1]) };
