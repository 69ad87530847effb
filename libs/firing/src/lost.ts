import type { StoredEvent } from '#event-store';
import {
  asData,
  type EventFields,
  type HandlerRan,
  type HostCall,
  type InvocationLost,
  type InvocationOpened,
  type NewEvent,
  type RecordedEvent,
} from '#record';

/** Where an invocation stands, by its events so far. */
export type InvocationState = 'absent' | 'open' | 'held' | 'ended';

/** Held: the chain waits for a person, not for a process, so no death of a process loses it. */
export const invocationState = (stored: readonly StoredEvent[]): InvocationState => {
  if (stored.length === 0) return 'absent';
  if (stored.some(({ event }) => event.type === 'invocation.closed' || event.type === 'invocation.lost'))
    return 'ended';
  const newest = stored.findLast(({ event }) => event.type.startsWith('handler.') || event.type === 'invocation.held');
  return newest?.event.type === 'invocation.held' ? 'held' : 'open';
};

/**
 * `invocation.lost` for an open invocation whose chain nobody runs any more (events.md §2): what had run, and how far
 * each host call is known to have got. One that was asked and not answered may have had its effect: unknown.
 */
export const lostEvent = (stored: readonly StoredEvent[], cause: 'instance_gone' | 'given_up'): NewEvent => {
  const events = stored.map(({ event }) => event);
  const opened = events.find(({ type }) => type === 'invocation.opened');
  if (opened === undefined) throw new Error('an invocation without its opening');
  const { chain, instance } = opened.data as unknown as InvocationOpened;
  const handlers = chain.map((entry, index) => ({ index, pluginId: entry.pluginId, state: stateOf(index, events) }));
  const first = handlers.find(({ state }) => state === 'lost');
  const lost: InvocationLost = {
    metered: events.filter(isMetered).length + handlers.filter(({ state }) => state === 'lost').length,
    ...(first === undefined ? {} : { handlerIndex: first.index }),
    cause,
    instance: instance ?? null,
    handlers,
    hostCalls: hostCalls(events),
  };
  return {
    ...fieldsOfOpened(opened),
    type: 'invocation.lost',
    actor: { kind: 'system', id: 'recovery' },
    outcome: 'lost',
    reasonCode: cause,
    data: asData(lost),
  };
};

const indexOf = ({ data }: RecordedEvent): unknown => data.index;

const isVerdict = ({ type }: RecordedEvent): boolean => type.startsWith('handler.') && type !== 'handler.started';

const stateOf = (index: number, events: readonly RecordedEvent[]): 'ended' | 'lost' | 'unknown' => {
  const own = events.filter((event) => event.type.startsWith('handler.') && indexOf(event) === index);
  if (own.some(isVerdict)) return 'ended';
  return own.length > 0 ? 'lost' : 'unknown';
};

/** As metering reads it (MW-55): every run that started, none that did not. */
const isMetered = (event: RecordedEvent): boolean =>
  isVerdict(event) && event.type !== 'handler.not_run' && (event.data as Partial<HandlerRan>).cause !== 'not_loaded';

const hostCalls = (events: readonly RecordedEvent[]): NonNullable<InvocationLost['hostCalls']> => {
  const calls = new Map<string, NonNullable<InvocationLost['hostCalls']>[number]>();
  for (const event of events) {
    if (!event.type.startsWith('host.')) continue;
    const { callId, member, ok, unknown } = event.data as unknown as HostCall;
    // A line of `host.log` is kept by the platform itself: asking is having.
    if (member === 'log') continue;
    calls.set(callId, {
      callId,
      member,
      pluginId: event.pluginId ?? null,
      state: unknown === true ? 'unknown' : callState(event, ok),
    });
  }
  return [...calls.values()];
};

const callState = ({ type }: RecordedEvent, ok: boolean | undefined): 'done' | 'failed' | 'refused' | 'unknown' => {
  if (type === 'host.refused') return 'refused';
  if (type === 'host.called') return 'unknown';
  return ok === false ? 'failed' : 'done';
};

const repeated = [
  'invocationId',
  'attempt',
  'operationId',
  'turnId',
  'turnInferred',
  'sessionId',
  'agentId',
  'correlationId',
  'root',
  'cause',
  'hop',
  'dialect',
  'hook',
  'target',
] as const;

/** What an event repeats of its invocation's opening, so that it is found by the same words. */
export const fieldsOfOpened = (opened: RecordedEvent): EventFields =>
  Object.fromEntries(repeated.flatMap((field) => (opened[field] === undefined ? [] : [[field, opened[field]]])));
