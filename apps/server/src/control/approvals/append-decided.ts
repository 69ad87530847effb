import type { Append, EventStore } from '#event-store';
import { Problem } from '#platform';

/** Appends what was decided; false when a stream of it has moved since, so that it is to be decided anew. */
export const appendDecided = async (store: EventStore, append: Append): Promise<boolean> => {
  const { kind } = await store.append(append);
  if (kind === 'appended' || kind === 'conflict') return kind === 'appended';
  throw new Problem(503, 'superseded', 'Another attempt with the same key took over. Ask again.', [], {
    'retry-after': '1',
  });
};
