import { randomUUID } from 'node:crypto';
import type { Sql } from '#event-store';
import type { JsonObject } from '#record';

/** A file of an export. */
export interface ExportedFile {
  readonly sha256: string;
  readonly bytes: number;
}

/** What an export holds, fixed when it was made: with it every file comes out the same again, byte for byte. */
export interface ExportPin {
  readonly first: string;
  readonly last: string;
  /** Size of the tree that the proofs lead to; null where nothing is sealed. */
  readonly treeSize: string | null;
  /** Sizes of the checkpoints that are given, ascending; the last is `treeSize`. */
  readonly checkpoints: readonly string[];
  readonly createdAt: string;
  /** Log size of the account when it was made: what was erased or purged since changes what would come out. */
  readonly madeAt: string;
}

/** `manifest.json` (docs/verification.md). */
export interface ExportManifest extends JsonObject {
  readonly format: string;
  readonly createdAt: string;
  readonly files: { readonly [name: string]: { readonly sha256: string; readonly bytes: number } };
  readonly events: number;
}

/** An export as table `export_job` knows it. */
export interface ExportJob {
  readonly account: string;
  readonly id: string;
  readonly state: 'waiting' | 'running' | 'done' | 'failed';
  readonly attempts: number;
  /** Events that are done. */
  readonly progress: number;
  readonly pin: ExportPin | null;
  readonly manifest: ExportManifest | null;
}

const columns = 'account, id, state, attempts, progress, pin, manifest';

interface JobRow {
  readonly account: string;
  readonly id: string;
  readonly state: ExportJob['state'];
  readonly attempts: number;
  readonly progress: string;
  readonly pin: string | null;
  readonly manifest: string | null;
}

const toJob = (row: JobRow): ExportJob => ({
  ...row,
  progress: Number(row.progress),
  pin: row.pin === null ? null : (JSON.parse(row.pin) as ExportPin),
  manifest: row.manifest === null ? null : (JSON.parse(row.manifest) as ExportManifest),
});

/** Notes exports that were asked for, by their events; those that are known stay as they are. */
export const noteExports = async (
  sql: Sql,
  asked: readonly { readonly account: string; readonly id: string }[],
): Promise<void> => {
  await sql.query(
    `insert into export_job (account, id) select a.account, a.id from unnest($1::text[], $2::text[]) a(account, id)
     on conflict do nothing`,
    [asked.map(({ account }) => account), asked.map(({ id }) => id)],
  );
};

/** One export; null where no worker has heard of it yet. */
export const exportJob = async (sql: Sql, account: string, id: string): Promise<ExportJob | null> => {
  const [row] = await sql.query<JobRow>(`select ${columns} from export_job where account = $1 and id = $2`, [
    account,
    id,
  ]);
  return row === undefined ? null : toJob(row);
};

/** How often an export is tried. */
export const mostAttempts = 3;

/** A job that this process makes, for as long as its lease lasts. */
export interface ClaimedJob extends ExportJob {
  readonly token: string;
}

/** Takes the oldest export that waits, or that somebody took and did not end in time. */
export const claimExport = async (sql: Sql, leaseMs: number): Promise<ClaimedJob | null> => {
  const token = randomUUID();
  const [row] = await sql.query<JobRow>(
    `update export_job j set state = 'running', token = $1, attempts = j.attempts + 1, progress = 0,
       lease_until = clock_timestamp() + make_interval(secs => $2)
     from (
       select account, id from export_job
       where state = 'waiting' or (state = 'running' and lease_until < clock_timestamp())
       order by asked_at for update skip locked limit 1
     ) next
     where j.account = next.account and j.id = next.id
     returning ${columns.replaceAll(/\w+/gu, 'j.$&')}`,
    [token, leaseMs / 1000],
  );
  return row === undefined ? null : { ...toJob(row), token };
};

/** Says how far it is and goes on holding it; false when somebody else took it over. */
export const renewExport = async (
  sql: Sql,
  { account, id, token }: ClaimedJob,
  progress: number,
  leaseMs: number,
): Promise<boolean> => {
  const rows = await sql.query(
    `update export_job set progress = $4, lease_until = clock_timestamp() + make_interval(secs => $5)
     where account = $1 and id = $2 and token = $3 and state = 'running' returning 1`,
    [account, id, token, progress, leaseMs / 1000],
  );
  return rows.length > 0;
};

/** Ends it with what was made. */
export const endExport = async (
  sql: Sql,
  { account, id, token }: ClaimedJob,
  pin: ExportPin,
  manifest: ExportManifest,
): Promise<boolean> => {
  const rows = await sql.query(
    `update export_job set state = 'done', progress = $4, pin = $5, manifest = $6, attempts = 0, token = null, lease_until = null
     where account = $1 and id = $2 and token = $3 returning 1`,
    [account, id, token, manifest.events, JSON.stringify(pin), JSON.stringify(manifest)],
  );
  return rows.length > 0;
};

/** Gives it up for now, and for good after the last attempt. */
export const failExport = async (sql: Sql, { account, id, token, attempts }: ClaimedJob): Promise<void> => {
  await sql.query(
    `update export_job set state = $4, token = null, lease_until = null where account = $1 and id = $2 and token = $3`,
    [account, id, token, attempts >= mostAttempts ? 'failed' : 'waiting'],
  );
};

/** Has it made again: what it holds was erased or purged meanwhile. */
export const makeAgain = async (sql: Sql, account: string, id: string): Promise<void> => {
  await sql.query(
    `update export_job set state = 'waiting', pin = null, manifest = null, attempts = 0
     where account = $1 and id = $2 and state = 'done'`,
    [account, id],
  );
};
