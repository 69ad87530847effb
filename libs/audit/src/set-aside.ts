import type { Sql, StoredEvent } from '#event-store';
import { EventFault, type Projection, type Target } from './projection.js';

/** An event that a read model could not take. */
export interface SetAside {
  readonly stored: StoredEvent;
  /** Kind of the fault without content: the error's name and the database's code. */
  readonly fault: string;
}

export const setAsideDdl = `create table if not exists read_model_set_aside (
  name text not null, generation int not null, global_position bigint not null, account text not null,
  position bigint not null, type text not null, fault text not null, at timestamptz not null default now(),
  primary key (name, generation, global_position)
)`;

interface Whose {
  readonly name: string;
  readonly generation: number;
}

/**
 * Applies a batch. When it cannot be applied, it is halved until the event at fault stands alone; that one is written
 * down in `read_model_set_aside` and the rest goes on in order. Faults of the database itself (connection, lock, disk)
 * are thrown: they are no event's fault and the batch comes again.
 */
export const applySettingAside = async (
  projection: Projection,
  whose: Whose,
  events: readonly StoredEvent[],
  target: Target,
): Promise<readonly SetAside[]> => {
  if (events.length === 0) return [];
  const fault = await tryApply(projection, events, target);
  if (fault === null) return [];
  const [only] = events;
  if (events.length === 1 && only !== undefined) {
    await writeDown(target.sql, whose, only, fault);
    return [{ stored: only, fault }];
  }
  const middle = Math.ceil(events.length / 2);
  const first = await applySettingAside(projection, whose, events.slice(0, middle), target);
  const second = await applySettingAside(projection, whose, events.slice(middle), target);
  return [...first, ...second];
};

const tryApply = async (
  projection: Projection,
  events: readonly StoredEvent[],
  target: Target,
): Promise<string | null> => {
  await target.sql.query('savepoint events');
  try {
    await projection.apply(events, target);
  } catch (error) {
    if (isTransient(error)) throw error;
    await target.sql.query('rollback to savepoint events');
    return faultOf(error);
  }
  await target.sql.query('release savepoint events');
  return null;
};

const writeDown = async (sql: Sql, { name, generation }: Whose, stored: StoredEvent, fault: string): Promise<void> => {
  await sql.query(
    `insert into read_model_set_aside (name, generation, global_position, account, position, type, fault)
     values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing`,
    [name, generation, stored.globalPosition, stored.event.account, stored.position, stored.event.type, fault],
  );
};

/** Classes of SQLSTATE that say something about the event: its data (22), a constraint (23), a program limit (54). */
const eventsFault = /^(22|23|54)/;

const sqlState = (error: unknown): string | null => {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : null;
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : null;
};

/** A fault of ours in reading the event is the event's as well: no retry mends it. */
const isTransient = (error: unknown): boolean => {
  if (error instanceof EventFault) return false;
  const state = sqlState(error);
  if (state !== null) return !eventsFault.test(state);
  return !(error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError);
};

const faultOf = (error: unknown): string => {
  const name = error instanceof Error ? error.name : typeof error;
  const state = sqlState(error);
  return state === null ? name : `${name} ${state}`;
};
