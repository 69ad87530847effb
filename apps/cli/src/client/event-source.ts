/** A block of a stream of server-sent events: an id, data, or both. */
export interface Block {
  readonly id: string | null;
  readonly data: string | null;
}

/**
 * Cuts a stream of server-sent events into blocks, whatever pieces it comes in (HTML, "Server-sent events", 9.2.6). A
 * block that was not finished when the stream broke off is not given: what it announced comes again.
 */
export class BlockReader {
  private rest = '';
  private lastWasReturn = false;
  private id: string | null = null;
  private data: string[] = [];

  /** The blocks that this piece finishes. */
  read(piece: string): readonly Block[] {
    const blocks: Block[] = [];
    for (const line of this.lines(piece)) {
      if (line !== '') {
        this.take(line);
        continue;
      }
      if (this.id !== null || this.data.length > 0) blocks.push(this.block());
      this.id = null;
      this.data = [];
    }
    return blocks;
  }

  private block(): Block {
    return { id: this.id, data: this.data.length === 0 ? null : this.data.join('\n') };
  }

  /** Lines end with CRLF, LF or CR; a CR at the end of a piece may have its LF in the next. */
  private lines(piece: string): readonly string[] {
    const text = this.lastWasReturn && piece.startsWith('\n') ? piece.slice(1) : piece;
    if (piece !== '') this.lastWasReturn = piece.endsWith('\r');
    const lines = (this.rest + text).split(/\r\n|\n|\r/u);
    this.rest = lines.pop() ?? '';
    return lines;
  }

  private take(line: string): void {
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /u, '');
    if (field === 'id' && !value.includes('\0')) this.id = value;
    if (field === 'data') this.data.push(value);
  }
}
