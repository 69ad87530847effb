import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Json } from '#record';
import type { SealedLog } from './support/tampered-log.js';
import { verifyAfter, writeSealedLog } from './support/tampered-log.js';
import type { TestLog } from './support/tampering.js';
import { openTestLog, tamper } from './support/tampering.js';

let log: SealedLog;

beforeAll(async () => {
  log = await writeSealedLog();
}, 120_000);

afterAll(() => log.drop());

const inLog = async <T>(url: string, work: (opened: TestLog) => Promise<T>): Promise<T> => {
  const opened = await openTestLog(url);
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
};

const append = async ({ store }: TestLog, type: 'retention.purged' | 'payload.erased', data: Json): Promise<void> => {
  const events = [{ type, data: data as { readonly [key: string]: Json } }];
  await store.append({ account: 'acme', writes: [{ stream: 'keeping', expectedVersion: 'any', events }] });
};

const range = (first: number, last: number): Json => ({
  first: String(first),
  last: String(last),
  events: last - first + 1,
});

/** Records a purge of three invocations and removes their rows, as the database's function does. */
const purge =
  (change: { readonly root?: string; readonly events?: number } = {}) =>
  async (url: string): Promise<void> => {
    await inLog(url, async (opened) => {
      const rows = await opened.sql.query<{ leaf: Buffer }>(
        `select leaf from event where account = 'acme' and account_position between 8 and 19 order by account_position`,
      );
      const root = createHash('sha256');
      for (const { leaf } of rows) root.update(leaf);
      const policy = { invocation: { days: 1, before: '2026-01-01T00:00:00.000Z' } };
      await append(opened, 'retention.purged', {
        ranges: [range(8, 15), range(16, 19)],
        events: change.events ?? 12,
        policy,
        root: change.root ?? root.digest('hex'),
      });
    });
    await tamper(url, `delete from event where account = 'acme' and account_position between 8 and 19`);
  };

describe('a recorded purge', () => {
  it('covers what is missing', async () => {
    const { named, summary } = await verifyAfter(log, 'with', purge());
    expect(named).toEqual([]);
    expect(summary.accounts.find(({ account }) => account === 'acme')).toMatchObject({ purged: 12, missing: 0 });
  });

  it('is noted where it has not come to its end', async () => {
    const { named, summary } = await verifyAfter(log, 'with', (url) =>
      inLog(url, (opened) => append(opened, 'retention.purged', { ranges: [range(8, 9)], events: 2, policy: {} })),
    );
    expect(named).toEqual([]);
    expect(summary.notes.join(' ')).toContain('2 events are to be removed by a recorded purge');
  });

  it('covers nothing else', async () => {
    const { named } = await verifyAfter(log, 'with', async (url) => {
      await purge()(url);
      await tamper(url, `delete from event where account = 'acme' and account_position in (7, 20)`);
    });
    expect(named.filter((name) => !name.startsWith('stream-gap'))).toEqual([
      'event-missing acme 20',
      'event-missing acme 7',
    ]);
  });

  it.each<[string, Parameters<typeof purge>[0]]>([
    ['names another root', { root: 'ab'.repeat(32) }],
    ['counts other events', { events: 11 }],
  ])('is not believed where it %s', async (_, change) => {
    expect((await verifyAfter(log, 'with', purge(change))).named).toEqual(['purge-differs acme 288']);
  });

  it('must leave the hashes of what it removed in the tree', async () => {
    const { named } = await verifyAfter(log, 'with', async (url) => {
      await purge()(url);
      await tamper(
        url,
        `update tile set hashes = overlay(hashes placing sha256('x') from ${9 * 32 + 1} for 32)
          where account = 'acme' and level = 0 and idx = 0`,
      );
    });
    expect(named).toEqual(['checkpoint-root acme 119..279', 'purge-differs acme 288', 'tile-changed acme 0..255']);
  });

  it('that somebody else wrote is a forged row', async () => {
    const { named } = await verifyAfter(log, 'with', async (url) => {
      await purge()(url);
      await tamper(url, `update event set tag = sha256('x') where account = 'acme' and account_position = 288`);
    });
    expect(named).toEqual(['forged acme 288']);
  });
});

const key = "account = 'acme' and scope = 'session:s-1'";

/** Destroys a session's key and its blobs, and puts it on record. */
const erase = (url: string): Promise<void> =>
  inLog(url, async (opened) => {
    const rows = await opened.sql.query<{ id: string }>(`select id from data_key where ${key}`);
    const keys = rows.map(({ id }) => id);
    await opened.sql.query('delete from blob where key_id = any ($1::text[])', [keys]);
    await opened.sealing.destroyKeys('acme', keys);
    const scope = { kind: 'session', id: 's-1' };
    await append(opened, 'payload.erased', { scope, keys, blobs: 36, reason: null, state: 'done' });
  });

describe('a recorded erasure', () => {
  it('covers the keys and blobs that are gone', async () => {
    expect((await verifyAfter(log, 'with', erase)).named).toEqual([]);
  });

  it('is found undone where the key is there again', async () => {
    const { named } = await verifyAfter(log, 'with', async (url) => {
      await erase(url);
      await tamper(url, `update data_key set wrapped = 'x', erased_at = null where ${key}`);
    });
    expect(named).toEqual(expect.arrayContaining(['erasure-undone acme 288', 'key-changed acme 4']));
  });

  it('covers no blob under another key', async () => {
    const { named } = await verifyAfter(log, 'with', async (url) => {
      await erase(url);
      await tamper(
        url,
        `delete from blob where key_id = (select id from data_key where account = 'acme' and scope = 'session:s-0')`,
      );
    });
    expect(named).toHaveLength(36);
    expect(named[0]).toBe('blob-missing acme 0');
  });
});
