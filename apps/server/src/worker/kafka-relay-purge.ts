import type { Sql } from '#event-store';
import { decodeEvent, type ConsumedMessage, type Kafka } from '#kafka';
import { keptPositions } from './kafka-relay-tables.js';

/** Records that are looked at in one go, at first; each further go looks at four times as many. */
const firstLook = 500;

/**
 * Removes from an account's own topic what was purged from its log. Kafka removes only from a partition's beginning, so
 * what was purged behind a record that is kept goes when that one goes. Answers with how many records went.
 */
export const purgeTopic = async (sql: Sql, kafka: Kafka, account: string, topic: string): Promise<bigint> => {
  const topics = await kafka.topics();
  try {
    const offsets = await topics.offsets(topic);
    const cuts = new Map((offsets ?? []).map(({ partition, low }) => [partition, low]));
    let open = (offsets ?? []).filter(({ low, high }) => low < high);
    for (let look = firstLook; open.length > 0; look *= 4) {
      const until = new Map((offsets ?? []).map(({ partition, low }) => [partition, low]));
      for (const { partition, high } of open) {
        const end = (cuts.get(partition) ?? 0n) + BigInt(look);
        until.set(partition, end < high ? end : high);
      }
      const kept = await firstKept(sql, kafka, account, topic, cuts, until);
      open = open.filter(({ partition, high }) => {
        const stop = kept.get(partition);
        const reached = stop ?? until.get(partition) ?? high;
        cuts.set(partition, reached);
        return stop === undefined && reached < high;
      });
    }
    const removed = (offsets ?? []).map(({ partition, low }) => (cuts.get(partition) ?? low) - low);
    const before = (offsets ?? [])
      .filter((_, index) => (removed[index] ?? 0n) > 0n)
      .map(({ partition, low }) => ({ partition, offset: cuts.get(partition) ?? low }));
    await topics.deleteBefore(topic, before);
    return removed.reduce((sum, count) => sum + count, 0n);
  } finally {
    await topics.close();
  }
};

/** The first offset of each partition, from `cuts` on and below `until`, whose event is still in the log. */
const firstKept = async (
  sql: Sql,
  kafka: Kafka,
  account: string,
  topic: string,
  cuts: ReadonlyMap<number, bigint>,
  until: ReadonlyMap<number, bigint>,
): Promise<ReadonlyMap<number, bigint>> => {
  const kept = new Map<number, bigint>();
  const handle = async (messages: readonly ConsumedMessage[]): Promise<void> => {
    const partition = messages[0]?.partition ?? -1;
    if (kept.has(partition)) return;
    const positions = messages.map((message) => [message.offset, positionIn(message, account)] as const);
    const asked = positions.flatMap(([, position]) => (position === null ? [] : [position]));
    const found = await keptPositions(sql, account, asked);
    // What is no event of the account's is none that a purge of the account may take.
    const first = positions.find(([, position]) => position === null || found.has(position));
    if (first !== undefined) kept.set(partition, first[0]);
  };
  await kafka.readTopic({ topic, from: cuts, until, handle });
  return kept;
};

const positionIn = (message: ConsumedMessage, account: string): bigint | null => {
  const decoded = decodeEvent(message);
  if (decoded.kind === 'event') return decoded.stored.event.account === account ? decoded.stored.position : null;
  const { ce_account: of, ce_position: position = '' } = message.headers;
  return decoded.kind === 'reference' && of === account && /^\d{1,19}$/u.test(position) ? BigInt(position) : null;
};
