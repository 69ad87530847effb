import type { EventType, RecordedEvent, Sealed } from '#record';
import type { Hold, HoldScope } from './holds.js';
import type { Retention } from './retention.js';
import { keepForGood } from './retention.js';

/** Stream of an account's holds, retention, purges, and intents to erase: one at a time decides on each. */
export const keepingStream = 'keeping';

/** Stream of the end of one erasure. */
export const erasureStream = (erasureId: string): string => `erasure/${erasureId}`;

/** The events that what is kept follows from. */
export const keepingTypes: readonly EventType[] = ['hold.placed', 'hold.released', 'retention.set'];

/** What an account keeps, and may not remove. */
export interface Keeping {
  readonly holds: ReadonlyMap<string, Hold>;
  readonly released: ReadonlySet<string>;
  readonly retention: Retention;
  /** How often the retention was set. */
  readonly retentionVersion: number;
  readonly retentionSetAt: string | null;
}

const nothingSaid: Keeping = {
  holds: new Map(),
  released: new Set(),
  retention: keepForGood,
  retentionVersion: 0,
  retentionSetAt: null,
};

/** An event with its place in the account's log. */
export interface PlacedEvent {
  readonly position: bigint;
  readonly event: RecordedEvent;
}

/** What is kept, from the account's events of `keepingTypes`, oldest first. */
export const foldKeeping = (events: readonly PlacedEvent[]): Keeping => events.reduce(evolve, nothingSaid);

const evolve = (keeping: Keeping, { event, position }: PlacedEvent): Keeping => {
  switch (event.type) {
    case 'hold.placed':
      return { ...keeping, holds: new Map(keeping.holds).set(holdIdOf(event), holdOf(event, position)) };
    case 'hold.released': {
      const holds = new Map(keeping.holds);
      holds.delete(holdIdOf(event));
      return { ...keeping, holds, released: new Set(keeping.released).add(holdIdOf(event)) };
    }
    case 'retention.set':
      return {
        ...keeping,
        // A class that was added since it was set is kept for good.
        retention: { ...keepForGood, ...(event.data.after as Partial<Retention>) },
        retentionVersion: keeping.retentionVersion + 1,
        retentionSetAt: event.recordedAt,
      };
    default:
      return keeping;
  }
};

const holdIdOf = ({ data }: RecordedEvent): string => data.holdId as string;

const holdOf = (event: RecordedEvent, position: bigint): Hold => ({
  holdId: holdIdOf(event),
  scope: event.data.scope as unknown as HoldScope,
  reason: (event.data.reason ?? null) as Sealed | null,
  placedAt: event.recordedAt,
  position: String(position),
  actor: event.actor ?? null,
});
