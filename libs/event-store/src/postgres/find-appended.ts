import type pg from 'pg';
import type { BatchItem } from './append-batch.js';

/** Where an append stands. */
export interface Place {
  readonly globalFirst: bigint;
  readonly first: bigint;
}

/**
 * Looks up an append whose commit was not answered: null when it is not there and will not come. The head is locked
 * for the look, so that a session that still works on it has ended.
 */
export const findAppended = async (client: pg.PoolClient, item: BatchItem): Promise<Place | null> => {
  await client.query('begin');
  try {
    await client.query('select from head where id = 1 for update');
    return await (item.streams.length > 0 ? findEvents(client, item) : findCommand(client, item));
  } finally {
    await client.query('commit');
  }
};

const findEvents = async (client: pg.PoolClient, item: BatchItem): Promise<Place | null> => {
  const [stream] = item.streams;
  const event = stream?.events[0]?.event;
  if (event === undefined) return null;
  const { rows } = await client.query<{ position: string; account_position: string }>(
    'select position, account_position from event where account = $1 and stream = $2 and version = $3 and id = $4',
    [event.account, event.stream, event.streamVersion, event.id],
  );
  const [row] = rows;
  return row === undefined ? null : { globalFirst: BigInt(row.position), first: BigInt(row.account_position) };
};

/** An append without events shows only in the command that it ended. */
const findCommand = async (client: pg.PoolClient, item: BatchItem): Promise<Place | null> => {
  const [command] = item.commands;
  const { rows } = await client.query<{ first: string }>(
    'select first from command where account = $1 and idempotency_key = $2 and token = $3 and result is not null',
    [item.account, command?.key, command?.token],
  );
  const [row] = rows;
  return row === undefined ? null : { globalFirst: -1n, first: BigInt(row.first) };
};
