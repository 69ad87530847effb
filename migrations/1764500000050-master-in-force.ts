import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Which master key new data keys go under, so that all replicas change over at one commit of a rotation. */
export class CreateMasterInForce1764500000050 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table master_in_force (
        one smallint primary key default 1 check (one = 1),
        -- Unique so that a change of it conflicts with the locks of those who make a key under it.
        id text collate "C" not null unique,
        former text collate "C",
        since timestamptz(3) not null default now()
      );
      insert into master_in_force (id)
        select master from data_key where wrapped is not null group by master order by count(*) desc limit 1;
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table master_in_force');
  }
}
