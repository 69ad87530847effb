import type { WebSocket } from 'ws';
import { everything, type Serves } from './frames.js';

/** A call that was sent over a connection and has no answer yet. */
export interface SentCall {
  readonly callId: string;
  readonly member: string;
  /** The frame, to be sent again after a reconnect. */
  readonly frame: string;
  /** The process whose chain waits. */
  readonly origin: string;
  /** Milliseconds since the epoch, by this process's clock. */
  readonly expiresAt: number;
}

/** Who is connected. */
export interface Connected {
  readonly id: string;
  readonly account: string;
  readonly keyId: string;
  /** SHA-256 of the key, to see whether it still lives. */
  readonly keyHash: string;
  readonly socket: WebSocket;
}

/** Most calls under way over one connection, and most bytes that it may not have taken yet. */
const maxCalls = 1_000;
const maxBuffered = 16 * 1024 * 1024;

/** Why a connection is closed, by the codes of RFC 6455 and, from 4000 on, ours. */
export const closeCodes = {
  restart: 1012,
  policy: 1008,
  notText: 1003,
  keyGone: 4401,
  noHello: 4408,
  replaced: 4409,
} as const;

/** One runtime's WebSocket with the calls that are under way over it. */
export class RuntimeConnection {
  readonly id: string;
  readonly account: string;
  readonly keyId: string;
  readonly keyHash: string;
  readonly calls = new Map<string, SentCall>();
  readonly openedAt = performance.now();
  runtimeId: string;
  serves: Serves = everything;
  /** It named itself, so that it is known again when it comes back. */
  isNamed = false;
  /** It may be sent calls: it said hello, or takes them as they come. */
  isReady = false;
  /** Its row is in the table. */
  isAnnounced = false;
  /** Answered the last ping. */
  isAlive = true;
  /** Frames of this turn of the clock that could not be taken or that nobody wanted. */
  useless = 0;
  private readonly socket: WebSocket;

  constructor({ id, account, keyId, keyHash, socket }: Connected) {
    this.id = id;
    this.account = account;
    this.keyId = keyId;
    this.keyHash = keyHash;
    this.socket = socket;
    this.runtimeId = `key:${keyId}`;
  }

  /** Whether it takes another call: it does not fall behind, and has not too much to do. */
  get hasRoom(): boolean {
    const { readyState, OPEN, bufferedAmount } = this.socket;
    return this.isReady && readyState === OPEN && this.calls.size < maxCalls && bufferedAmount < maxBuffered;
  }

  give(call: SentCall): void {
    this.calls.set(call.callId, call);
    this.socket.send(call.frame);
  }

  say(frame: object): void {
    if (this.socket.readyState === this.socket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  /** The answer is not wanted any more. */
  cancel(callId: string): void {
    if (this.calls.delete(callId)) this.say({ type: 'cancel', callId });
  }

  ping(): void {
    this.isAlive = false;
    this.useless = 0;
    this.socket.ping();
  }

  close(code: number, reason: string): void {
    this.socket.close(code, reason);
  }

  /** Without a goodbye, which nobody would hear. */
  cut(): void {
    this.socket.terminate();
  }
}
