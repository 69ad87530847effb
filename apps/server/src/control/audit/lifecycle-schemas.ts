import { cronDecisions, cronNotifications, cronStates, hookDeliveries } from '#audit';
import {
  content,
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

export const clearsSchema = page(
  object({
    sessionId: text,
    clearId: text,
    agentId: maybeText,
    state: word('open', 'cleared'),
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

export const cronRunsSchema = page(
  object({
    runId: text,
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
