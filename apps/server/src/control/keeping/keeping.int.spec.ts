import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { handleEvents, openReadModels, purgedRanges, record, textSearch, type Projection } from '#audit';
import type { EventStore, Sql, StoredEvent } from '#event-store';
import { classOf, keepingStream, type HoldScope } from '#keeping';
import type { ServerConfig } from '#platform';
import {
  asData,
  eventTypes,
  injectionStream,
  invocationStream,
  type Json,
  type NewEvent,
  type QueuedInjection,
  type Sealed,
} from '#record';
import { openTestLog, verifyAt, type TestLog } from '../../../../../test/support/tampering.js';
import { createLedgerDatabase, type TestDatabase } from '../../../../../test/support/test-postgres.js';
import { erasedIn, ErasureWork, type PayloadErased } from './erasure-work.js';
import { KeepingLog } from './keeping-log.js';
import { PurgeWork, type Purge } from './purge-work.js';

const day = 86_400_000;
const account = 'acme';
const config = { kafka: null } as ServerConfig;

let database: TestDatabase;
let log: TestLog;
let daysAgo = 0;

const open = async (): Promise<void> => {
  database = await createLedgerDatabase();
  daysAgo = 0;
  log = await openTestLog(database.url, () => new Date(Date.now() - daysAgo * day));
};
const close = async (): Promise<void> => {
  await log.close();
  await database.drop();
};

const purges = (store: EventStore = log.store): PurgeWork =>
  new PurgeWork(store, log.sql, config, new KeepingLog(store));

const append = async (
  stream: string,
  events: readonly NewEvent[],
  blobs = [] as Parameters<EventStore['append']>[0]['blobs'],
) => {
  const writes = [{ stream, expectedVersion: 'any' as const, events }];
  const result = await log.store.append({ account, writes, ...(blobs === undefined ? {} : { blobs }) });
  if (result.kind !== 'appended') throw new Error(result.kind);
  return result;
};

interface Told {
  readonly session?: string;
  readonly agent?: string;
  readonly plugin?: string;
  readonly subject?: string;
  readonly text?: string;
  readonly open?: true;
}

/** An invocation of one handler, recorded `ago` days ago. */
const invoke = async (ago: number, told: Told = {}): Promise<string> => {
  daysAgo = ago;
  const { session = 's', agent, plugin = 'p', subject, text = 'hello' } = told;
  const id = randomUUID();
  const scope =
    subject === undefined ? { kind: 'session' as const, id: session } : { kind: 'subject' as const, id: subject };
  const envelope = await log.sealing.envelope(account, scope);
  const seal = (value: Json): Sealed & Json => envelope.seal(value);
  const common = {
    invocationId: id,
    sessionId: session,
    turnId: `turn-${id}`,
    dialect: 'middleware',
    hook: 'userMessageInbound',
    hop: 0,
    root: id,
    actor: { kind: 'key', id: 'k' } as const,
    ...(agent === undefined ? {} : { agentId: agent }),
  };
  const opened: Json = {
    chain: [
      {
        pluginId: plugin,
        version: '1',
        revision: 1,
        mode: 'enforce',
        failureMode: 'open',
        priority: null,
        configDigest: 'c',
      },
    ],
    withoutHook: 0,
    context: seal(text),
    hostSession: 'absent',
    ...(subject === undefined
      ? {}
      : { dataSubject: { hmac: await log.sealing.searchHash(account, subject), sealed: seal(subject) } }),
  };
  const ran: Json = {
    index: 0,
    input: seal(text),
    output: seal(text),
    changed: [],
    budgetMs: 5,
    durationUs: 1,
    warnings: [],
    configDigest: 'c',
    mode: 'enforce',
  };
  const events: NewEvent[] = [
    { ...common, type: 'invocation.opened', data: opened },
    { ...common, type: 'handler.passed', pluginId: plugin, pluginVersion: '1', pluginRevision: 1, data: ran },
    {
      ...common,
      type: 'invocation.closed',
      outcome: 'passed',
      data: asData({ value: seal(text), cancellation: null, hostSession: 'absent', metered: 1 }),
    },
  ];
  await append(invocationStream(id), told.open === true ? events.slice(0, 2) : events, envelope.blobs());
  daysAgo = 0;
  return id;
};

const setRetention = (after: { readonly [name: string]: number | null }): Promise<unknown> =>
  append(keepingStream, [{ type: 'retention.set', data: asData({ before: {}, after }) }]);

const placeHold = async (scope: HoldScope, store = log.store): Promise<string> => {
  const holdId = randomUUID();
  const events: NewEvent[] = [{ type: 'hold.placed', data: asData({ holdId, scope, reason: null }) }];
  await store.append({ account, writes: [{ stream: keepingStream, expectedVersion: 'any', events }] });
  return holdId;
};

const releaseHold = (holdId: string): Promise<unknown> =>
  append(keepingStream, [{ type: 'hold.released', data: { holdId, reason: null } }]);

const purge = (work = purges(), cause: 'asked' | 'scheduled' = 'asked'): Promise<Purge> =>
  work.run({ account, actor: { kind: 'operator', id: 'o' }, cause });

const isThere = async (id: string): Promise<number> =>
  (await log.store.readStream(account, invocationStream(id))).length;

/** Seals, then verifies with all there is; the names of the faults. */
const faults = async (): Promise<readonly string[]> => {
  await log.seal();
  return (await verifyAt(database.url, { rootSecret: log.rootSecret })).named;
};

const told = (): Promise<readonly StoredEvent[]> =>
  log.store.readAccount(account, { types: ['retention.purged', 'payload.erased'], limit: 500 });

const follow = async (...projections: readonly Projection[]): Promise<void> => {
  for (const generation of await openReadModels(log.sql, projections)) {
    const projection = projections.find(({ name }) => name === generation.name);
    if (projection === undefined) continue;
    const events = await log.store.readAll(generation.position, 10_000);
    await log.sql.transaction((tx) => handleEvents(projection, generation, events, tx, log.store));
  }
};

const rowsOf = async (table: string): Promise<readonly Record<string, unknown>[]> => {
  const [model] = await log.sql.query<{ generation: number }>(
    'select generation from read_model where $1 = any (tables)',
    [table],
  );
  return log.sql.query(`select * from rm${String(model?.generation)}_${table}`);
};

describe('a purge', () => {
  beforeAll(open, 60_000);
  afterAll(close);
  const old: string[] = [];
  const held: string[] = [];
  let young = '';
  let openOne = '';
  let holdId = '';

  beforeAll(async () => {
    for (let month = 12; month >= 7; month -= 1) {
      old.push(await invoke(month * 30 + 10, { session: `s-${String(month)}` }));
      held.push(await invoke(month * 30 + 9, { session: 'kept', subject: 'user:42' }));
      daysAgo = month * 30 + 8;
      await append('reads', [{ type: 'audit.read', data: { path: '/x', minute: 'm', count: 1, content: 'full' } }]);
    }
    openOne = await invoke(300, { open: true });
    young = await invoke(10);
    await setRetention({ invocation: 200 });
    const name = await log.sealing.searchHash(account, 'user:42');
    holdId = await placeHold({ kind: 'subject', id: name });
    await follow(record);
  }, 60_000);

  it('takes nothing that is not under a signed checkpoint yet', async () => {
    expect(await purge()).toMatchObject({ events: 0, held: 0 });
    await log.seal();
  });

  it('says before what it would remove, and removes nothing by that', async () => {
    const plan = await purges().plan(account);
    expect(plan).toMatchObject({ dryRun: true, events: 18, held: 18, types: { 'invocation.opened': 6 } });
    expect(plan.ranges.every(({ first, last, events }) => Number(last) - Number(first) + 1 === events)).toBe(true);
    expect(await isThere(old[0] ?? '')).toBe(3);
  });

  it('removes what is past and leaves islands of what is held, open, younger or of another class, and it verifies', async () => {
    const done = await purge();
    expect(done).toMatchObject({ dryRun: false, events: 18, held: 18, holds: [holdId] });
    expect(done.ranges).toHaveLength(6);
    expect(await Promise.all(old.map(isThere))).toEqual([0, 0, 0, 0, 0, 0]);
    expect(await Promise.all(held.map(isThere))).toEqual([3, 3, 3, 3, 3, 3]);
    expect([await isThere(openOne), await isThere(young)]).toEqual([2, 3]);
    expect(await faults()).toEqual([]);
    const { event } = (await told()).find(({ event: { data } }) => data.purgeId === done.purgeId) ?? {};
    expect(event?.data).toMatchObject({ events: 18, holds: [holdId], policy: { invocation: { days: 200 } } });
  });

  it('leaves no row of what is gone in the read models, and says where something is gone', async () => {
    const positions = (await rowsOf('invocation')).map(({ invocation_id: id }) => id);
    expect(positions.sort()).toEqual([...held, openOne, young].sort());
    expect(await rowsOf('handler_run')).toHaveLength(8);
    expect(await rowsOf('turn')).toHaveLength(8);
    const ranges = await purgedRanges(log.sql, account, 0n, 1_000n, 100);
    expect(ranges).toHaveLength(6);
    expect(ranges[0]).toMatchObject({ first: '0', last: '2' });
  });

  it('takes what was held once the hold is released, and it verifies again', async () => {
    await releaseHold(holdId);
    expect(await purge()).toMatchObject({ events: 18, held: 0, holds: [] });
    expect(await Promise.all(held.map(isThere))).toEqual([0, 0, 0, 0, 0, 0]);
    expect(await faults()).toEqual([]);
  });

  it('puts an asked purge of nothing on record, and a scheduled one not', async () => {
    const before = (await told()).length;
    expect(await purge(purges(), 'scheduled')).toMatchObject({ events: 0 });
    expect(await told()).toHaveLength(before);
    expect(await purge()).toMatchObject({ events: 0, ranges: [] });
    expect(await told()).toHaveLength(before + 1);
    expect(await faults()).toEqual([]);
  });
});

describe('a clear', () => {
  beforeAll(open, 60_000);
  afterAll(close);

  it('goes as a whole, once its newest event is past its time', async () => {
    const clear = async (began: number, ended: number, id: string): Promise<string> => {
      const stream = `clear/${id}`;
      const event = (type: 'session.clear_started' | 'session.cleared'): NewEvent => ({
        type,
        sessionId: 's',
        data: { clearId: id },
      });
      daysAgo = began;
      await append(stream, [event('session.clear_started')]);
      daysAgo = ended;
      await append(stream, [event('session.cleared')]);
      daysAgo = 0;
      return stream;
    };
    const [old, late] = [await clear(300, 290, 'old'), await clear(300, 100, 'late')];
    await setRetention({ session: 200 });
    await log.seal();
    expect(await purge()).toMatchObject({ events: 2 });
    const left = await Promise.all([old, late].map((stream) => log.store.readStream(account, stream)));
    expect(left.map(({ length }) => length)).toEqual([0, 2]);
    expect(await faults()).toEqual([]);
  });
});

describe('a queue of injections', () => {
  beforeAll(open, 60_000);
  afterAll(close);

  it('loses what was drained, and nothing that waits still, whatever its age', async () => {
    const stream = injectionStream('s');
    const envelope = await log.sealing.envelope(account, { kind: 'session', id: 's' });
    const entry = (injectionId: string): QueuedInjection => ({
      injectionId,
      pluginId: 'p',
      keyDigest: null,
      placement: 'prepend_context',
      ttlMs: null,
      createdAt: '2026-01-01T00:00:00.000Z',
      content: envelope.seal('words'),
    });
    const enqueued = (id: string): NewEvent => ({
      type: 'injection.enqueued',
      sessionId: 's',
      data: asData(entry(id)),
    });
    const drained: NewEvent = {
      type: 'injection.drained',
      sessionId: 's',
      data: asData({ injections: [entry('one')], by: 'runtime' }),
    };
    daysAgo = 300;
    await append(stream, [enqueued('one'), drained, enqueued('two')]);
    // One that is long is purged event by event.
    const long = injectionStream('long');
    for (let n = 0; n < 30; n += 1) await append(long, [enqueued(`l${String(n)}`), drained]);
    await append(long, [enqueued('last')]);
    daysAgo = 0;
    await setRetention({ session: 200 });
    await log.seal();
    expect(await purge()).toMatchObject({ events: 62 });
    const left = await Promise.all([stream, long].map((one) => log.store.readStream(account, one)));
    expect(left.map((events) => events.map(({ event }) => event.data.injectionId))).toEqual([['two'], ['last']]);
    expect(await faults()).toEqual([]);
  });
});

describe('a hold', () => {
  beforeAll(open, 60_000);
  afterAll(close);

  it.each([
    ['a session', { kind: 'session', id: 'mine' }, { session: 'mine' }],
    ['an agent', { kind: 'agent', id: 'mine' }, { agent: 'mine' }],
    ['a plugin', { kind: 'plugin', id: 'mine' }, { plugin: 'mine' }],
    ['the account', { kind: 'account' }, {}],
  ] as const)('on %s keeps whole invocations', async (_, scope, mine) => {
    await setRetention({ invocation: 200 });
    const [id, other] = [
      await invoke(300, mine),
      await invoke(300, { session: 'other', agent: 'other', plugin: 'other' }),
    ];
    await log.seal();
    const holdId = await placeHold(scope);
    await purge();
    expect([await isThere(id), await isThere(other)]).toEqual([3, scope.kind === 'account' ? 3 : 0]);
    await releaseHold(holdId);
    await purge();
    expect(await isThere(id)).toBe(0);
    expect(await faults()).toEqual([]);
  });

  it('that is placed while a purge is being decided on is kept to', async () => {
    const id = await invoke(300, { session: 'raced' });
    await log.seal();
    let raced = false;
    const racing: EventStore = {
      ...log.store,
      append: async (asked) => {
        const isPurge = asked.writes.some(({ events }) => events.some(({ type }) => type === 'retention.purged'));
        if (isPurge && !raced) {
          raced = true;
          await placeHold({ kind: 'session', id: 'raced' }, log.store);
        }
        return log.store.append(asked);
      },
    };
    expect(await purge(purges(racing))).toMatchObject({ events: 0, held: 3 });
    expect([raced, await isThere(id)]).toEqual([true, 3]);
  });
});

describe('a purge that a crash cut short', () => {
  beforeAll(open, 60_000);
  afterAll(close);

  it('has told the truth by the time it is finished, whoever finishes it, and verifies in between too', async () => {
    const ids = [await invoke(300), await invoke(299)];
    await setRetention({ invocation: 200 });
    await log.seal();
    class Dying extends PurgeWork {
      override removeRecorded(): Promise<void> {
        return Promise.reject(new Error('killed'));
      }
    }
    await expect(purge(new Dying(log.store, log.sql, config, new KeepingLog(log.store)))).rejects.toThrow('killed');
    expect(await Promise.all(ids.map(isThere))).toEqual([3, 3]);
    expect(await faults()).toEqual([]);

    expect(await purge()).toMatchObject({ events: 0 });
    expect(await Promise.all(ids.map(isThere))).toEqual([0, 0]);
    expect(await faults()).toEqual([]);
    const events = (await told()).map(({ event }) => event.data.events);
    expect(events).toEqual([6, 0]);
  });
});

describe('the database', () => {
  beforeAll(open, 60_000);
  afterAll(close);

  it('has the same classes of events as the program', async () => {
    const rows = await log.sql.query<{ type: string; class: string | null }>(
      'select type, event_class(type) as class from unnest($1::text[]) type',
      [eventTypes],
    );
    for (const { type, class: name } of rows)
      expect([type, name]).toEqual([type, classOf(type as (typeof eventTypes)[number])]);
  });

  it('removes only what a recorded purge names, and nothing that is not past what it says, whoever asks', async () => {
    const id = await invoke(100);
    const [first] = await log.store.readStream(account, invocationStream(id));
    const range = { first: String(first?.position), last: String((first?.position ?? 0n) + 2n), events: 3 };
    const removing = (position: bigint | undefined): Promise<unknown> =>
      log.sql.query('select purge_recorded($1, $2, 100)', [account, String(position)]);
    await expect(removing(first?.position)).rejects.toMatchObject({ code: '42501' });

    const old = new Date(Date.now() - 200 * day).toISOString();
    const lies = [
      {},
      { invocation: { days: 200, before: old } },
      { invocation: { days: 200, before: new Date().toISOString() } },
      { invocation: { days: 0, before: new Date().toISOString() } },
      { session: { days: 1, before: new Date(Date.now() - day).toISOString() } },
    ];
    for (const policy of lies) {
      const { last } = await append('forged', [
        { type: 'retention.purged', data: asData({ ranges: [range], events: 3, policy }) },
      ]);
      await expect(removing(last)).rejects.toMatchObject({ code: '42501' });
    }
    await expect(log.sql.query('delete from event')).rejects.toMatchObject({ code: '42501' });
    await expect(
      log.sql.transaction(async (tx) => {
        await tx.query("select set_config('hookledger.purging', 'acme', true)");
        await tx.query('delete from event');
      }),
    ).rejects.toMatchObject({ code: '42501' });
    await expect(
      log.sql.transaction(async (tx) => {
        await tx.query('create temporary table event as select * from event limit 0');
        await tx.query('grant all on event to public');
        const said = { data: { ranges: [range], policy: {} } };
        await tx.query(
          "insert into event (account, account_position, type, bytes) values ('acme', 0, 'retention.purged', $1)",
          [Buffer.from(JSON.stringify(said))],
        );
        await tx.query("select purge_recorded('acme', 0, 100)");
      }),
    ).rejects.toMatchObject({ code: '42501' });
    expect(await isThere(id)).toBe(3);
    expect(await log.sql.query('select * from purged_range')).toEqual([]);
  });
});

describe('the blobs of purged events', () => {
  beforeAll(open, 60_000);
  afterAll(close);
  const long = 'a long prompt '.repeat(200);
  const blobs = async (): Promise<number> => (await log.sql.query('select 1 from blob')).length;

  it('go with the last event that names them, and are named on record', async () => {
    await setRetention({ invocation: 200 });
    const [shared, alone] = [await invoke(300, { text: long }), await invoke(300, { text: `${long}!` })];
    const younger = await invoke(100, { text: long });
    await log.seal();
    expect(await blobs()).toBe(2);
    expect(await purge()).toMatchObject({ events: 6, blobs: 1 });
    expect(await blobs()).toBe(1);
    expect([await isThere(shared), await isThere(alone), await isThere(younger)]).toEqual([0, 0, 3]);
    const [event] = await log.store.readStream(account, invocationStream(younger));
    const opened = await log.sealing.open(account, event?.event.data.context as unknown as Sealed);
    expect(opened).toEqual({ kind: 'open', value: long });
    const named = (await told()).flatMap(({ event: { data } }) => (data.blobs as string[] | undefined) ?? []);
    expect(named).toHaveLength(1);
    expect(await faults()).toEqual([]);
  });

  it('stay when an event that names them comes while they are being looked for', async () => {
    const text = `${long}?`;
    const id = await invoke(300, { text });
    await log.seal();
    let again = '';
    const racing: EventStore = {
      ...log.store,
      head: async () => {
        const head = await log.store.head();
        if (again === '') again = await invoke(0, { text });
        return head;
      },
    };
    await purge(purges(racing));
    expect(await isThere(id)).toBe(0);
    const [event] = await log.store.readStream(account, invocationStream(again));
    expect(await log.sealing.open(account, event?.event.data.context as unknown as Sealed)).toMatchObject({
      kind: 'open',
    });
    expect(await faults()).toEqual([]);
  });
});

describe('an erasure', () => {
  beforeAll(open, 60_000);
  afterAll(close);
  afterEach(async () => {
    expect(await faults()).toEqual([]);
  });

  const begin = async (kind: 'session' | 'everything', id: string): Promise<StoredEvent> => {
    const scope = kind === 'everything' ? { kind } : { kind, id };
    const { ids: keys } = await log.sealing.livingKeys(account, scope);
    const data: PayloadErased = {
      erasureId: randomUUID(),
      state: 'begun',
      scope: kind === 'everything' ? { kind: 'account' } : { kind, id },
      keys,
      blobs: 0,
      reason: null,
    };
    const { events } = await append(keepingStream, [{ type: 'payload.erased', data: asData(data) }]);
    const [begun] = events;
    if (begun === undefined) throw new Error('not begun');
    return begun;
  };
  const work = (sql = log.sql): ErasureWork => new ErasureWork(log.store, sql, log.sealing);
  const long = 'secret '.repeat(400);
  const states = async (id: unknown): Promise<readonly string[]> =>
    (await told())
      .map(({ event }) => erasedIn(event))
      .filter(({ erasureId }) => erasureId === id)
      .map(({ state }) => state);

  it('destroys keys, blobs and texts, once, however many do it at once', async () => {
    const [id, other] = [
      await invoke(0, { session: 'e1', text: long }),
      await invoke(0, { session: 'e2', text: long }),
    ];
    const search = textSearch(log.sealing);
    await follow(search);
    expect((await rowsOf('text_part')).length).toBeGreaterThan(0);
    const begun = await begin('session', 'e1');
    expect(await faults()).toEqual([]);
    await Promise.all([1, 2, 3].map(() => work().finish(account, begun.event)));
    expect(await states(begun.event.data.erasureId)).toEqual(['begun', 'done']);
    const done = (await told()).at(-1)?.event.data;
    expect(done).toMatchObject({ keys: begun.event.data.keys, blobs: 1 });
    const [gone] = await log.store.readStream(account, invocationStream(id));
    expect(await log.sealing.open(account, gone?.event.data.context as unknown as Sealed)).toMatchObject({
      kind: 'erased',
    });
    const [kept] = await log.store.readStream(account, invocationStream(other));
    expect(await log.sealing.open(account, kept?.event.data.context as unknown as Sealed)).toMatchObject({
      kind: 'open',
    });
    const keys = new Set((await rowsOf('text_part')).map(({ key_id: key }) => key));
    expect(keys.has((begun.event.data.keys as string[])[0])).toBe(false);
    expect(keys.size).toBe(1);
    expect(await log.sql.query('select * from removed_blob')).toEqual([]);
  });

  it('goes on from wherever it stopped', async () => {
    await invoke(0, { session: 'e3', text: long });
    const begun = await begin('session', 'e3');
    for (let steps = 0; ; steps += 1) {
      let left = steps;
      const query: Sql['query'] = (text, values) =>
        (left -= 1) < 0 ? Promise.reject(new Error('killed')) : log.sql.query(text, values);
      const dying: Sql = { ...log.sql, query };
      const ended = await work(dying)
        .finish(account, begun.event)
        .then(
          () => true,
          () => false,
        );
      expect(await faults()).toEqual([]);
      if (ended) break;
      expect(steps).toBeLessThan(30);
    }
    const told = await states(begun.event.data.erasureId);
    expect(told.filter((state) => state !== 'part')).toEqual(['begun', 'done']);
    expect(
      await log.sql.query('select 1 from blob b join data_key k on k.id = b.key_id where k.wrapped is null'),
    ).toEqual([]);
  });

  it('takes with it what was sealed under its key too late to be seen', async () => {
    const envelope = await log.sealing.envelope(account, { kind: 'session', id: 'e5' });
    await invoke(0, { session: 'e5', text: long });
    const begun = await begin('session', 'e5');
    await work().finish(account, begun.event);
    envelope.seal(`${long}, too late`);
    await append('late', [{ type: 'alarm.raised', data: { code: 'late' } }], envelope.blobs());
    const [late] = envelope.blobs();
    expect(await log.store.blob(late?.hash ?? '')).not.toBeNull();
    await work().sweepLate();
    expect(await log.store.blob(late?.hash ?? '')).toBeNull();
    expect(await states(begun.event.data.erasureId)).toEqual(['begun', 'done', 'part']);
    expect((await told()).at(-1)?.event.data.blobHashes).toEqual([late?.hash]);
    await work().sweepLate();
    expect(await states(begun.event.data.erasureId)).toEqual(['begun', 'done', 'part']);
  });

  it('of everything leaves no key but the root of what is proved', async () => {
    await invoke(0, { session: 'e4' });
    await invoke(0, { session: 'e4', subject: 'user:1' });
    const begun = await begin('everything', '');
    await work().finish(account, begun.event);
    const living = await log.sql.query('select scope from data_key where account = $1 and wrapped is not null', [
      account,
    ]);
    expect(living).toEqual([]);
  });
});
