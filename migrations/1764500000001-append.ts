import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The functions of the hot path: one round trip to append a batch, one to claim an idempotency key. */
export class CreateAppend1764500000001 implements MigrationInterface {
  readonly name = 'CreateAppend1764500000001';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(storeBlobs);
    await runner.query(lockHead);
    await runner.query(appendEvents);
    await runner.query(claimCommand);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop function append_events, lock_head, store_blobs, claim_command');
  }
}

/** Stores what is not there yet. In the order of their hashes, so that no two batches wait for each other in a ring. */
const storeBlobs = `
  create function store_blobs(b_hashes bytea, b_key text[], b_start integer[], b_length integer[], b_bytes bytea)
  returns void language plpgsql security definer set search_path from current as $$
  begin
    insert into blob (hash, key_id, bytes)
      select substr(b_hashes, (b.ord::integer - 1) * 32 + 1, 32), b.key_id, substr(b_bytes, b.start, b.length)
      from unnest(b_key, b_start, b_length) with ordinality b(key_id, start, length, ord)
      order by 1
      on conflict do nothing;
  end $$`;

/** The program's role may not change the head, and a row lock asks for that right: it locks through this. */
const lockHead = `
  create function lock_head() returns void language plpgsql security definer set search_path from current as $$
  begin
    perform 1 from head where id = 1 for update;
  end $$`;

/**
 * Appends a batch, whole or not at all. Arrays with the same prefix run in parallel: `a_` accounts, `c_` commands,
 * `w_` stream writes, `k_` claims to end, `e_` events, `b_` blobs. Long values come one after another in one `bytea`
 * each. Offsets count from 0 in the batch, or in the batch's part of an account; the caller sends at most one command
 * per stream. Answers one row per command when everything was written (`appended`), else one row per command that
 * lost (`conflict` with the first stream that moved on, or `claim-lost`): the caller sends the others again.
 *
 * Blobs and claims are locked before the head, so that nothing waits for them under the head's lock. Under it, all
 * that earlier commits wrote is visible and nobody else writes: positions are dense and in commit order.
 */
const appendEvents = `
  create function append_events(
    a_account text[], a_events integer[],
    c_account integer[], c_offset integer[], c_account_offset integer[], c_events integer[],
    w_command integer[], w_account text[], w_stream text[], w_expected integer[], w_version integer[],
    w_first integer[], w_last integer[],
    k_command integer[], k_account text[], k_key text[], k_token text[], k_result text[],
    e_account_at integer[], e_account_offset integer[], e_account text[], e_stream text[], e_version integer[],
    e_id uuid[], e_type text[], e_schema smallint[], e_recorded timestamptz[], e_occurred timestamptz[],
    e_session text[], e_start integer[], e_length integer[], e_bytes bytea, e_leaves bytea,
    b_hashes bytea, b_key text[], b_start integer[], b_length integer[], b_bytes bytea
  ) returns table (command integer, status text, global_position bigint, account_position bigint,
    moved_stream text, moved_version integer)
  language plpgsql security definer
  set search_path from current set lock_timeout = '2s' set jit = off set plan_cache_mode = force_generic_plan as $$
  #variable_conflict use_column
  declare
    base bigint;
    sizes bigint[];
    unclaimed integer[] := '{}';
    moved integer[];
  begin
    if cardinality(b_start) > 0 then
      perform store_blobs(b_hashes, b_key, b_start, b_length, b_bytes);
    end if;

    if cardinality(k_command) > 0 then
      with held as materialized (
        select k.ord
          from unnest(k_account, k_key, k_token) with ordinality k(account, key, token, ord)
          join command c on c.account = k.account and c.idempotency_key = k.key
          where c.token = k.token and c.result is null
          order by c.account, c.idempotency_key
          for update of c
      )
      select coalesce(array_agg(k.command), '{}') into unclaimed
        from unnest(k_command) with ordinality k(command, ord)
        where not exists (select from held where held.ord = k.ord);
    end if;

    select h.position into base from head h where h.id = 1 for update;

    select
      (select array_agg(coalesce(h.size, 0) order by a.ord)
        from unnest(a_account) with ordinality a(account, ord)
        left join account_head h on h.account = a.account),
      (select array_agg(w.command)
        from unnest(w_command, w_account, w_stream, w_expected) w(command, account, stream, expected)
        left join stream s on s.account = w.account and s.id = w.stream
        where coalesce(s.version, 0) <> w.expected)
      into sizes, moved;

    if moved is not null or cardinality(unclaimed) > 0 then
      return query
        select distinct on (w.command) w.command, 'conflict', null::bigint, null::bigint, w.stream, coalesce(s.version, 0)
          from unnest(w_command, w_account, w_stream, w_expected) with ordinality w(command, account, stream, expected, ord)
          left join stream s on s.account = w.account and s.id = w.stream
          where coalesce(s.version, 0) <> w.expected and w.command <> all (unclaimed)
          order by w.command, w.ord;
      return query
        select distinct u.command, 'claim-lost', null::bigint, null::bigint, null::text, null::integer
          from unnest(unclaimed) u(command);
      return;
    end if;

    with new_events as (
      insert into event (position, account, account_position, stream, version, id, type, schema, recorded_at,
          occurred_at, session_id, leaf, bytes)
        select base + e.ord, e.account, sizes[e.account_at] + e.account_offset, e.stream, e.version, e.id, e.type,
            e.schema, e.recorded_at, e.occurred_at, e.session_id,
            substr(e_leaves, (e.ord::integer - 1) * 32 + 1, 32), substr(e_bytes, e.start, e.length)
          from unnest(e_account_at, e_account_offset, e_account, e_stream, e_version, e_id, e_type, e_schema,
              e_recorded, e_occurred, e_session, e_start, e_length)
            with ordinality e(account_at, account_offset, account, stream, version, id, type, schema,
              recorded_at, occurred_at, session_id, start, length, ord)
    ), new_streams as (
      insert into stream (account, id, version, first, last)
        select w.account, w.stream, w.version, base + 1 + w.first, base + 1 + w.last
          from unnest(w_account, w_stream, w_version, w_first, w_last) w(account, stream, version, first, last)
        on conflict (account, id) do update set version = excluded.version, last = excluded.last
    ), new_sizes as (
      insert into account_head (account, size)
        select a.account, sizes[a.ord] + a.events
          from unnest(a_account, a_events) with ordinality a(account, events, ord)
          where a.events > 0
        on conflict (account) do update set size = excluded.size
    )
    update head h set position = base + cardinality(e_version) where h.id = 1 and cardinality(e_version) > 0;

    if cardinality(k_command) > 0 then
      update command c
        set result = k.result,
            first = sizes[c_account[k.command]] + c_account_offset[k.command],
            last = sizes[c_account[k.command]] + c_account_offset[k.command] + c_events[k.command] - 1
        from unnest(k_command, k_account, k_key, k_result) k(command, account, key, result)
        where c.account = k.account and c.idempotency_key = k.key;
    end if;

    return query
      select c.ord::integer, 'appended', base + 1 + c.first, sizes[c.account] + c.account_first, null::text, null::integer
        from unnest(c_account, c_offset, c_account_offset) with ordinality c(account, first, account_first, ord);
  end $$`;

/**
 * One look at an idempotency key: \`claimed\`, \`done\`, \`mismatch\` or \`held\`. Leases run by the database's clock,
 * which all replicas share. The commit is not waited for: whatever the claim leads to is committed after it in the
 * same write-ahead log, so a claim can only be lost together with everything done under it.
 */
const claimCommand = `
  create function claim_command(p_account text, p_key text, p_digest text, p_token text, p_invocation text, p_lease_ms integer)
  returns table (kind text, attempt integer, previous text, result text, first bigint, last bigint)
  language plpgsql as $$
  #variable_conflict use_column
  declare
    found_row command%rowtype;
    lease timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  begin
    perform set_config('synchronous_commit', 'off', true);
    insert into command (account, idempotency_key, request_digest, token, attempt, invocation_id, lease_until)
      values (p_account, p_key, p_digest, p_token, 1, p_invocation, lease)
      on conflict do nothing;
    if found then
      return query select 'claimed', 1, null::text, null::text, null::bigint, null::bigint;
      return;
    end if;
    select * into found_row from command c where c.account = p_account and c.idempotency_key = p_key for update;
    if not found then
      -- Given back between the two statements: the next look finds it free.
      return query select 'held', 0, null::text, null::text, null::bigint, null::bigint;
    elsif found_row.request_digest <> p_digest then
      return query select 'mismatch', 0, null::text, null::text, null::bigint, null::bigint;
    elsif found_row.result is not null then
      return query select 'done', found_row.attempt, null::text, found_row.result, found_row.first, found_row.last;
    elsif found_row.lease_until > clock_timestamp() then
      return query select 'held', 0, null::text, null::text, null::bigint, null::bigint;
    else
      update command c
        set token = p_token, attempt = c.attempt + 1, invocation_id = p_invocation, lease_until = lease, claimed_at = now()
        where c.account = p_account and c.idempotency_key = p_key;
      return query select 'claimed', found_row.attempt + 1, found_row.invocation_id, null::text, null::bigint, null::bigint;
    end if;
  end $$`;
