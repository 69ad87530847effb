/**
 * What crosses the pipe between the API process and a sandbox child: arrays of plain JSON values, one after another.
 *
 * A message is one line of JSON. Long strings at its top level travel behind the line as raw bytes, so that a value of
 * 8 MiB is neither escaped nor scanned. Text is lossless: `JSON.stringify` writes a lone surrogate as an escape, and a
 * long string that UTF-8 cannot carry travels as UTF-16.
 */
export type Cell = string | number | boolean | null | readonly Cell[];
export type Message = readonly Cell[];

/** Shorter strings are cheaper inside the line. */
const RAW_FROM = 1024;

/** Longest line and longest raw part that a peer may send, bytes. A result is 8 MiB at most, 16 MiB in UTF-16. */
const MAX_BYTES = 64 * 1024 * 1024;

/** `[cell, bytes, encoding]` of one string behind the line. */
type Tail = readonly [cell: number, bytes: number, encoding: 'utf8' | 'utf16le'];

/** Gathers messages until they are taken as one write. */
export class Outgoing {
  #parts: (string | Buffer)[] = [];
  #hasBytes = false;

  get isEmpty(): boolean {
    return this.#parts.length === 0;
  }

  push(message: Message): void {
    const long = message.some((cell) => typeof cell === 'string' && cell.length >= RAW_FROM);
    if (!long) {
      this.#parts.push(`[0,${JSON.stringify(message)}]\n`);
      return;
    }
    const tails: Tail[] = [];
    const bodies: Buffer[] = [];
    const cells = message.map((cell, index) => {
      if (typeof cell !== 'string' || cell.length < RAW_FROM) return cell;
      const encoding = cell.isWellFormed() ? 'utf8' : 'utf16le';
      const body = Buffer.from(cell, encoding);
      tails.push([index, body.length, encoding]);
      bodies.push(body);
      return null;
    });
    this.#parts.push(`[${JSON.stringify(tails)},${JSON.stringify(cells)}]\n`, ...bodies);
    this.#hasBytes = true;
  }

  /** Everything pushed since the last time, ready to be written. */
  take(): string | Buffer {
    const parts = this.#parts;
    const hasBytes = this.#hasBytes;
    this.#parts = [];
    this.#hasBytes = false;
    if (!hasBytes) return parts.length === 1 ? (parts[0] as string) : parts.join('');
    return Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
  }
}

/** Reads messages out of chunks of any size, in time linear in their size. Throws when the peer breaks the framing. */
export class Incoming {
  readonly #onMessage: (message: Message) => void;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #tails: readonly Tail[] = [];
  #cells: Cell[] | null = null;
  #tailBytes = 0;

  constructor(onMessage: (message: Message) => void) {
    this.#onMessage = onMessage;
  }

  /** `chunk` may be reused by the caller afterwards. */
  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      at = this.#cells === null ? this.#line(chunk, at) : this.#tail(chunk, at);
    }
  }

  #line(chunk: Buffer, from: number): number {
    const end = chunk.indexOf(10, from);
    if (end < 0) {
      this.#hold(chunk, from, chunk.length);
      return chunk.length;
    }
    let line: string;
    if (this.#heldBytes === 0) {
      line = chunk.toString('utf8', from, end);
    } else {
      this.#hold(chunk, from, end);
      line = this.#release().toString('utf8');
    }
    const [tails, cells] = JSON.parse(line) as [0 | readonly Tail[], Cell[]];
    if (tails === 0) {
      this.#onMessage(cells);
      return end + 1;
    }
    this.#tails = tails;
    this.#cells = cells;
    this.#tailBytes = tails.reduce((sum, [, bytes]) => sum + bytes, 0);
    if (this.#tailBytes > MAX_BYTES) throw new RangeError('A message is larger than the sandbox allows.');
    return end + 1;
  }

  #tail(chunk: Buffer, from: number): number {
    const end = Math.min(chunk.length, from + this.#tailBytes - this.#heldBytes);
    if (this.#heldBytes + (end - from) < this.#tailBytes) {
      this.#hold(chunk, from, end);
      return end;
    }
    let bytes = chunk.subarray(from, end);
    if (this.#heldBytes > 0) {
      this.#hold(chunk, from, end);
      bytes = this.#release();
    }
    const cells = this.#cells ?? [];
    let at = 0;
    for (const [cell, size, encoding] of this.#tails) {
      cells[cell] = bytes.toString(encoding, at, at + size);
      at += size;
    }
    this.#cells = null;
    this.#onMessage(cells);
    return end;
  }

  #hold(chunk: Buffer, from: number, to: number): void {
    this.#heldBytes += to - from;
    if (this.#heldBytes > MAX_BYTES) throw new RangeError('A message is larger than the sandbox allows.');
    this.#held.push(Buffer.from(chunk.subarray(from, to)));
  }

  #release(): Buffer {
    const bytes = Buffer.concat(this.#held, this.#heldBytes);
    this.#held = [];
    this.#heldBytes = 0;
    return bytes;
  }
}
