import { randomUUID } from 'node:crypto';
import { WebSocket } from 'ws';

/** A host call as a runtime gets it. */
export interface RuntimeCall {
  readonly callId: string;
  readonly invocationId: string;
  readonly member: string;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- whatever a plugin gave
  readonly args: readonly any[];
  readonly cause: string;
  readonly scope: {
    readonly sessionId: string | null;
    readonly agentId: string | null;
    readonly sshHostId: string | null;
  };
  readonly timeoutMs: number;
}

/** What a runtime does with a call: a value is its result, a throw its error. `never` leaves it without an answer. */
export type Serve = (call: RuntimeCall, signal: AbortSignal) => unknown;

export interface RuntimeOptions {
  /** Null: no hello and no subprotocol. */
  readonly runtimeId?: string | null;
  readonly serves?: object;
  readonly account?: string;
}

/** A runtime as the contract has it: it does a call once, whatever it receives twice, and keeps what it answered. */
export interface TestRuntime {
  readonly runtimeId: string | null;
  /** Every call frame that came, repetitions too. */
  readonly received: readonly RuntimeCall[];
  /** Every call that it began to do, once each. */
  readonly done: readonly RuntimeCall[];
  readonly cancelled: readonly string[];
  /** Other frames of the platform. */
  readonly said: readonly { readonly type: string; readonly code?: string }[];
  /** Resolves with the close code of the connection that is open now. */
  readonly closed: Promise<number>;
  /** Says something as it stands. */
  say(frame: unknown): void;
  sayBytes(bytes: string | Buffer): void;
  /** Cuts the connection without a goodbye. */
  cut(): void;
  /** Connects again, perhaps elsewhere, as the same runtime. */
  connect(url?: string): Promise<void>;
  close(): Promise<void>;
}

export const never = Symbol('never');

export const subprotocol = 'hookledger.host-link.v1';

/** Connects a runtime and waits until it is welcome. */
export const startRuntime = async (
  url: string,
  key: string,
  serve: Serve,
  { runtimeId = randomUUID(), serves = {}, account = 'default' }: RuntimeOptions = {},
): Promise<TestRuntime> => {
  const received: RuntimeCall[] = [];
  const done: RuntimeCall[] = [];
  const cancelled: string[] = [];
  const said: { type: string; code?: string }[] = [];
  const answers = new Map<string, object | null>();
  const aborts = new Map<string, AbortController>();
  let socket: WebSocket;
  let closed: Promise<number>;

  const answer = async (call: RuntimeCall): Promise<void> => {
    const { callId } = call;
    const known = answers.get(callId);
    if (known !== undefined) {
      if (known !== null) say(known);
      return;
    }
    answers.set(callId, null);
    done.push(call);
    const abort = new AbortController();
    aborts.set(callId, abort);
    const frame = await Promise.resolve()
      .then(() => serve(call, abort.signal))
      .then(
        (value) => (value === never ? null : { type: 'result', callId, value }),
        (error: unknown) => ({ type: 'error', callId, message: error instanceof Error ? error.message : 'failed' }),
      );
    if (frame === null) return;
    answers.set(callId, frame);
    say(frame);
  };

  const say = (frame: unknown): void => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(frame));
  };

  const hear = (text: string, welcome: () => void): void => {
    const frame = JSON.parse(text) as RuntimeCall & { type: string; code?: string };
    if (frame.type === 'call') {
      received.push(frame);
      void answer(frame);
    } else if (frame.type === 'cancel') {
      cancelled.push(frame.callId);
      aborts.get(frame.callId)?.abort();
    } else {
      said.push(frame);
      if (frame.type === 'welcome') welcome();
    }
  };

  const connect = async (at: string): Promise<void> => {
    const address = `${at.replace(/^http/u, 'ws')}/v1/accounts/${account}/host-link`;
    const headers = { authorization: `Bearer ${key}` };
    const opened =
      runtimeId === null ? new WebSocket(address, { headers }) : new WebSocket(address, subprotocol, { headers });
    socket = opened;
    closed = new Promise((resolve) => opened.once('close', (code) => resolve(code)));
    await new Promise<void>((resolve, reject) => {
      opened.on('error', reject);
      opened.once('unexpected-response', (_, response) =>
        reject(new Error(`refused with ${String(response.statusCode)}`)),
      );
      opened.on('message', (data: Buffer) => hear(data.toString('utf8'), resolve));
      opened.once('open', () => {
        if (runtimeId === null) resolve();
        else opened.send(JSON.stringify({ type: 'hello', protocol: 1, runtimeId, ...serves }));
      });
      opened.once('close', (code) => reject(new Error(`closed with ${String(code)}`)));
    });
  };

  let at = url;
  await connect(at);
  return {
    runtimeId,
    received,
    done,
    cancelled,
    said,
    get closed() {
      return closed;
    },
    say,
    sayBytes: (bytes) => socket.send(bytes),
    cut: () => socket.terminate(),
    connect: async (other = at) => {
      at = other;
      await connect(at);
    },
    close: async () => {
      socket.close();
      await closed;
    },
  };
};
