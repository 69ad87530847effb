import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { createHash } from 'node:crypto';
import type { StoredEvent } from '#event-store';
import type { NewEvent } from '#record';
import { createLedgerDatabase } from '../../../test/support/test-postgres.js';
import { compareTables, type ComparedSide } from './compare-tables.js';
import { findGap, handlePartition, joinPartitions, passGap, reachedPartitions, savePlaces } from './partitions.js';
import { pluginLogs } from './plugin-logs.js';
import type { Projection } from './projection.js';
import { handleEvents, openReadModels, rebuildReadModel, type Generation } from './read-models.js';
import { openReading } from './reading.js';
import { record } from './record.js';
import { openTestLedger, type TestLedger } from './test-ledger.js';
import type { TestInvocation } from './test-record.js';

jest.setTimeout(60_000);

let ledger: TestLedger;

beforeEach(async () => {
  ledger = openTestLedger(await createLedgerDatabase());
}, 60_000);

afterEach(async () => {
  await ledger.close();
});

/** Invocations in sessions and outside of them, with operations whose sides lie in different sessions. */
const invocationsOf = (count: number): readonly TestInvocation[] =>
  Array.from({ length: count }, (_, n): TestInvocation => {
    const hook = n % 2 === 0 ? 'sshCommandSending' : 'sshCommandCompleted';
    return {
      id: `i${String(n)}`,
      account: n % 7 === 0 ? 'b' : 'a',
      turnId: `t${String(n % 6)}`,
      ...(n % 3 === 0 ? {} : { sessionId: `s${String(n % 5)}` }),
      ...(n % 4 === 0 ? {} : { agentId: `agent${String(n % 3)}` }),
      turnInferred: n % 2 === 0,
      hook,
      operationId: `o${String(Math.floor(n / 2))}`,
      handlers: [
        {
          pluginId: `p${String(n % 3)}`,
          outcome: 'rewrote',
          output: n,
          warnings: ['late', 'a'],
          hostCalls: [{ callId: `c${String(n)}`, member: n % 2 === 0 ? 'log' : 'fetch', answer: n }],
        },
        { pluginId: 'q', outcome: n % 5 === 0 ? 'skipped' : 'passed', ...(n % 5 === 0 ? { cause: 'failed' } : {}) },
      ],
      outcome: 'rewritten',
      value: n,
    };
  });

const partitionsOf = (events: readonly StoredEvent[], count: number): readonly (readonly StoredEvent[])[] => {
  const partitions: StoredEvent[][] = Array.from({ length: count }, () => []);
  for (const stored of events) {
    const { account, sessionId, stream } = stored.event;
    const hash = createHash('sha256').update(JSON.stringify([account, sessionId ?? null, sessionId ?? stream]));
    partitions[hash.digest().readUInt32BE() % count]?.push(stored);
  }
  return partitions;
};

/** A batch that has partly been taken before, as after a rebalance, and ends somewhere. */
const take = async (
  projection: Projection,
  generation: Generation,
  partition: number,
  events: readonly StoredEvent[],
  from: number,
  to: number,
): Promise<void> => {
  const end = { topic: 't', partition, before: 0n, nextOffset: BigInt(to) };
  await ledger.sql.transaction((tx) =>
    handlePartition(projection, generation, events.slice(from, to), end, tx, ledger.store),
  );
  await joinPartitions(ledger.sql, projection, generation);
};

const only = async (projection: Projection): Promise<Generation> => {
  const [generation] = await openReadModels(ledger.sql, [projection]);
  if (generation === undefined) throw new Error('no generation');
  return generation;
};

/** What a generation that was built in the order of the log has otherwise. */
const differences = async (projection: Projection, taken: Generation): Promise<readonly unknown[]> => {
  const built = await rebuildReadModel(ledger.sql, projection);
  const events = await ledger.store.readAll(-1n, 10_000);
  await ledger.sql.transaction((tx) => handleEvents(projection, built, events, tx, ledger.store));
  return ledger.sql.transaction(async (tx) => {
    const found: unknown[] = [];
    const sides = [taken, built].map((generation) => ({ sql: tx, generation })) as [ComparedSide, ComparedSide];
    for await (const difference of compareTables(projection, ...sides)) found.push(difference);
    return found;
  });
};

const position = async (generation: Generation): Promise<bigint> => {
  const [row] = await ledger.sql.query<{ position: string }>('select position from read_model where generation = $1', [
    generation.generation,
  ]);
  return BigInt(row?.position ?? -2);
};

describe('partitions that several workers take', () => {
  it.each([record, pluginLogs])(
    'make the same rows of $name as the log in its order, whatever comes twice',
    async (projection) => {
      await ledger.write(...invocationsOf(60));
      const events = await ledger.store.readAll(-1n, 10_000);
      const generation = await only(projection);
      const partitions = partitionsOf(events, 5);
      await Promise.all(
        partitions.map(async (own, partition) => {
          for (let at = 0; at < own.length; at += 17) {
            await take(projection, generation, partition, own, Math.max(0, at - 9), Math.min(own.length, at + 17));
          }
        }),
      );
      expect(await joinPartitions(ledger.sql, projection, generation)).toBe(BigInt(events.length) - 1n);
      expect(await differences(projection, generation)).toEqual([]);
      const spans = await ledger.sql.query('select 1 from read_model_span where generation = $1', [
        generation.generation,
      ]);
      expect(spans).toEqual([]);
    },
  );

  it('make the same rows of clears and cron runs, though the events of one run lie in different sessions', async () => {
    for (let n = 0; n < 12; n += 1) {
      const run = { runId: `r${String(n)}`, jobId: `j${String(n % 3)}`, slotAt: '2026-03-01T10:00:00.000Z' };
      const told = { ...run, kind: 'k', name: 'n', prompt: 'p', firedBy: `i${String(n)}` };
      const clear = { clearId: `c${String(n)}`, trailingText: null };
      const write = (stream: string, events: readonly NewEvent[]) => ({ stream, expectedVersion: 0, events });
      await ledger.store.append({
        account: 'a',
        writes: [
          write(`cron-run/${run.runId}`, [
            { type: 'cron.run_started', agentId: 'x', data: { ...told, finalPrompt: 'f' } },
            { type: 'cron.run_leased', sessionId: `s${String(n % 4)}`, data: { ...run, leaseUntil: run.slotAt } },
            { type: 'cron.run_leased', data: { ...run, leaseUntil: '2026-03-01T11:00:00.000Z' } },
            { type: 'cron.run_closed', sessionId: `s${String(n % 5)}`, data: { ...told, status: 'done' } },
            { type: 'cron.run_notified', data: { ...run, handlers: 2, undecided: n % 2 } },
          ]),
          write(`session-clear/${String(n)}`, [
            { type: 'session.clear_started', sessionId: `s${String(n % 4)}`, data: { ...clear, messageCount: n } },
            { type: 'session.cleared', sessionId: `s${String(n % 4)}`, data: { ...clear, deletedMessageCount: n } },
          ]),
        ],
      });
    }
    const events = await ledger.store.readAll(-1n, 10_000);
    const generation = await only(record);
    const partitions = partitionsOf(events, 4).toReversed();
    for (const [partition, own] of partitions.entries()) {
      for (let at = 0; at < own.length; at += 5) {
        await take(record, generation, partition, own, at, Math.min(own.length, at + 5));
      }
    }
    const rows = await ledger.sql.query(
      `select 1 from rm${String(generation.generation)}_cron_run where state = 'closed' and lease_until > slot_at`,
    );
    expect(rows).toHaveLength(12);
    expect(await differences(record, generation)).toEqual([]);
  });

  it('make the same rows when two workers believe that they own a partition', async () => {
    await ledger.write(...invocationsOf(40));
    const events = await ledger.store.readAll(-1n, 10_000);
    const generation = await only(record);
    const partitions = partitionsOf(events, 3);
    const owner = (step: number) =>
      partitions.map(async (own, partition) => {
        for (let at = 0; at < own.length; at += step) {
          await take(record, generation, partition, own, at, Math.min(own.length, at + step));
        }
      });
    await Promise.all([...owner(13), ...owner(20)]);
    await joinPartitions(ledger.sql, record, generation);
    expect(await differences(record, generation)).toEqual([]);
  });

  it('are complete up to where the first position is missing, and the account with them', async () => {
    const positions = await ledger.write(...invocationsOf(30));
    const events = await ledger.store.readAll(-1n, 10_000);
    const generation = await only(record);
    const [slow = [], ...others] = partitionsOf(events, 3);
    for (const [at, own] of others.entries()) await take(record, generation, at + 1, own, 0, own.length);
    const missing = slow[0]?.globalPosition ?? 0n;
    expect(await position(generation)).toBe(missing - 1n);
    const before = events.filter(({ event, globalPosition }) => event.account === 'a' && globalPosition < missing);
    const reading = await openReading(ledger.sql, ledger.store, record, 'a');
    expect(reading.completeUpTo).toBe(before.at(-1)?.position ?? null);

    await take(record, generation, 0, slow, 0, slow.length);
    const whole = await openReading(ledger.sql, ledger.store, record, 'a');
    expect(whole.completeUpTo).toBe(events.filter(({ event }) => event.account === 'a').at(-1)?.position);
    expect(positions).toHaveLength(30);
  });

  it('go on from what was taken in the order of the log, and give back to it', async () => {
    await ledger.write(...invocationsOf(20));
    const generation = await only(record);
    const first = await ledger.store.readAll(-1n, 50);
    await ledger.sql.transaction((tx) => handleEvents(record, generation, first, tx, ledger.store));
    await ledger.write(...invocationsOf(40).slice(20));
    const all = await ledger.store.readAll(-1n, 10_000);
    const partitions = partitionsOf(all, 4);
    for (const [at, own] of partitions.slice(0, 3).entries()) await take(record, generation, at, own, 0, own.length);
    await ledger.sql.transaction((tx) => handleEvents(record, generation, all, tx, ledger.store));
    expect(await differences(record, generation)).toEqual([]);
  });

  it('take nothing of what is offered by a member that knows more than the database', async () => {
    await ledger.write(...invocationsOf(3));
    const events = await ledger.store.readAll(-1n, 100);
    const generation = await only(record);
    await take(record, generation, 0, events, 0, 5);
    const offered = { topic: 't', partition: 0, before: 9n, nextOffset: 12n };
    const handled = await ledger.sql.transaction((tx) =>
      handlePartition(record, generation, events.slice(9, 12), offered, tx, ledger.store),
    );
    expect(handled).toEqual({ state: 'behind' });
    const [reached] = await reachedPartitions(ledger.sql, generation.generation);
    expect(reached).toMatchObject({ nextOffset: 5n });
  });

  it('name the gap that they wait for, and pass over it when it was purged', async () => {
    await ledger.write(...invocationsOf(4));
    const events = await ledger.store.readAll(-1n, 100);
    const generation = await only(record);
    await take(record, generation, 0, [...events.slice(0, 2), ...events.slice(7)], 0, events.length - 5);
    const gap = await findGap(ledger.sql, generation);
    expect(gap).toEqual({ first: 2n, last: 6n });
    if (gap !== null) await passGap(ledger.sql, generation, gap);
    expect(await joinPartitions(ledger.sql, record, generation)).toBe(BigInt(events.length) - 1n);
    expect(await findGap(ledger.sql, generation)).toBeNull();
  });

  it('take the place of the live tables when they have reached them', async () => {
    await ledger.write(...invocationsOf(20));
    const events = await ledger.store.readAll(-1n, 10_000);
    const live = await only(record);
    await ledger.sql.transaction((tx) => handleEvents(record, live, events, tx, ledger.store));
    const building = await rebuildReadModel(ledger.sql, record);
    const partitions = partitionsOf(events, 3);
    for (const [at, own] of partitions.entries()) await take(record, building, at, own, 0, own.length);
    const rows = await ledger.sql.query('select generation, state from read_model order by generation');
    expect(rows).toEqual([
      { generation: live.generation, state: 'retired' },
      { generation: building.generation, state: 'live' },
    ]);
  });

  it('bring nothing back that was purged from the record', async () => {
    await ledger.write(...invocationsOf(6));
    const events = await ledger.store.readAll(-1n, 100);
    const [purged] = events.filter(({ event }) => event.invocationId === 'i2' && event.type === 'invocation.opened');
    const last = events.filter(({ event }) => event.invocationId === 'i2').at(-1);
    await ledger.sql.query(
      'insert into purged_range (account, first, last, said_at, purged_at) values ($1, $2, $3, 0, now())',
      ['a', purged?.position, last?.position],
    );
    const generation = await only(record);
    await take(record, generation, 0, events, 0, events.length);
    const rows = await ledger.sql.query<{ id: string }>(
      `select invocation_id as id from rm${String(generation.generation)}_invocation order by position, account`,
    );
    expect(rows.map(({ id }) => id).sort()).toEqual(['i0', 'i1', 'i3', 'i4', 'i5']);
    expect(await position(generation)).toBe(BigInt(events.length) - 1n);
  });

  it('stop with the first batch after other tables took the place of theirs', async () => {
    await ledger.write(...invocationsOf(2));
    const events = await ledger.store.readAll(-1n, 100);
    const generation = await only(record);
    await ledger.sql.query("update read_model set state = 'retired' where generation = $1", [generation.generation]);
    const end = { topic: 't', partition: 0, before: 0n, nextOffset: 3n };
    const handled = await ledger.sql.transaction((tx) =>
      handlePartition(record, generation, events.slice(0, 3), end, tx, ledger.store),
    );
    expect(handled).toEqual({ state: 'retired', setAside: [] });
  });

  it('are read on from where the merged log was left', async () => {
    const generation = await only(record);
    await ledger.sql.transaction((tx) =>
      savePlaces(
        tx,
        generation.generation,
        41n,
        new Map([
          [
            't',
            new Map([
              [0, 20n],
              [1, 22n],
            ]),
          ],
        ]),
      ),
    );
    expect(await reachedPartitions(ledger.sql, generation.generation)).toEqual([
      { topic: 't', partition: 0, position: 41n, nextOffset: 20n },
      { topic: 't', partition: 1, position: 41n, nextOffset: 22n },
    ]);
  });
});
