import {
  anyObject,
  count,
  digest,
  flag,
  id,
  list,
  mapOf,
  nullable,
  object,
  oneOf,
  position,
  sealed,
  sealedOrNull,
  text,
  time,
} from './parts.js';

const role = oneOf('runtime', 'admin', 'approver', 'auditor', 'operator');
const range = object({ first: position(), last: position(), events: count() });

/** Everything given must hold of an event, or of one of its stream. */
const holdScope = object({
  kind: oneOf('account', 'session', 'subject', 'agent', 'plugin'),
  'id?': id('Of a subject: its HMAC.'),
  'name?': sealedOrNull,
});

/** Streams of an account: `account`, `key/{id}`, `secret/{name}`, `reads` and others. */
export const accountSchemas = {
  'account.created': object({ id: id(), name: text() }),
  'settings.changed': object({
    version: count(),
    before: anyObject(),
    after: anyObject(),
    changed: list(id(), 'Names of the settings that differ.'),
    'weakensEnforcement?': flag(),
    'reason?': sealedOrNull,
  }),
  'secret.set': object({
    name: id(),
    digest: id('Tells values apart; says nothing about them.'),
    valueId: id(),
    'reason?': sealedOrNull,
  }),
  'account.halted': object({
    failureMode: oneOf('open', 'closed'),
    until: nullable(time('It ends by itself then, and no other event says so.')),
    reason: sealedOrNull,
    'weakensEnforcement?': flag(),
  }),
  'account.resumed': object({ 'reason?': sealedOrNull }),
  'key.created': object({
    id: id(),
    role,
    name: text(),
    content: oneOf('full', 'none'),
    expiresAt: nullable(time()),
    hash: id('Of the secret, which is stored nowhere.'),
    'reason?': sealedOrNull,
  }),
  'key.revoked': object({ id: id(), role, name: text(), 'reason?': sealedOrNull }),
  'audit.read': object({
    path: text(),
    minute: { type: 'string', description: 'Begin of the minute.' },
    count: count(),
    content: oneOf('full', 'none'),
    'dataSubject?': id('HMAC of the data subject that was searched for.'),
  }),
  'export.created': object({
    exportId: id(),
    format: oneOf('jsonl', 'csv'),
    query: sealed(),
    range,
    content: oneOf('full', 'none'),
    digest: nullable(digest('Of the file.')),
  }),
  'replay.started': object({ replayId: id(), to: text(), source: oneOf('postgres', 'kafka'), 'filter?': anyObject() }),
  'replay.finished': object({ replayId: id(), events: count(), 'differences?': count(), outcome: id() }),
  'retention.set': object({
    before: mapOf(nullable(count('Days.'))),
    after: mapOf(nullable(count('Days; null: kept for good.'))),
    'version?': count('How often it was set, this time included.'),
    'reason?': sealedOrNull,
  }),
  'retention.purged': object({
    ranges: list(range, 'What was removed: account positions, in order; every position of a range.'),
    events: count('How many events that is.'),
    policy: mapOf(object({ days: count(), before: time('Events of this class recorded before were past it.') })),
    'holds?': list(id(), 'Holds in force, whose events stayed.'),
    'purgeId?': id('The run that this is a part of.'),
    'root?': nullable(digest('SHA-256 over the leaf hashes of what was removed, in the order of positions.')),
    'types?': mapOf(count('Events by type.')),
    'blobs?': list(digest(), 'Blobs that no other event names, removed after the events of the run.'),
    'cause?': oneOf('asked', 'scheduled'),
    'reason?': sealedOrNull,
  }),
  'hold.placed': object({ holdId: id(), scope: holdScope, reason: sealedOrNull }),
  'hold.released': object({ holdId: id(), reason: sealedOrNull }),
  'payload.erased': object({
    scope: object({ kind: oneOf('subject', 'session', 'account'), 'id?': id('Of a subject: its HMAC.') }),
    keys: list(id(), 'Data keys that were destroyed.'),
    blobs: count('How many blobs this event names.'),
    reason: sealedOrNull,
    'erasureId?': id(),
    'state?': oneOf('begun', 'part', 'done'),
    'blobHashes?': list(digest(), 'Blobs that were removed.'),
  }),
  'alarm.raised': object({ code: id(), 'detail?': sealedOrNull, 'facts?': anyObject() }),
} as const;

/** Account `system`, streams `instance/{id}` and `keys`. */
export const instanceSchemas = {
  'instance.started': object({
    instance: id(),
    version: id(),
    roles: list(oneOf('gateway', 'control', 'worker')),
    node: text(),
    platform: text(),
    'sandbox?': object({ state: oneOf('ok', 'degraded'), missing: list(text()) }),
  }),
  'instance.heartbeat': object({
    instance: id(),
    sizes: mapOf(position()),
    'uptimeSeconds?': count(),
  }),
  'log_key.rotated': object({
    from: nullable(id()),
    to: id(),
    'log?': id('Id of the log; its checkpoints begin with it.'),
    'publicKey?': text('The new key as a verifier key of C2SP signed-note.'),
    'untaggedUntil?': id('Global position up to which rows have no tag; -1 where every row has one.'),
    'reason?': sealedOrNull,
  }),
  'master_key.rotated': object({ from: id(), to: id(), rewrapped: count() }),
} as const;
