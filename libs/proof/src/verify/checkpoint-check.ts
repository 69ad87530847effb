import { openCheckpoint, originOf } from '../checkpoint.js';
import type { FaultCode, OnFault } from './fault.js';
import { hashAt } from './hashes.js';
import type { CheckpointRow, Hash } from './source.js';
import type { TrustedKeys } from './trusted-keys.js';
import { isInForce } from './trusted-keys.js';

/** What to hold a checkpoint against. */
export interface CheckpointRules {
  readonly account: string;
  /** Null where nothing says the log's id: then the note's own is taken. */
  readonly logId: string | null;
  readonly keys: TrustedKeys;
  readonly onFault: OnFault;
}

/** The place that faults of a checkpoint are reported at: the last event that it covers. */
export const placeOf = (size: number): number | null => (size > 0 ? size - 1 : null);

/** Checks a checkpoint by itself. Answers with the root that a known key signed for this size; null without one. */
export const signedRootOf = (row: CheckpointRow, rules: CheckpointRules): Hash | null => {
  const report = (code: FaultCode, found: string): null => {
    const at = `checkpoint of size ${row.size}`;
    rules.onFault({ code, account: rules.account, position: placeOf(row.size), at, found });
    return null;
  };
  const opened = openCheckpoint(row.note, rules.keys.verifiers);
  if (opened.kind === 'malformed') return report('checkpoint-unreadable', 'its note is no checkpoint');
  if (opened.kind === 'unknown') return report('checkpoint-unsigned', 'no known key signed its note');
  if (opened.kind === 'forged') {
    return report('checkpoint-unsigned', `its note is not what key ${opened.by.id} signed`);
  }
  const { checkpoint, by } = opened;
  if (!isOriginOf(checkpoint.origin, rules)) {
    return report('checkpoint-unreadable', `its note is of another log or account (${checkpoint.origin})`);
  }
  if (row.keyId !== null && !by.some(({ id }) => id === row.keyId))
    report('checkpoint-changed', `key ${row.keyId} did not sign its note`);
  if (!by.some((key) => isInForce(rules.keys, key, row.signedAt))) {
    const keys = by.map(({ id }) => id).join(', ');
    report('checkpoint-key', `key ${keys} was not in force at ${timeText(row.signedAt)}`);
  }
  const root = hashAt(Buffer.from(checkpoint.root));
  if (Number(checkpoint.size) !== row.size) {
    return report('checkpoint-changed', `its note is of size ${checkpoint.size}`);
  }
  if (row.root.length !== 32 || root !== hashAt(row.root)) report('checkpoint-changed', 'its note has another root');
  return root;
};

const isOriginOf = (origin: string, { account, logId }: CheckpointRules): boolean => {
  if (logId !== null) return origin === originOf(logId, account);
  return origin.startsWith('hookledger/') && origin.endsWith(`/${encodeURIComponent(account)}`);
};

const timeText = (time: number): string => {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? 'no time' : date.toISOString();
};
