import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { joinTail, type EventStore, type LogTail, type StoredEvent } from '#event-store';
import { EVENT_STORE, STOPPING } from '#platform';
import type { EventType } from '#record';

/** What a waiting caller looks for: the chain ended, or has begun to wait for somebody. */
const awaited: readonly EventType[] = ['invocation.closed', 'invocation.lost', 'invocation.held'];

/** Events looked through at once. */
const step = 5_000;

/**
 * Wakes those who wait for an invocation to come to an end, whichever replica brings it there: one look at the log for
 * all of them, so that ten thousand who wait ask the database no more often than one.
 */
@Injectable()
export class InvocationEnds implements OnApplicationShutdown {
  private readonly waiting = new Map<string, Set<() => void>>();
  private tail: LogTail | null = null;
  private looking = false;

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(STOPPING) stopping: AbortSignal,
  ) {
    stopping.addEventListener('abort', () => {
      this.wakeAll();
    });
  }

  /**
   * Resolves at the next such event of the invocation, and at the latest after `ms`. What came before this call does
   * not count: call it first, then look.
   */
  next(
    account: string,
    invocationId: string,
    ms: number,
  ): { readonly woken: Promise<void>; readonly leave: () => void } {
    const key = keyOf(account, invocationId);
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const wake = (): void => {
      clearTimeout(timer);
      resolve(undefined);
    };
    const timer = setTimeout(wake, ms);
    const others = this.waiting.get(key) ?? new Set();
    this.waiting.set(key, others.add(wake));
    const leave = (): void => {
      wake();
      others.delete(wake);
      if (others.size === 0 && this.waiting.get(key) === others) this.waiting.delete(key);
    };
    if (!this.looking) void this.look();
    return { woken: promise, leave };
  }

  onApplicationShutdown(): void {
    this.tail?.leave();
  }

  /** Looks while anybody waits. */
  private async look(): Promise<void> {
    this.looking = true;
    const tail = (this.tail ??= joinTail(this.store));
    let position = tail.seen();
    while (this.waiting.size > 0) {
      await tail.beyond(position);
      const until = tail.seen();
      if (until === position) break;
      const events = await tail.read(position, until, step, awaited).catch(() => null);
      // What could not be read may be what somebody waits for: they all look for themselves.
      if (events === null || events.length === step) this.wakeAll();
      else for (const stored of events) this.wake(stored);
      position = until;
    }
    this.looking = false;
  }

  private wake({ event: { account, invocationId } }: StoredEvent): void {
    if (invocationId === undefined) return;
    for (const wake of this.waiting.get(keyOf(account, invocationId)) ?? []) wake();
  }

  private wakeAll(): void {
    for (const waiting of this.waiting.values()) for (const wake of waiting) wake();
  }
}

const keyOf = (account: string, invocationId: string): string => `${account}\0${invocationId}`;
