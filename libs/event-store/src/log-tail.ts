import { setTimeout as delay } from 'node:timers/promises';
import type { EventType } from '#record';
import type { EventStore, StoredEvent } from './event-store.js';

/** The log's end as this process last saw it, shared by all followers of a store: it is polled and read once for all. */
export interface LogTail {
  /** Everything up to this position can be read. */
  seen(): bigint;
  /** Resolves when the log has grown beyond `position`, or the tail was left. */
  beyond(position: bigint): Promise<void>;
  /** Events after `after` up to `until` (at most what was seen), oldest first, as `EventStore.readAll` gives them. */
  read(after: bigint, until: bigint, limit: number, types?: readonly EventType[]): Promise<readonly StoredEvent[]>;
  /** True where no event of these types is after `after` up to `until`, as far as that is known without reading. */
  lacks(after: bigint, until: bigint, types: readonly EventType[]): boolean;
  /** Waits; ends early when the tail is left. */
  pause(ms: number): Promise<void>;
  leave(): void;
}

/** Appends of other processes are noticed this late, ms. */
const pollMs = 20;
/** Own appends are noticed at once, but no more often than this, ms. */
const spacingMs = 5;
/** While the database is away, ms. */
const retryMs = 250;
/** What is kept for followers that are close behind. */
const keptEvents = 10_000;
const keptBytes = 8 * 1024 * 1024;
/** When the log has not grown for so long, nobody who is close behind is left to want them, ms. */
const forgetMs = 15_000;

const tails = new WeakMap<EventStore, SharedTail>();

/** Joins the store's tail, or begins it. */
export const joinTail = (store: EventStore): LogTail => {
  const tail = tails.get(store) ?? new SharedTail(store, () => tails.delete(store));
  tails.set(store, tail);
  return tail.join();
};

class SharedTail {
  private seen = -1n;
  private members = 0;
  private appends = 0;
  private sleep = new AbortController();
  private readonly waiting = new Set<() => void>();
  private readonly stopListening: () => void;
  /** The newest events without a gap, ending at `seen`. */
  private kept: StoredEvent[] = [];
  private keptSize = 0;
  private keptAt = 0;

  constructor(
    private readonly store: EventStore,
    private readonly ended: () => void,
  ) {
    this.stopListening = store.onAppended((events) => {
      if (this.takeOwn(events)) return;
      this.appends += 1;
      this.sleep.abort();
    });
  }

  join(): LogTail {
    this.members += 1;
    if (this.members === 1) void this.poll();
    const left = new AbortController();
    return {
      seen: () => this.seen,
      beyond: (position) =>
        this.seen > position || left.signal.aborted
          ? Promise.resolve()
          : new Promise((resolve) => this.waiting.add(resolve)),
      read: (after, until, limit, types) => this.read(after, until, limit, types),
      lacks: (after, until, types) => this.keptAfter(after, until, 1, types)?.length === 0,
      pause: (ms) => delay(ms, undefined, { signal: left.signal, ref: false }).catch(() => undefined),
      leave: () => {
        if (left.signal.aborted) return;
        left.abort();
        this.members -= 1;
        this.wakeAll();
        if (this.members > 0) return;
        this.stopListening();
        this.sleep.abort();
        this.ended();
      },
    };
  }

  private async poll(): Promise<void> {
    let first = true;
    while (this.isFollowed()) {
      const before = this.appends;
      const read = await this.look(first).then(
        () => true,
        () => false,
      );
      if (read) first = false;
      await delay(read ? spacingMs : retryMs, undefined, { ref: false });
      if (this.kept.length > 0 && performance.now() - this.keptAt > forgetMs) this.forget();
      if (read && this.appends === before && this.isFollowed()) await this.untilAppended();
    }
  }

  private isFollowed(): boolean {
    return this.members > 0;
  }

  private async untilAppended(): Promise<void> {
    this.sleep = new AbortController();
    await delay(pollMs - spacingMs, undefined, { signal: this.sleep.signal, ref: false }).catch(() => undefined);
  }

  /** Sees how far the log has grown, and reads what is new unless it is too much to keep. */
  private async look(first: boolean): Promise<void> {
    const head = await this.store.head();
    if (head <= this.seen) return;
    const grown = Number(head - this.seen);
    const events = first || grown > keptEvents ? [] : await this.store.readAll(this.seen, grown);
    // Own events may have been taken meanwhile.
    if (head <= this.seen) return;
    const unseen = events.filter(({ globalPosition }) => globalPosition > this.seen && globalPosition <= head);
    if (unseen.length === 0) this.forget();
    else this.keep(unseen);
    this.seen = head;
    this.wakeAll();
  }

  /** What this process itself put at the end of the log need not be read; false when others wrote before it. */
  private takeOwn(events: readonly StoredEvent[]): boolean {
    const last = events.at(-1);
    if (last === undefined) return true;
    if (events[0]?.globalPosition !== this.seen + 1n) return false;
    this.keep(events);
    this.seen = last.globalPosition;
    this.wakeAll();
    return true;
  }

  private keep(events: readonly StoredEvent[]): void {
    for (const stored of events) this.keptSize += stored.bytes.length;
    this.kept.push(...events);
    this.keptAt = performance.now();
    if (this.kept.length <= keptEvents && this.keptSize <= keptBytes) return;
    let dropped = 0;
    while (this.kept.length - dropped > keptEvents * 0.75 || this.keptSize > keptBytes * 0.75) {
      this.keptSize -= this.kept[dropped]?.bytes.length ?? 0;
      dropped += 1;
    }
    this.kept = this.kept.slice(dropped);
  }

  private forget(): void {
    this.kept = [];
    this.keptSize = 0;
  }

  private async read(
    after: bigint,
    until: bigint,
    limit: number,
    types: readonly EventType[] | undefined,
  ): Promise<readonly StoredEvent[]> {
    const kept = this.keptAfter(after, until, limit, types);
    if (kept !== null) return kept;
    const events = await this.store.readAll(after, limit, types);
    return events.filter((stored) => stored.globalPosition <= until);
  }

  /** Null where not all of them are kept. */
  private keptAfter(
    after: bigint,
    until: bigint,
    limit: number,
    types: readonly EventType[] | undefined,
  ): readonly StoredEvent[] | null {
    const [oldest] = this.kept;
    if (oldest === undefined || after + 1n < oldest.globalPosition) return null;
    // Positions are dense, so a place in the log is a place in the array.
    const found: StoredEvent[] = [];
    for (let at = Number(after + 1n - oldest.globalPosition); at < this.kept.length && found.length < limit; at += 1) {
      const stored = this.kept[at];
      if (stored === undefined || stored.globalPosition > until) break;
      if (types === undefined || types.includes(stored.event.type)) found.push(stored);
    }
    return found;
  }

  private wakeAll(): void {
    const woken = [...this.waiting];
    this.waiting.clear();
    for (const resolve of woken) resolve();
  }
}
