import type { StoredEvent } from '#event-store';
import type {
  Actor,
  ChainEntry,
  EffectReported,
  HandlerNotRun,
  HandlerRan,
  HostCall,
  InvocationClosed,
  InvocationLost,
  InvocationOpened,
  RecordedEvent,
  Sealed,
  StoredWarning,
} from '#record';
import { effectWord, reasonCodeOf, type EffectWord } from './invocations.js';

/** A host call of a handler run, as far as it got. */
export interface HostCallDetail {
  readonly callId: string;
  readonly member: string;
  readonly args: Sealed | null;
  /** `asked`: no answer is on record yet. `unknown`: there will be none, and it may have had its effect. */
  readonly state: 'asked' | 'answered' | 'failed' | 'refused' | 'unknown';
  readonly result: Sealed | null;
  readonly code: string | null;
  readonly position: string;
  readonly recordedAt: string;
}

/** One handler's part: the value as it was given to it and as it left it. */
export interface HandlerDetail {
  readonly place: number;
  readonly pluginId: string;
  readonly pluginVersion: string | null;
  readonly revision: number | null;
  readonly mode: 'enforce' | 'observe' | null;
  readonly failureMode: 'open' | 'closed' | null;
  readonly configDigest: string | null;
  /** `started` = no end is on record yet; `lost` = there will be none. */
  readonly outcome: string;
  readonly cause: string | null;
  readonly wouldHave: string | null;
  readonly before: Sealed | null;
  readonly after: Sealed | null;
  readonly changed: readonly string[];
  readonly reason: Sealed | null;
  readonly reasonCode: string | null;
  readonly budgetMs: number | null;
  readonly durationMs: number | null;
  readonly warnings: readonly StoredWarning[];
  readonly hostCalls: readonly HostCallDetail[];
  readonly recordedAt: string;
  readonly position: string;
}

/** An invocation as its stream tells it, to the last event there is. Content is sealed. */
export interface InvocationDetail {
  readonly invocationId: string;
  readonly dialect: string;
  readonly hook: string;
  readonly turnId: string | null;
  readonly turnInferred: boolean;
  readonly sessionId: string | null;
  readonly agentId: string | null;
  readonly operationId: string | null;
  readonly correlationId: string | null;
  readonly root: string | null;
  readonly cause: string | null;
  readonly lineage: string | null;
  readonly hop: number;
  readonly target: string | null;
  readonly dataSubject: Sealed | null;
  readonly actor: Actor | null;
  readonly hostSession: string;
  readonly halted: 'open' | 'closed' | null;
  readonly chainOf: string | null;
  /** The chain in force, in the order it runs. */
  readonly chain: readonly ChainEntry[];
  readonly withoutHook: number;
  readonly state: 'open' | 'closed' | 'lost';
  readonly outcome: string | null;
  /** Set when the chain ended with its process: nothing was answered. */
  readonly lost: LossDetail | null;
  readonly cancellation: InvocationClosed['cancellation'];
  readonly context: Sealed;
  /** The final value; null where there is none. */
  readonly value: Sealed | null;
  readonly handlers: readonly HandlerDetail[];
  readonly effect: EffectDetail;
  /** Approvals that it waited for, or waits for, in order. */
  readonly approvals: readonly string[];
  readonly attempt: number;
  readonly previousInvocationId: string | null;
  readonly metered: boolean;
  readonly occurredAt: string;
  readonly recordedAt: string;
  readonly closedAt: string | null;
  readonly durationMs: number | null;
  readonly positions: { readonly first: string; readonly last: string };
}

/** How an invocation was lost. */
export interface LossDetail {
  readonly cause: string | null;
  /** The server process that ran it. */
  readonly instance: string | null;
  readonly recordedAt: string;
  readonly position: string;
}

/** What the runtime did with the answer, as it said last. */
export interface EffectDetail {
  readonly state: EffectWord | 'unknown';
  readonly digest: Sealed | null;
  readonly occurredAt: string | null;
  readonly recordedAt: string | null;
}

/** Folds an invocation's stream, oldest first; null when it has no `invocation.opened`. */
export const invocationDetail = (events: readonly StoredEvent[]): InvocationDetail | null => {
  const first = events.find(({ event }) => event.type === 'invocation.opened');
  const last = events.at(-1);
  if (first === undefined || last === undefined) return null;
  const { event } = first;
  const opened = event.data as unknown as InvocationOpened;
  const closing = events.find((stored) => stored.event.type === 'invocation.closed')?.event;
  const closed = closing === undefined ? null : (closing.data as unknown as InvocationClosed);
  const loss = closing === undefined ? events.find((stored) => stored.event.type === 'invocation.lost') : undefined;
  const lost = loss === undefined ? null : (loss.event.data as unknown as InvocationLost);
  return {
    invocationId: event.invocationId ?? '',
    dialect: event.dialect ?? '',
    hook: event.hook ?? '',
    turnId: event.turnId ?? null,
    turnInferred: event.turnInferred ?? false,
    sessionId: event.sessionId ?? null,
    agentId: event.agentId ?? null,
    operationId: event.operationId ?? null,
    correlationId: event.correlationId ?? null,
    root: event.root ?? null,
    cause: event.cause ?? null,
    lineage: opened.lineage ?? null,
    hop: event.hop ?? 0,
    target: event.target ?? null,
    dataSubject: opened.dataSubject?.sealed ?? null,
    actor: event.actor ?? null,
    hostSession: closed?.hostSession ?? opened.hostSession,
    halted: opened.halted ?? null,
    chainOf: opened.chainOf ?? null,
    chain: opened.chain,
    withoutHook: opened.withoutHook,
    state: stateOf(closing, loss),
    outcome: closing?.outcome ?? (loss === undefined ? null : 'lost'),
    lost: loss === undefined ? null : lossOf(loss),
    cancellation: closed?.cancellation ?? null,
    context: opened.context,
    value: closed?.value ?? null,
    handlers: handlersOf(events, opened.chain, lost !== null),
    effect: effectOf(events),
    approvals: events.flatMap((stored) =>
      stored.event.type === 'invocation.held' ? [stored.event.data.approvalId as string] : [],
    ),
    attempt: event.attempt ?? 1,
    previousInvocationId: opened.previousInvocationId ?? null,
    metered: (closed?.metered ?? lost?.metered ?? 0) > 0,
    occurredAt: event.occurredAt,
    recordedAt: event.recordedAt,
    closedAt: closing?.recordedAt ?? null,
    durationMs: closing?.durationMs ?? null,
    positions: { first: String(first.position), last: String(last.position) },
  };
};

const stateOf = (closing: RecordedEvent | undefined, loss: StoredEvent | undefined): InvocationDetail['state'] => {
  if (closing !== undefined) return 'closed';
  return loss === undefined ? 'open' : 'lost';
};

const lossOf = ({ event, position }: StoredEvent): LossDetail => {
  const { cause, instance } = event.data as unknown as InvocationLost;
  return {
    cause: cause ?? null,
    instance: instance ?? null,
    recordedAt: event.recordedAt,
    position: String(position),
  };
};

const effectOf = (events: readonly StoredEvent[]): EffectDetail => {
  const event = events.findLast((stored) => stored.event.type === 'effect.reported')?.event;
  if (event === undefined) return { state: 'unknown', digest: null, occurredAt: null, recordedAt: null };
  const data = event.data as unknown as EffectReported;
  return {
    state: effectWord(data),
    digest: data.digest ?? null,
    occurredAt: event.occurredAt,
    recordedAt: event.recordedAt,
  };
};

const handlersOf = (
  events: readonly StoredEvent[],
  chain: readonly ChainEntry[],
  lost: boolean,
): readonly HandlerDetail[] => {
  const calls = hostCallsOf(events, lost);
  const found: HandlerDetail[] = [];
  const started = new Map<string, StoredEvent>();
  const callsOf = ({ event }: StoredEvent): readonly HostCallDetail[] =>
    calls.get(placeKey(event)) ?? calls.get(event.pluginId ?? '') ?? [];
  for (const stored of events) {
    const { type } = stored.event;
    if (type === 'handler.started') started.set(placeKey(stored.event), stored);
    else if (type.startsWith('handler.')) {
      started.delete(placeKey(stored.event));
      found.push(handlerOf(stored, chain, callsOf(stored)));
    }
  }
  for (const stored of started.values()) {
    const handler = handlerOf(stored, chain, callsOf(stored));
    found.push(lost ? { ...handler, outcome: 'lost' } : handler);
  }
  return found;
};

/** A handler by its place in the chain; by its plugin where an event says no place, since it is the only one then. */
const placeKey = ({ data, pluginId }: RecordedEvent): string =>
  typeof data.index === 'number' ? `#${String(data.index)}` : (pluginId ?? '');

const handlerOf = (
  { event, position }: StoredEvent,
  chain: readonly ChainEntry[],
  hostCalls: readonly HostCallDetail[],
): HandlerDetail => {
  const data = event.data as unknown as Partial<HandlerRan> & Partial<Pick<HandlerNotRun, 'index' | 'warnings'>>;
  const entry = chain.find(({ pluginId }) => pluginId === event.pluginId);
  return {
    place: data.index ?? chain.findIndex(({ pluginId }) => pluginId === event.pluginId),
    pluginId: event.pluginId ?? '',
    pluginVersion: event.pluginVersion ?? null,
    revision: event.pluginRevision ?? null,
    mode: data.mode ?? entry?.mode ?? null,
    failureMode: entry?.failureMode ?? null,
    configDigest: data.configDigest ?? entry?.configDigest ?? null,
    outcome: event.type.slice('handler.'.length),
    cause: data.cause ?? null,
    wouldHave: data.wouldHave ?? null,
    before: data.input ?? null,
    after: data.output ?? null,
    changed: data.changed ?? [],
    reason: data.reason ?? null,
    reasonCode: reasonCodeOf(event),
    budgetMs: data.budgetMs ?? null,
    durationMs: data.durationUs === undefined ? (event.durationMs ?? null) : data.durationUs / 1000,
    warnings: data.warnings ?? [],
    hostCalls,
    recordedAt: event.recordedAt,
    position: String(position),
  };
};

const hostCallsOf = (events: readonly StoredEvent[], lost: boolean): ReadonlyMap<string, readonly HostCallDetail[]> => {
  const byPlugin = new Map<string, Map<string, HostCallDetail>>();
  for (const stored of events) {
    if (!stored.event.type.startsWith('host.')) continue;
    const plugin = placeKey(stored.event);
    const calls = byPlugin.get(plugin) ?? new Map<string, HostCallDetail>();
    byPlugin.set(plugin, calls);
    const data = stored.event.data as unknown as HostCall;
    calls.set(data.callId, afterCall(calls.get(data.callId), stored, data));
  }
  const ended = (call: HostCallDetail): HostCallDetail =>
    lost && call.state === 'asked' ? { ...call, state: 'unknown' } : call;
  return new Map([...byPlugin].map(([plugin, calls]) => [plugin, [...calls.values()].map(ended)]));
};

const afterCall = (
  before: HostCallDetail | undefined,
  { event, position }: StoredEvent,
  data: HostCall,
): HostCallDetail => ({
  callId: data.callId,
  member: data.member,
  args: data.args ?? before?.args ?? null,
  state: callState(event, data),
  result: data.result ?? before?.result ?? null,
  code: data.code ?? event.reasonCode ?? before?.code ?? null,
  position: before?.position ?? String(position),
  recordedAt: before?.recordedAt ?? event.recordedAt,
});

/** A line of `host.log` is kept by the platform itself, so that asking is having. */
export const callState = (event: RecordedEvent, data: HostCall): HostCallDetail['state'] => {
  if (event.type === 'host.refused') return 'refused';
  if (event.type === 'host.answered') {
    if (data.unknown === true) return 'unknown';
    return data.ok === false ? 'failed' : 'answered';
  }
  return data.member === 'log' ? 'answered' : 'asked';
};
