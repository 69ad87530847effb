import { Controller, Get, Header, Inject, UseInterceptors } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { approvalStates, findApprovals } from '#audit';
import type { EventStore } from '#event-store';
import {
  Account,
  Allow,
  CurrentCaller,
  Cursors,
  EVENT_STORE,
  pagingFields,
  PathId,
  Problem,
  queryId,
  queryWord,
  SEALING,
  StrictQuery,
  type Caller,
  type QueryOf,
} from '#platform';
import { approvalStream } from '#record';
import type { Sealing } from '#sealing';
import { given } from '../audit/given.js';
import { Paging } from '../audit/paging.js';
import { orderField } from '../audit/queries.js';
import { Readings } from '../audit/readings.js';
import { RecordReads } from '../audit/record-reads.js';
import { shownJson } from '../audit/shown-json.js';
import { approvalSchema, approvalsSchema } from './approval-schemas.js';
import { approvalView, type ApprovalView } from './approval-view.js';

const fields = {
  state: queryWord('How it stands.', approvalStates, null),
  sessionId: queryId('The session.'),
  turnId: queryId('The turn.'),
  agentId: queryId('The agent.'),
  invocationId: queryId('The invocation that waits, or waited.'),
  pluginId: queryId('The plugin that asked.'),
  order: orderField,
  ...pagingFields,
} as const;

/** What a person is asked, and was asked: found by the read model, shown as their streams have it now. */
@ApiTags('approvals')
@Controller('v1/accounts/:account/approvals')
@UseInterceptors(RecordReads)
export class ListApprovalsRoutes {
  constructor(
    @Inject(Readings) private readonly readings: Readings,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(Cursors) private readonly cursors: Cursors,
  ) {}

  @Get()
  @Header('content-type', 'application/json; charset=utf-8')
  @Allow('approver', 'auditor', 'admin')
  @ApiOperation({ summary: 'Approvals that are pending, and those that were' })
  @ApiOkResponse({ schema: approvalsSchema })
  async list(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(fields) query: QueryOf<typeof fields>,
  ): Promise<string> {
    const paging = new Paging(this.cursors, ['approvals', account], query);
    const place = paging.place();
    const { cursor: _cursor, limit, order, ...filter } = query;
    const answer = await this.readings.ofRecord(account, async ({ table, completeUpTo }) => {
      const { items, next } = await findApprovals(this.readings.sql, table, {
        account,
        order,
        limit,
        ...given({ ...filter, after: place === null ? null : String(place[0]) }),
      });
      const views = await Promise.all(items.map((id) => this.view(account, id)));
      const shown = views.filter((view) => view !== null && (query.state === null || view.state === query.state));
      return paging.page(shown, next === null ? null : [next], completeUpTo);
    });
    return shownJson(this.sealing, caller, account, answer);
  }

  @Get(':approval')
  @Header('content-type', 'application/json; charset=utf-8')
  @Allow('approver', 'auditor', 'admin')
  @ApiOperation({ summary: 'One approval as it is now' })
  @ApiOkResponse({ schema: approvalSchema })
  async one(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @PathId('approval', 'The approval.') approvalId: string,
  ): Promise<string> {
    const view = await this.view(account, approvalId);
    if (view === null) throw new Problem(404, 'unknown_approval', 'There is no such approval.');
    return shownJson(this.sealing, caller, account, view);
  }

  private async view(account: string, approvalId: string): Promise<ApprovalView | null> {
    const stored = await this.store.readStream(account, approvalStream(approvalId));
    return approvalView(stored.map(({ event }) => event));
  }
}
