import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Sql } from '#event-store';
import type { HostAnswer } from '#firing';

/** A call on its way to a runtime of another replica, or to one that has to come back. */
export interface TransitCall {
  readonly callId: string;
  readonly account: string;
  readonly runtimeId: string;
  readonly connectionId: string | null;
  readonly origin: string;
  readonly member: string;
  readonly frame: string;
  /** Time left, ms. */
  readonly leftMs: number;
}

/** What the origin of calls finds when it looks after them. */
export interface TransitState {
  readonly callId: string;
  readonly holder: string | null;
  readonly delivered: boolean;
  readonly answered: boolean;
}

interface CallRow {
  readonly call_id: string;
  readonly account: string;
  readonly runtime_id: string;
  readonly connection_id: string | null;
  readonly origin: string;
  readonly frame: Buffer;
  readonly left_ms: string;
}

/**
 * The table through which replicas hand calls and answers to each other. It holds content only while a call is under
 * way, and that sealed under a key of its own.
 */
export class Transit {
  constructor(
    private readonly sql: Sql,
    private readonly key: Uint8Array,
    private readonly instance: string,
  ) {}

  /** Puts a call down for a replica, or for whichever the runtime comes back to (`holder` null). */
  async put(call: TransitCall, holder: string | null, delivered: boolean): Promise<void> {
    const { callId, account, runtimeId, connectionId, origin, member, frame, leftMs } = call;
    await this.sql.query(
      `insert into host_call_transit
         (call_id, account, runtime_id, connection_id, origin, holder, frame, delivered, expires_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + make_interval(secs => $9))`,
      [
        callId,
        account,
        runtimeId,
        connectionId,
        origin,
        holder,
        this.seal(callId, JSON.stringify([member, frame])),
        delivered,
        leftMs / 1000,
      ],
    );
  }

  /** Takes a call that was put down for this replica; null: it is gone, or somebody else's by now. */
  async take(callId: string): Promise<TransitCall | null> {
    const rows = await this.sql.query<CallRow>(
      `update host_call_transit set delivered = true where call_id = $1 and holder = $2 and not delivered
         and answer is null and expires_at > clock_timestamp() returning ${columns}`,
      [callId, this.instance],
    );
    return this.callsIn(rows)[0] ?? null;
  }

  /** Those that were put down for this replica and that it was not told of. */
  async waitingHere(): Promise<readonly string[]> {
    const rows = await this.sql.query<{ call_id: string }>(
      `select call_id from host_call_transit where holder = $1 and not delivered and answer is null
         and expires_at > clock_timestamp() limit 500`,
      [this.instance],
    );
    return rows.map(({ call_id }) => call_id);
  }

  /**
   * Takes over what a runtime has not answered, now that it is connected here. `lying`: only what no replica holds.
   */
  async takeOver(account: string, runtimeId: string, which: 'all' | 'lying'): Promise<readonly TransitCall[]> {
    const rows = await this.sql.query<CallRow>(
      `update host_call_transit set holder = $3, delivered = true where account = $1 and runtime_id = $2
         and answer is null and expires_at > clock_timestamp() and (holder is null or $4) returning ${columns}`,
      [account, runtimeId, this.instance, which === 'all'],
    );
    return this.callsIn(rows);
  }

  /** The runtime went away: its calls wait until it comes back to some replica. */
  async release(callIds: readonly string[]): Promise<void> {
    await this.sql.query(
      `update host_call_transit set holder = null, connection_id = null
         where call_id = any ($1) and holder = $2 and answer is null`,
      [callIds, this.instance],
    );
  }

  /** Puts an answer down for the origin; false: nobody waits any more, or there is one. */
  async answer(callId: string, answer: HostAnswer): Promise<boolean> {
    const rows = await this.sql.query(
      `update host_call_transit set answer = $2 where call_id = $1 and holder = $3 and answer is null returning call_id`,
      [callId, this.seal(callId, JSON.stringify(answer)), this.instance],
    );
    return rows.length > 0;
  }

  /** Takes the answer to a call of this replica; null: there is none yet. */
  async takeAnswer(callId: string): Promise<HostAnswer | null> {
    const [row] = await this.sql.query<{ answer: Buffer }>(
      'delete from host_call_transit where call_id = $1 and origin = $2 and answer is not null returning answer',
      [callId, this.instance],
    );
    return row === undefined ? null : (JSON.parse(this.open(callId, row.answer)) as HostAnswer);
  }

  /** How the calls stand that this replica waits for. */
  async states(): Promise<readonly TransitState[]> {
    const rows = await this.sql.query<{
      call_id: string;
      holder: string | null;
      delivered: boolean;
      answered: boolean;
    }>(`select call_id, holder, delivered, answer is not null as answered from host_call_transit where origin = $1`, [
      this.instance,
    ]);
    return rows.map(({ call_id: callId, ...row }) => ({ callId, ...row }));
  }

  /**
   * Takes a call of this replica away: it is to be given to another runtime (`undelivered`, only when nobody has been
   * sent it), is delivered here, or is not wanted. Null: there is none, or it was delivered.
   */
  async remove(callId: string, which: 'any' | 'undelivered'): Promise<{ readonly holder: string | null } | null> {
    const [row] = await this.sql.query<{ holder: string | null }>(
      `delete from host_call_transit where call_id = $1 and origin = $2 and (not delivered or $3) returning holder`,
      [callId, this.instance, which === 'any'],
    );
    return row ?? null;
  }

  /** Forgets what nobody came for. */
  async sweep(): Promise<void> {
    await this.sql.query('delete from host_call_transit where expires_at < clock_timestamp()');
  }

  private callsIn(rows: readonly CallRow[]): readonly TransitCall[] {
    return rows.map((row) => {
      const [member, frame] = JSON.parse(this.open(row.call_id, row.frame)) as readonly [string, string];
      return {
        callId: row.call_id,
        account: row.account,
        runtimeId: row.runtime_id,
        connectionId: row.connection_id,
        origin: row.origin,
        member,
        frame,
        leftMs: Number(row.left_ms),
      };
    });
  }

  private seal(callId: string, text: string): Buffer {
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', this.key, nonce).setAAD(Buffer.from(callId));
    return Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  }

  /** Throws on what this program did not write for this call. */
  private open(callId: string, sealed: Buffer): string {
    const decipher = createDecipheriv('aes-256-gcm', this.key, sealed.subarray(0, 12))
      .setAAD(Buffer.from(callId))
      .setAuthTag(sealed.subarray(-16));
    return Buffer.concat([decipher.update(sealed.subarray(12, -16)), decipher.final()]).toString('utf8');
  }
}

const columns = `call_id, account, runtime_id, connection_id, origin, frame,
  ceil(extract(epoch from expires_at - clock_timestamp()) * 1000)::text as left_ms`;
