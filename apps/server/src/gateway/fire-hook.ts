import { Inject } from '@nestjs/common';
import { CommandHandler } from '@nestjs/cqrs';
import { v7 as uuidv7 } from 'uuid';
import type { HookEntry } from '#dialects';
import type { CommandResult, CompletedCommand, EventStore } from '#event-store';
import {
  fire,
  FiringSuperseded,
  verifyCause,
  verifyLineage,
  type Answer,
  type Firing,
  type FiringLink,
  type HostCalls,
  type TokenFault,
} from '#firing';
import {
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  EVENT_STORE,
  Problem,
  SANDBOX,
  SEALING,
  TOKEN_KEY,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import { chainFor, type ChainInForce } from '#plugins';
import { digestOf, invocationStream, type PluginSnapshot } from '#record';
import type { Sandbox } from '#sandbox';
import type { Scope, Sealing } from '#sealing';
import { AccountRules } from '../control/accounts/account-rules.js';
import { ActivePlugins, type ActiveSet } from '../control/plugins/active-plugins.js';
import type { FiringOrder } from './firing-order.js';
import { inUtc } from './instants.js';
import { Answers } from './answers.js';
import { HOST_CALLS } from './gateway-tools.js';
import { Turns, type Turn } from './turns.js';

/** What a firing is answered with: the answer, or that the chain still runs after the time the caller would wait. */
export type FireResult =
  | { readonly kind: 'answered'; readonly answer: Answer }
  | { readonly kind: 'running'; readonly invocationId: string; readonly turnId: string };

/** Fires one hook: runs its chain, records it, and answers once the record is durable. */
export class FireHook extends AccountCommand<FireResult> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];
  override readonly invocationId = uuidv7();

  constructor(
    meta: CommandMeta,
    readonly order: FiringOrder,
    /** How long the caller waits for a chain that takes its time, ms. */
    readonly waitMs: number,
  ) {
    super(meta);
  }
}

/** How long a claim holds without a sign of life, ms. */
const leaseMs = 30_000;

@CommandHandler(FireHook)
export class FireHookHandler extends AccountCommandHandler<FireHook, FireResult> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(SANDBOX) private readonly sandbox: Sandbox,
    @Inject(HOST_CALLS) private readonly hostCalls: HostCalls,
    @Inject(TOKEN_KEY) private readonly tokenKey: Uint8Array,
    private readonly answers: Answers,
    private readonly turns: Turns,
    private readonly plugins: ActivePlugins,
    private readonly rules: AccountRules,
  ) {
    super();
  }

  protected override async run(command: FireHook): Promise<FireResult> {
    const once = onceKey(command);
    const completed = command.claim === null ? [] : [completion(command, command.claim)];
    if (once === null) return this.fire(command, completed);
    return this.fireOnce(command, once, completed);
  }

  protected override async replay(command: FireHook, done: DoneCommand): Promise<FireResult> {
    return { kind: 'answered', answer: await this.rebuild(command.meta.account, done.result) };
  }

  /** MW-81: the first firing runs, those beside it wait for its answer, later ones get it again. */
  private async fireOnce(command: FireHook, key: string, completed: readonly CompletedCommand[]): Promise<FireResult> {
    const { account } = command.meta;
    const claim = await this.store.claim({
      account,
      key,
      requestDigest: digestOf(key),
      invocationId: command.invocationId,
      leaseMs: (await this.longest(command)) + leaseMs,
    });
    if (claim.kind === 'mismatch') throw new Error(`claim ${key} belongs to something else`);
    if (claim.kind === 'done') {
      const answer = await this.rebuild(account, claim.result);
      return { kind: 'answered', answer: { ...answer, repeated: true } };
    }
    try {
      return await this.fire(command, [...completed, completion(command, { key, token: claim.token })]);
    } catch (error) {
      await this.store.releaseClaim(account, key, claim.token).catch(() => undefined);
      throw error;
    }
  }

  private async fire(command: FireHook, completed: readonly CompletedCommand[]): Promise<FireResult> {
    const { account } = command.meta;
    const firing = await this.firing(command);
    const scope = scopeOf(firing);
    const running = fire(
      firing,
      {
        store: this.store,
        sandbox: this.sandbox,
        hostCalls: this.hostCalls,
        envelope: await this.sealing.envelope(account, scope),
        tokenKey: this.tokenKey,
        newId: uuidv7,
        now: () => new Date(),
      },
      completed,
    );
    const answer = running.answer.catch((error: unknown) => {
      throw error instanceof FiringSuperseded ? superseded() : error;
    });
    if (await settledWithin(answer, command.waitMs)) return { kind: 'answered', answer: await answer };
    await running.keepOpening();
    this.stayClaimed(account, completed, answer);
    return { kind: 'running', invocationId: firing.invocationId, turnId: firing.turnId };
  }

  /** The caller stopped waiting, the chain did not stop: its keys stay claimed until it has closed. */
  private stayClaimed(account: string, completed: readonly CompletedCommand[], answer: Promise<Answer>): void {
    const renew = () => {
      for (const { key, token } of completed) {
        // A lease that was lost shows when the append is refused.
        this.store.renewClaim(account, key, token, leaseMs).catch(() => undefined);
      }
    };
    renew();
    const renewal = setInterval(renew, leaseMs / 3);
    const end = () => {
      clearInterval(renewal);
    };
    answer.then(end, end);
  }

  private async firing(command: FireHook): Promise<Firing> {
    const { account, caller } = command.meta;
    const { dialect, hook, envelope, opening } = command.order;
    const entry = entryOf(command);
    const ancestry = this.ancestry(command);
    const sessionId = envelope.sessionId ?? opening.sessionId;
    const halted = this.rules.halted(account);
    const [active, turn, dataSubject, targetHmac] = await Promise.all([
      this.activeSet(command),
      this.turn(command, entry, sessionId),
      envelope.dataSubject === null ? null : this.hashed(account, envelope.dataSubject),
      opening.targetIsAddress && opening.target !== null ? this.sealing.searchHash(account, opening.target) : null,
    ]);
    const chain = chainFor(active.set, dialect.name, hook);
    return {
      account,
      dialect,
      hook,
      invocationId: command.invocationId,
      attempt: command.claim?.attempt ?? 1,
      previousInvocationId: command.claim?.previousInvocationId ?? null,
      actor: actorOf(caller),
      opening,
      occurredAt: inUtc(envelope.occurredAt),
      operationId: envelope.operationId,
      correlationId: envelope.correlationId,
      turnId: turn.turnId,
      turnInferred: turn.inferred,
      turnPrompted: turn.prompted,
      sessionId,
      agentId: envelope.agentId ?? opening.agentId,
      ...ancestry,
      dataSubject,
      targetHmac,
      chain: halted === null ? await this.links(active, chain, hook, entry, account) : [],
      withoutHook: chain.withoutHook,
      chainOf: envelope.chainOf,
      halted,
    };
  }

  /** The hop comes from the platform's own token and from nowhere else (MW-100, MW-104). */
  private ancestry(command: FireHook): Pick<Firing, 'hop' | 'root' | 'cause' | 'lineage'> {
    const { account } = command.meta;
    const { cause, lineage } = command.order.envelope;
    if (cause !== null) {
      const verified = verifyCause(this.tokenKey, account, cause, new Date());
      if (verified.kind === 'refused') throw badToken('cause', verified.fault);
      const { hop, root, invocationId } = verified.claims;
      return { hop: hop + 1, root, cause: invocationId, lineage: null };
    }
    if (lineage === null) return { hop: 0, root: command.invocationId, cause: null, lineage: null };
    const verified = verifyLineage(this.tokenKey, account, lineage);
    if (verified.kind === 'refused') throw badToken('lineage', verified.fault);
    const { root, invocationId } = verified.claims;
    return { hop: 0, root, cause: null, lineage: invocationId };
  }

  private async activeSet(command: FireHook): Promise<ActiveSet> {
    const { account } = command.meta;
    const { chainOf } = command.order.envelope;
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

  private turn(command: FireHook, entry: HookEntry, sessionId: string | null): Promise<Turn> {
    const { envelope, opening } = command.order;
    const named = envelope.turnId ?? opening.turnId;
    if (named !== null) return Promise.resolve({ turnId: named, inferred: false, prompted: false });
    return this.turns.infer(command.meta.account, sessionId, entry);
  }

  private async hashed(account: string, id: string): Promise<{ readonly id: string; readonly hmac: string }> {
    return { id, hmac: await this.sealing.searchHash(account, id) };
  }

  private links(
    active: ActiveSet,
    chain: ChainInForce,
    hook: string,
    entry: HookEntry,
    account: string,
  ): Promise<readonly FiringLink[]> {
    return Promise.all(
      chain.places.map(async ({ entry: place, plugin }): Promise<FiringLink> => {
        const ready = active.readyRealm(plugin) ?? (await active.realmFor(plugin));
        return {
          pluginId: plugin.id,
          mode: plugin.mode,
          failureMode: plugin.failureMode,
          entry: place,
          realm: ready.kind === 'ready' ? ready.realm : null,
          notLoaded: ready.kind === 'ready' ? null : ready.message,
          permissions: plugin.permissions,
          handler: hook,
          timeoutMs: timeoutOf(plugin, hook) ?? this.rules.timeoutMs(account, plugin.dialect) ?? entry.defaultTimeoutMs,
        };
      }),
    );
  }

  /** The longest that the chain in force may take, ms. */
  private async longest(command: FireHook): Promise<number> {
    const { dialect, hook } = command.order;
    const { set } = await this.plugins.get(command.meta.account);
    const each = entryOf(command).defaultTimeoutMs + dialect.pauseCeilingMs;
    return chainFor(set, dialect.name, hook).places.length * each;
  }

  private async rebuild(account: string, result: CommandResult): Promise<Answer> {
    const found = await this.answers.find(account, invocationOf(result));
    if (found.kind !== 'found') throw new Error(`${result.stream} was completed without being closed`);
    return found.answer;
  }
}

const entryOf = ({ order: { dialect, hook } }: FireHook): HookEntry => {
  const entry = dialect.entries.get(hook);
  if (entry === undefined) throw new Problem(404, 'unknown_hook', `${dialect.name} has no hook of that name.`);
  return entry;
};

const completion = (command: FireHook, claim: { readonly key: string; readonly token: string }): CompletedCommand => ({
  key: claim.key,
  token: claim.token,
  result: { stream: invocationStream(command.invocationId), status: 200 },
});

const invocationOf = ({ stream }: CommandResult): string => stream.slice(invocationStream('').length);

/** MW-81 keys by turn and server; only a turn that the caller named is sure to be the same turn. */
const onceKey = ({ order }: FireHook): string | null => {
  const { dialect, hook, envelope, opening } = order;
  const field = dialect.entries.get(hook)?.oncePerTurn;
  if (field === undefined || envelope.turnId === null) return null;
  const input = JSON.parse(opening.input) as Record<string, unknown>;
  return `once:${digestOf(JSON.stringify([dialect.name, hook, envelope.turnId, String(input[field])]))}`;
};

const scopeOf = ({ dataSubject, sessionId }: Firing): Scope => {
  if (dataSubject !== null) return { kind: 'subject', id: dataSubject.id };
  return sessionId === null ? { kind: 'account' } : { kind: 'session', id: sessionId };
};

const timeoutOf = (plugin: PluginSnapshot, hook: string): number | undefined =>
  plugin.timeouts.hooks?.[hook] ?? plugin.timeouts.timeoutMs;

const badToken = (field: 'cause' | 'lineage', fault: TokenFault): Problem =>
  new Problem(422, 'bad_token', `The ${field} token is ${fault}.`, [
    {
      pointer: `/${field}`,
      reason: `must be a token that this platform handed out to this account; this one is ${fault}`,
    },
  ]);

const superseded = (): Problem =>
  new Problem(503, 'superseded', 'Another attempt with the same key took over. Ask again for its answer.', [], {
    'retry-after': '1',
  });

/** Whether it settles within the time; a rejection counts as settled. */
const settledWithin = async (promise: Promise<unknown>, ms: number): Promise<boolean> => {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => {
      resolve(false);
    }, ms);
  });
  const settled = promise.then(
    () => true,
    () => true,
  );
  const first = await Promise.race([settled, late]);
  clearTimeout(timer);
  return first;
};
