import { hkdfSync } from 'node:crypto';

/** A key for one purpose, derived from the master key: equal on all replicas, and none of them gives another away. */
export const derivedKey = (masterKey: Uint8Array, purpose: string): Buffer =>
  Buffer.from(hkdfSync('sha256', masterKey, Buffer.alloc(0), purpose, 32));
