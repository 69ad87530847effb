import { randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { firesHook, middleware } from '#dialects';
import type { Case, CaseDriver, Dialect, Observed, SeenWarning } from '#dialects';
import { memoryEventStore } from '#event-store';
import type { EventStore } from '#event-store';
import { fire, verifyCause } from '#firing';
import type { Answer, HostCalls } from '#firing';
import {
  clearStream,
  cronRunStream,
  cronStream,
  decideClearDone,
  decideCompletion,
  decideRun,
  decideSlot,
  evolveCronRun,
  overlapped,
  runIdOf,
  unknownClear,
  unusedRun,
} from '#lifecycles';
import type { CronRun, Mission, Slot } from '#lifecycles';
import type { HostCall, Json, JsonObject, NewEvent, Sealed } from '#record';
import type { Sandbox } from '#sandbox';
import { memorySealing } from '#sealing';
import { loadChain } from './case-chain.js';
import type { CaseChain } from './case-chain.js';
import { scriptedHost } from './scripted-host.js';
import type { SentMessage } from './scripted-host.js';

/**
 * Runs cases on the product's own parts: its compiler, sandbox, firing, engine and log (in memory). Each case has a
 * world of its own; the host's members answer as the case scripts them.
 */
export const caseDriver = (sandbox: Sandbox, accounts: readonly string[]): CaseDriver => {
  // Cases that run at the same time use different accounts: one that loops must not slow another down.
  const free = [...accounts];
  const inAccount = async <T>(work: (world: World) => Promise<T>): Promise<T> => {
    const account = free.pop();
    if (account === undefined) throw new Error('more cases at once than accounts');
    try {
      return await work(newWorld(account, sandbox));
    } finally {
      free.push(account);
    }
  };
  return {
    run: (one) => inAccount((world) => runCase(one, world)),
    contextKeys: (hook, context) => inAccount((world) => contextKeys(hook, context, world)),
  };
};

interface World {
  readonly account: string;
  readonly dialect: Dialect;
  readonly sandbox: Sandbox;
  readonly store: EventStore;
  readonly sealing: ReturnType<typeof memorySealing>;
  readonly tokenKey: Uint8Array;
}

const newWorld = (account: string, sandbox: Sandbox): World => ({
  account,
  dialect: middleware,
  sandbox,
  store: memoryEventStore(),
  sealing: memorySealing(),
  tokenKey: randomBytes(32),
});

/** One operation that fires the case's hook. */
interface Operation {
  readonly context: JsonObject;
  readonly turnId: string;
  readonly hop: number;
  readonly root: string | null;
  readonly cause: string | null;
}

const runCase = async (one: Case, world: World): Promise<Observed> => {
  const chain = await loadChain(one.chain, one.given.revoked, world);
  const fires = one.given.gate === null ? true : firesHook(one.hook, one.given.gate);
  if (fires === undefined) throw new Error(`${one.hook} knows no operation ${String(one.given.gate)}`);
  const run = new CaseRun(one, world, chain);
  await run.before(fires);
  if (fires) await run.fireAll();
  return run.observed();
};

class CaseRun {
  private readonly answers: Answer[] = [];
  private readonly sent: SentMessage[] = [];
  private readonly hostCalls: HostCalls;
  private readonly fired: boolean[] = [];
  private readonly results: ('allowed' | 'refused')[] = [];
  private readonly slot: Slot;
  private cronRun: CronRun = unusedRun;

  constructor(
    private readonly one: Case,
    private readonly world: World,
    private readonly chain: CaseChain,
  ) {
    this.hostCalls = scriptedHost(one.given.host, (message) => this.sent.push(message));
    const jobId = this.text('cronJobId');
    const slotAt = '2026-11-30T10:00:00.000Z';
    const { cronJobRunId } = one.context;
    const runId = typeof cronJobRunId === 'string' ? cronJobRunId : runIdOf(world.account, jobId, slotAt);
    this.slot = { runId, jobId, slotAt };
  }

  /** What happens to a clear or a cron job before its hook fires, or when it does not. */
  async before(fires: boolean): Promise<void> {
    switch (this.one.hook) {
      case 'sessionClearCompleted':
        return this.clearDone();
      case 'cronJobFiring':
        return this.slotDue(fires);
      case 'cronJobCompleted':
        return this.runDone();
      default:
        return undefined;
    }
  }

  async fireAll(): Promise<void> {
    const { operations, hop } = this.one.given;
    if (operations !== null) return this.fireOperations(operations);
    const first = await this.fire({ context: this.one.context, turnId: 'turn-1', hop, root: null, cause: null });
    if (this.one.hook === 'cronJobFiring') await this.runDecided(first);
    // MW-105: what a handler sent runs after the invocation that sent it, first in first out.
    for (let message = this.sent.shift(); message !== undefined; message = this.sent.shift()) {
      await this.fireMessage(message);
    }
  }

  async observed(): Promise<Observed> {
    const { account, store } = this.world;
    const events = (await store.readAccount(account, { limit: 100_000 })).map(({ event }) => event);
    const ran = events.filter(({ type }) => type.startsWith('handler.') && !unmetered.includes(type));
    const [first] = this.answers;
    // Several operations have no outcome in common; their totals say what became of each.
    const single = this.one.given.operations === null ? first : undefined;
    return {
      outcome: single?.outcome ?? 'passed',
      value: single?.value ?? null,
      cancelReason: single?.cancellation?.reason ?? null,
      warnings: [...this.chain.warnings, ...this.answers.flatMap(handlerWarnings)],
      events: events.map(({ type }) => type),
      hop: first?.hop ?? this.one.given.hop,
      meteredHandlers: ran.length,
      totals: this.totals(ran.length),
    };
  }

  private totals(handlerRuns: number): JsonObject {
    const hops = this.answers.map(({ hop }) => hop);
    const perHop: { [hop: string]: number } = {};
    for (const hop of hops) perHop[String(hop)] = (perHop[String(hop)] ?? 0) + 1;
    return {
      firings: this.answers.length,
      pluginSent: this.pluginSent,
      handlerRuns,
      perHop,
      withheldFirings: this.answers.filter(({ hostSession }) => hostSession === 'withheld').length,
      maxHop: Math.max(0, ...hops),
      fired: this.fired,
      results: this.results,
    };
  }

  private pluginSent = 0;

  private async fireMessage({ target, text, cause }: SentMessage): Promise<void> {
    this.pluginSent += 1;
    const { account, tokenKey } = this.world;
    const verified = verifyCause(tokenKey, account, cause, new Date());
    if (verified.kind === 'refused') throw new Error(`the cause token of a sent message is ${verified.fault}`);
    const { hop, root, invocationId } = verified.claims;
    const { context } = this.one;
    const message = {
      senderSessionId: context.senderSessionId ?? context.sessionId ?? '1',
      senderAgentId: context.senderAgentId ?? context.agentId ?? '1',
      targetSessionId: target,
      isSubagentReport: false,
      text,
    };
    const operation = { context: message, turnId: 'turn-1', hop: hop + 1, root, cause: invocationId };
    await this.fire(operation, 'interAgentMessage');
  }

  /** MW-81: once per turn and server; the verdict holds for the rest of the turn. */
  private async fireOperations(operations: readonly { readonly turn: string; readonly host: string }[]): Promise<void> {
    for (const { turn, host } of operations) {
      const context = { ...this.one.context, sshHostId: host };
      const before = this.answers.length;
      const answer = await this.fireOnce({ context, turnId: turn, hop: this.one.given.hop, root: null, cause: null });
      this.fired.push(this.answers.length > before);
      this.results.push(answer.outcome === 'cancelled' ? 'refused' : 'allowed');
    }
  }

  private async fireOnce(operation: Operation): Promise<Answer> {
    const field = this.world.dialect.entries.get(this.one.hook)?.oncePerTurn;
    if (field === undefined) return this.fire(operation);
    const key = JSON.stringify([this.one.hook, operation.turnId, operation.context[field]]);
    const known = this.once.get(key);
    if (known !== undefined) return known;
    const answer = await this.fire(operation);
    this.once.set(key, answer);
    return answer;
  }

  private readonly once = new Map<string, Answer>();

  private async fire(operation: Operation, hook = this.one.hook): Promise<Answer> {
    const { account, dialect, sealing, store, sandbox, tokenKey } = this.world;
    const opening = dialect.open(hook, { context: operation.context });
    if (opening.kind === 'refused') throw new Error(`the context was refused: ${JSON.stringify(opening.faults)}`);
    const invocationId = uuidv7();
    const { links, withoutHook } = this.chain.linksFor(hook);
    const running = fire(
      {
        account,
        dialect,
        hook,
        invocationId,
        attempt: 1,
        previousInvocationId: null,
        actor: { kind: 'system', id: 'conformance' },
        opening,
        occurredAt: null,
        operationId: null,
        correlationId: null,
        turnId: operation.turnId,
        turnInferred: false,
        turnPrompted: false,
        sessionId: opening.sessionId,
        agentId: opening.agentId,
        hop: operation.hop,
        root: operation.root ?? invocationId,
        cause: operation.cause,
        lineage: null,
        dataSubject: null,
        targetHmac: null,
        chain: links,
        withoutHook,
        chainOf: null,
        halted: null,
      },
      {
        store,
        sandbox,
        hostCalls: this.hostCalls,
        envelope: await sealing.envelope(account, { kind: 'account' }),
        tokenKey,
        newId: uuidv7,
        now: () => new Date(),
      },
      [],
    );
    const answer = await running.answer;
    this.answers.push(answer);
    return answer;
  }

  private async clearDone(): Promise<void> {
    const count = (name: string): number => Number(this.one.context[name]);
    const clearId = uuidv7();
    const events = decideClearDone(unknownClear, clearId, {
      deletedMessageCount: count('deletedMessageCount'),
      deletedSubagentCount: count('deletedSubagentCount'),
      deletedPeerThreadCount: count('deletedPeerThreadCount'),
    });
    await this.append(clearStream(this.text('sessionId'), clearId), events);
  }

  /** A slot that does not fire is one whose job still has an open run, from an earlier slot. */
  private async slotDue(fires: boolean): Promise<void> {
    const openRun = fires ? null : 'an earlier run';
    const decision = decideSlot(this.cronRun, openRun);
    if ((decision === 'fire') !== fires) throw new Error(`the slot was decided ${decision}`);
    if (openRun !== null) await this.appendRun(overlapped(this.slot, await this.mission(), openRun));
  }

  /** What a slot that fired became: the record's last word of it, one event; its lease is not the hook's matter. */
  private async runDecided({ invocationId, outcome }: Pick<Answer, 'invocationId' | 'outcome'>): Promise<void> {
    const mission = await this.mission();
    const fired = { invocationId, outcome, finalPrompt: mission.prompt, reason: null };
    const { job, run } = decideRun(this.slot, mission, fired, { now: new Date(), leaseSeconds: 3600 });
    if (job.length > 0) await this.append(cronStream(this.slot.jobId), job);
    else await this.appendRun(run);
    this.cronRun = run.reduce(evolveCronRun, unusedRun);
  }

  /** A run is closed before anyone is told of it; one that was cancelled or overlapped never ran and is not closed. */
  private async runDone(): Promise<void> {
    const { gate } = this.one.given;
    if (gate === 'overlap') await this.slotDue(false);
    else if (gate === 'run_was_cancelled') await this.runDecided(vetoed);
    else this.cronRun = decideRun(this.slot, await this.mission(), ran, lease).run.reduce(evolveCronRun, unusedRun);
    const told = { status: this.text('status'), sessionId: this.text('sessionId'), firedBy: 'told' };
    const decision = decideCompletion(this.cronRun, told);
    if (decision.kind === 'closes') await this.appendRun(decision.events);
    else if (gate === null) throw new Error(`the run to close is ${decision.state}`);
  }

  private async mission(): Promise<Mission> {
    const { kind, name, prompt } = this.one.context;
    const envelope = await this.world.sealing.envelope(this.world.account, { kind: 'account' });
    const seal = (value: Json | undefined): Sealed => envelope.seal(value ?? null);
    return { kind: typeof kind === 'string' ? kind : 'cron_job', name: seal(name), prompt: seal(prompt) };
  }

  private async appendRun(events: readonly NewEvent[]): Promise<void> {
    this.cronRun = events.reduce(evolveCronRun, this.cronRun);
    await this.append(cronRunStream(this.slot.runId), events);
  }

  private text(field: string): string {
    const value = this.one.context[field];
    return typeof value === 'string' ? value : JSON.stringify(value);
  }

  private async append(stream: string, events: readonly NewEvent[]): Promise<void> {
    const { account, store } = this.world;
    if (events.length === 0) return;
    const result = await store.append({ account, writes: [{ stream, expectedVersion: 'any', events }] });
    if (result.kind !== 'appended') throw new Error(`the log answered ${result.kind}`);
  }
}

const ran = {
  invocationId: 'given',
  outcome: 'passed',
  finalPrompt: { $blob: 'given', k: 'given', size: 0 },
  reason: null,
} as const;
const vetoed = { invocationId: 'given', outcome: 'cancelled' } as const;
const lease = { now: new Date(0), leaseSeconds: 3600 } as const;

/** Metering is read off `handler.*` except these (events.md §2). */
const unmetered: readonly string[] = ['handler.not_run', 'handler.started'];

const handlerWarnings = ({ handlers }: Answer): readonly SeenWarning[] =>
  handlers.flatMap(({ pluginId, warnings }) =>
    warnings.map(({ code, detail }) => ({ plugin: pluginId, code, ...(detail === null ? {} : { detail }) })),
  );

/** What a handler of the hook finds in its context, told through `host.log`. */
const contextKeys = async (hook: string, context: JsonObject, world: World): Promise<readonly string[]> => {
  const code = `globalThis.middleware.${hook} = (context) => { host.log("info", Object.keys(context).join("\\n")); };`;
  const lines: Json[] = [];
  const chain = await loadChain([{ plugin: 'keys', code, lang: 'javascript' }], [], world);
  const one: Case = {
    id: 'keys',
    hook,
    title: '',
    rules: [],
    chain: [],
    context,
    given: {
      host: { agents: [], transcript: [], fetch: {}, llm: null, decide: null, ssh: [] },
      revoked: [],
      hop: 0,
      gate: null,
      operations: null,
    },
    strange: [],
    expected: { outcome: '', value: null, warnings: [], events: [], meteredHandlers: 0, compare: {} },
  };
  await new CaseRun(one, world, chain).fireAll();
  for (const { event } of await world.store.readAccount(world.account, { limit: 100, types: ['host.called'] })) {
    const { args } = event.data as unknown as HostCall;
    if (args === undefined) continue;
    const opened = await world.sealing.open(world.account, args);
    if (opened.kind === 'open') lines.push(opened.value);
  }
  const [line] = lines as readonly unknown[] as readonly (readonly [string, string])[];
  return line === undefined ? [] : line[1].split('\n');
};
