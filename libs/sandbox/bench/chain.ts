import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import { setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Incoming, Outgoing } from '../src/framing.js';
import { startSandbox } from '../src/index.js';
import type { HandlerRun, Sandbox } from '../src/index.js';
import { benchGuest, benchHandlers, benchInput } from './handlers.js';

export interface ChainFigures {
  /** Median of one chain, microseconds: median of the rounds' medians. */
  readonly bareUs: number;
  readonly sandboxUs: number;
  readonly ratio: number;
  /** The lowest and highest ratio of a single round. */
  readonly spread: readonly [number, number];
}

/** What is run: by default five handlers of the kinds that plugins are made of, and a guest program of the bench's own. */
export interface ChainSubject {
  readonly guest: string;
  readonly setup: string;
  readonly args: string;
  readonly handler: string;
  readonly sources: readonly string[];
  /** The same handlers for the bare child, each `on.it = …` over one context object, giving a patch. */
  readonly bareSources: readonly string[];
  readonly input: string;
}

const ROUNDS = 5;
const CHAINS = 1500;
const WARM_UP = 1500;

const subjectOfOwn: ChainSubject = {
  guest: benchGuest,
  setup: '{"log":"call"}',
  args: '{}',
  handler: 'it',
  sources: benchHandlers,
  bareSources: benchHandlers,
  input: benchInput,
};

export interface SandboxFigures {
  /** The fifth handler waits for a host call that the API process answers. */
  readonly jitless: ChainFigures;
  readonly jit: ChainFigures;
  /** The same without waiting: one message there, one back. */
  readonly jitlessNoCall: ChainFigures;
  readonly jitNoCall: ChainFigures;
}

/**
 * A warm chain of five in the sandbox against the same five functions in a bare child over the same pipe, one chain at
 * a time, cores kept awake; both with and without the JIT. Rounds alternate between the two.
 */
export const measureChains = async (subject: ChainSubject = subjectOfOwn): Promise<SandboxFigures> => {
  const silent = { ...subject, setup: subject.setup.replace('"call"', '"emit"') };
  const awake = keepCoresAwake();
  try {
    return {
      jitless: await measure(subject, false),
      jit: await measure(subject, true),
      jitlessNoCall: await measure(silent, false),
      jitNoCall: await measure(silent, true),
    };
  } finally {
    awake.end();
  }
};

const measure = async (subject: ChainSubject, jit: boolean): Promise<ChainFigures> => {
  const sandbox = await startSandbox({ jit });
  const bare = startBare(subject, jit);
  try {
    const sandboxed = sandboxedChain(sandbox, subject);
    await repeat(WARM_UP, bare.chain);
    await repeat(WARM_UP, sandboxed);
    const rounds: { bareUs: number; sandboxUs: number }[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const bareUs = median(await repeat(CHAINS, bare.chain));
      const sandboxUs = median(await repeat(CHAINS, sandboxed));
      rounds.push({ bareUs, sandboxUs });
    }
    const bareUs = median(rounds.map((round) => round.bareUs));
    const sandboxUs = median(rounds.map((round) => round.sandboxUs));
    const ratios = rounds.map((round) => round.sandboxUs / round.bareUs);
    return { bareUs, sandboxUs, ratio: sandboxUs / bareUs, spread: [Math.min(...ratios), Math.max(...ratios)] };
  } finally {
    bare.process.kill('SIGKILL');
    await sandbox.close();
  }
};

const sandboxedChain = (sandbox: Sandbox, subject: ChainSubject): (() => Promise<void>) => {
  const handlers = subject.sources.map((code, index): HandlerRun => ({
    realm: {
      account: 'bench',
      pluginId: `bench-${index}`,
      digest: 'bench',
      code,
      fileName: `bench-${index}.js`,
      guest: subject.guest,
      setup: subject.setup,
      isolation: 'warm',
    },
    handler: subject.handler,
    timeoutMs: 5_000,
    args: subject.args,
    advances: true,
    stopsOn: ['!'],
  }));
  const onCall = (): Promise<{ kind: 'value'; json: string }> => Promise.resolve({ kind: 'value', json: 'null' });
  return async () => {
    const chain = sandbox.run({
      account: 'bench',
      invocationId: 'bench',
      input: subject.input,
      handlers,
      onCall,
      pausingMembers: ['ssh.command'],
    });
    for (let index = 0; index < handlers.length; index++) {
      const outcome = await chain.result(index);
      if (outcome.kind !== 'returned') throw new Error(`Handler ${index} of the bench: ${JSON.stringify(outcome)}`);
    }
  };
};

const startBare = (
  subject: ChainSubject,
  jit: boolean,
): { readonly process: ChildProcess; readonly chain: () => Promise<void> } => {
  const program = fileURLToPath(new URL('./bare-child.js', import.meta.url));
  const flags = jit ? ['--no-node-snapshot'] : ['--no-node-snapshot', '--jitless'];
  const child = spawn(process.execPath, [...flags, program], {
    env: {},
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
  });
  const pipe = child.stdio[3] as Socket;
  const outgoing = new Outgoing();
  let settle: () => void = () => undefined;
  const incoming = new Incoming((message) => {
    if (message[0] === 'end') settle();
    if (message[0] !== 'call' || message[5] !== true) return;
    outgoing.push(['answer', 0, 0, 0, 0, true, 'null', null]);
    pipe.write(outgoing.take());
  });
  pipe.on('data', (chunk: Buffer) => incoming.push(chunk));
  for (const code of subject.bareSources) outgoing.push(['define', 0, code]);
  if (subject.setup.includes('"call"')) outgoing.push(['answered', 0, '']);
  pipe.write(outgoing.take());
  let chains = 0;
  const chain = (): Promise<void> =>
    new Promise((resolve) => {
      settle = resolve;
      outgoing.push(['run', ++chains, subject.input]);
      pipe.write(outgoing.take());
    });
  return { process: child, chain };
};

/** Keeps both cores awake until `end`, by processes that are nothing of what is measured. */
export const keepCoresAwake = (): { readonly pids: readonly number[]; readonly end: () => void } => {
  const spinners = [startSpinner(), startSpinner()];
  return {
    pids: spinners.flatMap(({ pid }) => pid ?? []),
    end: () => {
      for (const spinner of spinners) spinner.kill('SIGKILL');
    },
  };
};

/** Keeps one core awake at the lowest priority, so that wake-ups are not what is measured. */
const startSpinner = (): ChildProcess => {
  const child = spawn(process.execPath, ['-e', 'for(;;);'], { env: {}, stdio: 'ignore' });
  if (child.pid !== undefined) setPriority(child.pid, 19);
  return child;
};

const repeat = async (times: number, chain: () => Promise<void>): Promise<number[]> => {
  const took: number[] = [];
  for (let i = 0; i < times; i++) {
    const before = performance.now();
    await chain();
    took.push((performance.now() - before) * 1000);
  }
  return took;
};

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
