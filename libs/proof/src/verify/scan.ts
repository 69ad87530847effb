import type { NamedThings } from './named.js';
import type { EventRow } from './source.js';

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;
const comma = 0x2c;
const open = 0x7b;
const close = 0x7d;
const openList = 0x5b;
const closeList = 0x5d;
const dollar = 0x24;

/** The members that index columns repeat, as bits. */
const seenAll = 0b1_1111_1111;

/**
 * Goes once over the stored bytes of an event without taking them apart: true when they are an object whose members say
 * what the index columns of the row say, letter for letter. Names the blobs and keys that stand in it on the way. False
 * says only that a closer look is needed (`readHead`, `changedColumns`): an id with an escape or beyond ASCII ends here
 * too. This is what makes a verifier fast: no value of an event is ever built.
 */
export const fitsColumns = (row: EventRow, named: NamedThings): boolean => {
  const bytes = row.prefixed;
  const end = bytes.length;
  if (bytes[1] !== open || bytes[end - 1] !== close) return false;
  let seen = 0;
  let at = 2;
  for (;;) {
    if (bytes[at] !== quote) return false;
    const key = at + 1;
    at = textEnd(bytes, key, end);
    if (at === -1 || bytes[at + 1] !== colon) return false;
    const length = at - key;
    const value = at + 2;
    const bit = memberAt(bytes, key, length);
    if (bit === data) {
      at = skip(bytes, value, end, named);
      if (at === -1) return false;
      seen |= data;
    } else if (bytes[value] === quote) {
      at = textEnd(bytes, value + 1, end);
      if (at === -1) return false;
      if (bit !== 0 && !isText(bytes, value + 1, at, textOf(row, bit))) return false;
      at += 1;
      seen |= bit;
    } else if (bit === version || bit === schema) {
      at = value;
      let number = 0;
      for (let digit = (bytes[at] ?? 0) - 0x30; digit >= 0 && digit <= 9; digit = (bytes[at] ?? 0) - 0x30) {
        number = number * 10 + digit;
        at += 1;
      }
      if (at === value || number !== (bit === version ? row.version : row.schema)) return false;
      seen |= bit;
    } else {
      at = skip(bytes, value, end, named);
      if (at === -1) return false;
    }
    if (bytes[at] === close && at === end - 1) break;
    if (bytes[at] !== comma) return false;
    at += 1;
  }
  return seen === (row.sessionId === null ? seenAll : seenAll | session);
};

const account = 1;
const stream = 2;
const version = 4;
const id = 8;
const type = 16;
const schema = 32;
const recorded = 64;
const occurred = 128;
const data = 256;
const session = 512;

/** Which member a key is, by its length and what tells it from others of that length; 0 for one that has no column. */
const memberAt = (bytes: Buffer, at: number, length: number): number => {
  switch (length) {
    case 2:
      return isText(bytes, at, at + 2, 'id') ? id : 0;
    case 4:
      return isText(bytes, at, at + 4, 'data') ? data : isText(bytes, at, at + 4, 'type') ? type : 0;
    case 6:
      return isText(bytes, at, at + 6, 'schema') ? schema : isText(bytes, at, at + 6, 'stream') ? stream : 0;
    case 7:
      return isText(bytes, at, at + 7, 'account') ? account : 0;
    case 9:
      return isText(bytes, at, at + 9, 'sessionId') ? session : 0;
    case 10:
      return isText(bytes, at, at + 10, 'recordedAt')
        ? recorded
        : isText(bytes, at, at + 10, 'occurredAt')
          ? occurred
          : 0;
    case 13:
      return isText(bytes, at, at + 13, 'streamVersion') ? version : 0;
    default:
      return 0;
  }
};

const textOf = (row: EventRow, member: number): string => {
  switch (member) {
    case account:
      return row.account;
    case stream:
      return row.stream;
    case id:
      return row.id;
    case type:
      return row.type;
    case session:
      return row.sessionId ?? '';
    case recorded:
      return recordedTime.of(row.recordedAt);
    case occurred:
      return occurredTime.of(row.occurredAt);
    default:
      return '';
  }
};

/** A time as text. The events of a commit share theirs, and each of their two times repeats by itself. */
class TimeText {
  private time = Number.NaN;
  private text = '';

  of(time: number): string {
    if (time === this.time) return this.text;
    const date = new Date(time);
    this.time = time;
    this.text = Number.isNaN(date.getTime()) ? '' : date.toISOString();
    return this.text;
  }
}

const recordedTime = new TimeText();
const occurredTime = new TimeText();

/** The end of a text; -1 for one with an escape, which cannot be compared letter by letter, and for one without end. */
const textEnd = (bytes: Buffer, from: number, end: number): number => {
  for (let at = from; at < end; at += 1) {
    const byte = bytes[at];
    if (byte === quote) return at;
    if (byte === backslash) return -1;
  }
  return -1;
};

/** Whether the bytes are these letters, all of them ASCII. */
const isText = (bytes: Buffer, from: number, to: number, text: string): boolean => {
  if (to - from !== text.length) return false;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text.charCodeAt(at);
    if (bytes[from + at] !== letter || letter > 0x7e) return false;
  }
  return true;
};

/** Goes over a value; answers with what stands behind it, or -1 where it has no end. */
const skip = (bytes: Buffer, from: number, end: number, named: NamedThings): number => {
  let depth = 0;
  for (let at = from; at < end; at += 1) {
    const byte = bytes[at];
    if (byte === quote) {
      at += 1;
      while (at < end && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1;
      if (depth === 0) return at + 1;
    } else if (byte === open) {
      depth += 1;
      if (bytes[at + 2] === dollar && bytes[at + 1] === quote) at = nameSealed(bytes, at, named);
    } else if (byte === openList) {
      depth += 1;
    } else if (byte === close || byte === closeList) {
      // Of the object around: the value before it was a number, true, false or null.
      if (depth === 0) return at;
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (byte === comma && depth === 0) {
      return at;
    }
  }
  return -1;
};

const blobBegin = Buffer.from('{"$blob":"');
const sealedBegin = Buffer.from('{"$sealed":{"b":"');
const sealedRest = Buffer.from('","v":1}');
const keyBegin = Buffer.from('","k":"');

let lastKey = '';

/** Names what a sealed value names. Answers with a place in it from which to go on, still inside of its object. */
const nameSealed = (bytes: Buffer, at: number, named: NamedThings): number => {
  if (startsWith(bytes, at, blobBegin)) {
    const hash = at + blobBegin.length;
    if (!startsWith(bytes, hash + 64, keyBegin)) return at;
    const from = hash + 64 + keyBegin.length;
    const to = bytes.indexOf(quote, from);
    if (to === -1) return at;
    named.blob(bytes.toString('latin1', hash, hash + 64), keyText(bytes, from, to));
    return to;
  }
  if (!startsWith(bytes, at, sealedBegin)) return at;
  const sealedEnd = bytes.indexOf(quote, at + sealedBegin.length);
  if (sealedEnd === -1 || !startsWith(bytes, sealedEnd, keyBegin)) return at;
  const from = sealedEnd + keyBegin.length;
  const to = bytes.indexOf(quote, from);
  if (to === -1) return at;
  named.key(keyText(bytes, from, to));
  // The object inside was not counted, and is left here.
  return startsWith(bytes, to, sealedRest) ? to + sealedRest.length - 1 : at;
};

const keyText = (bytes: Buffer, from: number, to: number): string => {
  if (!isText(bytes, from, to, lastKey)) lastKey = bytes.toString('utf8', from, to);
  return lastKey;
};

const startsWith = (bytes: Buffer, at: number, text: Buffer): boolean => {
  for (let n = 0; n < text.length; n += 1) if (bytes[at + n] !== text[n]) return false;
  return true;
};
