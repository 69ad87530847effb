import type { EventStore, Sql } from '#event-store';
import {
  asData,
  invocationStream,
  type EventFields,
  type HandlerNotRun,
  type HandlerRan,
  type InvocationClosed,
  type InvocationOpened,
  type Json,
  type NewEvent,
} from '#record';
import type { Scope, Sealing } from '#sealing';
import type { Projection } from './projection.js';
import { handleEvents, openReadModels, type Handled } from './read-models.js';

/** One handler of an invocation that a test writes. */
export interface TestHandler {
  readonly pluginId: string;
  readonly pluginVersion?: string;
  readonly outcome?: 'passed' | 'rewrote' | 'cancelled' | 'observed' | 'skipped' | 'not_run';
  readonly cause?: string;
  readonly output?: Json;
  readonly reason?: string;
  readonly reasonCode?: string;
  readonly warnings?: readonly string[];
  readonly durationUs?: number;
  readonly hostCalls?: readonly { readonly callId: string; readonly member: string; readonly answer?: Json }[];
}

/** An invocation that a test writes; what is not said has a plain default. */
export interface TestInvocation extends Omit<EventFields, 'outcome'> {
  readonly account?: string;
  readonly id: string;
  readonly outcome?: string;
  readonly context?: Json;
  readonly value?: Json;
  readonly handlers?: readonly TestHandler[];
  readonly dataSubject?: string;
  readonly lineage?: string;
  readonly previousInvocationId?: string;
  /** Leaves `invocation.closed` out. */
  readonly open?: true;
}

/** The events of an invocation, in the order and with the fields that the gateway gives them. */
export const invocationEvents = async (sealing: Sealing, told: TestInvocation) => {
  const { account = 'a', id, outcome = 'passed', context = {}, value = null, handlers = [], ...rest } = told;
  const { dataSubject, lineage, previousInvocationId, open, ...fields } = rest;
  const scope: Scope =
    dataSubject === undefined
      ? fields.sessionId === undefined
        ? { kind: 'account' }
        : { kind: 'session', id: fields.sessionId }
      : { kind: 'subject', id: dataSubject };
  const envelope = await sealing.envelope(account, scope);
  const common: EventFields = {
    actor: { kind: 'key', id: 'runtime-key' },
    invocationId: id,
    attempt: 1,
    dialect: 'middleware',
    hook: 'userMessageInbound',
    turnId: `turn-of-${id}`,
    hop: 0,
    root: id,
    ...fields,
  };
  const plugin = ({ pluginId, pluginVersion = '1.0.0' }: TestHandler) => ({
    pluginId,
    pluginVersion,
    pluginRevision: 1,
  });
  const opened: InvocationOpened = {
    chain: handlers.map(({ pluginId, pluginVersion = '1.0.0' }) => ({
      pluginId,
      version: pluginVersion,
      revision: 1,
      mode: 'enforce',
      failureMode: 'open',
      priority: null,
      configDigest: 'c',
    })),
    withoutHook: 0,
    context: envelope.seal(context),
    hostSession: 'granted',
    ...(lineage === undefined ? {} : { lineage }),
    ...(previousInvocationId === undefined ? {} : { previousInvocationId }),
    ...(dataSubject === undefined
      ? {}
      : { dataSubject: { hmac: await sealing.searchHash(account, dataSubject), sealed: envelope.seal(dataSubject) } }),
  };
  const events: NewEvent[] = [{ ...common, type: 'invocation.opened', data: asData(opened) }];
  let input = value;
  let metered = 0;
  for (const [index, handler] of handlers.entries()) {
    for (const call of handler.hostCalls ?? []) {
      const made = { callId: call.callId, member: call.member };
      events.push({
        ...common,
        ...plugin(handler),
        type: 'host.called',
        data: asData({ ...made, args: envelope.seal([]) }),
      });
      if (call.answer === undefined) continue;
      events.push({
        ...common,
        ...plugin(handler),
        type: 'host.answered',
        data: asData({ ...made, ok: true, result: envelope.seal(call.answer) }),
      });
    }
    const word = handler.outcome ?? 'passed';
    const output: Json = handler.output ?? input;
    const warnings = (handler.warnings ?? []).map((code) => ({ code, detail: envelope.seal(`detail of ${code}`) }));
    const data: HandlerRan | HandlerNotRun =
      word === 'not_run'
        ? { index, cause: 'after_cancel', warnings }
        : {
            index,
            input: envelope.seal(input),
            output: envelope.seal(output),
            changed: [],
            budgetMs: 5000,
            durationUs: handler.durationUs ?? 400,
            warnings,
            configDigest: 'c',
            mode: 'enforce',
            ...(handler.cause === undefined ? {} : { cause: handler.cause as NonNullable<HandlerRan['cause']> }),
            ...(handler.reason === undefined ? {} : { reason: envelope.seal(handler.reason) }),
          };
    if (word !== 'not_run') metered += 1;
    const code = handler.reasonCode === undefined ? {} : { reasonCode: handler.reasonCode };
    events.push({ ...common, ...plugin(handler), ...code, type: `handler.${word}`, data: asData(data) });
    input = output;
  }
  const canceller = handlers.find((handler) => handler.outcome === 'cancelled');
  const closed: InvocationClosed = {
    value: outcome === 'cancelled' ? null : envelope.seal(input),
    cancellation:
      canceller === undefined
        ? null
        : {
            pluginId: canceller.pluginId,
            reason: canceller.reason === undefined ? null : envelope.seal(canceller.reason),
            code: canceller.reasonCode ?? null,
          },
    hostSession: 'granted',
    metered,
  };
  if (open === undefined)
    events.push({ ...common, outcome, durationMs: 2, type: 'invocation.closed', data: asData(closed) });
  return { account, stream: invocationStream(id), events, blobs: envelope.blobs() };
};

/** Writes an invocation in one commit; resolves to the positions of its first and last event. */
export const writeInvocation = async (store: EventStore, sealing: Sealing, told: TestInvocation) => {
  const { account, stream, events, blobs } = await invocationEvents(sealing, told);
  const result = await store.append({ account, writes: [{ stream, expectedVersion: 0, events }], blobs });
  if (result.kind !== 'appended') throw new Error(`not appended: ${result.kind}`);
  return { first: result.first, last: result.last };
};

/** Follows the log to its end, in batches of `batch` events. */
export const catchUp = async (
  sql: Sql,
  store: EventStore,
  projections: readonly Projection[],
  batch = 1000,
): Promise<readonly Handled[]> => {
  const handled: Handled[] = [];
  for (const generation of await openReadModels(sql, projections)) {
    const projection = projections.find(({ name }) => name === generation.name);
    if (projection === undefined) continue;
    let after = generation.position;
    for (;;) {
      const events = await store.readAll(after, batch);
      const last = events.at(-1);
      if (last === undefined) break;
      handled.push(await sql.transaction((tx) => handleEvents(projection, generation, events, tx, store)));
      after = last.globalPosition;
    }
  }
  return handled;
};
