import { describe, expect, it } from '@jest/globals';
import { LogUnavailable, memoryEventStore, type EventStore } from '#event-store';
import { ReadRecorder, type RecordRead } from './read-recorder.js';

const read = (over: Partial<RecordRead> = {}): RecordRead => ({
  account: 'a',
  actor: { kind: 'key', id: 'auditor' },
  path: '/turns/t1',
  content: 'full',
  dataSubject: null,
  ...over,
});

const clock = (start = '2026-01-01T10:00:30.000Z') => {
  let now = Date.parse(start);
  return { now: () => new Date(now), pass: (ms: number) => (now += ms) };
};

const written = async (store: EventStore) =>
  (await store.readAccount('a', { limit: 100 })).map(({ event }) => ({
    by: event.actor?.id,
    path: event.data.path,
    minute: event.data.minute,
    count: event.data.count,
  }));

describe('reads of the record', () => {
  it('are on record before the answer leaves', async () => {
    const store = memoryEventStore();
    const recorder = new ReadRecorder(store, clock().now);
    await recorder.note(read());
    expect(await written(store)).toEqual([
      { by: 'auditor', path: '/turns/t1', minute: '2026-01-01T10:00:00.000Z', count: 1 },
    ]);
  });

  it('of one key, path and minute are summed, and their counts add up', async () => {
    const store = memoryEventStore();
    const time = clock();
    const recorder = new ReadRecorder(store, time.now);
    await Promise.all([1, 2, 3, 4, 5].map(() => recorder.note(read())));
    await recorder.flush();
    expect((await written(store)).map(({ count }) => count)).toEqual([1]);
    time.pass(60_000);
    await recorder.note(read());
    await recorder.flush();
    expect((await written(store)).map(({ minute, count }) => [minute, count])).toEqual([
      ['2026-01-01T10:00:00.000Z', 1],
      ['2026-01-01T10:01:00.000Z', 1],
      ['2026-01-01T10:00:00.000Z', 4],
    ]);
  });

  it('are told apart by key, person, path, content and whose data it was', async () => {
    const store = memoryEventStore();
    const recorder = new ReadRecorder(store, clock().now);
    const others = [
      read({ actor: { kind: 'key', id: 'other' } }),
      read({ actor: { kind: 'key', id: 'auditor', onBehalfOf: 'ada' } }),
      read({ path: '/turns/t2' }),
      read({ content: 'none' }),
      read({ dataSubject: 'hash' }),
    ];
    for (const one of [read(), ...others]) await recorder.note(one);
    expect(await written(store)).toHaveLength(6);
  });

  it('of the running minute are written when the program stops', async () => {
    const store = memoryEventStore();
    const recorder = new ReadRecorder(store, clock().now);
    await recorder.note(read());
    await recorder.note(read());
    await recorder.flush('all');
    expect((await written(store)).map(({ count }) => count)).toEqual([1, 1]);
  });

  it('that cannot be recorded are refused, and the next one is recorded again', async () => {
    const store = memoryEventStore();
    let away = true;
    const failing: EventStore = {
      ...store,
      append: (append) => (away ? Promise.reject(new LogUnavailable('away')) : store.append(append)),
    };
    const recorder = new ReadRecorder(failing, clock().now);
    await expect(recorder.note(read())).rejects.toThrow(LogUnavailable);
    away = false;
    await recorder.note(read());
    expect(await written(store)).toHaveLength(1);
  });

  it('keep their count until it can be written', async () => {
    const store = memoryEventStore();
    const time = clock();
    let away = false;
    const failing: EventStore = {
      ...store,
      append: (append) => (away ? Promise.reject(new LogUnavailable('away')) : store.append(append)),
    };
    const recorder = new ReadRecorder(failing, time.now);
    for (let n = 0; n < 3; n += 1) await recorder.note(read());
    time.pass(60_000);
    away = true;
    await expect(recorder.flush()).rejects.toThrow(LogUnavailable);
    away = false;
    await recorder.flush();
    await recorder.flush();
    expect((await written(store)).map(({ count }) => count)).toEqual([1, 2]);
  });
});
