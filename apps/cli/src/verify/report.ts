import type { Fault, VerifySummary } from '#proof';
import { faultMeanings } from '#proof';
import { plain } from '../words.js';

/** Takes faults as they are found, and writes them by account and position. */
export interface FaultReport {
  add(fault: Fault): void;
  /** Writes what is left. */
  end(): void;
}

/** So many are put in order; what comes beyond is written as it comes, so that a report needs no memory of its own. */
const mostSorted = 10_000;

/** Writes each fault as a line of words, or of JSON. */
export const reportFaults = (write: (line: string) => void, form: 'words' | 'json'): FaultReport => {
  const line = form === 'json' ? jsonOf : wordsOf;
  let waiting: Fault[] | null = [];
  const flush = (): void => {
    if (waiting === null) return;
    for (const fault of waiting.sort(byPlace)) write(line(fault));
    waiting = null;
  };
  return {
    add: (fault) => {
      if (waiting === null) write(line(fault));
      else if (waiting.push(fault) > mostSorted) flush();
    },
    end: flush,
  };
};

const byPlace = (one: Fault, other: Fault): number =>
  compare(one.account ?? '', other.account ?? '') || (one.position ?? -1) - (other.position ?? -1);

const compare = (one: string, other: string): number => (one === other ? 0 : one < other ? -1 : 1);

const jsonOf = ({ position, last, ...fault }: Fault): string =>
  JSON.stringify({
    kind: 'fault',
    ...fault,
    position: position === null ? null : String(position),
    ...(last === undefined ? {} : { last: String(last) }),
    meaning: faultMeanings[fault.code],
  });

const wordsOf = (fault: Fault): string => plain(`${placeOf(fault)}  ${fault.code}  ${fault.at}: ${fault.found}`);

const placeOf = ({ account, position, last }: Fault): string => {
  if (account === null) return 'log';
  if (position === null) return account;
  return last === undefined ? `${account} ${position}` : `${account} ${position}–${last}`;
};

/** The sum as a line of JSON. Positions and sizes are text, as everywhere. */
export const summaryJson = (summary: VerifySummary): string =>
  JSON.stringify({
    kind: 'summary',
    ...summary,
    accounts: summary.accounts.map(({ account, ...counts }) => ({
      account,
      ...Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, String(count)])),
    })),
  });

/** What every sum has. */
export interface Sum {
  readonly faults: number;
  readonly faultsByCode: Readonly<Record<string, number>>;
  readonly notes: readonly string[];
}

/** The sum in words: what every kind of fault means, what could not be checked, and what was. */
export const sumLines = ({ faults, faultsByCode, notes }: Sum, checked: string): readonly string[] => {
  const codes = Object.entries(faultsByCode) as [keyof typeof faultMeanings, number][];
  const widest = Math.max(0, ...codes.map(([code]) => code.length));
  const meanings = codes.map(([code, count]) => `${code.padEnd(widest)}  ${count} ×  ${faultMeanings[code]}`);
  return [
    ...(faults === 0 ? [] : ['', ...meanings, '']),
    ...notes.map((note) => `note: ${plain(note)}`),
    checked,
    faults === 0 ? 'No fault was found.' : `${number(faults)} ${faults === 1 ? 'fault' : 'faults'}.`,
  ];
};

/** What was checked of a log, in words. */
export const checkedWords = ({ events, accounts, blobs, dataKeys, outside }: VerifySummary): string => {
  const sum = (of: 'sealed' | 'checkpoints' | 'purged'): number =>
    accounts.reduce((all, account) => all + account[of], 0);
  const purged = sum('purged') === 0 ? '' : `, ${number(sum('purged'))} purged on record`;
  const lines = outside === null ? '' : `, ${number(outside.lines)} lines of the checkpoint file`;
  return (
    `Checked ${number(events)} events of ${number(accounts.length)} accounts (${number(sum('sealed'))} sealed${purged}), ` +
    `${number(sum('checkpoints'))} checkpoints, ${number(blobs)} blobs, ${number(dataKeys)} data keys${lines}.`
  );
};

const number = (count: number): string => count.toLocaleString('en-US');
