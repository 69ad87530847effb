import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import { memorySealing, type Sealing } from '#sealing';
import type { Json } from '#record';
import { invocationStream } from '#record';
import { invocationDetail } from '../src/invocation-detail.js';
import { searchInvocations, type InvocationQuery } from '../src/invocation-search.js';
import { handleEvents, openReadModels } from '../src/read-models.js';
import { openReading } from '../src/reading.js';
import type { Projection } from '../src/projection.js';
import { record } from '../src/record.js';
import { matchText, textSearch } from '../src/text-search.js';
import { invocationEvents, type TestHandler, type TestInvocation } from '../src/test-record.js';
import { turnInvocations, turnsNamed } from '../src/turn-queries.js';

/** One kind of read over the whole record. */
export interface ReadFigure {
  readonly name: string;
  readonly reads: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
}

export interface ReadFigures {
  readonly events: number;
  readonly loadSeconds: number;
  /** How fast the read model followed from an empty table. */
  readonly followedPerSecond: number;
  /** The same for the text search. */
  readonly indexedPerSecond: number;
  readonly reads: readonly ReadFigure[];
}

const hooks = [
  'systemPrompt',
  'userMessageInbound',
  'sshCommandSending',
  'sshCommandCompleted',
  'assistantMessageOutbound',
];
const plugins = ['terse', 'guard', 'redactor', 'sentinel', 'notes'];
const chainsAtOnce = 100;
const beganAt = Date.UTC(2026, 0, 1);
const eventsPerInvocation = 7;

/**
 * Loads `events` events of chains of five into a migrated database, follows them into the record's tables, and measures
 * the reads that people make: a turn's whole history, opened, and searches from the broad to the rare.
 */
export const measureReads = async (
  connectionString: string,
  events = 1_000_000,
  rounds = 200,
): Promise<ReadFigures> => {
  const pool = createPool({ connectionString, statementTimeoutMs: 0 });
  const store = postgresEventStore({ connectionString });
  const sql = sqlOver(pool);
  const sealing = memorySealing();
  try {
    const invocations = Math.ceil(events / eventsPerInvocation);
    const loadStart = performance.now();
    await loadLongRecord(store, sealing, invocations);
    const followStart = performance.now();
    await follow(sql, store, record);
    const followed = performance.now();
    await follow(sql, store, textSearch(sealing));
    const indexed = performance.now();
    await pool.query('vacuum analyze');
    const reads: ReadFigure[] = [];
    for (const kind of readsOver(sql, store, sealing, invocations)) reads.push(await measure(kind, rounds));
    return {
      events: invocations * eventsPerInvocation,
      loadSeconds: (followStart - loadStart) / 1000,
      followedPerSecond: (invocations * eventsPerInvocation) / ((followed - followStart) / 1000),
      indexedPerSecond: (invocations * eventsPerInvocation) / ((indexed - followed) / 1000),
      reads,
    };
  } finally {
    await store.close();
    await pool.end();
  }
};

/** A long record: chains of five, `invocations` of them, seven events each. */
export const loadLongRecord = async (store: EventStore, sealing: Sealing, invocations: number): Promise<void> => {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < invocations) {
      const from = next;
      const to = Math.min(from + chainsAtOnce, invocations);
      next = to;
      const chains = [];
      for (let n = from; n < to; n += 1) chains.push(await invocationEvents(sealing, invocation(n)));
      const writes = chains.map(({ stream, events }) => ({ stream, expectedVersion: 0, events }));
      const result = await store.append({ account: 'a', writes, blobs: chains.flatMap(({ blobs }) => blobs) });
      if (result.kind !== 'appended') throw new Error(`not appended: ${result.kind}`);
    }
  };
  await Promise.all([worker(), worker(), worker()]);
};

/** Invocation `n`: five per turn, twenty turns per session; one in a hundred is cancelled, one in a thousand times out. */
const invocation = (n: number): TestInvocation => {
  const turn = Math.floor(n / 5);
  const cancelled = n % 100 === 42;
  const handlers = plugins.map((pluginId, index): TestHandler => handler(n, pluginId, index, cancelled));
  const command: Json = { command: `apt-get install -y package-${String(n % 977)}`, path: null, content: null };
  return {
    id: `inv-${String(n)}`,
    hook: hooks[n % hooks.length] ?? '',
    turnId: `turn-${String(turn)}`,
    sessionId: `session-${String(Math.floor(turn / 20))}`,
    agentId: `agent-${String(turn % 50)}`,
    correlationId: `correlation-${String(Math.floor(turn / 3))}`,
    target: `host-${String(n % 300)}`,
    occurredAt: new Date(beganAt + n * 250).toISOString(),
    outcome: cancelled ? 'cancelled' : n % 3 === 0 ? 'rewritten' : 'passed',
    context: { sessionId: `session-${String(Math.floor(turn / 20))}`, ...(command as object) },
    value: command,
    ...(n % 500 === 7 ? { dataSubject: `person-${String(n % 40)}` } : {}),
    handlers,
  };
};

const handler = (n: number, pluginId: string, index: number, cancelled: boolean): TestHandler => {
  if (cancelled && index === 1)
    return { pluginId, outcome: 'cancelled', reason: `ticket ${String(n)}`, reasonCode: 'forbidden' };
  if (cancelled && index > 1) return { pluginId, outcome: 'not_run' };
  if (n % 1000 === 500 && index === 2)
    return { pluginId, outcome: 'skipped', cause: 'timed_out', warnings: ['handler_timeout'] };
  return n % 3 === 0 && index === 0
    ? { pluginId, outcome: 'rewrote', output: { command: 'true', path: null, content: null } }
    : { pluginId };
};

const follow = async (sql: Sql, store: EventStore, projection: Projection): Promise<void> => {
  const [generation] = await openReadModels(sql, [projection]);
  if (generation === undefined) throw new Error('no tables');
  let after = generation.position;
  let events = await store.readAll(after, 2000);
  while (events.length > 0) {
    after = events.at(-1)?.globalPosition ?? after;
    const batch = events;
    // The next batch is read while this one is written.
    [events] = await Promise.all([
      store.readAll(after, 2000),
      sql.transaction((tx) => handleEvents(projection, generation, batch, tx, store)),
    ]);
  }
};

interface ReadKind {
  readonly name: string;
  readonly read: () => Promise<unknown>;
}

const readsOver = (sql: Sql, store: EventStore, sealing: Sealing, invocations: number): readonly ReadKind[] => {
  const some = (below: number): number => Math.floor(Math.random() * below);
  const search = (name: string, query: () => Partial<InvocationQuery>): ReadKind => ({
    name,
    read: async () => {
      const { table } = await openReading(sql, store, record, 'a');
      return searchInvocations(sql, table, { account: 'a', clock: 'occurred', order: 'newest', limit: 50, ...query() });
    },
  });
  const words = (name: string, text: () => string): ReadKind => ({
    name,
    read: async () => {
      const { table } = await openReading(sql, store, record, 'a');
      const search = await openReading(sql, store, textSearch(sealing), 'a');
      const match = await matchText(sql, search.table, 'a', text());
      return searchInvocations(sql, table, {
        account: 'a',
        clock: 'occurred',
        order: 'newest',
        limit: 50,
        text: match,
      });
    },
  });
  const day = (): { from: Date; to: Date } => {
    const from = beganAt + some(invocations) * 250;
    return { from: new Date(from), to: new Date(from + 86_400_000) };
  };
  const anywhere = (): Partial<InvocationQuery> => {
    const n = some(invocations);
    return { after: { at: new Date(beganAt + n * 250).toISOString(), position: String(n * eventsPerInvocation) } };
  };
  return [
    {
      name: 'turn history, opened',
      read: () => turnHistory(sql, store, sealing, `turn-${String(some(invocations / 5))}`),
    },
    search('newest', () => ({})),
    search('any page', anywhere),
    search('by the recorded clock', () => ({ clock: 'recorded' })),
    search('session', () => ({ sessionId: `session-${String(some(invocations / 100))}` })),
    search('agent within a day', () => ({ agentId: `agent-${String(some(50))}`, ...day() })),
    search('correlation', () => ({ correlationId: `correlation-${String(some(invocations / 15))}` })),
    search('cancelled by a plugin', () => ({ handler: { pluginId: 'guard', outcome: 'cancelled' } })),
    search('timed out, any page', () => ({ handler: { cause: 'timed_out' }, ...anywhere() })),
    search('a plugin that ran everywhere', () => ({ handler: { pluginId: 'notes' }, ...anywhere() })),
    search('a plugin that never ran', () => ({ handler: { pluginId: 'nobody' } })),
    search('reason code', () => ({ reasonCode: 'forbidden', ...anywhere() })),
    search('target and outcome', () => ({ target: [`host-${String(some(300))}`], outcome: 'rewritten' })),
    search('hook within a day', () => ({ hook: 'sshCommandSending', outcome: 'cancelled', ...day() })),
    search('nothing that fits', () => ({ hook: 'systemPrompt', outcome: 'claimed' })),
    search('hop that nobody had', () => ({ hop: 3 })),
    words('rare words', () => `ticket ${String(some(invocations / 100) * 100 + 42)}`),
    words('words of one in a thousand', () => `package-${String(100 + some(877))}`),
    words('words of one in a hundred', () => `package-${String(10 + some(90))}`),
    words('words of every invocation', () => 'apt-get'),
    words('words that nobody wrote', () => 'nowhere to be found'),
  ];
};

const turnHistory = async (sql: Sql, store: EventStore, sealing: Sealing, turnId: string): Promise<void> => {
  const { table } = await openReading(sql, store, record, 'a');
  const [, { items }] = await Promise.all([
    turnsNamed(sql, table, 'a', turnId, null),
    turnInvocations(sql, table, { account: 'a', turnId, sessionId: null, limit: 50 }),
  ]);
  const streams = await Promise.all(
    items.map(({ invocationId }) => store.readStream('a', invocationStream(invocationId))),
  );
  for (const events of streams) {
    const detail = invocationDetail(events);
    for (const { before, after } of detail?.handlers ?? []) {
      for (const sealed of [before, after]) if (sealed !== null) await sealing.openText('a', sealed);
    }
  }
};

const measure = async ({ name, read }: ReadKind, rounds: number): Promise<ReadFigure> => {
  for (let n = 0; n < 5; n += 1) await read();
  const times: number[] = [];
  for (let n = 0; n < rounds; n += 1) {
    const start = performance.now();
    await read();
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
  return { name, reads: rounds, p50Ms: at(0.5), p95Ms: at(0.95) };
};
