import {
  localAnswer,
  readAnswer,
  splitHook,
  type Answer,
  type DecidedAs,
  type FireArgs,
  type HookName,
} from './answer.js';
import { newKey, part, type CallOptions, type Clock, type Connection, type Request } from './connection.js';
import { isObject, type JsonObject } from './json.js';
import type { Teller } from './outbox.js';
import { HookledgerProblem, StillRunning, Unreachable } from './problems.js';

/** What becomes of an operation when nobody can be asked. */
export type WhenUnreachable =
  /** The call rejects with `Unreachable`. */
  | 'throw'
  /** It goes on as it is (fail open); reported later. */
  | 'open'
  /** It is cancelled where it can be (fail closed); reported later. */
  | 'closed';

export interface FireOptions extends CallOptions {
  /** Default: the client's, else `throw`. */
  readonly whenUnreachable?: WhenUnreachable;
  /** Waits until a person has decided, instead of giving an answer that is `held`. Set `deadlineMs` to match. */
  readonly awaitApproval?: boolean;
}

/** One firing of a batch. */
export type BatchItem<H extends HookName = HookName> = H extends HookName ? { readonly hook: H } & FireArgs<H> : never;

/** What one firing of a batch came to: a refused one has its problem, and stops nothing. */
export type BatchAnswer<H extends HookName = HookName> = Answer<H> | { readonly problem: HookledgerProblem };

/** The answers of a batch, in its order, each typed by its hook. */
export type BatchAnswers<T extends readonly BatchItem[]> = {
  readonly [I in keyof T]: T[I] extends { readonly hook: infer H extends HookName } ? BatchAnswer<H> : never;
};

/** Longest that the server holds a firing and an answer open, ms. */
const fireHeldMs = 25_000;
const answerHeldMs = 55_000;

/** Fires hooks and gets their answers. */
export class Firing {
  constructor(
    private readonly connection: Connection,
    private readonly teller: Teller,
    private readonly whenUnreachable: WhenUnreachable,
    /** Envelope fields that every firing has. */
    private readonly envelope: JsonObject,
  ) {}

  async fire<H extends HookName>(hook: H, args: FireArgs<H>, options: FireOptions = {}): Promise<Answer<H>> {
    const { dialect, name } = splitHook(hook);
    const body = { ...this.envelope, ...(args as unknown as JsonObject) };
    const attempt = { idempotencyKey: options.idempotencyKey ?? newKey(), startedAt: new Date().toISOString() };
    try {
      const path = `hooks/${part(dialect)}/${part(name)}`;
      return readAnswer(hook, await this.post(path, body, { ...options, ...attempt }));
    } catch (error) {
      return this.decideAlone(error, options, attempt, { hook, body });
    }
  }

  async batch<const T extends readonly BatchItem[]>(items: T, options: FireOptions = {}): Promise<BatchAnswers<T>> {
    const bodies = items.map(({ hook, ...args }) => ({ hook, body: { ...this.envelope, ...(args as JsonObject) } }));
    const attempt = { idempotencyKey: options.idempotencyKey ?? newKey(), startedAt: new Date().toISOString() };
    const clock = this.connection.clock(options);
    const sent = bodies.map(({ hook, body }) => {
      const { dialect, name } = splitHook(hook);
      return { dialect, hook: name, ...body };
    });
    const again = { ...options, ...attempt };
    const fireAll = async (): Promise<readonly unknown[]> => {
      const query = { wait: heldSeconds(fireHeldMs, clock) };
      const request = {
        method: 'POST',
        path: 'hooks/batch',
        query,
        body: { items: sent },
        heldMs: fireHeldMs,
      } as const;
      // Its items run one after another, and each may be held open.
      const reply = await this.connection.send({ ...request, heldMs: fireHeldMs * sent.length }, again, clock);
      return (reply.body as { readonly items: readonly unknown[] }).items;
    };
    const settle = async (item: unknown): Promise<unknown> => {
      if (!isObject(item) || item.running !== true) return item;
      const found = await this.waitFor(String(item.invocationId), options, clock);
      return found ?? item;
    };
    try {
      for (;;) {
        const settled = await Promise.all((await fireAll()).map(settle));
        const isLost = settled.some((item) => isObject(item) && item.running === true);
        if (isLost) continue;
        return bodies.map(({ hook }, index) => batchAnswer(hook, settled[index])) as BatchAnswers<T>;
      }
    } catch (error) {
      const alone = bodies.map((item, batchIndex) =>
        this.decideAlone(error, options, { ...attempt, batchIndex }, item),
      );
      return (await Promise.all(alone)) as BatchAnswers<T>;
    }
  }

  /** The answer of a firing, once it has one that is final. */
  async waitForAnswer<H extends HookName>(
    of: { readonly invocationId: string; readonly hookName: H },
    options: CallOptions,
  ): Promise<Answer<H>> {
    const clock = this.connection.clock(options, Infinity);
    for (;;) {
      const body = await this.waitFor(of.invocationId, options, clock);
      if (body === null) throw lost(of.invocationId);
      if (body.outcome !== 'held') return readAnswer(of.hookName, body);
      if (clock.left() <= 0) throw new StillRunning(of.invocationId);
    }
  }

  private async post(path: string, body: JsonObject, options: FireOptions): Promise<JsonObject> {
    const clock = this.connection.clock(options);
    const seen: { invocationId: string | null } = { invocationId: null };
    try {
      for (;;) {
        const query = { wait: heldSeconds(fireHeldMs, clock) };
        const request: Request = { method: 'POST', path, query, body, heldMs: fireHeldMs };
        const reply = await this.connection.send(request, options, clock);
        const told = reply.body as JsonObject;
        seen.invocationId = told.invocationId as string;
        const isOver = reply.status === 200 && (told.outcome !== 'held' || options.awaitApproval !== true);
        const answer = isOver ? told : await this.waitWhile(seen.invocationId, options, clock);
        // Null: the server died over it. The same key runs it again, as a further attempt.
        if (answer !== null) return answer;
      }
    } catch (error) {
      if (error instanceof Unreachable) error.invocationId = seen.invocationId;
      throw error;
    }
  }

  private async waitWhile(invocationId: string, options: FireOptions, clock: Clock): Promise<JsonObject | null> {
    for (;;) {
      const answer = await this.waitFor(invocationId, options, clock);
      if (answer?.outcome !== 'held' || options.awaitApproval !== true) return answer;
      if (clock.left() <= 0) throw new StillRunning(invocationId);
    }
  }

  /** The answer as soon as there is one, held ones after a while; null: the server died over its chain. */
  private async waitFor(invocationId: string, options: CallOptions, clock: Clock): Promise<JsonObject | null> {
    const path = `answers/${part(invocationId)}`;
    for (;;) {
      if (clock.left() <= 0) throw new StillRunning(invocationId);
      const query = { wait: heldSeconds(answerHeldMs, clock) };
      try {
        const reply = await this.connection.send({ method: 'GET', path, query, heldMs: answerHeldMs }, options, clock);
        if (reply.status === 200) return reply.body as JsonObject;
      } catch (error) {
        if (error instanceof HookledgerProblem && error.code === 'invocation_lost') return null;
        // The deadline cut the last question short; the server was there.
        if (error instanceof Unreachable && clock.left() <= 0 && clock.silence() > 0)
          throw new StillRunning(invocationId);
        throw error;
      }
    }
  }

  private async decideAlone<H extends HookName>(
    error: unknown,
    options: FireOptions,
    { idempotencyKey, startedAt, batchIndex }: FiringAttempt,
    { hook, body }: { readonly hook: H; readonly body: JsonObject },
  ): Promise<Answer<H>> {
    const policy = options.whenUnreachable ?? this.whenUnreachable;
    if (!(error instanceof Unreachable) || policy === 'throw') throw error;
    const { dialect, name } = splitHook(hook);
    const reportId = newKey();
    const decided: DecidedAs = policy;
    const { invocationId, attempts } = error;
    await this.teller.keep({
      id: reportId,
      path: 'unreachable',
      body: {
        dialect,
        hook: name,
        decision: decided,
        attempts,
        firingKey: idempotencyKey,
        ...(batchIndex === undefined ? {} : { batchIndex }),
        firing: { occurredAt: startedAt, ...body },
      },
    });
    return localAnswer(hook, body, decided, { reportId, invocationId });
  }
}

/** What all attempts of a firing have in common. */
interface FiringAttempt {
  readonly idempotencyKey: string;
  readonly startedAt: string;
  readonly batchIndex?: number;
}

const lost = (invocationId: string): HookledgerProblem =>
  new HookledgerProblem(410, 'invocation_lost', `The server died while the chain of ${invocationId} ran. Fire again.`);

const batchAnswer = <H extends HookName>(hook: H, item: unknown): BatchAnswer<H> => {
  const problem = isObject(item) && isObject(item.problem) ? item.problem : null;
  if (problem === null) return readAnswer(hook, item);
  const { status, code, detail, errors, requestId } = problem;
  return {
    problem: new HookledgerProblem(
      Number(status),
      String(code),
      String(detail),
      Array.isArray(errors) ? (errors as HookledgerProblem['errors']) : [],
      typeof requestId === 'string' ? requestId : null,
    ),
  };
};

/** Whole seconds for `?wait=`, no longer than there is time. */
const heldSeconds = (mostMs: number, clock: Clock): number =>
  Math.max(0, Math.floor(Math.min(mostMs, clock.left() - 500) / 1000));
