import { Controller, Get, Inject } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { findSessionClears } from '#audit';
import { Account, CurrentCaller, Cursors, SEALING, StrictQuery, type Caller, type QueryOf } from '#platform';
import type { Sealing } from '#sealing';
import { given } from './given.js';
import { Paging } from './paging.js';
import { clearFields } from './lifecycle-queries.js';
import { clearsSchema } from './lifecycle-schemas.js';
import { ReadRoute } from './read-routes.js';
import { Readings } from './readings.js';
import { shownJson } from './shown-json.js';

/** The durable view of clears. */
@ApiTags('record')
@Controller('v1/accounts/:account/session-clears')
export class ClearsController {
  constructor(
    @Inject(Readings) private readonly readings: Readings,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(Cursors) private readonly cursors: Cursors,
  ) {}

  @Get()
  @ReadRoute('Clears of sessions: what went, what each hook run did, and what was lost', clearsSchema)
  async clears(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(clearFields) query: QueryOf<typeof clearFields>,
  ): Promise<string> {
    const paging = new Paging(this.cursors, ['session-clears', account], query);
    const place = paging.place();
    const { source, sessionId, clearId, agentId, state, clearing, completed, from, to, order, limit } = query;
    const answer = await this.readings.ofRecord(account, async ({ table, completeUpTo }) => {
      const { items, next } = await findSessionClears(this.readings.sql, table, {
        account,
        order,
        limit,
        ...given({ source, sessionId, clearId, agentId, state, clearing, completed, from, to }),
        ...given({ after: place === null ? null : String(place[0]) }),
      });
      return paging.page(items, next === null ? null : [next], completeUpTo);
    });
    return shownJson(this.sealing, caller, account, answer);
  }
}
