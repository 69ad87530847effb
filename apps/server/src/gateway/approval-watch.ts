import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Counter, type Registry } from 'prom-client';
import { approvalEndings, decideApprovalTimeout, type ApprovalEnding } from '#approvals';
import { resolutionOf } from '#dialects';
import { startFollower, type EventStore, type Follower, type Sql, type StoredEvent } from '#event-store';
import { errorFacts, EVENT_STORE, INSTANCE, LOGGER, METRICS, SQL, type Logger } from '#platform';
import { approvalStream, type ApprovalRequested } from '#record';
import { aboutApproval, Approvals } from './approvals.js';
import { endOf, HeldInvocations } from './held-invocations.js';
import { Looks } from './looks.js';
import { isGone, seeLease } from './recovery-lease.js';

/** How often the clock is looked at, ms: an approval ends at most so long after its time. */
const lookMs = 250;

/** How long one process may take over going on with an invocation before another one tries, s. */
const leaseSeconds = 60;

/** Rows that one look takes. */
const atOnce = 200;

/** Invocations that go on beside one another. */
const beside = 16;

interface Key {
  readonly account: string;
  readonly approval_id: string;
}

/**
 * Ends approvals whose time is up, goes on with invocations whose approval has ended, and has plugins told. What is to
 * be done follows the log and lies in a table, so that nothing waits in a process: ten thousand open approvals are ten
 * thousand rows, and a process that dies leaves its work to the others.
 */
@Injectable()
export class ApprovalWatch implements OnModuleInit, BeforeApplicationShutdown {
  private readonly ended: Counter;
  private follower: Follower | null = null;
  private looks: Looks | null = null;
  private stopListening: () => void = () => undefined;

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(INSTANCE) private readonly instance: string,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(METRICS) metrics: Registry,
    private readonly approvals: Approvals,
    private readonly held: HeldInvocations,
  ) {
    this.ended = new Counter({
      name: 'hookledger_approvals_timed_out_total',
      help: 'Approvals that this process ended because their time was up.',
      registers: [metrics],
    });
  }

  onModuleInit(): void {
    const looks = new Looks({
      look: async () => {
        await this.endOverdue();
        await this.goOn();
        await this.tell();
      },
      everyMs: lookMs,
      failed: (error) => this.logger.warn(errorFacts(error), 'approvals cannot be looked after; tried again'),
    });
    this.looks = looks;
    this.follower = startFollower({
      store: this.store,
      sql: this.sql,
      name: 'approval-watch',
      types: [
        'approval.requested',
        ...approvalEndings,
        'approval.resolution_delivered',
        'approval.resolution_undeliverable',
      ],
      handle: async (events, sql) => {
        await noteApprovals(events, sql);
        if (events.some(({ event }) => approvalEndings.includes(event.type))) looks.soon();
      },
      log: (level, message, facts = {}) => this.logger[level](facts, message),
    });
    // What ends here goes on at once; the table is for what ended elsewhere, or in a process that died.
    this.stopListening = this.store.onAppended((events) => {
      for (const { event } of events) {
        if (!approvalEndings.includes(event.type)) continue;
        const { approvalId } = event.data as { readonly approvalId: string };
        void this.goOnNow({ account: event.account, approval_id: approvalId });
      }
    });
  }

  private async goOnNow(key: Key): Promise<void> {
    const mine = await this.sql
      .query(
        `update approval_wait set lease_until = now() + make_interval(secs => $3)
           where account = $1 and approval_id = $2 and goes_on and lease_until <= now() returning 1`,
        [key.account, key.approval_id, leaseSeconds],
      )
      .catch(() => []);
    if (mine.length > 0) await this.goOnWith(key);
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopListening();
    await this.looks?.stop();
    await this.follower?.stop();
  }

  private async endOverdue(): Promise<void> {
    const rows = await this.sql.query<Key>(
      'select account, approval_id from approval_wait where not ended and due_at <= now() order by due_at limit $1',
      [atOnce],
    );
    await Promise.all(rows.map((row) => this.end(row)));
    // There are more, and the follower marks these as ended meanwhile.
    if (rows.length === atOnce) this.looks?.soon();
  }

  private async end({ account, approval_id: approvalId }: Key): Promise<void> {
    const found = await this.held.approval(account, approvalId);
    const events = found === null ? [] : decideApprovalTimeout(found.approval, new Date());
    if (found === null || events.length === 0) return;
    const fields = { ...aboutApproval(found.requested), actor: { kind: 'system' as const, id: 'approvals' } };
    const stream = approvalStream(approvalId);
    const writes = [
      { stream, expectedVersion: found.version, events: events.map((event) => ({ ...fields, ...event })) },
    ];
    // Where it moved meanwhile it was decided in the last moment, or another replica was quicker.
    if ((await this.store.append({ account, writes })).kind === 'appended') this.ended.inc();
  }

  private async goOn(): Promise<void> {
    for (;;) {
      const rows = await this.sql.query<Key>(
        `update approval_wait w set lease_until = now() + make_interval(secs => $1) from (
           select account, approval_id from approval_wait where ended and goes_on and lease_until <= now()
             order by lease_until limit $2 for update skip locked) due
         where w.account = due.account and w.approval_id = due.approval_id returning w.account, w.approval_id`,
        [leaseSeconds, beside],
      );
      if (rows.length === 0) return;
      await Promise.all(rows.map((row) => this.goOnWith(row)));
    }
  }

  /** What fails is tried again when its lease is over; the others go on. */
  private async goOnWith({ account, approval_id: approvalId }: Key): Promise<void> {
    try {
      await this.held.goOn(account, approvalId);
      await this.sql.query('update approval_wait set goes_on = false where account = $1 and approval_id = $2', [
        account,
        approvalId,
      ]);
      await forgetDone(this.sql, [account, approvalId]);
    } catch (error) {
      this.logger.warn(
        { account, approvalId, ...errorFacts(error) },
        'an invocation could not go on from its approval',
      );
    }
  }

  /** Plugins of this process, and those of processes that are gone. */
  private async tell(): Promise<void> {
    const rows = await this.sql.query<Key & { readonly teller: string }>(
      'select account, approval_id, teller from approval_wait where ended and teller is not null order by teller = $1 desc limit $2',
      [this.instance, atOnce],
    );
    const gone = new Map<string, boolean>();
    for (const { account, approval_id: approvalId, teller } of rows) {
      if (teller !== this.instance) {
        const isDead = gone.get(teller) ?? (await this.isDead(teller));
        gone.set(teller, isDead);
        if (!isDead) continue;
      }
      const ending = (await this.held.approval(account, approvalId))?.approval.ending ?? null;
      if (ending === null) continue;
      await this.approvals.tell(account, approvalId, wordFor(ending));
      await this.sql.query('update approval_wait set teller = null where account = $1 and approval_id = $2', [
        account,
        approvalId,
      ]);
      await forgetDone(this.sql, [account, approvalId]);
    }
  }

  private async isDead(instance: string): Promise<boolean> {
    const lease = await seeLease(this.sql, instance);
    return lease === null || lease.lapsed || isGone(lease.mark);
  }
}

/** What the plugin hears of an ending. */
const wordFor = (ending: ApprovalEnding): string =>
  ending.kind === 'cancelled' && ending.cause === 'deny' ? 'deny' : resolutionOf(endOf(ending));

/** Takes the next events of the log into what is waited for. */
export const noteApprovals = async (events: readonly StoredEvent[], sql: Sql): Promise<void> => {
  for (const { event } of events) {
    const { approvalId } = event.data as { readonly approvalId: string };
    const key = [event.account, approvalId];
    if (event.type === 'approval.requested') {
      const { expiresAt, instance = null } = event.data as unknown as ApprovalRequested;
      await sql.query(
        'insert into approval_wait (account, approval_id, due_at, teller) values ($1, $2, $3, $4) on conflict do nothing',
        [...key, expiresAt, instance],
      );
      continue;
    }
    const change = approvalEndings.includes(event.type) ? 'ended = true' : 'teller = null';
    await sql.query(`update approval_wait set ${change} where account = $1 and approval_id = $2`, key);
    await forgetDone(sql, key);
  }
};

/** Drops an approval of which nothing is left to do. */
const forgetDone = async (sql: Sql, key: readonly string[]): Promise<void> => {
  await sql.query(
    'delete from approval_wait where account = $1 and approval_id = $2 and ended and not goes_on and teller is null',
    key,
  );
};
