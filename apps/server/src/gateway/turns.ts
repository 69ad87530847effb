import { Inject, Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import type { HookEntry } from '#dialects';
import type { EventStore } from '#event-store';
import { EVENT_STORE } from '#platform';
import type { InvocationOpened } from '#record';
import { newId } from './new-id.js';

/** The turn that an invocation belongs to. */
export interface Turn {
  readonly turnId: string;
  readonly inferred: boolean;
  /** Whether this turn has had its system prompt, this firing included; only means something when inferred. */
  readonly prompted: boolean;
}

/** The inferred turn of a session that is under way; null when there is none. */
export type CurrentTurn = Pick<Turn, 'turnId' | 'prompted'> | null;

/**
 * Every invocation belongs to a turn (api.md): a caller that names none gets one per session. A new one begins where
 * the catalogue says so, and at a system prompt of a turn that has had its own.
 */
export const inferTurn = (entry: Pick<HookEntry, 'startsTurn'>, current: CurrentTurn, newId: () => string): Turn => {
  const isPrompt = entry.startsTurn === 'unless-just-started';
  const begins = current === null || entry.startsTurn === 'always' || (isPrompt && current.prompted);
  if (begins) return { turnId: newId(), inferred: true, prompted: isPrompt };
  return { turnId: current.turnId, inferred: true, prompted: current.prompted || isPrompt };
};

/** Openings looked at to find the last inferred turn, when a session mixes named and inferred ones. */
const lookBack = 20;

/** Sessions whose newest turn is kept in memory. */
const sessionsKept = 10_000;

interface Known {
  readonly turn: CurrentTurn;
  /** When it was inferred, ms since the epoch. */
  readonly at: number;
}

/**
 * Infers the turns of sessions. What was inferred is read off the log, so that every replica and every restart goes on
 * with the same turn; firings of this process that are not recorded yet are remembered, so that those that come at
 * once share one.
 */
@Injectable()
export class Turns {
  private readonly recent = new LRUCache<string, Known>({ max: sessionsKept });
  private readonly waiting = new Map<string, Promise<unknown>>();

  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  /** The turn of a firing that names none. Without a session every firing is a turn of its own. */
  infer(account: string, sessionId: string | null, entry: Pick<HookEntry, 'startsTurn'>): Promise<Turn> {
    if (sessionId === null) return Promise.resolve(inferTurn(entry, null, newId));
    const key = JSON.stringify([account, sessionId]);
    return this.inTurn(key, async () => {
      const current = await this.current(key, account, sessionId);
      const turn = inferTurn(entry, current, newId);
      this.recent.set(key, { turn, at: Date.now() });
      return turn;
    });
  }

  /** The newer of what the log says and what this process inferred since. */
  private async current(key: string, account: string, sessionId: string): Promise<CurrentTurn> {
    const [stored, known] = [await this.recorded(account, sessionId), this.recent.get(key)];
    if (known === undefined) return stored?.turn ?? null;
    return stored !== null && stored.at > known.at ? stored.turn : known.turn;
  }

  private async recorded(account: string, sessionId: string): Promise<Known | null> {
    const newest = await this.store.readAccount(account, {
      sessionId,
      types: ['invocation.opened'],
      order: 'newest',
      limit: lookBack,
    });
    const last = newest.find(({ event }) => event.turnInferred === true)?.event;
    if (last?.turnId === undefined) return null;
    const { turnPrompted = false } = last.data as unknown as InvocationOpened;
    return { turn: { turnId: last.turnId, prompted: turnPrompted }, at: Date.parse(last.recordedAt) };
  }

  /** One inference of a session at a time. */
  private async inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.waiting.get(key) ?? Promise.resolve();
    const mine = before.then(work, work);
    this.waiting.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.waiting.get(key) === mine) this.waiting.delete(key);
    }
  }
}
