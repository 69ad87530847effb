import type { Sealed } from '#record';

/** Values of rows as the driver gives them, in the form that answers have. */
export const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** `bigint` comes as text. */
export const numberOrNull = (value: unknown): number | null =>
  value === null || value === undefined ? null : Number(value);

export const instantOrNull = (value: unknown): string | null => (value instanceof Date ? value.toISOString() : null);

/** A sealed value that a column keeps as JSON text. */
export const sealedOrNull = (value: unknown): Sealed | null =>
  typeof value === 'string' ? (JSON.parse(value) as Sealed) : null;
