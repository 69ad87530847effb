import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Values of secrets, which no event may hold, and the directory's snapshot, which spares a start the long log. */
export class CreateAccounts1764500000020 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table secret_value (
        id uuid primary key,
        account text not null,
        name text not null,
        -- JSON of a sealed value: never plaintext.
        sealed text not null,
        created_at timestamptz not null default now()
      );
      create table directory_snapshot (
        -- Form of \`state\`; a program reads its own form only.
        format int primary key,
        position bigint not null,
        state text not null,
        -- HMAC under a key that the database does not hold: a forged snapshot is not read.
        mac bytea not null
      );
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table directory_snapshot; drop table secret_value');
  }
}
