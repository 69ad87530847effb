import type { EventStore, Sql } from '#event-store';
import { invocationState, lostEvent } from '#firing';
import { invocationStream } from '#record';
import { forgetLeases, isGone, renewMs, seeLease } from './recovery-lease.js';

/**
 * How long a lapsed lease is watched before its process counts as dead, ms: longer than a living process needs to give
 * its next sign, so that a database which was away for a while does not make all processes dead at once.
 */
const patienceMs = renewMs * 1.5;

/** Openings of a time when they did not yet name their process are given up after this, ms. */
const namelessMs = 3_600_000;

/** Invocations of one process that one look closes. */
const closedAtOnce = 200;

/** Why an invocation was lost: its process is gone, or lives and could not write the end. */
export type LossCause = 'instance_gone' | 'given_up';

/** What looking for lost invocations needs. */
export interface LostTools {
  readonly store: EventStore;
  readonly sql: Sql;
  /** This process. */
  readonly instance: string;
  /** Whether this process runs the chain now. */
  readonly isRunning: (account: string, invocationId: string) => boolean;
  readonly onLost: (account: string, invocationId: string, cause: LossCause) => void;
  readonly watchMs?: number;
}

interface Watched {
  readonly epoch: string | null;
  readonly since: number;
}

/**
 * Closes as `invocation.lost` what a dead process left open, and what this one could not bring to an end (events.md
 * §2). The version check of the invocation's own stream decides: a process that was only paused and comes back finds
 * its chain closed, and one that was quicker is left alone.
 */
export class LostInvocations {
  private readonly watched = new Map<string, Watched>();

  constructor(private readonly tools: LostTools) {}

  /** Looks once. Rejects as the database does; what was watched is then watched anew, since there is a gap in it. */
  async look(): Promise<void> {
    try {
      await this.lookOnce();
    } catch (error) {
      this.watched.clear();
      throw error;
    }
  }

  private async lookOnce(): Promise<void> {
    const { sql } = this.tools;
    const rows = await sql.query<{ instance: string | null }>(
      'select distinct instance from open_invocation where not held',
    );
    for (const seen of this.watched.keys())
      if (!rows.some(({ instance }) => instance === seen)) this.watched.delete(seen);
    for (const { instance } of rows) {
      if (instance === this.tools.instance) await this.closeOpen(instance, 'given_up');
      else if (instance === null || (await this.isDead(instance))) await this.closeOpen(instance, 'instance_gone');
    }
    await forgetLeases(sql);
  }

  private async isDead(instance: string): Promise<boolean> {
    const lease = await seeLease(this.tools.sql, instance);
    if (lease !== null && isGone(lease.mark)) return true;
    if (lease?.lapsed === false) {
      this.watched.delete(instance);
      return false;
    }
    const epoch = lease?.epoch ?? null;
    const watched = this.watched.get(instance);
    if (watched?.epoch === epoch) return performance.now() - watched.since > (this.tools.watchMs ?? patienceMs);
    this.watched.set(instance, { epoch, since: performance.now() });
    return false;
  }

  private async closeOpen(instance: string | null, cause: LossCause): Promise<void> {
    const rows = await this.tools.sql.query<{ account: string; invocation_id: string }>(
      `select account, invocation_id from open_invocation
        where not held and instance is not distinct from $1 and ($1 is not null or opened_at < now() - make_interval(secs => $2))
        order by opened_at limit $3`,
      [instance, namelessMs / 1000, closedAtOnce],
    );
    for (const { account, invocation_id: id } of rows) await this.close(account, id, cause);
  }

  private async close(account: string, id: string, cause: LossCause): Promise<void> {
    // Asked before the stream is read: what ends meanwhile is found ended.
    if (this.tools.isRunning(account, id)) return;
    const stream = invocationStream(id);
    const events = await this.tools.store.readStream(account, stream);
    const state = invocationState(events);
    if (state === 'held') return;
    if (state === 'open') {
      const expectedVersion = events.at(-1)?.event.streamVersion ?? 0;
      const writes = [{ stream, expectedVersion, events: [lostEvent(events, cause)] }];
      const result = await this.tools.store.append({ account, writes });
      // Somebody was quicker; the next look sees what they wrote.
      if (result.kind !== 'appended') return;
      this.tools.onLost(account, id, cause);
    }
    await this.tools.sql.query('delete from open_invocation where account = $1 and invocation_id = $2', [account, id]);
  }
}
