import type { Sql } from '#event-store';
import { columnText } from './columns.js';
import type { TableName } from './projection.js';

/** How a plugin's handlers did in their latest runs. */
export interface PluginHealth {
  /** Runs looked at: the latest, `healthRuns` at most. */
  readonly runs: number;
  readonly outcomes: { readonly [outcome: string]: number };
  /** Runs that did not decide, by cause. */
  readonly skips: { readonly [cause: string]: number };
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly lastRunAt: string | null;
}

/** How many of a plugin's latest runs its health is read off. */
export const healthRuns = 1000;

/** Health of one plugin from its latest runs. */
export const pluginHealth = async (
  sql: Sql,
  table: TableName,
  account: string,
  pluginId: string,
): Promise<PluginHealth> => {
  const rows = await sql.query(
    `with latest as (
      select outcome, cause, duration_us, occurred_at from ${table('handler_run')}
      where account = $1 and plugin_id = $2 order by occurred_at desc, position desc limit ${String(healthRuns)}
    ), ran as (select * from latest where outcome <> 'not_run' and cause is distinct from 'not_loaded')
    select outcome, cause, count(*) as runs, max(occurred_at) as last_at,
      (select percentile_cont(0.5) within group (order by duration_us) from ran) as p50,
      (select percentile_cont(0.95) within group (order by duration_us) from ran) as p95
    from ran group by outcome, cause`,
    [account, columnText(pluginId)],
  );
  const outcomes: Record<string, number> = {};
  const skips: Record<string, number> = {};
  let last: Date | null = null;
  for (const row of rows) {
    const [outcome, cause, runs] = [String(row.outcome), row.cause, Number(row.runs)];
    outcomes[outcome] = (outcomes[outcome] ?? 0) + runs;
    if (outcome === 'skipped' && typeof cause === 'string') skips[cause] = (skips[cause] ?? 0) + runs;
    const at = row.last_at as Date;
    if (last === null || at > last) last = at;
  }
  const ms = (value: unknown): number | null => (value === null || value === undefined ? null : Number(value) / 1000);
  return {
    runs: Object.values(outcomes).reduce((sum, count) => sum + count, 0),
    outcomes,
    skips,
    p50Ms: ms(rows[0]?.p50),
    p95Ms: ms(rows[0]?.p95),
    lastRunAt: last === null ? null : last.toISOString(),
  };
};
