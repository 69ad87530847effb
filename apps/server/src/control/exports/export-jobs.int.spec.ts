import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Sql } from '#event-store';
import { createPool, sqlOver } from '#event-store';
import type { TestDatabase } from '../../../../../test/support/test-postgres.js';
import { createLedgerDatabase } from '../../../../../test/support/test-postgres.js';
import type { ClaimedJob, ExportManifest, ExportPin } from './export-jobs.js';
import {
  claimExport,
  endExport,
  exportJob,
  failExport,
  makeAgain,
  mostAttempts,
  noteExports,
  renewExport,
} from './export-jobs.js';

let database: TestDatabase;
let pool: ReturnType<typeof createPool>;
let sql: Sql;

beforeEach(async () => {
  database = await createLedgerDatabase();
  pool = createPool({ connectionString: database.url });
  sql = sqlOver(pool);
}, 60_000);

afterEach(async () => {
  await pool.end();
  await database.drop();
});

const pin = { first: '0', last: '1', treeSize: null, checkpoints: [], createdAt: '', madeAt: '2' } satisfies ExportPin;
const manifest = { format: 'f', createdAt: '', files: {}, events: 2 } as ExportManifest;
const ask = (id: string, account = 'a') => noteExports(sql, [{ account, id }]);
const claimed = async (leaseMs = 60_000): Promise<ClaimedJob> => {
  const job = await claimExport(sql, leaseMs);
  if (job === null) throw new Error('nothing to claim');
  return job;
};

describe('an export that was asked for', () => {
  it('is noted once however often its event comes, and of its account', async () => {
    await ask('x');
    const job = await claimed();
    await ask('x');
    expect(await exportJob(sql, 'a', 'x')).toMatchObject({ state: 'running' });
    expect(await exportJob(sql, 'b', 'x')).toBeNull();
    expect(await claimExport(sql, 1)).toBeNull();
    expect(await endExport(sql, job, pin, manifest)).toBe(true);
    expect(await exportJob(sql, 'a', 'x')).toMatchObject({ state: 'done', progress: 2, pin, manifest });
  });

  it('is one worker’s while its lease lives, and another’s when it died: then the first one’s words count no more', async () => {
    await ask('x');
    const lost = await claimed(0);
    const next = await claimed();
    expect([next.id, next.attempts]).toEqual(['x', 2]);
    expect(await renewExport(sql, lost, 5, 60_000)).toBe(false);
    expect(await endExport(sql, lost, pin, manifest)).toBe(false);
    await failExport(sql, lost);
    expect(await renewExport(sql, next, 5, 60_000)).toBe(true);
    expect(await exportJob(sql, 'a', 'x')).toMatchObject({ state: 'running', progress: 5 });
  });

  it('goes to one of many workers that look at once', async () => {
    await Promise.all(['x', 'y', 'z'].map((id) => ask(id)));
    const found = await Promise.all(Array.from({ length: 12 }, () => claimExport(sql, 60_000)));
    expect(found.flatMap((job) => (job === null ? [] : [job.id])).sort()).toEqual(['x', 'y', 'z']);
  });

  it('is given up after some attempts that failed', async () => {
    await ask('x');
    for (let attempt = 1; attempt <= mostAttempts; attempt += 1) await failExport(sql, await claimed());
    expect(await exportJob(sql, 'a', 'x')).toMatchObject({ state: 'failed' });
    expect(await claimExport(sql, 1)).toBeNull();
  });

  it('is made again only when it was made', async () => {
    await ask('x');
    const job = await claimed();
    await makeAgain(sql, 'a', 'x');
    expect(await exportJob(sql, 'a', 'x')).toMatchObject({ state: 'running' });
    await endExport(sql, job, pin, manifest);
    await makeAgain(sql, 'a', 'x');
    expect(await exportJob(sql, 'a', 'x')).toMatchObject({ state: 'waiting', pin: null, manifest: null });
    expect((await claimed()).attempts).toBe(1);
  });
});
