import { createHash } from 'node:crypto';
import type { Json } from './json.js';

/**
 * Canonical JSON text: RFC 8785 key order (UTF-16 code units) with `JSON.stringify` escapes, so that lone surrogates
 * become `\udXXX` where RFC 8785 itself refuses them (events.md §1.2). Throws on undefined, functions and
 * non-finite numbers: an event never holds them.
 */
export const canonicalJson = (value: Json): string => {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new TypeError(`canonical JSON has no ${String(value)}`);
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) return `[${(value as readonly Json[]).map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object') throw new TypeError(`canonical JSON has no ${typeof value}`);
  const object = value as { readonly [key: string]: Json };
  const parts: string[] = [];
  for (const key of Object.keys(object).sort()) {
    const item = object[key];
    if (item === undefined) continue;
    parts.push(`${JSON.stringify(key)}:${canonicalJson(item)}`);
  }
  return `{${parts.join(',')}}`;
};

/** RFC 6962 §2.1 leaf hash: SHA-256(0x00 ‖ bytes). */
export const leafHash = (bytes: Uint8Array): Buffer => createHash('sha256').update(leafPrefix).update(bytes).digest();

const leafPrefix = Buffer.from([0]);

/** SHA-256 of text as UTF-8, hex: the digests that events and answers name. */
export const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');
