import { createHash } from 'node:crypto';
import type { StoredEvent } from '#event-store';
import { readEvent, type RecordedEvent } from '#record';
import type { ConsumedMessage, OutgoingMessage } from './port.js';

/** What a message says of an event beside its bytes. */
export interface EventRecord {
  readonly globalPosition: bigint;
  /** In the account's log. */
  readonly position: bigint;
  readonly id: string;
  readonly type: string;
  readonly account: string;
  readonly stream: string;
  readonly sessionId: string | null;
  readonly occurredAt: Date;
  /** The stored canonical bytes: the message's value, never re-serialised. */
  readonly bytes: Uint8Array;
}

/** A stored event as a message takes it. */
export const eventRecord = ({ globalPosition, position, event, bytes }: StoredEvent): EventRecord => ({
  globalPosition,
  position,
  id: event.id,
  type: event.type,
  account: event.account,
  stream: event.stream,
  sessionId: event.sessionId ?? null,
  occurredAt: new Date(event.occurredAt),
  bytes,
});

/** Options of `encodeEvent`. */
export interface EncodeOptions {
  /** `ce_source`: see `eventSource`. */
  readonly source: string;
  /** Id of the replay that sends it (`ce_replay`): consumers tell it from the first time. */
  readonly replay?: string;
  /** The relay's fencing epoch (`ce_epoch`): a batch of an owner that was replaced can be told from its successor's. */
  readonly epoch?: bigint;
  /** Value and headers may have so many bytes; a larger event names its bytes in the blobs topic instead. */
  readonly maxBytes?: number;
}

/** `ce_source` of a log. */
export const eventSource = (logId: string): string => `/hookledger/${logId}`;

const typePrefix = 'io.hookledger.';

/**
 * An event as a CloudEvent 1.0 in Kafka's binary mode. Key: the session, so that one session stays in order; else the
 * stream. The value is the stored bytes. Above `maxBytes` the value is empty and `ce_dataref` (CloudEvents' own
 * extension for that) names the bytes in the blobs topic: send `encodeBlob` of them before.
 */
export const encodeEvent = (record: EventRecord, options: EncodeOptions): OutgoingMessage => {
  const { account, stream, bytes } = record;
  const headers: Record<string, string> = {
    ce_specversion: '1.0',
    ce_id: record.id,
    ce_type: `${typePrefix}${record.type}`,
    ce_source: options.source,
    ce_subject: stream,
    ce_time: record.occurredAt.toISOString(),
    ce_account: account,
    ce_position: String(record.position),
    ce_globalposition: String(record.globalPosition),
    'content-type': 'application/json',
  };
  const traceparent = traceparentOf(bytes);
  if (traceparent !== null) headers.traceparent = traceparent;
  if (options.epoch !== undefined) headers.ce_epoch = String(options.epoch);
  if (options.replay !== undefined) headers.ce_replay = options.replay;
  const key = eventKey(record);
  if (options.maxBytes === undefined || sizeOf(key, bytes, headers) <= options.maxBytes) {
    return { key, value: bytes, headers };
  }
  headers.ce_dataref = `${dataRefPrefix}${sha256(bytes)}`;
  return { key, value: nothing, headers };
};

/** Key of an event's message: JSON, so that no account and session can be mistaken for others. */
export const eventKey = ({
  account,
  stream,
  sessionId,
}: Pick<EventRecord, 'account' | 'stream' | 'sessionId'>): string =>
  JSON.stringify(sessionId === null ? [account, null, stream] : [account, sessionId]);

const nothing = new Uint8Array(0);
const dataRefPrefix = 'blob:';

/**
 * W3C trace context: where the caller's correlation id is one. Canonical bytes have their keys in order, and a quote
 * inside a string is escaped, so what stands before `data` is the event's own.
 */
const traceparentOf = (bytes: Uint8Array): string | null => {
  const buffer = asBuffer(bytes);
  const at = buffer.indexOf(correlation);
  if (at === -1 || at > buffer.indexOf(dataMember)) return null;
  const from = at + correlation.length - traceVersion.length;
  const text = buffer.toString('latin1', from, from + traceLength + 1);
  return /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"$/u.test(text) ? text.slice(0, -1) : null;
};

const traceVersion = '00-';
const traceLength = 55;
const correlation = Buffer.from(`"correlationId":"${traceVersion}`);
const dataMember = Buffer.from(',"data":');

/** An event's message as a reader understands it. */
export type DecodedEvent =
  | {
      readonly kind: 'event';
      readonly message: ConsumedMessage;
      readonly stored: StoredEvent;
      readonly replay: string | null;
    }
  /** Too large for its topic: the bytes are the blob of this hash. `withBytes` makes it an event. */
  | {
      readonly kind: 'reference';
      readonly message: ConsumedMessage;
      readonly hash: string;
      readonly replay: string | null;
    }
  /** Not a message of this program, or one that was changed on its way. */
  | { readonly kind: 'foreign'; readonly message: ConsumedMessage; readonly why: string };

/** Reads a message of the events topic and holds its headers against its bytes. Never throws. */
export const decodeEvent = (message: ConsumedMessage): DecodedEvent => {
  const { headers, value } = message;
  if (headers.ce_specversion !== '1.0') return foreign(message, 'it is no CloudEvent 1.0');
  const reference = headers.ce_dataref;
  if (reference === undefined) return decodeBytes(message, value);
  if (!/^blob:[0-9a-f]{64}$/u.test(reference)) return foreign(message, 'ce_dataref names no blob');
  const hash = reference.slice(dataRefPrefix.length);
  return { kind: 'reference', message, hash, replay: headers.ce_replay ?? null };
};

/** The event of a reference, with the bytes that its blob has. */
export const withBytes = (reference: DecodedEvent & { readonly kind: 'reference' }, bytes: Uint8Array): DecodedEvent =>
  sha256(bytes) === reference.hash
    ? decodeBytes(reference.message, bytes)
    : foreign(reference.message, 'its bytes are not those that ce_dataref names');

const decodeBytes = (message: ConsumedMessage, value: Uint8Array | null): DecodedEvent => {
  const { headers } = message;
  if (value === null) return foreign(message, 'it has no value');
  const position = positionOf(headers.ce_position);
  const globalPosition = positionOf(headers.ce_globalposition);
  if (position === null || globalPosition === null) return foreign(message, 'it has no positions');
  const event = parsed(value);
  if (event === null) return foreign(message, 'its value is no event');
  const wrong = contradiction(message, event);
  if (wrong !== null) return foreign(message, `${wrong} is not what the value says`);
  const stored = { globalPosition, position, event, bytes: value };
  return { kind: 'event', message, stored, replay: headers.ce_replay ?? null };
};

const foreign = (message: ConsumedMessage, why: string): DecodedEvent => ({ kind: 'foreign', message, why });

const positionOf = (text: string | undefined): bigint | null =>
  text !== undefined && /^\d{1,19}$/u.test(text) ? BigInt(text) : null;

const parsed = (value: Uint8Array): RecordedEvent | null => {
  try {
    const event = readEvent(value) as Partial<RecordedEvent> | null;
    if (typeof event !== 'object' || event === null) return null;
    const texts = [event.id, event.type, event.account, event.stream, event.recordedAt, event.occurredAt];
    const isEvent = texts.every((text) => typeof text === 'string') && Number.isSafeInteger(event.streamVersion);
    return isEvent && typeof event.data === 'object' ? (event as RecordedEvent) : null;
  } catch {
    return null;
  }
};

/** The first header that does not agree with the bytes. */
const contradiction = ({ headers, key }: ConsumedMessage, event: RecordedEvent): string | null => {
  if (headers.ce_id !== event.id) return 'ce_id';
  if (headers.ce_type !== `${typePrefix}${event.type}`) return 'ce_type';
  if (headers.ce_account !== event.account) return 'ce_account';
  if (headers.ce_subject !== event.stream) return 'ce_subject';
  const { account, stream, sessionId = null } = event;
  return key === eventKey({ account, stream, sessionId }) ? null : 'its key';
};

/** What a blob's parts say of it. */
export interface BlobHead {
  /** SHA-256 of the whole, hex. */
  readonly hash: string;
  /** The data key that sealed it; null where none did. */
  readonly keyId: string | null;
}

/**
 * A blob in numbered parts of at most `partBytes`, in the order to send them. Key: hash and number, so that compaction
 * keeps every part; all parts of a blob share a partition.
 */
export const encodeBlob = (
  { hash, keyId }: BlobHead,
  bytes: Uint8Array,
  partBytes: number,
): readonly OutgoingMessage[] => {
  const parts = Math.max(1, Math.ceil(bytes.length / partBytes));
  return Array.from({ length: parts }, (_, part) => ({
    key: blobKey(hash, part),
    partitionKey: hash,
    value: bytes.subarray(part * partBytes, (part + 1) * partBytes),
    headers: {
      part: String(part),
      parts: String(parts),
      size: String(bytes.length),
      ...(keyId === null ? {} : { key: keyId }),
      'content-type': 'application/octet-stream',
    },
  }));
};

/** Makes the blobs topic forget a blob that was sent in so many parts. */
export const blobTombstones = (hash: string, parts: number): readonly OutgoingMessage[] =>
  Array.from({ length: parts }, (_, part) => ({
    key: blobKey(hash, part),
    partitionKey: hash,
    value: null,
    headers: { part: String(part), parts: String(parts) },
  }));

const blobKey = (hash: string, part: number): string => `${hash}/${String(part)}`;

/** A message of the blobs topic as a reader understands it. */
export type DecodedBlobPart =
  | {
      readonly kind: 'part';
      readonly hash: string;
      readonly keyId: string | null;
      readonly part: number;
      readonly parts: number;
      /** Of the whole blob. */
      readonly size: number;
      readonly bytes: Uint8Array;
    }
  | { readonly kind: 'tombstone'; readonly hash: string; readonly part: number }
  | { readonly kind: 'foreign'; readonly why: string };

/** Reads a message of the blobs topic. Never throws; whether the parts make the hash is known when all are there. */
export const decodeBlobPart = ({ key, value, headers }: ConsumedMessage): DecodedBlobPart => {
  const [, hash, part] = /^([0-9a-f]{64})\/(\d{1,9})$/u.exec(key ?? '') ?? [];
  if (hash === undefined || part === undefined) return { kind: 'foreign', why: 'its key names no part of a blob' };
  if (value === null) return { kind: 'tombstone', hash, part: Number(part) };
  const [parts, size] = [headers.parts, headers.size].map((text) =>
    /^\d{1,15}$/u.test(text ?? '') ? Number(text) : -1,
  );
  if (parts === undefined || size === undefined || Number(part) >= parts || value.length > size) {
    return { kind: 'foreign', why: 'its headers do not count its parts' };
  }
  return { kind: 'part', hash, keyId: headers.key ?? null, part: Number(part), parts, size, bytes: value };
};

/** A row of the keys topic: what is needed to open content again, wrapped by the master key. */
export interface DataKeyRecord {
  readonly id: string;
  readonly account: string;
  /** As table `data_key` names it. */
  readonly scope: string;
  readonly wrapped: Uint8Array;
  /** Id of the master key that wraps it. */
  readonly master: string;
  readonly createdAt: string;
}

/** The key that signs checkpoints, wrapped by the master key, with its time in force. */
export interface LogKeyRecord {
  readonly id: string;
  readonly name: string;
  readonly publicKey: Uint8Array;
  /** Null once it is out of force. */
  readonly wrapped: Uint8Array | null;
  /** Null before it is in force. */
  readonly validFrom: string | null;
  readonly validUntil: string | null;
}

/** A wrapped data key. Sent before the first event that it seals, and again when another master key wraps it. */
export const encodeDataKey = ({ id, account, scope, wrapped, master, createdAt }: DataKeyRecord): OutgoingMessage => ({
  key: `${dataKeyPrefix}${id}`,
  value: json({ account, createdAt, id, master, scope, wrapped: base64(wrapped) }),
  headers: jsonHeaders,
});

/** Makes the keys topic forget a data key: erasure downstream. */
export const dataKeyTombstone = (id: string): OutgoingMessage => ({
  key: `${dataKeyPrefix}${id}`,
  value: null,
  headers: {},
});

/** A wrapped log key. */
export const encodeLogKey = (key: LogKeyRecord): OutgoingMessage => ({
  key: `${logKeyPrefix}${key.id}`,
  value: json({
    id: key.id,
    name: key.name,
    publicKey: base64(key.publicKey),
    validFrom: key.validFrom,
    validUntil: key.validUntil,
    wrapped: key.wrapped === null ? null : base64(key.wrapped),
  }),
  headers: jsonHeaders,
});

const dataKeyPrefix = 'data-key/';
const logKeyPrefix = 'log-key/';
const jsonHeaders = { 'content-type': 'application/json' };

/** A message of the keys topic as a reader understands it. */
export type DecodedKey =
  | { readonly kind: 'data-key'; readonly record: DataKeyRecord }
  /** The data key was erased. */
  | { readonly kind: 'tombstone'; readonly id: string }
  | { readonly kind: 'log-key'; readonly record: LogKeyRecord }
  | { readonly kind: 'foreign'; readonly why: string };

/** Reads a message of the keys topic. Never throws. */
export const decodeKey = ({ key, value }: ConsumedMessage): DecodedKey => {
  if (key?.startsWith(dataKeyPrefix) === true && value === null) {
    return { kind: 'tombstone', id: key.slice(dataKeyPrefix.length) };
  }
  const read = value === null ? null : members(value);
  if (read === null) return { kind: 'foreign', why: 'its value is no JSON object' };
  const id = read.text('id');
  if (key === `${dataKeyPrefix}${id}`) {
    const [account, scope, master, createdAt] = [
      read.text('account'),
      read.text('scope'),
      read.text('master'),
      read.text('createdAt'),
    ];
    const wrapped = bytesOf(read.text('wrapped'));
    if (account !== '' && master !== '' && createdAt !== '' && wrapped.length > 0) {
      return { kind: 'data-key', record: { id, account, scope, wrapped, master, createdAt } };
    }
  }
  if (key === `${logKeyPrefix}${id}`) {
    const [name, validFrom, validUntil] = [read.text('name'), read.text('validFrom'), read.text('validUntil')];
    const [publicKey, wrapped] = [bytesOf(read.text('publicKey')), bytesOf(read.text('wrapped'))];
    if (name !== '' && publicKey.length > 0) {
      const record = {
        id,
        name,
        publicKey,
        wrapped: wrapped.length === 0 ? null : wrapped,
        validFrom: validFrom === '' ? null : validFrom,
        validUntil: validUntil === '' ? null : validUntil,
      };
      return { kind: 'log-key', record };
    }
  }
  return { kind: 'foreign', why: 'its key and its members are those of no key' };
};

/** A signed checkpoint, as table `checkpoint` has it. */
export interface CheckpointRecord {
  readonly account: string;
  /** Events of the account that it covers. */
  readonly size: bigint;
  readonly root: Uint8Array;
  /** The signed note, C2SP tlog-checkpoint. */
  readonly note: string;
  readonly signedAt: string;
}

/** A checkpoint; those of an account stay in order. */
export const encodeCheckpoint = ({ account, size, root, note, signedAt }: CheckpointRecord): OutgoingMessage => ({
  key: account,
  value: json({ account, note, root: base64(root), signedAt, size: String(size) }),
  headers: jsonHeaders,
});

/** A message of the checkpoints topic as a reader understands it. */
export type DecodedCheckpoint =
  | { readonly kind: 'checkpoint'; readonly record: CheckpointRecord }
  | { readonly kind: 'foreign'; readonly why: string };

/** Reads a message of the checkpoints topic. Never throws; the note's signature is the verifier's to check. */
export const decodeCheckpoint = ({ key, value }: ConsumedMessage): DecodedCheckpoint => {
  const read = value === null ? null : members(value);
  if (read === null) return { kind: 'foreign', why: 'its value is no JSON object' };
  const [account, note, signedAt] = [read.text('account'), read.text('note'), read.text('signedAt')];
  const size = positionOf(read.text('size'));
  const root = bytesOf(read.text('root'));
  if (account !== key || note === '' || signedAt === '' || size === null || root.length !== 32) {
    return { kind: 'foreign', why: 'its members are those of no checkpoint' };
  }
  return { kind: 'checkpoint', record: { account, size, root, note, signedAt } };
};

interface Members {
  /** Empty where there is no such text. */
  text(name: string): string;
}

const members = (value: Uint8Array): Members | null => {
  try {
    const read: unknown = JSON.parse(asBuffer(value).toString('utf8'));
    if (typeof read !== 'object' || read === null) return null;
    const found = new Map(Object.entries(read));
    return {
      text: (name) => {
        const member: unknown = found.get(name);
        return typeof member === 'string' ? member : '';
      },
    };
  } catch {
    return null;
  }
};

/** Bytes that a message takes in a record batch, at most. */
export const messageSize = ({ key, value, headers }: OutgoingMessage): number => sizeOf(key, value ?? nothing, headers);

// A record's own lengths, deltas and attributes take less than 40 bytes, a header's two lengths less than 10.
const sizeOf = (key: string, value: Uint8Array, headers: Readonly<Record<string, string>>): number => {
  let size = 40 + Buffer.byteLength(key) + value.length;
  for (const name in headers) size += 10 + name.length + Buffer.byteLength(headers[name] ?? '');
  return size;
};

const json = (value: Readonly<Record<string, string | null>>): Buffer => Buffer.from(JSON.stringify(value));
const base64 = (bytes: Uint8Array): string => asBuffer(bytes).toString('base64');
const bytesOf = (text: string): Buffer => Buffer.from(text, 'base64');
const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
