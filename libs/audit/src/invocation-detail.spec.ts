import { describe, expect, it } from '@jest/globals';
import { memoryEventStore, type StoredEvent } from '#event-store';
import { invocationStream } from '#record';
import { memorySealing } from '#sealing';
import { invocationDetail } from './invocation-detail.js';
import { writeInvocation, type TestInvocation } from './test-record.js';

const store = memoryEventStore();
const sealing = memorySealing();

const streamOf = async (told: TestInvocation): Promise<readonly StoredEvent[]> => {
  await writeInvocation(store, sealing, told);
  return store.readStream('a', invocationStream(told.id));
};

const opened = async (value: unknown): Promise<unknown> => {
  if (value === null || value === undefined) return value;
  const result = await sealing.open('a', value as Parameters<typeof sealing.open>[1]);
  return result.kind === 'open' ? result.value : result;
};

describe('an invocation read from its stream', () => {
  it('has the value before and after every handler, in the order they ran', async () => {
    const events = await streamOf({
      id: 'i1',
      value: 'one',
      outcome: 'rewritten',
      handlers: [
        { pluginId: 'p', outcome: 'rewrote', output: 'two', warnings: ['unknown_key'] },
        { pluginId: 'q' },
        { pluginId: 'r', outcome: 'rewrote', output: 'three' },
      ],
    });
    const detail = invocationDetail(events);
    const values = await Promise.all(
      (detail?.handlers ?? []).map(async ({ pluginId, outcome, before, after }) => [
        pluginId,
        outcome,
        await opened(before),
        await opened(after),
      ]),
    );
    expect(values).toEqual([
      ['p', 'rewrote', 'one', 'two'],
      ['q', 'passed', 'two', 'two'],
      ['r', 'rewrote', 'two', 'three'],
    ]);
    expect(await opened(detail?.value)).toBe('three');
    expect(await opened(detail?.handlers[0]?.warnings[0]?.detail)).toBe('detail of unknown_key');
    expect(detail).toMatchObject({
      state: 'closed',
      outcome: 'rewritten',
      metered: true,
      effect: { state: 'unknown' },
    });
    expect(detail?.chain.map(({ pluginId }) => pluginId)).toEqual(['p', 'q', 'r']);
  });

  it('says of one that was lost what had started, which calls nobody knows the end of, and that it was metered', async () => {
    await writeInvocation(store, sealing, { id: 'lost', open: true });
    const about = { invocationId: 'lost', pluginId: 'p' };
    const call = { callId: 'c', member: 'fetch' };
    const lost = { metered: 1, cause: 'instance_gone', instance: 'x' };
    await store.append({
      account: 'a',
      writes: [
        {
          stream: invocationStream('lost'),
          expectedVersion: 1,
          events: [
            { ...about, type: 'handler.started', data: { index: 0 } },
            { ...about, type: 'host.called', data: call },
            { invocationId: 'lost', type: 'invocation.lost', outcome: 'lost', data: lost },
          ],
        },
      ],
    });
    const events = await store.readStream('a', invocationStream('lost'));
    const before = invocationDetail(events.slice(0, 3));
    expect(before).toMatchObject({
      state: 'open',
      lost: null,
      handlers: [{ outcome: 'started', hostCalls: [{ state: 'asked' }] }],
    });
    expect(invocationDetail(events)).toMatchObject({
      state: 'lost',
      outcome: 'lost',
      metered: true,
      lost: { cause: 'instance_gone', instance: 'x' },
      handlers: [{ outcome: 'lost', hostCalls: [{ state: 'unknown' }] }],
    });
  });

  it('says who cancelled and why, and that the rest did not run', async () => {
    const events = await streamOf({
      id: 'i2',
      outcome: 'cancelled',
      handlers: [
        { pluginId: 'p', outcome: 'cancelled', reason: 'no', reasonCode: 'forbidden' },
        { pluginId: 'q', outcome: 'not_run' },
      ],
    });
    const detail = invocationDetail(events);
    expect(detail?.cancellation).toMatchObject({ pluginId: 'p', code: 'forbidden' });
    expect(await opened(detail?.cancellation?.reason)).toBe('no');
    expect(await opened(detail?.handlers[0]?.reason)).toBe('no');
    expect(detail?.handlers[1]).toMatchObject({ outcome: 'not_run', cause: 'after_cancel', before: null, after: null });
    expect(detail?.value).toBeNull();
  });

  it('shows a run that began and never ended as started, and its calls as far as they got', async () => {
    const events = await streamOf({ id: 'i3', open: true, handlers: [] });
    const common = { invocationId: 'i3', pluginId: 'p' };
    await store.append({
      account: 'a',
      writes: [
        {
          stream: invocationStream('i3'),
          expectedVersion: 'any',
          events: [
            { ...common, type: 'handler.started', data: { index: 0 } },
            { ...common, type: 'host.called', data: { callId: 'c1', member: 'fetch' } },
            { ...common, type: 'host.called', data: { callId: 'c2', member: 'log' } },
            { ...common, type: 'host.refused', reasonCode: 'no_runtime', data: { callId: 'c3', member: 'llm' } },
          ],
        },
      ],
    });
    expect(invocationDetail(events)?.state).toBe('open');
    const detail = invocationDetail(await store.readStream('a', invocationStream('i3')));
    expect(detail?.handlers).toHaveLength(1);
    expect(detail?.handlers[0]).toMatchObject({ pluginId: 'p', outcome: 'started' });
    expect(detail?.handlers[0]?.hostCalls.map(({ callId, state, code }) => [callId, state, code])).toEqual([
      ['c1', 'asked', null],
      ['c2', 'answered', null],
      ['c3', 'refused', 'no_runtime'],
    ]);
  });

  it('takes the effect that was reported last', async () => {
    await streamOf({ id: 'i4' });
    for (const data of [
      { applied: false, matches: null },
      { applied: true, matches: false },
    ]) {
      await store.append({
        account: 'a',
        writes: [
          {
            stream: invocationStream('i4'),
            expectedVersion: 'any',
            events: [{ type: 'effect.reported', invocationId: 'i4', data }],
          },
        ],
      });
    }
    expect(invocationDetail(await store.readStream('a', invocationStream('i4')))?.effect.state).toBe('different');
  });

  it('is nothing without its opening', () => {
    expect(invocationDetail([])).toBeNull();
  });
});
