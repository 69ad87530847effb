import type { JsonObject } from '#record';
import { parseJson } from '#record';
import type { EventRow } from './source.js';

/** The members of an event that index columns repeat, as the stored bytes say them, and its data. */
export interface EventHead {
  readonly account: unknown;
  readonly stream: unknown;
  readonly streamVersion: unknown;
  readonly id: unknown;
  readonly type: unknown;
  readonly schema: unknown;
  readonly recordedAt: unknown;
  readonly occurredAt: unknown;
  readonly sessionId?: unknown;
  readonly data: JsonObject;
}

/** Reads stored text. Null where it is no JSON object with data. */
export const readHead = (text: string): EventHead | null => {
  try {
    // Keys that are written with an escape are read by the second reader alone (see `parseJson`).
    const value: unknown = text.includes('\\') ? parseJson(text) : JSON.parse(text);
    if (typeof value !== 'object' || value === null) return null;
    const { data } = value as { data?: unknown };
    return typeof data === 'object' && data !== null ? (value as EventHead) : null;
  } catch {
    return null;
  }
};

/** The index columns of a row that do not say what its bytes say, by name. */
export const changedColumns = (row: EventRow, head: EventHead): readonly string[] => {
  const changed: string[] = [];
  if (row.account !== head.account) changed.push('account');
  if (row.stream !== head.stream) changed.push('stream');
  if (row.version !== head.streamVersion) changed.push('version');
  if (row.id !== head.id) changed.push('id');
  if (row.type !== head.type) changed.push('type');
  if (row.schema !== head.schema) changed.push('schema');
  if (row.recordedAt !== timeOf(head.recordedAt)) changed.push('recorded_at');
  if (row.occurredAt !== timeOf(head.occurredAt)) changed.push('occurred_at');
  if (row.sessionId !== (head.sessionId ?? null)) changed.push('session_id');
  return changed;
};

// The events of a commit share their times.
let lastText = '';
let lastTime = Number.NaN;

const timeOf = (value: unknown): number => {
  if (value === lastText) return lastTime;
  if (typeof value !== 'string') return Number.NaN;
  lastText = value;
  lastTime = Date.parse(value);
  return lastTime;
};
