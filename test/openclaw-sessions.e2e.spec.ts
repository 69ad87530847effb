import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { startServer, type CallAnswer, type RunningServer } from './support/running-server.js';

jest.setTimeout(60_000);

let first: RunningServer;
let server: RunningServer;
beforeAll(async () => {
  first = await startServer();
  server = first;
}, 120_000);
afterAll(async () => {
  await server.stop();
  await first.close();
});

type Json = Readonly<Record<string, unknown>>;

interface Entry {
  readonly id: string;
  readonly pluginId: string;
  readonly text: string;
}

interface Body extends Json {
  readonly items: readonly Json[];
  readonly injections: readonly Entry[];
  readonly queuedInjections: readonly Entry[];
}

type Answer = CallAnswer<Body>;

interface Event {
  readonly type: string;
  readonly sessionId?: string;
  readonly pluginId?: string;
  readonly data: Json;
}

let accounts = 0;

interface Account {
  readonly base: string;
  readonly runtime: string;
  readonly auditor: string;
  readonly admin: string;
}

const newAccount = async (): Promise<Account> => {
  const id = `turns-${String((accounts += 1))}`;
  expect((await server.call('POST', '/v1/accounts', { body: { id, name: id } })).status).toBe(201);
  const base = `/v1/accounts/${id}`;
  const key = async (role: string): Promise<string> =>
    String((await server.call<Body>('POST', `${base}/keys`, { body: { role, name: role } })).body.secret);
  return { base, runtime: await key('runtime'), auditor: await key('auditor'), admin: await key('admin') };
};

const entry = (id: string, register: string): string => `
  import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
  export default definePluginEntry({ id: ${JSON.stringify(id)}, name: "A plugin", register(api) { ${register} } });
`;

const install = async ({ base }: Account, id: string, register: string): Promise<void> => {
  const manifest = JSON.stringify({ id, contracts: { trustedToolPolicies: ['gate'] }, configSchema: {} });
  const files = { 'index.ts': entry(id, register), 'openclaw.plugin.json': manifest };
  const body = { id, dialect: 'openclaw', language: 'typescript', enabled: true, entry: 'index.ts', files };
  const answer = await server.call<Body>('POST', `${base}/plugins`, { body });
  expect([answer.status, answer.text]).toEqual([201, answer.text]);
};

const session = 'agent:main:main';
const at = encodeURIComponent(session);

const fire = (
  account: Account,
  hook: string,
  event: object,
  context: object = {},
  more: object = {},
): Promise<Answer> =>
  server.call<Body>('POST', `${account.base}/hooks/openclaw/${hook}`, {
    key: account.runtime,
    body: { event, context: { sessionKey: session, ...context }, ...more },
  });

const prepare = (account: Account, runId: string | null, context: object = {}): Promise<Answer> =>
  fire(
    account,
    'agent_turn_prepare',
    { prompt: 'p', messages: [] },
    { ...(runId === null ? {} : { runId }), ...context },
  );

const post = (account: Account, path: string, body: object, headers = {}): Promise<Answer> =>
  server.call<Body>('POST', `${account.base}/sessions/${at}/${path}`, { key: account.runtime, body, headers });

const enqueue = (account: Account, text: string, more: object = {}): Promise<Answer> =>
  post(account, 'injections', { pluginId: 'notes', text, ...more });

const patch = (account: Account, body: object, key = account.runtime, headers = {}): Promise<Answer> =>
  server.call<Body>('PATCH', `${account.base}/sessions/${at}/extensions`, { key, body, headers });

const extensions = async (account: Account, key = account.runtime): Promise<Body> => {
  const answer = await server.call<Body>('GET', `${account.base}/sessions/${at}/extensions`, { key });
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
  return answer.body;
};

const events = async ({ base, auditor }: Account, type: string): Promise<readonly Event[]> =>
  (await server.call<Body>('GET', `${base}/events?type=${type}&content=open&limit=500`, { key: auditor })).body
    .items as unknown as readonly Event[];

const texts = (entries: readonly Entry[]): readonly string[] => entries.map(({ text }) => text);

/** Resolves with what `look` gives once it is something. */
const eventually = async <T>(look: () => Promise<T | undefined>): Promise<T> => {
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    await delay(50);
  }
};

const seen = `api.on("agent_turn_prepare", (event) => ({
  prependContext: "saw " + event.queuedInjections.map((entry) => entry.text).join(","),
}));`;

describe('what a plugin has said in the next turn', () => {
  it('is put into the queue within a handler, on record, and comes to the next turn once', async () => {
    const account = await newAccount();
    const asks = `api.on("agent_end", async (_event, ctx) => {
      const asked = await api.session.workflow.enqueueNextTurnInjection(
        { sessionKey: ctx.sessionKey, text: "  remember the milk ", metadata: { from: "test" } });
      api.logger.info(JSON.stringify(asked));
    });`;
    await install(account, 'notes', `${asks} ${seen}`);
    const opened = await server.call('PATCH', `${account.base}/settings`, {
      body: { openclawHookGates: { notes: { allowConversationAccess: true } } },
    });
    expect([opened.status, opened.text]).toEqual([200, opened.text]);
    const ended = await fire(account, 'agent_end', { messages: [], success: true }, { runId: 'run-0' });
    expect([ended.status, ended.text]).toEqual([200, ended.text]);
    const enqueued = await events(account, 'injection.enqueued');
    expect(enqueued).toMatchObject([
      {
        sessionId: session,
        pluginId: 'notes',
        actor: { kind: 'plugin', id: 'notes' },
        data: { content: { text: 'remember the milk', metadata: { from: 'test' } }, placement: 'prepend_context' },
      },
    ]);
    const called = await events(account, 'host.called');
    expect(called.filter(({ data }) => data.member === 'injections.enqueue')).toHaveLength(1);

    const turn = await prepare(account, 'run-1');
    expect(turn.body.value).toEqual({ prependContext: 'remember the milk\n\nsaw remember the milk' });
    expect(turn.body.queuedInjections).toMatchObject([
      { pluginId: 'notes', text: 'remember the milk', placement: 'prepend_context', metadata: { from: 'test' } },
    ]);
    const again = await server.call<Body>('GET', `${account.base}/answers/${String(turn.body.invocationId)}`, {
      key: account.runtime,
    });
    expect(again.body.value).toEqual(turn.body.value);
    expect(again.body.queuedInjections).toEqual(turn.body.queuedInjections);
    expect((await prepare(account, 'run-2')).body).toMatchObject({
      value: { prependContext: 'saw ' },
      queuedInjections: [],
    });
    // The same run is told the same, whatever came meanwhile.
    expect((await enqueue(account, 'later')).body).toMatchObject({ enqueued: true, reason: null });
    expect((await prepare(account, 'run-1')).body.value).toEqual(turn.body.value);
    expect(texts((await post(account, 'drain', {})).body.injections)).toEqual(['later']);
  });

  it('is lost with the queue, on record and by cause, where nobody may hear it', async () => {
    const account = await newAccount();
    await install(account, 'notes', seen);
    await install(account, 'muted', seen);
    await install(account, 'gone', 'api.on("session_start", () => {});');
    await server.call('PATCH', `${account.base}/settings`, {
      body: { openclawHookGates: { muted: { allowPromptInjection: false } } },
    });
    await enqueue(account, 'late', { ttlMs: 0 });
    await enqueue(account, 'heard', { placement: 'append_context' });
    await enqueue(account, 'no', { pluginId: 'muted' });
    await enqueue(account, 'off', { pluginId: 'gone' });
    await server.call('PATCH', `${account.base}/plugins/gone`, {
      body: { enabled: false },
      headers: { 'if-match': '*' },
    });
    const dropped = await eventually(async () => {
      const found = await events(account, 'injection.dropped');
      return found.length > 0 ? found : undefined;
    });
    expect(dropped).toMatchObject([{ sessionId: session, data: { cause: 'disable' } }]);
    await server.call('PATCH', `${account.base}/plugins/gone`, {
      body: { enabled: true },
      headers: { 'if-match': '*' },
    });
    const turn = await prepare(account, 'run-1');
    expect(turn.body.value).toEqual({ prependContext: 'saw heard', appendContext: 'heard' });
    expect((await events(account, 'injection.expired')).length).toBe(1);
    expect((await events(account, 'injection.dropped')).map(({ data }) => data.cause)).toEqual([
      'disable',
      'not_allowed',
    ]);
  });

  it('waits once for each key, 32 times for each plugin, and is refused with what is wrong with it', async () => {
    const account = await newAccount();
    await install(account, 'notes', seen);
    const first = await enqueue(account, 'first', { idempotencyKey: 'k' });
    expect(first.body).toEqual({ sessionId: session, enqueued: true, id: 'k', reason: null });
    expect((await enqueue(account, 'second', { idempotencyKey: ' k ' })).body).toMatchObject({
      enqueued: false,
      id: 'k',
      reason: 'duplicate',
    });
    const more = await Promise.all(Array.from({ length: 40 }, (_, n) => enqueue(account, `n${String(n)}`)));
    expect(more.filter(({ body }) => body.enqueued === true)).toHaveLength(31);
    expect((await enqueue(account, 'one more')).body).toMatchObject({ enqueued: false, id: '', reason: 'full' });
    for (const [body, pointer] of [
      [{ pluginId: 'notes', text: '   ' }, '/text'],
      [{ pluginId: 'notes', text: 'x'.repeat(32_769) }, '/text'],
      [{ pluginId: 'notes', text: 'x'.repeat(1_048_576) }, '/text'],
      [{ pluginId: 'notes', text: 'x', placement: 'system' }, '/placement'],
      [{ pluginId: 'notes', text: 'x', ttlMs: -1 }, '/ttlMs'],
      [{ pluginId: 'notes', text: 'x', idempotencyKey: 'k'.repeat(513) }, '/idempotencyKey'],
      [{ pluginId: 'notes', text: 'x', metadata: 'y'.repeat(65_537) }, '/metadata'],
      [{ pluginId: 'nobody', text: 'x' }, '/pluginId'],
      [{ pluginId: 'notes', text: 'x', more: 1 }, '/more'],
      [JSON.parse('{"pluginId":"notes","text":"x","__proto__":{"a":1}}') as object, '/__proto__'],
    ] as const) {
      const answer = await post(account, 'injections', body);
      expect([answer.status, answer.body.errors]).toMatchObject([422, [{ pointer }]]);
    }
    expect(texts((await post(account, 'injections/drain', {})).body.injections)).toHaveLength(32);
  });

  it('keeps any text, and metadata under any key', async () => {
    const account = await newAccount();
    await install(account, 'notes', seen);
    const text = 'a\u0000b\ud800c\u2028d';
    const raw = `{"pluginId":"notes","text":${JSON.stringify(text)},"metadata":{"__proto__":{"x":1},"constructor":"\\ud800"}}`;
    const answer = await server.call<Body>('POST', `${account.base}/sessions/${at}/injections`, {
      key: account.runtime,
      raw,
    });
    expect([answer.status, answer.text]).toEqual([200, answer.text]);
    const drained = await post(account, 'drain', { runId: 'r' });
    expect(drained.body.prependContext).toBe(text);
    expect(drained.text).toContain('"metadata":{"__proto__":{"x":1},"constructor":"\\ud800"}');
  });

  it('is answered again, not done again, under an idempotency key', async () => {
    const account = await newAccount();
    await install(account, 'notes', seen);
    const key = (name: string) => ({ 'idempotency-key': name });
    const put = await post(account, 'injections', { pluginId: 'notes', text: 'once' }, key('e'));
    const again = await post(account, 'injections', { pluginId: 'notes', text: 'once' }, key('e'));
    expect([again.text, again.headers.get('idempotency-replayed')]).toEqual([put.text, 'true']);
    const taken = await post(account, 'drain', {}, key('d'));
    expect(texts(taken.body.injections)).toEqual(['once']);
    await enqueue(account, 'later');
    expect((await post(account, 'drain', {}, key('d'))).text).toBe(taken.text);
    expect(texts((await post(account, 'drain', { runId: 'r' })).body.injections)).toEqual(['later']);
    expect(texts((await prepare(account, 'r')).body.queuedInjections)).toEqual(['later']);
    expect((await prepare(account, 'other')).body.queuedInjections).toEqual([]);
  });

  it('is of the session under both its names, and of no other account or role', async () => {
    const account = await newAccount();
    const other = await newAccount();
    await install(account, 'notes', seen);
    await enqueue(account, 'by key');
    await server.call('POST', `${account.base}/sessions/s-1/injections`, {
      key: account.runtime,
      body: { pluginId: 'notes', text: 'by id' },
    });
    expect((await post({ ...other, runtime: account.runtime }, 'drain', {})).status).toBe(404);
    for (const key of [account.auditor, account.admin]) {
      expect((await post({ ...account, runtime: key }, 'drain', {})).status).toBe(403);
      expect((await patch(account, { pluginId: 'notes', namespace: 'n', unset: true }, key)).status).toBe(403);
    }
    expect(texts((await prepare(account, 'run-1', { sessionId: 's-1' })).body.queuedInjections)).toEqual([
      'by key',
      'by id',
    ]);
  });

  it('is left alone where the runtime brings its own', async () => {
    const account = await newAccount();
    await install(account, 'notes', seen);
    await enqueue(account, 'waits');
    const event = { prompt: 'p', messages: [], queuedInjections: [{ id: 'x', text: 'own' }] };
    const own = await fire(account, 'agent_turn_prepare', event, { runId: 'run-1' });
    expect(own.body.value).toEqual({ prependContext: 'saw own' });
    expect(own.body.queuedInjections).toBeUndefined();
    expect(texts((await prepare(account, 'run-2')).body.queuedInjections)).toEqual(['waits']);
  });
});

const notes = `
  api.session.state.registerSessionExtension({
    namespace: "board", description: "What is on the board", sessionEntrySlotKey: "board",
    project(ctx) { return ctx.state === undefined ? undefined : { lines: ctx.state.lines.length, of: ctx.sessionKey, mine: this.description }; },
    cleanup(ctx) { if (ctx.sessionKey?.includes("fails")) throw new Error("cannot clean " + ctx.sessionKey); },
  });
  api.session.state.registerSessionExtension({ namespace: "plain", description: "As it is" });
  api.session.state.registerSessionExtension({ namespace: "late", description: "Asynchronous after all", project: () => Promise.resolve(1) });
  api.lifecycle.registerRuntimeLifecycle({ id: "life", async cleanup(ctx) { if (ctx.sessionKey?.includes("hangs")) await new Promise(() => setTimeout(() => {}, 60000)); } });
  api.registerTrustedToolPolicy({ id: "gate", description: "reads", evaluate(event, ctx) {
    const kept = ctx.getSessionExtension("plain");
    const again = ctx.getSessionExtension(" plain ");
    const strange = [ctx.getSessionExtension("__proto__"), ctx.getSessionExtension("nothing"), ctx.getSessionExtension(1)];
    return { params: { kept, same: kept === again, strange: strange.filter((one) => one !== undefined).length } };
  } });`;

const board = { pluginId: 'notes', namespace: 'board' };
const plain = { pluginId: 'notes', namespace: 'plain' };

const itemsOf = (body: Body): Readonly<Record<string, Json>> =>
  Object.fromEntries(body.items.map((item) => [String(item.namespace), item]));

describe('a session extension', () => {
  it('keeps values, shows what its projector makes of them, and promotes that to its slot', async () => {
    const account = await newAccount();
    await install(account, 'notes', notes);
    const empty = await extensions(account);
    expect(itemsOf(empty).board).toEqual({
      ...board,
      description: 'What is on the board',
      slotKey: 'board',
      isSet: false,
      value: null,
      projection: null,
    });
    const set = await patch(account, { ...board, value: { lines: ['a', 'b'] } });
    expect([set.status, set.text]).toEqual([200, set.text]);
    const projection = { lines: 2, of: session, mine: 'What is on the board' };
    expect(itemsOf(set.body).board).toMatchObject({ isSet: true, value: { lines: ['a', 'b'] }, projection });
    expect(set.body.slots).toEqual({ board: projection });
    await patch(account, { pluginId: 'notes', namespace: 'late', value: 1 });
    await patch(account, { ...plain, value: null });
    const shown = itemsOf(await extensions(account));
    expect(shown.late).toMatchObject({ isSet: true, value: 1, projection: null });
    expect(shown.plain).toMatchObject({ isSet: true, value: null });
    const tag = (await patch(account, { ...plain, unset: true })).headers.get('etag') ?? '';
    expect(itemsOf(await extensions(account)).plain).toMatchObject({ isSet: false });
    expect((await patch(account, { ...plain, value: 1 }, account.runtime, { 'if-match': tag })).status).toBe(200);
    expect((await patch(account, { ...plain, value: 2 }, account.runtime, { 'if-match': tag })).status).toBe(412);
    const hidden = itemsOf(await extensions(account, account.admin)).board;
    expect(hidden).toMatchObject({ value: { hidden: true }, projection: { hidden: true } });
  });

  it('is patched with one value within limits, or unset, where a plugin has it', async () => {
    const account = await newAccount();
    await install(account, 'notes', notes);
    for (const [body, pointer] of [
      [{ ...plain, namespace: 'unknown', value: 1 }, '/namespace'],
      [{ ...plain, pluginId: 'nobody', value: 1 }, '/namespace'],
      [{ ...plain }, '/value'],
      [{ ...plain, value: 1, unset: true }, '/value'],
      [{ ...plain, unset: false }, '/value'],
      [{ ...plain, value: 'x'.repeat(65_537) }, '/value'],
      [{ ...plain, value: Array.from({ length: 5 }, () => 'x'.repeat(60_000)) }, '/value'],
      [{ ...plain, namespace: ' ', value: 1 }, '/namespace'],
    ] as const) {
      const answer = await patch(account, body);
      expect([answer.status, answer.body.errors]).toMatchObject([422, [{ pointer }]]);
    }
    const sealed = { $sealed: { v: 1, k: 'k', b: 'AAAA' } };
    expect(itemsOf((await patch(account, { ...plain, value: sealed })).body).plain).toMatchObject({
      value: sealed,
      projection: sealed,
    });
    const blob = { $blob: 'ab'.repeat(32), k: 'k', size: 1 };
    expect(itemsOf((await patch(account, { ...plain, value: blob })).body).plain).toMatchObject({ projection: blob });
  });

  it('reaches the trusted policies of its plugin, and of no other', async () => {
    const account = await newAccount();
    await install(account, 'notes', notes);
    await install(
      account,
      'other',
      `api.session.state.registerSessionExtension({ namespace: "plain", description: "Another's", sessionEntrySlotKey: "board" });
       api.session.state.registerSessionExtension({ namespace: "own", description: "Its own" });
       api.registerTrustedToolPolicy({ id: "gate", description: "reads", evaluate: (event, ctx) => ({
         params: { ...event.params, other: ctx.getSessionExtension("plain") ?? ctx.getSessionExtension("own") ?? null } }) });`,
    );
    await patch(account, { ...plain, value: { deep: [1, '__proto__'] } });
    const call = () =>
      fire(account, 'before_tool_call', { toolName: 'exec', params: {}, toolCallId: 'tc' }, { runId: 'run-1' });
    expect((await call()).body.gate).toMatchObject({
      params: { kept: { deep: [1, '__proto__'] }, same: true, strange: 0, other: null },
    });
    expect((await extensions(account)).items.map(({ pluginId, namespace }) => [pluginId, namespace])).toEqual([
      ['notes', 'board'],
      ['notes', 'plain'],
      ['notes', 'late'],
      ['other', 'own'],
    ]);
    await patch(account, { pluginId: 'other', namespace: 'own', value: 7 });
    await patch(account, { ...plain, value: 2 });
    expect((await call()).body.gate).toMatchObject({ params: { kept: 2, other: 7 } });
  });
});

const endSession = (account: Account, name: string, reason: string): Promise<Answer> =>
  fire(
    account,
    'session_end',
    { sessionId: name, sessionKey: name, messageCount: 0, reason },
    { sessionKey: name, sessionId: name },
  );

const cleanups = (account: Account, count: number): Promise<readonly Event[]> =>
  eventually(async () => {
    const found = await events(account, 'extension.cleanup_called');
    return found.length >= count ? found : undefined;
  });

describe('the end of a session, or of a plugin', () => {
  it('takes out what plugins left there, then calls their cleanups, and records what failed', async () => {
    const account = await newAccount();
    await install(account, 'notes', notes);
    for (const name of ['fails', 'hangs', 'stays']) {
      const path = `${account.base}/sessions/${name}`;
      await server.call('PATCH', `${path}/extensions`, { key: account.runtime, body: { ...plain, value: name } });
      await server.call('POST', `${path}/injections`, {
        key: account.runtime,
        body: { pluginId: 'notes', text: name },
      });
    }
    for (const [name, reason] of [
      ['stays', 'shutdown'],
      ['fails', 'reset'],
      ['hangs', 'deleted'],
    ] as const) {
      expect((await endSession(account, name, reason)).status).toBe(200);
    }
    const kept = async (name: string) =>
      itemsOf(
        (await server.call<Body>('GET', `${account.base}/sessions/${name}/extensions`, { key: account.runtime })).body,
      ).plain;
    expect((await kept('stays'))?.value).toBe('stays');
    expect([(await kept('fails'))?.isSet, (await kept('hangs'))?.isSet]).toEqual([false, false]);
    expect((await events(account, 'injection.dropped')).map(({ sessionId, data }) => [sessionId, data.cause])).toEqual([
      ['fails', 'reset'],
      ['hangs', 'delete'],
    ]);
    expect((await events(account, 'extension.cleaned')).map(({ data }) => [data.cause, data.calls])).toEqual([
      ['reset', ['notes']],
      ['delete', ['notes']],
    ]);
    const called = await cleanups(account, 2);
    const of = (name: string) => called.find(({ sessionId }) => sessionId === name)?.data;
    expect(of('fails')).toMatchObject({
      cause: 'reset',
      calls: [
        { pluginId: 'notes', kind: 'extension', name: 'board', outcome: 'failed', error: 'cannot clean fails' },
        { pluginId: 'notes', kind: 'lifecycle', name: 'life', outcome: 'done', error: null },
      ],
    });
    expect(of('hangs')).toMatchObject({
      calls: [
        { kind: 'extension', outcome: 'done' },
        { kind: 'lifecycle', outcome: 'timed_out', error: 'timed out after 5000ms' },
      ],
    });
    const timeline = await server.call<Body>('GET', `${account.base}/sessions/fails/timeline?order=oldest`, {
      key: account.auditor,
    });
    expect(timeline.body.items.map(({ kind, type }) => type ?? kind)).toEqual([
      'extension.patched',
      'injection.enqueued',
      'turn',
      'openclaw/session_end',
      'injection.dropped',
      'extension.cleaned',
      'extension.cleanup_called',
    ]);
  }, 60_000);

  it('comes with a completed clear, once', async () => {
    const account = await newAccount();
    await install(account, 'notes', notes);
    await patch(account, { ...plain, value: 1 });
    await enqueue(account, 'before');
    await post(account, 'clears', {
      clearId: 'c',
      agentId: '7',
      messageCount: 1,
      subagentCount: 0,
      peerThreadCount: 0,
    });
    const done = { deletedMessageCount: 1, deletedSubagentCount: 0, deletedPeerThreadCount: 0 };
    expect((await post(account, 'clears/c/completion', done)).status).toBe(200);
    expect(itemsOf(await extensions(account)).plain?.isSet).toBe(false);
    await patch(account, { ...plain, value: 2 });
    await enqueue(account, 'after');
    expect((await post(account, 'clears/c/completion', done)).status).toBe(200);
    expect(itemsOf(await extensions(account)).plain?.value).toBe(2);
    expect(texts((await post(account, 'drain', {})).body.injections)).toEqual(['after']);
    expect((await cleanups(account, 1)).map(({ data }) => data.cause)).toEqual(['reset']);
  });

  it('of a plugin takes what it left in every session, and of a new version nothing', async () => {
    const account = await newAccount();
    await install(account, 'notes', notes);
    await install(account, 'other', notes.replaceAll('"board"', '"board2"'));
    for (const name of ['one', 'two']) {
      for (const pluginId of ['notes', 'other']) {
        const body = { pluginId, namespace: 'plain', value: name };
        const answer = await server.call('PATCH', `${account.base}/sessions/${name}/extensions`, {
          key: account.runtime,
          body,
        });
        expect([answer.status, answer.text]).toEqual([200, answer.text]);
      }
    }
    const change = await server.call('PATCH', `${account.base}/plugins/notes`, {
      body: { config: { a: 1 } },
      headers: { 'if-match': '*' },
    });
    expect([change.status, change.text]).toEqual([200, change.text]);
    expect((await cleanups(account, 1)).map(({ data }) => data.cause)).toEqual(['restart']);
    await server.call('PATCH', `${account.base}/plugins/notes`, {
      body: { enabled: false },
      headers: { 'if-match': '*' },
    });
    await server.call('DELETE', `${account.base}/plugins/other`, { headers: { 'if-match': '*' } });
    const called = await cleanups(account, 3);
    expect(called.map(({ data, sessionId }) => [data.cause, sessionId])).toEqual([
      ['restart', undefined],
      ['disable', undefined],
      ['disable', undefined],
    ]);
    expect(called.map(({ data }) => (data.calls as readonly Json[]).map(({ outcome }) => outcome))).toEqual([
      ['done', 'done'],
      ['done', 'done'],
      ['done', 'done'],
    ]);
    const cleaned = await eventually(async () => {
      const found = (await events(account, 'extension.cleaned')).filter(({ sessionId }) => sessionId !== undefined);
      return found.length >= 4 ? found : undefined;
    });
    const cleanedBy = cleaned.map(({ sessionId, data }) => {
      const removed = data.removed as readonly Json[];
      return `${String(sessionId)} ${removed.map(({ pluginId }) => String(pluginId)).join()}`;
    });
    expect([...cleanedBy].sort()).toEqual(['one notes', 'one other', 'two notes', 'two other']);
  });

  it('of a plugin that is back at once takes only what was there before', async () => {
    const account = await newAccount();
    await install(account, 'notes', notes);
    const toggle = (enabled: boolean) =>
      server.call('PATCH', `${account.base}/plugins/notes`, { body: { enabled }, headers: { 'if-match': '*' } });
    await patch(account, { ...board, value: { lines: [] } });
    await patch(account, { ...plain, value: 'before' });
    await toggle(false);
    await toggle(true);
    await patch(account, { ...plain, value: 'since' });
    await cleanups(account, 1);
    const shown = itemsOf(await extensions(account));
    expect([shown.board?.isSet, shown.plain?.value]).toEqual([false, 'since']);
  });

  it('as an erasure leaves nothing to read', async () => {
    const account = await newAccount();
    await install(account, 'notes', `${notes} ${seen}`);
    await patch(account, { ...plain, value: 'secret' });
    await enqueue(account, 'secret');
    const erased = await server.call('POST', `${account.base}/erasures`, {
      body: { scope: { sessionId: session }, reason: 'asked' },
    });
    expect([erased.status, erased.text]).toEqual([erased.status < 300 ? erased.status : 201, erased.text]);
    await enqueue(account, 'new');
    const turn = await prepare(account, 'run-1');
    expect(turn.body.value).toEqual({ prependContext: 'new\n\nsaw new' });
    expect((await events(account, 'injection.dropped')).map(({ data }) => data.cause)).toEqual(['erased']);
    expect(itemsOf(await extensions(account)).plain).toMatchObject({
      isSet: true,
      value: { erased: true },
      projection: null,
    });
    const call = await fire(account, 'before_tool_call', { toolName: 'exec', params: {} }, { runId: 'run-1' });
    expect(call.body.gate).toMatchObject({ blocked: false, params: { strange: 0 } });
  });
});

describe('a server that is killed between the drain and the answer', () => {
  it('leaves what it drained to the repetition of the run, and of the request, and to nobody else', async () => {
    const account = await newAccount();
    await install(
      account,
      'notes',
      `api.on("agent_turn_prepare", async (event) => {
        if (event.prompt === "slow") await new Promise((done) => setTimeout(done, 3000));
        return { prependContext: "saw " + event.queuedInjections.map((entry) => entry.text).join(",") };
      });`,
    );
    const inject = (name: string, text: string) =>
      server.call('POST', `${account.base}/sessions/${name}/injections`, {
        key: account.runtime,
        body: { pluginId: 'notes', text },
      });
    await inject('by-run', 'one');
    await inject('by-key', 'two');
    const path = `${account.base}/hooks/openclaw/agent_turn_prepare`;
    const turn = (context: object, headers = {}) =>
      server.call<Body>('POST', path, {
        key: account.runtime,
        body: { event: { prompt: 'slow', messages: [] }, context },
        headers,
      });
    const run = { sessionKey: 'by-run', runId: 'run-1' };
    const key = { 'idempotency-key': 'turn-of-by-key' };
    const lost = [turn(run), turn({ sessionKey: 'by-key' }, key)].map((answer) => answer.catch(() => null));
    await eventually(async () => ((await events(account, 'injection.drained')).length === 2 ? true : undefined));
    await server.kill();
    expect(await Promise.all(lost)).toEqual([null, null]);
    server = await startServer({ dataDir: first.dataDir });
    const [byRun, byKey] = await Promise.all([turn(run), turn({ sessionKey: 'by-key' }, key)]);
    expect([byRun.body.value, byKey.body.value]).toEqual([
      { prependContext: 'one\n\nsaw one' },
      { prependContext: 'two\n\nsaw two' },
    ]);
    expect(byKey.body.attempt).toBe(2);
    expect((await turn({ sessionKey: 'by-run', runId: 'run-2' })).body.value).toEqual({ prependContext: 'saw ' });
    expect(await events(account, 'injection.drained')).toHaveLength(2);
  }, 120_000);
});
