import { describe, expect, it } from '@jest/globals';
import { readCaseFile } from './case-file.js';
import type { Case } from './case-file.js';
import { compareCase } from './compare.js';
import type { Observed } from './compare.js';
import { checkContexts, reportOf, runCases } from './run-cases.js';

const raw = {
  id: 'C-1',
  hook: 'userMessageInbound',
  title: 'a title',
  rules: ['MW-1'],
  chain: [{ plugin: 'p', code: '1', lang: 'ts' }],
  context: { text: 'x' },
  expected: {
    outcome: 'passed',
    value: 'x',
    warnings: [{ plugin: 'p', code: 'handler_timeout', detail: 'sync' }],
    events: ['invocation.opened', 'invocation.closed'],
    meteredHandlers: 1,
  },
};
const fileOf = (...cases: object[]) => JSON.stringify({ about: { formatVersion: 1 }, cases });
const read = (one: object): Case => {
  const file = readCaseFile(fileOf(one));
  const [first] = file.kind === 'cases' ? file.cases : [];
  if (first === undefined) throw new Error('the file was refused');
  return first;
};
const seen: Observed = {
  outcome: 'passed',
  value: 'x',
  cancelReason: null,
  warnings: [{ plugin: 'p', code: 'handler_timeout', detail: 'sync' }],
  events: [
    'plugin.installed',
    'invocation.opened',
    'handler.started',
    'host.answered',
    'handler.not_run',
    'invocation.closed',
  ],
  hop: 0,
  meteredHandlers: 1,
  totals: { firings: 1 },
};
const fields = (one: object, observed: Partial<Observed> = {}) =>
  compareCase(read(one), { ...seen, ...observed }).map(({ field }) => field);
const expecting = (more: object) => ({ ...raw, expected: { ...raw.expected, ...more } });

describe('a case file', () => {
  it('is read with what a case leaves out filled in', () => {
    expect(read(raw)).toMatchObject({
      chain: [{ lang: 'typescript' }],
      given: { hop: 0, gate: null, revoked: [], operations: null, host: { agents: [], ssh: [] } },
      expected: { compare: {} },
    });
    expect(read({ ...raw, given: { operations: [{ turn: 1, host: '101' }] } }).given.operations).toEqual([
      { turn: '1', host: '101' },
    ]);
  });

  it.each([
    ['no JSON', '{'],
    ['another format', JSON.stringify({ about: { formatVersion: 2 }, cases: [] })],
    ['no list', JSON.stringify({ about: { formatVersion: 1 } })],
    ['a case without a hook', fileOf({ ...raw, hook: undefined })],
    ['a case without expectations', fileOf({ ...raw, expected: undefined })],
    ['a chain of something else', fileOf({ ...raw, chain: [{ plugin: 'p' }] })],
  ])('is refused: %s', (_, text) => {
    expect(readCaseFile(text).kind).toBe('refused');
  });
});

describe('comparing', () => {
  it('leaves out the events that the format leaves out', () => {
    expect(fields(raw)).toEqual([]);
  });

  it.each<[string, Partial<Observed>]>([
    ['outcome', { outcome: 'rewritten' }],
    ['value', { value: 'y' }],
    ['value', { value: null }],
    ['cancelReason', { cancelReason: 'no' }],
    ['warnings', { warnings: [] }],
    ['warnings', { warnings: [{ plugin: 'q', code: 'handler_timeout', detail: 'sync' }] }],
    ['warnings', { warnings: [{ plugin: 'p', code: 'handler_threw', detail: 'sync' }] }],
    ['warnings', { warnings: [{ plugin: 'p', code: 'handler_timeout', detail: 'async' }] }],
    ['warnings', { warnings: [...seen.warnings, ...seen.warnings] }],
    ['events', { events: ['invocation.opened'] }],
    ['events', { events: [...seen.events, 'session.cleared'] }],
    ['meteredHandlers', { meteredHandlers: 2 }],
  ])('finds a wrong %s', (field, observed) => {
    expect(fields(raw, observed)).toEqual([field]);
  });

  it('compares hop and totals where a case names them', () => {
    expect(fields(expecting({ hop: 5 }))).toEqual(['hop']);
    expect(fields(expecting({ totals: { firings: 1, maxHop: 5 } }))).toEqual(['totals.maxHop']);
  });

  it('compares the reason of a cancel', () => {
    const one = expecting({ outcome: 'cancelled', value: null, cancelReason: 'no' });
    expect(fields(one, { outcome: 'cancelled', value: null, cancelReason: 'no' })).toEqual([]);
    expect(fields(one, { outcome: 'cancelled', value: null, cancelReason: null })).toEqual(['cancelReason']);
  });

  it('takes observed for passed on a hook without a field only', () => {
    expect(fields(expecting({ value: null }), { outcome: 'observed', value: null })).toEqual([]);
    expect(fields(raw, { outcome: 'observed' })).toEqual(['outcome']);
  });

  it('follows what a case says about comparing', () => {
    const observed = { warnings: [{ plugin: 'p', code: 'handler_timeout', detail: 'async' }] };
    expect(fields(expecting({ compare: { warningDetail: false } }), observed)).toEqual([]);
    const any = expecting({ compare: { anyOf: ['handler_timeout', 'handler_crashed'], warningDetail: false } });
    expect(fields(any, { warnings: [{ plugin: 'p', code: 'handler_crashed' }] })).toEqual([]);
    expect(fields(any, { warnings: [{ plugin: 'p', code: 'handler_threw' }] })).toEqual(['warnings']);
    expect(fields(expecting({ compare: { valueMatches: '^x+$' } }), { value: 'xxx' })).toEqual([]);
    expect(fields(expecting({ compare: { valueMatches: '^x+$' } }), { value: 'y' })).toEqual(['value']);
  });

  it('takes a warning without a detail as saying nothing about it', () => {
    expect(fields(expecting({ warnings: [{ plugin: 'p', code: 'handler_timeout' }] }))).toEqual([]);
  });
});

describe('running', () => {
  const driver = (observed: (one: Case) => Promise<Observed>) => ({
    run: observed,
    contextKeys: () => Promise.resolve(['sessionId', 'texts']),
  });

  it('gives results in the order of the file, names failures with both sides, and sums up', async () => {
    const cases = [read(raw), read({ ...raw, id: 'C-2' }), read({ ...raw, id: 'C-3' })];
    const results = await runCases(
      cases,
      driver(({ id }) =>
        id === 'C-3'
          ? Promise.reject(new Error('no sandbox'))
          : Promise.resolve(id === 'C-2' ? { ...seen, value: 'z' } : seen),
      ),
      2,
    );
    expect(results.map(({ name }) => name)).toEqual(['C-1', 'C-2', 'C-3']);
    const { passed, failed, lines } = reportOf(results);
    expect([passed, failed]).toEqual([1, 2]);
    expect(lines).toEqual([
      'FAILED C-2 a title',
      '  value',
      '    expected "x"',
      '    actual   "z"',
      'FAILED C-3 a title',
      '  run',
      '    expected "the case runs"',
      '    actual   "no sandbox"',
      '1 passed, 2 failed',
    ]);
  });

  it.each([{ weather: 'rain' }, { host: { teleport: 1 } }])(
    'fails a case whose world nobody can make: %j',
    async (given) => {
      const [result] = await runCases(
        [read({ ...raw, given })],
        driver(() => Promise.resolve(seen)),
        1,
      );
      expect(result?.mismatches.map(({ field }) => field)).toEqual(['run']);
    },
  );

  it('checks that handlers see the documented keys and no others', async () => {
    const todo = read({ ...raw, hook: 'todoAdded' });
    const timer = read({ ...raw, hook: 'notifyDelivered' });
    const results = await checkContexts(
      [todo, todo, timer],
      driver(() => Promise.resolve(seen)),
    );
    expect(results.map(({ name, mismatches }) => [name, mismatches.length])).toEqual([
      ['context keys of todoAdded', 0],
      ['context keys of notifyDelivered', 1],
    ]);
  });
});
