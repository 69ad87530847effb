import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { v7 as uuidv7 } from 'uuid';
import { middleware, type Opening } from '#dialects';
import { memoryEventStore, type EventStore } from '#event-store';
import { invocationStream, type Json } from '#record';
import { startSandbox, type CallAnswer, type Sandbox } from '#sandbox';
import { memorySealing, type Sealing } from '#sealing';
import { answerFromEvents, type Answer } from './answer.js';
import { fire, type Firing, type FiringLink } from './fire.js';
import { nobodyServes, type HostCallRequest, type HostCalls } from './host-calls.js';

const account = 'acme';
const tokenKey = new Uint8Array(32).fill(7);

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({});
});
afterAll(() => sandbox.close());

interface PluginGiven {
  readonly id: string;
  readonly code: string;
  readonly permissions?: readonly string[];
  /** What the platform knows as granted, where the realm was made to believe otherwise. */
  readonly grantedPermissions?: readonly string[];
  readonly mode?: 'enforce' | 'observe';
  readonly failureMode?: 'open' | 'closed';
  readonly timeoutMs?: number;
}

const link =
  ({
    id,
    code,
    permissions = [],
    grantedPermissions = permissions,
    mode = 'enforce',
    failureMode = 'open',
    timeoutMs = 2000,
  }: PluginGiven) =>
  (hook: string): FiringLink => ({
    pluginId: id,
    mode,
    failureMode,
    entry: { pluginId: id, version: '1.0.0', revision: 1, mode, failureMode, priority: null, configDigest: 'd' },
    realm: {
      account,
      pluginId: id,
      digest: `${id}-${code}-${permissions.join()}`,
      code,
      fileName: `${id}.js`,
      guest: middleware.guest,
      setup: middleware.setup({ permissions, config: {} }),
      isolation: 'warm',
    },
    notLoaded: null,
    permissions: grantedPermissions,
    handler: hook,
    timeoutMs,
  });

interface World {
  readonly store: EventStore;
  readonly sealing: Sealing;
  readonly hostCalls: HostCalls;
}

const world = (hostCalls: HostCalls = nobodyServes): World => ({
  store: memoryEventStore(),
  sealing: memorySealing(),
  hostCalls,
});

const run = async (
  { store, sealing, hostCalls }: World,
  hook: string,
  context: { readonly [key: string]: Json },
  plugins: readonly PluginGiven[],
  more: Partial<Firing> = {},
): Promise<{ readonly answer: Answer; readonly types: readonly string[]; readonly rebuilt: Answer | null }> => {
  const opening = middleware.open(hook, { context }) as Extract<Opening, { kind: 'opened' }>;
  expect(opening.kind).toBe('opened');
  const invocationId = uuidv7();
  const firing: Firing = {
    account,
    dialect: middleware,
    hook,
    invocationId,
    attempt: 1,
    previousInvocationId: null,
    actor: { kind: 'key', id: 'k' },
    opening,
    occurredAt: null,
    operationId: null,
    correlationId: null,
    turnId: 't',
    turnInferred: false,
    turnPrompted: false,
    sessionId: opening.sessionId,
    agentId: opening.agentId,
    hop: 0,
    root: invocationId,
    cause: null,
    lineage: null,
    dataSubject: null,
    targetHmac: null,
    chain: plugins.map((plugin) => link(plugin)(hook)),
    withoutHook: 0,
    chainOf: null,
    halted: null,
    ...more,
  };
  const envelope = await sealing.envelope(account, { kind: 'account' });
  const tools = { store, sandbox, hostCalls, envelope, tokenKey, newId: uuidv7, now: () => new Date() };
  const answer = await fire(firing, tools, []).answer;
  const events = await store.readStream(account, invocationStream(invocationId));
  const rebuilt = await answerFromEvents(events, {
    tokenKey,
    open: async (sealed) => {
      const opened = await sealing.open(account, sealed);
      if (opened.kind === 'erased') throw new Error('erased');
      return opened.value;
    },
  });
  return { answer, types: events.map(({ event }) => event.type), rebuilt };
};

const message = (text: string) => ({ sessionId: 's', channelId: null, text, mediaIds: [] });
const appends = (id: string, text: string): PluginGiven => ({
  id,
  code: `globalThis.middleware.userMessageInbound = async (c) => c.text + ${JSON.stringify(text)};`,
});

describe('one firing', () => {
  it('hands each handler what the one before left, and records every step', async () => {
    const { answer, types } = await run(world(), 'userMessageInbound', message('a'), [
      appends('p', 'b'),
      appends('q', 'c'),
    ]);
    expect(answer).toMatchObject({ outcome: 'rewritten', value: 'abc', metered: true, cancellation: null });
    expect(types).toEqual(['invocation.opened', 'handler.rewrote', 'handler.rewrote', 'invocation.closed']);
  });

  it('gives the same answer from its events as it gave at first', async () => {
    const loud = {
      id: 'loud',
      code: 'globalThis.middleware.userMessageInbound = async () => { throw new Error("x\\u0000\\ud800"); };',
    };
    const stop = {
      id: 'stop',
      code: 'globalThis.middleware.userMessageInbound = async (c, t) => t.cancel("no \\ud800");',
    };
    const { answer, rebuilt } = await run(world(), 'userMessageInbound', message('\u0000\ud800'), [
      appends('p', '!'),
      loud,
      stop,
      appends('late', 'never'),
    ]);
    expect(answer.handlers.map(({ outcome }) => outcome)).toEqual(['rewrote', 'skipped', 'cancelled', 'not_run']);
    expect(answer.cancellation).toEqual({ pluginId: 'stop', reason: 'no \ud800', code: null });
    expect(rebuilt).toEqual(answer);
  });

  it('records a firing that no plugin handles', async () => {
    const { answer, types } = await run(world(), 'userMessageInbound', message('a'), []);
    expect(answer).toMatchObject({ outcome: 'passed', value: 'a', handlers: [], metered: false });
    expect(types).toEqual(['invocation.opened', 'invocation.closed']);
  });

  it('lets an observing plugin change nothing, and says what it would have done', async () => {
    const { answer } = await run(world(), 'userMessageInbound', message('a'), [
      { ...appends('watch', 'x'), mode: 'observe' },
      appends('p', 'b'),
    ]);
    expect(answer.value).toBe('ab');
    expect(answer.handlers[0]).toMatchObject({ outcome: 'observed', wouldHave: 'rewrote' });
  });

  it.each([
    ['throws', 'throw new Error("bug")'],
    ['times out', 'for (;;);'],
    ['returns a wrong shape', 'return 5'],
  ])('cancels when a plugin that fails closed %s, and runs nobody after it', async (_, body) => {
    const guard: PluginGiven = {
      id: 'guard',
      code: `globalThis.middleware.userMessageInbound = async (c, t) => { ${body} };`,
      failureMode: 'closed',
      timeoutMs: 200,
    };
    const { answer, rebuilt } = await run(world(), 'userMessageInbound', message('a'), [guard, appends('p', 'b')]);
    expect(answer).toMatchObject({
      outcome: 'cancelled',
      value: null,
      cancellation: { pluginId: 'guard', code: 'plugin_failed' },
    });
    expect(answer.handlers.map(({ outcome }) => outcome)).toEqual(['skipped', 'not_run']);
    expect(rebuilt).toEqual(answer);
  });

  it('goes on in a fresh world after a handler had to be killed', async () => {
    const loop: PluginGiven = {
      id: 'loop',
      code: 'globalThis.middleware.userMessageInbound = async () => { for (;;); };',
      timeoutMs: 200,
    };
    const { answer } = await run(world(), 'userMessageInbound', message('a'), [
      appends('p', 'b'),
      loop,
      appends('q', 'c'),
    ]);
    expect(answer.value).toBe('abc');
    expect(answer.handlers.map(({ outcome }) => outcome)).toEqual(['rewrote', 'skipped', 'rewrote']);
    expect(answer.handlers[1]?.warnings).toEqual([{ code: 'handler_timeout', detail: 'sync' }]);
  });

  it('keeps the result of a handler that leaves a loop behind, charges it the time, and says so', async () => {
    const leaves: PluginGiven = {
      id: 'leaves',
      code: `globalThis.middleware.userMessageInbound = async (c) => {
        (async () => { for (;;) await null; })();
        return c.text + '!';
      };`,
      timeoutMs: 300,
    };
    const { answer } = await run(world(), 'userMessageInbound', message('a'), [leaves, appends('q', 'c')]);
    expect(answer.value).toBe('a!c');
    expect(answer.handlers[0]?.warnings).toEqual([{ code: 'work_left_running', detail: null }]);
    expect(answer.handlers[0]?.durationMs).toBeGreaterThanOrEqual(300);
  });

  it('refuses a host call that nobody serves, and records the refusal', async () => {
    const asks = {
      id: 'asks',
      permissions: ['host:fetch'],
      code: `globalThis.middleware.userMessageInbound = async (c) => {
        try { await host.fetch('https://a.example/'); return 'reached'; } catch (e) { return String(e.code); }
      };`,
    };
    const { answer, types } = await run(world(), 'userMessageInbound', message('a'), [asks]);
    expect(answer.value).toBe('no_runtime');
    expect(types).toEqual(['invocation.opened', 'host.refused', 'handler.rewrote', 'invocation.closed']);
  });

  it('refuses what the owner did not grant, whatever the realm believes', async () => {
    const asks = {
      id: 'asks',
      permissions: ['host:fetch'],
      grantedPermissions: [],
      code: `globalThis.middleware.userMessageInbound = async (c) => {
        try { await host.fetch('https://a.example/'); return 'reached'; } catch (e) { return String(e.code); }
      };`,
    };
    const served = world({ serves: () => true, call: () => Promise.resolve({ kind: 'value', json: '{}' }) });
    const { answer, types } = await run(served, 'userMessageInbound', message('a'), [asks]);
    expect(answer.value).toBe('not_granted');
    expect(types).toContain('host.refused');
  });

  it('has a host call durable before it has an effect', async () => {
    const seen: string[][] = [];
    const served: World = world({
      serves: () => true,
      call: async (request: HostCallRequest): Promise<CallAnswer> => {
        const events = await served.store.readStream(account, invocationStream(request.invocationId));
        seen.push(events.map(({ event }) => event.type));
        return { kind: 'value', json: '{"status":200}' };
      },
    });
    const asks = {
      id: 'asks',
      permissions: ['host:fetch'],
      code: `globalThis.middleware.userMessageInbound = async (c) => {
        host.log('info', 'asking');
        return String((await host.fetch('https://a.example/')).status);
      };`,
    };
    const { answer, types } = await run(served, 'userMessageInbound', message('a'), [appends('p', 'b'), asks]);
    expect(answer.value).toBe('200');
    expect(seen).toEqual([['invocation.opened', 'handler.rewrote', 'handler.started', 'host.called', 'host.called']]);
    expect(types.slice(5)).toEqual(['host.answered', 'handler.rewrote', 'invocation.closed']);
  });

  it('keeps the first hundred lines of a log flood and counts the rest', async () => {
    const flood = {
      id: 'flood',
      code: `globalThis.middleware.userMessageInbound = async (c) => {
        for (let i = 0; i < 250; i++) host.log('info', 'line ' + i);
        return c.text;
      };`,
    };
    const here = world();
    const { types } = await run(here, 'userMessageInbound', message('a'), [flood]);
    expect(types.filter((type) => type === 'host.called')).toHaveLength(100);
    const all = await here.store.readAccount(account, { limit: 500 });
    const verdict = all.find(({ event }) => event.type === 'handler.passed');
    expect(verdict?.event.data.logLinesDropped).toBe(150);
  });

  it.each([
    ['open', { outcome: 'passed', value: 'a', cancellation: null }],
    [
      'closed',
      { outcome: 'cancelled', value: null, cancellation: { pluginId: null, reason: null, code: 'account_halted' } },
    ],
  ] as const)('runs no plugin of a halted account (%s)', async (halted, expected) => {
    const { answer, rebuilt } = await run(world(), 'userMessageInbound', message('a'), [], { halted });
    expect(answer).toMatchObject({ ...expected, handlers: [] });
    expect(rebuilt).toEqual(answer);
  });
});
