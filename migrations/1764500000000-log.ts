import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The log and what its appends touch: heads, streams, events, blobs, data keys, commands, followers (events.md §4). */
export class CreateLog1764500000000 implements MigrationInterface {
  readonly name = 'CreateLog1764500000000';

  async up(runner: QueryRunner): Promise<void> {
    for (const statement of [
      heads,
      streams,
      events,
      eventsAreFinal,
      partitions,
      blobs,
      dataKeys,
      commands,
      followers,
    ]) {
      await runner.query(statement);
    }
    await runner.query('select ensure_event_partitions()');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table follower, command, data_key, blob, event, stream, account_head, head');
    await runner.query('drop function ensure_event_partitions, refuse_change_of_events');
  }
}

// One row, updated by every commit: room beside it keeps the new versions on its page.
const heads = `
  create table head (
    id smallint primary key default 1 check (id = 1),
    position bigint not null default -1,
    epoch bigint not null default 0
  ) with (fillfactor = 10);
  insert into head default values;
  create table account_head (
    account text collate "C" primary key,
    size bigint not null
  ) with (fillfactor = 50)`;

const streams = `
  create table stream (
    account text collate "C" not null,
    id text collate "C" not null,
    version integer not null,
    first bigint not null,
    last bigint not null,
    primary key (account, id)
  ) with (fillfactor = 85)`;

// Rows hold sealed content, which no compression makes smaller, so the database does not try.
const events = `
  create table event (
    position bigint not null,
    account text collate "C" not null,
    account_position bigint not null,
    stream text collate "C" not null,
    version integer not null,
    id uuid not null,
    type text collate "C" not null,
    schema smallint not null,
    recorded_at timestamptz(3) not null,
    occurred_at timestamptz(3) not null,
    session_id text collate "C",
    leaf bytea not null,
    bytes bytea not null,
    primary key (position)
  ) partition by range (position);
  alter table event alter column bytes set storage external;
  create index event_account on event (account, account_position);
  create index event_stream on event (account, stream, version);
  create index event_type on event (account, type, account_position);
  create index event_session on event (account, session_id, account_position) where session_id is not null`;

// Triggers hold for owners and superusers too, whom no REVOKE stops.
const eventsAreFinal = `
  create function refuse_change_of_events() returns trigger language plpgsql as $$
  begin
    raise exception 'events are never changed or removed' using errcode = 'insufficient_privilege';
  end $$;
  create trigger event_is_final before update or delete on event
    for each row execute function refuse_change_of_events();
  create trigger event_is_kept before truncate on event
    for each statement execute function refuse_change_of_events()`;

// Attached rather than created in place: that takes no lock which appends would wait for.
const partitions = `
  create function ensure_event_partitions(ahead integer default 1) returns void
  language plpgsql security definer set search_path from current as $$
  declare
    rows_each constant bigint := 5000000;
    current_one bigint := (select greatest(position, 0) / rows_each from head);
    part text;
  begin
    perform pg_advisory_xact_lock(hashtextextended('hookledger event partitions', 0));
    for n in current_one .. current_one + ahead loop
      part := 'event_' || n;
      continue when to_regclass(part) is not null;
      execute format('create table %I (like event including defaults including constraints including storage)', part);
      execute format('alter table %I add constraint %I check (position >= %s and position < %s)',
        part, part || '_range', n * rows_each, (n + 1) * rows_each);
      execute format('alter table event attach partition %I for values from (%s) to (%s)',
        part, n * rows_each, (n + 1) * rows_each);
      execute format('create trigger event_is_kept before truncate on %I
        for each statement execute function refuse_change_of_events()', part);
    end loop;
  end $$`;

// `key_id` names the data key, so that erasure finds a scope's blobs.
const blobs = `
  create table blob (
    hash bytea primary key,
    key_id text collate "C",
    bytes bytea not null
  );
  alter table blob alter column bytes set storage external;
  create index blob_key on blob (key_id) where key_id is not null`;

// A destroyed key leaves its row: what it sealed is known to be erased, not merely unreadable.
const dataKeys = `
  create table data_key (
    id text collate "C" primary key,
    account text collate "C" not null,
    scope text collate "C" not null,
    wrapped bytea,
    master text collate "C" not null,
    created_at timestamptz(3) not null default now(),
    erased_at timestamptz(3),
    check ((wrapped is null) = (erased_at is not null))
  );
  create unique index data_key_living on data_key (account, scope) where wrapped is not null;
  create index data_key_master on data_key (master) where wrapped is not null`;

const commands = `
  create table command (
    account text collate "C" not null,
    idempotency_key text collate "C" not null,
    request_digest text collate "C" not null,
    token text collate "C" not null,
    attempt integer not null,
    invocation_id text collate "C",
    lease_until timestamptz not null,
    result text collate "C",
    first bigint,
    last bigint,
    claimed_at timestamptz(3) not null default now(),
    primary key (account, idempotency_key)
  ) with (fillfactor = 70)`;

const followers = `
  create table follower (
    name text collate "C" not null,
    shard integer not null default 0,
    position bigint not null default -1,
    epoch bigint not null default 0,
    primary key (name, shard)
  ) with (fillfactor = 50)`;
