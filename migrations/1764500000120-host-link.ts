import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Connected runtimes, host calls on their way between replicas, and how many messages descend from a root. */
export class CreateHostLink1764500000120 implements MigrationInterface {
  readonly name = 'CreateHostLink1764500000120';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table host_runtime (
        connection_id text collate "C" primary key,
        account text collate "C" not null,
        -- Outlives connections where the runtime names itself.
        runtime_id text collate "C" not null,
        key_id text collate "C" not null,
        -- The process that holds the connection.
        instance text collate "C" not null,
        -- What the runtime said it serves, a JSON object.
        serves bytea not null,
        lease_until timestamptz(3) not null
      ) with (fillfactor = 50);
      create index host_runtime_instance on host_runtime (instance);
      -- Nothing here is a record: a row is gone when its call has an answer or its time is up. What it says is sealed.
      create table host_call_transit (
        call_id text collate "C" primary key,
        account text collate "C" not null,
        runtime_id text collate "C" not null,
        connection_id text collate "C",
        -- The process whose chain waits, and the one that holds the runtime's connection.
        origin text collate "C" not null,
        holder text collate "C",
        frame bytea not null,
        delivered boolean not null default false,
        answer bytea,
        expires_at timestamptz(3) not null
      ) with (fillfactor = 50);
      create index host_call_transit_origin on host_call_transit (origin);
      create index host_call_transit_holder on host_call_transit (holder) where answer is null;
      create index host_call_transit_runtime on host_call_transit (account, runtime_id) where answer is null;
      create index host_call_transit_expires on host_call_transit (expires_at);
      create table root_breadth (
        account text collate "C" not null,
        root text collate "C" not null,
        sent integer not null,
        at timestamptz(3) not null,
        primary key (account, root)
      ) with (fillfactor = 50);
      create index root_breadth_at on root_breadth (at)
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table host_runtime, host_call_transit, root_breadth');
  }
}
