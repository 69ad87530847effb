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

/** The events that the directory follows. */
export const directoryTypes: readonly EventType[] = [
  'account.created',
  'settings.changed',
  'secret.set',
  'account.halted',
  'account.resumed',
  'key.created',
  'key.revoked',
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
  const { data, recordedAt } = event;
  const stream = event.stream === accountStream ? { streamVersion: event.streamVersion } : {};
  switch (event.type) {
    case 'settings.changed':
      return { ...account, ...stream, settings: settingsIn(data), settingsVersion: account.settingsVersion + 1 };
    case 'account.halted':
      return { ...account, ...stream, halt: haltIn(data, recordedAt) };
    case 'account.resumed':
      return { ...account, ...stream, halt: null };
    case 'secret.set':
      return { ...account, secrets: put(account.secrets, String(data['name']), secretIn(data, event)) };
    case 'key.created':
      return { ...account, keys: put(account.keys, String(data['id']), keyIn(data, account.id, recordedAt)) };
    case 'key.revoked': {
      const key = account.keys.get(String(data['id']));
      return key === undefined
        ? account
        : { ...account, keys: put(account.keys, key.id, { ...key, revokedAt: recordedAt }) };
    }
    default:
      return account;
  }
};

const put = <V>(map: ReadonlyMap<string, V>, key: string, value: V): ReadonlyMap<string, V> =>
  new Map(map).set(key, value);

/** Settings that were recorded before one was added have its default. */
const settingsIn = (data: JsonObject): Settings => ({ ...defaultSettings, ...(data['after'] as object) });

const haltIn = (data: JsonObject, recordedAt: string): HaltFacts => ({
  failureMode: data['failureMode'] === 'closed' ? 'closed' : 'open',
  until: (data['until'] ?? null) as string | null,
  reason: (data['reason'] ?? null) as Sealed | null,
  since: recordedAt,
});

const secretIn = (data: JsonObject, event: RecordedEvent): SecretFacts => ({
  name: String(data['name']),
  digest: String(data['digest']),
  valueId: String(data['valueId']),
  version: event.streamVersion,
  setAt: event.recordedAt,
});

const keyIn = (data: JsonObject, account: string, recordedAt: string): KeyFacts => ({
  id: String(data['id']),
  account,
  role: data['role'] as Role,
  name: String(data['name']),
  content: data['content'] === 'full' ? 'full' : 'none',
  hash: String(data['hash']),
  expiresAt: (data['expiresAt'] ?? null) as string | null,
  createdAt: recordedAt,
  revokedAt: null,
});
