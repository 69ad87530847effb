import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { readProgress } from '../apps/server/src/worker/kafka-relay-tables.js';
import { startRelay } from '../apps/server/src/worker/kafka-relay-work.js';
import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import { openKafka, topicNames } from '#kafka';
import { startTestBroker, type TestBroker } from '../test/support/kafka-broker.js';
import { startTestCluster } from '../test/support/test-postgres.js';
import type { Figure } from './figures.js';
import { atLeast, median, rounded, spread } from './figures.js';

/** Bytes of text in an event: with its names, times and ids it then has about as many as one of a real chain. */
const textBytes = 600;
const sessions = 500;
const perAppend = 200;

/**
 * How fast one worker brings a log to a real broker, against what the broker's own measuring tool does on the same
 * machine with messages of the same size.
 */
export const measureRelay = async (rounds: number, events: number): Promise<readonly Figure[]> => {
  const broker = await startTestBroker();
  const cluster = await startTestCluster({ durable: true });
  const database = await cluster.createLedgerDatabase();
  const store = postgresEventStore({ connectionString: database.url });
  const pool = createPool({ connectionString: database.url });
  try {
    const sql = sqlOver(pool);
    await sql.query('update log_format set log_id = $1 where log_id is null', [randomUUID()]);
    const bytes = await fill(store, sql, events);
    const relayed: number[] = [];
    const own: number[] = [];
    for (let round = 0; round <= rounds; round += 1) {
      const rates = [await relayOnce(broker, sql, store, events), await producerPerf(broker, events, bytes)] as const;
      // The first round warms up.
      if (round === 0) continue;
      relayed.push(rates[0]);
      own.push(rates[1]);
    }
    const goal = Math.min(20_000, median(own) / 2);
    const from = `${String(events)} events of ${String(bytes)} bytes; rounds ${spread(relayed)}; kafka-producer-perf-test with acks=all: ${rounded(median(own))}/s`;
    return [atLeast('relay of one worker to a real broker', Math.round(goal), median(relayed), '/s', from)];
  } finally {
    await store.close();
    await pool.end();
    cluster.close();
    await broker.close();
  }
};

/** Answers with the mean bytes of an event. */
const fill = async (store: EventStore, sql: Sql, events: number): Promise<number> => {
  const text = 'x'.repeat(textBytes);
  for (let done = 0; done < events; done += perAppend * 10) {
    await Promise.all(
      Array.from({ length: 10 }, (_, n) => {
        const sessionId = `session-${String((done / perAppend + n) % sessions)}`;
        const batch = Array.from({ length: perAppend }, () => ({
          type: 'handler.passed' as const,
          sessionId,
          data: { text },
        }));
        const writes = [{ stream: `invocation/${randomUUID()}`, expectedVersion: 0, events: batch }];
        return store.append({ account: 'default', writes });
      }),
    );
  }
  const [row] = await sql.query<{ mean: string }>('select round(avg(octet_length(bytes))) as mean from event');
  return Number(row?.mean);
};

/** Events per second from the start of a relay with nothing sent to the last acknowledgement. */
const relayOnce = async (broker: TestBroker, sql: Sql, store: EventStore, events: number): Promise<number> => {
  await sql.query('delete from follower');
  const acknowledged: number[] = [];
  let firstMs = 0;
  const relay = startRelay({
    sql,
    store,
    kafka: openKafka({ brokers: [broker.address()], tls: null, sasl: null }),
    names: topicNames(`bench-${randomUUID()}`),
    partitions: 12,
    replicas: null,
    ownTopics: [],
    leaseMs: 10_000,
    watch: {
      sent: (_count, _bytes, ms) => {
        if (acknowledged.length === 0) firstMs = ms;
        acknowledged.push(performance.now());
      },
      failed: () => undefined,
      fenced: () => undefined,
      large: () => undefined,
    },
  });
  for (;;) {
    const { position, head } = await readProgress(sql);
    if (position === head) break;
    await delay(50);
  }
  await relay.stop();
  const took = (acknowledged.at(-1) ?? 0) - (acknowledged[0] ?? 0) + firstMs;
  return events / (took / 1000);
};

/** Records per second, as `kafka-producer-perf-test` says them. */
const producerPerf = async (broker: TestBroker, records: number, bytes: number): Promise<number> => {
  const topic = `perf-${randomUUID()}`;
  await broker.createTopic(topic, 12);
  const said = await broker.tool('org.apache.kafka.tools.ProducerPerformance', [
    ...['--topic', topic, '--num-records', String(records), '--record-size', String(bytes), '--throughput', '-1'],
    ...['--command-property', 'acks=all'],
  ]);
  const rate = [...said.matchAll(/([\d.]+) records\/sec/gu)].at(-1)?.[1];
  if (rate === undefined) throw new Error(`kafka-producer-perf-test said no rate:\n${said}`);
  return Number(rate);
};
