import type { RecordedEvent, Sealed } from '#record';

/** What a hold is on. A person is named by an HMAC, and by themselves only under seal. */
export interface HoldScope {
  readonly kind: 'account' | 'session' | 'subject' | 'agent' | 'plugin';
  readonly id?: string;
  readonly name?: Sealed | null;
}

/** A legal hold in force: what it is on is neither purged nor erased. */
export interface Hold {
  readonly holdId: string;
  readonly scope: HoldScope;
  readonly reason: Sealed | null;
  readonly placedAt: string;
  readonly position: string;
  readonly actor: RecordedEvent['actor'] | null;
}

/** Whether a hold is on an event by what the event says itself. */
export const holdsEvent = ({ kind, id }: HoldScope, event: RecordedEvent): boolean => {
  switch (kind) {
    case 'account':
      return true;
    case 'session':
      return event.sessionId === id;
    case 'agent':
      return event.agentId === id;
    case 'plugin':
      return event.pluginId === id || chainHas(event, id);
    case 'subject':
      return subjectOf(event) === id;
  }
};

/** A plugin of the chain in force, whether or not its turn came. */
const chainHas = ({ type, data }: RecordedEvent, id: string | undefined): boolean =>
  type === 'invocation.opened' &&
  (data.chain as readonly { readonly pluginId: string }[]).some(({ pluginId }) => pluginId === id);

const subjectOf = ({ data }: RecordedEvent): unknown => {
  const subject = data.dataSubject;
  if (typeof subject !== 'object' || subject === null) return subject;
  return (subject as { readonly hmac?: unknown }).hmac;
};

/**
 * The holds on a stream: those on any of its events, for an event without the rest of its stream is no evidence.
 */
export const holdsOn = (holds: readonly Hold[], events: readonly RecordedEvent[]): readonly Hold[] =>
  holds.filter(({ scope }) => events.some((event) => holdsEvent(scope, event)));
