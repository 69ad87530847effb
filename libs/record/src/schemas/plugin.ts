import type { Schema } from './parts.js';
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
  sealed,
  sealedOrNull,
  text,
  warnings,
} from './parts.js';

const code = object({
  language: oneOf('javascript', 'typescript', 'python'),
  source: sealed(),
  sourceDigest: digest(),
  compiled: sealed('What runs; equal to the source where nothing was compiled.'),
  compiledDigest: digest(),
  compiler: nullable(text()),
});

const findings = object({
  hooks: list(id()),
  gated: list(id()),
  requestedPermissions: list(id()),
  warnings: list(object({ code: id(), 'detail?': text() })),
  registrations: anyObject('What a dialect needs to order and run the handlers.'),
});

const snapshot = object({
  id: id(),
  name: text(),
  dialect: oneOf('middleware', 'openclaw', 'kohaku'),
  version: id(),
  revision: count(),
  enabled: flag(),
  priority: nullable({ type: 'number' }),
  failureMode: oneOf('open', 'closed'),
  mode: oneOf('enforce', 'observe'),
  isolation: oneOf('warm', 'fresh'),
  timeouts: object({ 'timeoutMs?': count(), 'hooks?': mapOf(count()) }),
  permissions: list(id()),
  config: sealed(),
  configDigest: digest(),
  configSchema: sealedOrNull,
  code,
  findings,
});

const changed = (more: { readonly [name: string]: Schema } = {}): Schema =>
  object({
    before: nullable(snapshot),
    after: nullable(snapshot),
    changed: list(id(), 'Names of the fields that differ.'),
    reason: sealedOrNull,
    weakensEnforcement: flag(),
    ...more,
  });

/** Streams `plugin/{id}` and `plugins`. */
export const pluginSchemas = {
  'plugin.installed': changed(),
  'plugin.versioned': changed(),
  'plugin.enabled': changed(),
  'plugin.disabled': changed(),
  'plugin.configured': changed(),
  'plugin.permissions_changed': changed(),
  'plugin.mode_changed': changed(),
  'plugin.order_changed': object({
    before: list(id()),
    after: list(id()),
    reason: sealedOrNull,
    weakensEnforcement: flag(),
  }),
  'plugin.rolled_back': changed({ 'toRevision?': count('The revision whose code and settings came back.') }),
  'plugin.uninstalled': changed(),
  'plugin.tried': object({
    trialId: id(),
    hook: id(),
    context: sealed(),
    answer: sealed(),
    outcome: id(),
    'cause?': nullable(id()),
    warnings,
    refusedCalls: count(),
  }),
  'plugin.load_failed': object({
    cause: oneOf('syntax', 'threw', 'timed_out', 'crashed'),
    message: sealed(),
    'line?': nullable(count()),
    'column?': nullable(count()),
  }),
  'plugin.instance_started': object({ instance: id('The server process.'), 'reason?': id() }),
  'plugin.tripped': object({ failures: count(), windowMs: count(), threshold: count() }),
} as const;
