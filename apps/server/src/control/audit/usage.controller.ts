import { Controller, Get, Inject } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { usageItems } from '#audit';
import { Account, Cursors, StrictQuery, type QueryOf } from '#platform';
import { Paging } from './paging.js';
import { usageFields } from './queries.js';
import { ReadRoute } from './read-routes.js';
import { Readings } from './readings.js';
import { usageSchema } from './schemas.js';

const dayMs = 86_400_000;

/** Metered handler runs. */
@ApiTags('record')
@Controller('v1/accounts/:account/usage')
export class UsageController {
  constructor(
    @Inject(Readings) private readonly readings: Readings,
    @Inject(Cursors) private readonly cursors: Cursors,
  ) {}

  @Get()
  @ReadRoute('Metered handler runs, by whole days (UTC) of the record’s clock', usageSchema)
  async usage(
    @Account() account: string,
    @StrictQuery(usageFields) query: QueryOf<typeof usageFields>,
  ): Promise<string> {
    // Usage is kept by days: a bound within one is moved outwards, and the answer says to where.
    const from = query.from === null ? null : new Date(Math.floor(query.from.getTime() / dayMs) * dayMs);
    const to = query.to === null ? null : new Date(Math.ceil(query.to.getTime() / dayMs) * dayMs);
    const asked = { ...query, from, to };
    const paging = new Paging(this.cursors, ['usage', account], asked);
    const place = paging.place();
    const answer = await this.readings.ofRecord(account, async ({ table, completeUpTo }) => {
      const found = await usageItems(this.readings.sql, table, {
        account,
        groupBy: query.groupBy,
        limit: query.limit + 1,
        ...(query.pluginId === null ? {} : { pluginId: query.pluginId }),
        ...(query.dialect === null ? {} : { dialect: query.dialect }),
        ...(query.hook === null ? {} : { hook: query.hook }),
        ...(from === null ? {} : { fromDay: from.toISOString().slice(0, 10) }),
        ...(to === null ? {} : { toDay: to.toISOString().slice(0, 10) }),
        ...(place === null ? {} : { after: place.map(String) }),
      });
      const page = found.slice(0, query.limit);
      const last = page.at(-1);
      const next =
        found.length > query.limit && last !== undefined ? query.groupBy.map((by) => last.group[by] ?? '') : null;
      const items = page.map(({ group, ...sums }) => ({ ...group, ...sums }));
      return { groupBy: query.groupBy, ...paging.page(items, next, completeUpTo) };
    });
    return JSON.stringify(answer);
  }
}
