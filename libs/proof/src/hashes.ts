import { hash } from 'node:crypto';

/** Length of a hash of the tree: SHA-256. */
export const hashBytes = 32;

/** RFC 6962 §2.1: the root of a tree without leaves, SHA-256 of nothing. */
export const emptyRoot: Buffer = hash('sha256', '', 'buffer');

// One call of the library hashes one buffer, and this program hashes one node at a time.
const pair = Buffer.alloc(1 + 2 * hashBytes, 1);

/** RFC 6962 §2.1: SHA-256(0x01 ‖ left ‖ right). */
export const nodeHash = (left: Uint8Array, right: Uint8Array): Buffer => {
  pair.set(left, 1);
  pair.set(right, 1 + hashBytes);
  return hash('sha256', pair, 'buffer');
};

/** Whether two byte strings are the same. */
export const sameBytes = (one: Uint8Array, other: Uint8Array): boolean =>
  one.length === other.length && one.every((byte, index) => byte === other[index]);
