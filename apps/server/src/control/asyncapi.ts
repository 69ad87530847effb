import { Controller, Get, Inject } from '@nestjs/common';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { topicNames } from '#kafka';
import { CONFIG, Public, type ServerConfig } from '#platform';
import type { EventSchema, Json, JsonObject } from '#record';
import { eventSchemas } from '#record';
import { programVersion } from '../program-version.js';

type Document = JsonObject;

/** The topics of this installation as an AsyncAPI 3 document: who may read them learns from it what they hold. */
@ApiTags('events')
@Public()
@Controller('asyncapi.json')
export class AsyncApiRoute {
  private readonly document: Document;

  constructor(@Inject(CONFIG) { kafka }: ServerConfig) {
    this.document = asyncApi({
      version: programVersion(),
      prefix: kafka?.topicPrefix ?? 'hookledger',
      accountTopics: kafka?.accountTopics ?? [],
    });
  }

  @Get()
  @ApiOkResponse({
    description: 'AsyncAPI 3.0: the topics on Kafka, their keys, headers and messages.',
    schema: { type: 'object', required: ['asyncapi'], properties: { asyncapi: { type: 'string' } } },
  })
  read(): Document {
    return this.document;
  }
}

/** What a document speaks of. */
export interface AsyncApiFacts {
  readonly version: string;
  readonly prefix: string;
  readonly accountTopics: readonly string[];
}

/**
 * The document. Schemas are those of the record, as draft-07, which AsyncAPI takes and which they are: their
 * definitions alone stand elsewhere.
 */
export const asyncApi = ({ version, prefix, accountTopics }: AsyncApiFacts): Document => {
  const names = topicNames(prefix, accountTopics);
  const schemas = eventSchemas();
  const eventMessages = Object.fromEntries(schemas.map((schema) => [nameOf(schema), ref('messages', nameOf(schema))]));
  const eventChannels = names.allEvents.map((topic, index): [string, Json] => [
    index === 0 ? 'events' : `events-${String(index)}`,
    {
      address: topic,
      title: index === 0 ? 'Events' : `Events of account ${accountTopics[index - 1] ?? ''}`,
      description:
        'Every event of the log as a CloudEvent in binary mode, at least once. One session stays in order; a consumer ' +
        'drops repeats by `ce_globalposition`, one watermark for each partition. Nothing is ever removed but by a purge.',
      messages: eventMessages,
      bindings: kafkaTopic(topic, ['delete']),
    },
  ]);
  const otherChannels: readonly (readonly [string, Json])[] = [
    [
      'blobs',
      channel(names.blobs, 'Blobs', 'Sealed values above 1 KiB, in numbered parts, as they are stored.', 'BlobPart'),
    ],
    [
      'keys',
      channel(names.keys, 'Keys', 'Data keys and log keys, wrapped; an erasure is a tombstone.', 'DataKey', 'LogKey'),
    ],
    ['checkpoints', channel(names.checkpoints, 'Checkpoints', 'Signed checkpoints (C2SP signed notes).', 'Checkpoint')],
  ];
  const channels = Object.fromEntries([...eventChannels, ...otherChannels]);
  return {
    asyncapi: '3.0.0',
    id: 'urn:hookledger',
    info: {
      title: 'Hookledger topics',
      version,
      description:
        'What the relay writes to Kafka. A replay into a topic of its own (`hookledger replay --to topic:NAME`) has the ' +
        'messages of `events`, each with the header `ce_replay`.',
      license: { name: 'Apache-2.0' },
    },
    defaultContentType: 'application/json',
    channels,
    operations: Object.fromEntries(
      Object.keys(channels).map((name) => [
        `relay-${name}`,
        { action: 'send', channel: { $ref: `#/channels/${name}` }, summary: `The relay writes ${name}.` },
      ]),
    ),
    components: {
      messages: {
        ...Object.fromEntries(schemas.map((schema) => [nameOf(schema), eventMessage(schema)])),
        ...otherMessages,
      },
      messageTraits: { cloudEvent },
      schemas: {
        ...Object.fromEntries(schemas.map((schema) => [nameOf(schema), payloadOf(schema)])),
        sealed: sealedOf(schemas),
      },
    },
  };
};

const ref = (kind: 'messages' | 'schemas' | 'messageTraits', name: string): Json => ({
  $ref: `#/components/${kind}/${name}`,
});

/** Names of components hold letters, digits, dots and underscores. */
const nameOf = ({ type, version }: EventSchema): string => `${type}.v${String(version)}`;

const kafkaTopic = (topic: string, policy: readonly string[]): Json => ({
  kafka: {
    topic,
    topicConfiguration: { 'cleanup.policy': policy, 'retention.ms': -1, 'retention.bytes': -1 },
    bindingVersion: '0.5.0',
  },
});

const channel = (address: string, title: string, description: string, ...messages: readonly string[]): Json => ({
  address,
  title,
  description,
  messages: Object.fromEntries(messages.map((name) => [name, ref('messages', name)])),
  bindings: kafkaTopic(address, address.endsWith('.checkpoints') ? ['delete'] : ['compact']),
});

const kafkaKey = (description: string): Json => ({
  kafka: { key: { type: 'string', description }, bindingVersion: '0.5.0' },
});

/** What every event's message has beside its value. */
const cloudEvent: Json = {
  contentType: 'application/json',
  headers: {
    type: 'object',
    required: [
      'ce_specversion',
      'ce_id',
      'ce_type',
      'ce_source',
      'ce_subject',
      'ce_time',
      'ce_account',
      'ce_position',
      'ce_globalposition',
      'content-type',
    ],
    properties: {
      ce_specversion: { const: '1.0' },
      ce_id: { type: 'string', format: 'uuid', description: 'The event’s id.' },
      ce_type: { type: 'string', description: '`io.hookledger.` and the type.' },
      ce_source: { type: 'string', description: '`/hookledger/` and the id of the log.' },
      ce_subject: { type: 'string', description: 'The stream.' },
      ce_time: { type: 'string', format: 'date-time', description: 'When it happened.' },
      ce_account: { type: 'string' },
      ce_position: { type: 'string', pattern: '^[0-9]+$', description: 'Place in the account’s log, dense from 0.' },
      ce_globalposition: { type: 'string', pattern: '^[0-9]+$', description: 'Place in the whole log, dense from 0.' },
      ce_epoch: { type: 'string', pattern: '^[0-9]+$', description: 'Which owner of the relay sent it.' },
      ce_replay: { type: 'string', description: 'Id of the replay that sent it; absent the first time.' },
      ce_dataref: {
        type: 'string',
        pattern: '^blob:[0-9a-f]{64}$',
        description: 'The value is empty: the event’s bytes are this blob.',
      },
      traceparent: { type: 'string', description: 'W3C trace context of the caller.' },
      'content-type': { const: 'application/json' },
    },
  },
  bindings: kafkaKey('JSON: `[account, session]`, or `[account, null, stream]` outside of a session.'),
};

const eventMessage = (schema: EventSchema): Json => ({
  name: nameOf(schema),
  title: schema.type,
  ...(schema.current ? {} : { deprecated: true }),
  headers: {
    type: 'object',
    required: ['ce_type'],
    properties: { ce_type: { const: `io.hookledger.${schema.type}` } },
  },
  payload: ref('schemas', nameOf(schema)),
  traits: [ref('messageTraits', 'cloudEvent')],
});

const base64: Json = { type: 'string', contentEncoding: 'base64' };

const otherMessages: Document = {
  BlobPart: {
    title: 'A part of a blob, or its tombstone',
    contentType: 'application/octet-stream',
    headers: {
      type: 'object',
      required: ['part', 'parts'],
      properties: {
        part: { type: 'string', pattern: '^[0-9]+$' },
        parts: { type: 'string', pattern: '^[0-9]+$' },
        size: { type: 'string', pattern: '^[0-9]+$', description: 'Bytes of the whole blob.' },
        key: { type: 'string', description: 'The data key that sealed it.' },
        'content-type': { const: 'application/octet-stream' },
      },
    },
    payload: { description: 'Sealed bytes.' },
    bindings: kafkaKey('`HASH/PART`: SHA-256 of the whole, hex, and the number of the part.'),
  },
  DataKey: {
    title: 'A wrapped data key; a tombstone when it was erased',
    payload: {
      type: 'object',
      required: ['id', 'account', 'scope', 'master', 'wrapped', 'createdAt'],
      properties: {
        id: { type: 'string' },
        account: { type: 'string' },
        scope: { type: 'string', description: 'A person is in it only as an HMAC.' },
        master: { type: 'string', description: 'Id of the master key that wraps it.' },
        wrapped: base64,
        createdAt: { type: 'string', format: 'date-time' },
      },
    },
    bindings: kafkaKey('`data-key/ID`'),
  },
  LogKey: {
    title: 'A key that signs checkpoints, its private part wrapped',
    payload: {
      type: 'object',
      required: ['id', 'name', 'publicKey', 'validFrom'],
      properties: {
        id: { type: 'string' },
        name: { type: 'string' },
        publicKey: base64,
        wrapped: base64,
        validFrom: { type: 'string', format: 'date-time' },
        validUntil: { type: ['string', 'null'], format: 'date-time' },
      },
    },
    bindings: kafkaKey('`log-key/ID`'),
  },
  Checkpoint: {
    title: 'A signed checkpoint of an account',
    payload: {
      type: 'object',
      required: ['account', 'size', 'root', 'note', 'signedAt'],
      properties: {
        account: { type: 'string' },
        size: { type: 'string', pattern: '^[0-9]+$' },
        root: base64,
        note: { type: 'string', description: 'C2SP signed note.' },
        signedAt: { type: 'string', format: 'date-time' },
      },
    },
    bindings: kafkaKey('The account.'),
  },
};

/** An event's schema with its definitions among the components. */
const payloadOf = ({ schema }: EventSchema): Json => {
  const own = Object.fromEntries(Object.entries(schema).filter(([key]) => !['$schema', '$id', '$defs'].includes(key)));
  return moved(own);
};

const sealedOf = (schemas: readonly EventSchema[]): Json => {
  for (const { schema } of schemas) {
    const { sealed } = schema.$defs as Document;
    if (sealed !== undefined) return moved(sealed);
  }
  return {};
};

const moved = (value: Json): Json => {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return (value as readonly Json[]).map(moved);
  return Object.fromEntries(
    Object.entries(value as Document).map(([key, item]) => [
      key,
      key === '$ref' && typeof item === 'string' ? item.replace('#/$defs/', '#/components/schemas/') : moved(item),
    ]),
  );
};
