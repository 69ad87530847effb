import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Sql } from '#event-store';
import { createLedgerDatabase } from '../../../test/support/test-postgres.js';
import { searchInvocations, type InvocationQuery } from './invocation-search.js';
import { dropReadModel, openReadModels, readModelStatus, rebuildReadModel } from './read-models.js';
import { openTestLedger, type TestLedger } from './test-ledger.js';
import { catchUp } from './test-record.js';
import { hasTrigramIndex, matchText, SearchTooWide, textSearch, withinSearchTime } from './text-search.js';

let ledger: TestLedger;

beforeEach(async () => {
  ledger = openTestLedger(await createLedgerDatabase());
});

afterEach(() => ledger.close());

const find = async (text: string, over: Partial<InvocationQuery> = {}): Promise<readonly string[]> => {
  const words = await ledger.read('a', textSearch(ledger.sealing));
  const { table } = await ledger.read();
  const match = await matchText(ledger.sql, words.table, over.account ?? 'a', text);
  const { items } = await searchInvocations(ledger.sql, table, {
    account: 'a',
    clock: 'occurred',
    order: 'oldest',
    limit: 100,
    text: match,
    ...over,
  });
  return items.map(({ invocationId }) => invocationId);
};

/** What the search keeps of the text itself. */
const kept = async (text: string): Promise<number> => {
  const { table } = await ledger.read('a', textSearch(ledger.sealing));
  const rows = await ledger.sql.query(`select 1 from ${table('text_part')} where body like $1`, [`%${text}%`]);
  return rows.length;
};

describe('a search by text', () => {
  it('finds contexts, values, reasons, details of warnings, and results of host calls', async () => {
    await ledger.write(
      { id: 'context', context: { nested: [{ text: 'the needle-one' }] } },
      { id: 'value', value: { command: 'needle-two' } },
      { id: 'output', outcome: 'rewritten', handlers: [{ pluginId: 'p', outcome: 'rewrote', output: 'needle-three' }] },
      {
        id: 'reason',
        outcome: 'cancelled',
        handlers: [{ pluginId: 'p', outcome: 'cancelled', reason: 'needle-four' }],
      },
      { id: 'warning', handlers: [{ pluginId: 'p', warnings: ['needle-five'] }] },
      {
        id: 'call',
        handlers: [{ pluginId: 'p', hostCalls: [{ callId: 'c', member: 'fetch', answer: 'needle-six' }] }],
      },
      { id: 'number', context: { port: 48151 } },
    );
    expect(await find('needle-one')).toEqual(['context']);
    expect(await find('needle-two')).toEqual(['value']);
    expect(await find('needle-three')).toEqual(['output']);
    expect(await find('needle-four')).toEqual(['reason']);
    expect(await find('detail of needle-five')).toEqual(['warning']);
    expect(await find('needle-six')).toEqual(['call']);
    expect(await find('48151')).toEqual(['number']);
    expect(await find('needle-')).toEqual(['context', 'value', 'output', 'reason', 'warning', 'call']);
    expect(await find('needle-seven')).toEqual([]);
  });

  it('takes the text as it stands, without case, and signs of patterns for themselves', async () => {
    await ledger.write(
      { id: 'percent', context: 'full to 100% now' },
      { id: 'plain', context: 'full to 1000 now' },
      { id: 'under', context: 'snake_case' },
      { id: 'camel', context: 'snakeXcase' },
      { id: 'slash', context: 'C:\\temp' },
      { id: 'umlaut', context: 'ÄRGERNIS' },
    );
    expect(await find('100%')).toEqual(['percent']);
    expect(await find('snake_case')).toEqual(['under']);
    expect(await find('c:\\temp')).toEqual(['slash']);
    expect(await find('ärger')).toEqual(['umlaut']);
  });

  it('finds a text of one or two characters, signs of patterns among them', async () => {
    await ledger.write(
      { id: 'hi', context: 'Hi' },
      { id: 'within', context: 'this, 50% of it' },
      { id: 'digit', context: { n: 7 } },
      { id: 'other', context: 'yes' },
    );
    expect(await find('hi')).toEqual(['hi', 'within']);
    expect(await find('%')).toEqual(['within']);
    expect(await find('_')).toEqual([]);
    expect(await find('7')).toEqual(['digit']);
    const common = Array.from({ length: 1100 }, (_, n) => `q${String(n)}`);
    await ledger.write({ id: 'common', context: common });
    expect(await find('q')).toEqual(['common']);
  });

  it('is given up when its time is up, and its connection goes on', async () => {
    const slow = withinSearchTime(ledger.sql, (tx) => tx.query('select pg_sleep(20)'), 20);
    await expect(slow).rejects.toBeInstanceOf(SearchTooWide);
    expect(await withinSearchTime(ledger.sql, (tx) => tx.query('select 1 as one'))).toEqual([{ one: 1 }]);
  });

  it('works with what a column cannot keep', async () => {
    await ledger.write({ id: 'nul', context: 'before\0after' }, { id: 'half', context: 'cut \ud83d here' });
    expect(await find('fore\0aft')).toEqual(['nul']);
    expect(await find('cut \ud83d here')).toEqual(['half']);
  });

  it('finds a text anywhere in a long one, also across the borders of its parts', async () => {
    const filler = 'abcdefghij'.repeat(5000);
    const places = [0, 16_180, 16_300, 16_384, 32_500, 49_900];
    await ledger.write(
      ...places.map((place) => ({
        id: String(place),
        context: `${filler.slice(0, place)}<<needle>>${filler.slice(place)}`,
      })),
    );
    expect(await find('<<needle>>')).toEqual(places.map(String));
    expect(await find(`${'abcdefghij'.repeat(9)}<<needle>>${'abcdefghij'.repeat(9)}`)).toEqual([
      '16180',
      '16300',
      '32500',
      '49900',
    ]);
  });

  it('joins with the other filters', async () => {
    await ledger.write(
      { id: 'i1', context: 'needle', sessionId: 's' },
      { id: 'i2', context: 'needle', handlers: [{ pluginId: 'p', outcome: 'skipped', cause: 'threw' }] },
    );
    expect(await find('needle', { sessionId: 's' })).toEqual(['i1']);
    expect(await find('needle', { handler: { cause: 'threw' } })).toEqual(['i2']);
  });

  it('finds a common text too, when it stands in more parts than are looked up', async () => {
    await ledger.write(
      ...Array.from({ length: 40 }, (_, n) => ({
        id: `i${String(n)}`,
        context: Array.from({ length: 120 }, (_unused, m) => `common ${String(n)} ${String(m)}`),
      })),
    );
    expect(await find('common')).toHaveLength(40);
    expect(await find('common 7 119')).toEqual(['i7']);
  });

  it('shows no account the text of another', async () => {
    await ledger.write({ id: 'i1', account: 'b', context: 'needle' });
    expect(await find('needle')).toEqual([]);
    expect(await find('needle', { account: 'b' })).toEqual(['i1']);
  });
});

describe('the text search', () => {
  it('forgets what is erased, and what is erased before it comes to it', async () => {
    await ledger.write(
      { id: 'erased', sessionId: 's', context: 'needle of s' },
      { id: 'kept', sessionId: 'other', context: 'needle of other' },
    );
    expect(await find('needle')).toEqual(['erased', 'kept']);
    await ledger.sealing.erase('a', { kind: 'session', id: 's' });
    await ledger.store.append({
      account: 'a',
      writes: [{ stream: 'erasure/1', expectedVersion: 'any', events: [{ type: 'payload.erased', data: {} }] }],
    });
    expect(await find('needle')).toEqual(['kept']);
    expect(await kept('needle')).toBe(1);
    await rebuildReadModel(ledger.sql, textSearch(ledger.sealing));
    await catchUp(ledger.sql, ledger.store, [textSearch(ledger.sealing)]);
    expect(await kept('needle')).toBe(1);
  });

  it('forgets the keys that an erasure names', async () => {
    await ledger.write({ id: 'i1', sessionId: 's', context: 'needle' });
    expect(await kept('needle')).toBe(1);
    const keyIds = [...(await ledger.sealing.erase('a', { kind: 'session', id: 's' }))];
    await ledger.store.append({
      account: 'a',
      writes: [{ stream: 'erasure/1', expectedVersion: 'any', events: [{ type: 'payload.erased', data: { keyIds } }] }],
    });
    expect(await kept('needle')).toBe(0);
  });

  it('keeps equal texts of one scope once', async () => {
    const prompt = 'You are a helpful needle. '.repeat(200);
    await ledger.write(...[1, 2, 3].map((n) => ({ id: `i${String(n)}`, sessionId: 's', context: { prompt } })));
    expect(await kept('helpful needle')).toBe(1);
    expect(await find('helpful needle')).toEqual(['i1', 'i2', 'i3']);
  });

  it('sets aside what does not open, and goes on', async () => {
    const broken = { $sealed: { v: 1, k: 'never-there', b: 'AAAA' } };
    await ledger.store.append({
      account: 'a',
      writes: [
        {
          stream: 'invocation/broken',
          expectedVersion: 0,
          events: [
            { type: 'host.called', invocationId: 'broken', data: { callId: 'c', member: 'fetch', args: broken } },
          ],
        },
      ],
    });
    await ledger.write({ id: 'i1', context: 'needle' });
    expect(await find('needle')).toEqual(['i1']);
    const status = await readModelStatus(ledger.sql);
    expect(status.find(({ name }) => name === 'text-search')?.setAside).toBe(1);
  });

  it('leaves nothing behind when it is dropped, and can be built again', async () => {
    await ledger.write({ id: 'i1', context: 'needle' });
    expect(await find('needle')).toEqual(['i1']);
    await dropReadModel(ledger.sql, 'text-search');
    const left = await ledger.sql.query(`select 1 from pg_class where relname like '%text_part%'`);
    expect(left).toEqual([]);
    expect(await find('needle')).toEqual(['i1']);
  });

  it('has its index where the database allows the extension, and finds the same where it does not', async () => {
    await ledger.write({ id: 'i1', context: 'needle' });
    const indexed = await ledger.read('a', textSearch(ledger.sealing));
    expect(await hasTrigramIndex(ledger.sql, indexed.table)).toBe(true);
    await dropReadModel(ledger.sql, 'text-search');
    await openReadModels(withoutExtensions(ledger.sql), [textSearch(ledger.sealing)]);
    const bare = await ledger.read('a', textSearch(ledger.sealing));
    expect(await hasTrigramIndex(ledger.sql, bare.table)).toBe(false);
    expect(await find('needle')).toEqual(['i1']);
  });
});

/** A database that has no such extension: the statement itself fails, as it does there. */
const withoutExtensions = (sql: Sql): Sql => ({
  query: (text, values) => sql.query(text.startsWith('create extension') ? 'create extension not_there' : text, values),
  transaction: (work) => sql.transaction((tx) => work(withoutExtensions(tx))),
});
