import { randomBytes, randomUUID } from 'node:crypto';
import type { JsonObject, NewEvent } from '#record';
import type { Append, EventStore } from '#event-store';

/** What a loop of appends measured. */
export interface AppendFigures {
  readonly clients: number;
  readonly appendsPerSecond: number;
  readonly eventsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** How long and with how many clients to append. */
export interface AppendLoop {
  readonly clients: number;
  readonly durationMs: number;
  /** Appends before anything is measured. Default 50 for each client, at most 500. */
  readonly warmUp?: number;
}

/**
 * Clients that append, one after another each, what `appendOf` makes: the bare cost of recording, without chain, HTTP
 * or sandbox. The measure for everything that is built around it.
 */
export const measureAppends = async (
  store: EventStore,
  loop: AppendLoop,
  appendOf: () => Append = () => sevenEvents(),
): Promise<AppendFigures> => {
  await appendFor(store, loop.clients, appendOf, { count: loop.warmUp ?? Math.min(loop.clients * 50, 500) });
  const started = performance.now();
  const took = await appendFor(store, loop.clients, appendOf, { until: started + loop.durationMs });
  const seconds = (performance.now() - started) / 1_000;
  const sorted = took.times.sort((a, b) => a - b);
  return {
    clients: loop.clients,
    appendsPerSecond: Math.round(took.times.length / seconds),
    eventsPerSecond: Math.round(took.events / seconds),
    p50Ms: at(sorted, 0.5),
    p99Ms: at(sorted, 0.99),
  };
};

const appendFor = async (
  store: EventStore,
  clients: number,
  appendOf: () => Append,
  end: { readonly until: number } | { readonly count: number },
): Promise<{ times: number[]; events: number }> => {
  const times: number[] = [];
  let started = 0;
  let events = 0;
  const client = async (): Promise<void> => {
    while ('until' in end ? performance.now() < end.until : started < end.count) {
      started += 1;
      const append = appendOf();
      const before = performance.now();
      const result = await store.append(append);
      if (result.kind !== 'appended') throw new Error(`an append of the measurement ended as ${result.kind}`);
      times.push(performance.now() - before);
      events += result.events.length;
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  return { times, events };
};

const at = (sorted: readonly number[], part: number): number =>
  Math.round((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0) * 100) / 100;

/** A chain of five plugins as it is recorded: opened, five handlers, closed; values of about 300 bytes, sealed inline. */
export const sevenEvents = (): Append => {
  const invocationId = randomUUID();
  const digest = 'ab'.repeat(32);
  const plugins = [0, 1, 2, 3, 4].map((n) => `plugin-${String(n)}`);
  const common = {
    invocationId,
    occurredAt: new Date().toISOString(),
    actor: { kind: 'key', id: 'k-1' },
    attempt: 1,
    turnId: 'turn-1',
    sessionId: 'session-1',
    agentId: 'agent-1',
    root: invocationId,
    hop: 0,
    dialect: 'middleware',
    hook: 'systemPrompt',
  } as const satisfies Partial<NewEvent>;
  const chain = plugins.map((pluginId) => ({
    pluginId,
    version: '1.0.0',
    revision: 1,
    mode: 'enforce',
    failureMode: 'open',
    priority: null,
    configDigest: digest,
  }));
  const value = sealedShape();
  const opened: NewEvent = {
    ...common,
    type: 'invocation.opened',
    data: { chain, withoutHook: 0, context: sealedShape(), hostSession: 'absent' },
  };
  const handlers = plugins.map((pluginId, index): NewEvent => {
    return {
      ...common,
      type: index === 1 ? 'handler.rewrote' : 'handler.passed',
      pluginId,
      pluginVersion: '1.0.0',
      pluginRevision: 1,
      durationMs: 1,
      outcome: index === 1 ? 'rewrote' : 'passed',
      data: {
        index,
        input: value,
        output: index === 1 ? sealedShape() : value,
        changed: index === 1 ? ['systemPrompt'] : [],
        budgetMs: 5_000,
        durationUs: 740,
        warnings: [],
        configDigest: digest,
        mode: 'enforce',
      },
    };
  });
  const closed: NewEvent = {
    ...common,
    type: 'invocation.closed',
    outcome: 'rewritten',
    durationMs: 4,
    data: { value, cancellation: null, hostSession: 'absent', metered: 5 },
  };
  const events = [opened, ...handlers, closed];
  return { account: 'default', writes: [{ stream: `invocation/${invocationId}`, expectedVersion: 0, events }] };
};

// Drawn from a pool made once: the measure is the append, not the random source.
const pool = randomBytes(64 * 1024).toString('base64');
let drawn = 0;

const sealedShape = (): JsonObject => {
  drawn = (drawn + 4) % (pool.length - 440);
  return { $sealed: { v: 1, k: 'AbCdEfGhIjKlMnOp', b: pool.slice(drawn, drawn + 440) } };
};
