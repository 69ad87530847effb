import type { ApiBodyOptions } from '@nestjs/swagger';

export type Schema = NonNullable<Extract<ApiBodyOptions, { schema: unknown }>['schema']>;

export const text: Schema = { type: 'string' };
export const maybeText: Schema = { type: 'string', nullable: true };
const number: Schema = { type: 'number' };
export const maybeNumber: Schema = { type: 'number', nullable: true };
const flag: Schema = { type: 'boolean' };
export const instant: Schema = { type: 'string', format: 'date-time' };
export const maybeInstant: Schema = { type: 'string', format: 'date-time', nullable: true };
export const word = (...words: string[]): Schema => ({ type: 'string', enum: words });
export const list = (items: Schema): Schema => ({ type: 'array', items });
export const object = (properties: Record<string, Schema>): Schema => ({ type: 'object', properties });
export const maybe = (schema: Schema): Schema => ({ ...schema, nullable: true });

/** A text or value that somebody wrote. */
export const content: Schema = {
  nullable: true,
  description:
    'The content; `{ "hidden": true, "size": n }` without `content: full`; `{ "erased": true, "size": n }` after erasure.',
};

export const positions = object({ first: text, last: text });

export const page = (items: Schema, more: Record<string, Schema> = {}): Schema =>
  object({
    ...more,
    items: list(items),
    nextCursor: maybeText,
    completeUpTo: { ...maybeText, description: 'Position up to which the answer is complete.' },
    from: { ...maybeInstant, description: 'The lower bound as it was understood.' },
    to: { ...maybeInstant, description: 'The upper bound as it was understood; it no longer counts.' },
  });

const actor = maybe(object({ kind: word('key', 'operator', 'system', 'plugin'), id: text, onBehalfOf: maybeText }));
const effectWord = word('applied', 'not_applied', 'different', 'unknown');
const state = word('open', 'closed', 'lost');

const head: Record<string, Schema> = {
  invocationId: text,
  dialect: text,
  hook: text,
  turnId: maybeText,
  turnInferred: flag,
  sessionId: maybeText,
  agentId: maybeText,
  operationId: maybeText,
  correlationId: maybeText,
  root: maybeText,
  cause: { ...maybeText, description: 'The invocation that this one descends from.' },
  lineage: { ...maybeText, description: 'The same, when the descent went through a model turn.' },
  hop: number,
  target: maybeText,
  hostSession: maybeText,
  actor,
  state,
  outcome: { ...word('passed', 'rewritten', 'cancelled', 'observed', 'claimed', 'held', 'lost'), nullable: true },
  attempt: number,
  previousInvocationId: maybeText,
  metered: flag,
  occurredAt: instant,
  recordedAt: instant,
  closedAt: maybeInstant,
  durationMs: maybeNumber,
  positions,
};

const handlerHead: Record<string, Schema> = {
  pluginId: text,
  pluginVersion: maybeText,
  revision: maybeNumber,
  mode: maybeText,
  outcome: text,
  cause: maybeText,
  wouldHave: maybeText,
  reasonCode: maybeText,
  durationMs: maybeNumber,
};

export const summary = object({
  ...head,
  cancellation: maybe(object({ pluginId: maybeText, reason: content, code: maybeText })),
  effect: effectWord,
  effectAt: maybeInstant,
  handlers: list(object({ ...handlerHead, warnings: list(object({ code: text })) })),
});

const hostCall = object({
  callId: text,
  member: text,
  args: content,
  state: word('asked', 'answered', 'failed', 'refused', 'unknown'),
  result: content,
  code: maybeText,
  position: text,
  recordedAt: instant,
});

const operation = object({
  operationId: text,
  pair: text,
  state: word('joined', 'cancelled', 'not_applied', 'no_after', 'no_before'),
  before: list(summary),
  after: list(summary),
});

const detailProperties: Record<string, Schema> = {
  ...head,
  dataSubject: content,
  halted: maybeText,
  chainOf: maybeText,
  chain: list(
    object({
      pluginId: text,
      version: text,
      revision: number,
      mode: text,
      failureMode: text,
      priority: maybeNumber,
      configDigest: text,
    }),
  ),
  withoutHook: number,
  lost: {
    ...maybe(object({ cause: maybeText, instance: maybeText, recordedAt: instant, position: text })),
    description: 'Set when the chain ended with its process: nothing was answered.',
  },
  cancellation: maybe(object({ pluginId: maybeText, reason: content, code: maybeText })),
  context: content,
  value: content,
  handlers: list(
    object({
      place: number,
      ...handlerHead,
      failureMode: maybeText,
      configDigest: maybeText,
      before: content,
      after: content,
      changed: list(text),
      reason: content,
      budgetMs: maybeNumber,
      warnings: list(object({ code: text, detail: content })),
      hostCalls: list(hostCall),
      recordedAt: instant,
      position: text,
    }),
  ),
  effect: object({ state: effectWord, digest: content, occurredAt: maybeInstant, recordedAt: maybeInstant }),
  approvals: { ...list(text), description: 'Approvals that it waited for, or waits for, in order.' },
};

export const invocationsSchema = page(summary);

export const invocationSchema = object({ ...detailProperties, operations: list(operation), completeUpTo: maybeText });

const turn = object({
  turnId: text,
  sessionId: maybeText,
  turnInferred: flag,
  agentId: maybeText,
  invocations: number,
  outcomes: { type: 'object', additionalProperties: { type: 'number' } },
  lost: number,
  undecided: number,
  purged: { ...number, description: 'Of the invocations, those that were purged since; on a turn of its own.' },
  firstOccurredAt: instant,
  lastOccurredAt: instant,
  firstRecordedAt: instant,
  lastRecordedAt: instant,
  positions,
});

export const turnSchema = page(object(detailProperties), { turnId: text, sessions: list(turn) });

export const sessionTurnsSchema = page(turn, {
  sessionId: text,
  session: object({
    turns: number,
    inferredTurns: number,
    invocations: number,
    firstRecordedAt: maybeInstant,
    lastRecordedAt: maybeInstant,
  }),
});

const joined = list(object({ invocationId: text, hook: text, position: text }));

/** Facts that a host told, by the fields of its own event. */
export const facts: Schema = {
  type: 'object',
  additionalProperties: true,
  description: 'Ids, words and numbers of the hook’s event.',
};

export const timelineSchema = page(
  object({
    kind: word('turn', 'clear', 'injection', 'extension', 'cron', 'host-session', 'subagent', 'host-cron', 'gateway'),
    position: text,
    turn,
    type: text,
    stream: text,
    occurredAt: instant,
    recordedAt: instant,
    clear: object({ clearId: text, state: text }),
    run: object({ runId: text, jobId: text, slotAt: instant, state: text, status: maybeText }),
    host: { ...object({ invocationId: text, facts, content, joined }), description: 'What an OpenClaw host reported.' },
  }),
  { sessionId: text },
);

export const lineageSchema = page(
  object({
    invocation: summary,
    parent: maybeText,
    by: { ...word('host-call', 'model-turn'), nullable: true },
    hostCalls: list(
      object({ callId: text, pluginId: maybeText, member: text, state: text, code: maybeText, position: text }),
    ),
    joined: { ...joined, description: 'What else the host reported of the same subagent or cron run.' },
  }),
  { root: text },
);

export const operationsSchema = object({ operationId: text, items: list(operation), completeUpTo: maybeText });

export const orphansSchema = page(operation);

const counts: Schema = { type: 'object', additionalProperties: { type: 'number' } };

export const usageSchema = page(
  object({
    day: text,
    pluginId: text,
    pluginVersion: text,
    dialect: text,
    hook: text,
    runs: number,
    outcomes: counts,
    durationMs: number,
  }),
  { groupBy: list(text) },
);

const event: Schema = {
  type: 'object',
  description: 'The event as it is stored, and its position; see `GET /v1/event-schemas`.',
  properties: { position: text, id: text, type: text, recordedAt: instant, occurredAt: instant },
  additionalProperties: true,
};

const purged: Schema = {
  ...list(object({ first: text, last: text, saidAt: text })),
  description: 'Positions of this page that were purged, and where the `retention.purged` stands that says so.',
};

export const eventsSchema = page(event, { purged });

export const openedSchema = object({ values: list(content) });
