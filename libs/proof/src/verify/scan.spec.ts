import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { canonicalJson } from '#record';
import type { Json } from '#record';
import { changedColumns, readHead } from './columns.js';
import { findNamed } from './named.js';
import { fitsColumns } from './scan.js';
import type { EventRow } from './source.js';

const hex = 'ab'.repeat(32);

/** Plain JSON, sealed values among it, and keys that look like those of an event. */
const content = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.string(),
    fc.string({ unit: 'binary' }),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.boolean(),
    fc.constant(null),
    fc.constantFrom<Json>(
      { $sealed: { v: 1, k: 'key-1', b: 'AAAA' } },
      { $blob: hex, k: 'key-2', size: 9 },
      '{"$blob":"',
      '"}',
      '\\',
      { $sealed: 1 },
      { $blob: 'x' },
    ),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.string(), fc.constantFrom('id', 'stream', 'type', 'data', '$sealed')), tie('value'), {
      maxKeys: 4,
    }) as fc.Arbitrary<Json>,
  ),
})).value;

const time = '2026-01-02T03:04:05.678Z';
const id = '01890a5d-ac96-774b-bcce-b302099a8057';

const event = fc.record(
  {
    account: fc.oneof(fc.constant('acme'), fc.string({ minLength: 1 })),
    stream: fc.oneof(fc.constant(`invocation/${id}`), fc.string({ unit: 'binary', minLength: 1 })),
    streamVersion: fc.nat(),
    sessionId: fc.option(fc.string({ minLength: 1 }), { nil: undefined }),
    actor: fc.option(content, { nil: undefined }),
    target: fc.option(content, { nil: undefined }),
    durationMs: fc.option(fc.nat(), { nil: undefined }),
    data: fc.dictionary(fc.string(), content, { maxKeys: 5 }),
  },
  { requiredKeys: ['account', 'stream', 'streamVersion', 'data'] },
);

interface Event {
  readonly account: string;
  readonly stream: string;
  readonly streamVersion: number;
  readonly sessionId?: string | undefined;
}

const rowOf = (given: Event): EventRow => {
  const whole = { ...given, id, type: 'plugin.tried', schema: 1, recordedAt: time, occurredAt: time };
  return {
    position: 0,
    account: given.account,
    accountPosition: 0,
    stream: given.stream,
    version: given.streamVersion,
    id,
    type: 'plugin.tried',
    schema: 1,
    recordedAt: Date.parse(time),
    occurredAt: Date.parse(time),
    sessionId: given.sessionId ?? null,
    leaf: '',
    tag: '',
    prefixed: Buffer.from(`\0${canonicalJson(whole as unknown as Json)}`),
  };
};

const collect = () => {
  const found: string[] = [];
  return {
    found,
    blob: (hash: string, key: string) => found.push(`blob ${hash} ${key}`, `key ${key}`),
    key: (key: string) => found.push(`key ${key}`),
  };
};

/** What a reader that takes the event apart says. */
const slowly = (row: EventRow): { readonly fits: boolean; readonly found: readonly string[] } => {
  const text = row.prefixed.toString('utf8', 1);
  const head = readHead(text);
  const named = collect();
  findNamed(text, named);
  return { fits: head !== null && changedColumns(row, head).length === 0, found: named.found };
};

describe('the quick look at an event', () => {
  it('never finds columns right that a full reading finds wrong, and names the same blobs and keys', () => {
    fc.assert(
      fc.property(event, (given) => {
        const row = rowOf(given);
        const named = collect();
        if (!fitsColumns(row, named)) return;
        expect({ fits: true, found: named.found }).toEqual(slowly(row));
      }),
      { numRuns: 2_000 },
    );
  });

  it('is enough for every event whose ids are plain letters', () => {
    fc.assert(
      fc.property(event, fc.stringMatching(/^[a-z0-9/_.-]{1,30}$/u), (given, name) => {
        const row = rowOf({ ...(given as unknown as Event), account: name, stream: name, sessionId: name });
        const texts = Object.values<unknown>(given).filter((value) => typeof value === 'string');
        fc.pre(texts.every((text) => !/[\\"\p{Cc}\p{Cs}]/u.test(text)));
        expect(fitsColumns(row, collect())).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });

  it.each<[string, Partial<EventRow>]>([
    ['account', { account: 'acmf' }],
    ['stream', { stream: 's/2' }],
    ['version', { version: 8 }],
    ['id', { id: '01890a5d-ac96-774b-bcce-b302099a8058' }],
    ['type', { type: 'plugin.tripped' }],
    ['schema', { schema: 2 }],
    ['recorded_at', { recordedAt: Date.parse(time) + 1 }],
    ['occurred_at', { occurredAt: Date.parse(time) - 1 }],
    ['session_id', { sessionId: 'other' }],
    ['session_id that is null', { sessionId: null }],
  ])('finds another %s', (_, change) => {
    const nested = { stream: 's/2', streamVersion: 8, sessionId: 'other', account: 'acmf', type: 'plugin.tripped' };
    const row = rowOf({ account: 'acme', stream: 's/1', streamVersion: 7, sessionId: 's', data: nested } as Event);
    expect(fitsColumns(row, collect())).toBe(true);
    expect(fitsColumns({ ...row, ...change }, collect())).toBe(false);
  });

  it.each(['', '{', '{}', '{"data":{}}', '{"account":"acme","data":{', '[]', '{"data":{}}x', 'null', '{"a'])(
    'does not take %s for an event',
    (text) => {
      const row = rowOf({ account: 'acme', stream: 's', streamVersion: 1 });
      expect(fitsColumns({ ...row, prefixed: Buffer.from(`\0${text}`) }, collect())).toBe(false);
    },
  );
});
