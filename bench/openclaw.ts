import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { compile, dialectOf, type Dialect, type Opening } from '#dialects';
import { memoryEventStore, type EventStore } from '#event-store';
import { fire, nobodyServes, type Firing, type FiringLink } from '#firing';
import { startSandbox, type HandlerRun, type Sandbox } from '#sandbox';
import { memorySealing } from '#sealing';
import { keepCoresAwake } from '../libs/sandbox/bench/chain.js';
import type { Figure } from './figures.js';
import { at, atMost, median, rounded, shown, spread } from './figures.js';
import { openConnection } from './http-client.js';
import type { MeasuredServer } from './measured-server.js';
import { startMeasuredServer } from './measured-server.js';
import { cpuUsed, pssOf, treeOf } from './processes.js';
import { openclawVersion, realRunner, type RealRunner } from './real-openclaw.js';

/** `before_tool_call` against OpenClaw's own runner, and what ten thousand waiting approvals cost. */
export const measureOpenClaw = async (rounds: number, calls: number, approvals: number): Promise<readonly Figure[]> => [
  ...(await againstRunner(rounds, calls)),
  ...(await manyApprovals(approvals)),
];

// ------------------------------------------------------------------------------------------------ against the runner

const handlers = 5;
const trivial = (id: string): string => `import { definePluginEntry } from 'openclaw/plugin-sdk/plugin-entry';
export default definePluginEntry({ id: '${id}', name: '${id}', register(api) { api.on('before_tool_call', async () => undefined); } });`;

const event = {
  toolName: 'exec',
  params: { command: 'rg -n "needle" /srv/app --glob "*.ts" | head -20', cwd: '/srv/app' },
  runId: 'run-1',
  toolCallId: 'call-1',
};
const context = {
  agentId: 'main',
  sessionKey: 'agent:main:main',
  sessionId: 'session-1',
  runId: 'run-1',
  toolName: 'exec',
  toolCallId: 'call-1',
};

/** What the real runner took on two cores when it was measured by itself, µs; where it cannot be fetched. */
const statedUs = 21.5;

interface Round {
  readonly realUs: number;
  readonly childUs: number;
  readonly walkUs: number;
  readonly wholeUs: number;
}

const againstRunner = async (rounds: number, calls: number): Promise<readonly Figure[]> => {
  const real = await fetched();
  const dialect = profiled('2026.9');
  const sandbox = await startSandbox({});
  const awake = keepCoresAwake();
  try {
    const chain = await linksOf(dialect);
    const subject: Subject = { sandbox, dialect, chain, real: real.runner, spinners: awake.pids };
    await measured(subject, calls);
    const results: Round[] = [];
    for (let round = 0; round < rounds; round += 1) results.push(await measured(subject, calls));
    return figuresOf(results, real.words);
  } finally {
    awake.end();
    await sandbox.close();
    real.runner?.close();
  }
};

const fetched = async (): Promise<{ readonly runner: RealRunner | null; readonly words: string }> => {
  try {
    const handler = (): Promise<undefined> => Promise.resolve(undefined);
    const runner = await realRunner(Array.from({ length: handlers }, () => handler));
    return { runner, words: `openclaw@${openclawVersion} in this process` };
  } catch (error) {
    console.log(`openclaw@${openclawVersion} cannot be loaded: ${error instanceof Error ? error.message : 'unknown'}`);
    return { runner: null, words: `the ${statedUs} µs that were measured elsewhere: the package was not to be had` };
  }
};

const profiled = (profile: string): Dialect => {
  const dialect = dialectOf('openclaw')?.profiles?.get(profile);
  if (dialect === undefined) throw new Error(`there is no profile ${profile}`);
  return dialect;
};

interface Subject {
  readonly sandbox: Sandbox;
  readonly dialect: Dialect;
  readonly chain: readonly FiringLink[];
  readonly real: RealRunner | null;
  readonly spinners: readonly number[];
}

/** Five plugins with one handler each, as an install leaves them. */
const linksOf = async (dialect: Dialect): Promise<readonly FiringLink[]> => {
  const links: FiringLink[] = [];
  for (let n = 0; n < handlers; n += 1) {
    const id = `plugin-${n}`;
    const compiled = await compile({ source: trivial(id) }, 'javascript', dialect.bundling);
    if (compiled.kind === 'failed') throw new Error(compiled.message);
    links.push({
      pluginId: id,
      mode: 'enforce',
      failureMode: 'open',
      entry: {
        pluginId: id,
        version: '1.0.0',
        revision: 1,
        mode: 'enforce',
        failureMode: 'open',
        priority: 0,
        configDigest: '',
      },
      realm: {
        account: 'bench',
        pluginId: id,
        digest: id,
        code: compiled.code,
        fileName: `${id}@1.0.0`,
        guest: dialect.guest,
        setup: dialect.setup({ permissions: [], config: {}, pluginId: id }),
        isolation: 'warm',
      },
      notLoaded: null,
      permissions: [],
      handler: 'before_tool_call#0',
      timeoutMs: 15_000,
    });
  }
  return links;
};

/** One round of each in turns. */
const measured = async (subject: Subject, calls: number): Promise<Round> => {
  const { real, spinners } = subject;
  const realUs = real === null ? statedUs : median(await timed(calls, () => real.call(event, context)));
  const walk = walkOf(subject);
  const below = treeOf(process.pid).filter((pid) => pid !== process.pid && !spinners.includes(pid));
  const used = cpuUsed(below);
  const walked = await timed(calls, walk);
  const childUs = used() / calls;
  return { realUs, childUs, walkUs: median(walked), wholeUs: median(await timed(calls, wholeOf(subject))) };
};

const timed = async (times: number, call: () => Promise<unknown>): Promise<readonly number[]> => {
  const took: number[] = [];
  for (let n = 0; n < times; n += 1) {
    const before = performance.now();
    await call();
    took.push((performance.now() - before) * 1000);
  }
  return took;
};

const opened = (dialect: Dialect): Extract<Opening, { kind: 'opened' }> => {
  const opening = dialect.open('before_tool_call', { event, context });
  if (opening.kind === 'refused') throw new Error(JSON.stringify(opening.faults));
  return opening;
};

/** The chain in the sandbox alone. */
const walkOf = ({ sandbox, dialect, chain }: Subject): (() => Promise<void>) => {
  const { input } = opened(dialect);
  const runs = chain.flatMap(({ realm, handler, timeoutMs }): HandlerRun[] =>
    realm === null
      ? []
      : [
          {
            realm,
            handler,
            timeoutMs,
            ceilingMs: timeoutMs,
            args: dialect.args('before_tool_call', dialect.hostView('before_tool_call', {}, 0)),
            advances: false,
            stopsOn: dialect.stopTags('before_tool_call', 'closed'),
          },
        ],
  );
  const onCall = (): Promise<{ kind: 'error'; code: string; message: string }> =>
    Promise.resolve({ kind: 'error', code: 'none', message: 'nobody serves' });
  return async () => {
    const running = sandbox.run({
      account: 'bench',
      invocationId: 'bench',
      input,
      handlers: runs,
      onCall,
      pausingMembers: [],
    });
    for (let index = 0; index < runs.length; index += 1) {
      const outcome = await running.result(index);
      if (outcome.kind !== 'returned') throw new Error(`handler ${index}: ${JSON.stringify(outcome)}`);
    }
    running.stop();
  };
};

/** From the firing's body to its answer: checked, run, decided, sealed, made into events; they go to memory. */
const wholeOf = ({ sandbox, dialect, chain }: Subject): (() => Promise<void>) => {
  const store: EventStore = memoryEventStore();
  const sealing = memorySealing();
  const tokenKey = new Uint8Array(32).fill(7);
  return async () => {
    const opening = opened(dialect);
    const invocationId = randomUUID();
    const firing: Firing = {
      account: 'bench',
      dialect,
      hook: 'before_tool_call',
      invocationId,
      attempt: 1,
      previousInvocationId: null,
      actor: { kind: 'key', id: 'bench' },
      opening,
      occurredAt: null,
      operationId: opening.operationId ?? null,
      correlationId: null,
      turnId: 'run-1',
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
      chain,
      withoutHook: 0,
      chainOf: null,
      halted: null,
    };
    const envelope = await sealing.envelope('bench', { kind: 'session', id: 'session-1' });
    const tools = {
      store,
      sandbox,
      hostCalls: nobodyServes,
      envelope,
      tokenKey,
      newId: randomUUID,
      now: () => new Date(),
    };
    const answer = await fire(firing, tools, []).answer;
    if (answer.outcome !== 'passed' || answer.handlers.length !== handlers) throw new Error(JSON.stringify(answer));
  };
};

const figuresOf = (results: readonly Round[], words: string): readonly Figure[] => {
  const middle = (of: (round: Round) => number): number => median(results.map(of));
  const real = middle(({ realUs }) => realUs);
  const against = (of: (round: Round) => number): { readonly value: number; readonly from: string } => {
    const ratios = results.map((round) => of(round) / round.realUs);
    return {
      value: median(ratios),
      from: `${rounded(middle(of))} µs against ${rounded(real)} µs of ${words}; rounds ${spread(ratios)}`,
    };
  };
  const child = against(({ childUs }) => childUs);
  const walk = against(({ walkUs }) => walkUs);
  const whole = against(({ wholeUs }) => wholeUs);
  const what = '`before_tool_call`, five trivial handlers';
  return [
    atMost(`${what}: processor time of the sandbox child, a call`, 4, child.value, '×', child.from),
    shown('the same, from the server over the pipe and back', walk.value, '×', walk.from),
    atMost('the same, from the body to the answer, events into memory', 15, whole.value, '×', whole.from),
  ];
};

// ---------------------------------------------------------------------------------------------- approvals that wait

const asking = `import { definePluginEntry } from 'openclaw/plugin-sdk/plugin-entry';
export default definePluginEntry({ id: 'asks', name: 'asks', register(api) {
  api.on('before_tool_call', async () => ({ requireApproval: { title: 'May it?', description: 'It wants to.', timeoutMs: 600000 } }));
} });`;

const clients = 32;
const decided = 200;

/** So many calls wait; some are decided one after another, each with a runtime that waits for its answer. */
const manyApprovals = async (count: number): Promise<readonly Figure[]> => {
  const server = await startMeasuredServer();
  try {
    await server.call('POST', '/accounts/default/plugins', {
      id: 'asks',
      dialect: 'openclaw',
      language: 'javascript',
      source: asking,
    });
    const { secret } = (await server.call('POST', '/accounts/default/keys', { role: 'runtime', name: 'bench' })) as {
      secret: string;
    };
    const url = new URL(`${server.url}/v1/accounts/default/hooks/openclaw/before_tool_call?wait=0`);
    await hold(url, secret, 100);
    await server.settled();
    const before = pssOf(server.pid);
    await hold(url, secret, count);
    await server.settled();
    await delay(2_000);
    const after = pssOf(server.pid);
    const times: number[] = [];
    for (const one of await pending(server)) times.push(await answered(server, secret, one));
    const memory = `${rounded(before)} MB with a hundred, ${rounded(after)} MB with ${count} more`;
    const p50 = `p50 ${rounded(median(times))} ms, slowest of ${times.length} ${rounded(Math.max(...times))} ms`;
    return [
      shown(
        `memory (PSS) of the server for each of ${count} approvals that wait`,
        ((after - before) * 1000) / count,
        'kB',
        memory,
      ),
      atMost(`decision to answer while ${count} approvals wait: p99`, 100, at(times, 0.99), 'ms', p50),
    ];
  } finally {
    await server.close();
  }
};

interface Held {
  readonly id: string;
  readonly invocationId: string;
}

/** Fires calls that want an approval, and does not wait. */
const hold = async (url: URL, key: string, count: number): Promise<void> => {
  let next = 0;
  const client = async (): Promise<void> => {
    const connection = await openConnection(url, key);
    while (next < count) {
      next += 1;
      const own = { event: { ...event, toolCallId: `call-${next}` }, context: { ...context, runId: `run-${next}` } };
      await connection.post(JSON.stringify(own));
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: clients }, client));
};

const pending = async (server: MeasuredServer): Promise<readonly Held[]> => {
  const path = `/accounts/default/approvals?state=pending&limit=${decided}`;
  const { items } = (await server.call('GET', path)) as { readonly items: readonly Held[] };
  if (items.length < decided) throw new Error(`only ${items.length} approvals wait`);
  return items;
};

/** From the moment the decision is sent to the end of the answer that a runtime waits for, ms. */
const answered = async (server: MeasuredServer, key: string, { id, invocationId }: Held): Promise<number> => {
  const waiting = fetch(`${server.url}/v1/accounts/default/answers/${invocationId}?wait=55`, {
    headers: { Authorization: `Bearer ${key}` },
  }).then(async (answer) => (await answer.json()) as { readonly outcome: string });
  // It waits before anybody decides.
  await delay(20);
  const began = performance.now();
  const decision = server.call('POST', `/accounts/default/approvals/${id}/decision`, {
    decision: 'allow-once',
  });
  const { outcome } = await waiting;
  const took = performance.now() - began;
  await decision;
  if (outcome === 'held') throw new Error('the answer came before the decision');
  return took;
};
