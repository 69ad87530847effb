import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { SealedLog } from './support/tampered-log.js';
import { verifyAfter, writeSealedLog } from './support/tampered-log.js';

let log: SealedLog;

beforeAll(async () => {
  log = await writeSealedLog();
}, 120_000);

afterAll(() => log.drop());

/** The blob that the events of the second invocation name, from position 4 on. */
const blob = `hash = (
  select decode((regexp_match(convert_from(bytes, 'UTF8'), '"\\$blob":"([0-9a-f]{64})"'))[1], 'hex')
    from event where account = 'acme' and account_position = 4)`;
/** The data key of the second, fourth … invocation. */
const key = "account = 'acme' and scope = 'session:s-1'";
const flipped = (column: string): string => `${column} = set_byte(${column}, 20, get_byte(${column}, 20) # 1)`;
const stream = "account = 'acme' and id = 'plugin/p'";

const changes: readonly [string, readonly string[], readonly string[]][] = [
  ['the bytes of a blob', [`update blob set ${flipped('bytes')} where ${blob}`], ['blob-changed acme 4']],
  [
    'the hash of a blob',
    [`update blob set hash = sha256('x') where ${blob}`],
    ['blob-changed - -', 'blob-missing acme 4'],
  ],
  ['the data key of a blob', [`update blob set key_id = 'x' where ${blob}`], ['blob-key-changed acme 4']],
  ['a blob that is gone', [`delete from blob where ${blob}`], ['blob-missing acme 4']],
  [
    'an event that names what can be no blob and no key',
    [
      `update event set bytes = convert_to(regexp_replace(regexp_replace(convert_from(bytes, 'UTF8'),
          '"\\$blob":"..', '"$blob":"zz'), '"k":"..', E'"k":"\\u00e9'), 'UTF8')
        where account = 'acme' and account_position = 4`,
    ],
    ['blob-missing acme 4', 'bytes-changed acme 4', 'key-missing acme 4'],
  ],
  ['a data key that is gone', [`delete from data_key where ${key}`], ['key-missing acme 4']],
  ['the id of a data key', [`update data_key set id = 'x' where ${key}`], ['key-changed - -', 'key-missing acme 4']],
  [
    'the account of a data key',
    [`update data_key set account = 'other' where ${key}`],
    ['key-changed acme 4', 'key-of-another acme 4'],
  ],
  ['the scope of a data key', [`update data_key set scope = 'session:s-9' where ${key}`], ['key-changed acme 4']],
  ['a wrapped data key', [`update data_key set ${flipped('wrapped')} where ${key}`], ['key-changed acme 4']],
  ['the master key of a data key', [`update data_key set master = 'x' where ${key}`], ['key-changed acme 4']],
  [
    'a data key that was destroyed without a word',
    [`update data_key set wrapped = null, erased_at = now() where ${key}`],
    ['erasure-unrecorded acme -'],
  ],
  ['when a data key was destroyed', [`update data_key set erased_at = now() where ${key}`], ['key-changed acme 4']],
  ['the head, too far', ['update head set position = position + 5'], ['head-changed - -', 'position-missing - -']],
  ['the head, too near', ['update head set position = position - 5'], ['head-changed - -']],
  ['the head, gone', ['delete from head'], ['head-changed - -']],
  [
    'an account’s head, too far',
    [`update account_head set size = size + 5 where account = 'acme'`],
    ['account-head-changed acme 287', 'event-missing acme 288..292'],
  ],
  [
    'an account’s head that nobody could count to',
    [`update account_head set size = 9000000000000000000 where account = 'acme'`],
    ['account-head-changed acme 287', 'event-missing acme 288..9000000000000000000'],
  ],
  [
    'an account’s head, too near',
    [`update account_head set size = size - 5 where account = 'acme'`],
    ['account-head-changed acme 287'],
  ],
  ['an account’s head, gone', [`delete from account_head where account = 'acme'`], ['account-head-changed acme 287']],
  [
    'the version of a stream, too high',
    [`update stream set version = version + 1 where ${stream}`],
    ['stream-gap acme 287'],
  ],
  [
    'the version of a stream, too low',
    [`update stream set version = version - 1 where ${stream}`],
    ['stream-changed acme 287'],
  ],
  ['where a stream begins', [`update stream set first = first + 1 where ${stream}`], ['stream-changed acme 3']],
  ['where a stream ends', [`update stream set last = last - 1 where ${stream}`], ['stream-changed acme 287']],
  ['a stream’s id', [`update stream set id = 'q' where ${stream}`], ['stream-gap acme -', 'stream-missing acme 3']],
  [
    'a stream’s account',
    [`update stream set account = 'elsewhere' where ${stream}`],
    ['account-head-changed elsewhere -', 'stream-gap elsewhere -', 'stream-missing acme 3'],
  ],
  ['a stream that is gone', [`delete from stream where ${stream}`], ['stream-missing acme 3']],
  [
    'a stream more',
    [`insert into stream (account, id, version, first, last) values ('acme', 'x', 1, 1, 1)`],
    ['stream-gap acme -'],
  ],
];

describe('what stands beside the events', () => {
  it.each(changes)('%s', async (_, statements, named) => {
    expect((await verifyAfter(log, 'with', statements)).named).toEqual(named);
  });
});

describe('one account alone', () => {
  it('is verified without a word of the others', async () => {
    const act = [
      `delete from event where account = 'other'`,
      `update event set schema = 9 where account = 'acme'
      and account_position = 7`,
    ];
    const acme = await verifyAfter(log, { account: 'acme' }, act);
    const other = await verifyAfter(log, { account: 'other' }, act);
    expect(acme.named).toEqual(['column-changed acme 7']);
    expect(other.named).toEqual(expect.arrayContaining(['event-missing other 0..11', 'log-truncated other 0']));
    expect(other.named.every((name) => name.includes(' other '))).toBe(true);
  });
});
