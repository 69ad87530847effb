import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { ChildProgram, ProgramFile } from './support/child-program.js';
import { programFile } from './support/child-program.js';
import type { TestDatabase } from './support/test-postgres.js';
import { createLedgerDatabase } from './support/test-postgres.js';
import type { TestLog, Verified } from './support/tampering.js';
import { appendInvocation, openTestLog, verifyAt } from './support/tampering.js';

let replica: ProgramFile;
let database: TestDatabase;
let log: TestLog;
const children: ChildProgram[] = [];

beforeAll(async () => {
  replica = await programFile('test/support/recording-child.ts');
}, 120_000);

afterAll(() => replica.remove());

beforeEach(async () => {
  database = await createLedgerDatabase();
  log = await openTestLog(database.url);
}, 120_000);

afterEach(async () => {
  for (const child of children.splice(0)) child.process.kill('SIGKILL');
  await log.close();
  await database.drop();
}, 120_000);

const start = (name: string): ChildProgram => {
  const child = replica.start([database.url, name]);
  children.push(child);
  return child;
};

/** Waits until a replica has recorded so many more. */
const recorded = async (child: ChildProgram, count: number): Promise<void> => {
  const wanted = child.lines.length + count;
  while (child.lines.length < wanted) {
    if (child.process.exitCode !== null) throw new Error('the replica ended');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

const lines: string[] = [];

const verified = (): Promise<Verified> =>
  verifyAt(database.url, { rootSecret: log.rootSecret, outside: [...lines], logKeys: keysOf() });

const keysOf = () =>
  log.keys.all().map(({ verifier, validFrom, validUntil }) => ({
    verifier,
    validFrom: Date.parse(validFrom),
    validUntil: validUntil === null ? null : Date.parse(validUntil),
  }));

describe('a log that nobody tampers with', () => {
  it('raises no alarm while replicas write, seal and die', async () => {
    lines.splice(0);
    const [one, two] = [start('one'), start('two')];
    await Promise.all([recorded(one, 20), recorded(two, 20)]);
    for (let round = 0; round < 4; round += 1) {
      lines.push(await log.seal());
      const [{ faults }] = await Promise.all([verified(), recorded(two, 5)]);
      expect(faults).toEqual([]);
      if (round === 1) {
        one.process.kill('SIGKILL');
        await one.ended;
      }
    }
    two.process.kill('SIGKILL');
    await two.ended;
    expect((await verified()).faults).toEqual([]);
    lines.push(await log.seal());
    const { faults, summary } = await verified();
    expect(faults).toEqual([]);
    expect(summary.events).toBeGreaterThan(200);
    expect(summary.accounts.map(({ account, size, sealed }) => [account, size - sealed])).toEqual([
      ['acme', 0],
      ['of-one', 0],
      ['of-two', 0],
      ['other', 0],
      ['system', 0],
    ]);
  }, 180_000);

  it('raises no alarm after log keys were replaced, whoever noted the first or the last of them', async () => {
    lines.splice(0);
    const first = keysOf();
    for (let rotation = 0; rotation < 3; rotation += 1) {
      await appendInvocation(log, 'acme', 's');
      lines.push(await log.seal());
      await log.keys.rotate({ actor: { kind: 'system', id: 'test' } });
    }
    lines.push(await log.seal());
    for (const logKeys of [[], first, keysOf()]) {
      const { faults } = await verifyAt(database.url, { rootSecret: log.rootSecret, outside: lines, logKeys });
      expect(faults).toEqual([]);
    }
  }, 60_000);

  it('is verified by whoever may read it and nothing else', async () => {
    await appendInvocation(log, 'acme', 's');
    const reader = `reader_${randomUUID().replaceAll('-', '')}`;
    await log.sql.query(`create role ${reader} login password 'reader'`);
    try {
      await log.sql.query(`grant select on all tables in schema public to ${reader}`);
      const url = new URL(database.url);
      url.username = reader;
      url.password = 'reader';
      const { faults } = await verifyAt(url.href, { rootSecret: log.rootSecret });
      expect(faults).toEqual([]);
    } finally {
      await log.sql.query(`drop owned by ${reader}`);
      await log.sql.query(`drop role ${reader}`);
    }
  }, 60_000);

  it('is read in the order of an index, never sorted as a whole', async () => {
    await appendInvocation(log, 'acme', 's');
    await log.sql.query('analyze event');
    const plan = await log.sql.transaction(async (inside) => {
      await inside.query('set local enable_sort = off');
      return inside.query<{ 'QUERY PLAN': string }>(
        `explain select * from event where account = 'acme' order by account_position, position`,
      );
    });
    const steps = plan.map((row) => row['QUERY PLAN']).join('\n');
    expect(steps).toMatch(/Index Scan/u);
    expect(steps.replaceAll('Incremental Sort', '')).not.toMatch(/Sort {2}\(/u);
  }, 60_000);

  it('raises no alarm over an empty log, and over events that are not sealed at all', async () => {
    lines.splice(0);
    expect((await verified()).faults).toEqual([]);
    await appendInvocation(log, 'acme', 's');
    const { faults, summary } = await verified();
    expect(faults).toEqual([]);
    expect(summary.notes.join(' ')).toContain('events are not sealed yet');
  }, 60_000);
});
