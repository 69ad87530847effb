import type { Row, Sql, StoredEvent } from '#event-store';
import type { EventType } from '#record';
import { bytewise, columnText, columnTextOrNull, insertBatch, type Column } from './columns.js';
import type { Projection, TableName } from './projection.js';

/** How an approval stands. */
export const approvalStates = ['pending', 'decided', 'timed_out', 'cancelled'] as const;

export type ApprovalState = (typeof approvalStates)[number];

const stateAfter: { readonly [type in EventType]?: ApprovalState } = {
  'approval.decided': 'decided',
  'approval.timed_out': 'timed_out',
  'approval.cancelled': 'cancelled',
};

interface ApprovalRow {
  readonly account: string;
  readonly approvalId: string;
  position: bigint;
  last: bigint;
  invocationId: string | null;
  sessionId: string | null;
  turnId: string | null;
  agentId: string | null;
  pluginId: string | null;
  ending: ApprovalState | null;
}

interface GrantRow {
  readonly account: string;
  readonly grantId: string;
  position: bigint;
  last: bigint;
  given: bigint | null;
  revoked: bigint | null;
  uses: number;
}

/**
 * Where to find approvals and grants: one row each, with what they are searched by. What they say stands in their
 * streams. Each column is said by one event, so the order of a batch is no matter.
 */
export const approvals: Projection = {
  name: 'approvals',
  version: 1,
  order: 'session',
  types: [
    'approval.requested',
    'approval.decided',
    'approval.timed_out',
    'approval.cancelled',
    'approval.grant_created',
    'approval.grant_used',
    'approval.grant_revoked',
  ],
  tables: ['approval', 'approval_grant'],
  create: async (sql, table) => {
    await sql.query(
      bytewise(`create table ${table('approval')} (
        account text not null, approval_id text not null, position bigint not null, last_position bigint not null,
        invocation_id text, session_id text, turn_id text, agent_id text, plugin_id text, ending text,
        state text not null generated always as (coalesce(ending, 'pending')) stored,
        primary key (account, approval_id)
      )`),
    );
    await sql.query(
      bytewise(`create table ${table('approval_grant')} (
        account text not null, grant_id text not null, position bigint not null, last_position bigint not null,
        given bigint, revoked bigint, uses bigint not null,
        primary key (account, grant_id)
      )`),
    );
  },
  index: async (sql, table) => {
    await sql.query(`create index on ${table('approval')} (account, position)`);
    await sql.query(`create index on ${table('approval')} (account, position) where ending is null`);
    await sql.query(`create index on ${table('approval')} (account, session_id, position)`);
    await sql.query(`create index on ${table('approval_grant')} (account, position)`);
  },
  apply: async (events, { sql, table }) => {
    const { asked, grants } = fold(events);
    await insertBatch(sql, `${table('approval')} as t`, approvalColumns, asked, mergeApproval);
    await insertBatch(sql, `${table('approval_grant')} as t`, grantColumns, grants, mergeGrant);
  },
};

const fold = (
  events: readonly StoredEvent[],
): { readonly asked: readonly ApprovalRow[]; readonly grants: readonly GrantRow[] } => {
  const asked = new Map<string, ApprovalRow>();
  const grants = new Map<string, GrantRow>();
  for (const stored of events) {
    if (stored.event.type.startsWith('approval.grant_')) foldGrant(grants, stored);
    else foldApproval(asked, stored);
  }
  // In one order, so that two workers never wait for each other in a circle.
  return { asked: sorted(asked), grants: sorted(grants) };
};

const sorted = <T>(rows: ReadonlyMap<string, T>): readonly T[] =>
  [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);

const foldApproval = (rows: Map<string, ApprovalRow>, { event, position }: StoredEvent): void => {
  const approvalId = columnText(event.data.approvalId as string);
  const key = `${event.account}\0${approvalId}`;
  const row = rows.get(key) ?? {
    account: event.account,
    approvalId,
    position,
    last: position,
    invocationId: columnTextOrNull(event.invocationId),
    sessionId: columnTextOrNull(event.sessionId),
    turnId: columnTextOrNull(event.turnId),
    agentId: columnTextOrNull(event.agentId),
    pluginId: columnTextOrNull(event.pluginId),
    ending: null,
  };
  rows.set(key, row);
  if (position > row.last) row.last = position;
  if (position < row.position) row.position = position;
  row.ending ??= stateAfter[event.type] ?? null;
};

const foldGrant = (rows: Map<string, GrantRow>, { event, position }: StoredEvent): void => {
  const grantId = columnText(event.data.grantId as string);
  const key = `${event.account}\0${grantId}`;
  const row = rows.get(key) ?? {
    account: event.account,
    grantId,
    position,
    last: position,
    given: null,
    revoked: null,
    uses: 0,
  };
  rows.set(key, row);
  if (position > row.last) row.last = position;
  if (position < row.position) row.position = position;
  if (event.type === 'approval.grant_used') row.uses += 1;
  else if (event.type === 'approval.grant_created') row.given = later(row.given, position);
  else row.revoked = later(row.revoked, position);
};

const later = (known: bigint | null, position: bigint): bigint =>
  known === null || position > known ? position : known;

const approvalColumns: readonly Column<ApprovalRow>[] = [
  { name: 'account', type: 'text', of: (row) => row.account },
  { name: 'approval_id', type: 'text', of: (row) => row.approvalId },
  { name: 'position', type: 'bigint', of: (row) => row.position },
  { name: 'last_position', type: 'bigint', of: (row) => row.last },
  { name: 'invocation_id', type: 'text', of: (row) => row.invocationId },
  { name: 'session_id', type: 'text', of: (row) => row.sessionId },
  { name: 'turn_id', type: 'text', of: (row) => row.turnId },
  { name: 'agent_id', type: 'text', of: (row) => row.agentId },
  { name: 'plugin_id', type: 'text', of: (row) => row.pluginId },
  { name: 'ending', type: 'text', of: (row) => row.ending },
];

const mergeApproval = `on conflict (account, approval_id) do update set
  position = least(t.position, excluded.position), last_position = greatest(t.last_position, excluded.last_position),
  ending = coalesce(t.ending, excluded.ending)`;

const grantColumns: readonly Column<GrantRow>[] = [
  { name: 'account', type: 'text', of: (row) => row.account },
  { name: 'grant_id', type: 'text', of: (row) => row.grantId },
  { name: 'position', type: 'bigint', of: (row) => row.position },
  { name: 'last_position', type: 'bigint', of: (row) => row.last },
  { name: 'given', type: 'bigint', of: (row) => row.given },
  { name: 'revoked', type: 'bigint', of: (row) => row.revoked },
  { name: 'uses', type: 'bigint', of: (row) => row.uses },
];

const mergeGrant = `on conflict (account, grant_id) do update set
  position = least(t.position, excluded.position), last_position = greatest(t.last_position, excluded.last_position),
  given = greatest(t.given, excluded.given), revoked = greatest(t.revoked, excluded.revoked),
  uses = t.uses + excluded.uses`;

export interface ApprovalQuery {
  readonly account: string;
  readonly state?: ApprovalState;
  readonly sessionId?: string;
  readonly turnId?: string;
  readonly agentId?: string;
  readonly invocationId?: string;
  readonly pluginId?: string;
  readonly order: 'newest' | 'oldest';
  /** Position where the page before ended. */
  readonly after?: string;
  readonly limit: number;
}

/** Ids on one page, and the place where the next one begins. */
export interface IdPage<T> {
  readonly items: readonly T[];
  readonly next: string | null;
}

/** The approvals of an account, by when they were asked for. */
export const findApprovals = async (sql: Sql, table: TableName, query: ApprovalQuery): Promise<IdPage<string>> => {
  const equal: readonly (readonly [string, string | undefined])[] = [
    ['state', query.state],
    ['session_id', query.sessionId],
    ['turn_id', query.turnId],
    ['agent_id', query.agentId],
    ['invocation_id', query.invocationId],
    ['plugin_id', query.pluginId],
  ];
  const { rows, next } = await idPage(sql, table('approval'), 'approval_id', equal, query);
  return { items: rows.map((row) => String(row.approval_id)), next };
};

/** A grant with how often it was used. */
export interface GrantUses {
  readonly grantId: string;
  readonly uses: number;
}

export interface GrantQuery {
  readonly account: string;
  readonly inForce?: boolean;
  readonly order: 'newest' | 'oldest';
  readonly after?: string;
  readonly limit: number;
}

/** The grants of an account, by when they were first given. */
export const findGrants = async (sql: Sql, table: TableName, query: GrantQuery): Promise<IdPage<GrantUses>> => {
  const inForce = 'given is not null and (revoked is null or revoked < given)';
  const only = query.inForce === undefined ? [] : [query.inForce ? inForce : `not (${inForce})`];
  const { rows, next } = await idPage(sql, table('approval_grant'), 'grant_id, uses', [], query, only);
  return { items: rows.map((row) => ({ grantId: String(row.grant_id), uses: Number(row.uses) })), next };
};

const idPage = async (
  sql: Sql,
  table: string,
  columns: string,
  equal: readonly (readonly [string, string | undefined])[],
  { account, order, after, limit }: Pick<ApprovalQuery, 'account' | 'order' | 'after' | 'limit'>,
  only: readonly string[] = [],
): Promise<{ readonly rows: readonly Row[]; readonly next: string | null }> => {
  const values: unknown[] = [account];
  const bind = (value: unknown): string => `$${String(values.push(value))}`;
  const where = ['account = $1', ...only];
  for (const [column, value] of equal) if (value !== undefined) where.push(`${column} = ${bind(columnText(value))}`);
  const [than, direction] = order === 'newest' ? ['<', 'desc'] : ['>', 'asc'];
  if (after !== undefined) where.push(`position ${than} ${bind(after)}::bigint`);
  const rows = await sql.query(
    `select ${columns}, position from ${table} where ${where.join(' and ')}
       order by position ${direction} limit ${bind(limit + 1)}`,
    values,
  );
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { rows: page, next: rows.length > limit && last !== undefined ? String(last.position) : null };
};
