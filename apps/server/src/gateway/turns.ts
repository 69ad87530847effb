import type { EventStore } from '#event-store';
import type { InvocationOpened } from '#record';
import type { HookEntry } from '#dialects';

/** The turn that an invocation belongs to. */
export interface Turn {
  readonly turnId: string;
  readonly inferred: boolean;
  /** Whether this turn has had its system prompt, this firing included; only means something when inferred. */
  readonly prompted: boolean;
}

/** What the newest openings of a session say about the inferred turn under way; null when there is none. */
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

/** Reads the inferred turn of a session off the log, so that every replica infers the same. */
export const currentTurn = async (store: EventStore, account: string, sessionId: string): Promise<CurrentTurn> => {
  const newest = await store.readAccount(account, {
    sessionId,
    types: ['invocation.opened'],
    order: 'newest',
    limit: lookBack,
  });
  const last = newest.find(({ event }) => event.turnInferred === true)?.event;
  if (last?.turnId === undefined) return null;
  return { turnId: last.turnId, prompted: (last.data as unknown as InvocationOpened).turnPrompted ?? false };
};
