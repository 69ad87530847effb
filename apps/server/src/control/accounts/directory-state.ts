import type { Role } from '#platform';
import type { EventType, JsonObject, RecordedEvent, Sealed } from '#record';
import type { Settings } from './settings.js';
import { defaultSettings } from './settings.js';

/** Holds instance, operator and cross-account events; exists without being made. */
export const systemAccount = 'system';

/** Stream of settings and halts of an account. */
export const accountStream = 'account';
/** Stream, in `system`, of an account's own being. */
export const accountBirthStream = (id: string): string => `account/${id}`;
export const keyStream = (id: string): string => `key/${id}`;
export const secretStream = (name: string): string => `secret/${name}`;
/** Stream, in `system`, of the operator key that a start made or was given: one at a time. */
export const operatorKeyStream = 'operator-key';

/** A key as the log knows it. Its secret is nowhere. */
export interface KeyFacts {
  readonly id: string;
  readonly account: string;
  readonly role: Role;
  readonly name: string;
  readonly content: 'full' | 'none';
  readonly hash: string;
  readonly expiresAt: string | null;
  readonly createdAt: string;
  readonly revokedAt: string | null;
}

export interface SecretFacts {
  readonly name: string;
  /** HMAC of the value under a key of the account's. */
  readonly digest: string;
  /** Which row of `secret_value` holds the value. */
  readonly valueId: string;
  readonly version: number;
  readonly setAt: string;
}

export interface HaltFacts {
  readonly failureMode: 'open' | 'closed';
  readonly until: string | null;
  readonly reason: Sealed | null;
  readonly since: string;
}

/** An account as its events say it. */
export interface AccountFacts {
  readonly id: string;
  readonly name: string;
  readonly createdAt: string;
  /** Number of events on the stream `account` of its own log: what a change is decided on. */
  readonly streamVersion: number;
  readonly settings: Settings;
  readonly settingsVersion: number;
  readonly halt: HaltFacts | null;
  readonly secrets: ReadonlyMap<string, SecretFacts>;
  readonly keys: ReadonlyMap<string, KeyFacts>;
}

/** `data` of the events of an account. Reading them trusts the log, which takes only what this program wrote. */
export interface AccountCreated {
  readonly id: string;
  readonly name: string;
}
export interface KeyCreated {
  readonly id: string;
  readonly role: Role;
  readonly name: string;
  readonly content: 'full' | 'none';
  readonly expiresAt: string | null;
  readonly hash: string;
}
export interface KeyRevoked {
  readonly id: string;
  readonly role: Role;
  readonly name: string;
}
export interface SecretSet {
  readonly name: string;
  readonly digest: string;
  readonly valueId: string;
}
export interface AccountHalted {
  readonly failureMode: 'open' | 'closed';
  readonly until: string | null;
  readonly reason: Sealed | null;
}

/** The events that the directory follows. */
export const directoryTypes: readonly EventType[] = [
  'account.created',
  'settings.changed',
  'secret.set',
  'account.halted',
  'account.resumed',
  'key.created',
  'key.revoked',
  // Nothing of it is kept here: every replica sees by it that its sealing must forget keys.
  'payload.erased',
];

/** An account nobody has said anything about yet. */
export const newAccount = (id: string, name: string, createdAt: string): AccountFacts => ({
  id,
  name,
  createdAt,
  streamVersion: 0,
  settings: defaultSettings,
  settingsVersion: 0,
  halt: null,
  secrets: new Map(),
  keys: new Map(),
});

/** The account after one of its events. */
export const evolveAccount = (account: AccountFacts, event: RecordedEvent): AccountFacts => {
  const stream = event.stream === accountStream ? { streamVersion: event.streamVersion } : {};
  switch (event.type) {
    case 'settings.changed':
      return { ...account, ...stream, settings: settingsIn(event.data), settingsVersion: account.settingsVersion + 1 };
    case 'account.halted':
      return { ...account, ...stream, halt: haltIn(event) };
    case 'account.resumed':
      return { ...account, ...stream, halt: null };
    case 'secret.set':
      return { ...account, secrets: withSecret(account.secrets, event) };
    case 'key.created':
      return { ...account, keys: withKey(account, event.data as unknown as KeyCreated, event.recordedAt) };
    case 'key.revoked':
      return { ...account, keys: withoutKey(account.keys, event.data as unknown as KeyRevoked, event.recordedAt) };
    default:
      return account;
  }
};

/** Settings that were recorded before one was added have its default. */
const settingsIn = (data: JsonObject): Settings => ({ ...defaultSettings, ...(data.after as object) });

const haltIn = ({ data, recordedAt }: RecordedEvent): HaltFacts => {
  const { failureMode, until, reason } = data as unknown as AccountHalted;
  return { failureMode, until, reason, since: recordedAt };
};

const withSecret = (secrets: AccountFacts['secrets'], event: RecordedEvent): AccountFacts['secrets'] => {
  const { name, digest, valueId } = event.data as unknown as SecretSet;
  return new Map(secrets).set(name, { name, digest, valueId, version: event.streamVersion, setAt: event.recordedAt });
};

const withKey = (account: AccountFacts, key: KeyCreated, createdAt: string): AccountFacts['keys'] => {
  const { id, role, name, content, expiresAt, hash } = key;
  const facts = { id, role, name, content, expiresAt, hash };
  return new Map(account.keys).set(id, { ...facts, account: account.id, createdAt, revokedAt: null });
};

const withoutKey = (keys: AccountFacts['keys'], { id }: KeyRevoked, revokedAt: string): AccountFacts['keys'] => {
  const key = keys.get(id);
  return key === undefined ? keys : new Map(keys).set(id, { ...key, revokedAt });
};
