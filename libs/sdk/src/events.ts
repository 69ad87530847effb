import type { CallOptions, Connection } from './connection.js';
import { isObject, type Json, type JsonObject } from './json.js';

/** An event as the log holds it; content in it is sealed unless it was opened. */
export interface LedgerEvent {
  /** Its place in its account's log, where it was read from there. */
  readonly position?: string;
  readonly id: string;
  readonly type: string;
  readonly schema: number;
  readonly account: string;
  readonly stream: string;
  readonly streamVersion: number;
  readonly recordedAt: string;
  readonly occurredAt: string;
  readonly invocationId?: string;
  readonly operationId?: string;
  readonly turnId?: string;
  readonly sessionId?: string;
  readonly agentId?: string;
  readonly correlationId?: string;
  readonly root?: string;
  readonly hop?: number;
  readonly dialect?: string;
  readonly hook?: string;
  readonly pluginId?: string;
  readonly target?: string;
  readonly outcome?: string;
  readonly reasonCode?: string;
  readonly data: JsonObject;
  readonly [field: string]: Json | undefined;
}

/** A sealed value of an event. */
export type Sealed =
  { readonly $sealed: JsonObject } | { readonly $blob: string; readonly k: string; readonly size: number };

/** Most values that one request opens. */
const mostAtOnce = 500;

/** Opens sealed values; the key needs the role `auditor` or `admin`, and `content: full`. Erased ones say so. */
export class Opening {
  constructor(private readonly connection: Connection) {}

  async values(sealed: readonly Sealed[], options: CallOptions = {}): Promise<readonly Json[]> {
    const opened: Json[] = [];
    for (let from = 0; from < sealed.length; from += mostAtOnce) {
      const body = { values: sealed.slice(from, from + mostAtOnce) };
      const reply = await this.connection.send({ method: 'POST', path: 'open', body }, options);
      opened.push(...(reply.body as { readonly values: readonly Json[] }).values);
    }
    return opened;
  }

  /** The event with everything in its data opened. */
  async event(event: LedgerEvent, options: CallOptions = {}): Promise<LedgerEvent> {
    const found: Sealed[] = [];
    collect(event.data, found);
    const opened = await this.values(found, options);
    let next = 0;
    const data = replaced(event.data, () => opened[next++] ?? null) as JsonObject;
    return { ...event, data };
  }
}

/** Whether a value is sealed by its form. */
export const isSealed = (value: unknown): value is Sealed =>
  isObject(value) && ('$sealed' in value || '$blob' in value);

const collect = (value: Json, found: Sealed[]): void => {
  if (isSealed(value)) found.push(value);
  else if (Array.isArray(value)) for (const one of value as readonly Json[]) collect(one, found);
  else if (isObject(value)) for (const one of Object.values(value)) collect(one, found);
};

/** The same walk in the same order; `fromEntries` keeps a member called `__proto__` a member. */
const replaced = (value: Json, take: () => Json): Json => {
  if (isSealed(value)) return take();
  if (Array.isArray(value)) return (value as readonly Json[]).map((one) => replaced(one, take));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, replaced(one, take)]));
};
