import { approvals } from './approvals.js';
import { cronRuns } from './cron-runs.js';
import { hostCalls } from './host-calls.js';
import { hostEvents } from './host-events.js';
import { invocations } from './invocations.js';
import { together } from './projection.js';
import { sessionClears } from './session-clears.js';
import { turns } from './turns.js';
import { usage } from './usage.js';

/** The record as it is searched: all of it always at one and the same position. */
export const record = together('record', [
  invocations,
  turns,
  hostCalls,
  hostEvents,
  usage,
  sessionClears,
  cronRuns,
  approvals,
]);
