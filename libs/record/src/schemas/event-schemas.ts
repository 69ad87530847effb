import type { EventType } from '../event.js';
import { eventTypes } from '../event.js';
import { schemaVersionOf } from '../versions.js';
import { accountSchemas, instanceSchemas } from './account.js';
import { invocationSchemas } from './invocation.js';
import type { DataSchemas, Schema } from './parts.js';
import { count, definitions, flag, id, object, oneOf, time } from './parts.js';
import { pluginSchemas } from './plugin.js';
import { approvalSchemas, sessionSchemas } from './session.js';

/** One version of one event type, as `GET /v1/event-schemas` shows it. */
export interface EventSchema {
  readonly type: EventType;
  readonly version: number;
  /** Whether new events are written with it. */
  readonly current: boolean;
  /** JSON Schema, draft 2020-12, of the whole event. */
  readonly schema: Schema;
}

/** `data` of the newest version of every type. A type that gains a version leaves its old schema in `pastSchemas`. */
const currentSchemas: DataSchemas<EventType> = {
  ...invocationSchemas,
  ...pluginSchemas,
  ...sessionSchemas,
  ...approvalSchemas,
  ...accountSchemas,
  ...instanceSchemas,
};

/** `data` of versions that are no longer written, oldest first: the log still holds them. */
const pastSchemas: { readonly [type in EventType]?: readonly Schema[] } = {};

const actor = object({
  kind: oneOf('key', 'operator', 'system', 'plugin'),
  id: id(),
  'onBehalfOf?': { type: 'string', description: 'The person behind a key, as the caller named them.' },
});

const fields = {
  id: { type: 'string', format: 'uuid', description: 'UUIDv7.' },
  account: id(),
  stream: id(),
  streamVersion: { type: 'integer', minimum: 1, description: 'Place in the stream, from 1.' },
  recordedAt: time('When the log took it, by the server’s clock.'),
  occurredAt: time('When it happened, by the caller’s clock where they said so.'),
  'actor?': actor,
  'invocationId?': id(),
  'attempt?': { type: 'integer', minimum: 1 },
  'operationId?': id(),
  'turnId?': id(),
  'turnInferred?': flag('The turn was assigned, not given.'),
  'sessionId?': id(),
  'agentId?': id(),
  'correlationId?': id(),
  'root?': id('The invocation that everything here descends from.'),
  'cause?': id('What this invocation descends from directly.'),
  'hop?': count(),
  'dialect?': id(),
  'hook?': id(),
  'pluginId?': id(),
  'pluginVersion?': id(),
  'pluginRevision?': count(),
  'target?': id(),
  'durationMs?': count(),
  'outcome?': id(),
  'reasonCode?': id(),
} as const;

/**
 * The schemas of all event types in all versions, by type as in events.md §2, oldest version first. A version never
 * changes but by optional fields, so readers must take fields that they do not know.
 */
export const eventSchemas = (): readonly EventSchema[] => eventTypes.flatMap(versionsOf);

const versionsOf = (type: EventType): readonly EventSchema[] => {
  const current = schemaVersionOf(type);
  return [...(pastSchemas[type] ?? []), currentSchemas[type]].map((data, index) => ({
    type,
    version: index + 1,
    current: index + 1 === current,
    schema: wholeEvent(type, index + 1, data),
  }));
};

const wholeEvent = (type: EventType, version: number, data: Schema): Schema => ({
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: `urn:hookledger:event:${type}:${String(version)}`,
  title: `${type}, version ${String(version)}`,
  ...object({ ...fields, type: { const: type }, schema: { const: version }, data }),
  $defs: usesSealed(data) ? definitions : {},
});

const usesSealed = (data: Schema): boolean => JSON.stringify(data).includes('#/$defs/sealed');
