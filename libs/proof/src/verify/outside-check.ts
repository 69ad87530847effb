import { readRoundLine } from '../sealing-round.js';
import type { OutsideRoot } from './account-walk.js';
import { placeOf } from './checkpoint-check.js';
import type { FaultCode, OnFault } from './fault.js';
import { hashAt } from './hashes.js';
import type { LogSource } from './source.js';
import type { LogKey, TrustedKeys } from './trusted-keys.js';
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
  /** Lines whose writer was interrupted: they stay as nothing that can be read. */
  readonly cutOff: number;
}

/** What a checkpoint file alone says. */
export interface CheckpointFileSummary {
  readonly faults: number;
  readonly lines: number;
  readonly newest: string | null;
  readonly logId: string | null;
  readonly cutOff: number;
  /** The newest size of each account. */
  readonly accounts: readonly { readonly account: string; readonly size: number }[];
}

/** Verifies a checkpoint file by itself: every line signed by one of the keys, and none that contradicts another. */
export const verifyCheckpointFile = async (
  lines: AsyncIterable<OutsideLine>,
  logKeys: readonly LogKey[],
  onFault: OnFault,
): Promise<CheckpointFileSummary> => {
  let faults = 0;
  const count: OnFault = (fault) => {
    faults += 1;
    onFault(fault);
  };
  const keys = { keys: logKeys, verifiers: logKeys.map(({ verifier }) => verifier), from: 'given', newer: [] } as const;
  const { roots, ...found } = await readOutside(lines, null, keys, count);
  const accounts = [...roots].map(([account, known]) => ({ account, size: known.at(-1)?.size ?? 0 }));
  return { faults, ...found, accounts };
};

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
  /** Accounts of which it was said already that they shrank or vanished: every later line would say so again. */
  readonly told: Set<string>;
  lines: number;
  at: string | null;
  logId: string | null;
  cutOff: number;
}

const askAt = 1_000;

/**
 * Reads the checkpoint file from its beginning: every line signed, none that contradicts the one before, and all of
 * them known to the database, where there is one. Memory grows with the number of accounts only.
 */
export const readOutside = async (
  lines: AsyncIterable<OutsideLine>,
  source: Pick<LogSource, 'checkpointRoots'> | null,
  keys: TrustedKeys,
  onFault: OnFault,
): Promise<OutsideFindings> => {
  const state: ReadState = {
    newest: new Map(),
    lacking: new Map(),
    asked: [],
    told: new Set(),
    lines: 0,
    at: null,
    logId: null,
    cutOff: 0,
  };
  for await (const line of lines) {
    state.lines += 1;
    readLine(state, line, keys, onFault);
    if (state.asked.length >= askAt) await ask(state, source, onFault);
  }
  await ask(state, source, onFault);
  const roots = new Map<string, readonly OutsideRoot[]>();
  for (const [account, newest] of state.newest) {
    const lacking = state.lacking.get(account) ?? [];
    const isLacking = lacking.some(({ size }) => size === newest.size);
    const older = isLacking ? lacking : [...lacking, newest];
    roots.set(
      account,
      older.sort((one, other) => one.size - other.size),
    );
  }
  const { lines: count, at, logId, cutOff } = state;
  return { lines: count, newest: at, logId, roots, cutOff };
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
    // A line that was begun and not ended is what a writer leaves that is killed; the next begins a line of its own.
    if (line.text.startsWith('{') && !line.text.endsWith('}')) state.cutOff += 1;
    else report('outside-unreadable', 'it is no line of a sealer');
    return;
  }
  if (read.kind !== 'signed') {
    const found = read.kind === 'unknown' ? 'no known key signed it' : `it is not what key ${read.by.id} signed`;
    report('outside-unsigned', found);
    return;
  }
  const { round, by } = read;
  const time = Date.parse(round.at);
  if (!isInForce(keys, by, time)) report('checkpoint-key', `key ${by.id} was not in force at ${round.at}`);
  if (state.logId !== null && state.logId !== round.log) {
    report('outside-unreadable', `it is of another log, ${round.log}`);
    return;
  }
  state.logId ??= round.log;
  if (state.at === null || round.at > state.at) state.at = round.at;
  /** Two writers may put their lines down in the other order: only one that comes much later must not say less. */
  const isLater = ({ at }: OutsideRoot): boolean => time > Date.parse(at) + toleranceMs;
  const tellOnce = (account: string, found: string, size: number): void => {
    if (!state.told.has(account)) report('outside-shrinks', found, account, placeOf(size));
    state.told.add(account);
  };
  const named = new Set<string>();
  for (const { account, size: given, root: bytes } of round.accounts) {
    named.add(account);
    const [size, root] = [Number(given), hashAt(Buffer.from(bytes))];
    const before = state.newest.get(account);
    if (before?.size === size) {
      if (before.root !== root) tellOnce(account, `the root of ${size} events changed`, size);
      continue;
    }
    if (size > 0) state.asked.push({ account, size, root, at: round.at, isStored: false });
    if (before === undefined || size > before.size) {
      state.newest.set(account, { size, root, at: round.at, isStored: true });
    }
    if (before !== undefined && size < before.size && isLater(before))
      tellOnce(account, `the account has ${size} events, and had ${before.size}`, size);
  }
  if (named.size === state.newest.size) return;
  for (const [account, before] of state.newest) {
    if (!named.has(account) && isLater(before)) tellOnce(account, 'the account is not in it any more', 0);
  }
};

/** Clocks of replicas differ, and a line is put down after its round, ms. */
const toleranceMs = 60_000;

/** What the database has of what the file says. What it lacks, the events themselves have to show. */
const ask = async (
  state: ReadState,
  source: Pick<LogSource, 'checkpointRoots'> | null,
  onFault: OnFault,
): Promise<void> => {
  const asked = state.asked.splice(0);
  if (asked.length === 0 || source === null) return;
  const roots = await source.checkpointRoots(asked);
  asked.forEach(({ account, size, root, at }, index) => {
    const found = roots[index] ?? null;
    if (found === null) {
      const lacking = state.lacking.get(account) ?? [];
      lacking.push({ size, root, at, isStored: false });
      state.lacking.set(account, lacking);
    } else if (hashAt(found) !== root) {
      const words = `the database has another root for the checkpoint of size ${size} that was signed at ${at}`;
      onFault({ code: 'outside-differs', account, position: placeOf(size), at: 'checkpoint', found: words });
    }
  });
};
