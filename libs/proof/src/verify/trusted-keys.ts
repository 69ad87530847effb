import type { NoteVerifier } from '../signed-note.js';
import { noteVerifier, publicKeyOf, rawPublicKey } from '../signed-note.js';
import type { OnFault } from './fault.js';
import type { LogKeyRow } from './source.js';

/** A public key of the log and the times it was in force, ms since 1970. */
export interface LogKey {
  readonly verifier: NoteVerifier;
  readonly validFrom: number;
  /** Null while it is in force. */
  readonly validUntil: number | null;
}

/** The keys whose signatures count. */
export interface TrustedKeys {
  readonly keys: readonly LogKey[];
  readonly verifiers: readonly NoteVerifier[];
  /** `given`: from outside of the database, so that whoever can rewrite the database cannot replace them. */
  readonly from: 'given' | 'database';
}

/** Replicas have clocks of their own, and a key that is replaced may still sign what was under way, ms. */
const toleranceMs = 60_000;

/**
 * Which keys to believe: those that were given, else the database's. Where some were given, those of the database must
 * be among them, and every one that was given and is missing there is no fault: a copy may be older.
 */
export const trustedKeys = (given: readonly LogKey[], rows: readonly LogKeyRow[], onFault: OnFault): TrustedKeys => {
  const stored = rows.flatMap((row) => storedKey(row, onFault));
  if (given.length === 0) return { keys: stored, verifiers: stored.map(({ verifier }) => verifier), from: 'database' };
  for (const { verifier } of stored) {
    const same = given.find((key) => key.verifier.id === verifier.id && key.verifier.name === verifier.name);
    const isSame = same !== undefined && rawPublicKey(same.verifier.publicKey).equals(rawPublicKey(verifier.publicKey));
    if (isSame) continue;
    const found =
      same === undefined ? 'it is not among the keys that were given' : 'another key was given under its id';
    onFault({ code: 'log-key-changed', account: null, position: null, at: `log_key ${verifier.id}`, found });
  }
  return { keys: given, verifiers: given.map(({ verifier }) => verifier), from: 'given' };
};

const storedKey = (row: LogKeyRow, onFault: OnFault): readonly LogKey[] => {
  const changed = (found: string): readonly LogKey[] => {
    onFault({ code: 'log-key-changed', account: null, position: null, at: `log_key ${row.id}`, found });
    return [];
  };
  try {
    if (row.publicKey.length !== 32) return changed('its public key is none');
    const verifier = noteVerifier(row.name, publicKeyOf(row.publicKey));
    // The id is a hash of name and key: whoever changes one of them leaves the other two behind.
    if (verifier.id !== row.id) return changed('its id is not the one of its name and public key');
    return [{ verifier, validFrom: row.validFrom ?? Infinity, validUntil: row.validUntil }];
  } catch {
    return changed('its name or public key is none');
  }
};

/** Whether a key was in force at a time. */
export const isInForce = ({ keys }: TrustedKeys, { id, name }: NoteVerifier, time: number): boolean =>
  keys.some(
    ({ verifier, validFrom, validUntil }) =>
      verifier.id === id &&
      verifier.name === name &&
      time >= validFrom - toleranceMs &&
      time <= (validUntil ?? Infinity) + toleranceMs,
  );
