import { randomBytes } from 'node:crypto';
import { runInNewContext } from 'node:vm';
import { v7 as uuidv7 } from 'uuid';
import {
  failureText,
  gateAfter,
  gateOf,
  gateUnasked,
  logLevelOf,
  openclawOf,
  permits,
  readApproval,
  resolutionOf,
  runnerResult,
} from '#dialects';
import type {
  ApprovalEnd,
  CaseApproval,
  CaseVersion,
  Gate,
  GateOutcome,
  OpenClawCase,
  OpenClawDriver,
  OpenClawSeen,
} from '#dialects';
import { memoryEventStore } from '#event-store';
import { deliverResolution, fire, nobodyServes } from '#firing';
import type { Answer, FiringLink } from '#firing';
import type { Decision } from '#hooks';
import type { HostCall, Json, JsonObject } from '#record';
import type { GuestCall, Sandbox } from '#sandbox';
import { memorySealing } from '#sealing';
import { linksOf, loadHandlers, loadPolicies } from './openclaw-plugins.js';
import type { LoadedPlugin, PluginWorld } from './openclaw-plugins.js';
import { seenWithoutChain } from './openclaw-pure.js';

/**
 * Runs OpenClaw cases on the product's own parts: its bundler, sandbox, firing, engine and log (in memory), under the
 * two exact profiles. Each case has a world of its own.
 */
export const openclawDriver = (sandbox: Sandbox, accounts: readonly string[]): OpenClawDriver => {
  const dialects = {
    host: { '2026.7': openclawOf('2026.7'), '2026.9': openclawOf('2026.9') },
    library: { '2026.7': openclawOf('2026.7', 'library'), '2026.9': openclawOf('2026.9', 'library') },
  };
  const free = [...accounts];
  return {
    hasHook: (hook, version) => dialects.host[version].entries.has(hook),
    run: async (one, version) => {
      const pure = seenWithoutChain(one, version);
      if (pure !== null) return pure;
      const account = free.pop();
      if (account === undefined) throw new Error('more cases at once than accounts');
      const policy = one.level === 'runner-library-default' ? 'library' : 'host';
      try {
        const run = await CaseRun.of(one, version, { account, dialect: dialects[policy][version], sandbox });
        return await run.seen();
      } finally {
        free.push(account);
      }
    },
  };
};

interface Fired {
  readonly answer: Answer;
  readonly decision: Decision<FiringLink, Json>;
  readonly elapsedMs: number;
}

class CaseRun {
  private readonly store = memoryEventStore();
  private readonly sealing = memorySealing();
  private readonly tokenKey = randomBytes(32);
  private readonly notes: (readonly [string, Json])[] = [];
  private readonly called: string[] = [];
  private readonly asked: JsonObject[] = [];
  private counts: { readonly [key: string]: number } = {};
  private prompts = 0;

  private constructor(
    private readonly one: OpenClawCase,
    private readonly version: CaseVersion,
    private readonly world: PluginWorld,
    private readonly handlers: readonly LoadedPlugin[],
    private readonly policies: readonly LoadedPlugin[],
  ) {}

  static async of(one: OpenClawCase, version: CaseVersion, world: PluginWorld): Promise<CaseRun> {
    const policies = await loadPolicies(one.trustedPolicies, world);
    return new CaseRun(one, version, world, await loadHandlers(one.hook, one.handlers, world), policies);
  }

  async seen(): Promise<OpenClawSeen> {
    switch (this.one.level) {
      case 'gate':
        return this.gated();
      case 'finalize-host':
        return this.finalized();
      case 'claim-targeted':
        return this.targeted();
      default:
        return this.ran();
    }
  }

  private async ran(): Promise<OpenClawSeen> {
    const { one } = this;
    const fired = await this.fire(this.one.event, [...this.policies, ...this.handlers]);
    await this.collectNotes();
    const thrown = this.thrown(fired);
    const result = thrown === null ? runnerResult(one.hook, fired.decision, this.version) : undefined;
    return {
      ...(result === undefined ? { noResult: true } : { noResult: false, result: projected(one, result) }),
      ...(thrown === null ? {} : { throws: thrown }),
      ...this.about(fired, thrown === null ? 0 : 1),
    };
  }

  private about({ decision, elapsedMs }: Fired, thrownLines: number): JsonObject {
    const levels = decision.steps.flatMap(({ warnings }) => warnings.map(({ code }) => logLevelOf(code)));
    const count = (level: string): number => levels.filter((found) => found === level).length;
    return {
      called: this.called,
      notes: this.notesByKey(),
      logs: { error: count('error') - thrownLines, warn: count('warn') },
      elapsedMsBetween: elapsedMs,
      eventAfter: this.one.event,
    };
  }

  /** What the dispatch rejects with; null: it does not. */
  private thrown({ decision }: Fired): string | null {
    const { cancellation, steps } = decision;
    if (cancellation?.code === null || cancellation?.code === undefined) return null;
    const failed = steps.findLast(({ verdict }) => verdict.kind === 'skipped');
    const words = failed?.warnings.at(-1)?.detail ?? cancellation.code;
    return failureText(this.one.hook, cancellation.pluginId, words);
  }

  private async targeted(): Promise<OpenClawSeen> {
    const { one } = this;
    const known = new Map(one.plugins.map(({ id, status }) => [id, status]));
    const plugins = this.handlers.filter(({ id }) => (known.get(id) ?? 'loaded') === 'loaded');
    const loaded = [
      ...new Set([
        ...plugins.map(({ id }) => id),
        ...one.plugins.filter(({ status }) => status === 'loaded').map(({ id }) => id),
      ]),
    ];
    const fired = await this.fire(one.event, plugins, { pluginBinding: { pluginId: one.target } }, loaded);
    await this.collectNotes();
    return { result: fired.answer.value, ...this.about(fired, 0) };
  }

  private async finalized(): Promise<OpenClawSeen> {
    const results: Json[] = [];
    for (let round = 0; round < (this.one.repeat ?? 1); round += 1) {
      const { answer } = await this.fire(this.one.event, this.handlers);
      const { action, reason } = (answer.value ?? { action: 'continue' }) as JsonObject;
      results.push({ action: action ?? 'continue', ...(reason === undefined ? {} : { reason }) });
      for (const key of (answer.retries ?? []) as readonly string[]) {
        this.counts = { ...this.counts, [key]: (this.counts[key] ?? 0) + 1 };
      }
    }
    await this.collectNotes();
    return {
      result: this.one.repeat === null ? (results[0] ?? null) : results,
      called: this.called,
      notes: this.notesByKey(),
    };
  }

  private async gated(): Promise<OpenClawSeen> {
    const outcomes: Json[] = [];
    for (let round = 0; round < (this.one.repeat ?? 1); round += 1) outcomes.push(shownOutcome(await this.gateOnce()));
    await this.collectNotes();
    return {
      outcome: this.one.repeat === null ? (outcomes[0] ?? null) : outcomes,
      called: this.called,
      notes: this.notesByKey(),
      asked: this.asked,
    };
  }

  /** Policies and handlers; an approval that a policy wants comes before the handlers run. */
  private async gateOnce(): Promise<GateOutcome> {
    const { event } = this.one;
    const all = [...this.policies, ...this.handlers];
    const first = await this.fire(event, all);
    const gate = gateOf(first.decision, event.params ?? null);
    if (gate.kind === 'decided') return gate.outcome;
    const answered = await this.settle(gate, first);
    if (!gate.byPolicy || answered.blocked) return answered;
    const resumed = await this.fire({ ...event, params: answered.params }, this.handlers);
    const rest = gateOf(resumed.decision, answered.params);
    const outcome = rest.kind === 'decided' ? rest.outcome : await this.settle(rest, resumed);
    const { approvalResolution } = answered;
    if (outcome.blocked || outcome.approvalResolution !== undefined || approvalResolution === undefined) return outcome;
    return { ...outcome, approvalResolution };
  }

  /** Ends an approval as the case says, and tells the plugin. */
  private async settle(gate: Extract<Gate, { kind: 'held' }>, fired: Fired): Promise<GateOutcome> {
    const mode = this.one.approvalMode;
    if (mode === 'report' || (mode === 'deny' && this.version === '2026.9')) {
      await this.tell(gate, fired, mode === 'report' ? 'cancelled' : 'deny');
      return gateUnasked(gate, mode);
    }
    const end = this.ended(gate, this.one.approvals[this.prompts] ?? {});
    this.prompts += 1;
    await this.tell(gate, fired, resolutionOf(end));
    return gateAfter(gate, end, this.version);
  }

  private ended(gate: Extract<Gate, { kind: 'held' }>, scripted: CaseApproval): ApprovalEnd {
    const read = readApproval(gate.request, this.version);
    if (read.kind === 'unusable') return { kind: 'unavailable', reason: read.reason };
    const { terms } = read;
    const given = [scripted.decision, scripted.then].filter((word) => word !== undefined);
    const accepted = given.map((word) => permits(terms, word));
    const { ticket: _ticket, detail, scope, ...shown } = terms;
    this.asked.push({
      ...shown,
      ...(detail === null ? {} : { detail }),
      ...(scope === null ? {} : { scope }),
      accepted: accepted[0] ?? false,
    });
    if (scripted.abort === true) return { kind: 'aborted' };
    const decision = given.find((word) => permits(terms, word));
    return decision !== undefined && permits(terms, decision) ? { kind: 'decided', decision } : { kind: 'unanswered' };
  }

  private async tell(gate: Extract<Gate, { kind: 'held' }>, { decision }: Fired, resolution: string): Promise<void> {
    const { pluginId, ticket } = readApproval(gate.request, this.version).terms;
    if (ticket === null) return;
    const realm = decision.steps.find(
      ({ link, verdict }) => link.pluginId === pluginId && verdict.kind === 'contributed',
    )?.link.realm;
    if (realm === undefined || realm === null) throw new Error(`nobody of ${pluginId} asked`);
    await deliverResolution(this.world.sandbox, {
      account: this.world.account,
      realm,
      ticket,
      decision: resolution,
      onCall: (call) => this.heard(call),
    });
  }

  private heard(call: GuestCall): Promise<{ readonly kind: 'value'; readonly json: string }> {
    if (call.member === 'log') this.note(JSON.parse(call.args ?? '[]') as readonly Json[]);
    return Promise.resolve({ kind: 'value', json: 'null' });
  }

  private note([, line]: readonly Json[]): void {
    if (typeof line !== 'string' || !line.startsWith('note ')) return;
    const [key, value] = JSON.parse(line.slice('note '.length)) as readonly [string, Json];
    this.notes.push([key, value]);
  }

  private notesByKey(): JsonObject {
    const byKey: { [key: string]: Json[] } = {};
    for (const [key, value] of this.notes) (byKey[key] ??= []).push(value);
    return byKey;
  }

  /** Notes that handlers left are lines of their logs, which the record has. */
  private async collectNotes(): Promise<void> {
    const events = await this.store.readAccount(this.world.account, { limit: 10_000, types: ['host.called'] });
    const told = this.notes.splice(0);
    for (const { event } of events) {
      const { member, args } = event.data as unknown as HostCall;
      if (member !== 'log' || args === undefined) continue;
      const opened = await this.sealing.open(this.world.account, args);
      if (opened.kind === 'open') this.note(opened.value as readonly Json[]);
    }
    this.notes.push(...told);
  }

  private async fire(
    event: JsonObject,
    plugins: readonly LoadedPlugin[],
    more: JsonObject = {},
    loaded: readonly string[] = plugins.map(({ id }) => id),
  ): Promise<Fired> {
    const { one, world } = this;
    const opening = world.dialect.open(one.hook, { event, context: { ...one.context, ...more } });
    if (opening.kind === 'refused') throw new Error(`the event was refused: ${JSON.stringify(opening.faults)}`);
    const chain = linksOf(one.hook, plugins, JSON.parse(opening.input) as JsonObject, world);
    const invocationId = uuidv7();
    const decided: Decision<FiringLink, Json>[] = [];
    const startedAt = performance.now();
    const answer = await fire(
      {
        account: world.account,
        dialect: world.dialect,
        hook: one.hook,
        invocationId,
        attempt: 1,
        previousInvocationId: null,
        actor: { kind: 'system', id: 'conformance' },
        opening,
        occurredAt: null,
        operationId: null,
        correlationId: null,
        turnId: opening.turnId ?? 'turn-1',
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
        loaded,
        counts: this.counts,
      },
      {
        store: this.store,
        sandbox: world.sandbox,
        hostCalls: nobodyServes,
        envelope: await this.sealing.envelope(world.account, { kind: 'account' }),
        tokenKey: this.tokenKey,
        newId: uuidv7,
        now: () => new Date(),
        onDecision: (decision) => decided.push(decision),
      },
      [],
    ).answer;
    const [decision] = decided;
    if (decision === undefined) throw new Error('nothing was decided');
    const fired: Fired = { answer, decision, elapsedMs: performance.now() - startedAt };
    this.called.push(...calledIn(fired.decision, plugins));
    return fired;
  }
}

const calledIn = ({ steps }: Decision<FiringLink, Json>, plugins: readonly LoadedPlugin[]): readonly string[] =>
  steps
    .filter(({ verdict }) => verdict.kind !== 'not_run')
    .map(({ link }) => {
      const policy = link.isPolicy === true ? plugins.find(({ realm }) => realm === link.realm)?.policy : null;
      return typeof policy === 'string' ? `policy:${policy}` : link.pluginId;
    });

const projected = ({ project }: OpenClawCase, r: Json): Json =>
  project === null ? r : (runInNewContext(`(function (r) { ${project} })(r)`, { r }, { timeout: 1000 }) as Json);

const shownOutcome = ({ kind, reason, ...outcome }: GateOutcome): JsonObject => ({
  ...outcome,
  ...(kind === null ? {} : { kind }),
  ...(reason === null ? {} : { reason }),
});
