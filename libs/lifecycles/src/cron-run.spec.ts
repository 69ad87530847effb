import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { NewEvent, Sealed } from '#record';
import { evolveCronJob, newCronJob, type CronJob } from './cron-job.js';
import {
  decideCompletion,
  decideLapse,
  decideLease,
  decideRun,
  decideSlot,
  evolveCronRun,
  isOpen,
  notified,
  overlapped,
  runIdOf,
  runTail,
  unusedRun,
  type CronRun,
  type Slot,
} from './cron-run.js';

const sealed: Sealed = { $sealed: { v: 1, k: 'k', b: 'b' } };
const mission = { kind: 'cron_job', name: sealed, prompt: sealed };
const now = new Date('2026-11-30T10:00:00.000Z');
const later = (seconds: number): Date => new Date(now.getTime() + seconds * 1000);
const slotOf = (slotAt: string): Slot => ({ runId: runIdOf('a', 'j', slotAt), jobId: 'j', slotAt });
const slot = slotOf('2026-11-30T10:00:00.000Z');
const fired = (outcome = 'passed') => ({ invocationId: 'i', outcome, finalPrompt: sealed, reason: null });
const lease = { now, leaseSeconds: 3600 };

const given = (...events: readonly NewEvent[]): CronRun => events.reduce(evolveCronRun, unusedRun);
const started = given(...decideRun(slot, mission, fired(), lease).run);
const types = (events: readonly NewEvent[]): readonly string[] => events.map(({ type }) => type);
const done = { status: 'Succeeded', sessionId: 's', firedBy: 'told' };
const closingEvents = (run: CronRun): readonly NewEvent[] => {
  const decision = decideCompletion(run, done);
  return decision.kind === 'closes' ? decision.events : [];
};

describe('a due slot', () => {
  it('fires when its job has no open run, and is overlapped when it has (MW-94)', () => {
    expect(decideSlot(unusedRun, null)).toBe('fire');
    expect(decideSlot(unusedRun, 'r0')).toBe('overlapped');
  });

  it('is never decided twice, whatever became of it (MW-94)', () => {
    const cancelled = given(...decideRun(slot, mission, fired('cancelled'), lease).run);
    const refused = given(...overlapped(slot, mission, 'r0'));
    const closed = closingEvents(started).reduce(evolveCronRun, started);
    for (const run of [started, cancelled, refused, closed]) {
      expect(decideSlot(run, null)).toBe('repeated');
      expect(decideSlot(run, 'r0')).toBe('repeated');
    }
  });

  it('that was missed may still come, late', () => {
    const missed = given({
      type: 'cron.slot_missed',
      data: { runId: slot.runId, jobId: slot.jobId, slotAt: slot.slotAt },
    });
    expect(decideSlot(missed, null)).toBe('fire');
  });

  it('becomes a run that its job knows, or one that never starts and that its job never hears of (MW-93)', () => {
    const run = decideRun(slot, mission, fired('rewritten'), lease);
    expect([types(run.job), types(run.run)]).toEqual([['cron.run_started'], ['cron.run_leased']]);
    const cancelled = decideRun(slot, mission, fired('cancelled'), lease);
    expect([types(cancelled.job), types(cancelled.run)]).toEqual([[], ['cron.run_cancelled']]);
  });
});

describe('a run', () => {
  it('has the same id for the same job and slot, and another for any other', () => {
    expect(runIdOf('a', 'j', 's')).toBe(runIdOf('a', 'j', 's'));
    const ids = [runIdOf('a', 'j', 's'), runIdOf('b', 'j', 's'), runIdOf('a', 'k', 's'), runIdOf('a', 'j', 't')];
    expect(new Set(ids).size).toBe(4);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u);
  });

  it('is open as long as its lease runs', () => {
    expect(isOpen(started, later(3599))).toBe(true);
    expect(isOpen(started, later(3600))).toBe(false);
  });

  it('is lost once, when its lease has lapsed and nobody closed it', () => {
    expect(decideLapse(started, later(3599))).toEqual([]);
    const events = decideLapse(started, later(3600));
    expect(types(events)).toEqual(['cron.run_lost']);
    const lost = events.reduce(evolveCronRun, started);
    expect(decideLapse(lost, later(9999))).toEqual([]);
    expect(decideCompletion(lost, done)).toEqual({ kind: 'not-open', state: 'lost' });
    expect(decideLease(lost, null, { now })).toEqual({ kind: 'not-open', state: 'lost' });
  });

  it('is closed once, and told of at most once (MW-95, MW-96)', () => {
    const events = closingEvents(started);
    expect(types(events)).toEqual(['cron.run_closed']);
    const closed = events.reduce(evolveCronRun, started);
    expect(closed).toMatchObject({ state: 'closed', status: 'Succeeded', toldBy: 'told', notified: false });
    expect(decideCompletion(closed, done)).toEqual({ kind: 'not-open', state: 'closed' });
    const told = notified(slot, { firedBy: 'told', handlers: 1, undecided: 0 }).reduce(evolveCronRun, closed);
    expect(told).toMatchObject({ state: 'closed', notified: true });
  });

  it('that never ran is closed by nobody (MW-95)', () => {
    const cancelled = given(...decideRun(slot, mission, fired('cancelled'), lease).run);
    expect(decideCompletion(cancelled, done)).toEqual({ kind: 'not-open', state: 'cancelled' });
    expect(decideCompletion(unusedRun, done)).toEqual({ kind: 'not-open', state: 'unused' });
    expect(decideCompletion(given(...overlapped(slot, mission, 'r0')), done)).toMatchObject({ state: 'overlapped' });
  });
});

describe('a lease', () => {
  it('is renewed by a heartbeat for as long as it was', () => {
    const decision = decideLease(started, null, { now: later(1800) });
    expect(decision).toMatchObject({ kind: 'leased', leaseUntil: later(5400).toISOString() });
  });

  it('is not written down again for a heartbeat that adds next to nothing', () => {
    expect(decideLease(started, null, { now: later(10) })).toEqual({
      kind: 'leased',
      leaseUntil: later(3600).toISOString(),
      events: [],
    });
    expect(decideLease(started, null, { now: later(10), leaseSeconds: 60 })).toMatchObject({
      leaseUntil: later(70).toISOString(),
    });
  });

  it('is written down when the session becomes known, and keeps it', () => {
    const decision = decideLease(started, 'mission', { now: later(1) });
    const events = decision.kind === 'leased' ? decision.events : [];
    expect(events).toMatchObject([{ type: 'cron.run_leased', sessionId: 'mission', data: { by: 'session' } }]);
    const named = events.reduce(evolveCronRun, started);
    const beat = decideLease(named, null, { now: later(3000) });
    expect(beat).toMatchObject({ events: [{ sessionId: 'mission', data: { by: 'heartbeat' } }] });
  });
});

/** What a schedule may live through, in any order. */
interface Step {
  readonly kind: 'slot' | 'veto' | 'close' | 'beat' | 'wait';
  readonly slot: number;
}

describe('whatever comes in whatever order', () => {
  const step = fc.record<Step>({
    kind: fc.constantFrom('slot', 'veto', 'close', 'beat', 'wait'),
    slot: fc.nat({ max: 4 }),
  });

  const live = (steps: readonly Step[]): { opened: string[]; most: number; streams: Map<string, NewEvent[]> } => {
    let clock = now;
    let job: CronJob = newCronJob;
    const streams = new Map<string, NewEvent[]>();
    const opened: string[] = [];
    let most = 0;
    const at = (runId: string): CronRun => (streams.get(runId) ?? []).reduce(evolveCronRun, unusedRun);
    const write = (runId: string, events: readonly NewEvent[]): void => {
      streams.set(runId, [...(streams.get(runId) ?? []), ...events]);
    };
    for (const { kind, slot: n } of steps) {
      const one = slotOf(`slot ${String(n)}`);
      if (kind === 'wait') clock = new Date(clock.getTime() + 2_000_000);
      if (kind === 'close') write(one.runId, closingEvents(at(one.runId)));
      if (kind === 'beat') {
        const beat = decideLease(at(one.runId), null, { now: clock });
        if (beat.kind === 'leased') write(one.runId, beat.events);
      }
      if (kind !== 'slot' && kind !== 'veto') continue;
      if (job.lastRun !== null) write(job.lastRun, decideLapse(at(job.lastRun), clock));
      const openRun = job.lastRun !== null && isOpen(at(job.lastRun), clock) ? job.lastRun : null;
      const decision = decideSlot(at(one.runId), openRun);
      if (decision === 'overlapped') write(one.runId, overlapped(one, mission, openRun ?? ''));
      if (decision !== 'fire') continue;
      const events = decideRun(one, mission, fired(kind === 'veto' ? 'cancelled' : 'passed'), {
        now: clock,
        leaseSeconds: 3600,
      });
      write(one.runId, events.run);
      job = events.job.reduce(evolveCronJob, job);
      opened.push(one.runId);
      const open = [...streams.keys()].filter((runId) => at(runId).state === 'open').length;
      most = Math.max(most, open);
    }
    return { opened, most, streams };
  };

  it('no job ever has two open runs, and no slot is decided twice', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const { opened, most } = live(steps);
        expect(most).toBeLessThanOrEqual(1);
        expect(new Set(opened).size).toBe(opened.length);
      }),
    );
  });

  it('the last events of a run tell its state as well as all of them', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        for (const events of live(steps).streams.values()) {
          expect(events.slice(-runTail).reduce(evolveCronRun, unusedRun)).toEqual(
            events.reduce(evolveCronRun, unusedRun),
          );
        }
      }),
    );
  });
});
