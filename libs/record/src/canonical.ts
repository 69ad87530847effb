import { createHash, hash } from 'node:crypto';
import type { Json } from './json.js';

/**
 * Canonical JSON text: RFC 8785 key order (UTF-16 code units) with `JSON.stringify` escapes, so that lone surrogates
 * become `\udXXX` where RFC 8785 itself refuses them (events.md §1.2). Members that are undefined are left out. Throws
 * on functions, symbols, bigints and non-finite numbers: an event never holds them.
 */
export const canonicalJson = (value: Json): string => {
  if (value === null) return 'null';
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'number') return numberText(value);
  if (typeof value === 'boolean') return value ? 'true' : 'false';
  if (typeof value !== 'object') throw new TypeError(`canonical JSON has no ${typeof value}`);
  return Array.isArray(value) ? arrayText(value as readonly Json[]) : objectText(value as JsonMembers);
};

interface JsonMembers {
  readonly [key: string]: Json | undefined;
}

const numberText = (value: number): string => {
  if (!Number.isFinite(value)) throw new TypeError(`canonical JSON has no ${String(value)}`);
  return JSON.stringify(value);
};

const arrayText = (items: readonly Json[]): string => {
  let text = '[';
  for (let index = 0; index < items.length; index += 1) {
    const item = items[index];
    if (item === undefined) throw new TypeError('canonical JSON has no undefined');
    text += index === 0 ? canonicalJson(item) : `,${canonicalJson(item)}`;
  }
  return `${text}]`;
};

const objectText = (object: JsonMembers): string => {
  const keys = Object.keys(object);
  if (!isSorted(keys)) keys.sort();
  let text = '';
  for (const key of keys) {
    const item = object[key];
    if (item === undefined) continue;
    text += text === '' ? `${keyText(key)}${canonicalJson(item)}` : `,${keyText(key)}${canonicalJson(item)}`;
  }
  return `{${text}}`;
};

const isSorted = (keys: readonly string[]): boolean => {
  for (let index = 1; index < keys.length; index += 1) {
    if ((keys[index - 1] ?? '') > (keys[index] ?? '')) return false;
  }
  return true;
};

// The platform's own keys are few and come again in every event.
const knownKeys = new Map<string, string>();

const keyText = (key: string): string => {
  const known = knownKeys.get(key);
  if (known !== undefined) return known;
  const text = `${JSON.stringify(key)}:`;
  if (knownKeys.size < 2_000 && key.length <= 64) knownKeys.set(key, text);
  return text;
};

/** The bytes that are stored of canonical text, with their leaf hash: RFC 6962 §2.1, SHA-256(0x00 ‖ bytes). */
export const storedBytes = (canonicalText: string): { readonly bytes: Buffer; readonly leaf: Buffer } => {
  // One buffer holds the prefix and the bytes, so that hashing is one call and copies nothing.
  const prefixed = Buffer.allocUnsafe(Buffer.byteLength(canonicalText) + 1);
  prefixed[0] = 0;
  prefixed.write(canonicalText, 1, 'utf8');
  return { bytes: prefixed.subarray(1), leaf: hash('sha256', prefixed, 'buffer') };
};

/** RFC 6962 §2.1 leaf hash: SHA-256(0x00 ‖ bytes). */
export const leafHash = (bytes: Uint8Array): Buffer => createHash('sha256').update(leafPrefix).update(bytes).digest();

const leafPrefix = Buffer.from([0]);

/** SHA-256 of text as UTF-8, hex: the digests that events and answers name. */
export const digestOf = (text: string): string => hash('sha256', text, 'hex');
