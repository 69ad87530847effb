import type { MigrationInterface, QueryRunner } from 'typeorm';

/** What the relay to Kafka keeps: who its owner is, and what is in the topics beside the events. */
export class CreateRelay1764500000080 implements MigrationInterface {
  readonly name = 'CreateRelay1764500000080';

  async up(runner: QueryRunner): Promise<void> {
    for (const statement of [lease, blobs, blobsGo, keys, notes]) await runner.query(statement);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop trigger blob_leaves_kafka on blob; drop function note_gone_blobs');
    await runner.query('drop table relayed_note, relayed_blob');
    await runner.query('alter table data_key drop column relayed');
    await runner.query('alter table follower drop column owner, drop column lease_until');
  }
}

/** A follower whose effects are outside the database holds no lock while it waits for them: it has a lease instead. */
const lease = `
  alter table follower add column owner text collate "C", add column lease_until timestamptz`;

/** Blobs that are in their topic, in how many parts. \`of_event\`: the bytes of the event at this global position. */
const blobs = `
  create table relayed_blob (
    hash bytea primary key,
    parts integer not null,
    of_event bigint,
    gone boolean not null default false
  );
  create index relayed_blob_gone on relayed_blob (hash) where gone;
  create index relayed_blob_of_event on relayed_blob (of_event) where of_event is not null`;

/** Whoever removes a blob, and why: the topic is made to forget it too. */
const blobsGo = `
  create function note_gone_blobs() returns trigger language plpgsql security definer set search_path from current as $$
  begin
    update relayed_blob r set gone = true from gone_blob g where r.hash = g.hash;
    return null;
  end $$;
  create trigger blob_leaves_kafka after delete on blob referencing old table as gone_blob
    for each statement execute function note_gone_blobs()`;

/**
 * \`relayed\`: what the topic of keys has of this key: the master key that wraps it there, or \`erased\`. The index has
 * only those of which it should have something else.
 */
const keys = `
  alter table data_key add column relayed text collate "C";
  create index data_key_unrelayed on data_key (id)
    where relayed is distinct from (case when wrapped is null then 'erased' else master end)`;

/** Small facts by name: how far the checkpoints are sent, and which log keys. */
const notes = `
  create table relayed_note (
    name text collate "C" primary key,
    value text collate "C" not null
  ) with (fillfactor = 50)`;
