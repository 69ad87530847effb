import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { openReadModels, record } from '#audit';
import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import { asData, invocationStream, type JsonObject } from '#record';
import { programFile } from './support/child-program.js';
import { createLedgerDatabase, type TestDatabase } from './support/test-postgres.js';

/** Tomorrow's program: `hostSession` of an opening says more. */
const tomorrow = {
  file: 'libs/record/src/versions.ts',
  from: 'const upcasters: Upcasters = {};',
  to: `const upcasters: Upcasters = {
    'invocation.opened': [(data) => ({ ...data, hostSession: 'lifted from ' + String(data.hostSession) })],
  };`,
};

interface Seen {
  readonly type: string;
  readonly schema: number;
  readonly data: JsonObject;
}

interface Said {
  readonly log: readonly Seen[];
  readonly stream: readonly Seen[];
  readonly live: readonly Seen[];
  readonly runs: readonly (readonly [string, string, number | null])[];
  readonly wrote: readonly Seen[];
}

let database: TestDatabase;
let store: EventStore;
let sql: Sql;
let said: Said;
const bytesBefore: string[] = [];
const ends: (() => Promise<unknown>)[] = [];

const bytes = async (): Promise<readonly string[]> =>
  (await store.readAccount('a', { limit: 1_000 })).map((stored) => Buffer.from(stored.bytes).toString('utf8'));

beforeAll(async () => {
  database = await createLedgerDatabase();
  const pool = createPool({ connectionString: database.url, max: 2 });
  sql = sqlOver(pool);
  store = postgresEventStore({ connectionString: database.url });
  ends.push(
    () => store.close(),
    () => pool.end(),
    () => database.drop(),
  );
  for (const id of ['one', 'two']) {
    const about = { invocationId: id, turnId: 't', dialect: 'middleware', hook: 'systemPrompt', hop: 0, root: id };
    const opened = { chain: [], withoutHook: 0, context: null, hostSession: 'granted' };
    const closed = { value: null, cancellation: null, hostSession: 'granted', metered: 0 };
    await store.append({
      account: 'a',
      writes: [
        {
          stream: invocationStream(id),
          expectedVersion: 0,
          events: [
            { ...about, type: 'invocation.opened', data: asData(opened) },
            { ...about, type: 'invocation.closed', outcome: 'passed', durationMs: 3, data: asData(closed) },
          ],
        },
      ],
    });
  }
  bytesBefore.push(...(await bytes()));
  await openReadModels(sql, [record]);
  const program = await programFile('test/support/tomorrow-child.ts', [tomorrow]);
  const child = program.start([database.url, 'a']);
  expect(await child.ended).toBe(0);
  said = JSON.parse(child.lines.join('')) as Said;
  program.remove();
}, 120_000);
afterAll(async () => {
  for (const end of ends) await end();
});

describe('a program with a schema of tomorrow', () => {
  const lifted = { type: 'invocation.opened', schema: 2, data: { hostSession: 'lifted from granted' } };

  it('reads today’s events in the shape of tomorrow: as a log, as a stream, and live', () => {
    expect(said.log).toMatchObject([lifted, { schema: 1 }, lifted, { schema: 1 }]);
    expect(said.stream).toMatchObject([lifted, { schema: 1 }]);
    expect(said.live).toEqual(said.log);
  });

  it('builds its read models from them', () => {
    expect(said.runs).toEqual([
      ['one', 'lifted from granted', 3],
      ['two', 'lifted from granted', 3],
    ]);
  });

  it('changes none of what is stored, and writes what it writes in its own version', async () => {
    expect((await bytes()).slice(0, bytesBefore.length)).toEqual(bytesBefore);
    expect(said.wrote).toMatchObject([{ type: 'invocation.closed', schema: 1 }]);
  });
});

describe('a program of today', () => {
  it('hands on what one of tomorrow wrote as it stands', async () => {
    const program = await programFile('test/support/tomorrow-child.ts', [
      { ...tomorrow, to: tomorrow.to.replace("'invocation.opened'", "'invocation.closed'") },
    ]);
    const child = program.start([database.url, 'a']);
    expect(await child.ended).toBe(0);
    program.remove();
    const wrote = await store.readAccount('a', { stream: 'tomorrow', order: 'newest', limit: 1 });
    expect(wrote.map(({ event }) => event)).toMatchObject([{ schema: 2, data: { cancellation: null } }]);
  }, 60_000);
});
