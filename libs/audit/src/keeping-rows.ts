import type { Row, Sql } from '#event-store';
import { columnText } from './columns.js';
import type { TableName } from './projection.js';
import { tableNames } from './read-models.js';
import type { TurnSummary } from './turn-queries.js';

/** Whether an invocation is on record in which both hold: what is to be erased, and what somebody holds. */
export const areTogether = async (
  sql: Sql,
  table: TableName,
  account: string,
  erased: { readonly kind: 'session' | 'subject'; readonly id: string },
  held: { readonly kind: 'session' | 'subject' | 'agent' | 'plugin'; readonly id: string },
): Promise<boolean> => {
  const columns = { session: 'i.session_id', subject: 'i.data_subject', agent: 'i.agent_id' } as const;
  const isHeld =
    held.kind === 'plugin'
      ? `exists (select from ${table('handler_run')} h
          where h.account = i.account and h.position = i.position and h.plugin_id = $3)`
      : `${columns[held.kind]} = $3`;
  const rows = await sql.query(
    `select 1 from ${table('invocation')} i where i.account = $1 and ${columns[erased.kind]} = $2 and ${isHeld} limit 1`,
    [account, columnText(erased.id), columnText(held.id)],
  );
  return rows.length > 0;
};

/** Tables of all generations that are read, built or about to be dropped. */
const tablesOf = async (sql: Sql, table: string): Promise<readonly TableName[]> => {
  const known = await sql.query("select to_regclass('read_model') as known");
  if (known[0]?.known === null) return [];
  const rows = await sql.query('select generation from read_model where $1 = any (tables)', [table]);
  return rows.map((row: Row) => tableNames(Number(row.generation)));
};

/**
 * Takes every text under these keys out of the search at once, in all generations of its tables. The read model itself
 * forgets them when it comes to the event that says so.
 */
export const forgetTexts = async (sql: Sql, account: string, keyIds: readonly string[]): Promise<void> => {
  for (const table of await tablesOf(sql, 'text_part')) {
    await sql.transaction(async (tx) => {
      const mine = 'account = $1 and key_id = any ($2::text[])';
      const parts = `select id from ${table('text_part')} where ${mine}`;
      await tx.query(`delete from ${table('text_use')} where part_id in (${parts})`, [account, keyIds]);
      await tx.query(`delete from ${table('text_part')} where ${mine}`, [account, keyIds]);
      await tx.query(`delete from ${table('text_key')} where ${mine}`, [account, keyIds]);
    });
  }
};

/** Rows that stand for one event each, or for an invocation by the position of its opening. */
const rowsByPosition: readonly (readonly [table: string, column: string])[] = [
  ['handler_run', 'event_position'],
  ['handler_run', 'position'],
  ['host_call', 'position'],
  ['host_event', 'position'],
  ['session_event', 'position'],
  ['plugin_log_line', 'position'],
  ['session_clear', 'last_position'],
  ['cron_run', 'last_position'],
  ['invocation', 'position'],
];

/** Rows that stand for a story of several events, by the positions of its first and its last. */
const rowsOfStories: readonly (readonly [table: string, first: string, last: string])[] = [
  ['session_clear', 'position', 'last_position'],
  ['cron_run', 'first_position', 'last_position'],
  ['approval', 'position', 'last_position'],
];

/**
 * Drops the rows whose events were purged from the read models, in all generations. What it looks at is `purged_range`
 * and not an event, so it can be done again at any time: after a rebuild that saw events before they went, too.
 * @param since only ranges that were purged from then on; null = all
 */
export const dropPurgedRows = async (sql: Sql, account: string, since: Date | null): Promise<void> => {
  const ranges = `select p.account, p.first, p.last from purged_range p
    where p.account = $1 and ($2::timestamptz is null or p.purged_at >= $2)`;
  const values = [account, since?.toISOString() ?? null];
  await dropPurgedTexts(sql, ranges, values);
  await dropPurgedTurns(sql, ranges, values);
  await dropPurgedStories(sql, ranges, values);
  for (const [name, column] of rowsByPosition) {
    for (const table of await tablesOf(sql, name)) {
      await sql.query(
        `delete from ${table(name)} t using (${ranges}) p
          where t.account = p.account and t.${column} between p.first and p.last`,
        values,
      );
    }
  }
};

/** The texts of an invocation go with it; one that another invocation holds too stays for that one. */
const dropPurgedTexts = async (sql: Sql, ranges: string, values: readonly unknown[]): Promise<void> => {
  const searches = await tablesOf(sql, 'text_use');
  for (const record of await tablesOf(sql, 'invocation')) {
    for (const table of searches) {
      await sql.query(
        `with gone as (
            delete from ${table('text_use')} u using (${ranges}) p
              join ${record('invocation')} i on i.account = p.account and i.position between p.first and p.last
              where u.account = i.account and u.invocation_id = i.invocation_id returning u.part_id, u.invocation_id
          )
          delete from ${table('text_part')} t using (select distinct part_id from gone) g
            where t.id = g.part_id and not exists (select from ${table('text_use')} u
              where u.part_id = t.id and (u.part_id, u.invocation_id) not in (select part_id, invocation_id from gone))`,
        values,
      );
    }
  }
};

/** A turn goes with the last of its invocations. One of which some are held stays, with the counts that it had. */
const dropPurgedTurns = async (sql: Sql, ranges: string, values: readonly unknown[]): Promise<void> => {
  for (const table of await tablesOf(sql, 'turn')) {
    await sql.query(
      `delete from ${table('turn')} t using (${ranges}) p
        where t.account = p.account and t.first_position between p.first and p.last
          and not exists (select from ${table('invocation')} i
            where i.account = t.account and i.turn_id = t.turn_id and coalesce(i.session_id, '') = t.session_id
              and not exists (select from purged_range r
                where r.account = i.account and i.position between r.first and r.last))`,
      values,
    );
  }
};

/** A clear or a cron run goes when both its beginning and its end are gone. */
const dropPurgedStories = async (sql: Sql, ranges: string, values: readonly unknown[]): Promise<void> => {
  for (const [name, first, last] of rowsOfStories) {
    for (const table of await tablesOf(sql, name)) {
      await sql.query(
        `delete from ${table(name)} t using (${ranges}) p
          where t.account = p.account and t.${last} between p.first and p.last
            and exists (select from purged_range r
              where r.account = t.account and t.${first} between r.first and r.last)`,
        values,
      );
    }
  }
};

/** A run of positions that was purged, and where the event stands that says so. */
export interface PurgedRange {
  readonly first: string;
  readonly last: string;
  readonly saidAt: string;
}

/** What was purged between two account positions, both ends in it, in order; at most `limit` ranges. */
export const purgedRanges = async (
  sql: Sql,
  account: string,
  first: bigint,
  last: bigint,
  limit: number,
): Promise<readonly PurgedRange[]> => {
  const rows = await sql.query(
    `select first, last, said_at from purged_range
      where account = $1 and last >= $2 and first <= $3 order by first limit $4`,
    [account, String(first), String(last), limit],
  );
  return rows.map((row) => ({ first: String(row.first), last: String(row.last), saidAt: String(row.said_at) }));
};

/** Turns with how many of their invocations are gone: purged, since the read model loses no row otherwise. */
export const withPurged = async <T extends Pick<TurnSummary, 'turnId' | 'sessionId' | 'invocations'>>(
  sql: Sql,
  table: TableName,
  account: string,
  turns: readonly T[],
): Promise<readonly (T & { readonly purged: number })[]> => {
  const counted: (T & { readonly purged: number })[] = [];
  for (const turn of turns) {
    const [row] = await sql.query(
      `select count(*) as there from ${table('invocation')}
        where account = $1 and turn_id = $2 and coalesce(session_id, '') = $3`,
      [account, columnText(turn.turnId), columnText(turn.sessionId ?? '')],
    );
    counted.push({ ...turn, purged: Math.max(0, turn.invocations - Number(row?.there ?? 0)) });
  }
  return counted;
};
