import type { Sql } from '#event-store';
import type { Kafka, PartitionOffsets, TopicNames } from '#kafka';
import { refillBlobs } from './refill-blobs.js';
import { refillCheckpoints, refillLeaves } from './refill-checkpoints.js';
import { refillEvents } from './refill-events.js';
import { finishKeys, refillKeys } from './refill-keys.js';
import { settleLog } from './refill-settle.js';
import { RefillRefused, type Refilling, type RefillParts } from './refilling.js';

/** What was put into the database. */
export interface Refilled {
  readonly events: number;
  readonly accounts: number;
  /** Events that the topics have and the record no longer. */
  readonly purged: number;
  readonly keys: number;
  readonly blobs: number;
  readonly checkpoints: number;
  /** Highest global position; -1 = the topics are empty. */
  readonly position: string;
  readonly warnings: readonly string[];
}

/**
 * Fills the tables of an empty log in one transaction. Keys and blobs come first, so that events find them; events in
 * the order of the log; then the trees, the checkpoints, and what was purged and erased goes again. Rejects with
 * `RefillRefused`.
 */
export const refillLog = async (parts: RefillParts): Promise<Refilled> => {
  const { sql, kafka, names, progress } = parts;
  const total = await countMessages(kafka, names);
  const warnings: string[] = [];
  let done = 0;
  const read = (messages: number): void => {
    done += messages;
    progress.update(Math.min(done, total), total);
  };
  return sql.transaction(async (tx) => {
    await lockEmpty(tx);
    const refilling: Refilling = { ...parts, sql: tx, warn: (warning) => warnings.push(warning), read };
    progress.say('keys');
    await refillKeys(refilling);
    progress.say('blobs');
    await refillBlobs(refilling);
    await refillLeaves(refilling);
    progress.say('events');
    const log = await refillEvents(refilling);
    progress.say('keys that were erased');
    const { keys } = await finishKeys(refilling, log);
    progress.say('checkpoints');
    const checkpoints = await refillCheckpoints(refilling, log);
    progress.say('what was purged');
    const { purged, blobs } = await settleLog(refilling, log);
    return {
      events: log.events - purged,
      accounts: log.accounts.size,
      purged,
      keys,
      blobs,
      checkpoints,
      position: String(log.position),
      warnings,
    };
  });
};

const countMessages = async (kafka: Kafka, names: TopicNames): Promise<number> => {
  const topics = await kafka.topics();
  try {
    let total = 0;
    for (const topic of [names.keys, names.blobs, ...names.allEvents, names.checkpoints]) {
      const offsets = await topics.offsets(topic);
      if (offsets === null) throw new RefillRefused(`There is no topic ${topic}.`);
      total += offsets.reduce((sum, { low, high }: PartitionOffsets) => sum + Number(high - low), 0);
    }
    return total;
  } finally {
    await topics.close();
  }
};

/** A server that starts meanwhile waits, and finds the whole log. */
const lockEmpty = async (sql: Sql): Promise<void> => {
  await sql.query('lock table head, account_head, data_key, blob, checkpoint, log_format in share row exclusive mode');
  const [found] = await sql.query<{ position: string; rest: boolean }>(
    `select position, exists (select from data_key) or exists (select from blob) or exists (select from checkpoint)
       or exists (select from log_key) as rest from head`,
  );
  if (found?.position === '-1' && !found.rest) return;
  throw new RefillRefused('The database is not empty: only one that no server has started on is refilled.');
};
