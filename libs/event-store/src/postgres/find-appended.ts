import type pg from 'pg';
import type { BatchItem } from './append-batch.js';

/** Where an append stands. */
export interface Place {
  readonly globalFirst: bigint;
  readonly first: bigint;
}

/**
 * Looks for appends whose commit was not answered: those that are not among the answers are not in the log and will
 * not come. The head is locked for the look, so that a session that still works on one of them has ended.
 */
export const findAppended = async (
  client: pg.PoolClient,
  items: readonly BatchItem[],
): Promise<ReadonlyMap<BatchItem, Place>> => {
  await client.query('begin');
  try {
    await client.query('select lock_head()');
    const withEvents = items.filter((item) => item.streams.length > 0);
    const without = items.filter((item) => item.streams.length === 0);
    const found = new Map([...(await findEvents(client, withEvents)), ...(await findCommands(client, without))]);
    await client.query('commit');
    return found;
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
};

interface FoundRow {
  readonly ord: string;
  readonly position: string;
  readonly account_position: string;
}

/** All or nothing: the first event of an append speaks for the rest. */
const findEvents = async (client: pg.PoolClient, items: readonly BatchItem[]): Promise<[BatchItem, Place][]> => {
  if (items.length === 0) return [];
  const events = items.map((item) => item.streams[0]?.events[0]?.event);
  const { rows } = await client.query<FoundRow>(
    `select k.ord, e.position, e.account_position
      from unnest($1::text[], $2::text[], $3::integer[], $4::uuid[]) with ordinality k(account, stream, version, id, ord)
      join event e on e.account = k.account and e.stream = k.stream and e.version = k.version and e.id = k.id`,
    [
      events.map((event) => event?.account),
      events.map((event) => event?.stream),
      events.map((event) => event?.streamVersion),
      events.map((event) => event?.id),
    ],
  );
  return placed(items, rows);
};

/** An append without events shows only in the command that it ended. */
const findCommands = async (client: pg.PoolClient, items: readonly BatchItem[]): Promise<[BatchItem, Place][]> => {
  if (items.length === 0) return [];
  const commands = items.map((item) => item.commands[0]);
  const { rows } = await client.query<FoundRow>(
    `select k.ord, -1 as position, c.first as account_position
      from unnest($1::text[], $2::text[], $3::text[]) with ordinality k(account, key, token, ord)
      join command c on c.account = k.account and c.idempotency_key = k.key and c.token = k.token
      where c.result is not null`,
    [items.map(({ account }) => account), commands.map((command) => command?.key), commands.map((c) => c?.token)],
  );
  return placed(items, rows);
};

const placed = (items: readonly BatchItem[], rows: readonly FoundRow[]): [BatchItem, Place][] =>
  rows.flatMap((row): [BatchItem, Place][] => {
    const item = items[Number(row.ord) - 1];
    const place = { globalFirst: BigInt(row.position), first: BigInt(row.account_position) };
    return item === undefined ? [] : [[item, place]];
  });
