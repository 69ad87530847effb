import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { setImmediate as turn } from 'node:timers/promises';
import type { StoredEvent } from '#event-store';
import { canonicalJson, type RecordedEvent } from '#record';
import { encodeEvent, eventRecord } from './messages.js';
import { mergeTopics, type Gap, type MergeOptions } from './merge.js';
import { partitionOf } from './partitions.js';
import { KafkaFailure, type ConsumedMessage, type Kafka, type ReadTopicOptions } from './port.js';

/** Topics in memory: partitions that are lists, read in steps of some messages in an order that chance gives. */
const topicsOf = (
  topics: ReadonlyMap<string, readonly (readonly ConsumedMessage[])[]>,
  chance: () => number,
): Kafka => {
  const refuse = (): never => {
    throw new Error('not part of this test');
  };
  return {
    producer: refuse,
    joinGroup: refuse,
    topics: () =>
      Promise.resolve({
        ensure: refuse,
        deleteBefore: refuse,
        close: () => Promise.resolve(),
        offsets: (topic) =>
          Promise.resolve(
            topics.get(topic)?.map((messages, partition) => ({
              partition,
              low: messages[0]?.offset ?? 0n,
              high: (messages.at(-1)?.offset ?? -1n) + 1n,
            })) ?? null,
          ),
      }),
    readTopic: (options) => readSteps(options, topics.get(options.topic) ?? [], chance),
  };
};

const readSteps = async (
  { from, until, handle, hold, signal }: ReadTopicOptions,
  partitions: readonly (readonly ConsumedMessage[])[],
  chance: () => number,
): Promise<void> => {
  const left = partitions.map((messages, partition) => {
    const end = until === undefined || until === 'never' ? null : (until.get(partition) ?? 0n);
    const start = from?.get(partition) ?? 0n;
    return messages.filter(({ offset }) => offset >= start && (end === null || offset < end));
  });
  const held = new Set<number>();
  while (signal?.aborted !== true && left.some((messages) => messages.length > 0)) {
    const open = left.flatMap((messages, partition) =>
      messages.length > 0 && !held.has(partition) ? [partition] : [],
    );
    const partition = open[Math.floor(chance() * open.length)];
    if (partition === undefined) {
      await turn();
      continue;
    }
    await handle(left[partition]?.splice(0, 1 + Math.floor(chance() * 4)) ?? []);
    const holding = hold?.(partition) ?? null;
    if (holding === null) continue;
    held.add(partition);
    void holding.then(() => held.delete(partition));
  }
};

const eventAt = (globalPosition: bigint, session: string, size = 1): StoredEvent => {
  const event = {
    id: `01890000-0000-7000-8000-${String(globalPosition).padStart(12, '0')}`,
    type: 'invocation.opened',
    schema: 1,
    account: 'a',
    stream: `invocation/${String(globalPosition)}`,
    streamVersion: 1,
    recordedAt: '2026-01-01T00:00:00.000Z',
    occurredAt: '2026-01-01T00:00:00.000Z',
    sessionId: session,
    data: { text: 'x'.repeat(size) },
  } as unknown as RecordedEvent;
  return { globalPosition, position: globalPosition, event, bytes: Buffer.from(canonicalJson(event as never)) };
};

/** The events as a relay sends them to so many partitions; `again` says after which positions it begins anew. */
const relayed = (
  events: readonly StoredEvent[],
  partitions: number,
  again: ReadonlyMap<number, number> = new Map(),
): readonly (readonly ConsumedMessage[])[] => {
  const made: ConsumedMessage[][] = Array.from({ length: partitions }, () => []);
  const send = (stored: StoredEvent): void => {
    const { key, value, headers } = encodeEvent(eventRecord(stored), { source: '/hookledger/x' });
    const partition = partitionOf(key, partitions);
    const messages = made[partition] ?? [];
    messages.push({ topic: 't', partition, offset: BigInt(messages.length), timestamp: 0, key, value, headers });
  };
  events.forEach((stored, at) => {
    send(stored);
    const back = again.get(at) ?? 0;
    for (const repeated of events.slice(Math.max(0, at + 1 - back), at + 1)) send(repeated);
  });
  return made;
};

const merged = async (
  partitions: readonly (readonly ConsumedMessage[])[],
  options: Partial<MergeOptions> = {},
  chance: () => number = () => 0.5,
): Promise<{ readonly positions: readonly bigint[]; readonly gaps: readonly Gap[] }> => {
  const positions: bigint[] = [];
  const gaps: Gap[] = [];
  const merge = mergeTopics({
    kafka: topicsOf(new Map([['t', partitions]]), chance),
    topics: ['t'],
    after: -1n,
    until: 'end',
    handle: async (events) => {
      await turn();
      positions.push(...events.map(({ globalPosition }) => globalPosition));
    },
    largeBytes: () => Promise.resolve(null),
    missing: (gap) => {
      gaps.push(gap);
      return Promise.resolve([]);
    },
    ...options,
  });
  await merge.ended;
  return { positions, gaps };
};

const range = (from: number, to: number): readonly bigint[] =>
  Array.from({ length: to - from }, (_, at) => BigInt(from + at));

describe('topics that are read as one log', () => {
  it('give every event once, in the order of the log, whatever order the partitions are read in', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 7 }),
        fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 60 }),
        fc.dictionary(fc.integer({ min: 0, max: 59 }).map(String), fc.integer({ min: 1, max: 20 })),
        fc.infiniteStream(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })),
        async (partitions, sessions, repeats, chances) => {
          const events = sessions.map((session, at) => eventAt(BigInt(at), `s${String(session)}`));
          const again = new Map(Object.entries(repeats).map(([at, back]) => [Number(at), back]));
          const { positions, gaps } = await merged(
            relayed(events, partitions, again),
            {},
            () => chances.next().value as number,
          );
          expect(positions).toEqual(range(0, events.length));
          expect(gaps).toEqual([]);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('are read though one partition is far ahead of the others, without keeping all of it', async () => {
    const events = range(0, 9_000).map((position) =>
      eventAt(position, position < 8_000n ? 'long' : `s${String(position)}`),
    );
    const { positions } = await merged(relayed(events, 3), {}, () => 0.99);
    expect(positions).toEqual(range(0, 9_000));
  });

  it('tell of every event at a position that was there already', async () => {
    const events = range(0, 20).map((position) => eventAt(position, 's'));
    const repeated: bigint[] = [];
    const again = new Map([[9, 3]]);
    const note = ({ globalPosition }: StoredEvent): unknown => repeated.push(globalPosition);
    const { positions } = await merged(relayed(events, 2, again), { repeated: note });
    expect([positions, repeated]).toEqual([range(0, 20), range(7, 10)]);
  });

  it('tell which positions are in none of them, at the beginning and between', async () => {
    const events = range(0, 40).map((position) => eventAt(position, `s${String(position % 5n)}`));
    const lost = events.filter(({ globalPosition: at }) => at > 2n && (at < 10n || at > 19n));
    const { positions, gaps } = await merged(relayed(lost, 4));
    expect(positions).toEqual([...range(3, 10), ...range(20, 40)]);
    expect(gaps).toEqual([
      { first: 0n, last: 2n },
      { first: 10n, last: 19n },
    ]);
  });

  it('are filled up with what another place has of a gap', async () => {
    const events = range(0, 10).map((position) => eventAt(position, 's'));
    const lost = events.filter(({ globalPosition: at }) => at < 3n || at > 6n);
    const missing = ({ first, last }: Gap): Promise<readonly StoredEvent[]> =>
      Promise.resolve(events.slice(Number(first) + 1, Number(last) + 1));
    expect((await merged(relayed(lost, 2), { missing })).positions).toEqual([0n, 1n, 2n, 4n, 5n, 6n, 7n, 8n, 9n]);
  });

  it('begin after a position', async () => {
    const events = range(0, 30).map((position) => eventAt(position, `s${String(position % 3n)}`));
    expect((await merged(relayed(events, 3), { after: 17n })).positions).toEqual(range(18, 30));
  });

  it('end with what the handler throws', async () => {
    const events = range(0, 30).map((position) => eventAt(position, `s${String(position % 3n)}`));
    const handle = (): Promise<void> => Promise.reject(new Error('full'));
    await expect(merged(relayed(events, 3), { handle })).rejects.toThrow('full');
  });

  it('refuse to be read where one of them is not there', async () => {
    await expect(merged([], { topics: ['t', 'other'] })).rejects.toThrow(KafkaFailure);
  });

  it('give places from which a later reading finds all that was not handed over', async () => {
    const events = range(0, 300).map((position) => eventAt(position, `s${String(position % 11n)}`));
    const partitions = relayed(events, 4);
    const stop = new AbortController();
    let at = -1n;
    const merge = mergeTopics({
      kafka: topicsOf(new Map([['t', partitions]]), () => 0.3),
      topics: ['t'],
      after: -1n,
      until: 'end',
      handle: (handed) => {
        at = handed.at(-1)?.globalPosition ?? at;
        if (at > 100n) stop.abort();
        return Promise.resolve();
      },
      largeBytes: () => Promise.resolve(null),
      missing: () => Promise.resolve([]),
      signal: stop.signal,
    });
    await merge.ended;
    const { positions, gaps } = await merged(partitions, { after: at, from: merge.places() });
    expect(positions).toEqual(range(Number(at) + 1, 300));
    expect(gaps).toEqual([]);
  });

  it('pass over what is no event, and say so', async () => {
    const events = range(0, 4).map((position) => eventAt(position, 's'));
    const [messages = []] = relayed(events, 1);
    const foreign: string[] = [];
    const strange = { ...messages[1], key: null, value: Buffer.from('x'), headers: {} } as ConsumedMessage;
    const { positions } = await merged([[...messages.slice(0, 1), strange, ...messages.slice(2)]], {
      foreign: (_, why) => foreign.push(why),
    });
    expect(positions).toEqual([0n, 2n, 3n]);
    expect(foreign).toEqual(['it is no CloudEvent 1.0']);
  });
});
