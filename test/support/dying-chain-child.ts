import { writeSync } from 'node:fs';
import { createPool, postgresEventStore, sqlOver } from '#event-store';
import { middleware, type Opening } from '#dialects';
import { fire, type FiringLink } from '#firing';
import type { ChainRun, HandlerOutcome, RunningChain, Sandbox } from '#sandbox';
import { memorySealing } from '#sealing';
import { processMark, renewLease } from '../../apps/server/src/gateway/recovery-lease.js';

/**
 * Runs one chain of three plugins: the first rewrites, the second makes two host calls, of which the first is answered
 * and the second never, the third would run after it. Prints `asked` when the second call was handed out; the second
 * plugin's time is up on SIGUSR1. In the end it prints the outcome, or the name of the error.
 */
const [url = '', account = '', invocationId = '', instance = ''] = process.argv.slice(2);
const sql = sqlOver(createPool({ connectionString: url, max: 2 }));
const store = postgresEventStore({ connectionString: url });
await renewLease(sql, instance, processMark());

const link = (id: string, permissions: readonly string[] = []): FiringLink => ({
  pluginId: id,
  mode: 'enforce',
  failureMode: 'open',
  entry: {
    pluginId: id,
    version: '1.0.0',
    revision: 1,
    mode: 'enforce',
    failureMode: 'open',
    priority: null,
    configDigest: 'a'.repeat(64),
  },
  realm: {
    account,
    pluginId: id,
    digest: id,
    code: '',
    fileName: `${id}.js`,
    guest: middleware.guest,
    setup: middleware.setup({ permissions, config: {} }),
    isolation: 'warm',
  },
  notLoaded: null,
  permissions,
  handler: 'userMessageInbound',
  timeoutMs: 5_000,
});

const context = { sessionId: 's', channelId: null, text: 'hello', mediaIds: [] };
const opening = middleware.open('userMessageInbound', { context }) as Extract<Opening, { kind: 'opened' }>;

const timeUp = new Promise<void>((resolve) => process.on('SIGUSR1', () => resolve()));
setInterval(() => undefined, 1_000);

const returned = (raw: string): HandlerOutcome => ({ kind: 'returned', raw, durationMs: 1, late: false });

/** Plays what the three plugins do, without their code. */
const scripted = (chain: ChainRun): RunningChain => {
  const fetched = async (host: string, callNumber: number): Promise<void> => {
    const args = JSON.stringify([`https://${host}.example`]);
    const call = { handlerIndex: 1, pluginId: 'caller', callNumber, member: 'fetch', args, misfit: null };
    await chain.onCall({ ...call, signal: new AbortController().signal });
  };
  const results: readonly (() => Promise<HandlerOutcome>)[] = [
    () => Promise.resolve(returned('~{"text":"hello!"}\n')),
    async () => {
      await fetched('one', 0);
      void fetched('two', 1);
      await timeUp;
      return { kind: 'failed', cause: 'timed_out', detail: 'async', durationMs: 5_000, notes: '' };
    },
    () => Promise.resolve(returned('=')),
  ];
  return { result: (index) => results[index]?.() ?? Promise.resolve({ kind: 'not_run' }), stop: () => undefined };
};

const running = fire(
  {
    account,
    dialect: middleware,
    hook: 'userMessageInbound',
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
    sessionId: 's',
    agentId: null,
    hop: 0,
    root: invocationId,
    cause: null,
    lineage: null,
    dataSubject: null,
    targetHmac: null,
    chain: [link('first'), link('caller', ['host:fetch']), link('last')],
    withoutHook: 0,
    chainOf: null,
    halted: null,
  },
  {
    store,
    sandbox: { run: scripted } as unknown as Sandbox,
    hostCalls: {
      serves: () => true,
      call: ({ args }) => {
        if (!JSON.stringify(args).includes('two')) return Promise.resolve({ kind: 'value', json: '{"status":200}' });
        writeSync(1, 'asked\n');
        return new Promise(() => undefined);
      },
    },
    envelope: await memorySealing().envelope(account, { kind: 'session', id: 's' }),
    tokenKey: new Uint8Array(32).fill(7),
    newId: () => crypto.randomUUID(),
    now: () => new Date(),
    instance,
  },
  [],
);
writeSync(
  1,
  `${await running.answer.then(
    ({ outcome }) => outcome,
    (error: unknown) => (error as Error).name,
  )}\n`,
);
process.exit(0);
