import type { Sql } from '#event-store';
import type { KnownRuntime } from './affinity.js';
import type { Serves } from './frames.js';
import type { RuntimeConnection } from './runtime-connection.js';

/** How long a connection counts as there after its replica's last sign of life, s. */
const leaseSeconds = 15;

/** A runtime that is connected to another replica. */
export interface FarRuntime extends KnownRuntime {
  readonly instance: string;
}

interface RuntimeRow {
  readonly connection_id: string;
  readonly account: string;
  readonly runtime_id: string;
  readonly key_id: string;
  readonly instance: string;
  readonly serves: Buffer;
}

/** The table of connected runtimes: each replica says which are with it and sees which are with the others. */
export class Presence {
  constructor(
    private readonly sql: Sql,
    private readonly instance: string,
  ) {}

  /**
   * Says that a runtime is connected here. A runtime that names itself has one connection: older ones of it are taken
   * out and answered, by the replica that holds them.
   */
  async announce(
    connection: RuntimeConnection,
  ): Promise<readonly { readonly instance: string; readonly connectionId: string }[]> {
    const { id, account, runtimeId, keyId, serves } = connection;
    const bytes = Buffer.from(JSON.stringify(serves));
    await this.sql.query(
      `insert into host_runtime (connection_id, account, runtime_id, key_id, instance, serves, lease_until)
         values ($1, $2, $3, $4, $5, $6, clock_timestamp() + make_interval(secs => $7))
       on conflict (connection_id) do update set runtime_id = excluded.runtime_id, serves = excluded.serves,
         lease_until = excluded.lease_until`,
      [id, account, runtimeId, keyId, this.instance, bytes, leaseSeconds],
    );
    if (!connection.isNamed) return [];
    const rows = await this.sql.query<{ instance: string; connection_id: string }>(
      `delete from host_runtime where account = $1 and runtime_id = $2 and connection_id <> $3
         returning instance, connection_id`,
      [account, runtimeId, id],
    );
    return rows.map(({ instance, connection_id: connectionId }) => ({ instance, connectionId }));
  }

  /** A sign of life for all connections of this replica; answers with those whose row is there. */
  async renew(): Promise<ReadonlySet<string>> {
    const rows = await this.sql.query<{ connection_id: string }>(
      `update host_runtime set lease_until = clock_timestamp() + make_interval(secs => $2) where instance = $1
         returning connection_id`,
      [this.instance, leaseSeconds],
    );
    return new Set(rows.map(({ connection_id: id }) => id));
  }

  async withdraw(connectionIds: readonly string[]): Promise<void> {
    await this.sql.query('delete from host_runtime where connection_id = any ($1)', [connectionIds]);
  }

  /** Runtimes of the other replicas. */
  async elsewhere(): Promise<readonly FarRuntime[]> {
    const rows = await this.sql.query<RuntimeRow>(
      `select connection_id, account, runtime_id, key_id, instance, serves from host_runtime
         where instance <> $1 and lease_until > clock_timestamp() order by connection_id`,
      [this.instance],
    );
    return rows.map(farRuntime);
  }

  /** Where a runtime is connected now; null: nowhere. */
  async where(account: string, runtimeId: string): Promise<string | null> {
    const [row] = await this.sql.query<{ instance: string }>(
      `select instance from host_runtime where account = $1 and runtime_id = $2 and lease_until > clock_timestamp()
         order by connection_id desc limit 1`,
      [account, runtimeId],
    );
    return row?.instance ?? null;
  }

  /** Forgets connections of replicas that are gone. */
  async sweep(): Promise<void> {
    await this.sql.query("delete from host_runtime where lease_until < clock_timestamp() - interval '1 minute'");
  }
}

const farRuntime = (row: RuntimeRow): FarRuntime => ({
  connectionId: row.connection_id,
  account: row.account,
  runtimeId: row.runtime_id,
  keyId: row.key_id,
  instance: row.instance,
  serves: JSON.parse(row.serves.toString('utf8')) as Serves,
});
