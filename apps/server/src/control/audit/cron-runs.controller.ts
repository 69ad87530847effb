import { Controller, Get, Inject } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { findCronRuns, reportedJobs } from '#audit';
import { Account, CurrentCaller, Cursors, SEALING, StrictQuery, type Caller, type QueryOf } from '#platform';
import type { Sealing } from '#sealing';
import { given } from './given.js';
import { Paging } from './paging.js';
import { cronFields, cronJobFields } from './lifecycle-queries.js';
import { cronJobsSchema, cronRunsSchema } from './lifecycle-schemas.js';
import { ReadRoute } from './read-routes.js';
import { Readings } from './readings.js';
import { shownJson } from './shown-json.js';

/** The cron audit. */
@ApiTags('record')
@Controller('v1/accounts/:account/cron-runs')
export class CronRunsController {
  constructor(
    @Inject(Readings) private readonly readings: Readings,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(Cursors) private readonly cursors: Cursors,
  ) {}

  @Get()
  @ReadRoute('Every slot of the cron jobs and what became of it', cronRunsSchema)
  async runs(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(cronFields) query: QueryOf<typeof cronFields>,
  ): Promise<string> {
    const paging = new Paging(this.cursors, ['cron-runs', account], query);
    const place = paging.place();
    const { source, jobId, runId, agentId, sessionId, kind, decision, state, status, notification, pluginId } = query;
    const { from, to, order, limit } = query;
    const answer = await this.readings.ofRecord(account, async ({ table, completeUpTo }) => {
      const { items, next } = await findCronRuns(this.readings.sql, table, {
        account,
        order,
        limit,
        ...given({ source, jobId, runId, agentId, sessionId, kind, decision, state, status, notification, pluginId }),
        ...given({ from, to }),
        ...given({ after: place === null ? null : { slotAt: String(place[0]), runId: String(place[1]) } }),
      });
      return paging.page(items, next === null ? null : [next.slotAt, next.runId], completeUpTo);
    });
    return shownJson(this.sealing, caller, account, answer);
  }
}

/** Jobs of hosts' own schedulers, as they reported them. */
@ApiTags('record')
@Controller('v1/accounts/:account/cron-jobs')
export class CronJobsController {
  constructor(
    @Inject(Readings) private readonly readings: Readings,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(Cursors) private readonly cursors: Cursors,
  ) {}

  @Get()
  @ReadRoute(
    'Jobs that OpenClaw hosts reported (`cron_changed`), removed ones with their last snapshot',
    cronJobsSchema,
  )
  async jobs(
    @Account() account: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(cronJobFields) query: QueryOf<typeof cronJobFields>,
  ): Promise<string> {
    const paging = new Paging(this.cursors, ['cron-jobs', account], query);
    const place = paging.place();
    const { jobId, limit } = query;
    const answer = await this.readings.ofRecord(account, async ({ table, completeUpTo }) => {
      const after = place === null ? null : String(place[0]);
      const { items, next } = await reportedJobs(this.readings.sql, table, {
        account,
        limit,
        ...given({ jobId, after }),
      });
      return paging.page(items, next === null ? null : [next], completeUpTo);
    });
    return shownJson(this.sealing, caller, account, answer);
  }
}
