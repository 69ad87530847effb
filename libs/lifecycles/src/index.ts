export type { CronJob } from './cron-job.js';
export { cronStream, evolveCronJob, newCronJob } from './cron-job.js';
export type { CronRun, Mission, NotOpen, Slot } from './cron-run.js';
export {
  cronRunStream,
  decideCompletion,
  decideLapse,
  decideLease,
  decideRun,
  decideSlot,
  evolveCronRun,
  isOpen,
  missedSlot,
  notified,
  overlapped,
  runIdOf,
  runTail,
  unusedRun,
} from './cron-run.js';
export type { Schedule } from './schedule.js';
export { readSchedule } from './schedule.js';
export type { ClearStart, Deleted, SessionClear } from './session-clear.js';
export { clearStream, decideClearDone, decideClearStart, evolveClear, unknownClear } from './session-clear.js';
export type { Drain, Drained, Enqueuing, InjectionQueue } from './injection-queue.js';
export { decideDrain, decideDrop, decideEnqueue, emptyQueue, evolveQueue } from './injection-queue.js';
export type { Cleanup, SessionExtensions } from './session-extensions.js';
export { decideCleanup, decidePatch, evolveExtensions, noExtensions } from './session-extensions.js';
