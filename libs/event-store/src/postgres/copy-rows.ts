/** Where the fields of a row are in a chunk of binary COPY; a length of -1 is null. */
export interface CopiedRow {
  readonly chunk: Buffer;
  readonly starts: readonly number[];
  readonly lengths: readonly number[];
}

// PGCOPY\n\377\r\n\0, flags, and the length of an extension that no server sends.
const headerBytes = 19;
/** So much is put together before its rows are read. */
const chunkBytes = 256 * 1024;

/**
 * Reads what `COPY … TO STDOUT (FORMAT binary)` sends, in whatever pieces it comes, and makes a value of each row.
 * `read` must take what it needs at once: the places it is given are those of the next row afterwards.
 */
export async function* readCopiedRows<T>(
  pieces: AsyncIterable<Buffer>,
  read: (row: CopiedRow) => T,
): AsyncIterable<readonly T[]> {
  const starts: number[] = [];
  const lengths: number[] = [];
  let waiting: Buffer[] = [];
  let size = 0;
  let needed = headerBytes;
  let at = headerBytes;
  const take = (): readonly T[] => {
    const [only] = waiting;
    const chunk = waiting.length === 1 && only !== undefined ? only : Buffer.concat(waiting, size);
    const rows: T[] = [];
    for (;;) {
      needed = placeFields(chunk, at, starts, lengths);
      if (needed > chunk.length) break;
      const end = needed;
      if (starts.length === 0) {
        at = end;
        break;
      }
      rows.push(read({ chunk, starts, lengths }));
      at = end;
    }
    const rest = chunk.subarray(Math.min(at, chunk.length));
    needed -= chunk.length - rest.length;
    at = 0;
    waiting = rest.length === 0 ? [] : [rest];
    size = rest.length;
    return rows;
  };
  for await (const piece of pieces) {
    waiting.push(piece);
    size += piece.length;
    // A long value comes in many pieces, which are put together once; and many short rows are read at once.
    if (size < Math.max(needed, chunkBytes)) continue;
    const rows = take();
    if (rows.length > 0) yield rows;
  }
  if (size < needed) return;
  const rows = take();
  if (rows.length > 0) yield rows;
}

/** Notes where a row's fields are; answers with its end, or with how far the chunk must at least reach. */
const placeFields = (chunk: Buffer, from: number, starts: number[], lengths: number[]): number => {
  starts.length = 0;
  lengths.length = 0;
  if (from + 2 > chunk.length) return Math.max(from + 2, chunk.length + 1);
  const count = chunk.readInt16BE(from);
  let at = from + 2;
  // The end of the data has a count of -1.
  for (let field = 0; field < count; field += 1) {
    if (at + 4 > chunk.length) return at + 4;
    const length = chunk.readInt32BE(at);
    at += 4;
    starts.push(at);
    lengths.push(length);
    if (length > 0) at += length;
  }
  return at;
};

/** An int8, rounded beyond 2^53. */
export const int8At = ({ chunk, starts }: CopiedRow, field: number): number => {
  const at = starts[field] ?? 0;
  return chunk.readInt32BE(at) * 2 ** 32 + chunk.readUInt32BE(at + 4);
};

export const int4At = ({ chunk, starts }: CopiedRow, field: number): number => chunk.readInt32BE(starts[field] ?? 0);

export const int2At = ({ chunk, starts }: CopiedRow, field: number): number => chunk.readInt16BE(starts[field] ?? 0);

export const textAt = ({ chunk, starts, lengths }: CopiedRow, field: number): string => {
  const at = starts[field] ?? 0;
  return chunk.toString('utf8', at, at + (lengths[field] ?? 0));
};

/** A text that was read before, with its bytes. */
interface KnownText {
  readonly bytes: Buffer;
  readonly text: string;
}

/** Texts that a reader keeps. */
const keptTexts = 8;

/**
 * Reads a column that often says again what it said a few rows before: comparing the bytes takes a part of the time that
 * making a text of them does.
 */
export const repeatingText = (): ((row: CopiedRow, field: number) => string) => {
  const known: KnownText[] = [];
  let next = 0;
  return (row, field) => {
    const { chunk, starts, lengths } = row;
    const [at, length] = [starts[field] ?? 0, lengths[field] ?? 0];
    for (const { bytes, text } of known) if (isSame(bytes, chunk, at, length)) return text;
    const text = textAt(row, field);
    known[next] = { bytes: Buffer.from(chunk.subarray(at, at + length)), text };
    next = (next + 1) % keptTexts;
    return text;
  };
};

const isSame = (bytes: Buffer, chunk: Buffer, at: number, length: number): boolean => {
  if (bytes.length !== length) return false;
  // Names that begin alike differ at their ends.
  for (let n = length - 1; n >= 0; n -= 1) if (bytes[n] !== chunk[at + n]) return false;
  return true;
};

/** One character for each byte; null for null. */
export const latin1At = ({ chunk, starts, lengths }: CopiedRow, field: number): string | null => {
  const [at, length] = [starts[field] ?? 0, lengths[field] ?? -1];
  return length < 0 ? null : chunk.toString('latin1', at, at + length);
};

export const isNullAt = ({ lengths }: CopiedRow, field: number): boolean => (lengths[field] ?? -1) < 0;

export const uuidAt = ({ chunk, starts }: CopiedRow, field: number): string => {
  let at = starts[field] ?? 0;
  for (const place of digitPlaces) {
    const byte = chunk[at] ?? 0;
    digits[place] = hexDigits[byte >> 4] ?? 0;
    digits[place + 1] = hexDigits[byte & 15] ?? 0;
    at += 1;
  }
  return digits.toString('latin1');
};

const hexDigits = Buffer.from('0123456789abcdef');
const digits = Buffer.from('00000000-0000-0000-0000-000000000000');
/** Where the two digits of each byte stand. */
const digitPlaces = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

const year2000 = 946_684_800_000;

/** A timestamptz in ms since 1970. */
export const timeAt = (row: CopiedRow, field: number): number => int8At(row, field) / 1_000 + year2000;

/** Bytes, as a part of what the database sent. */
export const bytesAt = ({ chunk, starts, lengths }: CopiedRow, field: number): Buffer => {
  const at = starts[field] ?? 0;
  return chunk.subarray(at, at + Math.max(lengths[field] ?? 0, 0));
};

/** Bytes with a zero byte before them, in one piece: their length, which was read before, stood there. */
export const prefixedAt = ({ chunk, starts, lengths }: CopiedRow, field: number): Buffer => {
  const at = starts[field] ?? 0;
  chunk[at - 1] = 0;
  return chunk.subarray(at - 1, at + Math.max(lengths[field] ?? 0, 0));
};
