import { readRoundLine } from '../sealing-round.js';
import type { OutsideRoot } from './account-walk.js';
import { placeOf } from './checkpoint-check.js';
import type { FaultCode, OnFault } from './fault.js';
import { hashAt } from './hashes.js';
import type { LogSource } from './source.js';
import type { TrustedKeys } from './trusted-keys.js';
import { isInForce } from './trusted-keys.js';

/** What the checkpoint file says, once read. */
export interface OutsideFindings {
  readonly lines: number;
  /** When the newest line was signed; null without one. */
  readonly newest: string | null;
  /** The log that it is of. */
  readonly logId: string | null;
  /** What the walk over an account has to come to, by size: the newest root, and older ones the database lacks. */
  readonly roots: ReadonlyMap<string, readonly OutsideRoot[]>;
  /** The last line has no end: its writer was cut off. */
  readonly isCutOff: boolean;
}

/** A line of the file; `ends` tells whether a newline follows. */
export interface OutsideLine {
  readonly text: string;
  readonly ends: boolean;
}

interface Asked extends OutsideRoot {
  readonly account: string;
}

interface ReadState {
  readonly newest: Map<string, OutsideRoot>;
  readonly lacking: Map<string, OutsideRoot[]>;
  readonly asked: Asked[];
  lines: number;
  at: string | null;
  logId: string | null;
  isCutOff: boolean;
}

const askAt = 1_000;

/**
 * Reads the checkpoint file from its beginning: every line signed, none that contradicts the one before, and all of
 * them known to the database. Memory grows with the number of accounts only.
 */
export const readOutside = async (
  lines: AsyncIterable<OutsideLine>,
  source: Pick<LogSource, 'checkpointRoots'>,
  keys: TrustedKeys,
  onFault: OnFault,
): Promise<OutsideFindings> => {
  const state: ReadState = {
    newest: new Map(),
    lacking: new Map(),
    asked: [],
    lines: 0,
    at: null,
    logId: null,
    isCutOff: false,
  };
  for await (const line of lines) {
    state.lines += 1;
    readLine(state, line, keys, onFault);
    if (state.asked.length >= askAt) await ask(state, source, onFault);
  }
  await ask(state, source, onFault);
  const roots = new Map<string, readonly OutsideRoot[]>();
  for (const [account, newest] of state.newest) {
    const older = (state.lacking.get(account) ?? []).filter(({ size }) => size < newest.size);
    roots.set(account, [...older.sort((one, other) => one.size - other.size), newest]);
  }
  const { lines: count, at, logId, isCutOff } = state;
  return { lines: count, newest: at, logId, roots, isCutOff };
};

const readLine = (state: ReadState, line: OutsideLine, keys: TrustedKeys, onFault: OnFault): void => {
  const report = (
    code: FaultCode,
    found: string,
    account: string | null = null,
    position: number | null = null,
  ): void => onFault({ code, account, position, at: `checkpoints.jsonl line ${state.lines}`, found });
  const read = readRoundLine(line.text, keys.verifiers);
  if (read.kind === 'malformed') {
    if (line.ends) report('outside-unreadable', 'it is no line of a sealer');
    else state.isCutOff = true;
    return;
  }
  if (read.kind === 'unknown') return report('outside-unsigned', 'no known key signed it');
  if (read.kind === 'forged') return report('outside-unsigned', `it is not what key ${read.by.id} signed`);
  const { round, by } = read;
  if (!isInForce(keys, by, Date.parse(round.at)))
    report('checkpoint-key', `key ${by.id} was not in force at ${round.at}`);
  if (state.logId !== null && state.logId !== round.log)
    report('outside-shrinks', `it is of another log, ${round.log}`);
  if (state.at !== null && round.at < state.at) report('outside-shrinks', `its time ${round.at} is before ${state.at}`);
  state.logId ??= round.log;
  state.at = round.at;
  const named = new Set<string>();
  for (const { account, size: given, root: bytes } of round.accounts) {
    named.add(account);
    const [size, root] = [Number(given), hashAt(Buffer.from(bytes))];
    const before = state.newest.get(account);
    if (before !== undefined && size < before.size) {
      report('outside-shrinks', `the account has ${size} events, and had ${before.size}`, account, placeOf(size));
      continue;
    }
    if (before?.size === size) {
      if (before.root !== root) report('outside-shrinks', `the root of ${size} events changed`, account, placeOf(size));
      continue;
    }
    state.newest.set(account, { size, root, at: round.at });
    if (size > 0) state.asked.push({ account, size, root, at: round.at });
  }
  if (named.size === state.newest.size) return;
  for (const account of state.newest.keys()) {
    if (!named.has(account)) report('outside-shrinks', 'the account is not in it any more', account);
  }
};

/** What the database has of what the file says. What it lacks, the events themselves have to show. */
const ask = async (state: ReadState, source: Pick<LogSource, 'checkpointRoots'>, onFault: OnFault): Promise<void> => {
  const asked = state.asked.splice(0);
  if (asked.length === 0) return;
  const roots = await source.checkpointRoots(asked);
  asked.forEach(({ account, size, root, at }, index) => {
    const found = roots[index] ?? null;
    if (found === null) {
      const lacking = state.lacking.get(account) ?? [];
      lacking.push({ size, root, at });
      state.lacking.set(account, lacking);
    } else if (hashAt(found) !== root) {
      const words = `the database has another root for the checkpoint of size ${size} that was signed at ${at}`;
      onFault({ code: 'outside-differs', account, position: placeOf(size), at: 'checkpoint', found: words });
    }
  });
};
