import type { Json, JsonObject } from '#record';
import type { ObservedFacts } from '../dialect.js';
import { isId } from '../middleware/host-calls.js';

/** Which fields of which hooks say what the host went through: facts stand in the clear, texts that people or agents wrote do not. */
interface Observed {
  readonly kind: ObservedFacts['kind'];
  readonly facts: readonly string[];
  readonly content?: readonly string[];
}

const subagent = {
  kind: 'subagent',
  facts: ['runId', 'childSessionKey', 'requesterSessionKey', 'agentId', 'mode', 'threadRequested', 'spawnMode'],
  content: ['label'],
} as const satisfies Observed;

const observed: { readonly [hook: string]: Observed } = {
  session_start: { kind: 'session', facts: ['sessionId', 'sessionKey', 'resumedFrom'] },
  session_end: {
    kind: 'session',
    facts: [
      ...['sessionId', 'sessionKey', 'reason', 'messageCount', 'durationMs', 'transcriptArchived'],
      ...['nextSessionId', 'nextSessionKey'],
    ],
  },
  subagent_spawning: subagent,
  subagent_spawned: subagent,
  subagent_delivery_target: subagent,
  subagent_ended: {
    kind: 'subagent',
    facts: [
      'runId',
      'targetSessionKey',
      'requesterSessionKey',
      'targetKind',
      'reason',
      'outcome',
      'endedAt',
      'sendFarewell',
    ],
    content: ['error'],
  },
  cron_changed: {
    kind: 'cron',
    facts: [
      ...['action', 'jobId', 'runId', 'sessionTarget', 'agentId', 'runAtMs', 'nextRunAtMs', 'durationMs', 'status'],
      ...['completionStatus', 'delivered', 'deliveryStatus', 'deliverySuppressionReason', 'sessionId', 'sessionKey'],
      ...['model', 'provider'],
    ],
    content: ['job', 'summary', 'error', 'deliveryError'],
  },
  cron_reconciled: { kind: 'gateway', facts: ['reason', 'enabled'] },
  gateway_start: { kind: 'gateway', facts: ['port'] },
  gateway_stop: { kind: 'gateway', facts: ['reason'] },
};

/** What a firing says of its host's life, for the views that show sessions, subagents and cron jobs; null: nothing. */
export const observedIn = (hook: string, event: JsonObject, context: JsonObject): ObservedFacts | null => {
  const wanted = Object.hasOwn(observed, hook) ? observed[hook] : undefined;
  if (wanted === undefined) return null;
  const given = named(hook, event, context);
  const facts = pick(wanted.facts, given, isFact);
  const content = pick(wanted.content ?? [], event, (value) => value !== null);
  return { kind: wanted.kind, facts, content: Object.keys(content).length === 0 ? null : content };
};

/** One name for one thing: a subagent's session and run have several over the hooks. */
const named = (hook: string, event: JsonObject, context: JsonObject): JsonObject => {
  if (!hook.startsWith('subagent_')) return event;
  return {
    ...event,
    runId: event.runId ?? event.childRunId ?? context.runId ?? null,
    requesterSessionKey: event.requesterSessionKey ?? context.requesterSessionKey ?? null,
  };
};

/** Texts are facts where they have the form of an id: a reason that is a letter stays in the context alone. */
const isFact = (value: Json): boolean =>
  typeof value === 'number' || typeof value === 'boolean' || (typeof value === 'string' && isId(value));

const pick = (names: readonly string[], from: JsonObject, fits: (value: Json) => boolean): JsonObject =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = Object.hasOwn(from, name) ? from[name] : undefined;
      return value !== undefined && fits(value) ? [[name, value]] : [];
    }),
  );
