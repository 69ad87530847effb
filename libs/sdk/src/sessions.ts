import { part, type CallOptions, type Connection } from './connection.js';
import type { Json, JsonObject } from './json.js';

/** A text for the next turn of a session (OpenClaw). */
export interface Injection {
  readonly pluginId: string;
  readonly text: string;
  readonly placement?: 'prepend_context' | 'append_context';
  readonly ttlMs?: number | null;
  readonly idempotencyKey?: string | null;
  readonly metadata?: Json;
}

export interface EnqueuedInjection {
  readonly sessionId: string;
  readonly enqueued: boolean;
  /** The key, where there is one; empty where the queue is full. */
  readonly id: string;
  /** Why it was not put in the queue. */
  readonly reason: 'duplicate' | 'full' | null;
}

export interface DrainedInjections {
  readonly sessionId: string;
  readonly runId: string | null;
  readonly injections: readonly JsonObject[];
  /** Their texts, put together by where they belong. */
  readonly prependContext: string | null;
  readonly appendContext: string | null;
}

/** A value that a session keeps for a plugin, or `unset` to take it away. */
export interface ExtensionPatch {
  readonly pluginId: string;
  readonly namespace: string;
  readonly value?: Json;
  readonly unset?: true;
}

/** A session's queue of injections and its extensions (docs/openclaw.md). */
export class Sessions {
  constructor(private readonly connection: Connection) {}

  /** Puts a text in the queue of the next turn, in the name of a plugin. */
  async inject(sessionId: string, body: Injection, options: CallOptions = {}): Promise<EnqueuedInjection> {
    return (await this.post(sessionId, 'injections', body, options)) as EnqueuedInjection;
  }

  /** Takes the whole queue, once: the same run gets the same again. */
  async drain(
    sessionId: string,
    body: { readonly runId?: string | null } = {},
    options: CallOptions = {},
  ): Promise<DrainedInjections> {
    return (await this.post(sessionId, 'injections/drain', body, options)) as DrainedInjections;
  }

  async extensions(sessionId: string, options: CallOptions = {}): Promise<JsonObject> {
    const request = { method: 'GET', path: `sessions/${part(sessionId)}/extensions` } as const;
    return (await this.connection.send(request, options)).body as JsonObject;
  }

  /** Sets or takes away a value; the session's extensions as they are then. */
  async patchExtension(sessionId: string, body: ExtensionPatch, options: CallOptions = {}): Promise<JsonObject> {
    const request = { method: 'PATCH', path: `sessions/${part(sessionId)}/extensions`, body } as const;
    return (await this.connection.send({ ...request, headers: { 'if-match': '*' } }, options)).body as JsonObject;
  }

  private async post(sessionId: string, what: string, body: object, options: CallOptions): Promise<unknown> {
    const request = { method: 'POST', path: `sessions/${part(sessionId)}/${what}`, body } as const;
    return (await this.connection.send(request, options)).body;
  }
}
