import type { Sql } from '#event-store';
import { classOf, holdsOn, newestStays, type EventClass, type Hold, type PurgePolicy } from '#keeping';
import { readEvent, type EventType } from '#record';

/** An event that a purge would remove. */
export interface Doomed {
  readonly position: bigint;
  readonly type: EventType;
  readonly leaf: Buffer;
}

/** What a look at a stretch of an account's log found. */
export interface Stretch {
  readonly doomed: readonly Doomed[];
  /** Past their retention, and held. */
  readonly held: number;
  /** Account position where the next stretch begins after; null: nothing older than the policy is left. */
  readonly next: bigint | null;
}

/** Where to look. */
export interface StretchQuery {
  readonly account: string;
  readonly policy: PurgePolicy;
  readonly holds: readonly Hold[];
  /** Account position to begin after. */
  readonly after: bigint;
  /** First account position that is not looked at. */
  readonly end: bigint;
}

interface Row {
  readonly account_position: string;
  readonly stream: string;
  readonly version: number;
  readonly type: EventType;
  readonly recorded_at: Date;
  readonly leaf: Buffer;
}

interface Candidate extends Row {
  readonly class: EventClass;
}

/** Events of the log that one look takes in. */
const stretchEvents = 10_000;

/**
 * What of the next stretch is past the policy and not held. An invocation goes as a whole, once it has ended and its
 * newest event is past; so does a clear, a run or an approval. Of other streams every event goes by its own age.
 */
export const planStretch = async (sql: Sql, query: StretchQuery): Promise<Stretch> => {
  const { account, policy, after, end } = query;
  const latest = latestCutoff(policy);
  const rows = await sql.query<Row>(
    `select account_position, stream, version, type, recorded_at, leaf from event
      where account = $1 and account_position > $2 and account_position < $3
      order by account_position limit $4`,
    [account, String(after), String(end), stretchEvents],
  );
  const old = rows.filter(({ recorded_at: at }) => at < latest);
  const candidates = old.flatMap((row) => candidate(row, policy));
  const ripe = await withoutUnripe(sql, account, candidates, policy);
  const held = await heldAmong(sql, query, ripe);
  const last = rows.at(-1);
  const isEnd = rows.length < stretchEvents || old.length < rows.length || last === undefined;
  return {
    doomed: ripe
      .filter((row) => !held.has(row))
      .map(({ account_position: at, type, leaf }) => ({ position: BigInt(at), type, leaf })),
    held: held.size,
    next: isEnd ? null : BigInt(last.account_position),
  };
};

const latestCutoff = (policy: PurgePolicy): Date =>
  new Date(Math.max(0, ...Object.values(policy).map(({ before }) => Date.parse(before))));

const candidate = (row: Row, policy: PurgePolicy): readonly Candidate[] => {
  const name = classOf(row.type);
  const rule = name === null ? undefined : policy[name];
  if (name === null || rule === undefined || row.recorded_at >= new Date(rule.before)) return [];
  return [{ ...row, class: name }];
};

interface StreamFacts {
  readonly stream: string;
  readonly version: number;
  readonly present: number;
  readonly newest: Date;
  readonly ended: boolean;
  /** Version at which its queue was last emptied; null: never, or it is none. */
  readonly drained: number | null;
}

/** Classes whose streams are one story each: a hold on any of it is on all of it, and a short one goes as a whole. */
const storied: readonly EventClass[] = ['invocation', 'session', 'cron', 'approval'];

/** Events of a stream that is one clear, run or approval; one with more goes on and on, and goes event by event. */
const shortStory = 50;

const withoutUnripe = async (
  sql: Sql,
  account: string,
  candidates: readonly Candidate[],
  policy: PurgePolicy,
): Promise<readonly Candidate[]> => {
  if (candidates.length === 0) return [];
  const rows = await sql.query<StreamFacts>(
    `select e.stream, s.version, count(*)::integer as present, max(e.recorded_at) as newest,
        bool_or(e.type in ('invocation.closed', 'invocation.lost')) as ended,
        max(e.version) filter (where e.type = 'injection.drained') as drained
      from event e join stream s on s.account = e.account and s.id = e.stream
      where e.account = $1 and e.stream = any ($2::text[]) group by e.stream, s.version`,
    [account, streamsOf(candidates)],
  );
  const facts = new Map(rows.map((row) => [row.stream, row]));
  return candidates.filter((row) => isRipe(row, facts.get(row.stream), policy));
};

const isRipe = (row: Candidate, facts: StreamFacts | undefined, policy: PurgePolicy): boolean => {
  if (facts === undefined) return false;
  // What was enqueued since may wait still, however long ago that was.
  if (row.type.startsWith('injection.') && row.version > (facts.drained ?? 0)) return false;
  if (storied.includes(row.class) && row.class !== 'invocation' && facts.version <= shortStory)
    return facts.newest < new Date(policy[row.class]?.before ?? 0);
  if (row.class !== 'invocation') return !newestStays(row.class) || row.version < facts.version;
  // One that was begun to be purged has lost what says that it ended.
  const ended = facts.ended || facts.present < facts.version;
  return ended && facts.newest < new Date(policy.invocation?.before ?? 0);
};

const streamsOf = (rows: readonly Candidate[]): readonly string[] => [...new Set(rows.map(({ stream }) => stream))];

const heldAmong = async (
  sql: Sql,
  { account, holds }: StretchQuery,
  rows: readonly Candidate[],
): Promise<ReadonlySet<Candidate>> => {
  if (holds.length === 0 || rows.length === 0) return new Set();
  if (holds.some(({ scope }) => scope.kind === 'account')) return new Set(rows);
  const stored = await sql.query<{ stream: string; version: number; bytes: Buffer }>(
    'select stream, version, bytes from event where account = $1 and stream = any ($2::text[])',
    [account, streamsOf(rows)],
  );
  const heldStreams = new Set<string>();
  const heldEvents = new Set<string>();
  for (const { stream, version, bytes } of stored) {
    if (holdsOn(holds, [readEvent(bytes)]).length === 0) continue;
    heldStreams.add(stream);
    heldEvents.add(`${stream}\0${String(version)}`);
  }
  const isHeld = (row: Candidate): boolean =>
    storied.includes(row.class) ? heldStreams.has(row.stream) : heldEvents.has(`${row.stream}\0${String(row.version)}`);
  return new Set(rows.filter(isHeld));
};
