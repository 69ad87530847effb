import type { KeyObject } from 'node:crypto';
import { createHmac, createSecretKey, hkdfSync, randomBytes } from 'node:crypto';
import { canonicalJson } from '#record';

/** A data key ready for use: one key for each purpose, and what is authenticated beside the content. */
export interface SealingKey {
  readonly id: string;
  readonly account: string;
  /** The scope in the words of the key table; a person is in it only as an HMAC. */
  readonly scope: string;
  readonly inline: PurposeKey;
  readonly blob: PurposeKey;
  /** Makes the nonces of blobs. */
  readonly blobNonce: KeyObject;
  /** Makes search hashes. */
  readonly search: KeyObject;
}

/** An encryption key with the associated data that goes with it. */
export interface PurposeKey {
  readonly key: KeyObject;
  readonly associated: Buffer;
}

/** What a data key is known by. */
export interface KeyName {
  readonly id: string;
  readonly account: string;
  readonly scope: string;
}

/** Version of the sealed format; part of what is authenticated. */
export const formatVersion = 1;

/** 256 random bits. */
export const newDataKey = (): Buffer => randomBytes(32);

/** Short, since every sealed value names its key. */
export const newKeyId = (): string => randomBytes(12).toString('base64url');

/** Derives a key for each purpose, so that random and derived nonces never meet under one key. */
export const sealingKey = (name: KeyName, dataKey: Buffer): SealingKey => ({
  ...name,
  inline: { key: derived(dataKey, 'inline'), associated: associatedData(name, 'inline') },
  blob: { key: derived(dataKey, 'blob'), associated: associatedData(name, 'blob') },
  blobNonce: derived(dataKey, 'blob nonce'),
  search: derived(dataKey, 'search'),
});

/** Account, scope, key id and format version (events.md §3), as text that can be read in one way only. */
export const associatedData = ({ id, account, scope }: KeyName, purpose: string): Buffer =>
  Buffer.from(canonicalJson(['hookledger', formatVersion, purpose, account, scope, id]));

/** HMAC-SHA-256 of a text, hex. */
export const hmacOf = (key: KeyObject, text: string): string =>
  createHmac('sha256', key).update(JSON.stringify(text)).digest('hex');

const derived = (dataKey: Buffer, purpose: string): KeyObject =>
  createSecretKey(Buffer.from(hkdfSync('sha256', dataKey, '', `hookledger ${purpose} v${String(formatVersion)}`, 32)));
