import type { NewEvent, RecordedEvent } from '#record';
import { asData, canonicalJson, schemaVersionOf, storedBytes } from '#record';
import type { Append, StreamWrite } from './event-store.js';
import { timeOrderedIds } from './time-ordered-ids.js';
import { LogRefused } from './event-store.js';

/** A stream's events with what the log gives them but their place in the stream. */
export interface StreamDraft {
  readonly account: string;
  readonly stream: string;
  readonly expectedVersion: number | 'any';
  readonly events: readonly EventDraft[];
}

/** An event that waits for its stream version. */
export interface EventDraft {
  readonly id: string;
  readonly recordedAt: string;
  readonly given: NewEvent;
}

/** An event as it will stand: serialised once, hashed once. */
export interface WrittenEvent {
  readonly event: RecordedEvent;
  readonly bytes: Buffer;
  readonly leaf: Buffer;
}

const nextId = timeOrderedIds();

/**
 * Gives ids and times. Throws `LogRefused` for what no log could hold, so that it never meets the appends of others.
 */
export const draftStreams = (append: Append, now: Date): readonly StreamDraft[] => {
  const recordedAt = now.toISOString();
  refuseUnlessText('account', append.account);
  const drafts = append.writes
    .filter((write) => write.events.length > 0)
    .map((write) => draftStream(append.account, write, recordedAt));
  if (new Set(drafts.map((draft) => draft.stream)).size !== drafts.length) {
    throw new LogRefused('an append names a stream twice');
  }
  if (drafts.length === 0 && (append.commands ?? []).length === 0) throw new LogRefused('an append of nothing');
  return drafts;
};

const draftStream = (account: string, write: StreamWrite, recordedAt: string): StreamDraft => {
  refuseUnlessText('stream', write.stream);
  const events = write.events.map((given) => {
    if (given.sessionId !== undefined) refuseUnlessText('sessionId', given.sessionId);
    if (given.occurredAt !== undefined) refuseUnlessTime(given.occurredAt);
    return { id: nextId(), recordedAt, given };
  });
  return { account, stream: write.stream, expectedVersion: write.expectedVersion, events };
};

/** Serialises a stream's events for the place after `version`. */
export const writeEvents = (draft: StreamDraft, version: number): readonly WrittenEvent[] =>
  draft.events.map(({ id, recordedAt, given }, index) => {
    const event: RecordedEvent = {
      ...given,
      id,
      recordedAt,
      occurredAt: given.occurredAt ?? recordedAt,
      schema: schemaVersionOf(given.type),
      account: draft.account,
      stream: draft.stream,
      streamVersion: version + index + 1,
    };
    return { event, ...storedBytes(canonicalJson(asData(event))) };
  });

/** Index columns are text, which Postgres keeps only without NUL and well-formed. */
const refuseUnlessText = (field: string, text: string): void => {
  if (text === '' || text.length > 1_000 || !text.isWellFormed() || text.includes('\0')) {
    throw new LogRefused(`${field} cannot be an id`);
  }
};

const rfc3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/u;

// The events of an append mostly share one time.
let lastGoodTime = '';

const refuseUnlessTime = (text: string): void => {
  if (text === lastGoodTime) return;
  // Round trip: a date that does not exist would be moved by some readers and refused by others.
  const time = rfc3339.test(text) ? new Date(text) : new Date(Number.NaN);
  if (Number.isNaN(time.getTime()) || time.toISOString() !== text || text.startsWith('0000')) {
    throw new LogRefused('occurredAt is not an RFC 3339 time in UTC with milliseconds');
  }
  lastGoodTime = text;
};
