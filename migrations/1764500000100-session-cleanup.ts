import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Cleanups of sessions and plugins that are to be done; follows the log. Types of events that they brought. */
export class CreateSessionCleanup1764500000100 implements MigrationInterface {
  readonly name = 'CreateSessionCleanup1764500000100';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table cleanup_due (
        account text collate "C" not null,
        -- Account position of the event that says what is to be done.
        position bigint not null,
        -- Until then somebody is at it.
        lease_until timestamptz(3) not null default '-infinity',
        primary key (account, position)
      ) with (fillfactor = 50);
      create index cleanup_due_lease on cleanup_due (lease_until, position)
    `);
    await runner.query(eventClass(`'injection.expired', 'injection.dropped', 'extension.cleanup_called'`));
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(eventClass(`'injection.expired'`));
    await runner.query('drop table cleanup_due');
  }
}

/** The same as `classOf` of #keeping. */
const eventClass = (newest: string): string => `
  create or replace function event_class(p_type text) returns text language sql immutable parallel safe as $$
    select case
      when p_type like 'invocation.%' or p_type like 'handler.%' or p_type like 'host.%'
        or p_type in ('session.withheld', 'effect.reported') then 'invocation'
      when p_type in ('plugin.tried', 'plugin.load_failed', 'plugin.instance_started', 'plugin.tripped') then 'plugin'
      when p_type in ('session.clear_started', 'session.cleared', 'injection.enqueued', 'injection.drained',
        ${newest}) then 'session'
      when p_type like 'cron.%' and p_type <> 'cron.job_declared' then 'cron'
      when p_type like 'approval.%' and p_type not in ('approval.grant_created', 'approval.grant_revoked') then 'approval'
      when p_type in ('audit.read', 'export.created', 'replay.started', 'replay.finished', 'alarm.raised') then 'account'
      when p_type in ('instance.started', 'instance.heartbeat') then 'instance'
    end
  $$`;
