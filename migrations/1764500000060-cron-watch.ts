import type { MigrationInterface, QueryRunner } from 'typeorm';

/** What the worker watches the clock for: leases of open cron runs, and slots that are yet to come. Follows the log. */
export class CreateCronWatch1764500000060 implements MigrationInterface {
  readonly name = 'CreateCronWatch1764500000060';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table cron_open_run (
        account text collate "C" not null,
        run_id text collate "C" not null,
        lease_until timestamptz(3) not null,
        primary key (account, run_id)
      );
      create index cron_open_run_lapses on cron_open_run (lease_until);
      -- A declaration whose slots are not all judged yet; an older one of the same job ends where the next began.
      create table cron_expectation (
        account text collate "C" not null,
        job_id text collate "C" not null,
        version integer not null,
        agent_id text collate "C",
        schedule text not null,
        time_zone text not null,
        grace_seconds integer not null,
        ends_at timestamptz(3),
        next_slot timestamptz(3) not null,
        due_at timestamptz(3) not null,
        primary key (account, job_id, version)
      );
      create index cron_expectation_due on cron_expectation (due_at)
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table cron_expectation; drop table cron_open_run');
  }
}
