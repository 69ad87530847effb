import { createCipheriv, createDecipheriv, createHmac, hash, randomFillSync } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { BlobWrite } from '#event-store';
import type { Sealed } from '#record';
import type { PurposeKey, SealingKey } from './sealing-key.js';
import { formatVersion } from './sealing-key.js';

/**
 * A sealed value is nonce (12) ‖ AES-256-GCM of (content format ‖ content) ‖ tag (16). The content is JSON text as
 * UTF-8, stored or deflated.
 */
const nonceBytes = 12;
const tagBytes = 16;
const overhead = nonceBytes + 1 + tagBytes;
const stored = 0;
const deflated = 1;
/** Above this many bytes of text a value goes to a blob of its own. */
const inlineLimit = 1_024;
/** No text that came over HTTP is longer; a longer one is not ours. */
const longestText = 256 * 1024 * 1024;

/** An inline value, or a blob with the value that names it. */
export interface SealedText {
  readonly sealed: Sealed;
  readonly blob: BlobWrite | null;
}

/** Seals JSON text under a key. */
export const sealText = (key: SealingKey, jsonText: string): SealedText => {
  const text = wellFormed(jsonText);
  const size = Buffer.byteLength(text);
  return size <= inlineLimit ? inlineValue(key, text, size) : blobValue(key, text, size);
};

const inlineValue = (key: SealingKey, text: string, size: number): SealedText => {
  const content = Buffer.allocUnsafe(size + 1);
  content[0] = stored;
  content.write(text, 1, 'utf8');
  const b = encrypt(key.inline, randomNonce(), content).toString('base64');
  return { sealed: { $sealed: { v: formatVersion, k: key.id, b } }, blob: null };
};

const blobValue = (key: SealingKey, text: string, size: number): SealedText => {
  const content = compressed(Buffer.from(text, 'utf8'));
  const bytes = encrypt(key.blob, blobNonce(key, content), content);
  const blobHash = hash('sha256', bytes, 'hex');
  return { sealed: { $blob: blobHash, k: key.id, size }, blob: { hash: blobHash, bytes, keyId: key.id } };
};

/** The text of an inline value. Throws when it was not sealed under this key or was changed since. */
export const openInline = (key: SealingKey, base64: string): string =>
  textOf(decrypt(key.inline, Buffer.from(base64, 'base64')));

/** The text of a blob. Throws when it was not sealed under this key or was changed since. */
export const openBlob = (key: SealingKey, bytes: Uint8Array): string => textOf(decrypt(key.blob, bytes));

/** Bytes of the sealed JSON text, without opening it. */
export const sealedSize = (sealed: Sealed): number => {
  if ('$blob' in sealed) return sealed.size;
  return Math.max(Buffer.byteLength(sealed.$sealed.b, 'base64') - overhead, 0);
};

const encrypt = ({ key, associated }: PurposeKey, nonce: Buffer, content: Buffer): Buffer => {
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes });
  cipher.setAAD(associated);
  const body = cipher.update(content);
  cipher.final();
  return Buffer.concat([nonce, body, cipher.getAuthTag()], nonceBytes + body.length + tagBytes);
};

const decrypt = ({ key, associated }: PurposeKey, bytes: Uint8Array): Buffer => {
  if (bytes.length < overhead) throw new Error('a sealed value is cut short');
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes });
  decipher.setAAD(associated);
  decipher.setAuthTag(bytes.subarray(bytes.length - tagBytes));
  const content = decipher.update(bytes.subarray(nonceBytes, bytes.length - tagBytes));
  decipher.final();
  return content;
};

const textOf = (content: Buffer): string => {
  const body = content.subarray(1);
  if (content[0] === stored) return body.toString('utf8');
  if (content[0] === deflated) return inflateRawSync(body, { maxOutputLength: longestText }).toString('utf8');
  throw new Error('a sealed value has a content format that this version does not know');
};

const compressed = (plain: Buffer): Buffer => {
  const smaller = deflateRawSync(plain, { level: 1 });
  return smaller.length < plain.length
    ? Buffer.concat([Buffer.from([deflated]), smaller])
    : Buffer.concat([Buffer.from([stored]), plain]);
};

/** Equal text in one scope gives one blob, and a nonce never serves two inputs. */
const blobNonce = (key: SealingKey, content: Buffer): Buffer => {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(key.blob.associated.length);
  const mac = createHmac('sha256', key.blobNonce).update(length).update(key.blob.associated).update(content).digest();
  return mac.subarray(0, nonceBytes);
};

// One call to the random source serves many nonces; each is copied into its value before the pool is filled again.
const noncePool = Buffer.alloc(nonceBytes * 512);
let nextNonce = noncePool.length;

const randomNonce = (): Buffer => {
  if (nextNonce === noncePool.length) {
    randomFillSync(noncePool);
    nextNonce = 0;
  }
  nextNonce += nonceBytes;
  return noncePool.subarray(nextNonce - nonceBytes, nextNonce);
};

// UTF-8 has no lone surrogates; in JSON text they can only stand inside strings, where an escape says the same.
const wellFormed = (jsonText: string): string =>
  jsonText.isWellFormed()
    ? jsonText
    : jsonText.replace(/[\ud800-\udfff]/gu, (lone) => `\\u${lone.charCodeAt(0).toString(16)}`);
