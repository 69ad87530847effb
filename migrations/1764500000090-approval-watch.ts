import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Approvals that wait: for a decision, to be gone on from, or for their plugin to be told. Follows the log. */
export class CreateApprovalWatch1764500000090 implements MigrationInterface {
  readonly name = 'CreateApprovalWatch1764500000090';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table approval_wait (
        account text collate "C" not null,
        approval_id text collate "C" not null,
        due_at timestamptz(3) not null,
        ended boolean not null default false,
        -- The invocation has not gone on yet; until lease_until somebody is at it.
        goes_on boolean not null default true,
        lease_until timestamptz(3) not null default '-infinity',
        -- The process whose plugin waits to be told.
        teller text collate "C",
        primary key (account, approval_id)
      ) with (fillfactor = 50);
      create index approval_wait_due on approval_wait (due_at) where not ended;
      create index approval_wait_goes_on on approval_wait (lease_until) where ended and goes_on;
      create index approval_wait_tells on approval_wait (teller) where ended and teller is not null
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table approval_wait');
  }
}
