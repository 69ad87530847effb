import { createHmac, timingSafeEqual } from 'node:crypto';
import { derivedKey } from './derived-key.js';
import { Problem, queryPointer } from './problem.js';

/** Where a page ended: what the next page's query compares with. Positions go as decimal text. */
export type CursorPosition = readonly (string | number | boolean | null)[];

const macBytes = 16;

/**
 * Opaque cursors, bound to the filter they were made for and sealed by an HMAC, so that a changed byte or another
 * filter is a clear 400 and never another page (api.md, paging). The key is derived from the master key: a cursor made
 * by one replica is good on all.
 */
export class Cursors {
  private readonly key: Buffer;

  constructor(masterKey: Uint8Array) {
    this.key = derivedKey(masterKey, 'hookledger/cursor/v1');
  }

  /** `filter` is any text that says the whole question: route, account and every filter, limit left out. */
  encode(filter: string, position: CursorPosition): string {
    const payload = Buffer.from(JSON.stringify(position), 'utf8');
    return Buffer.concat([this.mac(filter, payload), payload]).toString('base64url');
  }

  /** Throws 400 `bad_cursor` for anything that `encode` did not make for this filter. */
  decode(filter: string, cursor: string): CursorPosition {
    const bytes = Buffer.from(cursor, 'base64url');
    const payload = bytes.subarray(macBytes);
    // The last character of base64url has bits that mean nothing; only the spelling that we gave out is ours.
    const intact =
      bytes.length > macBytes &&
      bytes.toString('base64url') === cursor &&
      timingSafeEqual(bytes.subarray(0, macBytes), this.mac(filter, payload));
    if (intact) return JSON.parse(payload.toString('utf8')) as CursorPosition;
    throw new Problem(400, 'bad_cursor', 'The cursor was changed, or was made for another query.', [
      { pointer: queryPointer('cursor'), reason: 'not a cursor of this query; leave it out to begin again' },
    ]);
  }

  private mac(filter: string, payload: Buffer): Buffer {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(Buffer.byteLength(filter));
    return createHmac('sha256', this.key).update(length).update(filter).update(payload).digest().subarray(0, macBytes);
  }
}
