import type { EventType, RecordedEvent } from './event.js';
import type { JsonObject } from './json.js';
import { parseJson } from './parse.js';

/** Lifts `data` of one schema version to the next. Pure, total, and never changed once released. */
export type Upcaster = (data: JsonObject) => JsonObject;

/** The first entry lifts version 1 to 2, and so on. A type that is not here is at version 1. */
export type Upcasters = { readonly [type in EventType]?: readonly Upcaster[] };

const upcasters: Upcasters = {};

/** The schema version that new events of this type are written with, from 1. */
export const schemaVersionOf = (type: EventType): number => (upcasters[type]?.length ?? 0) + 1;

/**
 * An event from its stored bytes, in the shape of its type's newest schema. The bytes stay what they are; a version
 * newer than this program knows is handed on unchanged.
 */
export const readEvent = (bytes: Uint8Array): RecordedEvent => {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  return lift(parseJson(text) as unknown as RecordedEvent, upcasters);
};

/** Applies the upcasters that an event of an older schema still needs. */
export const lift = (event: RecordedEvent, known: Upcasters): RecordedEvent => {
  const missing = known[event.type]?.slice(event.schema - 1) ?? [];
  if (missing.length === 0) return event;
  const data = missing.reduce((lifted, upcast) => upcast(lifted), event.data);
  return { ...event, schema: event.schema + missing.length, data };
};
