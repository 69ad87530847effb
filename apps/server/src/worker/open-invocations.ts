import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { startFollower, type EventStore, type Follower, type Sql, type StoredEvent } from '#event-store';
import { EVENT_STORE, LOGGER, SQL, type Logger } from '#platform';
import type { EventType, InvocationOpened } from '#record';
import { resting } from './resting.js';

const endings: readonly EventType[] = ['invocation.closed', 'invocation.lost'];

/** Events that are taken in one transaction. */
const batchEvents = 2000;

/**
 * Keeps the list of invocations that were opened and have not ended, for recovery. An opening names the process that
 * runs it only when it was written before the end, so the many that are one commit never get into the list.
 */
@Injectable()
export class OpenInvocations implements OnModuleInit, BeforeApplicationShutdown {
  private follower: Follower | null = null;

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  onModuleInit(): void {
    this.follower = startFollower({
      store: this.store,
      sql: this.sql,
      name: 'open-invocations',
      types: ['invocation.opened', 'invocation.held', 'handler.started', ...endings],
      batch: batchEvents,
      handle: resting(noteOpenInvocations, { pauseMs: 250, share: 1 }, batchEvents, this.store),
      log: (level, message, facts = {}) => this.logger[level](facts, message),
    });
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.follower?.stop();
  }
}

interface Row {
  readonly account: string;
  readonly id: string;
  readonly instance: string | null;
  held: boolean;
  readonly openedAt: string;
}

/** Takes the next events of the log into the list. */
export const noteOpenInvocations = async (events: readonly StoredEvent[], sql: Sql): Promise<void> => {
  const opened = new Map<string, Row>();
  const ended = new Map<string, Pick<Row, 'account' | 'id'>>();
  const held = new Map<string, Pick<Row, 'account' | 'id' | 'instance' | 'held'>>();
  for (const { event } of events) {
    const { account, invocationId: id } = event;
    if (id === undefined) continue;
    const key = `${account}\0${id}`;
    if (event.type === 'invocation.opened') {
      const { instance = null } = event.data as unknown as InvocationOpened;
      opened.set(key, { account, id, instance, held: false, openedAt: event.recordedAt });
    } else if (endings.includes(event.type)) {
      if (!opened.delete(key)) ended.set(key, { account, id });
    } else {
      const isHeld = event.type === 'invocation.held';
      const { instance = null } = event.data as { readonly instance?: string };
      const row = opened.get(key);
      if (row === undefined) held.set(key, { account, id, instance, held: isHeld });
      else row.held = isHeld;
    }
  }
  await insertOpened(sql, [...opened.values()]);
  await markHeld(sql, [...held.values()]);
  await deleteEnded(sql, [...ended.values()]);
};

const insertOpened = async (sql: Sql, rows: readonly Row[]): Promise<void> => {
  if (rows.length === 0) return;
  await sql.query(
    `insert into open_invocation (account, invocation_id, instance, held, opened_at)
       select * from unnest($1::text[], $2::text[], $3::text[], $4::boolean[], $5::timestamptz[])
       on conflict do nothing`,
    [
      rows.map(({ account }) => account),
      rows.map(({ id }) => id),
      rows.map(({ instance }) => instance),
      rows.map((row) => row.held),
      rows.map(({ openedAt }) => openedAt),
    ],
  );
};

/** What was held and goes on is run by whoever took it up. */
const markHeld = async (
  sql: Sql,
  rows: readonly Pick<Row, 'account' | 'id' | 'instance' | 'held'>[],
): Promise<void> => {
  if (rows.length === 0) return;
  await sql.query(
    `update open_invocation o set held = x.held, instance = coalesce(x.instance, o.instance)
       from unnest($1::text[], $2::text[], $3::boolean[], $4::text[]) x(account, id, held, instance)
       where o.account = x.account and o.invocation_id = x.id`,
    [
      rows.map(({ account }) => account),
      rows.map(({ id }) => id),
      rows.map((row) => row.held),
      rows.map(({ instance }) => instance),
    ],
  );
};

const deleteEnded = async (sql: Sql, rows: readonly Pick<Row, 'account' | 'id'>[]): Promise<void> => {
  if (rows.length === 0) return;
  await sql.query(
    `delete from open_invocation o using unnest($1::text[], $2::text[]) x(account, id)
       where o.account = x.account and o.invocation_id = x.id`,
    [rows.map(({ account }) => account), rows.map(({ id }) => id)],
  );
};
