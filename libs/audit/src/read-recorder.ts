import { grouped } from './grouped.js';
import type { EventStore } from '#event-store';
import { asData, type Actor, type NewEvent } from '#record';

/** A read of the record by a key. */
export interface RecordRead {
  readonly account: string;
  readonly actor: Actor;
  /** What was read: the path below the account, ids included, without its query. */
  readonly path: string;
  /** Whether content was shown. */
  readonly content: 'full' | 'none';
  /** HMAC of the data subject that was asked for. */
  readonly dataSubject: string | null;
}

/** `data` of `audit.read`. The counts of one key, path and minute add up. */
export interface AuditRead {
  readonly path: string;
  /** Begin of the minute, RFC 3339. */
  readonly minute: string;
  readonly count: number;
  readonly content: 'full' | 'none';
  readonly dataSubject?: string;
}

/** Stream of an account's reads. */
const readsStream = 'reads';

interface Sum {
  readonly read: RecordRead;
  readonly minute: string;
  /** Resolves when the first read is on record. */
  readonly first: Promise<void>;
  /** Reads after the first, not yet on record. */
  more: number;
}

const minuteOf = (time: Date): string => `${time.toISOString().slice(0, 16)}:00.000Z`;

/**
 * Records reads, summed per key, path and minute. The first of a minute is on record before its answer leaves, so that
 * no crash can hide that somebody read something; how often more is written when the minute is over, and a crash can
 * lose that number only.
 */
export class ReadRecorder {
  private sums = new Map<string, Sum>();

  constructor(
    private readonly store: EventStore,
    private readonly now: () => Date = () => new Date(),
  ) {}

  /** Resolves once this read is on record or counted beside one that is. Rejects as `EventStore.append` does. */
  async note(read: RecordRead): Promise<void> {
    const minute = minuteOf(this.now());
    const key = JSON.stringify([read.account, read.actor, read.path, read.content, read.dataSubject, minute]);
    const known = this.sums.get(key);
    if (known !== undefined) {
      known.more += 1;
      await known.first;
      return;
    }
    const sum: Sum = { read, minute, first: this.write([{ read, minute, count: 1 }]), more: 0 };
    this.sums.set(key, sum);
    try {
      await sum.first;
    } catch (error) {
      this.sums.delete(key);
      throw error;
    }
  }

  /** Writes the counts of the minutes that are over; of the running one too when the program stops. */
  async flush(which: 'over' | 'all' = 'over'): Promise<void> {
    const minute = minuteOf(this.now());
    const due = [...this.sums].filter(([, sum]) => which === 'all' || sum.minute < minute);
    for (const [key, sum] of due) if (sum.more === 0) this.sums.delete(key);
    const accounts = grouped(due, ([, { read }]) => read.account);
    for (const sums of accounts.values()) {
      const counted = sums.filter(([, sum]) => sum.more > 0);
      // What cannot be written stays and is tried again.
      await this.write(counted.map(([, { read, minute: of, more }]) => ({ read, minute: of, count: more })));
      for (const [key] of counted) this.sums.delete(key);
    }
  }

  private async write(
    reads: readonly { readonly read: RecordRead; readonly minute: string; readonly count: number }[],
  ): Promise<void> {
    const account = reads[0]?.read.account;
    if (account === undefined) return;
    const events = reads.map(({ read, minute, count }): NewEvent => ({
      type: 'audit.read',
      actor: read.actor,
      data: asData({
        path: read.path,
        minute,
        count,
        content: read.content,
        ...(read.dataSubject === null ? {} : { dataSubject: read.dataSubject }),
      } satisfies AuditRead),
    }));
    await this.store.append({ account, writes: [{ stream: readsStream, expectedVersion: 'any', events }] });
  }
}
