import { Inject } from '@nestjs/common';
import { CommandHandler } from '@nestjs/cqrs';
import type { CommandResult, CompletedCommand, EventStore } from '#event-store';
import { FiringSuperseded, type Answer } from '#firing';
import {
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  EVENT_STORE,
  Problem,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import { digestOf, invocationStream } from '#record';
import type { FiringOrder } from './firing-order.js';
import { Answers } from './answers.js';
import { HookFiring, type FiringRequest } from './hook-firing.js';
import { newId } from './new-id.js';

/** What a firing is answered with: the answer, or that the chain still runs after the time the caller would wait. */
export type FireResult =
  | { readonly kind: 'answered'; readonly answer: Answer }
  | { readonly kind: 'running'; readonly invocationId: string; readonly turnId: string };

/** Fires one hook: runs its chain, records it, and answers once the record is durable. */
export class FireHook extends AccountCommand<FireResult> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];
  override readonly invocationId = newId();

  constructor(
    meta: CommandMeta,
    readonly order: FiringOrder,
    /** How long the caller waits for a chain that takes its time, ms. */
    readonly waitMs: number,
    /** How long they wait for an approval, ms. */
    readonly approvalWaitMs = waitMs,
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
    private readonly answers: Answers,
    private readonly firing: HookFiring,
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
    const { account } = command.meta;
    return this.settled(account, await this.rebuild(account, done.result), Date.now() + command.approvalWaitMs);
  }

  /** An answer that waits for an approval is waited for, for as long as the caller would wait at all. */
  private async settled(account: string, answer: Answer, until: number): Promise<FireResult> {
    if (answer.outcome !== 'held' || answer.approvalId === undefined) return { kind: 'answered', answer };
    const found = await this.answers.wait(account, answer.invocationId, until - Date.now());
    if (found.kind === 'found') return { kind: 'answered', answer: found.answer };
    return { kind: 'running', invocationId: answer.invocationId, turnId: answer.turnId };
  }

  /** MW-81: the first firing runs, those beside it wait for its answer, later ones get it again. */
  private async fireOnce(command: FireHook, key: string, completed: readonly CompletedCommand[]): Promise<FireResult> {
    const { account } = command.meta;
    const claim = await this.store.claim({
      account,
      key,
      requestDigest: digestOf(key),
      invocationId: command.invocationId,
      leaseMs: (await this.firing.longest(account, command.order)) + leaseMs,
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
    const { invocationId } = command;
    const { account } = command.meta;
    const running = await this.firing.start(requestOf(command), completed);
    const answer = running.answer.catch((error: unknown) => {
      throw error instanceof FiringSuperseded ? superseded() : error;
    });
    const until = Date.now() + command.approvalWaitMs;
    if (await settledWithin(answer, command.waitMs)) return this.settled(account, await answer, until);
    await running.keepOpening();
    this.stayClaimed(account, completed, answer);
    return { kind: 'running', invocationId, turnId: running.turnId };
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

  private async rebuild(account: string, result: CommandResult): Promise<Answer> {
    const found = await this.answers.find(account, invocationOf(result));
    if (found.kind !== 'found') throw new Error(`${result.stream} was completed without being closed`);
    return found.answer;
  }
}

const requestOf = ({ meta, order, invocationId, claim }: FireHook): FiringRequest => ({
  account: meta.account,
  actor: actorOf(meta.caller),
  order,
  invocationId,
  attempt: claim?.attempt ?? 1,
  previousInvocationId: claim?.previousInvocationId ?? null,
});

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
