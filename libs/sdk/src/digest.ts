import type { Json } from './json.js';

/**
 * RFC 8785: members in the order of their UTF-16 code units, no white space. Lone surrogates, which that RFC refuses,
 * are written as `JSON.stringify` does, as the server writes them.
 */
export const canonicalJson = (value: Json): string => {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${(value as readonly Json[]).map(canonicalJson).join(',')}]`;
  const object = value as { readonly [key: string]: Json | undefined };
  const members = Object.keys(object)
    .sort()
    .flatMap((key) => (object[key] === undefined ? [] : [`${JSON.stringify(key)}:${canonicalJson(object[key])}`]));
  return `{${members.join(',')}}`;
};

/** SHA-256, in hex, of the canonical JSON of a value: what `effect` compares. */
export const digestOf = async (value: Json): Promise<string> => {
  const bytes = new TextEncoder().encode(canonicalJson(value));
  const hash = await globalThis.crypto.subtle.digest('SHA-256', bytes);
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('');
};
