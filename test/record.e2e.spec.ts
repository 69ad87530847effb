import { setTimeout as delay } from 'node:timers/promises';
/* eslint-disable @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-member-access,
   @typescript-eslint/no-unsafe-call, @typescript-eslint/no-unsafe-return, @typescript-eslint/no-unsafe-argument,
   @typescript-eslint/restrict-plus-operands -- an answer is whatever the server said; expectations say what it is */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startServer, until, type CallAnswer, type RunningServer } from './support/running-server.js';
import { openEventSource, type EventSourceReader } from './support/event-source.js';

let server: RunningServer;
const keys = { runtime: '', admin: '', auditor: '', blind: '' };
const base = '/v1/accounts/default';

const newKey = async (role: string, more: object = {}): Promise<{ id: string; secret: string }> => {
  const answer = await server.call('POST', `${base}/keys`, { body: { role, name: role, ...more } });
  expect(answer.status).toBe(201);
  return answer.body as { id: string; secret: string };
};

const install = async (id: string, source: string): Promise<void> => {
  const body = { id, name: id, version: '1.0.0', dialect: 'middleware', language: 'javascript', source };
  const answer = await server.call('POST', `${base}/plugins`, { body });
  expect([answer.status, answer.text]).toEqual([201, answer.text]);
};

const fire = async (hook: string, body: object): Promise<CallAnswer> => {
  const answer = await server.call('POST', `${base}/hooks/middleware/${hook}`, { key: keys.runtime, body });
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
  const last = BigInt((answer.body as { positions: { last: string } }).positions.last);
  if (last > lastFired) lastFired = last;
  return answer;
};

const message = (text: string, sessionId: string): object => ({ sessionId, channelId: null, text, mediaIds: [] });

const say = (text: string, sessionId: string, envelope: object = {}): Promise<CallAnswer> =>
  fire('userMessageInbound', { ...envelope, context: message(text, sessionId) });

/** Last event that was fired: what the tests expect to see. */
let lastFired = -1n;

/** Reads, once more while the read model says that it is not there yet: a busy machine is no fault. */
const read = async (path: string, key = keys.auditor): Promise<CallAnswer> => {
  let answer = await server.call('GET', `${base}${path}`, { key });
  for (let tries = 0; tries < 100 && (await isBehind(answer)); tries += 1) {
    await delay(100);
    answer = await server.call('GET', `${base}${path}`, { key });
  }
  return answer;
};

const isBehind = async ({ status, body }: CallAnswer): Promise<boolean> => {
  if (status === 404) return isBehind(await server.call('GET', `${base}/invocations?limit=1`));
  const upTo = (body as { completeUpTo?: unknown } | undefined)?.completeUpTo;
  return typeof upTo === 'string' && BigInt(upTo) < lastFired;
};

const ids = (answer: CallAnswer): readonly string[] =>
  (answer.body.items as { invocationId: string }[]).map(({ invocationId }) => invocationId);

const ssh = (kind: 'sending' | 'completed', sessionId: string): object => ({
  sessionId,
  agentId: '7',
  sshHostId: '99',
  hostDisplayName: 'web',
  kind: 'command',
  command: 'uptime',
  path: null,
  ...(kind === 'sending'
    ? { content: null }
    : { output: 'up', errorOutput: null, exitCode: 0, durationMs: 5, isTruncated: false }),
});

beforeAll(async () => {
  server = await startServer();
  keys.runtime = (await newKey('runtime')).secret;
  keys.admin = (await newKey('admin')).secret;
  keys.auditor = (await newKey('auditor')).secret;
  keys.blind = (await newKey('auditor', { content: 'none' })).secret;
  await install('upper', `globalThis.middleware.userMessageInbound = (c) => c.text.toUpperCase();`);
  await install(
    'guard',
    `globalThis.middleware.userMessageInbound = (c, t) => c.text.includes('SECRET') ? t.cancel('no secrets here') : c.text;`,
  );
}, 120_000);

afterAll(() => server.close(), 60_000);

describe('who fires and reads at once', () => {
  it('sees the whole turn, with the value before and after every handler', async () => {
    for (let n = 0; n < 10; n += 1) {
      const turnId = `turn-${n}`;
      const fired = await say(`hello ${n}`, 'session-turns', { turnId });
      const turn = await read(`/turns/${turnId}`);
      expect(turn.status).toBe(200);
      expect(turn.body).toMatchObject({
        turnId,
        sessions: [{ turnId, sessionId: 'session-turns', turnInferred: false, invocations: 1 }],
        nextCursor: null,
        from: null,
        to: null,
      });
      expect(turn.body.items).toHaveLength(1);
      expect(turn.body.items[0]).toMatchObject({
        invocationId: fired.body.invocationId,
        outcome: 'rewritten',
        context: message(`hello ${n}`, 'session-turns'),
        value: `HELLO ${n}`,
        positions: fired.body.positions,
        handlers: [
          { pluginId: 'upper', outcome: 'rewrote', before: `hello ${n}`, after: `HELLO ${n}` },
          { pluginId: 'guard', outcome: 'passed', before: `HELLO ${n}`, after: `HELLO ${n}` },
        ],
      });
      expect(BigInt(turn.body.completeUpTo)).toBeGreaterThanOrEqual(BigInt(fired.body.positions.last));
    }
  });

  it('finds the invocation by its filters, and sees that a turn was inferred', async () => {
    const fired = await say('a SECRET thing', 'session-search');
    const { invocationId, turnId } = fired.body as { invocationId: string; turnId: string };
    expect(fired.body.turnInferred).toBe(true);
    const filters = [
      'sessionId=session-search',
      `turnId=${turnId}`,
      'outcome=cancelled&sessionId=session-search',
      'pluginId=guard&handlerOutcome=cancelled',
      'hook=userMessageInbound&sessionId=session-search',
      `root=${invocationId}`,
      'text=a%20secret%20thing',
      'text=th&sessionId=session-search',
      'text=T&sessionId=session-search',
      'text=no%20secrets%20here',
    ];
    for (const filter of filters)
      expect([filter, ids(await read(`/invocations?${filter}`))]).toEqual([filter, [invocationId]]);
    const turns = await read('/sessions/session-search/turns');
    expect(turns.body.items).toEqual([
      expect.objectContaining({ turnId, turnInferred: true, outcomes: expect.objectContaining({ cancelled: 1 }) }),
    ]);
    const one = await read(`/invocations/${invocationId}`);
    expect(one.body).toMatchObject({
      turnInferred: true,
      cancellation: { pluginId: 'guard', reason: 'no secrets here' },
      value: null,
    });
    expect(BigInt(one.body.completeUpTo)).toBeGreaterThanOrEqual(BigInt(one.body.positions.last));
  });

  it('reads in a list why an invocation was cancelled', async () => {
    const list = '/invocations?outcome=cancelled&sessionId=session-search';
    expect((await read(list)).body.items[0].cancellation).toEqual({
      pluginId: 'guard',
      reason: 'no secrets here',
      code: null,
    });
    const blind = await read(list, keys.blind);
    expect(blind.body.items[0].cancellation).toEqual({
      pluginId: 'guard',
      reason: { hidden: true, size: Buffer.byteLength('"no secrets here"') },
      code: null,
    });
  });
});

describe('content', () => {
  it('shows as its size to a key without it, everywhere', async () => {
    const fired = await say('private words', 'session-content', { turnId: 'turn-content', dataSubject: 'person-7' });
    const id = String(fired.body.invocationId);
    for (const path of [
      `/invocations/${id}`,
      '/turns/turn-content',
      '/invocations?turnId=turn-content',
      '/events?stream=invocation/' + id,
    ]) {
      const blind = await read(path, keys.blind);
      expect([path, blind.status]).toEqual([path, 200]);
      expect(blind.text.toLowerCase()).not.toContain('private words');
      expect(blind.text).not.toContain('person-7');
    }
    const blind = await read(`/invocations/${id}`, keys.blind);
    expect(blind.body.context).toEqual({ hidden: true, size: expect.any(Number) });
    expect(blind.body.handlers[0].before).toEqual({ hidden: true, size: expect.any(Number) });
    const seen = await read(`/invocations/${id}`);
    expect(seen.body).toMatchObject({ dataSubject: 'person-7', handlers: [{ before: 'private words' }, {}] });
    expect(ids(await read('/invocations?dataSubject=person-7', keys.blind))).toEqual([id]);
  });

  it('is neither searched nor opened by a key without it', async () => {
    expect((await read('/invocations?text=private', keys.blind)).status).toBe(403);
    expect((await read('/events?content=open', keys.blind)).status).toBe(403);
    expect((await read('/events/stream?content=open', keys.blind)).status).toBe(403);
    const open = await server.call('POST', `${base}/open`, { key: keys.blind, body: { values: [] } });
    expect(open.status).toBe(403);
  });

  it('comes out of the raw events sealed, opened when asked, and opened by itself', async () => {
    const fired = await say('round trip', 'session-open');
    const stream = `/events?stream=invocation/${String(fired.body.invocationId)}`;
    const sealed = await read(stream);
    const [opened] = sealed.body.items as { type: string; data: { context: object } }[];
    expect(opened?.type).toBe('invocation.opened');
    expect(Object.keys(opened?.data.context ?? {})).toEqual(['$sealed']);
    const openedAnswer = await server.call('POST', `${base}/open`, {
      key: keys.auditor,
      body: { values: [opened?.data.context] },
    });
    expect(openedAnswer.body.values).toEqual([message('round trip', 'session-open')]);
    const asked = await read(`${stream}&content=open`);
    expect(asked.body.items[0].data.context).toEqual(message('round trip', 'session-open'));
  });

  it('that is forged or of another account does not open', async () => {
    await server.call('POST', '/v1/accounts', { body: { id: 'other', name: 'other' } });
    const fired = await say('mine', 'session-foreign');
    const events = await read(`/events?stream=invocation/${String(fired.body.invocationId)}`);
    const value = events.body.items[0].data.context as { $sealed: { v: number; k: string; b: string } };
    const forged = { $sealed: { ...value.$sealed, b: value.$sealed.b.replace(/^..../u, 'AAAA') } };
    for (const [account, sealed] of [
      ['other', value],
      ['default', forged],
      ['default', { $sealed: { v: 1, k: 'x', b: 'y' } }],
      ['default', 'text'],
    ] as const) {
      const answer = await server.call('POST', `/v1/accounts/${account}/open`, { body: { values: [sealed] } });
      expect([account, answer.status]).toEqual([account, 422]);
    }
  });

  it('that does not open is named, each value of it', async () => {
    const fired = await say('mine', 'session-named');
    const { body: events } = await read(`/events?stream=invocation/${String(fired.body.invocationId)}`);
    const good = events.items[0].data.context as object;
    const open = async (values: unknown, more: object = {}): Promise<readonly string[]> => {
      const answer = await server.call('POST', `${base}/open`, { key: keys.auditor, body: { values, ...more } });
      expect(answer.status).toBe(422);
      return answer.body.errors.map(({ pointer }: { pointer: string }) => pointer);
    };
    const unknown = { $sealed: { v: 1, k: 'x', b: 'y' } };
    expect(await open(['text', good, 7, unknown], { 'a/b': 1 })).toEqual(['/a~1b', '/values/0', '/values/2']);
    expect(await open([unknown, good, unknown])).toEqual(['/values/0', '/values/2']);
    expect(await open('none', { more: 1 })).toEqual(['/more', '/values']);
  });

  it('survives with every character and every digit', async () => {
    const text = 'nul \0 half \ud83d line \u2028 end';
    const fired = await fire('assistantMessageOutbound', {
      context: { sessionId: 'session-bytes', channelId: null, text },
    });
    const one = await read(`/invocations/${String(fired.body.invocationId)}`);
    expect(one.body.context.text).toBe(text);
    expect(
      ids(await read(`/invocations?sessionId=session-bytes&text=${encodeURIComponent('line \u2028 end')}`)),
    ).toHaveLength(1);
  });
});

describe('pages', () => {
  it('give each invocation once, in order, whatever the limit', async () => {
    const fired: string[] = [];
    for (let n = 0; n < 12; n += 1) fired.push(String((await say(`page ${n}`, 'session-pages')).body.invocationId));
    for (const limit of [1, 3, 4, 5, 12, 13]) {
      for (const order of ['newest', 'oldest']) {
        const seen: string[] = [];
        let cursor: string | null = null;
        do {
          const answer: CallAnswer = await read(
            `/invocations?sessionId=session-pages&limit=${limit}&order=${order}${cursor === null ? '' : `&cursor=${cursor}`}`,
          );
          seen.push(...ids(answer));
          cursor = answer.body.nextCursor as string | null;
        } while (cursor !== null);
        expect(seen).toEqual(order === 'oldest' ? fired : [...fired].reverse());
      }
    }
  });

  it('refuse a cursor that was changed in any place, or made for another question', async () => {
    const first = await read('/invocations?sessionId=session-pages&limit=3');
    const cursor = String(first.body.nextCursor);
    for (let place = 0; place < cursor.length; place += 1) {
      const changed = cursor.slice(0, place) + (cursor[place] === 'A' ? 'B' : 'A') + cursor.slice(place + 1);
      const answer = await read(`/invocations?sessionId=session-pages&limit=3&cursor=${changed}`);
      expect([place, answer.status, answer.body.code]).toEqual([place, 400, 'bad_cursor']);
    }
    for (const other of ['sessionId=other&limit=3', 'sessionId=session-pages&order=oldest', 'limit=3']) {
      expect((await read(`/invocations?${other}&cursor=${cursor}`)).status).toBe(400);
    }
    expect((await read(`/invocations?sessionId=session-pages&limit=5&cursor=${cursor}`)).status).toBe(200);
  });

  it('of the raw events are dense and complete', async () => {
    const seen: bigint[] = [];
    let cursor: string | null = null;
    let complete: bigint;
    do {
      const answer: CallAnswer = await read(`/events?until=60&limit=7${cursor === null ? '' : `&cursor=${cursor}`}`);
      seen.push(...(answer.body.items as { position: string }[]).map(({ position }) => BigInt(position)));
      cursor = answer.body.nextCursor as string | null;
      complete = BigInt(answer.body.completeUpTo as string);
    } while (cursor !== null);
    expect(seen).toEqual(Array.from({ length: 61 }, (_, n) => BigInt(n)));
    expect(complete).toBeGreaterThan(60n);
    const some = await read('/events?after=10&until=12');
    expect((some.body.items as { position: string }[]).map(({ position }) => position)).toEqual(['11', '12']);
    const plugins = await read('/events?type=plugin.*');
    expect((plugins.body.items as { type: string }[]).map(({ type }) => type)).toEqual([
      'plugin.installed',
      'plugin.installed',
    ]);
  });
});

describe('a question that does not fit', () => {
  it.each([
    '/invocations?colour=red',
    '/invocations?limit=0',
    '/invocations?limit=501',
    '/invocations?limit=ten',
    '/invocations?outcome=cancled',
    '/invocations?sessionId=',
    '/invocations?sessionId=a&sessionId=b',
    '/invocations?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z',
    '/invocations?from=yesterday',
    '/invocations?from=2026-02-30',
    '/invocations?text=',
    '/invocations?hop=-1',
    '/invocations?cursor=AAAA',
    '/events?after=-1',
    '/events?after=5&until=4',
    '/events?type=plugin.instaled',
    '/turns/t?order=newest',
    '/usage?groupBy=colour',
    '/operations?side=left',
  ])('%s is 400, as problem+json that names it', async (path) => {
    const answer = await read(path);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([400, 'application/problem+json']);
    expect(answer.body.errors.length).toBeGreaterThan(0);
  });

  it('about what is not there, or is another account’s, is 404', async () => {
    const fired = await say('mine', 'session-404', { turnId: 'turn-404' });
    await server.call('POST', '/v1/accounts', { body: { id: 'other', name: 'other' } });
    for (const path of ['/invocations/none', '/turns/none', '/lineage/none', '/operations/none']) {
      expect([path, (await read(path)).status]).toEqual([path, 404]);
    }
    for (const path of [`/invocations/${String(fired.body.invocationId)}`, '/turns/turn-404']) {
      expect((await server.call('GET', `/v1/accounts/other${path}`)).status).toBe(404);
    }
    const elsewhere = await server.call('GET', '/v1/accounts/other/invocations');
    expect(elsewhere.body.items).toEqual([]);
    expect((await server.call('GET', '/v1/accounts/other/invocations', { key: keys.auditor })).status).toBe(404);
  });

  it('by a key whose role may not is 403', async () => {
    for (const path of ['/invocations', '/events', '/usage', '/events/stream']) {
      expect([path, (await read(path, keys.runtime)).status]).toEqual([path, 403]);
    }
    expect((await read('/invocations', keys.admin)).status).toBe(200);
  });

  it('takes dates and times in any zone, and says how it understood them', async () => {
    const answer = await read('/invocations?from=2026-03-29T02:30:00%2B02:00&to=2099-03-29');
    expect(answer.body).toMatchObject({ from: '2026-03-29T00:30:00.000Z', to: '2099-03-30T00:00:00.000Z' });
    expect(answer.body.items.length).toBeGreaterThan(0);
    expect((await read('/invocations?to=2026-01-01')).body.items).toEqual([]);
    expect((await read('/invocations?clock=recorded&from=9999-01-01')).body.items).toEqual([]);
  });
});

describe('operations, lineage, usage and timeline', () => {
  it('join the hooks before and after an operation and what the runtime did', async () => {
    const sent = await fire('sshCommandSending', { operationId: 'op-1', context: ssh('sending', 'session-ops') });
    const pending = await read('/operations?side=no_after');
    expect((pending.body.items as { operationId: string }[]).map(({ operationId }) => operationId)).toEqual(['op-1']);
    const done = await fire('sshCommandCompleted', { operationId: 'op-1', context: ssh('completed', 'session-ops') });
    const effect = await server.call('POST', `${base}/invocations/${String(sent.body.invocationId)}/effect`, {
      key: keys.runtime,
      body: { applied: true },
    });
    expect(effect.status).toBe(200);
    expect((await read('/operations')).body.items).toEqual([]);
    const operation = await read('/operations/op-1');
    expect(operation.body.items).toEqual([
      expect.objectContaining({
        state: 'joined',
        before: [expect.objectContaining({ invocationId: sent.body.invocationId, effect: 'applied' })],
        after: [expect.objectContaining({ invocationId: done.body.invocationId, effect: 'unknown' })],
      }),
    ]);
    const one = await read(`/invocations/${String(sent.body.invocationId)}`);
    expect(one.body).toMatchObject({ effect: { state: 'applied' }, operations: [{ state: 'joined' }] });
    expect(ids(await read('/invocations?effect=applied'))).toEqual([sent.body.invocationId]);
    expect(ids(await read('/invocations?target=99&order=oldest'))).toEqual([
      sent.body.invocationId,
      done.body.invocationId,
    ]);
  });

  it('show what descends from an invocation', async () => {
    const first = await say('first', 'session-lineage');
    const second = await say('second', 'session-lineage', { lineage: first.body.lineage });
    const tree = await read(`/lineage/${String(first.body.invocationId)}`);
    expect(
      (tree.body.items as { invocation: { invocationId: string }; parent: string | null; by: string | null }[]).map(
        ({ invocation, parent, by }) => [invocation.invocationId, parent, by],
      ),
    ).toEqual([
      [first.body.invocationId, null, null],
      [second.body.invocationId, first.body.invocationId, 'model-turn'],
    ]);
  });

  it('count metered runs by whole days, and say which days', async () => {
    const before = await read('/usage?groupBy=pluginId&pluginId=upper');
    await say('one more', 'session-usage');
    const after = await read('/usage?groupBy=pluginId&pluginId=upper&from=2026-01-01T12:00:00Z');
    expect(after.body.items[0].runs).toBe((before.body.items[0]?.runs ?? 0) + 1);
    expect(after.body).toMatchObject({ groupBy: ['pluginId'], from: '2026-01-01T00:00:00.000Z' });
  });

  it('stand on the timeline of their session', async () => {
    await say('a', 'session-line', { turnId: 'line-1' });
    await say('b', 'session-line', { turnId: 'line-2' });
    const line = await read('/sessions/session-line/timeline?order=oldest');
    expect(
      (line.body.items as { kind: string; turn: { turnId: string } }[]).map(({ kind, turn }) => [kind, turn.turnId]),
    ).toEqual([
      ['turn', 'line-1'],
      ['turn', 'line-2'],
    ]);
  });
});

describe('reads', () => {
  it('are on record: who, what, in whose name, and whose data it was', async () => {
    const watcher = await newKey('auditor');
    const headers = { 'hookledger-on-behalf-of': 'ada' };
    for (const path of ['/turns/turn-1', '/invocations?dataSubject=person-7', '/turns/turn-1']) {
      await server.call('GET', `${base}${path}`, { key: watcher.secret, headers });
    }
    await read('/invocations/none', watcher.secret);
    const events = await read('/events?type=audit.read&limit=500');
    const own = (events.body.items as { actor: object; data: Record<string, unknown> }[]).filter(
      ({ actor }) => (actor as { id: string }).id === watcher.id,
    );
    expect(own.map(({ data }) => [data.path, data.count, typeof data.dataSubject])).toEqual([
      ['/turns/turn-1', 1, 'undefined'],
      ['/invocations', 1, 'string'],
    ]);
    expect(own[0]?.actor).toEqual({ kind: 'key', id: watcher.id, onBehalfOf: 'ada' });
    expect(JSON.stringify(own)).not.toContain('person-7');
  });
});

describe('the live stream', () => {
  const positions = (reader: EventSourceReader): readonly bigint[] => reader.events.map(({ id }) => BigInt(id));
  const follow = (query = '', lastEventId?: string, key = keys.auditor): Promise<EventSourceReader> =>
    openEventSource(`${server.url}${base}/events/stream${query}`, key, lastEventId);

  it('shows what is fired from now on, as the event is stored', async () => {
    const reader = await follow('?type=invocation.closed');
    const fired = await say('live', 'session-live');
    await until('the event is there', () => reader.events.length > 0);
    expect(reader.events[0]).toMatchObject({
      id: fired.body.positions.last,
      data: { type: 'invocation.closed', position: fired.body.positions.last, invocationId: fired.body.invocationId },
    });
    expect(JSON.stringify(reader.events[0])).toContain('$sealed');
    await reader.close();
  });

  it('opens content when asked by a key that may', async () => {
    const reader = await follow('?type=invocation.opened&content=open');
    await say('open sesame', 'session-live');
    await until('the event is there', () => reader.events.length > 0);
    expect(JSON.stringify(reader.events[0]?.data)).toContain('open sesame');
    await reader.close();
  });

  it('has no hole and no repeat over many reconnects while others fire', async () => {
    const start = (await read('/events?limit=1')).body.completeUpTo as string;
    let firing = true;
    let fired = 0;
    const load = Promise.all(
      [1, 2, 3, 4].map(async (n) => {
        while (firing) {
          await say(`load ${n}`, `session-load-${n}`);
          fired += 1;
        }
      }),
    );
    const seen: bigint[] = [];
    let last = start;
    for (let round = 0; round < 8; round += 1) {
      const reader = await follow('', last);
      const enough = 20 + round * 7;
      await until('some events came', () => reader.events.length >= enough);
      await reader.close();
      seen.push(...positions(reader));
      last = String(seen.at(-1));
    }
    firing = false;
    await load;
    expect(fired).toBeGreaterThan(0);
    expect(seen).toEqual(Array.from({ length: seen.length }, (_, n) => BigInt(start) + 1n + BigInt(n)));
  }, 60_000);

  it('begins where it is told, and refuses a place that is none', async () => {
    const reader = await follow('?after=3');
    await until('the event is there', () => reader.events.length > 0);
    expect(positions(reader)[0]).toBe(4n);
    await reader.close();
    for (const bad of ['x', '-1', '1.5']) {
      const answer = await server.call('GET', `${base}/events/stream`, {
        key: keys.auditor,
        headers: { 'last-event-id': bad },
      });
      expect([bad, answer.status]).toEqual([bad, 400]);
    }
  });

  it('ends when its key is revoked', async () => {
    const key = await newKey('auditor');
    const reader = await follow('', undefined, key.secret);
    expect((await server.call('DELETE', `${base}/keys/${key.id}`)).status).toBeLessThan(300);
    await reader.ended;
    await say('after the end', 'session-live');
    expect(JSON.stringify(reader.events)).not.toContain('after the end');
  });
});

describe('the program', () => {
  it('says how far its read models are, and goes on where it was after a kill', async () => {
    const ready = await server.call('GET', '/health/ready', { key: null });
    expect(ready.body.details.projectionLag).toMatchObject({ state: 'ok', record: { setAside: 0, state: 'live' } });
    const metrics = await server.call('GET', '/metrics', { key: null });
    expect(metrics.text).toContain('hookledger_read_model_lag_events{read_model="record"}');
    const fired = await say('before the kill', 'session-kill', { turnId: 'turn-kill' });
    const { dataDir } = server;
    await server.kill();
    server = await startServer({ dataDir });
    const turn = await read('/turns/turn-kill');
    expect(ids(turn)).toEqual([fired.body.invocationId]);
    const next = await say('after the kill', 'session-kill', { turnId: 'turn-kill' });
    expect(ids(await read('/turns/turn-kill'))).toEqual([fired.body.invocationId, next.body.invocationId]);
  }, 60_000);

  it('ends its streams when it stops', async () => {
    const reader = await openEventSource(`${server.url}${base}/events/stream`, keys.auditor);
    const { dataDir } = server;
    expect(await server.stop()).toBe(0);
    await reader.ended;
    server = await startServer({ dataDir });
  }, 60_000);
});
