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
  return String(value);
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
  const { sorted, texts } = orderOf(Object.keys(object));
  let text = '{';
  for (let index = 0; index < sorted.length; index += 1) {
    const item = object[sorted[index] ?? ''];
    if (item === undefined) continue;
    text +=
      text === '{' ? `${texts[index] ?? ''}${canonicalJson(item)}` : `,${texts[index] ?? ''}${canonicalJson(item)}`;
  }
  return `${text}}`;
};

/** Keys as an object gave them, as they must be written, and their text with the colon. */
interface KeyOrder {
  readonly given: readonly string[];
  readonly sorted: readonly string[];
  readonly texts: readonly string[];
}

// Events come in few shapes: sorting the keys of each object again took more time than all the rest.
const knownOrders = new Map<string, KeyOrder[]>();
let orders = 0;
const mostOrders = 1_000;

const orderOf = (keys: readonly string[]): KeyOrder => {
  const first = keys[0] ?? '';
  const alike = knownOrders.get(first);
  const known = alike?.find(({ given }) => sameKeys(given, keys));
  if (known !== undefined) return known;
  const sorted = [...keys].sort();
  const order = { given: keys, sorted, texts: sorted.map((key) => `${JSON.stringify(key)}:`) };
  if (orders < mostOrders && keys.length <= 50) {
    orders += 1;
    if (alike === undefined) knownOrders.set(first, [order]);
    else alike.push(order);
  }
  return order;
};

const sameKeys = (one: readonly string[], other: readonly string[]): boolean => {
  if (one.length !== other.length) return false;
  for (let index = 0; index < one.length; index += 1) if (one[index] !== other[index]) return false;
  return true;
};

/** The bytes that are stored of canonical text, with their leaf hash: RFC 6962 §2.1, SHA-256(0x00 ‖ bytes). */
export const storedBytes = (canonicalText: string): { readonly bytes: Buffer; readonly leaf: Buffer } => {
  // One buffer holds the prefix and the bytes, so that hashing is one call and copies nothing.
  const prefixed = Buffer.allocUnsafe(Buffer.byteLength(canonicalText) + 1);
  prefixed[0] = 0;
  prefixed.write(canonicalText, 1, 'utf8');
  // Asked for as text, since Node hands that over faster than bytes.
  return { bytes: prefixed.subarray(1), leaf: Buffer.from(hash('sha256', prefixed, 'binary'), 'latin1') };
};

/** RFC 6962 §2.1 leaf hash: SHA-256(0x00 ‖ bytes). */
export const leafHash = (bytes: Uint8Array): Buffer => createHash('sha256').update(leafPrefix).update(bytes).digest();

const leafPrefix = Buffer.from([0]);

/** SHA-256 of text as UTF-8, hex: the digests that events and answers name. */
export const digestOf = (text: string): string => hash('sha256', text, 'hex');
