import {
  inMode,
  runStages,
  sameJson,
  type Decision,
  type Link,
  type Point,
  type Said,
  type Stage,
  type Verdict,
  type Warning,
} from '#hooks';
import {
  checkCall,
  isId,
  type AnswerFacts,
  type ApprovalMode,
  type Dialect,
  type DialectApprovals,
  type GateOutcome,
  type HeldCall,
  type HookEntry,
  type HostView,
  type Injection,
  type Opening,
} from '#dialects';
import type { EventStore, CompletedCommand, StreamWrite } from '#event-store';
import {
  asData,
  extensionStream,
  type Actor,
  type ChainEntry,
  type EventFields,
  type ExtensionPatched,
  type HandlerRan,
  type InvocationClosed,
  type InvocationOpened,
  type Json,
  type JsonObject,
  type NewEvent,
  type Sealed,
  type StoredWarning,
} from '#record';
import type { CallAnswer, GuestCall, HandlerOutcome, HandlerRun, Realm, RunningChain, Sandbox } from '#sandbox';
import type { Envelope } from '#sealing';
import { Book, type Beside, type BookMark, type Positions } from './book.js';
import { causeToken, lineageToken } from './cause-token.js';
import {
  closedBy,
  endOfGate,
  heldGate,
  pluginOf,
  type ApprovalDesk,
  type ApprovalWish,
  type Asked,
  type HeldState,
  type Resumed,
} from './held.js';
import type { HostAnswer, HostCalls, HostCallScope } from './host-calls.js';
import { accountHalted, handlerAnswer, wordOf, type Answer } from './answer.js';
import { cutLogLine, maxLogLines } from './log-line.js';
import { afterTimer } from './timer.js';

/** A plugin's place in the chain of one firing, with the world its handler runs in. */
export interface FiringLink extends Link {
  readonly entry: ChainEntry;
  /** Null when the plugin could not be loaded; `notLoaded` says why, without content. */
  readonly realm: Realm | null;
  readonly notLoaded: string | null;
  /** What the plugin's owner granted. */
  readonly permissions: readonly string[];
  readonly handler: string;
  readonly timeoutMs: number;
  /** One of the dialect's policies: they run before the others, under a point of their own. */
  readonly isPolicy?: boolean;
  /** False: it is not for this firing, and is not asked. */
  readonly applies?: boolean;
  /** The dialect's own note on how its results are read. */
  readonly readAs?: string;
  /** Names it among evaluators. */
  readonly evaluatorId?: string;
  /** What the session keeps for its plugin, by namespace, JSON. */
  readonly kept?: readonly (readonly [namespace: string, json: string])[];
  /** The name under which its dialect knows the plugin, where it is not the id. */
  readonly pluginName?: string;
}

/** One firing, with everything about it decided but the chain itself. */
export interface Firing {
  readonly account: string;
  readonly dialect: Dialect;
  readonly hook: string;
  readonly invocationId: string;
  readonly attempt: number;
  readonly previousInvocationId: string | null;
  readonly actor: Actor;
  readonly opening: Extract<Opening, { kind: 'opened' }>;
  readonly occurredAt: string | null;
  readonly operationId: string | null;
  readonly correlationId: string | null;
  readonly turnId: string;
  readonly turnInferred: boolean;
  /** With an inferred turn: whether it has had its system prompt, this firing included. */
  readonly turnPrompted: boolean;
  readonly sessionId: string | null;
  readonly agentId: string | null;
  readonly hop: number;
  readonly root: string;
  /** The invocation that this one descends from, by a host call or through a model turn. */
  readonly cause: string | null;
  /** Set when a `lineage` token named an ancestor through a model turn (MW-104): its invocation. */
  readonly lineage: string | null;
  readonly dataSubject: { readonly id: string; readonly hmac: string } | null;
  /** HMAC of a target that is a person's address; such a target is not named in the clear. */
  readonly targetHmac: string | null;
  readonly chain: readonly FiringLink[];
  readonly withoutHook: number;
  readonly chainOf: string | null;
  readonly halted: 'open' | 'closed' | null;
  /** Ids of the dialect's plugins in force, whether they have the hook or not. */
  readonly loaded?: readonly string[];
  /** What earlier answers of the same run counted up. */
  readonly counts?: { readonly [key: string]: number };
  /** What the platform took out of the session's queue for this turn. */
  readonly injections?: readonly Injection[];
  /** How approvals are dealt with; absent: as the dialect says. */
  readonly approvalMode?: ApprovalMode | null;
  /** A call that waited and was allowed: its other handlers are asked now. */
  readonly resumed?: Resumed;
}

/** How a firing ended, for what is written together with its end. */
export interface FiringEnd {
  readonly outcome: Decision<FiringLink, Json>['outcome'];
  readonly closed: InvocationClosed;
  /** Handlers that ran, and how many handlers did not decide: failed, or could not be loaded. */
  readonly handlers: number;
  readonly undecided: number;
}

/** What a hook is fired for, and what stands or falls with its record. */
export interface FiredFor {
  /** Stream of the clear or the cron run; absent: it is fired for neither. */
  readonly stream?: string;
  /**
   * Makes the opening durable before the chain runs, in one commit with these, which stand before it. When a stream of
   * these has moved, nothing is written, nothing runs, and the answer rejects with `FiringSuperseded`.
   */
  readonly before?: readonly StreamWrite[];
  /** What goes into the commit of the end, after it. Asked again when one of its streams has moved. */
  readonly after?: (end: FiringEnd) => Promise<readonly StreamWrite[]>;
}

export interface FiringTools {
  readonly store: EventStore;
  readonly sandbox: Sandbox;
  readonly hostCalls: HostCalls;
  /** Of the firing's scope: data subject, else session, else account. */
  readonly envelope: Envelope;
  /** Signs cause and lineage tokens. */
  readonly tokenKey: Uint8Array;
  readonly newId: () => string;
  readonly now: () => Date;
  /** Names this process in an opening that is written before the end, for recovery. */
  readonly instance?: string;
  /** Where chains that want an approval ask; absent: they end as held. */
  readonly approvals?: ApprovalDesk;
  /** Told what a chain came to, before it is recorded. */
  readonly onDecision?: (decision: Decision<FiringLink, Json>) => void;
}

/** A handler returned and left work behind that used up its time: beyond the codes of MW-54, which keep the result. */
const workLeftRunning = 'work_left_running';

/** Most that the handlers of one chain may want done. */
const maxEffects = 1000;

/** How long a cause token may be used after the call that carried it, ms. */
const causeLifetimeMs = 15 * 60_000;

/** A firing under way. */
export interface Running {
  /** The answer, after every event of it is committed. Rejects with `LogUnavailable`, `LogBusy` or `FiringSuperseded`. */
  readonly answer: Promise<Answer>;
  /** Makes the opening durable now, for a caller that will not wait for the end. */
  keepOpening(): Promise<void>;
}

/**
 * Runs one hook chain and records it: the value goes through the handlers in the sandbox, the engine decides, and the
 * answer resolves only after the events are committed (events.md §1.1). `commands` are completed in that commit. `firedFor` ties
 * it to a clear or a cron run.
 */
export const fire = (
  firing: Firing,
  tools: FiringTools,
  commands: readonly CompletedCommand[],
  firedFor: FiredFor | null = null,
): Running => {
  const book = new Book(
    tools.store,
    tools.envelope,
    firing.account,
    firing.invocationId,
    fieldsOf(firing),
    firing.chain.length,
    tools.instance,
    markOf(firing),
  );
  return { answer: new FiringRun(firing, tools, book, firedFor).run(commands), keepOpening: () => book.keepOpening() };
};

const markOf = ({ resumed, chain }: Firing): BookMark | null =>
  resumed === undefined ? null : { ...resumed, from: chain.filter(({ isPolicy }) => isPolicy === true).length };

/** What every event of an invocation says. */
export const fieldsOf = (firing: Firing): EventFields => ({
  actor: firing.actor,
  invocationId: firing.invocationId,
  attempt: firing.attempt,
  dialect: firing.dialect.name,
  hook: firing.hook,
  turnId: firing.turnId,
  hop: firing.hop,
  root: firing.root,
  ...(firing.turnInferred ? { turnInferred: true } : {}),
  ...(firing.occurredAt === null ? {} : { occurredAt: firing.occurredAt }),
  ...(firing.operationId === null ? {} : { operationId: firing.operationId }),
  ...(firing.correlationId === null ? {} : { correlationId: firing.correlationId }),
  ...(firing.sessionId === null ? {} : { sessionId: firing.sessionId }),
  ...(firing.agentId === null ? {} : { agentId: firing.agentId }),
  ...(firing.cause === null ? {} : { cause: firing.cause }),
  ...targetField(firing),
});

const targetField = (firing: Firing): { target?: string } => {
  const { target, targetIsAddress } = firing.opening;
  if (target === null) return {};
  if (!targetIsAddress) return { target };
  return firing.targetHmac === null ? {} : { target: firing.targetHmac };
};

/** The walk of the sandbox that the chain rides on, and the place in the chain where it began. */
interface Ride {
  readonly running: RunningChain;
  readonly from: number;
  /** The first place that is not in it. */
  readonly to: number;
}

class FiringRun {
  private readonly entry: HookEntry;
  private readonly view: HostView;
  private readonly settled: Gate[];
  private readonly logs: { kept: number; dropped: number }[];
  private readonly calls: Map<string, number>[];
  /** What handlers wanted their host to do, in order of asking. */
  private readonly effects: { readonly index: number; readonly effect: JsonObject }[] = [];
  /** Calls of each handler that have no end yet, and whether they were handed on. */
  private readonly openCalls: Map<string, OpenCall>[];
  private readonly args: string;
  private readonly stages: readonly Stage<FiringLink>[];
  private ride: Ride | null = null;
  /** Of a point whose handlers run together: each walks by itself. */
  private readonly walks: RunningChain[] = [];
  private readonly asked = new Set<number>();

  constructor(
    private readonly firing: Firing,
    private readonly tools: FiringTools,
    private readonly book: Book,
    private readonly firedFor: FiredFor | null,
  ) {
    const entry = firing.dialect.entries.get(firing.hook);
    if (entry === undefined) throw new Error(`${firing.dialect.name} has no hook ${firing.hook}`);
    this.entry = entry;
    this.view = firing.dialect.hostView(firing.hook, JSON.parse(firing.opening.input) as JsonObject, firing.hop);
    this.args = firing.dialect.args(firing.hook, this.view);
    this.stages = stagesOf(entry, firing.halted === null ? firing.chain : []);
    this.calls = firing.chain.map(() => new Map<string, number>());
    this.openCalls = firing.chain.map(() => new Map<string, OpenCall>());
    this.settled = firing.chain.map(() => gate());
    this.logs = firing.chain.map(() => ({ kept: 0, dropped: 0 }));
  }

  async run(commands: readonly CompletedCommand[]): Promise<Answer> {
    const startedAt = performance.now();
    if (this.firing.resumed === undefined) this.recordOpening();
    if (this.firedFor?.before !== undefined) await this.book.keepOpening(this.firedFor.before);
    try {
      const decision = await this.decide();
      this.tools.onDecision?.(decision);
      const durationMs = Math.round(performance.now() - startedAt) + (this.firing.resumed?.state.durationMs ?? 0);
      const held = await this.heldBy(decision);
      if (held !== null) return await this.hold(held, decision, durationMs, commands);
      this.recordNotAsked(decision);
      const closed = this.closed(decision);
      const event = closedEvent(this.outcomeOf(decision), closed, durationMs);
      const positions = await this.book.close(event, commands, this.beside(decision, closed));
      return this.answer(decision, positions);
    } finally {
      this.ride?.running.stop();
      for (const walk of this.walks) walk.stop();
    }
  }

  private recordOpening(): void {
    const { firing } = this;
    const opened: InvocationOpened = {
      chain: firing.chain.map(({ entry }) => entry),
      withoutHook: firing.withoutHook,
      context: this.tools.envelope.sealText(firing.opening.recordedInput ?? firing.opening.input),
      hostSession: this.view.session.state,
      ...(firing.previousInvocationId === null ? {} : { previousInvocationId: firing.previousInvocationId }),
      ...(firing.chainOf === null ? {} : { chainOf: firing.chainOf }),
      ...(firing.lineage === null ? {} : { lineage: firing.lineage }),
      ...(firing.turnInferred ? { turnPrompted: firing.turnPrompted } : {}),
      ...(firing.halted === null ? {} : { halted: firing.halted }),
      ...(this.firedFor?.stream === undefined ? {} : { firedFor: this.firedFor.stream }),
      ...(firing.dataSubject === null
        ? {}
        : { dataSubject: { hmac: firing.dataSubject.hmac, sealed: this.seal(firing.dataSubject.id) } }),
      ...(firing.opening.targetIsAddress && firing.opening.target !== null
        ? { target: this.seal(firing.opening.target) }
        : {}),
      ...this.observed(),
    };
    this.book.open({ type: 'invocation.opened', data: asData(opened) });
    if (this.view.session.state === 'withheld') this.book.open({ type: 'session.withheld', data: {} });
  }

  private observed(): Pick<InvocationOpened, 'observed'> {
    const { observed } = this.firing.opening;
    if (observed === undefined) return {};
    const { kind, facts, content } = observed;
    return { observed: { kind, facts, content: this.sealValue(content) } };
  }

  /** Halted plugins do not run: `open` passes everything, `closed` cancels what can be cancelled. */
  private async decide(): Promise<Decision<FiringLink, Json>> {
    const { firing, stages } = this;
    const ran = await runStages(stages, firing.opening.value, this.ask, firing.resumed === undefined ? 0 : 1);
    const decision = firing.dialect.conclude?.(firing.hook, ran, this.facts) ?? ran;
    if (firing.halted === null || firing.halted === 'open' || !this.entry.point.cancellable) return decision;
    return { ...decision, outcome: 'cancelled', value: null };
  }

  /** What a decided chain waits for; null: nothing, or nobody keeps approvals here. */
  private async heldBy(decision: Decision<FiringLink, Json>): Promise<Held | null> {
    const { firing, tools } = this;
    const { approvals } = firing.dialect;
    if (approvals === undefined || tools.approvals === undefined || firing.halted !== null) return null;
    if (decision.outcome === 'held') {
      const call = approvals.held(firing.hook, decision, this.parsedInput());
      return call === null ? null : { call, approvals, renews: null };
    }
    const { resumed } = firing;
    if (resumed === undefined || resumed.boundTo === null || decision.outcome === 'cancelled') return null;
    const params = this.gateIn(decision).params;
    const digest = await tools.approvals.digestOf(firing.account, params);
    if (digest === resumed.boundTo) return null;
    const { request } = resumed.state.call;
    const renews = { approvalId: resumed.approvalId, expected: resumed.boundTo, actual: digest };
    return { call: { byPolicy: false, request, base: params, override: null }, approvals, renews };
  }

  /**
   * Puts a held call on record: it waits for somebody, or nobody is asked and it ends here. Only what a policy asked for
   * and has already been given goes on, once it is recorded.
   */
  private async hold(
    { call, approvals, renews }: Held,
    decision: Decision<FiringLink, Json>,
    durationMs: number,
    commands: readonly CompletedCommand[],
  ): Promise<Answer> {
    const { firing, tools } = this;
    const input = this.parsedInput();
    const read = approvals.read(call.request);
    const asker = decision.steps.find(({ link }) => link.pluginId === read.terms.pluginId)?.link;
    const link = asker ?? firing.chain.find(({ pluginId }) => pluginId === read.terms.pluginId);
    const desk = tools.approvals;
    if (link === undefined || desk === undefined) throw new Error('an approval that nobody asked for');
    const wish: ApprovalWish = {
      account: firing.account,
      invocationId: firing.invocationId,
      mode: firing.approvalMode ?? approvals.modeFor(input),
      read,
      call,
      params: approvals.allowedParams(call),
      toolName: firing.opening.target,
      entry: link.entry,
      realm: link.realm,
      followsSettings: approvals.followsSettings,
      envelope: tools.envelope,
      fields: fieldsOf(firing),
      renews,
    };
    const asked = await desk.ask(wish);
    const state: HeldState = {
      call,
      value: this.valueOf(decision),
      metered: decision.metered + (firing.resumed?.state.metered ?? 0),
      durationMs,
      profile: firing.dialect.profile ?? null,
      resolution: firing.resumed?.resolution ?? null,
    };
    const wait = async (approvalId: string): Promise<Answer> => {
      const data = { approvalId, state: this.seal(asData(state)) };
      const positions = await this.book.hold({ type: 'invocation.held', data: asData(data) }, commands, () =>
        Promise.resolve(asked.writes),
      );
      desk.recorded(wish, asked);
      return this.heldAnswer(decision, state, approvalId, positions);
    };
    if (asked.end === null) return wait(asked.approvalId);
    const gate = gateAt(approvals, call, asked.end);
    if (asked.approvalId !== null && call.byPolicy && !gate.blocked) return wait(asked.approvalId);
    this.recordNotAsked(decision);
    const end = endOfGate(gate, read.terms.pluginId, this.paramsGiven(), asked.approvalId);
    const event = closedBy(end, state, this.view.session.state, tools.envelope);
    const positions = await this.book.close(event, commands, () => Promise.resolve(asked.writes));
    desk.recorded(wish, asked);
    const { outcome, cancellation, more } = end;
    return { ...this.answer(decision, positions), value: state.value, outcome, cancellation, ...more };
  }

  private heldAnswer(
    decision: Decision<FiringLink, Json>,
    { call, value }: HeldState,
    approvalId: string,
    positions: Positions,
  ): Answer {
    const handlers = decision.steps.filter(({ index }) => this.asked.has(index)).map(handlerAnswer);
    return { ...this.answer(decision, positions), value, outcome: 'held', approvalId, gate: heldGate(call), handlers };
  }

  private parsedInput(): JsonObject {
    return JSON.parse(this.firing.opening.input) as JsonObject;
  }

  /** The parameters that the call came with. */
  private paramsGiven(): Json {
    const { resumed, dialect } = this.firing;
    return resumed === undefined ? (dialect.approvals?.paramsOf(this.parsedInput()) ?? null) : resumed.given;
  }

  /** Of a call that waited, what it came to against what it was when it came. */
  private outcomeOf({ outcome, ...decision }: Decision<FiringLink, Json>): Answer['outcome'] {
    if (this.firing.resumed === undefined || outcome === 'cancelled' || outcome === 'held') return outcome;
    const { params } = this.gateIn({ ...decision, outcome });
    return sameJson(params, this.paramsGiven()) ? 'passed' : 'rewritten';
  }

  private gateIn(decision: Decision<FiringLink, Json>): Pick<GateOutcome, 'params'> {
    const { gate } = this.firing.dialect.answerMore?.(this.firing.hook, decision, this.facts) ?? {};
    return gate as unknown as Pick<GateOutcome, 'params'>;
  }

  /** After a cancel the rest of the chain is not asked; the record names each of them all the same. */
  private recordNotAsked({ steps }: Decision<FiringLink, Json>): void {
    for (const { link, index, input, verdict } of steps) {
      if (this.asked.has(index)) continue;
      this.book.verdict(index, this.handlerEvent(link, index, input, { verdict, warnings: [], durationMs: 0 }));
    }
  }

  /** Asks one plugin: its result comes from the sandbox, which ran ahead, and is read and checked again here. */
  private readonly ask = async (link: FiringLink, value: Json, index: number): Promise<Said<Json>> => {
    const said = await this.said(link, value, index);
    this.closeCalls(index);
    this.book.verdict(index, this.handlerEvent(link, index, value, said));
    this.asked.add(index);
    this.settled[index]?.open();
    return said;
  };

  private said(link: FiringLink, value: Json, index: number): Said<Json> | Promise<Said<Json>> {
    if (link.applies === false) return notApplicable;
    return link.realm === null ? notLoaded(link.notLoaded) : this.result(link, value, index);
  }

  /** The sandbox's word on one handler: out of the walk that the stage rides on, or of its own where all run together. */
  private outcome(value: Json, index: number): Promise<HandlerOutcome> {
    if (runsTogether(this.stageAt(index).point)) {
      const walk = this.rideFrom(index, value, index + 1).running;
      this.walks.push(walk);
      return walk.result(0);
    }
    if (this.ride !== null && index >= this.ride.to) this.leaveRide();
    this.ride ??= this.rideFrom(index, value, this.endOfStage(index));
    return this.ride.running.result(this.placeInRide(index));
  }

  private async result(link: FiringLink, value: Json, index: number): Promise<Said<Json>> {
    const { dialect, hook } = this.firing;
    const outcome = await this.outcome(value, index);
    switch (outcome.kind) {
      case 'returned': {
        const { verdict, warnings, more } = dialect.read(hook, outcome.raw, value, link.readAs);
        if (advancedOnItsOwn(outcome.raw, verdict)) this.leaveRide();
        const { durationMs } = outcome;
        // Its result was there in time; what it left running was ended when its time was up, and is on record.
        const left: readonly Warning[] = durationMs < link.timeoutMs ? [] : [{ code: workLeftRunning, detail: null }];
        const said = { verdict, warnings: [...warnings, ...left], durationMs };
        return more === undefined ? said : { ...said, more };
      }
      case 'failed':
        return {
          verdict: { kind: 'skipped', cause: outcome.cause },
          warnings: [
            ...dialect.readNotes(hook, outcome.notes),
            dialect.failure(outcome.cause, outcome.detail, link.timeoutMs),
          ],
          durationMs: outcome.durationMs,
        };
      case 'not_loaded':
        return notLoaded(outcome.message);
      case 'not_run':
        return { verdict: { kind: 'not_run', cause: 'after_cancel' }, warnings: [], durationMs: 0 };
    }
  }

  /**
   * The sandbox gave the next handlers a patch that the engine does not accept: what they ran on is not the value in
   * force. They run again, on the right one, from here on.
   */
  private leaveRide(): void {
    this.ride?.running.stop();
    this.ride = null;
  }

  /** Starts the rest of a stage in the sandbox, on the value in force. */
  private rideFrom(from: number, value: Json, to: number): Ride {
    const { firing } = this;
    const runnable = this.runnable(from, to);
    const running = this.tools.sandbox.run({
      account: firing.account,
      invocationId: firing.invocationId,
      input: value === firing.opening.value ? firing.opening.input : this.inputWith(value),
      handlers: runnable.map(({ link, index }) => this.handlerRun(link, this.stageAt(index).point)),
      onCall: (call) => this.hostCall({ ...call, handlerIndex: runnable[call.handlerIndex]?.index ?? from }),
      pausingMembers: firing.dialect.pausingMembers,
    });
    return { running, from, to };
  }

  private inputWith(value: Json): string {
    const { dialect, hook, opening } = this.firing;
    if (dialect.inputWith !== undefined) return dialect.inputWith(hook, opening.input, value);
    return inputWith(opening.input, this.entry.mutableFields, value);
  }

  private runnable(
    from: number,
    to: number,
  ): readonly { readonly link: FiringLink & { realm: Realm }; readonly index: number }[] {
    return this.firing.chain.flatMap((link, index) =>
      index >= from && index < to && link.realm !== null && link.applies !== false
        ? [{ link: { ...link, realm: link.realm }, index }]
        : [],
    );
  }

  private placeInRide(index: number): number {
    const { from, to } = this.ride ?? { from: 0, to: this.firing.chain.length };
    return this.runnable(from, to).findIndex((place) => place.index === index);
  }

  private stageAt(index: number): Stage<FiringLink> {
    let end = 0;
    const found = this.stages.find(({ links }) => index < (end += links.length));
    if (found === undefined) throw new Error(`no stage has link ${String(index)}`);
    return found;
  }

  private endOfStage(index: number): number {
    let end = 0;
    for (const { links } of this.stages) if (index < (end += links.length)) break;
    return end;
  }

  private handlerRun(link: FiringLink & { readonly realm: Realm }, point: Point): HandlerRun {
    const { dialect, hook } = this.firing;
    const enforced = link.mode === 'enforce';
    const closes = enforced && point.cancellable && (link.failureMode === 'closed' || point.failsClosed);
    return {
      realm: link.realm,
      handler: link.handler,
      timeoutMs: link.timeoutMs,
      ceilingMs: link.timeoutMs + dialect.pauseCeilingMs,
      args: link.kept === undefined ? this.args : (dialect.argsWith?.(this.args, link.kept) ?? this.args),
      advances: enforced && passesOn(point),
      stopsOn: enforced ? dialect.stopTags(hook, closes ? 'closed' : 'open') : [],
    };
  }

  private async hostCall(call: GuestCall): Promise<CallAnswer> {
    const callId = this.tools.newId();
    if (call.member === 'log') return this.logLine(call, callId);
    const { dialect } = this.firing;
    if (dialect.effects?.includes(call.member) === true) return this.effect(call, callId);
    if (call.member === 'instance' && dialect.effects !== undefined) return this.instanceStarted(call);
    if (call.member === 'timer' && dialect.hasTimers === true) return afterTimer(call);
    const accepted = this.accepted(call);
    const refusal =
      (dialect.checkCall ?? checkCall)(call.member, call.args, call.misfit, accepted.get(call.member)) ??
      this.ungranted(call) ??
      this.unserved(call);
    if (refusal !== null) {
      this.book.host(call.handlerIndex, this.hostEvent('host.refused', call, callId, { code: refusal.code }));
      return { kind: 'error', code: refusal.code, message: refusal.message };
    }
    accepted.set(call.member, (accepted.get(call.member) ?? 0) + 1);
    return this.recordedCall(call, callId);
  }

  /** Calls that a handler run has had accepted, by member: the limits of MW-88 are counted here, not in the realm. */
  private accepted({ handlerIndex }: GuestCall): Map<string, number> {
    return this.calls[handlerIndex] ?? new Map<string, number>();
  }

  /** The realm shows a plugin only what it has; one that was taken over asks for anything. */
  private ungranted({ member, handlerIndex }: GuestCall): { readonly code: string; readonly message: string } | null {
    const { dialect, chain } = this.firing;
    if (dialect.grants(this.view, chain[handlerIndex]?.permissions ?? [], member)) return null;
    return { code: 'not_granted', message: `host.${member} is not granted` };
  }

  private unserved(call: GuestCall): { readonly code: string; readonly message: string } | null {
    if (this.tools.hostCalls.serves(this.firing.account, call.member, this.scope)) return null;
    return { code: 'no_runtime', message: `host.${call.member}: no runtime is connected to serve this call` };
  }

  /** MW-74: durable as called before it has an effect; a log that cannot be written means no effect. */
  private async recordedCall(call: GuestCall, callId: string): Promise<CallAnswer> {
    const { firing, tools, book } = this;
    const index = call.handlerIndex;
    const open: OpenCall = { call, isMade: false };
    this.openCalls[index]?.set(callId, open);
    // In the book at once, so that calls stand in the order of asking; durable when the handlers before it are.
    book.host(index, this.hostEvent('host.called', call, callId, {}));
    await Promise.all(this.settled.slice(0, index).map(({ opened }) => opened));
    try {
      await book.keep(index, () => this.startedEvent(index));
    } catch {
      return { kind: 'error', code: 'not_recorded', message: 'the call could not be recorded, so it was not made' };
    }
    // Of a run that was closed meanwhile no call is made any more (MW-57).
    if (this.openCalls[index]?.has(callId) !== true) return runClosed;
    if (call.signal.aborted) return this.endCall(index, callId, { ...runClosed, kind: 'refused' });
    open.isMade = true;
    const answer = await tools.hostCalls.call({
      account: firing.account,
      invocationId: firing.invocationId,
      pluginId: call.pluginId,
      callId,
      member: call.member,
      args: JSON.parse(call.args ?? '[]') as readonly Json[],
      cause: causeToken(tools.tokenKey, {
        account: firing.account,
        callId,
        invocationId: firing.invocationId,
        root: firing.root,
        hop: firing.hop,
        expiresAt: tools.now().getTime() + causeLifetimeMs,
      }),
      scope: this.scope,
      root: firing.root,
      firedBy: firing.actor.kind === 'key' ? firing.actor.id : null,
      signal: call.signal,
    });
    return this.endCall(index, callId, answer);
  }

  private get scope(): HostCallScope {
    return { sessionId: this.view.session.id, agentId: this.firing.agentId, sshHostId: this.view.sshHostId };
  }

  /** Records what came of a call, unless its run is closed, and says it as the plugin hears it. */
  private endCall(index: number, callId: string, answer: HostAnswer): CallAnswer {
    const open = this.openCalls[index]?.get(callId);
    if (open === undefined) return runClosed;
    this.openCalls[index]?.delete(callId);
    this.book.host(index, this.endOfCall(open.call, callId, answer));
    if (answer.kind === 'value') return answer;
    const { code, message } = answer;
    return { kind: 'error', message, ...(code === undefined ? {} : { code }) };
  }

  private endOfCall(call: GuestCall, callId: string, answer: HostAnswer): NewEvent {
    // Its arguments stand in `host.called` already.
    if (answer.kind === 'refused')
      return this.hostEvent('host.refused', { ...call, args: null }, callId, { code: answer.code });
    const isUnknown = answer.kind === 'unknown';
    const code = answer.kind === 'value' ? undefined : answer.code;
    const result = answer.kind === 'value' ? answer.json : JSON.stringify(answer.message);
    return {
      type: 'host.answered',
      ...this.pluginFieldsOf(call),
      ...(code === undefined ? {} : { reasonCode: code }),
      data: asData({
        ...this.placeOf(call.handlerIndex),
        callId,
        member: call.member,
        ok: answer.kind === 'value',
        ...(isUnknown ? { unknown: true } : {}),
        ...(code === undefined ? {} : { code }),
        result: this.tools.envelope.sealText(result),
      }),
    };
  }

  /**
   * The run is over. What was asked and not handed on never is: that a call was asked in a run that ended is all there is
   * to say of it. Of what was handed on nobody waits for the answer: unknown.
   */
  private closeCalls(index: number): void {
    for (const [callId, { isMade }] of this.openCalls[index] ?? []) {
      if (isMade) this.endCall(index, callId, { ...runClosed, kind: 'unknown' });
      else this.openCalls[index]?.delete(callId);
    }
  }

  /** What the host is to do is recorded as asked for, and goes out with the answer. */
  private effect(call: GuestCall, callId: string): CallAnswer {
    if (call.args === null || this.effects.length >= maxEffects) {
      const code = call.args === null ? 'not_json' : 'too_many_effects';
      this.book.host(call.handlerIndex, this.hostEvent('host.refused', call, callId, { code }));
      return { kind: 'error', code, message: `${call.member} was not taken` };
    }
    this.book.host(call.handlerIndex, this.hostEvent('host.called', call, callId, {}));
    const args = JSON.parse(call.args) as Json;
    this.effects.push({
      index: call.handlerIndex,
      effect: { type: call.member, pluginId: call.pluginId, args },
    });
    return { kind: 'value', json: 'null' };
  }

  private instanceStarted(call: GuestCall): CallAnswer {
    this.book.host(call.handlerIndex, {
      type: 'plugin.instance_started',
      ...this.pluginFieldsOf(call),
      data: asData({ instance: this.tools.instance ?? 'unnamed' }),
    });
    return { kind: 'value', json: 'null' };
  }

  /** `host.log` is recorded with the handler and has no answer; what is over the limit is counted, not kept. */
  private logLine(call: GuestCall, callId: string): CallAnswer {
    const count = this.logs[call.handlerIndex] ?? { kept: 0, dropped: 0 };
    if (count.kept >= maxLogLines) {
      count.dropped += 1;
      return { kind: 'value', json: 'null' };
    }
    count.kept += 1;
    const args = cutLogLine(call.args ?? '[]');
    this.book.host(call.handlerIndex, this.hostEvent('host.called', { ...call, args }, callId, {}));
    return { kind: 'value', json: 'null' };
  }

  private hostEvent(
    type: 'host.called' | 'host.refused',
    call: GuestCall,
    callId: string,
    more: { readonly code?: string },
  ): NewEvent {
    const data = {
      ...this.placeOf(call.handlerIndex),
      callId,
      member: call.member,
      ...(call.args === null ? {} : { args: this.sealText(call.args) }),
      ...more,
    };
    return {
      type,
      ...this.pluginFieldsOf(call),
      ...(more.code === undefined ? {} : { reasonCode: more.code }),
      data: asData(data),
    };
  }

  /** Which of a plugin's handlers asks, where it has several in this chain. */
  private placeOf(index: number): { readonly index?: number } {
    const { chain } = this.firing;
    const asking = chain[index]?.pluginId;
    return chain.filter(({ pluginId }) => pluginId === asking).length > 1 ? { index } : {};
  }

  private startedEvent(index: number): NewEvent {
    return { type: 'handler.started', ...this.pluginFieldsOf({ handlerIndex: index }), data: { index } };
  }

  private pluginFieldsOf({ handlerIndex }: Pick<GuestCall, 'handlerIndex'>): ReturnType<typeof pluginFields> {
    const link = this.firing.chain[handlerIndex];
    return link === undefined ? {} : pluginFields(link);
  }

  private handlerEvent(link: FiringLink, index: number, input: Json, said: Said<Json>): NewEvent {
    const { verdict, wouldHave } = inMode(link, said.verdict);
    const warnings = this.storedWarnings(said.warnings);
    if (verdict.kind === 'not_run') {
      return {
        type: 'handler.not_run',
        ...pluginFields(link),
        data: asData({ index, cause: verdict.cause, warnings }),
      };
    }
    const dropped = this.logs[index]?.dropped ?? 0;
    const ran: HandlerRan = {
      index,
      input: this.sealValue(input),
      output: this.sealValue(outputOf(verdict, input)),
      changed: verdict.kind === 'rewrote' || verdict.kind === 'contributed' ? verdict.changed : [],
      budgetMs: link.timeoutMs,
      durationUs: Math.round(said.durationMs * 1000),
      warnings,
      configDigest: link.entry.configDigest,
      mode: link.mode,
      ...(wouldHave === null ? {} : { wouldHave: wordOf(wouldHave), wouldHaveOutput: this.wouldHaveOutput(wouldHave) }),
      ...(verdict.kind === 'skipped' ? { cause: verdict.cause } : {}),
      ...(wordOf(verdict) === 'cancelled' ? { reason: this.sealValue(reasonOf(verdict)) } : {}),
      ...(dropped > 0 ? { logLinesDropped: dropped } : {}),
      ...this.tracebackOf(said),
    };
    return {
      type: `handler.${wordOf(verdict)}` as NewEvent['type'],
      ...pluginFields(link),
      durationMs: Math.round(said.durationMs),
      ...reasonCodeOf(verdict, said.warnings),
      data: asData(ran),
    };
  }

  /** Where an exception that was swallowed came from: content, so sealed. */
  private tracebackOf({ more }: Said<Json>): Pick<HandlerRan, 'traceback'> {
    const { traceback } = (more ?? {}) as { readonly traceback?: string };
    return traceback === undefined ? {} : { traceback: this.seal(traceback) };
  }

  private wouldHaveOutput(verdict: Verdict<Json>): Sealed | null {
    if (verdict.kind === 'cancelled') return this.sealValue(verdict.reason);
    return verdict.kind === 'rewrote' ? this.sealValue(verdict.value) : null;
  }

  private closed(decision: Decision<FiringLink, Json>): InvocationClosed {
    const cancellation = this.cancellation(decision);
    const more = this.moreOf(decision);
    return {
      value: this.sealValue(this.valueOf(decision)),
      cancellation: cancellation === null ? null : { ...cancellation, reason: this.sealValue(cancellation.reason) },
      hostSession: this.view.session.state,
      metered: decision.metered + (this.firing.resumed?.state.metered ?? 0),
      ...(more === null ? {} : { more: this.seal(more) }),
    };
  }

  private beside({ outcome, steps }: Decision<FiringLink, Json>, closed: InvocationClosed): Beside | undefined {
    const after = this.firedFor?.after;
    const kept = this.stateWrites();
    if (after === undefined) return kept.length === 0 ? undefined : () => Promise.resolve(kept);
    const ran = steps.filter(({ verdict }) => verdict.kind !== 'not_run');
    const undecided = steps.filter(({ verdict }) => didNotDecide(verdict));
    return async () => [
      ...(await after({ outcome, closed, handlers: ran.length, undecided: undecided.length })),
      ...kept,
    ];
  }

  /** What plugins set for their session to keep: in the commit of the end, each with its last value. */
  private stateWrites(): readonly StreamWrite[] {
    const { sessionId, dialect, invocationId, turnId } = this.firing;
    if (sessionId === null || dialect.keepsState === undefined) return [];
    const patches = new Map<string, ExtensionPatched>();
    for (const { index, effect } of this.effects) {
      const [key, value = null] = effect.type === 'set_state' ? (effect.args as readonly Json[]) : [];
      const link = this.firing.chain[index];
      if (!isId(key) || link === undefined || link.mode === 'observe') continue;
      patches.set(`${link.pluginId}\0${key}`, { pluginId: link.pluginId, namespace: key, value: this.seal(value) });
    }
    if (patches.size === 0) return [];
    const own = { actor: this.firing.actor, dialect: dialect.name, sessionId, invocationId, turnId };
    const events = [...patches.values()].map((patch) => ({
      ...own,
      type: 'extension.patched' as const,
      pluginId: patch.pluginId,
      data: asData(patch),
    }));
    return [{ stream: extensionStream(sessionId), expectedVersion: 'any', events }];
  }

  private valueOf(decision: Decision<FiringLink, Json>): Json {
    const { dialect, hook } = this.firing;
    return dialect.answerValue === undefined ? decision.value : dialect.answerValue(hook, decision, this.facts);
  }

  private get facts(): AnswerFacts {
    const { opening, loaded = [], counts = {}, injections } = this.firing;
    const effects = this.effects.map(({ effect }) => effect);
    return { input: opening.input, loaded, counts, effects, ...(injections === undefined ? {} : { injections }) };
  }

  /** What the dialect adds to the answer; null: nothing. */
  private moreOf(decision: Decision<FiringLink, Json>): JsonObject | null {
    const { dialect, hook } = this.firing;
    const more = this.resumedMore(dialect.answerMore?.(hook, decision, this.facts) ?? {});
    return Object.keys(more).length === 0 ? null : more;
  }

  /** A call that was allowed says so, unless something stopped it afterwards. */
  private resumedMore(more: JsonObject): JsonObject {
    const { resumed } = this.firing;
    if (resumed === undefined) return more;
    const gate = more.gate as unknown as GateOutcome;
    const shown = gate.blocked ? gate : { ...gate, approvalResolution: resumed.resolution };
    return { ...more, gate: shown as unknown as JsonObject, approvalId: resumed.approvalId };
  }

  private cancellation(decision: Decision<FiringLink, Json>): Answer['cancellation'] {
    if (decision.outcome !== 'cancelled') return null;
    return decision.cancellation ?? { pluginId: null, reason: null, code: accountHalted };
  }

  private answer(decision: Decision<FiringLink, Json>, positions: Positions): Answer {
    const { firing } = this;
    return {
      invocationId: firing.invocationId,
      dialect: firing.dialect.name,
      hook: firing.hook,
      turnId: firing.turnId,
      turnInferred: firing.turnInferred,
      outcome: this.outcomeOf(decision),
      value: this.valueOf(decision),
      ...this.moreOf(decision),
      cancellation: this.cancellation(decision),
      hop: firing.hop,
      hostSession: this.view.session.state,
      metered: decision.metered > 0,
      attempt: firing.attempt,
      ...(firing.previousInvocationId === null ? {} : { previousInvocationId: firing.previousInvocationId }),
      lineage: lineageToken(this.tools.tokenKey, {
        account: firing.account,
        invocationId: firing.invocationId,
        root: firing.root,
      }),
      handlers: decision.steps.map(handlerAnswer),
      positions: { first: String(positions.first), last: String(positions.last) },
    };
  }

  private storedWarnings(warnings: readonly Warning[]): readonly StoredWarning[] {
    return warnings.map(({ code, detail }) => ({ code, detail: this.sealValue(detail) }));
  }

  private seal(value: Json): Sealed {
    return this.tools.envelope.seal(value);
  }

  private sealText(text: string): Sealed {
    return this.tools.envelope.sealText(text);
  }

  private sealValue(value: Json): Sealed | null {
    return value === null ? null : this.seal(value);
  }
}

const closedEvent = (outcome: Answer['outcome'], closed: InvocationClosed, durationMs: number): NewEvent => {
  const code = closed.cancellation?.code ?? null;
  return {
    type: 'invocation.closed',
    outcome,
    durationMs,
    ...(code === null ? {} : { reasonCode: code }),
    data: asData(closed),
  };
};

const didNotDecide = (verdict: Verdict<Json>): boolean =>
  verdict.kind === 'skipped' || (verdict.kind === 'not_run' && verdict.cause === 'not_loaded');

/** A host call that has no end yet. */
interface OpenCall {
  readonly call: GuestCall;
  isMade: boolean;
}

const runClosed = { kind: 'error', code: 'closed', message: 'the run is closed' } as const;

/** A chain that waits: for what, and as whose successor. */
interface Held {
  readonly call: HeldCall;
  readonly approvals: DialectApprovals;
  readonly renews: ApprovalWish['renews'];
}

/** Opens once a handler's verdict stands in the book. */
interface Gate {
  readonly opened: Promise<void>;
  readonly open: () => void;
}

const gate = (): Gate => {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  return {
    opened: promise,
    open: () => {
      resolve(undefined);
    },
  };
};

/** Policies first, where the hook has any, then everybody else. */
const stagesOf = ({ point, policyPoint }: HookEntry, chain: readonly FiringLink[]): readonly Stage<FiringLink>[] => {
  if (policyPoint === undefined) return [{ point, links: chain }];
  return [
    { point: policyPoint, links: chain.filter(({ isPolicy }) => isPolicy === true) },
    { point, links: chain.filter(({ isPolicy }) => isPolicy !== true) },
  ];
};

const runsTogether = ({ mode }: Point): boolean =>
  mode.kind === 'evaluate' || (mode.kind === 'observe' && mode.start === 'together');

/** Whether what one handler rewrote is what the next one sees. */
const passesOn = ({ mode }: Point): boolean => mode.kind !== 'merge' || mode.chained !== null;

const notApplicable: Said<Json> = {
  verdict: { kind: 'not_run', cause: 'not_applicable' },
  warnings: [],
  durationMs: 0,
};

const notLoaded = (message: string | null): Said<Json> => ({
  verdict: { kind: 'not_run', cause: 'not_loaded' },
  warnings: [{ code: 'plugin_load_failed', detail: message }],
  durationMs: 0,
});

const pluginFields = ({ entry }: FiringLink): ReturnType<typeof pluginOf> => pluginOf(entry);

/** What a call comes to with an end that it had at once. */
const gateAt = (approvals: DialectApprovals, call: HeldCall, end: NonNullable<Asked['end']>): GateOutcome =>
  end.kind === 'unasked' ? approvals.unasked(call, end.mode).gate : approvals.after(call, end);

/** The sandbox passes on what carries the patch tag; the engine passes on what it reads as a rewrite or no change. */
const advancedOnItsOwn = (raw: string, verdict: Verdict<Json>): boolean =>
  raw.startsWith('~') && verdict.kind !== 'rewrote' && verdict.kind !== 'passed' && verdict.kind !== 'contributed';

/** A cancel's own code; of a handler that did not decide the warning that says why, which stands last (MW-54). */
const reasonCodeOf = (verdict: Verdict<Json>, warnings: readonly Warning[]): { readonly reasonCode?: string } => {
  if (verdict.kind === 'cancelled') return verdict.code === null ? {} : { reasonCode: verdict.code };
  const code = verdict.kind === 'skipped' ? warnings.at(-1)?.code : undefined;
  return code === undefined ? {} : { reasonCode: code };
};

/** What a handler that stopped an operation said for it, where its dialect shows that. */
const reasonOf = (verdict: Verdict<Json>): string | null => {
  if (verdict.kind === 'cancelled') return verdict.reason;
  if (verdict.kind !== 'contributed') return null;
  const { blockReason, cancelReason, reason } = verdict.value as JsonObject;
  return [blockReason, cancelReason, reason].find((text) => typeof text === 'string') ?? null;
};

const outputOf = (verdict: Verdict<Json>, input: Json): Json => {
  if (verdict.kind === 'rewrote') return verdict.value;
  if (verdict.kind === 'claimed' || verdict.kind === 'contributed') return verdict.value as Json;
  return verdict.kind === 'held' ? (verdict.request as Json) : input;
};

/** The context with its mutable fields as they are now: one field holds the value itself, several an object of them. */
const inputWith = (input: string, mutableFields: readonly string[], value: Json): string => {
  const [only] = mutableFields;
  if (only === undefined) return input;
  const fields = mutableFields.length === 1 ? { [only]: value } : (value as JsonObject);
  return JSON.stringify({ ...(JSON.parse(input) as JsonObject), ...fields });
};
