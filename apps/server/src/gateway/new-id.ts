import { timeOrderedIds } from '#event-store';

/** Ids of invocations, and of turns that nobody named. */
export const newId = timeOrderedIds();
