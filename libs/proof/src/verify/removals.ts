import { createHash } from 'node:crypto';
import type { EventHead } from './columns.js';
import { bytesOfHash } from './hashes.js';
import type { Hash } from './source.js';

/** A recorded purge, as far as the walk over the account has come. */
interface Purge {
  /** Account position of the event that records it. */
  readonly at: number;
  readonly events: number;
  /** Hex; null where the event names none. */
  readonly root: string | null;
  readonly digest: ReturnType<typeof createHash>;
  covered: number;
  present: number;
  /** A hash of what it removed is not known: its root cannot be checked. */
  broken: boolean;
}

interface Range {
  readonly first: number;
  readonly last: number;
  readonly purge: Purge;
}

/** What the events of an account say was removed on purpose. */
export class Removals {
  private readonly ranges: Range[] = [];
  private readonly purges: Purge[] = [];
  private at = 0;
  /** Ranges that hold the position that was last asked for. Two may: a purge that was cut short is recorded anew. */
  private open: readonly Range[] = [];

  /** Takes a `retention.purged` event. False when it cannot be read. */
  purge(accountPosition: number, head: EventHead): boolean {
    const { ranges, events, root } = head.data as { ranges?: unknown; events?: unknown; root?: unknown };
    if (!Array.isArray(ranges) || typeof events !== 'number') return false;
    const purge: Purge = {
      at: accountPosition,
      events,
      root: typeof root === 'string' ? root : null,
      digest: createHash('sha256'),
      covered: 0,
      present: 0,
      broken: false,
    };
    for (const range of ranges as readonly { first?: unknown; last?: unknown }[]) {
      const [first, last] = [Number(range.first), Number(range.last)];
      // A purge names only what was there before it.
      if (!Number.isSafeInteger(first) || !Number.isSafeInteger(last) || first > last || last >= accountPosition) {
        return false;
      }
      this.ranges.push({ first, last, purge });
    }
    this.purges.push(purge);
    return true;
  }

  /** To be called once, before the walk begins. */
  sort(): void {
    this.ranges.sort((one, other) => one.first - other.first);
  }

  /** Whether anything was purged. */
  get any(): boolean {
    return this.purges.length > 0;
  }

  /** Whether a recorded purge covers this position; the walk asks in ascending order. */
  covers(position: number): boolean {
    return this.openAt(position).length > 0;
  }

  /** Tells of the position that the walk is at: what hash stands there, and whether its row does. */
  seen(position: number, leaf: Hash | null, state: 'missing' | 'present'): void {
    if (this.at >= this.ranges.length && this.open.length === 0) return;
    for (const { purge } of this.openAt(position)) {
      purge.covered += 1;
      if (state === 'present') purge.present += 1;
      if (leaf === null) purge.broken = true;
      else purge.digest.update(bytesOfHash(leaf));
    }
  }

  /** Once the walk has ended: the purges whose record does not fit, with why. */
  differing(): readonly { readonly at: number; readonly found: string }[] {
    return this.purges.flatMap((purge) => {
      if (purge.covered !== purge.events) {
        return [{ at: purge.at, found: `it says ${purge.events} events and its ranges hold ${purge.covered}` }];
      }
      if (purge.root === null || purge.broken || purge.digest.digest('hex') === purge.root) return [];
      return [{ at: purge.at, found: 'its root is not the one of the leaf hashes of what it removed' }];
    });
  }

  /** Rows that a recorded purge covers and that are there still: it has not come to its end yet. */
  stillThere(): number {
    return this.purges.reduce((sum, { present }) => sum + present, 0);
  }

  private openAt(position: number): readonly Range[] {
    if (this.open.some(({ last }) => last < position)) this.open = this.open.filter(({ last }) => last >= position);
    for (let next = this.ranges[this.at]; next !== undefined && next.first <= position; next = this.ranges[this.at]) {
      this.at += 1;
      if (next.last >= position) this.open = [...this.open, next];
    }
    return this.open;
  }
}
