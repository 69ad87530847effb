import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Act, SealedLog, Verifier } from './support/tampered-log.js';
import { verifyAfter, writeSealedLog } from './support/tampered-log.js';

let log: SealedLog;

beforeAll(async () => {
  log = await writeSealedLog();
}, 120_000);

afterAll(() => log.drop());

const namesAfter = async (by: Verifier, act: Act): Promise<readonly string[]> =>
  (await verifyAfter(log, by, act)).named;

const tile = (level: number, index: number): string => `account = 'acme' and level = ${level} and idx = ${index}`;
const checkpoint = "account = 'acme' and size = 240";
const entry = (position: number, value: string): string =>
  `hashes = overlay(hashes placing ${value} from ${position * 32 + 1} for 32)`;

/** Row 5 with other bytes, its hash made anew, and the entry of its tile too. */
const rowAndTile: readonly string[] = [
  `update event set bytes = convert_to(replace(convert_from(bytes, 'UTF8'), 'budgetMs":5', 'budgetMs":6'), 'UTF8')
    where account = 'acme' and account_position = 5`,
  `update event set leaf = sha256('\\x00'::bytea || bytes) where account = 'acme' and account_position = 5`,
  `update tile set ${entry(5, "(select leaf from event where account = 'acme' and account_position = 5)")}
    where ${tile(0, 0)}`,
];

const tables: readonly [string, readonly string[], readonly string[]][] = [
  ['a hash in a tile', [`update tile set ${entry(5, "sha256('x')")} where ${tile(0, 0)}`], ['tile-changed acme 5']],
  [
    'a hash over a tile',
    [`update tile set ${entry(0, "sha256('x')")} where ${tile(1, 0)}`],
    ['tile-changed acme 0..255'],
  ],
  ['a tile that is gone', [`delete from tile where ${tile(0, 0)}`], ['tile-missing acme 0..255']],
  ['the tile above, gone', [`delete from tile where ${tile(1, 0)}`], ['tile-missing acme 0..255']],
  [
    'a tile that was cut',
    [`update tile set hashes = substr(hashes, 1, 32) where ${tile(0, 1)}`],
    ['tile-missing acme 257..279', 'tree-changed acme -'],
  ],
  [
    'a tile with a hash more',
    [`update tile set hashes = hashes || sha256('x') where ${tile(0, 1)}`],
    ['tile-changed acme 280', 'tree-changed acme -'],
  ],
  [
    'a tile more',
    [`insert into tile (account, level, idx, hashes) select account, level, 5, hashes from tile where ${tile(0, 1)}`],
    ['event-missing acme 288..1303', 'tile-unexpected acme 1280', 'tree-changed acme -'],
  ],
  [
    'a row, its leaf and its tile',
    rowAndTile,
    ['changed-after-sealing acme 5', 'checkpoint-root acme 119..279', 'tile-changed acme 0..255'],
  ],
  [
    'the root of a checkpoint',
    [`update checkpoint set root = sha256('x') where ${checkpoint}`],
    ['checkpoint-changed acme 239'],
  ],
  [
    'the size of a checkpoint',
    [`update checkpoint set size = 241 where ${checkpoint}`],
    ['checkpoint-changed acme 240'],
  ],
  [
    'the key of a checkpoint',
    [`update checkpoint set key_id = 'abcdabcd' where ${checkpoint}`],
    ['checkpoint-changed acme 239'],
  ],
  [
    'the time of a checkpoint',
    [`update checkpoint set signed_at = signed_at - interval '1 year' where ${checkpoint}`],
    ['checkpoint-key acme 239'],
  ],
  [
    'the text of a checkpoint’s note',
    [`update checkpoint set note = replace(note, E'\\n240\\n', E'\\n241\\n') where ${checkpoint}`],
    ['checkpoint-unsigned acme 239'],
  ],
  [
    'the signature of a checkpoint',
    [`update checkpoint set note = overlay(note placing 'AAAA' from length(note) - 20 for 4) where ${checkpoint}`],
    ['checkpoint-unsigned acme 239'],
  ],
  ['a note that is none', [`update checkpoint set note = 'x' where ${checkpoint}`], ['checkpoint-unreadable acme 239']],
  [
    'a checkpoint of another account',
    [`update checkpoint set account = 'other', size = 5 where ${checkpoint}`],
    ['checkpoint-unreadable other 4'],
  ],
  [
    'the newest checkpoint, gone',
    [`delete from checkpoint where account = 'acme' and size = 280`],
    ['tree-changed acme -'],
  ],
  ['how far the tree is', [`update tree set size = 290 where account = 'acme'`], ['tree-changed acme -']],
  ['how far it is signed', [`update tree set signed = 240 where account = 'acme'`], ['tree-changed acme -']],
  ['what is known of the tree, gone', [`delete from tree where account = 'acme'`], ['tree-changed acme -']],
  [
    'a refusal that the sealer noted',
    [`update tree set refused = 7, reason = 'tag_mismatch' where account = 'acme'`],
    ['sealing-refused acme 7'],
  ],
  ['a public key', [`update log_key set public_key = sha256('x')`], ['log-key-changed system 0']],
  ['the id of a key', [`update log_key set id = 'abcdabcd'`], ['log-key-changed system -', 'log-key-changed system 0']],
  ['the name of a key', [`update log_key set name = 'x'`], ['log-key-changed system 0']],
  [
    'since when a key is in force',
    [`update log_key set valid_from = valid_from - interval '1 day'`],
    ['log-key-changed system 0'],
  ],
  ['until when it is', [`update log_key set valid_until = now()`], ['log-key-changed system 0']],
  [
    'a private key',
    [`update log_key set wrapped = set_byte(wrapped, 20, get_byte(wrapped, 20) # 1)`],
    ['log-key-changed system 0'],
  ],
  ['a key that is gone', ['delete from log_key'], ['log-key-changed system 0']],
  [
    'a key more',
    [`insert into log_key (id, name, public_key, valid_from) values ('abcdabcd', 'x', sha256('x'), now())`],
    ['log-key-changed system -'],
  ],
  [
    'since when rows have tags',
    ['update log_format set untagged_until = 100'],
    ['format-changed - -', 'format-changed system 0'],
  ],
  ['the program’s word for that', [`update log_format set mac = sha256('x')`], ['format-changed - -']],
  ['both, gone', ['delete from log_format'], ['format-changed system 0']],
];

describe('what proves the log', () => {
  it.each(tables)('%s', async (_, statements, named) => {
    expect(await namesAfter('with', statements)).toEqual(named);
  });

  it('says of another log id that no checkpoint is of this log any more', async () => {
    const named = await namesAfter('with', ['update log_format set log_id = gen_random_uuid()']);
    expect(named).toEqual(expect.arrayContaining(['format-changed - -', 'checkpoint-unreadable acme 239']));
  });
});

describe('without the master key', () => {
  it('a later checkpoint tells whether a row was changed or its tile', async () => {
    expect(await namesAfter('without', [`update tile set ${entry(5, "sha256('x')")} where ${tile(0, 0)}`])).toEqual([
      'tile-changed acme 5',
    ]);
    expect(await namesAfter('without', rowAndTile.slice(0, 2))).toEqual(['changed-after-sealing acme 5']);
  });

  it('a changed row and its changed tile are found by the checkpoints that do not fit, and by the tile above', async () => {
    expect(await namesAfter('without', rowAndTile)).toEqual([
      'checkpoint-root acme 119..279',
      'tile-changed acme 0..255',
    ]);
  });
});
