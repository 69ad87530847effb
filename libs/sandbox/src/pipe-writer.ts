import { writeSync } from 'node:fs';
import type { Socket } from 'node:net';

/**
 * Writes to a pipe without the detour over a stream while the pipe takes it, which is nearly always; what does not fit
 * goes through the stream, and so does everything behind it until that is through. Order is kept.
 */
export class PipeWriter {
  readonly #socket: Socket;
  /** -1 where the system does not say it; then the stream does all. */
  readonly #fd: number;
  #isQueued = false;

  constructor(socket: Socket, fd: number) {
    this.#socket = socket;
    this.#fd = fd;
  }

  /** False when the other side is gone. */
  write(data: string | Buffer): boolean {
    if (this.#fd < 0 || this.#isQueued) {
      this.#queue(data);
      return true;
    }
    const bytes = typeof data === 'string' ? Buffer.from(data) : data;
    let sent = 0;
    try {
      sent = writeSync(this.#fd, bytes, 0, bytes.length);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return false;
    }
    if (sent < bytes.length) this.#queue(sent === 0 ? bytes : bytes.subarray(sent));
    return true;
  }

  #queue(data: string | Buffer): void {
    this.#isQueued = true;
    this.#socket.write(data, () => {
      this.#isQueued = this.#socket.writableLength > 0;
    });
  }
}

/** The file descriptor under a socket, -1 where there is none. */
export const fdOf = (socket: Socket): number => {
  const handle = (socket as { readonly _handle?: { readonly fd?: number } | null })._handle;
  return typeof handle?.fd === 'number' ? handle.fd : -1;
};
