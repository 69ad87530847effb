import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { NewEvent } from '#record';
import { decideCompletion, decideRun, decideSlot, evolveCronJob, newCronJob } from './cron-job.js';

const given = (...events: NewEvent[]) => events.reduce(evolveCronJob, newCronJob);
const passed = { invocationId: 'i', outcome: 'passed' };
const cancelled = { invocationId: 'i', outcome: 'cancelled' };
const started = (slotAt: string, runId: string) => decideRun(slotAt, runId, passed);
const types = (events: readonly NewEvent[]) => events.map(({ type }) => type);

describe('a due slot', () => {
  it('fires when no run is open', () => {
    expect(decideSlot(given(), '10:00', 'r1')).toEqual({ kind: 'fire' });
  });

  it('is overlapped while a run is open, and fires no hook (MW-94)', () => {
    const decision = decideSlot(given(...started('10:00', 'r1')), '11:00', 'r2');
    expect(decision).toMatchObject({ kind: 'overlapped', events: [{ type: 'cron.slot_overlapped' }] });
  });

  it('fires again after the run was closed', () => {
    const job = given(...started('10:00', 'r1'));
    const done = decideCompletion(job, 'r1', 'Succeeded');
    expect(done.kind).toBe('closed');
    const after = (done.kind === 'closed' ? done.events : []).reduce(evolveCronJob, job);
    expect(decideSlot(after, '11:00', 'r2')).toEqual({ kind: 'fire' });
  });

  it('that comes again gives the same run, also when it was cancelled or overlapped (MW-94)', () => {
    const job = given(...started('10:00', 'r1'), ...decideRun('11:00', 'r2', cancelled));
    expect(decideSlot(job, '10:00', 'r9')).toEqual({ kind: 'repeated', use: { runId: 'r1', decision: 'run' } });
    expect(decideSlot(job, '11:00', 'r9')).toEqual({ kind: 'repeated', use: { runId: 'r2', decision: 'cancelled' } });
  });

  it('never makes a second open run, in whatever order slots come', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat({ max: 5 }), fc.boolean()), { maxLength: 30 }), (slots) => {
        let job = newCronJob;
        let open = 0;
        slots.forEach(([slot, veto], index) => {
          const decision = decideSlot(job, String(slot), `r${String(index)}`);
          if (decision.kind === 'overlapped') job = decision.events.reduce(evolveCronJob, job);
          if (decision.kind !== 'fire') return;
          const events = decideRun(String(slot), `r${String(index)}`, veto ? cancelled : passed);
          open += events.filter(({ type }) => type === 'cron.run_started').length;
          job = events.reduce(evolveCronJob, job);
        });
        expect(open).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe('a slot that fired', () => {
  it('becomes a run, or a cancelled run when the hook vetoed it (MW-93)', () => {
    expect(types(decideRun('10:00', 'r1', { invocationId: 'i', outcome: 'rewritten' }))).toEqual(['cron.run_started']);
    expect(types(decideRun('10:00', 'r1', cancelled))).toEqual(['cron.run_cancelled']);
  });
});

describe('completion', () => {
  it('closes a run that ran, once (MW-95, MW-96)', () => {
    const job = given(...started('10:00', 'r1'));
    const done = decideCompletion(job, 'r1', 'Succeeded');
    expect(done).toEqual({
      kind: 'closed',
      events: [{ type: 'cron.run_closed', data: { runId: 'r1', status: 'Succeeded' } }],
    });
    const after = (done.kind === 'closed' ? done.events : []).reduce(evolveCronJob, job);
    expect(decideCompletion(after, 'r1', 'Succeeded')).toEqual({ kind: 'not-open', state: 'closed' });
  });

  it('tells nobody of a run that was cancelled or never was (MW-95)', () => {
    const job = given(...decideRun('10:00', 'r1', cancelled));
    expect(decideCompletion(job, 'r1', 'Cancelled')).toEqual({ kind: 'not-open', state: 'cancelled' });
    expect(decideCompletion(job, 'r2', 'Succeeded')).toEqual({ kind: 'not-open', state: 'unknown' });
  });
});
