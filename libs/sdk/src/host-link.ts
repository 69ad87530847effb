import { backoffMs, pause, type Backoff } from './backoff.js';
import { part, type Connection } from './connection.js';
import type { Json } from './json.js';
import { HookledgerProblem } from './problems.js';

/** A call of a plugin that this runtime is to serve. It is on record as asked before it comes here. */
export interface HostCall {
  readonly callId: string;
  readonly invocationId: string;
  /** `ssh.command`, `session.peer.send`, … */
  readonly member: string;
  /** The plugin that asks. */
  readonly pluginId: string | null;
  readonly args: readonly Json[];
  /** How long the platform waits for the answer, ms; null: it did not say. */
  readonly timeoutMs: number | null;
  /** The operation that this call leads to is fired with it: it alone carries the hop count. */
  readonly cause: string;
  readonly scope: {
    readonly sessionId: string | null;
    readonly agentId: string | null;
    readonly sshHostId: string | null;
  };
  /** Aborted when the answer is not wanted any more, and when the link is closed. */
  readonly signal: AbortSignal;
  /**
   * Resolves when the invocation that asks has closed: a message of `session.peer.send` is delivered after that, first
   * in, first out. Also where another key fired it, whose answer this one may not see.
   */
  readonly invocationClosed: () => Promise<void>;
}

export interface SshResult {
  readonly exitCode: number;
  readonly output: string;
  readonly errorOutput: string;
  readonly isTruncated: boolean;
}

type Served<T> = Promise<T> | T;

/** What a runtime serves. A member without a handler is refused; `otherwise` gets those that are named nowhere here. */
export interface HostHandlers {
  readonly 'session.conversation.read'?: (call: HostCall) => Served<Json>;
  readonly 'session.peer.send'?: (call: HostCall, targetSessionId: string, text: string) => Served<Json | undefined>;
  readonly 'agents.list'?: (call: HostCall) => Served<Json>;
  readonly llm?: (call: HostCall, ...args: readonly Json[]) => Served<Json>;
  readonly decide?: (call: HostCall, ...args: readonly Json[]) => Served<Json>;
  /** A non-zero exit resolves; unreachable, refused and out of time reject. */
  readonly 'ssh.command'?: (
    call: HostCall,
    command: string,
    options: { readonly timeoutSeconds: number },
  ) => Served<SshResult>;
  readonly otherwise?: (call: HostCall) => Served<Json | undefined>;
}

/** The part of a WebSocket that is used here: browsers', Node's and `ws`' have it. */
export interface LinkSocket {
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: 'open' | 'close' | 'error' | 'message', listener: (event: never) => void): void;
}

/** Opens a socket with headers, since the key travels as `Authorization`, and with a subprotocol. */
export type OpenSocket = (
  url: string,
  options: { readonly protocol: string; readonly headers: { readonly [name: string]: string } },
) => LinkSocket | Promise<LinkSocket>;

export interface HostLinkOptions {
  /** Default: the global WebSocket where it takes headers (Node 22 and newer), else the package `ws` if it is there. */
  readonly openSocket?: OpenSocket;
  /** It serves calls for these only. Default: for all. */
  readonly sessionIds?: readonly string[];
  readonly agentIds?: readonly string[];
  readonly sshHostIds?: readonly string[];
  /** Answers that are kept for calls which come twice. Default: 10 000. */
  readonly answersKept?: number;
  readonly onConnected?: () => void;
  readonly onDisconnected?: (cause: unknown) => void;
  /** The server could not take a frame of this side. */
  readonly onFault?: (fault: { readonly code: string; readonly detail: string }) => void;
  readonly signal?: AbortSignal;
}

export interface HostLink extends AsyncDisposable {
  readonly state: 'connecting' | 'connected' | 'closed';
  /** Calls that are being served. */
  readonly serving: number;
  /** Resolves with the first connection; rejects where the link is closed or refused before. */
  readonly connected: Promise<void>;
  /** Ends it: calls under way are aborted. Resolves when nothing runs any more. */
  close(): Promise<void>;
}

const reconnecting: Backoff = { firstMs: 100, mostMs: 5_000 };

/** A connection that is not open and welcome after this is given up, ms. */
const openingMs = 15_000;

/** The link's subprotocol: with it both sides say who they are (docs/host-link.md). */
const protocol = 'hookledger.host-link.v1';

/** Longest frame, bytes. */
const mostBytes = 8 * 1024 * 1024;

/** Serves host calls over `GET …/host-link` until it is closed. */
export const serveHost = (connection: Connection, handlers: HostHandlers, options: HostLinkOptions = {}): HostLink => {
  const link = new Link(connection, handlers, options);
  void link.run();
  return link;
};

/** What is sent for a call, for good. */
type Outcome =
  | { readonly type: 'result'; readonly callId: string; readonly value: Json }
  | { readonly type: 'error'; readonly callId: string; readonly message: string };

class Link implements HostLink {
  state: 'connecting' | 'connected' | 'closed' = 'connecting';
  readonly connected: Promise<void>;
  private readonly ending = new AbortController();
  private readonly calls = new Map<string, { readonly abort: AbortController; readonly ended: Promise<void> }>();
  /** Answers that were given, oldest first: a call that comes again gets its answer again and does not run again. */
  private readonly answered = new Map<string, string>();
  /** Names this link when it connects again, so that it is sent what it left unanswered. */
  private readonly runtimeId = globalThis.crypto.randomUUID();
  private socket: LinkSocket | null = null;
  /** Calls that came over the connection that is open now, and wait for their answer there. */
  private asked = new Set<string>();
  private first!: { readonly resolve: () => void; readonly reject: (cause: unknown) => void };
  private readonly over: Promise<void>;
  private isOver!: () => void;

  constructor(
    private readonly connection: Connection,
    private readonly handlers: HostHandlers,
    private readonly options: HostLinkOptions,
  ) {
    this.connected = new Promise((resolve, reject) => (this.first = { resolve, reject }));
    this.connected.catch(() => undefined);
    this.over = new Promise((resolve) => (this.isOver = resolve));
    if (options.signal?.aborted === true) this.ending.abort();
    options.signal?.addEventListener('abort', () => void this.close(), { once: true });
  }

  get serving(): number {
    return this.calls.size;
  }

  async run(): Promise<void> {
    for (let attempt = 1; !this.isEnding(); attempt += 1) {
      const cause = await this.connectOnce(() => (attempt = 1));
      if (this.isEnding()) break;
      this.state = 'connecting';
      this.options.onDisconnected?.(cause);
      await pause(
        backoffMs({ ...reconnecting, ...this.connection.options.backoff }, attempt, null, Math.random),
        this.ending.signal,
      ).catch(() => undefined);
    }
    this.state = 'closed';
    this.first.reject(new Error('the link was closed'));
    this.isOver();
  }

  async close(): Promise<void> {
    this.ending.abort();
    this.socket?.close(1000, 'done');
    for (const { abort } of this.calls.values()) abort.abort(new Error('the link was closed'));
    await Promise.all([...this.calls.values()].map(({ ended }) => ended));
    await this.over;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** One connection, until it ends; resolves with why. */
  private async connectOnce(onWelcome: () => void): Promise<unknown> {
    let socket: LinkSocket;
    try {
      const url = this.connection.address('host-link').replace(/^http/u, 'ws');
      socket = await (this.options.openSocket ?? openSocket)(url, { protocol, headers: this.connection.headers() });
    } catch (error) {
      return error;
    }
    return new Promise((resolve) => {
      const opening = setTimeout(() => socket.close(), openingMs);
      const stop = (): void => socket.close(1000, 'done');
      this.ending.signal.addEventListener('abort', stop, { once: true });
      let failure: unknown = null;
      socket.addEventListener('open', () => this.opened(socket));
      socket.addEventListener('message', ({ data }: { readonly data: unknown }) => {
        if (typeof data !== 'string') return;
        this.message(data, () => {
          clearTimeout(opening);
          onWelcome();
        });
      });
      socket.addEventListener('error', (error: unknown) => void (failure = error));
      socket.addEventListener('close', (event: unknown) => {
        clearTimeout(opening);
        this.ending.signal.removeEventListener('abort', stop);
        if (this.socket === socket) this.socket = null;
        resolve(failure ?? event);
      });
    });
  }

  private opened(socket: LinkSocket): void {
    this.socket = socket;
    this.asked = new Set();
    const { sessionIds, agentIds, sshHostIds } = this.options;
    const members = Object.keys(this.handlers);
    const serves = { members: members.includes('otherwise') ? undefined : members, sessionIds, agentIds, sshHostIds };
    socket.send(JSON.stringify({ type: 'hello', protocol: 1, runtimeId: this.runtimeId, ...serves }));
  }

  private message(text: string, onWelcome: () => void): void {
    const message = parsed(text);
    if (message === null) return;
    const { type, callId } = message;
    if (type === 'welcome') {
      this.state = 'connected';
      onWelcome();
      this.first.resolve();
      this.options.onConnected?.();
    }
    if (type === 'fault') this.options.onFault?.({ code: String(message.code), detail: String(message.detail) });
    if (typeof callId !== 'string') return;
    if (type === 'cancel') this.cancelled(callId);
    if (type === 'call') this.called(callId, message);
  }

  private cancelled(callId: string): void {
    this.asked.delete(callId);
    this.calls.get(callId)?.abort.abort(new Error('the answer is not wanted any more'));
  }

  private called(callId: string, message: { readonly [field: string]: unknown }): void {
    this.asked.add(callId);
    // It came before, over this connection or another: it has its answer already, or is getting it.
    if (this.answered.has(callId)) this.give(callId);
    if (this.answered.has(callId) || this.calls.has(callId)) return;
    const abort = new AbortController();
    const call: HostCall = {
      ...readCall(callId, message),
      signal: abort.signal,
      invocationClosed: () => this.invocationClosed(String(message.invocationId), abort.signal),
    };
    const ended = this.serve(call).then((outcome) => {
      this.calls.delete(callId);
      this.keep(callId, textOf(outcome));
      this.give(callId);
    });
    this.calls.set(callId, { abort, ended });
  }

  private async serve(call: HostCall): Promise<Outcome> {
    const { callId } = call;
    try {
      // Not in the turn of the message: what a handler throws at once is an answer too.
      await Promise.resolve();
      const value = (await this.handle(call)) ?? null;
      // Throws for what JSON cannot say, while the call can still be answered with that.
      JSON.stringify(value);
      return { type: 'result', callId, value: value as Json };
    } catch (error) {
      return { type: 'error', callId, message: error instanceof Error ? error.message : String(error) };
    }
  }

  private handle(call: HostCall): Served<Json | SshResult | undefined> {
    const { member, args } = call;
    const own = Object.hasOwn(this.handlers, member) && member !== 'otherwise';
    const handler = own ? this.handlers[member as keyof HostHandlers] : undefined;
    if (handler !== undefined) {
      return (handler as (call: HostCall, ...args: readonly Json[]) => Served<Json>)(call, ...args);
    }
    if (this.handlers.otherwise !== undefined) return this.handlers.otherwise(call);
    throw new Error(`this runtime does not serve ${member}`);
  }

  private keep(callId: string, text: string): void {
    this.answered.set(callId, text);
    const most = Math.max(1, this.options.answersKept ?? 10_000);
    for (const oldest of this.answered.keys()) {
      if (this.answered.size <= most) return;
      this.answered.delete(oldest);
    }
  }

  /** Waits over as many requests as it takes; what cannot be known is taken for closed. */
  private async invocationClosed(invocationId: string, signal: AbortSignal): Promise<void> {
    const request = {
      method: 'GET',
      path: `answers/${part(invocationId)}`,
      query: { wait: 55 },
      heldMs: 55_000,
    } as const;
    for (;;) {
      const reply = await this.connection
        .send(request, { signal, deadlineMs: Infinity, reachMs: Infinity })
        .catch((error: unknown) => {
          if (error instanceof HookledgerProblem) return null;
          throw error;
        });
      if (reply === null) return;
      if (reply.status === 200 && (reply.body as { readonly outcome: string }).outcome !== 'held') return;
    }
  }

  private isEnding(): boolean {
    return this.ending.signal.aborted;
  }

  private give(callId: string): void {
    const text = this.answered.get(callId);
    // Where the call did not come over this connection it will: until then nobody here waits for its answer.
    if (this.socket === null || text === undefined || !this.asked.delete(callId)) return;
    try {
      this.socket.send(text);
    } catch {
      // The connection is going away: the call comes again over the next one.
    }
  }
}

const parsed = (text: string): { readonly [field: string]: unknown } | null => {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null ? (value as { readonly [field: string]: unknown }) : null;
  } catch {
    return null;
  }
};

const readCall = (
  callId: string,
  message: { readonly [field: string]: unknown },
): Omit<HostCall, 'signal' | 'invocationClosed'> => {
  const { invocationId, member, args, cause, scope, pluginId, timeoutMs } = message;
  return {
    callId,
    invocationId: String(invocationId),
    member: String(member),
    pluginId: typeof pluginId === 'string' ? pluginId : null,
    args: Array.isArray(args) ? (args as readonly Json[]) : [],
    timeoutMs: typeof timeoutMs === 'number' ? timeoutMs : null,
    cause: String(cause),
    scope: { sessionId: null, agentId: null, sshHostId: null, ...(typeof scope === 'object' ? scope : {}) },
  };
};

/** The frame of an answer; one that is too long for a frame is an error, so that the call has its answer. */
const textOf = (outcome: Outcome): string => {
  const text = JSON.stringify(outcome);
  if (text.length <= mostBytes && new TextEncoder().encode(text).length <= mostBytes) return text;
  const { callId } = outcome;
  return JSON.stringify({ type: 'error', callId, message: 'the result is larger than 8 MiB' });
};

interface SocketOptions {
  readonly protocols?: string[];
  readonly headers: { readonly [name: string]: string };
}

/** The global one takes all in one object (Node 22), `ws` the protocols beside it. */
type GlobalSocket = new (url: string, options: SocketOptions) => LinkSocket;
type WsSocket = new (url: string, protocol: string, options: SocketOptions) => LinkSocket;

/** The socket of this runtime that takes headers. */
const openSocket: OpenSocket = async (url, { headers }) => {
  const { WebSocket: Global } = globalThis as unknown as { WebSocket?: GlobalSocket };
  if (Global !== undefined) return new Global(url, { protocols: [protocol], headers });
  // The package is optional, and bundlers are not to look for it.
  const name = 'ws';
  const found = (await import(/* @vite-ignore */ name).catch(() => null)) as { readonly WebSocket: WsSocket } | null;
  if (found === null) throw new Error('this runtime has no WebSocket: install the package ws, or give openSocket');
  return new found.WebSocket(url, protocol, { headers });
};
