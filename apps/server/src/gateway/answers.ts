import { Inject, Injectable } from '@nestjs/common';
import type { EventStore } from '#event-store';
import { answerFromEvents, type Answer } from '#firing';
import { EVENT_STORE, SEALING, STOPPING, TOKEN_KEY } from '#platform';
import { invocationStream, type Json, type Sealed } from '#record';
import type { Sealing } from '#sealing';
import { InvocationEnds } from './invocation-ends.js';

/** An answer rebuilt from the log, and whose key fired it. */
export type FoundAnswer =
  | { readonly kind: 'found'; readonly answer: Answer; readonly firedBy: string | null }
  | { readonly kind: 'running'; readonly turnId: string; readonly firedBy: string | null }
  /** The chain ended with its process: there will be no answer. */
  | { readonly kind: 'lost'; readonly firedBy: string | null }
  /** It is past its retention, and was purged. */
  | { readonly kind: 'purged' }
  | { readonly kind: 'unknown' };

const isOver = (found: FoundAnswer): boolean =>
  found.kind === 'found' ? found.answer.outcome !== 'held' : found.kind !== 'running';

/** Answers of earlier firings, on any replica: all of it comes from the invocation's events. */
@Injectable()
export class Answers {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(TOKEN_KEY) private readonly tokenKey: Uint8Array,
    @Inject(STOPPING) private readonly stopping: AbortSignal,
    private readonly ends: InvocationEnds,
  ) {}

  /** The answer of an invocation as it is now. */
  async find(account: string, invocationId: string): Promise<FoundAnswer> {
    const events = await this.store.readStream(account, invocationStream(invocationId));
    const opened = events.find(({ event }) => event.type === 'invocation.opened')?.event;
    if (opened === undefined) {
      const given = await this.store.streamVersion(account, invocationStream(invocationId));
      return { kind: given > 0 ? 'purged' : 'unknown' };
    }
    const firedBy = opened.actor?.id ?? null;
    if (events.some(({ event }) => event.type === 'invocation.lost')) return { kind: 'lost', firedBy };
    const answer = await answerFromEvents(events, {
      tokenKey: this.tokenKey,
      open: (sealed) => this.open(account, sealed),
    });
    if (answer === null) return { kind: 'running', turnId: opened.turnId ?? '', firedBy };
    return { kind: 'found', answer, firedBy };
  }

  /** Waits for an invocation that runs, or waits for an approval, to close: at most `waitMs`. */
  async wait(account: string, invocationId: string, waitMs: number): Promise<FoundAnswer> {
    const until = Date.now() + waitMs;
    for (;;) {
      const left = until - Date.now();
      const next = left <= 0 ? null : this.ends.next(account, invocationId, left);
      try {
        const found = await this.find(account, invocationId);
        if (next === null || isOver(found) || this.stopping.aborted) return found;
        await next.woken;
      } finally {
        next?.leave();
      }
    }
  }

  private async open(account: string, sealed: Sealed): Promise<Json> {
    const opened = await this.sealing.open(account, sealed);
    return opened.kind === 'open' ? opened.value : { erased: true, size: opened.size };
  }
}
