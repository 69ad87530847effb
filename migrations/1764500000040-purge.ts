import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * What recovery, erasure and purging need: who is alive, which invocations are open, what was purged, and the one
 * function that removes events. It runs as a role of its own and removes only what a recorded `retention.purged` names.
 */
export class CreatePurge1764500000040 implements MigrationInterface {
  readonly name = 'CreatePurge1764500000040';

  async up(runner: QueryRunner): Promise<void> {
    const parts = [recovery, purged, blobs, eventClass, eventsAreFinal, purgeRecorded, purgeRecordedLooks, purgerRole];
    for (const statement of [...parts, storeBlobs, removeBlobs]) await runner.query(statement);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop function purge_recorded, remove_blobs, event_class');
    await runner.query('drop table removed_blob, purge_blob, purged_range, open_invocation, instance_lease');
  }
}

/** `mark` names the process where its machine can tell whether it still runs. */
const recovery = `
  create table instance_lease (
    id uuid primary key,
    epoch bigint not null default 1,
    mark text collate "C",
    lease_until timestamptz not null,
    started_at timestamptz(3) not null default now()
  ) with (fillfactor = 50);
  create table open_invocation (
    account text collate "C" not null,
    invocation_id text collate "C" not null,
    instance text collate "C",
    held boolean not null default false,
    opened_at timestamptz(3) not null,
    primary key (account, invocation_id)
  ) with (fillfactor = 70)`;

/** Positions that were removed, and where the event stands that says so: only \`purge_recorded\` writes it. */
const purged = `
  create table purged_range (
    account text collate "C" not null,
    first bigint not null,
    last bigint not null,
    said_at bigint not null,
    purged_at timestamptz(3) not null,
    primary key (account, first)
  )`;

/** Blobs that removed events named, to be looked after; and blobs that were removed and are not yet on record so. */
const blobs = `
  create table purge_blob (
    account text collate "C" not null,
    hash bytea not null,
    primary key (account, hash)
  );
  create table removed_blob (
    account text collate "C" not null,
    work text collate "C" not null,
    hash bytea not null,
    primary key (account, work, hash)
  )`;

/**
 * The class whose retention a type has; null: events of this type are never purged, since something in force is read
 * off them, or they say what was removed.
 */
const eventClass = `
  create function event_class(p_type text) returns text language sql immutable parallel safe as $$
    select case
      when p_type like 'invocation.%' or p_type like 'handler.%' or p_type like 'host.%'
        or p_type in ('session.withheld', 'effect.reported') then 'invocation'
      when p_type in ('plugin.tried', 'plugin.load_failed', 'plugin.instance_started', 'plugin.tripped') then 'plugin'
      when p_type in ('session.clear_started', 'session.cleared', 'injection.enqueued', 'injection.drained',
        'injection.expired') then 'session'
      when p_type like 'cron.%' and p_type <> 'cron.job_declared' then 'cron'
      when p_type like 'approval.%' and p_type not in ('approval.grant_created', 'approval.grant_revoked') then 'approval'
      when p_type in ('audit.read', 'export.created', 'replay.started', 'replay.finished', 'alarm.raised') then 'account'
      when p_type in ('instance.started', 'instance.heartbeat') then 'instance'
    end
  $$`;

/** Still true of everybody, owners and superusers too: only the function below removes events, and nobody changes one. */
const eventsAreFinal = `
  create or replace function refuse_change_of_events() returns trigger language plpgsql as $$
  begin
    if tg_op = 'DELETE' and current_setting('hookledger.purging', true) = old.account
      and current_user = (select pg_get_userbyid(p.proowner) from pg_proc p
        where p.oid = 'purge_recorded(text, bigint, integer)'::regprocedure) then
      return old;
    end if;
    raise exception 'events are never changed or removed' using errcode = 'insufficient_privilege';
  end $$`;

/**
 * Removes up to \`p_limit\` of the events that the \`retention.purged\` at account position \`p_event\` names; answers
 * with how many it removed, 0 when none is left. It takes nobody's word but that event's, which cannot be changed: an
 * event that is not past the policy said there, or of a type that is never purged, stops it and removes nothing.
 */
const purgeRecorded = `
  create function purge_recorded(p_account text, p_event bigint, p_limit integer) returns integer
  language plpgsql security definer set search_path from current as $$
  declare
    said jsonb;
    said_at timestamptz;
    doomed bigint[];
    strangers bigint;
  begin
    select convert_from(e.bytes, 'UTF8')::jsonb, e.recorded_at into said, said_at from event e
      where e.account = p_account and e.account_position = p_event and e.type = 'retention.purged';
    if not found then
      raise exception 'no purge is recorded at this position' using errcode = 'insufficient_privilege';
    end if;
    insert into purged_range (account, first, last, said_at, purged_at)
      select p_account, (r ->> 'first')::bigint, (r ->> 'last')::bigint, p_event, said_at
        from jsonb_array_elements(said #> '{data,ranges}') r
      on conflict (account, first) do nothing;

    with covered as (
      select e.position, e.account_position, e.recorded_at,
          said #> array['data', 'policy', event_class(e.type)] as policy
        from jsonb_array_elements(said #> '{data,ranges}') r
        join event e on e.account = p_account
          and e.account_position between (r ->> 'first')::bigint and (r ->> 'last')::bigint
        order by e.account_position limit p_limit
    )
    select array_agg(c.position), count(*) filter (where c.policy is null or c.account_position >= p_event
        or not c.recorded_at < (c.policy ->> 'before')::timestamptz
        or (c.policy ->> 'days')::integer < 1
        or (c.policy ->> 'before')::timestamptz > said_at - make_interval(days => (c.policy ->> 'days')::integer))
      into doomed, strangers from covered c;
    if doomed is null then
      return 0;
    end if;
    if strangers > 0 then
      raise exception 'the purge names events that are not past its policy' using errcode = 'insufficient_privilege';
    end if;

    insert into purge_blob (account, hash)
      select distinct p_account, decode(m[1], 'hex')
        from event e, regexp_matches(convert_from(e.bytes, 'UTF8'), '"\\$blob":"([0-9a-f]{64})"', 'g') m
        where e.position = any (doomed)
      on conflict do nothing;
    perform set_config('hookledger.purging', p_account, true);
    delete from event e where e.position = any (doomed);
    perform set_config('hookledger.purging', '', true);
    return cardinality(doomed);
  end $$`;

/** Whoever calls it can put a temporary table of another content before none of its tables. */
const purgeRecordedLooks = `
  do $$ begin
    execute format('alter function purge_recorded(text, bigint, integer) set search_path = %I, pg_temp', current_schema());
  end $$`;

/** A role that nobody can log in as. Where this database lets no role be made, the function stays its owner's. */
const purgerRole = `
  do $$
  declare
    home text := current_schema();
  begin
    begin
      if not exists (select from pg_roles where rolname = 'hookledger_purger') then
        create role hookledger_purger nologin;
      end if;
    exception when duplicate_object or unique_violation then
      null;
    end;
    if not pg_has_role(current_user, 'hookledger_purger', 'member') then
      execute format('grant hookledger_purger to %I', current_user);
    end if;
    execute format('grant usage, create on schema %I to hookledger_purger', home);
    grant select, delete on event to hookledger_purger;
    grant select, insert on purged_range, purge_blob to hookledger_purger;
    alter function purge_recorded(text, bigint, integer) owner to hookledger_purger;
    execute format('revoke create on schema %I from hookledger_purger', home);
  exception when insufficient_privilege then
    raise notice 'events are purged as %, since this role may make no role of its own for it', current_user;
  end $$`;

/**
 * As before, and while an append is under way none of its blobs is removed as one that no event names: it shares a
 * lock that \`remove_blobs\` takes for itself.
 */
const storeBlobs = `
  create or replace function store_blobs(b_hashes bytea, b_key text[], b_start integer[], b_length integer[], b_bytes bytea)
  returns void language plpgsql security definer set search_path from current as $$
  begin
    perform pg_advisory_xact_lock_shared(hashtextextended('hookledger blobs', 0));
    insert into blob (hash, key_id, bytes)
      select substr(b_hashes, (b.ord::integer - 1) * 32 + 1, 32), b.key_id, substr(b_bytes, b.start, b.length)
      from unnest(b_key, b_start, b_length) with ordinality b(key_id, start, length, ord)
      order by 1
      on conflict do nothing;
  end $$`;

/**
 * Removes those of these blobs that no event after global position \`p_since\` names (the caller has looked at all
 * before), and notes them under \`p_work\`; the others are left. Answers with how many it removed.
 */
const removeBlobs = `
  create function remove_blobs(p_account text, p_hashes bytea[], p_since bigint, p_work text) returns integer
  language plpgsql as $$
  declare
    removed integer;
  begin
    perform pg_advisory_xact_lock(hashtextextended('hookledger blobs', 0));
    with named as (
      select distinct decode(m[1], 'hex') as hash
        from event e, regexp_matches(convert_from(e.bytes, 'UTF8'), '"\\$blob":"([0-9a-f]{64})"', 'g') m
        where e.position > p_since and e.account = p_account
    ), gone as (
      delete from blob b where b.hash = any (p_hashes) and not exists (select from named n where n.hash = b.hash)
        returning b.hash
    ), noted as (
      insert into removed_blob (account, work, hash) select p_account, p_work, g.hash from gone g on conflict do nothing
    )
    select count(*) into removed from gone;
    delete from purge_blob p where p.account = p_account and p.hash = any (p_hashes);
    return removed;
  end $$`;
