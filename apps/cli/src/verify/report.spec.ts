import { describe, expect, it } from '@jest/globals';
import type { Fault } from '#proof';
import { reportFaults, sumLines } from './report.js';

const fault = (account: string | null, position: number | null, more: Partial<Fault> = {}): Fault => ({
  code: 'bytes-changed',
  account,
  position,
  at: 'event.bytes',
  found: 'they hash to something else',
  ...more,
});

const written = (form: 'words' | 'json', faults: readonly Fault[]): readonly string[] => {
  const lines: string[] = [];
  const report = reportFaults((line) => lines.push(line), form);
  for (const each of faults) report.add(each);
  report.end();
  return lines;
};

describe('a report of faults', () => {
  it('goes by account and position, whatever was found first', () => {
    const lines = written('words', [fault('b', 1), fault('a', 20), fault(null, null), fault('a', 3, { last: 5 })]);
    expect(lines.map((line) => line.split('  ')[0])).toEqual(['log', 'a 3–5', 'a 20', 'b 1']);
  });

  it('has each fault on a line that a terminal only shows', () => {
    const [line = ''] = written('words', [fault('a\u001b[31m', 1, { at: 'stream x\ny' })]);
    expect(line).not.toMatch(/\p{Cc}/u);
  });

  it('has positions as text in JSON, and says what the code means', () => {
    const [line = ''] = written('json', [fault('a', 3, { last: 5 })]);
    expect(JSON.parse(line)).toMatchObject({ kind: 'fault', account: 'a', position: '3', last: '5' });
    expect((JSON.parse(line) as { meaning: string }).meaning).toContain('stored bytes');
  });

  it('keeps no more than it can put in order', () => {
    const many = Array.from({ length: 10_050 }, (_, n) => fault('a', 20_000 - n));
    const lines: string[] = [];
    const report = reportFaults((line) => lines.push(line), 'words');
    for (const each of many) report.add(each);
    expect(lines).toHaveLength(10_050);
    report.end();
    expect(lines).toHaveLength(10_050);
  });

  it('ends in how many there are of which kind', () => {
    const lines = sumLines({ faults: 2, faultsByCode: { forged: 2 }, notes: ['so it is'] }, 'Checked.');
    expect(lines).toEqual([
      '',
      expect.stringMatching(/^forged {2}2 × {2}The row/u),
      '',
      'note: so it is',
      'Checked.',
      '2 faults.',
    ]);
  });
});
