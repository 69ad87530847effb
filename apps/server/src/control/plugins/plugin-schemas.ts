import { applyDecorators } from '@nestjs/common';
import { ApiResponse, type ApiResponseSchemaHost } from '@nestjs/swagger';

/** Levels of `host.log` that say nothing but how grave a line is. */
export const logLevels: readonly string[] = ['trace', 'debug', 'info', 'log', 'warn', 'warning', 'error', 'fatal'];

/** What the published document says of the answers about plugins. */

const text = { type: 'string' } as const;
const maybeText = { type: 'string', nullable: true } as const;
const maybeNumber = { type: 'number', nullable: true } as const;
const texts = { type: 'array', items: text } as const;
const flag = { type: 'boolean' } as const;
const position = { type: 'string', pattern: '^[0-9]+$' } as const;
const content = {
  description: 'Content: the value, or `{ "hidden": true, "size" }`, or after erasure `{ "erased": true, "size" }`.',
} as const;

type Schema = ApiResponseSchemaHost['schema'];

const objectOf = <P extends object>(properties: P, optional: readonly (keyof P)[] = []): Schema => ({
  type: 'object',
  properties: properties as NonNullable<Extract<Schema, { properties?: unknown }>['properties']>,
  required: Object.keys(properties).filter((name) => !optional.includes(name as keyof P)),
});

const pageOf = (items: object): Schema =>
  objectOf({
    items: { type: 'array', items },
    nextCursor: maybeText,
    completeUpTo: { ...position, nullable: true },
    from: maybeText,
    to: maybeText,
  });

const pluginFields = {
  id: text,
  name: text,
  dialect: { type: 'string', enum: ['middleware', 'openclaw', 'kohaku'] },
  language: { type: 'string', enum: ['javascript', 'typescript', 'python'] },
  version: text,
  revision: { type: 'integer', minimum: 1 },
  enabled: flag,
  priority: maybeNumber,
  failureMode: { type: 'string', enum: ['open', 'closed'] },
  mode: { type: 'string', enum: ['enforce', 'observe'] },
  isolation: { type: 'string', enum: ['warm', 'fresh'] },
  timeouts: { type: 'object', description: '`{ "timeoutMs"?, "hooks"?: { "hook": ms } }`' },
  permissions: { ...texts, description: 'Granted.' },
  requestedPermissions: { ...texts, description: 'Derived from the calls in the source (MW-72).' },
  hooks: { ...texts, description: 'Hooks that it has a handler for.' },
  gated: texts,
  warnings: { type: 'array', items: objectOf({ code: text, detail: text }, ['detail']) },
  config: content,
  configDigest: text,
  configSchema: content,
  sourceDigest: { ...text, description: 'SHA-256 of the canonical JSON of `{ source }` or `{ entry, files }`.' },
  compiledDigest: text,
  compiler: maybeText,
} as const;

const scanSchema = objectOf({
  pluginId: text,
  invocationId: { ...text, description: 'The invocation of `before_install`.' },
  findings: {
    type: 'array',
    items: objectOf({ ruleId: maybeText, severity: maybeText, file: maybeText, line: maybeNumber, message: maybeText }),
  },
});

export const pluginSchema = objectOf({ ...pluginFields, beforeInstall: scanSchema }, ['beforeInstall']);

export const installedSchema = objectOf({
  ...pluginFields,
  place: { type: 'integer', minimum: 0, description: "Place in the account's order." },
  health: objectOf({
    running: flag,
    why: { type: 'string', nullable: true, enum: ['disabled', 'halted', 'no_hooks', 'not_loaded', null] },
    message: maybeText,
    runs: maybeNumber,
    outcomes: { type: 'object', additionalProperties: { type: 'integer' } },
    skips: { type: 'object', additionalProperties: { type: 'integer' }, description: 'By cause.' },
    p50Ms: maybeNumber,
    p95Ms: maybeNumber,
    lastRunAt: maybeText,
  }),
});

export const installedPageSchema = pageOf(installedSchema);

const changeSchema = objectOf(
  {
    position,
    type: text,
    recordedAt: { type: 'string', format: 'date-time' },
    actor: {
      type: 'object',
      nullable: true,
      properties: { kind: text, id: text, onBehalfOf: text },
    },
    pluginId: maybeText,
    version: maybeText,
    revision: maybeNumber,
    changed: texts,
    reason: content,
    weakensEnforcement: flag,
    before: { description: 'The state before; null where there was none.' },
    after: { description: 'The state after; null where there is none. Of other changes, what the event says.' },
    toRevision: { type: 'integer' },
  },
  ['toRevision'],
);

export const changesSchema = pageOf(changeSchema);

export const sourceSchema = objectOf(
  {
    id: text,
    version: text,
    revision: { type: 'integer' },
    language: text,
    source: content,
    files: content,
    entry: content,
    sourceDigest: text,
    compiled: content,
    compiledDigest: text,
    compiler: maybeText,
  },
  ['files', 'entry'],
);

export const logsSchema = pageOf(
  objectOf({
    position,
    recordedAt: { type: 'string', format: 'date-time' },
    invocationId: maybeText,
    hook: maybeText,
    sessionId: maybeText,
    pluginVersion: maybeText,
    revision: maybeNumber,
    level: {
      ...content,
      description: `One of ${logLevels.join(', ')}; another word is content as the message is.`,
    },
    message: content,
  }),
);

export const chainSchema = objectOf({
  dialect: text,
  hook: text,
  asOf: maybeText,
  position: { ...position, nullable: true, description: 'The last change that counts: of plugins, settings, halts.' },
  halt: {
    ...objectOf({ failureMode: { type: 'string', enum: ['open', 'closed'] }, since: text, until: maybeText }),
    nullable: true,
    description: 'The halt that stops the whole chain; null: it runs.',
  },
  plugins: {
    type: 'array',
    items: objectOf({
      place: { type: 'integer' },
      timeoutMs: { type: 'integer', description: "Ms: the plugin's own, else the account's, else the dialect's." },
      handler: { type: 'string', description: 'OpenClaw: the registration that runs here.' },
      handlerPriority: { type: 'number', nullable: true, description: 'OpenClaw: its priority; null for a policy.' },
      ...pluginFields,
    }),
  },
  withoutHook: { type: 'integer', description: 'Enabled plugins that have no handler for this hook.' },
});

export const trialSchema = objectOf({
  trialId: text,
  pluginId: text,
  version: text,
  revision: { type: 'integer' },
  hook: text,
  outcome: {
    type: 'string',
    enum: ['passed', 'rewrote', 'cancelled', 'observed', 'claimed', 'held', 'skipped', 'not_run'],
  },
  cause: maybeText,
  reason: content,
  value: {
    description: `The mutable part after the handler; null where the hook has none, and on cancel. ${content.description}`,
  },
  warnings: { type: 'array', items: objectOf({ code: text, detail: content }) },
  logs: { type: 'array', items: content, description: 'Arguments of its `host.log` calls.' },
  refusedCalls: { ...texts, description: 'Host members that it called; every call was refused.' },
  durationMs: { type: 'number' },
});

const differences = {
  type: 'array',
  items: objectOf({
    id: text,
    changed: texts,
    weakensEnforcement: flag,
    before: { ...pluginSchema, nullable: true },
    after: { ...pluginSchema, nullable: true },
  }),
};

export const differenceSchema = objectOf({
  dryRun: flag,
  installed: differences,
  changed: differences,
  uninstalled: differences,
  unchanged: texts,
  order: { ...objectOf({ before: texts, after: texts }), nullable: true },
  weakensEnforcement: flag,
  beforeInstall: {
    type: 'array',
    items: scanSchema,
    description: 'What `before_install` found in the code that came in.',
  },
});

export const orderSchema = objectOf({ pluginIds: texts });

export const toggledSchema = objectOf({ plugin: text, enabled: flag });

const problemWords = {
  400: 'A query parameter or cursor does not fit.',
  404: 'No such plugin, or account.',
  409: 'A plugin with this id is installed.',
  412: 'It was changed since it was read; the ETag that holds is in the answer.',
  422: 'Something in the body does not fit: `errors` names each field. Nothing was stored.',
} as const;

/** The refusals that a route can give beside those of every route (RFC 9457). */
export const Problems = (...statuses: readonly (keyof typeof problemWords)[]): MethodDecorator =>
  applyDecorators(
    ...statuses.map((status) =>
      ApiResponse({
        status,
        description: problemWords[status],
        content: { 'application/problem+json': { schema: problemSchema } },
      }),
    ),
  );

const problemSchema = objectOf({
  type: text,
  title: text,
  status: { type: 'integer' },
  code: text,
  detail: text,
  errors: {
    type: 'array',
    items: objectOf(
      {
        pointer: { ...text, description: 'JSON Pointer into the body, or below `/query`, `/path` or `/header`.' },
        reason: text,
        line: maybeNumber,
        column: maybeNumber,
      },
      ['line', 'column'],
    ),
  },
});
