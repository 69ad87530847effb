import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Counter, type Registry } from 'prom-client';
import { startFollower, type EventStore, type Follower, type Sql, type StoredEvent } from '#event-store';
import {
  cronRunStream,
  decideLapse,
  evolveCronRun,
  missedSlot,
  readSchedule,
  runIdOf,
  runTail,
  unusedRun,
} from '#lifecycles';
import { errorFacts, EVENT_STORE, LOGGER, METRICS, SQL, type Logger } from '#platform';
import type { RecordedEvent } from '#record';

/** How often the clock is looked at, ms. */
const lookMs = 1_000;

/** Runs, and declarations, that one look at the clock judges at most. */
const judgedAtOnce = 500;

/**
 * Slots that were due longer ago than this are not judged, ms: what became of them may have been purged, and what is
 * gone from the record is not put down as missed anew when everything is reckoned again.
 */
const horizonMs = 180 * 86_400_000;

/** Slots of one declaration that one look judges at most: after an outage no job keeps the others waiting. */
const slotsAtOnce = 100;

/** Names the turn of one replica at a time. */
const turnKey = 7_204_115_306;

/**
 * Puts on record what nobody reports: runs of which nothing was heard until their lease ended, and slots of declared
 * jobs that never came. What to watch for follows the log, and so does every decision: a run is lost and a slot missed
 * only if its own stream still says so when the event is written. So each is written once, however many replicas look.
 */
@Injectable()
export class CronWatch implements OnModuleInit, BeforeApplicationShutdown {
  private readonly lost: Counter;
  private readonly missed: Counter;
  private follower: Follower | null = null;
  private timer: NodeJS.Timeout | null = null;
  private looking: Promise<void> = Promise.resolve();
  private faulty = false;

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(METRICS) metrics: Registry,
  ) {
    const counter = (name: string, help: string): Counter => new Counter({ name, help, registers: [metrics] });
    this.lost = counter('hookledger_cron_runs_lost_total', 'Cron runs that this process closed as lost.');
    this.missed = counter('hookledger_cron_slots_missed_total', 'Cron slots that this process put down as missed.');
  }

  onModuleInit(): void {
    this.follower = startFollower({
      store: this.store,
      sql: this.sql,
      name: 'cron-watch',
      types: ['cron.job_declared', 'cron.run_leased', 'cron.run_closed', 'cron.run_lost'],
      handle: noteWatched,
      log: (level, message, facts = {}) => this.logger[level](facts, message),
    });
    this.timer = setInterval(() => {
      this.looking = this.looking.then(() => this.attempt());
    }, lookMs);
    this.timer.unref();
  }

  async beforeApplicationShutdown(): Promise<void> {
    if (this.timer !== null) clearInterval(this.timer);
    await this.looking;
    await this.follower?.stop();
  }

  private async attempt(): Promise<void> {
    try {
      const { lost, missed } = await lookAtTheClock(this.store, this.sql, new Date());
      this.lost.inc(lost);
      this.missed.inc(missed);
      this.faulty = false;
    } catch (error) {
      if (!this.faulty) this.logger.warn(errorFacts(error), 'leases and slots cannot be looked after; tried again');
      this.faulty = true;
    }
  }
}

/** Takes the next events of the log into what is watched for. */
export const noteWatched = async (events: readonly StoredEvent[], sql: Sql): Promise<void> => {
  const leases = new Map<string, { readonly event: RecordedEvent; readonly until: string | null }>();
  for (const { event } of events) {
    if (event.type === 'cron.job_declared') await noteDeclaration(event, sql);
    else {
      const { runId, leaseUntil } = event.data as { readonly runId: string; readonly leaseUntil: string };
      const until = event.type === 'cron.run_leased' ? leaseUntil : null;
      leases.set(`${event.account}\0${runId}`, { event, until });
    }
  }
  const runs = [...leases.values()].map(({ event, until }) => ({
    account: event.account,
    runId: event.data.runId as string,
    until,
  }));
  await sql.query(
    `insert into cron_open_run (account, run_id, lease_until)
       select * from unnest($1::text[], $2::text[], $3::timestamptz[]) x(account, run_id, lease_until)
       where x.lease_until is not null
       on conflict (account, run_id) do update set lease_until = excluded.lease_until`,
    [runs.map(({ account }) => account), runs.map(({ runId }) => runId), runs.map(({ until }) => until)],
  );
  const over = runs.filter(({ until }) => until === null);
  await sql.query(
    `delete from cron_open_run o using unnest($1::text[], $2::text[]) x(account, run_id)
       where o.account = x.account and o.run_id = x.run_id`,
    [over.map(({ account }) => account), over.map(({ runId }) => runId)],
  );
};

/** Slots are expected from the moment a job was declared, and until it is declared otherwise. */
const noteDeclaration = async (event: RecordedEvent, sql: Sql): Promise<void> => {
  const { account, recordedAt, streamVersion, agentId = null } = event;
  const { jobId, schedule, timeZone, graceSeconds } = event.data as unknown as Declared;
  await sql.query(
    'update cron_expectation set ends_at = $3 where account = $1 and job_id = $2 and ends_at is null and version < $4',
    [account, jobId, recordedAt, streamVersion],
  );
  const read = schedule === null ? null : readSchedule(schedule, timeZone);
  const next = read?.kind === 'schedule' ? read.schedule.next(new Date(recordedAt)) : null;
  if (next === null) return;
  await sql.query(
    `insert into cron_expectation
       (account, job_id, version, agent_id, schedule, time_zone, grace_seconds, next_slot, due_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict do nothing`,
    [
      account,
      jobId,
      streamVersion,
      agentId,
      schedule,
      timeZone,
      graceSeconds,
      next.toISOString(),
      dueAt(next, graceSeconds),
    ],
  );
};

interface Declared {
  readonly jobId: string;
  readonly schedule: string | null;
  readonly timeZone: string;
  readonly graceSeconds: number;
}

const dueAt = (slot: Date, graceSeconds: number): string =>
  new Date(slot.getTime() + graceSeconds * 1000).toISOString();

/** Judges what is due now. One replica at a time does; the others find the turn taken and leave it at that. */
export const lookAtTheClock = (
  store: EventStore,
  sql: Sql,
  now: Date,
): Promise<{ readonly lost: number; readonly missed: number }> =>
  sql.transaction(async (turn) => {
    const [row] = await turn.query<{ mine: boolean }>('select pg_try_advisory_xact_lock($1) as mine', [turnKey]);
    if (row?.mine !== true) return { lost: 0, missed: 0 };
    return { lost: await closeLapsed(store, turn, now), missed: await noteMissed(store, turn, now) };
  });

const closeLapsed = async (store: EventStore, sql: Sql, now: Date): Promise<number> => {
  const rows = await sql.query<{ account: string; run_id: string }>(
    'select account, run_id from cron_open_run where lease_until <= $1 order by lease_until limit $2',
    [now.toISOString(), judgedAtOnce],
  );
  let lost = 0;
  for (const { account, run_id: runId } of rows) {
    const stream = cronRunStream(runId);
    const newest = await store.readAccount(account, { stream, order: 'newest', limit: runTail });
    const events = newest.map(({ event }) => event).reverse();
    const lapsed = decideLapse(events.reduce(evolveCronRun, unusedRun), now);
    if (lapsed.length === 0) continue;
    const expectedVersion = events.at(-1)?.streamVersion ?? 0;
    const result = await store.append({ account, writes: [{ stream, expectedVersion, events: lapsed }] });
    // Where the run moved meanwhile it lives, or somebody else saw the same.
    if (result.kind === 'appended') lost += 1;
  }
  return lost;
};

interface Expectation {
  readonly account: string;
  readonly job_id: string;
  readonly version: number;
  readonly agent_id: string | null;
  readonly schedule: string;
  readonly time_zone: string;
  readonly grace_seconds: number;
  readonly ends_at: Date | null;
  readonly next_slot: Date;
}

const noteMissed = async (store: EventStore, sql: Sql, now: Date): Promise<number> => {
  const rows = await sql.query<Expectation>(
    'select * from cron_expectation where due_at <= $1 order by due_at limit $2 for update skip locked',
    [now.toISOString(), judgedAtOnce],
  );
  let missed = 0;
  for (const row of rows) {
    const { due, next } = dueSlots(row, now);
    missed += await noteThoseMissed(store, row, due);
    await moveOn(sql, row, next);
  }
  return missed;
};

/** The slots of one declaration that are overdue, at most `slotsAtOnce`, and the one after them. */
const dueSlots = (row: Expectation, now: Date): { readonly due: readonly Date[]; readonly next: Date | null } => {
  const read = readSchedule(row.schedule, row.time_zone);
  const isDue = (at: Date): boolean => at.getTime() + row.grace_seconds * 1000 <= now.getTime();
  const isExpected = (at: Date): boolean => row.ends_at === null || at < row.ends_at;
  const due: Date[] = [];
  const horizon = new Date(now.getTime() - horizonMs);
  const next = (after: Date): Date | null => (read.kind === 'schedule' ? read.schedule.next(after) : null);
  let slot: Date | null = row.next_slot < horizon ? next(horizon) : row.next_slot;
  while (slot !== null && isExpected(slot) && isDue(slot) && due.length < slotsAtOnce) {
    due.push(slot);
    slot = next(slot);
  }
  return { due, next: slot !== null && isExpected(slot) ? slot : null };
};

/** How many of these slots it is this that put down as missed. One that came, or was put down before, is left alone. */
const noteThoseMissed = async (store: EventStore, row: Expectation, slots: readonly Date[]): Promise<number> => {
  const { account, job_id: jobId, schedule, time_zone: timeZone, agent_id: agentId } = row;
  const own = slots.map((slot) => {
    const slotAt = slot.toISOString();
    return { runId: runIdOf(account, jobId, slotAt), jobId, slotAt };
  });
  const versions = await Promise.all(own.map(({ runId }) => store.streamVersion(account, cronRunStream(runId))));
  const writes = own
    .filter((_, index) => versions[index] === 0)
    .map((slot) => ({
      stream: cronRunStream(slot.runId),
      expectedVersion: 0,
      events: missedSlot(slot, { schedule, timeZone }, agentId),
    }));
  if (writes.length === 0) return 0;
  const together = await store.append({ account, writes });
  if (together.kind === 'appended') return writes.length;
  // One of them came in this very moment: the others by themselves.
  let missed = 0;
  for (const write of writes) {
    const result = await store.append({ account, writes: [write] });
    if (result.kind === 'appended') missed += 1;
  }
  return missed;
};

const moveOn = async (sql: Sql, row: Expectation, next: Date | null): Promise<void> => {
  const key = [row.account, row.job_id, row.version];
  if (next === null) {
    await sql.query('delete from cron_expectation where account = $1 and job_id = $2 and version = $3', key);
    return;
  }
  await sql.query(
    `update cron_expectation set next_slot = $4, due_at = $5 where account = $1 and job_id = $2 and version = $3`,
    [...key, next.toISOString(), dueAt(next, row.grace_seconds)],
  );
};
