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
  readonly enqueued: boolean;
  readonly id: string;
}

/** A session's queue of injections and its extensions. */
export class Sessions {
  constructor(private readonly connection: Connection) {}

  /** Puts a text in the queue; `enqueued` false: it does not fit, or its key is queued already. */
  async inject(sessionId: string, body: Injection, options: CallOptions = {}): Promise<EnqueuedInjection> {
    return (await this.post(sessionId, 'injections', body, options)) as unknown as EnqueuedInjection;
  }

  /** Takes the whole queue, once: a repetition with the same idempotency key gets the same. */
  drain(sessionId: string, body: JsonObject = {}, options: CallOptions = {}): Promise<JsonObject> {
    return this.post(sessionId, 'drain', body, options);
  }

  async extensions(sessionId: string, options: CallOptions = {}): Promise<JsonObject> {
    const request = { method: 'GET', path: `sessions/${part(sessionId)}/extensions` } as const;
    return (await this.connection.send(request, options)).body as JsonObject;
  }

  /** Sets, or takes away, one plugin's value under a namespace. */
  async patchExtension(sessionId: string, body: JsonObject, options: CallOptions = {}): Promise<JsonObject> {
    const request = { method: 'PATCH', path: `sessions/${part(sessionId)}/extensions`, body } as const;
    return (await this.connection.send(request, options)).body as JsonObject;
  }

  private async post(sessionId: string, what: string, body: object, options: CallOptions): Promise<JsonObject> {
    const request = { method: 'POST', path: `sessions/${part(sessionId)}/${what}`, body } as const;
    return (await this.connection.send(request, options)).body as JsonObject;
  }
}
