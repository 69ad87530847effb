import { Inject, Injectable } from '@nestjs/common';
import type { Arranged, Dialect, HookEntry } from '#dialects';
import type { CompletedCommand, EventStore, StoredEvent } from '#event-store';
import {
  fire,
  verifyCause,
  verifyLineage,
  type FiredFor,
  type Firing,
  type FiringLink,
  type FiringTools,
  type HostCalls,
  type Resumed,
  type Running,
  type TokenFault,
} from '#firing';
import { EVENT_STORE, INSTANCE, Problem, SANDBOX, SEALING, TOKEN_KEY } from '#platform';
import { chainFor, inOrder, timeoutOf, type ChainInForce, type ChainPlace } from '#plugins';
import { invocationStream, type Actor, type InvocationOpened, type JsonObject, type PluginSnapshot } from '#record';
import type { Sandbox } from '#sandbox';
import type { Envelope, Scope, Sealing } from '#sealing';
import { AccountRules } from '../control/accounts/account-rules.js';
import { ActivePlugins, type ActiveSet } from '../control/plugins/active-plugins.js';
import { Approvals } from './approvals.js';
import type { FiringOrder } from './firing-order.js';
import { inUtc } from './instants.js';
import { FinalizeRetries } from './finalize-retries.js';
import { HOST_CALLS } from './gateway-tools.js';
import { newId } from './new-id.js';
import { RunningInvocations } from './running-invocations.js';
import { cleanupCauseOf, endOfSessionHook, SessionCleanup } from './session-cleanup.js';
import { SessionExtensions } from './session-extensions.js';
import { fieldsFor, keyRun, SessionInjections, turnRun } from './session-injections.js';
import { Turns, type Turn } from './turns.js';

/** A hook to be fired: by whom, and which attempt this is. */
export interface FiringRequest {
  readonly account: string;
  readonly actor: Actor;
  readonly order: FiringOrder;
  readonly invocationId: string;
  readonly attempt: number;
  readonly previousInvocationId: string | null;
}

/** What the order of a chain depends on. */
interface ArrangedFor {
  readonly account: string;
  readonly order: Pick<FiringOrder, 'dialect' | 'hook' | 'opening'>;
}

/** A held call that goes on. */
export interface HeldOrder {
  readonly account: string;
  readonly opened: StoredEvent;
  readonly dialect: Dialect;
  readonly opening: FiringOrder['opening'];
  readonly resumed: Omit<Resumed, 'boundTo'>;
  /** Of the parameters that were allowed. */
  readonly digest: string | null;
}

/** A firing under way, with the turn that it belongs to. */
export interface StartedFiring extends Running {
  readonly turnId: string;
}

/** Fires hooks with the chain in force: for runtimes that name one, and for clears and cron runs that come to one. */
@Injectable()
export class HookFiring {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(SANDBOX) private readonly sandbox: Sandbox,
    @Inject(HOST_CALLS) private readonly hostCalls: HostCalls,
    @Inject(TOKEN_KEY) private readonly tokenKey: Uint8Array,
    @Inject(INSTANCE) private readonly instance: string,
    private readonly running: RunningInvocations,
    private readonly turns: Turns,
    private readonly plugins: ActivePlugins,
    private readonly rules: AccountRules,
    private readonly retries: FinalizeRetries,
    private readonly approvals: Approvals,
    private readonly injections: SessionInjections,
    private readonly extensions: SessionExtensions,
    private readonly cleanup: SessionCleanup,
  ) {}

  /**
   * Starts the chain. `completed` ends claims in the commit of its end; `firedFor` ties it to a clear or a cron run,
   * whose events are sealed in the envelope of the firing.
   */
  async start(
    request: FiringRequest,
    completed: readonly CompletedCommand[],
    firedFor: ((envelope: Envelope) => FiredFor) | null = null,
  ): Promise<StartedFiring> {
    const { account } = request;
    const firing = await this.withInjections(await this.firing(request), request, completed);
    const tools = await this.tools(firing);
    const { envelope } = tools;
    const running = fire(firing, tools, completed, firedFor === null ? this.endOfSession(firing) : firedFor(envelope));
    this.running.until(account, firing.invocationId, running.answer);
    return { ...running, turnId: firing.turnId };
  }

  /**
   * Goes on with a call that waited and was allowed: the handlers behind the policies, of the chain that was in force
   * when it came. Rejects with `FiringSuperseded` where somebody else did.
   */
  async goOn({ account, opened, dialect, opening, resumed, digest }: HeldOrder): Promise<void> {
    const { event } = opened;
    const { dataSubject, chainOf, withoutHook } = event.data as unknown as InvocationOpened;
    const invocationId = event.invocationId ?? '';
    const hook = event.hook ?? '';
    const order = { dialect, hook, opening };
    const active = await this.plugins.at(account, opened.position);
    const chain = chainFor(active.set, dialect.name, hook);
    const halted = this.rules.halted(account);
    const isStrict = dialect.approvals?.followsSettings === true && this.rules.settings(account).strictApprovals;
    const firing: Firing = {
      account,
      dialect,
      hook,
      invocationId,
      attempt: event.attempt ?? 1,
      previousInvocationId: null,
      actor: event.actor ?? { kind: 'system', id: 'approvals' },
      opening,
      occurredAt: event.occurredAt,
      operationId: event.operationId ?? null,
      correlationId: event.correlationId ?? null,
      turnId: event.turnId ?? '',
      turnInferred: event.turnInferred ?? false,
      turnPrompted: false,
      sessionId: event.sessionId ?? null,
      agentId: event.agentId ?? null,
      hop: event.hop ?? 0,
      root: event.root ?? invocationId,
      cause: event.cause ?? null,
      lineage: null,
      dataSubject: dataSubject === undefined ? null : await this.subjectOf(account, dataSubject),
      targetHmac: null,
      chain: await this.links(active, chain, { account, order }),
      withoutHook,
      chainOf: chainOf ?? null,
      halted,
      loaded: loadedIn(active, dialect),
      resumed: { ...resumed, boundTo: isStrict ? digest : null },
    };
    const running = fire(firing, await this.tools(firing), []);
    this.running.until(account, invocationId, running.answer);
    await running.answer;
  }

  /**
   * What waits for a session's turn goes to the first hook that asks for it. It is drained on record before the chain
   * runs; a repetition of the run, or of the request, gets the same again.
   */
  private async withInjections(
    firing: Firing,
    { account, actor, order }: FiringRequest,
    [claim]: readonly CompletedCommand[],
  ): Promise<Firing> {
    const { dialect, hook, opening, halted, sessionId, invocationId } = firing;
    const { queue } = dialect;
    if (queue?.hook !== hook || halted !== null) return firing;
    const input = JSON.parse(opening.input) as JsonObject;
    if (queue.brings(input)) return firing;
    const sessions = sessionsOf(dialect, input, sessionId);
    const turn = order.envelope.turnId ?? opening.turnId;
    const { injections } = await this.injections.drain({
      account,
      sessions,
      by: 'firing',
      run: turn === null ? (claim === undefined ? null : keyRun(claim.key)) : turnRun(turn),
      invocationId,
      fields: { actor, ...fieldsFor(firing, null) },
    });
    const opened = dialect.open(hook, queue.withInjections(input, injections));
    if (opened.kind === 'refused') throw new Error(`what was drained does not fit ${hook}`);
    return { ...firing, opening: opened, injections };
  }

  /** What plugins left in a session goes in the commit that says how it ended. */
  private endOfSession(firing: Firing): FiredFor | null {
    const { account, dialect, hook, opening, sessionId, actor, invocationId } = firing;
    if (hook !== endOfSessionHook || dialect.name !== 'openclaw') return null;
    const input = JSON.parse(opening.input) as JsonObject;
    const cause = cleanupCauseOf(input);
    if (cause === null) return null;
    const sessions = sessionsOf(dialect, input, sessionId);
    const fields = { actor, ...fieldsFor(firing, null) };
    const end = { account, sessions, cause, pluginId: null, causedBy: invocationId, fields };
    return { after: () => this.cleanup.writes(end) };
  }

  private async tools(firing: Firing): Promise<FiringTools> {
    return {
      store: this.store,
      sandbox: this.sandbox,
      hostCalls: this.injections.withQueue(firing, this.hostCalls),
      envelope: await this.sealing.envelope(firing.account, scopeOf(firing)),
      tokenKey: this.tokenKey,
      newId,
      now: () => new Date(),
      instance: this.instance,
      approvals: this.approvals,
    };
  }

  private async subjectOf(
    account: string,
    subject: NonNullable<InvocationOpened['dataSubject']>,
  ): Promise<Firing['dataSubject']> {
    const opened = await this.sealing.open(account, subject.sealed);
    return opened.kind === 'open' ? { id: opened.value as string, hmac: subject.hmac } : null;
  }

  /** The longest that the chain in force may take, ms. */
  async longest(account: string, order: FiringOrder): Promise<number> {
    const { dialect, hook } = order;
    const { set } = await this.plugins.get(account);
    const each = entryOf(order).defaultTimeoutMs + dialect.pauseCeilingMs;
    return chainFor(set, dialect.name, hook).places.length * each;
  }

  private async firing(request: FiringRequest): Promise<Firing> {
    const { account, order, invocationId, attempt, previousInvocationId, actor } = request;
    const { dialect, hook, envelope, opening } = order;
    const entry = entryOf(order);
    const ancestry = this.ancestry(request);
    const sessionId = envelope.sessionId ?? opening.sessionId;
    const halted = this.rules.halted(account);
    const [active, turn, dataSubject, targetHmac] = await Promise.all([
      this.activeSet(request),
      this.turn(request, entry, sessionId),
      envelope.dataSubject === null ? null : this.hashed(account, envelope.dataSubject),
      opening.targetIsAddress && opening.target !== null ? this.sealing.searchHash(account, opening.target) : null,
    ]);
    const chain = chainFor(active.set, dialect.name, hook);
    return {
      account,
      dialect,
      hook,
      invocationId,
      attempt,
      previousInvocationId,
      actor,
      opening,
      occurredAt: inUtc(envelope.occurredAt),
      operationId: envelope.operationId ?? opening.operationId ?? null,
      correlationId: envelope.correlationId,
      turnId: turn.turnId,
      turnInferred: turn.inferred,
      turnPrompted: turn.prompted,
      sessionId,
      agentId: envelope.agentId ?? opening.agentId,
      ...ancestry,
      dataSubject,
      targetHmac,
      chain: halted === null ? await this.links(active, chain, request) : [],
      withoutHook: chain.withoutHook,
      chainOf: envelope.chainOf,
      halted,
      loaded: loadedIn(active, dialect),
      approvalMode: order.approvalMode,
      counts: await this.retries.counted(account, dialect.name, hook, turn.inferred ? null : turn.turnId, sessionId),
    };
  }

  /** The hop comes from the platform's own token and from nowhere else (MW-100, MW-104). */
  private ancestry({
    account,
    order,
    invocationId,
  }: FiringRequest): Pick<Firing, 'hop' | 'root' | 'cause' | 'lineage'> {
    const { cause, lineage } = order.envelope;
    if (cause !== null) {
      const verified = verifyCause(this.tokenKey, account, cause, new Date());
      if (verified.kind === 'refused') throw badToken('cause', verified.fault);
      const { hop, root, invocationId: by } = verified.claims;
      return { hop: hop + 1, root, cause: by, lineage: null };
    }
    if (lineage === null) return { hop: 0, root: invocationId, cause: null, lineage: null };
    const verified = verifyLineage(this.tokenKey, account, lineage);
    if (verified.kind === 'refused') throw badToken('lineage', verified.fault);
    const { root, invocationId: from } = verified.claims;
    return { hop: 0, root, cause: null, lineage: from };
  }

  private async activeSet({ account, order }: FiringRequest): Promise<ActiveSet> {
    const { chainOf } = order.envelope;
    if (chainOf === null) return this.plugins.get(account);
    const [opened] = await this.store.readStream(account, invocationStream(chainOf));
    if (opened === undefined) {
      throw new Problem(422, 'unknown_invocation', 'There is no such invocation.', [
        { pointer: '/chainOf', reason: 'must be the id of an earlier invocation of this account' },
      ]);
    }
    // Plugin changes up to the opening are in its chain: MW-8 fixes it when the invocation opens.
    return this.plugins.at(account, opened.position);
  }

  private turn({ account, order }: FiringRequest, entry: HookEntry, sessionId: string | null): Promise<Turn> {
    const { envelope, opening } = order;
    const named = envelope.turnId ?? opening.turnId;
    if (named !== null) return Promise.resolve({ turnId: named, inferred: false, prompted: false });
    return this.turns.infer(account, sessionId, entry);
  }

  private async hashed(account: string, id: string): Promise<{ readonly id: string; readonly hmac: string }> {
    return { id, hmac: await this.sealing.searchHash(account, id) };
  }

  /** The handlers of the chain, in the dialect's order: one per plugin, or one per registration. */
  private async links(
    active: ActiveSet,
    chain: ChainInForce,
    { account, order }: ArrangedFor,
  ): Promise<readonly FiringLink[]> {
    const { dialect, hook } = order;
    const ready = await Promise.all(
      chain.places.map(async ({ plugin }) => active.readyRealm(plugin) ?? (await active.realmFor(plugin))),
    );
    const ofAccount = this.rules.timeoutMs(account, dialect.name);
    const arranged = this.arranged(chain, { account, order });
    const kept = await this.keptFor(account, order, chain, arranged ?? []);
    const state = await this.stateFor(account, order, chain);
    const link = (
      place: number,
      { entry, plugin }: ChainPlace,
      handler: string,
      written: number | null,
    ): FiringLink => {
      const realm = ready[place];
      return {
        pluginId: plugin.id,
        mode: plugin.mode,
        failureMode: plugin.failureMode,
        entry,
        realm: realm?.kind === 'ready' ? realm.realm : null,
        notLoaded: realm?.kind === 'ready' ? null : (realm?.message ?? null),
        permissions: plugin.permissions,
        ...pluginNameIn(plugin),
        ...(state.has(plugin.id) ? { kept: state.get(plugin.id) ?? [] } : {}),
        handler,
        timeoutMs: timeoutOf(plugin.timeouts, hook, dialect, ofAccount, written),
      };
    };
    if (arranged === null) return chain.places.map((place, index) => link(index, place, hook, null));
    return arranged.flatMap(({ plugin: at, handler, timeoutMs, ...place }) => {
      const found = chain.places[at];
      if (found === undefined) return [];
      const entry = { ...found.entry, priority: place.priority };
      const made = link(at, { ...found, entry }, handler, timeoutMs);
      return [
        {
          ...made,
          timeoutMs: place.hasNoLimit ? dialect.timeoutBounds.max : made.timeoutMs,
          isPolicy: place.isPolicy,
          applies: place.applies,
          ...(place.isPolicy && kept.has(found.plugin.id) ? { kept: kept.get(found.plugin.id) ?? [] } : {}),
          ...(place.readAs === undefined ? {} : { readAs: place.readAs }),
          ...(place.evaluatorId === undefined ? {} : { evaluatorId: place.evaluatorId }),
        },
      ];
    });
  }

  /** What a session keeps for the plugins whose policies are asked. */
  private async keptFor(
    account: string,
    { dialect, opening }: ArrangedFor['order'],
    { places }: ChainInForce,
    arranged: readonly Arranged[],
  ): ReturnType<SessionExtensions['keptFor']> {
    const asking = new Set(arranged.flatMap(({ isPolicy, plugin }) => (isPolicy ? [plugin] : [])));
    if (asking.size === 0) return new Map();
    const plugins = places.flatMap(({ plugin }, index) => (asking.has(index) ? [plugin] : []));
    return this.extensions.keptFor(
      account,
      () => sessionsOf(dialect, JSON.parse(opening.input) as JsonObject, null),
      plugins,
    );
  }

  /** What a session keeps for plugins with state of their own. */
  private stateFor(
    account: string,
    { dialect, opening }: ArrangedFor['order'],
    { places }: ChainInForce,
  ): ReturnType<SessionExtensions['stateOf']> {
    const keeping = places.filter(({ plugin }) => dialect.keepsState?.(plugin.findings.registrations) === true);
    if (keeping.length === 0 || opening.sessionId === null) return Promise.resolve(new Map());
    return this.extensions.stateOf(
      account,
      opening.sessionId,
      keeping.map(({ plugin }) => plugin),
    );
  }

  /** Null: the dialect runs one handler per plugin, in the account's order. */
  private arranged({ places }: ChainInForce, { account, order }: ArrangedFor): readonly Arranged[] | null {
    const { dialect, hook, opening } = order;
    if (dialect.arrange === undefined) return null;
    const plugins = places.map(({ plugin }) => ({
      id: plugin.id,
      registrations: plugin.findings.registrations,
      gates: this.rules.dialectRules(account, dialect.name, plugin.id).gates ?? {},
    }));
    const input = places.length === 0 ? null : (JSON.parse(opening.input) as JsonObject);
    return dialect.arrange({ hook, plugins, input });
  }
}

/** The name under which its dialect knows a plugin, where it is not the id. */
const pluginNameIn = ({ findings }: PluginSnapshot): Pick<FiringLink, 'pluginName'> => {
  const { pluginName } = findings.registrations;
  return typeof pluginName === 'string' ? { pluginName } : {};
};

/** Names under which a firing's session is known, its own first. */
const sessionsOf = (dialect: Dialect, input: JsonObject, sessionId: string | null): readonly string[] => [
  ...new Set([...(dialect.sessionNames?.(input) ?? []), ...(sessionId === null ? [] : [sessionId])]),
];

/** Ids of the dialect's plugins in force. */
const loadedIn = ({ set }: ActiveSet, { name }: Dialect): readonly string[] =>
  inOrder(set).flatMap((plugin) => (plugin.enabled && plugin.dialect === name ? [plugin.id] : []));

const entryOf = ({ dialect, hook }: FiringOrder): HookEntry => {
  const entry = dialect.entries.get(hook);
  if (entry === undefined) throw new Problem(404, 'unknown_hook', `${dialect.name} has no hook of that name.`);
  return entry;
};

const scopeOf = ({ dataSubject, sessionId }: Firing): Scope => {
  if (dataSubject !== null) return { kind: 'subject', id: dataSubject.id };
  return sessionId === null ? { kind: 'account' } : { kind: 'session', id: sessionId };
};

const badToken = (field: 'cause' | 'lineage', fault: TokenFault): Problem =>
  new Problem(422, 'bad_token', `The ${field} token is ${fault}.`, [
    {
      pointer: `/${field}`,
      reason: `must be a token that this platform handed out to this account; this one is ${fault}`,
    },
  ]);
