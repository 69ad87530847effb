import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { sealByHand } from './support/hand-sealer.js';
import type { Act, SealedLog, Verifier } from './support/tampered-log.js';
import { verifyAfter, writeSealedLog } from './support/tampered-log.js';
import { strangersKey, tamper } from './support/tampering.js';

// Positions 4 to 7 are an invocation's: opened, passed, closed, and an event of stream plugin/p. Up to 279 is sealed.
let log: SealedLog;

beforeAll(async () => {
  log = await writeSealedLog();
}, 120_000);

afterAll(() => log.drop());

const namesAfter = async (by: Verifier, act: Act): Promise<readonly string[]> =>
  (await verifyAfter(log, by, act)).named;

const at = (position: number): string => `account = 'acme' and account_position = ${position}`;

const set = (position: number, what: string): string => `update event set ${what} where ${at(position)}`;

const inBytes = (from: string, to: string): string =>
  `bytes = convert_to(replace(convert_from(bytes, 'UTF8'), '${from}', '${to}'), 'UTF8')`;

const freshLeaf = `leaf = sha256('\\x00'::bytea || bytes)`;

/** Heads and streams as they would be if the rows that are there were all. */
const settled: readonly string[] = [
  `with gone as (
      delete from stream s where account = 'acme'
        and not exists (select from event e where e.account = s.account and e.stream = s.id)
    ) select`,
  `update stream s set version = e.version, last = e.position from (
      select distinct on (stream) stream, version, position from event where account = 'acme'
        order by stream, version desc
    ) e where s.account = 'acme' and s.id = e.stream`,
  `update account_head set size = (select max(account_position) + 1 from event where account = 'acme')
    where account = 'acme'`,
  'update head set position = (select max(position) from event)',
];

describe('an untouched log', () => {
  it.each(['with', 'without'] as const)('raises no alarm %s the master key', async (key) => {
    expect(await namesAfter(key, [])).toEqual([]);
  });
});

const sealedColumns: readonly [string, string, readonly string[]][] = [
  ['position', '1000000', ['head-changed - -', 'out-of-order acme 5', 'position-missing - -', 'position-missing - -']],
  [
    'account',
    "'acmf'",
    [
      'account-head-changed acmf -',
      'column-changed acmf 5',
      'event-missing acme 5',
      'forged acmf 5',
      'stream-gap acme 6',
      'stream-gap acmf 5',
      'stream-missing acmf 5',
    ],
  ],
  ['account_position', '1000000', ['event-missing acme 5', 'position-changed acme 5']],
  ['stream', "'x'", ['column-changed acme 5', 'stream-gap acme 5', 'stream-gap acme 6', 'stream-missing acme 5']],
  ['version', '77', ['column-changed acme 5', 'stream-changed acme 5', 'stream-gap acme 5', 'stream-gap acme 6']],
  ['id', 'gen_random_uuid()', ['column-changed acme 5']],
  ['type', "'plugin.tripped'", ['column-changed acme 5']],
  ['schema', '2', ['column-changed acme 5']],
  ['recorded_at', "recorded_at + interval '1 ms'", ['column-changed acme 5']],
  ['occurred_at', "'infinity'", ['column-changed acme 5']],
  ['session_id', "'s-9'", ['column-changed acme 5']],
  ['session_id', 'null', ['column-changed acme 5']],
  ['leaf', "sha256('x')", ['leaf-changed acme 5']],
  ['leaf', "'x'", ['leaf-changed acme 5']],
  ['tag', "sha256('x')", ['tag-changed acme 5']],
  ['tag', 'null', ['tag-missing acme 5']],
  ['bytes', inBytes('budgetMs":5', 'budgetMs":6'), ['bytes-changed acme 5']],
];

describe('one changed column of a sealed event', () => {
  it.each(sealedColumns)('%s = %s', async (column, value, named) => {
    const change = column === 'bytes' ? value : `${column} = ${value}`;
    expect(await namesAfter('with', [set(5, change)])).toEqual(named);
  });
});

const unsealedColumns: readonly [string, string, readonly string[]][] = [
  ['account_position', '1000000', ['event-missing acme 281', 'position-changed acme 281']],
  ['type', "'plugin.tripped'", ['column-changed acme 281']],
  ['leaf', "sha256('x')", ['leaf-changed acme 281']],
  ['tag', "sha256('x')", ['forged acme 281']],
  ['tag', 'null', ['tag-missing acme 281']],
  ['bytes', inBytes('budgetMs":5', 'budgetMs":6'), ['bytes-changed acme 281']],
];

describe('one changed column of an event that is not sealed yet', () => {
  it.each(unsealedColumns)('%s = %s', async (column, value, named) => {
    const change = column === 'bytes' ? value : `${column} = ${value}`;
    expect(await namesAfter('with', [set(281, change)])).toEqual(named);
  });
});

const rows: readonly [string, readonly string[], readonly string[]][] = [
  [
    'a changed letter inside of a sealed value',
    [set(5, `bytes = convert_to(regexp_replace(convert_from(bytes, 'UTF8'), '"b":"....', '"b":"AAAA'), 'UTF8')`)],
    ['bytes-changed acme 5'],
  ],
  [
    'changed bytes whose leaf was made anew',
    [set(5, inBytes('budgetMs":5', 'budgetMs":6')), set(5, freshLeaf)],
    ['changed-after-sealing acme 5'],
  ],
  [
    'the same, before it is sealed',
    [set(281, inBytes('budgetMs":5', 'budgetMs":6')), set(281, freshLeaf)],
    ['forged acme 281'],
  ],
  ['bytes that are no event', [set(5, `bytes = 'rubbish'`)], ['bytes-changed acme 5', 'event-unreadable acme 5']],
  [
    'two events that changed places in their account',
    [`update event set account_position = 14 - account_position where account = 'acme' and account_position in (5, 9)`],
    ['changed-after-sealing acme 5', 'changed-after-sealing acme 9', 'out-of-order acme 5', 'out-of-order acme 9'],
  ],
  [
    'two events that changed places in their account before they were sealed',
    [
      `update event set account_position = 566 - account_position
        where account = 'acme' and account_position in (281, 285)`,
    ],
    ['forged acme 281', 'forged acme 285', 'out-of-order acme 281', 'out-of-order acme 285'],
  ],
  [
    'two events that changed places in the whole log',
    [
      `create temp table p on commit drop as
        select array_agg(position order by position) as a from event where account = 'acme' and account_position in (5, 9)`,
      set(5, 'position = 4000000'),
      set(9, 'position = (select a[1] from p)'),
      set(5, 'position = (select a[2] from p)'),
    ],
    ['out-of-order acme 5', 'out-of-order acme 9'],
  ],
  ['a removed first event', [`delete from event where ${at(0)}`], ['event-missing acme 0', 'stream-gap acme 1']],
  ['a removed event', [`delete from event where ${at(100)}`], ['event-missing acme 100', 'stream-gap acme 101']],
  [
    'a removed last event',
    [`delete from event where ${at(287)}`],
    ['account-head-changed acme 286', 'event-missing acme 287', 'stream-gap acme 283'],
  ],
  [
    'a removed end of what was sealed, with all heads put right',
    [`delete from event where account = 'acme' and account_position >= 276`, ...settled],
    ['account-head-changed acme 279', 'event-missing acme 276..279', 'log-truncated acme 276'],
  ],
  [
    'an event that was added, with all heads put right',
    [
      `insert into event (position, account, account_position, stream, version, id, type, schema, recorded_at,
          occurred_at, leaf, tag, bytes)
        select h.position + 1, account, 288, 'forged', 1, e.id, type, schema, recorded_at, occurred_at, leaf, tag,
            convert_to(regexp_replace(convert_from(bytes, 'UTF8'), '"stream":"plugin/p","streamVersion":72',
              '"stream":"forged","streamVersion":1'), 'UTF8')
          from event e, head h where ${at(287)}`,
      set(288, freshLeaf),
      `insert into stream (account, id, version, first, last)
        select account, stream, 1, position, position from event where ${at(288)}`,
      ...settled,
    ],
    ['forged acme 288'],
  ],
  [
    'an event that stands there twice',
    [
      `insert into event (position, account, account_position, stream, version, id, type, schema, recorded_at,
          occurred_at, leaf, tag, bytes)
        select h.position + 1, account, 7, stream, version, e.id, type, schema, recorded_at, occurred_at, leaf, tag,
            bytes
          from event e, head h where ${at(287)}`,
    ],
    ['event-repeated acme 7', 'forged acme 7', 'head-changed - -', 'stream-repeated acme 7'],
  ],
];

describe('rows', () => {
  it.each(rows)('%s', async (_, statements, named) => {
    expect(await namesAfter('with', statements)).toEqual(named);
  });
});

/** A whole invocation taken out, and everything that is after it moved up. */
const relinked: readonly string[] = [
  `delete from event where account = 'acme' and account_position between 4 and 6`,
  `update event set account_position = account_position - 3 where account = 'acme' and account_position > 6`,
  ...settled,
];

describe('rows that were linked anew', () => {
  it('are found at every position from there on', async () => {
    const { faults } = await verifyAfter(log, 'without', relinked);
    const changed = faults.filter(({ code }) => code === 'changed-after-sealing').map(({ position }) => position);
    expect(changed).toEqual(Array.from({ length: 276 }, (_, n) => n + 4));
  });

  const resealed = async (url: string): Promise<void> => {
    await tamper(url, ...relinked);
    await sealByHand(url, log.logId, 'acme', strangersKey(log.logId));
  };

  it('are found by their tags when the tree was made anew over them and signed with another key', async () => {
    const { faults } = await verifyAfter(log, 'with', resealed);
    const positions = faults.filter(({ code }) => code === 'tag-changed').map(({ position }) => position);
    expect(positions).toEqual(Array.from({ length: 281 }, (_, n) => n + 4));
    expect(faults.map(({ code }) => code)).toContain('checkpoint-unsigned');
  });

  it('are found by the signature without the master key', async () => {
    expect(await namesAfter('without', resealed)).toContain('checkpoint-unsigned acme 284');
  });
});
