import { hash, hkdfSync } from 'node:crypto';

const blockBytes = 64;

/** The key of row tags, ready for use: HMAC's two padded blocks (RFC 2104), so that a tag is two plain hashes. */
export interface RowTagKey {
  readonly inner: Uint8Array;
  readonly outer: Uint8Array;
}

/**
 * Derives the key of row tags from the root secret (as the platform's `derivedKey` does). The database holds that
 * secret only wrapped by the master key, and a rotation of the master key leaves it as it is.
 */
export const rowTagKey = (rootSecret: Uint8Array): RowTagKey => {
  const key = Buffer.from(hkdfSync('sha256', rootSecret, Buffer.alloc(0), 'hookledger/row-tag/v1', 32));
  const padded = (pad: number): Buffer =>
    Buffer.from(Array.from({ length: blockBytes }, (_, at) => (key[at] ?? 0) ^ pad));
  return { inner: padded(0x36), outer: padded(0x5c) };
};

/**
 * Tag of a row (events.md §5): HMAC-SHA-256(key, be32(length of account) ‖ account ‖ be64(account position) ‖ leaf),
 * account in UTF-8. The leaf stands for the bytes, so a tag says: these bytes, at this place, of this account.
 */
export const rowTag = (key: RowTagKey, account: string, position: bigint, leaf: Uint8Array): Buffer => {
  const tag = Buffer.alloc(32);
  rowTagger(key, account)(position, leaf, tag, 0);
  return tag;
};

/** Writes the tag of a row of one account into `into`, at `at`. */
export type RowTagger = (position: bigint, leaf: Uint8Array, into: Buffer, at: number) => void;

/** Tags rows of one account. */
export const rowTagger = (key: RowTagKey, account: string): RowTagger => {
  const name = Buffer.from(account, 'utf8');
  const message = Buffer.alloc(blockBytes + 4 + name.length + 8 + 32);
  message.set(key.inner, 0);
  message.writeUInt32BE(name.length, blockBytes);
  message.set(name, blockBytes + 4);
  const positionAt = blockBytes + 4 + name.length;
  const around = Buffer.alloc(blockBytes + 32);
  around.set(key.outer, 0);
  return (position, leaf, into, at) => {
    if (leaf.length !== 32) throw new RangeError('a leaf hash has 32 bytes');
    message.writeBigUInt64BE(position, positionAt);
    message.set(leaf, positionAt + 8);
    // Asked for as text: see `sha256`.
    around.write(hash('sha256', message, 'binary'), blockBytes, 'latin1');
    into.write(hash('sha256', around, 'binary'), at, 'latin1');
  };
};
