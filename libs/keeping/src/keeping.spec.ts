import { describe, expect, it } from '@jest/globals';
import { eventTypes, type RecordedEvent } from '#record';
import { classOf } from './event-classes.js';
import { holdsEvent, holdsOn, type Hold, type HoldScope } from './holds.js';
import { foldKeeping } from './keeping-state.js';
import { rangesOf } from './ranges.js';
import { keepForGood, purgePolicy, readRetention, sixMonthsDays } from './retention.js';

const event = (more: Partial<RecordedEvent>): RecordedEvent => ({
  id: 'i',
  type: 'handler.passed',
  schema: 1,
  account: 'a',
  stream: 's',
  streamVersion: 1,
  recordedAt: '2026-03-01T10:00:00.000Z',
  occurredAt: '2026-03-01T10:00:00.000Z',
  data: {},
  ...more,
});

describe('a class of events', () => {
  it('has none of what something in force is read off, nor of what says what was removed or held', () => {
    const forGood = eventTypes.filter((type) => classOf(type) === null);
    for (const type of ['plugin.installed', 'key.created', 'settings.changed', 'secret.set', 'cron.job_declared'])
      expect(forGood).toContain(type);
    for (const type of ['retention.purged', 'payload.erased', 'hold.placed', 'hold.released', 'retention.set'])
      expect(forGood).toContain(type);
    expect(classOf('invocation.lost')).toBe('invocation');
    expect(classOf('session.withheld')).toBe('invocation');
    expect(classOf('session.cleared')).toBe('session');
  });
});

describe('a retention', () => {
  it('is for less than six months only with a reason, and names classes there are', () => {
    const least = sixMonthsDays;
    expect(readRetention({ invocation: least }, false)).toMatchObject({ kind: 'read' });
    expect(readRetention({ invocation: least - 1 }, false)).toMatchObject({ kind: 'refused' });
    expect(readRetention({ invocation: least - 1 }, true)).toMatchObject({ kind: 'read' });
    for (const wanted of [{ x: 400 }, { invocation: 0 }, { invocation: -1 }, { invocation: 1.5 }, { invocation: '9' }])
      expect(readRetention(wanted, true)).toMatchObject({ kind: 'refused', faults: [{}] });
  });

  it('keeps for good what it does not name', () => {
    const read = readRetention({ session: 400, invocation: null }, false);
    expect(read).toEqual({ kind: 'read', retention: { ...keepForGood, session: 400 } });
  });

  it('gives a purge a cutoff for each class that has one', () => {
    const now = new Date('2026-11-30T00:00:00.000Z');
    expect(purgePolicy({ ...keepForGood, cron: 10 }, now)).toEqual({
      cron: { days: 10, before: '2026-11-20T00:00:00.000Z' },
    });
  });
});

describe('a hold', () => {
  const chain = [{ pluginId: 'p' }, { pluginId: 'q' }];
  const opened = event({
    type: 'invocation.opened',
    sessionId: 's',
    agentId: 'g',
    data: { chain, dataSubject: { hmac: 'h', sealed: null } },
  });

  it.each([
    [{ kind: 'account' }, true],
    [{ kind: 'session', id: 's' }, true],
    [{ kind: 'session', id: 'other' }, false],
    [{ kind: 'agent', id: 'g' }, true],
    [{ kind: 'agent', id: 's' }, false],
    [{ kind: 'plugin', id: 'q' }, true],
    [{ kind: 'plugin', id: 'r' }, false],
    [{ kind: 'subject', id: 'h' }, true],
    [{ kind: 'subject', id: 's' }, false],
  ] as const satisfies readonly (readonly [HoldScope, boolean])[])('on %j is on an opening of it: %s', (scope, on) => {
    expect(holdsEvent(scope, opened)).toBe(on);
  });

  it('is on a stream by any of its events, and on a search for a subject', () => {
    const hold = { holdId: '1', scope: { kind: 'plugin', id: 'q' } } as Hold;
    expect(holdsOn([hold], [event({ type: 'invocation.closed' }), event({ pluginId: 'q' })])).toEqual([hold]);
    expect(holdsOn([hold], [event({})])).toEqual([]);
    expect(holdsEvent({ kind: 'subject', id: 'h' }, event({ type: 'audit.read', data: { dataSubject: 'h' } }))).toBe(
      true,
    );
  });

  it('is in force from when it was placed until it was released', () => {
    const placed = event({ type: 'hold.placed', data: { holdId: '1', scope: { kind: 'account' }, reason: null } });
    const released = event({ type: 'hold.released', data: { holdId: '1', reason: null } });
    const at = (events: readonly RecordedEvent[]) =>
      foldKeeping(events.map((one, index) => ({ event: one, position: BigInt(index) })));
    expect([...at([placed]).holds.keys()]).toEqual(['1']);
    expect([...at([placed, released]).holds.keys()]).toEqual([]);
    expect(at([placed, released]).released.has('1')).toBe(true);
  });
});

describe('positions', () => {
  it('are told as ranges without gaps', () => {
    expect(rangesOf([])).toEqual([]);
    expect(rangesOf([0n, 1n, 2n, 5n, 7n, 8n])).toEqual([
      { first: '0', last: '2', events: 3 },
      { first: '5', last: '5', events: 1 },
      { first: '7', last: '8', events: 2 },
    ]);
  });
});
