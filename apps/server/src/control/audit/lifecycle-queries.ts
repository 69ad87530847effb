import { clearSources, cronDecisions, cronNotifications, cronSources, cronStates, hookDeliveries } from '#audit';
import { pagingFields, queryId, queryText, queryWord, rangeFields } from '#platform';
import { orderField } from './queries.js';

/** Filters of `GET …/session-clears`. */
export const clearFields = {
  source: queryWord(
    '`clear`: the durable protocol; `openclaw`: ends of sessions that hosts reported.',
    clearSources,
    null,
  ),
  sessionId: queryId('The session.'),
  clearId: queryId("The runtime's id of the clear."),
  agentId: queryId('The agent.'),
  state: queryWord('`open`: started and never completed.', ['open', 'cleared'], null),
  clearing: queryWord('What became of `sessionClearing`.', hookDeliveries, null),
  completed: queryWord('What became of `sessionClearCompleted`.', hookDeliveries, null),
  order: orderField,
  ...rangeFields,
  ...pagingFields,
} as const;

/** Filters of `GET …/cron-jobs`. */
export const cronJobFields = {
  jobId: queryId('The cron job.'),
  ...pagingFields,
} as const;

/** Filters of `GET …/cron-runs`. */
export const cronFields = {
  source: queryWord(
    "`cron`: runs of the platform; `openclaw`: what hosts' own schedulers reported.",
    cronSources,
    null,
  ),
  jobId: queryId('The cron job.'),
  runId: queryId('The run.'),
  agentId: queryId('The agent.'),
  sessionId: queryId("The mission's session."),
  kind: queryId('`cron_job`, `heartbeat`, or another kind of schedule.'),
  decision: queryWord('What became of the slot.', cronDecisions, null),
  state: queryWord('How it stands.', cronStates, null),
  status: queryText('The status with which it was closed.', 200),
  notification: queryWord('What became of `cronJobCompleted`.', cronNotifications, null),
  pluginId: queryId('The plugin that cancelled it.'),
  order: orderField,
  ...rangeFields,
  ...pagingFields,
} as const;
