import { randomUUID } from 'node:crypto';
import type { Sql } from '#event-store';

/** Under this name the relay's position, owner and epoch stand in table `follower`. */
export const relayName = 'kafka-relay';

/** The relay's place is another owner's by now: what was sent since is its successor's business. */
export class Fenced extends Error {
  override readonly name = 'Fenced';
}

/** Being the owner, for as long as the lease is renewed. */
export interface Ownership {
  /** Rises with every change of owner. */
  readonly epoch: bigint;
  /** The last global position that is in Kafka for certain. */
  readonly position: bigint;
  /**
   * By this process's own clock, so that one that stood still knows it before anybody tells it. Once false, it stays so.
   */
  isHeld(): boolean;
  /** Runs a statement that takes effect only for the owner; its `$1` and `$2` are owner and epoch. Throws `Fenced`. */
  fenced(statement: string, values?: readonly unknown[]): Promise<void>;
  /** Lets another replica have it at once. */
  release(): Promise<void>;
  /** Stops renewing: the lease runs out. */
  abandon(): void;
}

/**
 * Takes the relay's lease if it is free; null while another replica has it. The database's clock says when a lease
 * ends; nothing is locked while the owner waits for Kafka.
 */
export const takeOwnership = async (sql: Sql, leaseMs: number): Promise<Ownership | null> => {
  const owner = randomUUID();
  const asked = performance.now();
  const [taken] = await sql.query<{ epoch: string; position: string }>(take, [relayName, owner, leaseMs]);
  if (taken === undefined) return null;
  const { epoch, position } = taken;
  let heldUntil = asked + leaseMs;
  const isHeld = (): boolean => {
    if (performance.now() >= heldUntil) abandon();
    return heldUntil > 0;
  };
  const renewing = setInterval(() => {
    const before = performance.now();
    sql.query(renew, [owner, epoch, relayName, leaseMs]).then(
      (rows) => {
        if (rows.length === 0) abandon();
        else if (isHeld()) heldUntil = before + leaseMs;
      },
      // The database is away: the lease runs out unless it comes back in time.
      () => undefined,
    );
  }, leaseMs / 4);
  renewing.unref();
  const abandon = (): void => {
    clearInterval(renewing);
    heldUntil = 0;
  };
  return {
    epoch: BigInt(epoch),
    position: BigInt(position),
    isHeld,
    fenced: async (statement, values = []) => {
      const rows = await sql.query<{ held: boolean }>(statement, [owner, epoch, ...values]);
      if (rows[0]?.held !== true) throw new Fenced();
    },
    release: async () => {
      abandon();
      await sql.query(give, [owner, epoch, relayName]);
    },
    abandon,
  };
};

const take = `
  insert into follower (name, shard, owner, epoch, lease_until)
    values ($1, 0, $2, 1, clock_timestamp() + $3::integer * interval '1 millisecond')
    on conflict (name, shard) do update
      set owner = excluded.owner, epoch = follower.epoch + 1, lease_until = excluded.lease_until
      where follower.lease_until is null or follower.lease_until < clock_timestamp()
    returning epoch, position`;

const renew = `
  update follower set lease_until = clock_timestamp() + $4::integer * interval '1 millisecond'
    where name = $3 and shard = 0 and owner = $1 and epoch = $2 returning 1`;

const give = `
  update follower set lease_until = null, owner = null
    where name = $3 and shard = 0 and owner = $1 and epoch = $2`;
