import { decodeKey } from '#kafka';
import { RefillRefused, type Refilling } from './refilling.js';
import type { RefilledLog } from './refill-events.js';

/** Reads the keys topic: data keys and log keys, still wrapped; the newest word on each counts. */
export const refillKeys = async ({ sql, kafka, names, masters, warn, read }: Refilling): Promise<void> => {
  await sql.query(
    `create temporary table refill_key (id text collate "C" primary key, account text, scope text, wrapped bytea not null,
       master text, created_at timestamptz(3)) on commit drop`,
  );
  await sql.query(
    'create temporary table refill_log_key (id text collate "C" primary key, wrapped bytea not null) on commit drop',
  );
  let foreign = 0;
  await kafka.readTopic({
    topic: names.keys,
    handle: async (messages) => {
      for (const message of messages) {
        const decoded = decodeKey(message);
        if (decoded.kind === 'foreign') foreign += 1;
        else if (decoded.kind === 'tombstone') await sql.query('delete from refill_key where id = $1', [decoded.id]);
        else if (decoded.kind === 'log-key') {
          const { id, wrapped } = decoded.record;
          await sql.query(putLogKey, [id, wrapped]);
        } else {
          const { id, account, scope, wrapped, master, createdAt } = decoded.record;
          await sql.query(putKey, [id, account, scope, wrapped, master, createdAt]);
        }
      }
      read(messages.length);
    },
  });
  await checkMasters(sql, masters);
  if (foreign > 0) warn(`${String(foreign)} messages of ${names.keys} are no keys, and were passed over.`);
};

const checkMasters = async (sql: Refilling['sql'], masters: Refilling['masters']): Promise<void> => {
  const found = await sql.query<{ master: string; keys: string }>(
    'select master, count(*) as keys from refill_key group by master order by count(*) desc',
  );
  for (const { master, keys } of found) {
    if (masters.byId(master) !== undefined) continue;
    throw new RefillRefused(
      `${keys} data keys are wrapped by master key ${master}; the one that was given is ${masters.first.id}.`,
    );
  }
};

const putKey = `insert into refill_key (id, account, scope, wrapped, master, created_at) values ($1, $2, $3, $4, $5, $6)
  on conflict (id) do update set wrapped = excluded.wrapped, master = excluded.master`;
const putLogKey = `insert into refill_log_key (id, wrapped) values ($1, $2)
  on conflict (id) do update set wrapped = excluded.wrapped`;

/**
 * Puts the data keys in place. A key that the log says is erased is erased, whatever the topic still has of it; its row
 * stays, so that what it sealed is known to be erased.
 */
export const finishKeys = async (
  { sql, masters, warn }: Refilling,
  { erasedKeys }: Pick<RefilledLog, 'erasedKeys'>,
): Promise<{ readonly keys: number }> => {
  const masterIds = await sql.query<{ master: string; keys: string }>(
    'select master, count(*) as keys from refill_key group by master order by count(*) desc',
  );
  await sql.query('delete from refill_key k using unnest($1::text[]) e(id) where k.id = e.id', [
    erasedKeys.map(({ id }) => id),
  ]);
  const twice = await sql.query<{ id: string }>(
    `select id from (select id, row_number() over (partition by account, scope order by created_at desc, id desc) as place
       from refill_key) k where place > 1`,
  );
  if (twice.length > 0)
    throw new RefillRefused(`${String(twice.length)} data keys are of a scope that has a newer one.`);
  const rows = await sql.query<{ id: string }>(
    `insert into data_key (id, account, scope, wrapped, master, created_at, relayed)
       select id, account, scope, wrapped, master, created_at, master from refill_key k
       where not exists (select from data_key d where d.id = k.id) returning id`,
  );
  const inForce = masterIds[0]?.master ?? masters.first.id;
  await sql.query(
    `insert into data_key (id, account, scope, wrapped, master, created_at, erased_at)
       select e.id, e.account, '', null, $4, e.at, e.at from unnest($1::text[], $2::text[], $3::timestamptz[]) e(id, account, at)`,
    [erasedKeys.map(({ id }) => id), erasedKeys.map(({ account }) => account), erasedKeys.map(({ at }) => at), inForce],
  );
  await sql.query('insert into master_in_force (id) values ($1)', [inForce]);
  if (masterIds.length > 1) warn('A rotation of the master key was under way: run hookledger keys rotate to its end.');
  // The root secret was there before.
  return { keys: rows.length + 1 };
};
