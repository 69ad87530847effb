export type { CompletionDecision, CronJob, SlotDecision, SlotUse } from './cron-job.js';
export { cronStream, decideCompletion, decideRun, decideSlot, evolveCronJob, newCronJob } from './cron-job.js';
export type { Deleted, SessionClears } from './session-clears.js';
export { decideClearDone, decideClearStart, evolveClears, noClears, sessionStream } from './session-clears.js';
