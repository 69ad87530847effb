import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Json } from '#record';
import { startSandbox, type Sandbox } from '#sandbox';
import { runExample } from '../../../test/support/example-plugin.js';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({});
});
afterAll(() => sandbox.close());

const minute = 60_000;
const day = 24 * 60 * minute;
const dayNames = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const;

/** The clock of the realm is the real one, so windows are laid around now. */
const clock = (offset: number): string => new Date(Date.now() + offset).toISOString().slice(11, 16);
const dayOf = (offset: number): string => dayNames[new Date(Date.now() + offset).getUTCDay()] ?? '';
const instant = (offset: number): string => new Date(Date.now() + offset).toISOString();

const fire = async (config: Json, over: { readonly [key: string]: Json } = {}) => {
  const sentinel = await runExample(sandbox, 'cron-sentinel', config);
  const job = { cronJobId: '7', agentId: '2', kind: 'cron_job', name: 'nightly', prompt: 'Tidy up.' };
  return sentinel.say('cronJobFiring', { ...job, ...over });
};

const aroundNow = { from: clock(-2 * minute), to: clock(5 * minute), reason: 'patching' };
const later = { from: clock(60 * minute), to: clock(90 * minute), reason: 'later' };

describe('the cron sentinel', () => {
  it('loads without a warning and asks for no permission', async () => {
    const sentinel = await runExample(sandbox, 'cron-sentinel');
    expect([...sentinel.hooks].sort()).toEqual(['cronJobCompleted', 'cronJobFiring']);
    expect(sentinel).toMatchObject({ permissions: [], loadWarnings: [] });
  });

  it('holds a mission that would start in a weekly window, and says why', async () => {
    const heard = await fire({ weekly: [aroundNow] });
    expect(heard).toMatchObject({ kind: 'cancelled', reason: 'maintenance: patching', warnings: [] });
    expect(heard.lines).toEqual(['info held cron_job "nightly" (7): patching']);
  });

  it('lets a mission start outside of every window, its prompt unchanged', async () => {
    expect(await fire({ weekly: [later] })).toMatchObject({ kind: 'passed', warnings: [] });
    expect(await fire({})).toMatchObject({ kind: 'passed', warnings: [] });
  });

  it('knows the days of a window, and that one goes past midnight', async () => {
    const tomorrow = dayOf(day);
    expect(await fire({ weekly: [{ ...aroundNow, days: [dayOf(-2 * minute)] }] })).toMatchObject({ kind: 'cancelled' });
    expect(await fire({ weekly: [{ ...aroundNow, days: [tomorrow] }] })).toMatchObject({ kind: 'passed' });
    // From five minutes ahead, round the clock, until two minutes ahead: only what began yesterday holds now.
    const round = { from: clock(5 * minute), to: clock(2 * minute), reason: 'all day' };
    const began = clock(5 * minute) > clock(0) ? dayOf(-day) : dayOf(0);
    expect(await fire({ weekly: [{ ...round, days: [began] }] })).toMatchObject({ kind: 'cancelled' });
  });

  it('reads weekly windows in the configured offset', async () => {
    const inOffset = { from: clock(118 * minute), to: clock(125 * minute), reason: 'local' };
    expect(await fire({ weekly: [inOffset], offsetMinutes: 120 })).toMatchObject({ kind: 'cancelled' });
    expect(await fire({ weekly: [inOffset] })).toMatchObject({ kind: 'passed' });
  });

  it('holds in a single window, and in one that it cannot read', async () => {
    const once = (start: string, end: string) => fire({ once: [{ start, end, reason: 'move' }] });
    expect(await once(instant(-minute), instant(minute))).toMatchObject({
      kind: 'cancelled',
      reason: 'maintenance: move',
    });
    expect(await once(instant(-2 * minute), instant(-minute))).toMatchObject({ kind: 'passed' });
    expect(await once(instant(minute), instant(2 * minute))).toMatchObject({ kind: 'passed' });
    expect(await once('next tuesday', instant(minute))).toMatchObject({ kind: 'cancelled' });
  });

  it('lets exempt jobs run in a window and tells them of it', async () => {
    const rewritten = {
      kind: 'rewrote',
      value: expect.stringMatching(/^Tidy up\.\n\n\[A maintenance is under way: patching/u),
    };
    expect(await fire({ weekly: [aroundNow], always: ['nightly'] })).toMatchObject(rewritten);
    expect(await fire({ weekly: [aroundNow], always: ['7'] })).toMatchObject(rewritten);
    expect(await fire({ weekly: [aroundNow] }, { kind: 'heartbeat' })).toMatchObject(rewritten);
    expect(await fire({ weekly: [aroundNow], holdHeartbeats: true }, { kind: 'heartbeat' })).toMatchObject({
      kind: 'cancelled',
    });
  });

  it('notes how a run ended', async () => {
    const sentinel = await runExample(sandbox, 'cron-sentinel');
    const run = { cronJobId: '7', cronJobRunId: '70', sessionId: '1', agentId: '2', status: 'failed' };
    expect(await sentinel.say('cronJobCompleted', run)).toMatchObject({
      warnings: [],
      lines: ['info run 70 of 7 ended: failed'],
    });
  });
});
