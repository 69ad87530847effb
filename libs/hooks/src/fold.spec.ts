import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { foldField, foldFields } from './fold.js';
import type { FieldRule } from './fold.js';

const from = (...values: unknown[]) => values.map((value, index) => ({ pluginId: `p${String(index)}`, value }));
const fold = (rule: FieldRule, ...values: unknown[]) =>
  foldField('f', rule, from(...values.map((value) => ({ f: value }))));

describe('folding one field', () => {
  it('first and last: undefined and null say nothing', () => {
    expect(fold({ rule: 'first' }, undefined, null, 1, 2)).toBe(1);
    expect(fold({ rule: 'last' }, 1, 2, null, undefined)).toBe(2);
    expect(fold({ rule: 'last' })).toBeUndefined();
  });

  it('sticky needs the boolean true, or anything truthy, as its hook says', () => {
    expect(fold({ rule: 'sticky', on: 'true' }, 'yes', 1)).toBe(false);
    expect(fold({ rule: 'sticky', on: 'truthy' }, 'yes', false)).toBe(true);
    expect(fold({ rule: 'sticky', on: 'true' }, true, false)).toBe(true);
  });

  it('join: a later empty text erases what was gathered (openclaw), or adds nothing (kohaku)', () => {
    const erases: FieldRule = { rule: 'join', separator: '\n\n', empty: 'erases' };
    expect(fold(erases, 'a', 'b')).toBe('a\n\nb');
    expect(fold(erases, 'a', '', 'c')).toBe('c');
    expect(fold(erases, 'a', '')).toBe('');
    expect(fold({ ...erases, empty: 'skips' }, 'a', '', 'c')).toBe('a\n\nc');
  });

  it('overlay: later keys win, `__proto__` is an ordinary key', () => {
    const over = fold({ rule: 'overlay' }, { A: '1', B: '1' }, JSON.parse('{"B":"2","__proto__":"x"}'), 'no', [1]);
    expect(Object.entries(over as object)).toEqual([
      ['A', '1'],
      ['B', '2'],
      ['__proto__', 'x'],
    ]);
  });

  it('intersect: no opinion changes nothing, an empty list hides everything, what is no list allows nothing', () => {
    const rule: FieldRule = { rule: 'intersect' };
    expect(fold(rule, null, undefined)).toBeUndefined();
    expect(fold(rule, ['a', 'b', 'c'], null, ['c', 'b', 'x'])).toEqual(['b', 'c']);
    expect(fold(rule, ['a'], [])).toEqual([]);
    expect(fold(rule, ['a'], 'a')).toEqual([]);
    expect(fold(rule, [1], ['a'])).toEqual([]);
  });

  it('append and collect keep chain order', () => {
    expect(fold({ rule: 'append' }, [1], 'x', [2, 3])).toEqual([1, 2, 3]);
    expect(fold({ rule: 'collect' }, 'a', null, 'b')).toEqual(['a', 'b']);
    expect(fold({ rule: 'collect' })).toBeUndefined();
  });
});

describe('folding before_agent_finalize (openclaw §12)', () => {
  const order = ['finalize', 'revise', 'continue'];
  const rules = {
    action: { rule: 'rank', order },
    reason: {
      rule: 'of-winner',
      field: 'action',
      order,
      each: {
        finalize: { rule: 'first' },
        revise: { rule: 'join', separator: '\n\n', empty: 'skips' },
        continue: { rule: 'last' },
      },
    },
    retry: { rule: 'of-winner', field: 'action', order, each: { revise: { rule: 'collect' } } },
  } as const;
  const words = [
    { action: 'continue', reason: 'c' },
    { action: 'revise', reason: 'r1', retry: { instruction: '1' } },
    { action: 'revise', reason: 'r2', retry: { instruction: '2' } },
  ];

  it('joins the reasons of several revise and collects their retries', () => {
    expect(foldFields(rules, null, from(...words))).toEqual({
      action: 'revise',
      reason: 'r1\n\nr2',
      retry: [{ instruction: '1' }, { instruction: '2' }],
    });
  });

  it('finalize beats them in any order and keeps its own reason', () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([...words, { action: 'finalize', reason: 'f' }], { minLength: 4 }), (all) => {
        expect(foldFields(rules, null, from(...all))).toEqual({ action: 'finalize', reason: 'f' });
      }),
    );
  });
});

describe('folding whole results', () => {
  it('reads own keys only and drops what no rule names', () => {
    const inherited = Object.create({ f: 'inherited' }) as object;
    expect(foldFields({ f: { rule: 'last' } }, null, from(inherited, 'text', 5, true, [1], null))).toEqual({});
    expect(foldFields({ f: { rule: 'last' } }, null, from({ f: 1, g: 2 }))).toEqual({ f: 1 });
  });

  it('folds unnamed fields by the rule for others (resolve_exec_env)', () => {
    expect(foldFields({}, { rule: 'last' }, from({ A: '1' }, { A: '2', B: '3' }))).toEqual({ A: '2', B: '3' });
  });

  it('never throws and never reaches a prototype, whatever was contributed', () => {
    fc.assert(
      fc.property(fc.array(fc.anything({ withNullPrototype: true, withBigInt: true })), (values) => {
        const folded = foldFields({ a: { rule: 'overlay' } }, { rule: 'last' }, from(...values));
        expect(Object.getPrototypeOf(folded)).toBeNull();
        expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
      }),
    );
  });
});
