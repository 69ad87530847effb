import { createHmac, hkdfSync } from 'node:crypto';
import { canonicalJson } from '#record';
import { sameBytes } from './hashes.js';

/** What table `log_format` says of a log. */
export interface LogFormat {
  /** Id of the log: a UUID, made at its first start. */
  readonly log: string;
  /** Global position up to which rows were there before rows had tags; -1 = every row has one. */
  readonly untaggedUntil: bigint;
}

/** The program's word for a log's format: HMAC under a key derived from the root secret. */
export const logFormatMac = (rootSecret: Uint8Array, { log, untaggedUntil }: LogFormat): Buffer => {
  const key = Buffer.from(hkdfSync('sha256', rootSecret, Buffer.alloc(0), 'hookledger/log-format/v1', 32));
  return createHmac('sha256', key)
    .update(canonicalJson([log, String(untaggedUntil)]))
    .digest();
};

/** Whether the format is the one that the program gave its word for. */
export const isLogFormat = (rootSecret: Uint8Array, format: LogFormat, mac: Uint8Array): boolean =>
  sameBytes(logFormatMac(rootSecret, format), mac);
