import { describe, expect, it } from '@jest/globals';
import { evolveCronJob, newCronJob } from './cron-job.js';

describe('a job', () => {
  it('knows the run that it started last, and nothing of what is declared of it', () => {
    const job = evolveCronJob(newCronJob, { type: 'cron.run_started', data: { runId: 'r1' } });
    expect(job).toEqual({ lastRun: 'r1' });
    expect(evolveCronJob(job, { type: 'cron.job_declared', data: {} })).toEqual(job);
    expect(evolveCronJob(job, { type: 'cron.run_started', data: { runId: 'r2' } })).toEqual({ lastRun: 'r2' });
  });
});
