import { readFileSync, readlinkSync } from 'node:fs';
import type { Sql } from '#event-store';

/** How long a process counts as alive after its last sign of life, ms; and how often it gives one. */
export const leaseMs = 15_000;
export const renewMs = 5_000;

/** The lease of a process as the database sees it now. */
export interface LeaseSeen {
  readonly epoch: string;
  readonly mark: string | null;
  readonly lapsed: boolean;
}

/**
 * Gives a sign of life, for which the lease holds from now on by the database's clock. A lease that had lapsed begins a
 * new epoch: whoever counted this process as dead meanwhile was right, and begins to count anew.
 */
export const renewLease = async (sql: Sql, instance: string, mark: string | null): Promise<void> => {
  await sql.query(
    `insert into instance_lease as l (id, mark, lease_until)
       values ($1, $2, clock_timestamp() + make_interval(secs => $3))
     on conflict (id) do update set
       epoch = l.epoch + case when l.lease_until < clock_timestamp() then 1 else 0 end,
       lease_until = excluded.lease_until`,
    [instance, mark, leaseMs / 1000],
  );
};

/** Ends the lease of a process that stops: it runs nothing any more. */
export const releaseLease = async (sql: Sql, instance: string): Promise<void> => {
  await sql.query('delete from instance_lease where id = $1', [instance]);
};

/** Forgets processes that have been gone for a day and left nothing open. */
export const forgetLeases = async (sql: Sql): Promise<void> => {
  await sql.query(
    `delete from instance_lease l where l.lease_until < clock_timestamp() - interval '1 day'
       and not exists (select from open_invocation o where o.instance = l.id::text)`,
  );
};

/** The lease of a process; null when it has none. */
export const seeLease = async (sql: Sql, instance: string): Promise<LeaseSeen | null> => {
  const [row] = await sql.query<{ epoch: string; mark: string | null; lapsed: boolean }>(
    `select epoch, mark, lease_until < clock_timestamp() as lapsed from instance_lease where id::text = $1`,
    [instance],
  );
  return row ?? null;
};

/**
 * Names this process among all that its kernel has run since it booted: boot, space of process numbers, number, and when
 * it began. Null where the system does not tell.
 */
export const processMark = (pid = process.pid): string | null => {
  const began = beganAt(pid);
  const space = processSpace();
  return began === null || space === null ? null : `${space} ${String(pid)} ${began}`;
};

/** Whether the process of a mark is gone for sure, as only its own machine can tell. */
export const isGone = (mark: string | null): boolean => {
  const space = processSpace();
  if (mark === null || space === null || !mark.startsWith(`${space} `)) return false;
  const [pid = '', began = ''] = mark.slice(space.length + 1).split(' ');
  return beganAt(Number(pid)) !== began;
};

const processSpace = (): string | null => {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return null;
  }
};

/** When a process began, in ticks since boot; null when there is none, or only what its parent has not yet buried. */
const beganAt = (pid: number): string | null => {
  try {
    const stat = readFileSync(`/proc/${String(pid)}/stat`, 'utf8');
    // The name of the program, in parentheses, may itself hold anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? null : (fields[19] ?? null);
  } catch {
    return null;
  }
};
