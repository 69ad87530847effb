import { clearSources, cronDecisions, cronNotifications, cronSources, cronStates, hookDeliveries } from '#audit';
import {
  content,
  facts,
  instant,
  list,
  maybe,
  maybeInstant,
  maybeNumber,
  maybeText,
  object,
  page,
  positions,
  summary,
  text,
  word,
} from './schemas.js';

const hooks = {
  ...list(summary),
  description: 'Every run of its hooks in order: repetitions after a crash (`attempt`), and those that were lost.',
};

const delivery = {
  ...word(...hookDeliveries),
  description: '`failed`: a handler did not decide. `lost`: begun, and the server died. `none`: not fired.',
};

const hostEvent = object({
  invocationId: text,
  hook: text,
  occurredAt: instant,
  recordedAt: instant,
  position: text,
  facts,
  content,
});

export const clearsSchema = page(
  object({
    source: {
      ...word(...clearSources),
      description:
        '`openclaw`: a `session_end` with the reason `new`, `reset` or `deleted` that a host reported. It has `state` `reported`, `reason` and `reported`, and nothing of the durable protocol.',
    },
    sessionId: maybeText,
    clearId: maybeText,
    reason: text,
    reported: hostEvent,
    agentId: maybeText,
    state: word('open', 'cleared', 'reported'),
    trailingText: content,
    messageCount: maybeNumber,
    subagentCount: maybeNumber,
    peerThreadCount: maybeNumber,
    deletedMessageCount: maybeNumber,
    deletedSubagentCount: maybeNumber,
    deletedPeerThreadCount: maybeNumber,
    startedAt: { ...maybeInstant, description: 'Null for a clear that was only ever reported as done.' },
    startedOccurredAt: maybeInstant,
    clearedAt: maybeInstant,
    clearedOccurredAt: maybeInstant,
    clearing: delivery,
    completed: delivery,
    hooks,
    positions: object({ started: maybeText, cleared: maybeText }),
  }),
);

export const cronJobsSchema = page(
  object({
    source: word('openclaw'),
    jobId: text,
    state: word('present', 'removed'),
    agentId: maybeText,
    lastAction: text,
    nextRunAt: maybeInstant,
    snapshot: { ...content, description: 'The last that the host sent: `{ "job", … }`.' },
    changes: { type: 'integer' },
    events: { ...list(hostEvent), description: 'The latest hundred, newest first.' },
  }),
);

export const cronRunsSchema = page(
  object({
    source: {
      ...word(...cronSources),
      description:
        "`openclaw`: a run of a host's own scheduler, joined of its `cron_changed` events by job and run. It has `durationMs`, `delivery` and `reported`, and neither slot decision nor lease of ours.",
    },
    durationMs: maybeNumber,
    delivery: maybeText,
    reported: list(hostEvent),
    runId: maybeText,
    jobId: text,
    slotAt: instant,
    decision: word(...cronDecisions),
    state: word(...cronStates),
    kind: maybeText,
    name: content,
    agentId: maybeText,
    sessionId: maybeText,
    prompt: content,
    finalPrompt: content,
    cancellation: maybe(object({ pluginId: maybeText, reason: content, code: maybeText })),
    openRun: { ...maybeText, description: 'Overlapped: the run that was still open.' },
    decidedAt: maybeInstant,
    missedAt: { ...maybeInstant, description: 'Put down as missed; with another decision it came late.' },
    leaseUntil: maybeInstant,
    closedAt: maybeInstant,
    status: maybeText,
    lostAt: maybeInstant,
    notification: object({
      state: {
        ...word(...cronNotifications),
        description: '`failed`: a handler did not decide. `lost`: the server died while telling; nobody is told again.',
      },
      invocationId: maybeText,
      at: maybeInstant,
      handlers: maybeNumber,
      undecided: maybeNumber,
    }),
    hooks,
    positions,
  }),
);
