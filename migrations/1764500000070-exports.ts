import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Exports that were asked for, and what was made of them: never their files, which come out of the log again. */
export class CreateExports1764500000070 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table export_job (
        account text collate "C" not null,
        id text collate "C" not null,
        state text collate "C" not null default 'waiting' check (state in ('waiting', 'running', 'done', 'failed')),
        attempts integer not null default 0,
        progress bigint not null default 0,
        token text collate "C",
        lease_until timestamptz,
        asked_at timestamptz not null default now(),
        pin text,
        manifest text,
        primary key (account, id)
      );
      create index export_job_open on export_job (asked_at) where state in ('waiting', 'running');
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table export_job');
  }
}
