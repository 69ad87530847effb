import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { NoteSigner } from '#proof';
import { sealByHand } from './support/hand-sealer.js';
import type { SealedLog } from './support/tampered-log.js';
import { verifyAfter, writeSealedLog } from './support/tampered-log.js';
import { openTestLog, strangersKey, tamper, verifyAt } from './support/tampering.js';

let log: SealedLog;

beforeAll(async () => {
  log = await writeSealedLog();
}, 120_000);

afterAll(() => log.drop());

const everything = ['event', 'account_head', 'stream', 'tile', 'checkpoint', 'tree', 'data_key'];

/** All traces of an account are removed, and the log closes up behind it. */
const vanish = (account: string): readonly string[] => [
  ...everything.map((table) => `delete from ${table} where account = '${account}'`),
  `update event e set position = n.position from (
      select ctid, tableoid, row_number() over (order by position) - 1 as position from event
    ) n where n.ctid = e.ctid and n.tableoid = e.tableoid`,
  `update stream s set first = e.first, last = e.last from (
      select account, stream, min(position) as first, max(position) as last from event group by account, stream
    ) e where e.account = s.account and e.stream = s.id`,
  'update head set position = (select max(position) from event)',
];

describe('the checkpoint file', () => {
  it('fits an untouched log', async () => {
    const { named, summary } = await verifyAfter(log, { outside: log.outside, logKeys: [log.logKey] }, []);
    expect(named).toEqual([]);
    expect(summary.outside).toMatchObject({ lines: 3 });
  });

  it('finds that an older copy of the whole database was restored', async () => {
    const alone = await verifyAt(log.earlier.url, { rootSecret: log.rootSecret });
    expect(alone.named).toEqual([]);
    const beside = await verifyAt(log.earlier.url, { rootSecret: log.rootSecret, outside: log.outside });
    expect(beside.named).toEqual(['event-missing acme 240..279', 'outside-ahead acme 240']);
  });

  it('finds that the end of the log was cut off together with its checkpoints', async () => {
    const act = [
      `delete from event where account = 'acme' and account_position >= 240`,
      `delete from checkpoint where account = 'acme' and size > 240`,
      `delete from tile where account = 'acme' and (level, idx) = (1, 0)`,
      `update tile set hashes = substr(hashes, 1, 240 * 32) where account = 'acme' and (level, idx) = (0, 0)`,
      `delete from tile where account = 'acme' and (level, idx) = (0, 1)`,
      `update tree set size = 240, signed = 240 where account = 'acme'`,
      `delete from stream s where account = 'acme' and id <> 'plugin/p'
        and not exists (select from event e where e.account = s.account and e.stream = s.id)`,
      `update stream set version = 60, last = (select max(position) from event where account = 'acme')
        where account = 'acme' and id = 'plugin/p'`,
      `update account_head set size = 240 where account = 'acme'`,
      'update head set position = (select max(position) from event)',
    ];
    expect((await verifyAfter(log, 'with', act)).named).toEqual([]);
    expect((await verifyAfter(log, { outside: log.outside }, act)).named).toContain('outside-ahead acme 240');
  });

  it('finds an account that vanished without a trace', async () => {
    expect((await verifyAfter(log, 'with', vanish('other'))).named).toEqual([]);
    const { named } = await verifyAfter(log, { outside: log.outside }, vanish('other'));
    expect(named).toEqual(['account-vanished other -']);
  });

  describe('finds a history that was written anew', () => {
    /** Row 5 is another one, and whoever changed it made everything that proves the log anew over it. */
    const rewrite = async (url: string, signer: NoteSigner): Promise<void> => {
      await tamper(
        url,
        `update event set bytes = convert_to(replace(convert_from(bytes, 'UTF8'), 'budgetMs":5', 'budgetMs":6'), 'UTF8')
          where account = 'acme' and account_position = 5`,
        `update event set leaf = sha256('\\x00'::bytea || bytes) where account = 'acme' and account_position = 5`,
      );
      await sealByHand(url, log.logId, 'acme', signer);
    };
    const differing = ['outside-differs acme 119', 'outside-differs acme 239', 'outside-differs acme 279'];

    it('and signed with another key', async () => {
      const { named } = await verifyAfter(log, { rootSecret: null, outside: log.outside }, (url) =>
        rewrite(url, strangersKey(log.logId)),
      );
      expect(named).toEqual(['checkpoint-unsigned acme 287', ...differing]);
    });

    it('and signed with the log’s own key, which nothing inside of the database tells', async () => {
      const resign = async (url: string): Promise<void> => {
        const opened = await openTestLog(url);
        await opened.close();
        await rewrite(url, opened.keys.signer().signer);
      };
      expect((await verifyAfter(log, 'without', resign)).named).toEqual([]);
      const { named } = await verifyAfter(log, { rootSecret: null, outside: log.outside }, resign);
      expect(named).toEqual(differing);
      expect((await verifyAfter(log, 'with', resign)).named).toEqual(['tag-changed acme 5']);
    });
  });

  it('finds that a checkpoint was removed which had been given out', async () => {
    const act = [`delete from checkpoint where account = 'acme' and size = 240`];
    expect((await verifyAfter(log, { outside: log.outside }, act)).named).toEqual(['checkpoint-missing acme 239']);
  });

  it('finds that keys of the log were replaced', async () => {
    const stranger = { verifier: strangersKey(log.logId), validFrom: Date.now(), validUntil: null };
    const { named } = await verifyAfter(log, { rootSecret: null, logKeys: [stranger] }, []);
    expect(named).toContain('log-key-changed system 0');
    expect(named).toContain('checkpoint-unsigned acme 279');
  });
});

/** Notes the sizes of all logs, as every instance does now and then. */
const beat = async (url: string): Promise<void> => {
  const opened = await openTestLog(url);
  try {
    const events = [
      {
        type: 'instance.heartbeat' as const,
        data: { instance: 'i', sizes: { acme: '288', other: '12', system: '1' } },
      },
    ];
    const writes = [{ stream: 'instance/i', expectedVersion: 0, events }];
    await opened.store.append({ account: 'system', writes });
  } finally {
    await opened.close();
  }
};

describe('the heartbeats in the log itself', () => {
  it('raise no alarm over a log that is as long as they say', async () => {
    expect((await verifyAfter(log, 'with', beat)).named).toEqual([]);
  });

  it('find an account that vanished, without anything from outside', async () => {
    const { named } = await verifyAfter(log, 'without', async (url) => {
      await beat(url);
      await tamper(url, ...vanish('other'));
    });
    expect(named).toEqual(['account-vanished other -']);
  });

  it('find that events were removed from the end before they were sealed, with all heads put right', async () => {
    const { named } = await verifyAfter(log, 'with', async (url) => {
      await beat(url);
      await tamper(
        url,
        `delete from event where account = 'acme' and account_position = 287`,
        `update stream set version = 71, last = (
            select max(position) from event where account = 'acme' and stream = 'plugin/p'
          ) where account = 'acme' and id = 'plugin/p'`,
        `update account_head set size = 287 where account = 'acme'`,
        `update event set position = position - 1 where account = 'system' and type = 'instance.heartbeat'`,
        `update stream set first = first - 1, last = last - 1 where account = 'system' and id = 'instance/i'`,
        'update head set position = position - 1',
      );
    });
    expect(named).toEqual(['log-truncated acme 287']);
  });
});

describe('a database that shows something else than it stores', () => {
  it.each([
    ['a view', ['alter table stream rename to hidden', 'create view stream as select * from hidden']],
    ['row security', ['alter table event enable row level security']],
    ['a rule', ['create rule quiet as on update to tile do instead nothing']],
  ])('is not verified: %s', async (_, statements) => {
    await expect(verifyAfter(log, 'with', statements)).rejects.toThrow(/may not be what is stored/u);
  });
});

describe('a checkpoint file that was tampered with itself', () => {
  const lines = (change: (lines: readonly string[]) => readonly string[]) => ({ outside: change(log.outside) });

  it('may end in a line whose writer died, and may go on after it', async () => {
    const cut = lines(([one = '', two = '', three = '']) => [one, two.slice(0, 100), two, three.slice(0, 50)]);
    const { named, summary } = await verifyAfter(log, cut, []);
    expect(named).toEqual([]);
    expect(summary.notes.join()).toContain('2 lines of the checkpoint file were not ended');
  });

  it.each<[string, (lines: readonly string[]) => readonly string[], readonly string[]]>([
    ['a changed size', (all) => all.map((line) => line.replace('"280"', '"281"')), ['outside-unsigned - -']],
    ['a line of something else', (all) => [...all, 'x'], ['outside-unreadable - -']],
    ['a line without a signature', (all) => [...all, '{"accounts":[]}'], ['outside-unreadable - -']],
  ])('%s', async (_, change, named) => {
    expect((await verifyAfter(log, lines(change), [])).named).toEqual(named);
  });
});
