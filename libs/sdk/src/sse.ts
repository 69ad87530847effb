/** One block of server-sent events. */
export interface SseBlock {
  readonly event: string;
  readonly id: string | null;
  /** Null: the block has no data. */
  readonly data: string | null;
  /** What it asks to wait before the next connection, ms. */
  readonly retryMs: number | null;
}

/**
 * Reads server-sent events (WHATWG) out of text that comes in any pieces. What is not ended by an empty line when the
 * text ends was cut off, and is never given.
 */
export class SseReader {
  private rest = '';
  private lines: string[] = [];

  /** The blocks that this piece ends. */
  read(piece: string): readonly SseBlock[] {
    const text = this.rest + piece;
    // A line may end with LF, CRLF or CR; a CR at the very end may be the first half of a CRLF.
    const whole = text.endsWith('\r') ? text.slice(0, -1) : text;
    const lines = whole.split(/\r\n|\n|\r/u);
    this.rest = (lines.pop() ?? '') + text.slice(whole.length);
    const blocks: SseBlock[] = [];
    for (const line of lines) {
      if (line !== '') {
        this.lines.push(line);
      } else if (this.lines.length > 0) {
        blocks.push(blockOf(this.lines));
        this.lines = [];
      }
    }
    return blocks;
  }
}

const blockOf = (lines: readonly string[]): SseBlock => {
  let event = 'message';
  let id: string | null = null;
  let retryMs: number | null = null;
  const data: string[] = [];
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + (line[colon + 1] === ' ' ? 2 : 1));
    if (name === 'event') event = value;
    if (name === 'id') id = value;
    if (name === 'data') data.push(value);
    if (name === 'retry' && /^\d{1,9}$/u.test(value)) retryMs = Number(value);
  }
  return { event, id, data: data.length === 0 ? null : data.join('\n'), retryMs };
};
