import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { TestDatabase } from './support/test-postgres.js';
import { createLedgerDatabase } from './support/test-postgres.js';
import { appendInvocation, copyDatabase, openTestLog, tamper, verifyAt } from './support/tampering.js';

/** Account `acme`: 288 events, 4 for each invocation; sealed at 120, 240 and 280. `other`: 12 events. */
let base: TestDatabase;
let rootSecret: Buffer;

beforeAll(async () => {
  base = await createLedgerDatabase();
  const log = await openTestLog(base.url);
  rootSecret = log.rootSecret;
  for (let n = 0; n < 72; n += 1) {
    if ([30, 60, 70].includes(n)) await log.seal();
    await appendInvocation(log, 'acme', `s-${n % 2}`);
    if (n < 3) await appendInvocation(log, 'other', 's');
  }
  await log.close();
});

afterAll(() => base.drop());

const after = async (key: 'with' | 'without', ...statements: readonly string[]): Promise<readonly string[]> => {
  const copy = await copyDatabase(base.url);
  try {
    if (statements.length > 0) await tamper(copy.url, ...statements);
    const { named } = await verifyAt(copy.url, { rootSecret: key === 'with' ? rootSecret : null });
    return named;
  } finally {
    await copy.drop();
  }
};

describe('an untouched log', () => {
  it.each(['with', 'without'] as const)('raises no alarm %s the master key', async (key) => {
    expect(await after(key)).toEqual([]);
  });
});

const columns: readonly [string, string][] = [
  ['position', '1000000'], ['account', "'acmf'"], ['account_position', '1000000'], ['stream', "'other'"], ['version', '77'],
  ['id', 'gen_random_uuid()'], ['type', "'plugin.tripped'"], ['schema', '2'], ['recorded_at', "recorded_at + interval '1 ms'"],
  ['occurred_at', "occurred_at - interval '1 ms'"], ['session_id', "'s-9'"], ['leaf', "sha256('x')"], ['tag', "sha256('x')"],
  ['bytes', "convert_to(replace(convert_from(bytes, 'UTF8'), 'budgetMs\":5', 'budgetMs\":6'), 'UTF8')"],
];

describe('one column of an event', () => {
  it.each(columns)('%s', async (column, value) => {
    for (const at of [5, 281]) for (const key of ['with','without'] as const) {
      console.log(column, at, key, await after(key, `update event set ${column} = ${value} where account = 'acme' and account_position = ${at}`));
    }
  });
});
