import { createDecipheriv, createPrivateKey, createPublicKey, hkdfSync } from 'node:crypto';
import type { NoteVerifier } from '../signed-note.js';
import { noteVerifier, publicKeyOf, rawPublicKey, readVerifierKey } from '../signed-note.js';
import type { EventHead } from './columns.js';
import type { OnFault } from './fault.js';
import type { LogKeyRow } from './source.js';

/** A public key of the log and the times it was in force, ms since 1970. */
export interface LogKey {
  readonly verifier: NoteVerifier;
  readonly validFrom: number;
  /** Null while it is in force. */
  readonly validUntil: number | null;
}

/** A key as the `log_key.rotated` event says it that put it in force. */
export interface RecordedKey extends LogKey {
  /** Position of the event in account `system`. */
  readonly position: number;
}

/** The keys whose signatures count. */
export interface TrustedKeys {
  readonly keys: readonly LogKey[];
  readonly verifiers: readonly NoteVerifier[];
  /** `given`: from outside of the database, so that whoever can rewrite all of it cannot replace them. */
  readonly from: 'given' | 'record';
  /** Ids of keys that came into force after those that were given: the tags of their events vouch for them. */
  readonly newer: readonly string[];
}

/** What there is to find out whom to believe. */
export interface KeyWitnesses {
  readonly given: readonly LogKey[];
  readonly recorded: readonly RecordedKey[];
  readonly rows: readonly LogKeyRow[];
  readonly logId: string | null;
  /** Null without the master key. */
  readonly rootSecret: Uint8Array | null;
  readonly onFault: OnFault;
}

/** Replicas have clocks of their own, ms. */
const toleranceMs = 60_000;

/** The key that an event puts in force at a time, and the one that it ends; null where it names none. */
export const recordedKeyOf = (head: EventHead, position: number, time: number): RecordedKey | null => {
  const { to, publicKey } = head.data as { to?: unknown; publicKey?: unknown };
  const verifier = typeof publicKey === 'string' ? readVerifierKey(publicKey) : null;
  if (verifier === null || verifier.id !== to) return null;
  return { verifier, validFrom: time, validUntil: null, position };
};

/**
 * Which keys to believe: those that were given, else those that the log's own events put in force. The table of keys
 * only repeats them, and must do so.
 */
export const trustedKeys = (witnesses: KeyWitnesses): TrustedKeys => {
  const { given, recorded } = witnesses;
  checkRows(witnesses);
  if (given.length === 0) return { keys: recorded, verifiers: recorded.map(verifierOf), from: 'record', newer: [] };
  const latest = Math.max(...given.map(({ validFrom }) => validFrom));
  const newer: RecordedKey[] = [];
  for (const key of recorded) {
    if (given.some(({ verifier }) => isSame(verifier, key.verifier))) continue;
    // The tag of the event that put it in force is checked with all others, under a key that no database holds.
    if (key.validFrom > latest && witnesses.rootSecret !== null) newer.push(key);
    else keyFault(witnesses, key.verifier.id, key.position, 'it is on record, and not among the keys that were given');
  }
  const keys = [...given, ...newer];
  return { keys, verifiers: keys.map(verifierOf), from: 'given', newer: newer.map(({ verifier }) => verifier.id) };
};

const checkRows = (witnesses: KeyWitnesses): void => {
  const { recorded, rows } = witnesses;
  for (const { verifier, position } of recorded) {
    if (!rows.some(({ id }) => id === verifier.id)) keyFault(witnesses, verifier.id, position, 'there is no row of it');
  }
  for (const row of rows) {
    const record = recorded.find(({ verifier }) => verifier.id === row.id);
    const found = rowDiffers(row, record, witnesses);
    if (found !== null) keyFault(witnesses, row.id, record?.position ?? null, found);
  }
};

/** What is wrong with a row of `log_key`; null for nothing. */
const rowDiffers = (row: LogKeyRow, record: RecordedKey | undefined, witnesses: KeyWitnesses): string | null => {
  const verifier = verifierOfRow(row);
  // The id is a hash of name and key: whoever changes one of them leaves the other two behind.
  if (verifier?.id !== row.id) return 'its id is not the one of its name and public key';
  if (record === undefined) {
    return row.validFrom === null ? wrappedDiffers(row, witnesses) : 'no event put it in force, and its row says so';
  }
  if (!isSame(verifier, record.verifier)) return 'its row has another public key than its event';
  if (row.validFrom !== record.validFrom || row.validUntil !== record.validUntil) {
    return 'its row has other times in force than the events';
  }
  if (row.validUntil !== null && row.wrapped !== null) return 'it is out of force, and its private part is there again';
  return wrappedDiffers(row, witnesses);
};

/** Whether the private part that a row holds is the one of its public key. */
const wrappedDiffers = ({ id, wrapped, publicKey }: LogKeyRow, { rootSecret, logId }: KeyWitnesses): string | null => {
  if (wrapped === null || rootSecret === null || logId === null) return null;
  try {
    const key = hkdfSync('sha256', rootSecret, Buffer.alloc(0), 'hookledger/log-key/v1', 32);
    const decipher = createDecipheriv('aes-256-gcm', Buffer.from(key), wrapped.subarray(0, 12), { authTagLength: 16 });
    decipher.setAAD(Buffer.from(`log key ${logId} ${id}`));
    decipher.setAuthTag(wrapped.subarray(-16));
    const der = Buffer.concat([decipher.update(wrapped.subarray(12, -16)), decipher.final()]);
    const found = rawPublicKey(createPublicKey(createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })));
    return found.equals(publicKey) ? null : 'its private part is of another key';
  } catch {
    return 'its private part does not open under the master key';
  }
};

const verifierOfRow = ({ name, publicKey }: LogKeyRow): NoteVerifier | null => {
  try {
    return publicKey.length === 32 ? noteVerifier(name, publicKeyOf(publicKey)) : null;
  } catch {
    return null;
  }
};

const verifierOf = ({ verifier }: LogKey): NoteVerifier => verifier;

const isSame = (one: NoteVerifier, other: NoteVerifier): boolean =>
  one.id === other.id && one.name === other.name && rawPublicKey(one.publicKey).equals(rawPublicKey(other.publicKey));

const keyFault = ({ onFault }: KeyWitnesses, id: string, position: number | null, found: string): void =>
  onFault({ code: 'log-key-changed', account: 'system', position, at: `log_key ${id}`, found });

/** Whether a key was in force at a time. */
export const isInForce = ({ keys }: TrustedKeys, { id, name }: NoteVerifier, time: number): boolean =>
  keys.some(
    ({ verifier, validFrom, validUntil }) =>
      verifier.id === id &&
      verifier.name === name &&
      time >= validFrom - toleranceMs &&
      time <= (validUntil ?? Infinity) + toleranceMs,
  );
