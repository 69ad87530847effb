import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Tags on rows, and the tables of the proof: tiles, checkpoints, log keys, and how far each account's log is sealed. */
export class CreateProof1764500000030 implements MigrationInterface {
  readonly name = 'CreateProof1764500000030';

  async up(runner: QueryRunner): Promise<void> {
    for (const statement of [tags, trees, tilesOnlyGrow, checkpointsAreFinal, logKeys, appendEvents]) {
      await runner.query(statement);
    }
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table log_key, checkpoint, tile, tree, log_format');
    await runner.query('drop function append_events, refuse_change_of_tiles, refuse_change_of_checkpoints');
    await runner.query('alter table event drop column tag');
  }
}

/**
 * A row's tag is an HMAC over its account, its place there and its bytes, under a key that the database does not hold.
 * Rows up to \`untagged_until\` (a global position) were there before tags were. \`mac\` is the program's word for
 * that and for the log's id, given at the first start: neither can be set to something else afterwards.
 */
const tags = `
  alter table event add column tag bytea;
  create table log_format (
    id smallint primary key default 1 check (id = 1),
    untagged_until bigint not null,
    log_id uuid,
    mac bytea
  );
  insert into log_format (untagged_until) select position from head`;

/**
 * \`tree\`: how many of an account's events are in its tree, how many are under a signed checkpoint, and the position
 * that was refused, if one was. \`tile\`: C2SP tlog-tiles geometry; entries of level 0 are leaf hashes. The sequence
 * of checkpoints is that of their commits, since one sealer works at a time.
 */
const trees = `
  create table tree (
    account text collate "C" primary key,
    size bigint not null,
    signed bigint not null default 0,
    refused bigint,
    reason text collate "C",
    check (signed <= size)
  ) with (fillfactor = 70);
  create table tile (
    account text collate "C" not null,
    level integer not null,
    idx bigint not null,
    hashes bytea not null check (octet_length(hashes) between 32 and 8192 and octet_length(hashes) % 32 = 0),
    primary key (account, level, idx)
  );
  alter table tile alter column hashes set storage external;
  create table checkpoint (
    account text collate "C" not null,
    size bigint not null,
    root bytea not null,
    note text not null,
    signed_at timestamptz(3) not null,
    key_id text collate "C" not null,
    sequence bigint generated always as identity unique,
    primary key (account, size)
  )`;

// Triggers hold for owners and superusers too, whom no REVOKE stops.
const tilesOnlyGrow = `
  create function refuse_change_of_tiles() returns trigger language plpgsql as $$
  begin
    if tg_op = 'UPDATE' and (new.account, new.level, new.idx) = (old.account, old.level, old.idx)
      and substr(new.hashes, 1, octet_length(old.hashes)) = old.hashes then
      return new;
    end if;
    raise exception 'tiles only grow' using errcode = 'insufficient_privilege';
  end $$;
  create trigger tile_only_grows before update or delete on tile
    for each row execute function refuse_change_of_tiles();
  create trigger tile_is_kept before truncate on tile
    for each statement execute function refuse_change_of_tiles()`;

const checkpointsAreFinal = `
  create function refuse_change_of_checkpoints() returns trigger language plpgsql as $$
  begin
    raise exception 'checkpoints are never changed or removed' using errcode = 'insufficient_privilege';
  end $$;
  create trigger checkpoint_is_final before update or delete on checkpoint
    for each row execute function refuse_change_of_checkpoints();
  create trigger checkpoint_is_kept before truncate on checkpoint
    for each statement execute function refuse_change_of_checkpoints()`;

/**
 * Times in force are those of the \`log_key.rotated\` events; a key without any has never been in force. The private
 * part is wrapped by a key that the database does not hold, and goes when the key goes out of force.
 */
const logKeys = `
  create table log_key (
    id text collate "C" primary key,
    name text collate "C" not null,
    public_key bytea not null,
    wrapped bytea,
    valid_from timestamptz(3),
    valid_until timestamptz(3)
  )`;

/**
 * As before, with tags (\`e_tags\`, 32 bytes each, or nothing at all) and the account sizes that they were made for
 * (\`a_expected\`, or none). Where an account has another size by now nothing is written, and beside the commands that
 * lost there is a row \`sizes-moved\` for each such account: its place in \`a_account\` and its size. The function that
 * knows no tags goes, so that nobody writes rows which the sealer would refuse.
 */
const appendEvents = `
  drop function append_events;
  create function append_events(
    a_account text[], a_events integer[], a_expected bigint[],
    c_account integer[], c_offset integer[], c_account_offset integer[], c_events integer[],
    w_command integer[], w_account text[], w_stream text[], w_expected integer[], w_version integer[],
    w_first integer[], w_last integer[],
    k_command integer[], k_account text[], k_key text[], k_token text[], k_result text[],
    e_account_at integer[], e_account_offset integer[], e_account text[], e_stream text[], e_version integer[],
    e_id uuid[], e_type text[], e_schema smallint[], e_recorded timestamptz[], e_occurred timestamptz[],
    e_session text[], e_start integer[], e_length integer[], e_bytes bytea, e_leaves bytea,
    e_tags bytea,
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

    if moved is not null or cardinality(unclaimed) > 0 or (cardinality(a_expected) > 0 and sizes <> a_expected) then
      return query
        select distinct on (w.command) w.command, 'conflict', null::bigint, null::bigint, w.stream, coalesce(s.version, 0)
          from unnest(w_command, w_account, w_stream, w_expected) with ordinality w(command, account, stream, expected, ord)
          left join stream s on s.account = w.account and s.id = w.stream
          where coalesce(s.version, 0) <> w.expected and w.command <> all (unclaimed)
          order by w.command, w.ord;
      return query
        select distinct u.command, 'claim-lost', null::bigint, null::bigint, null::text, null::integer
          from unnest(unclaimed) u(command);
      return query
        select a.ord::integer, 'sizes-moved', null::bigint, a.size, null::text, null::integer
          from unnest(sizes, a_expected) with ordinality a(size, expected, ord)
          where a.size <> a.expected;
      return;
    end if;

    with new_events as (
      insert into event (position, account, account_position, stream, version, id, type, schema, recorded_at,
          occurred_at, session_id, leaf, bytes, tag)
        select base + e.ord, e.account, sizes[e.account_at] + e.account_offset, e.stream, e.version, e.id, e.type,
            e.schema, e.recorded_at, e.occurred_at, e.session_id,
            substr(e_leaves, (e.ord::integer - 1) * 32 + 1, 32), substr(e_bytes, e.start, e.length),
            nullif(substr(e_tags, (e.ord::integer - 1) * 32 + 1, 32), '')
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
