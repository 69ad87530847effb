import type { Answer, FireArgs, HookName } from './answer.js';
import { Approvals } from './approvals.js';
import { Connection, part, type CallOptions, type ConnectionOptions } from './connection.js';
import { digestOf } from './digest.js';
import { Opening, type LedgerEvent, type Sealed } from './events.js';
import { Firing, type BatchAnswers, type BatchItem, type FireOptions, type WhenUnreachable } from './firing.js';
import { follow, type Checkpoints, type FollowOptions, type Subscription } from './follow.js';
import { serveHost, type HostHandlers, type HostLink, type HostLinkOptions } from './host-link.js';
import type { Json } from './json.js';
import { Clears, Cron } from './lifecycles.js';
import { memoryOutbox, Teller, type Outbox, type Told } from './outbox.js';
import { Unreachable } from './problems.js';
import { Sessions } from './sessions.js';
import { newKey } from './connection.js';

export interface ClientOptions extends ConnectionOptions {
  /** What becomes of operations when the server cannot be reached. Default: `throw`. */
  readonly whenUnreachable?: WhenUnreachable;
  /** Where what was decided without the server waits for it to be back. Default: in memory. */
  readonly outbox?: Outbox;
  /** Where `follow` keeps its positions unless told otherwise. Default: in memory. */
  readonly checkpoints?: Checkpoints;
}

/** What was done with an answer. */
export interface Effect {
  readonly applied: boolean;
  /** The value that was used: its digest is held against that of the answer. Instead of `digest`. */
  readonly value?: Json;
  /** SHA-256, in hex, of its canonical JSON. */
  readonly digest?: string;
  readonly occurredAt?: string | null;
}

export interface EffectOptions extends CallOptions {
  /** While the server is away the report waits in the outbox instead of failing. */
  readonly keep?: boolean;
}

/** `kept`: the server is away, and is told later. `alone`: the answer was this client's own, whose report says it. */
export type EffectReport =
  | {
      readonly state: 'recorded';
      /** Whether the digest is the answer's; null when none was sent. */
      readonly matches: boolean | null;
      readonly position: string;
    }
  | { readonly state: 'kept' | 'alone' };

/** A client of one account with one key. Close it, or `await using` it. */
export interface Client extends AsyncDisposable {
  readonly account: string;
  /** Fires a hook: the answer, once every event of it is committed. */
  fire<H extends HookName>(hook: H, args: FireArgs<H>, options?: FireOptions): Promise<Answer<H>>;
  /** Fires 1 to 100 hooks in order, in one request. */
  batch<const T extends readonly BatchItem[]>(items: T, options?: FireOptions): Promise<BatchAnswers<T>>;
  /** Waits for an answer that was `held`, or that a deadline cut off. Without a deadline unless one is given. */
  waitForAnswer<H extends HookName>(
    of: { readonly invocationId: string; readonly hookName: H },
    options?: CallOptions,
  ): Promise<Answer<H>>;
  /** The run that waited for an approval is over: nobody needs to be asked any more. */
  abort(invocationId: string, options?: CallOptions): Promise<void>;
  /** Says what was done with an answer. */
  reportEffect(
    answer: Pick<Answer, 'invocationId'> & { readonly decidedAlone?: boolean },
    effect: Effect,
    options?: EffectOptions,
  ): Promise<EffectReport>;
  /** The same client whose firings descend from a host call (`cause`) or from an earlier answer (`lineage`). */
  descending(from: { readonly cause?: string | null; readonly lineage?: string | null }): Client;
  readonly clears: Clears;
  readonly cron: Cron;
  readonly sessions: Sessions;
  readonly approvals: Approvals;
  /** Serves the calls of plugins that need this runtime. */
  serveHost(handlers: HostHandlers, options?: HostLinkOptions): HostLink;
  /** A named subscription to the log: every event once, in order. */
  follow(name: string, options: FollowOptions): Subscription;
  /** Opens sealed values, or everything sealed in an event. */
  open(values: readonly Sealed[], options?: CallOptions): Promise<readonly Json[]>;
  open(event: LedgerEvent, options?: CallOptions): Promise<LedgerEvent>;
  /** Tells the server what was decided without it, now; it is done by itself too, when the server is back. */
  tellOutbox(): Promise<Told>;
  /** Ends links, subscriptions and the telling of the outbox. */
  close(): Promise<void>;
}

/** Makes a client. Nothing is sent before it is used, but for what its outbox still holds. */
export const createClient = (options: ClientOptions): Client => {
  const connection = new Connection(options);
  const teller = new Teller(connection, options.outbox ?? memoryOutbox());
  return new HttpClient(options, { connection, teller, open: new Set() }, {});
};

/** What a client and those that descend from it have in common. */
interface Shared {
  readonly connection: Connection;
  readonly teller: Teller;
  /** What `close` ends. */
  readonly open: Set<() => Promise<unknown>>;
}

class HttpClient implements Client {
  readonly account: string;
  readonly clears: Clears;
  readonly cron: Cron;
  readonly sessions: Sessions;
  readonly approvals: Approvals;
  private readonly firing: Firing;
  private readonly opening: Opening;

  constructor(
    private readonly options: ClientOptions,
    private readonly shared: Shared,
    envelope: { readonly [field: string]: string },
  ) {
    const { connection, teller } = shared;
    this.account = connection.account;
    this.clears = new Clears(connection);
    this.cron = new Cron(connection);
    this.sessions = new Sessions(connection);
    this.approvals = new Approvals(connection);
    this.firing = new Firing(connection, teller, options.whenUnreachable ?? 'throw', envelope);
    this.opening = new Opening(connection);
  }

  fire<H extends HookName>(hook: H, args: FireArgs<H>, options?: FireOptions): Promise<Answer<H>> {
    return this.firing.fire(hook, args, options);
  }

  batch<const T extends readonly BatchItem[]>(items: T, options?: FireOptions): Promise<BatchAnswers<T>> {
    return this.firing.batch(items, options);
  }

  waitForAnswer<H extends HookName>(
    of: { readonly invocationId: string; readonly hookName: H },
    options: CallOptions = {},
  ): Promise<Answer<H>> {
    return this.firing.waitForAnswer(of, options);
  }

  async abort(invocationId: string, options: CallOptions = {}): Promise<void> {
    const request = { method: 'POST', path: `invocations/${part(invocationId)}/abort`, body: {} } as const;
    await this.shared.connection.send(request, options);
  }

  async reportEffect(
    answer: { readonly invocationId: string | null; readonly decidedAlone?: boolean },
    effect: Effect,
    options: EffectOptions = {},
  ): Promise<EffectReport> {
    const { invocationId } = answer;
    if (answer.decidedAlone === true || invocationId === null) return { state: 'alone' };
    const { applied, value, occurredAt } = effect;
    const digest = effect.digest ?? (value === undefined ? undefined : await digestOf(value));
    const id = options.idempotencyKey ?? newKey();
    const path = `invocations/${part(invocationId)}/effect`;
    const at = occurredAt ?? new Date().toISOString();
    const body = { applied, occurredAt: at, ...(digest === undefined ? {} : { digest }) };
    try {
      const request = { method: 'POST', path, body } as const;
      const reply = await this.shared.connection.send(request, { ...options, idempotencyKey: id });
      const { matches, position } = reply.body as { readonly matches: boolean | null; readonly position: string };
      return { state: 'recorded', matches, position };
    } catch (error) {
      if (!(error instanceof Unreachable) || options.keep !== true) throw error;
      await this.shared.teller.keep({ id, path, body });
      return { state: 'kept' };
    }
  }

  descending(from: { readonly cause?: string | null; readonly lineage?: string | null }): Client {
    const given = Object.entries(from).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
    return new HttpClient(this.options, this.shared, Object.fromEntries(given));
  }

  serveHost(handlers: HostHandlers, options?: HostLinkOptions): HostLink {
    const link = serveHost(this.shared.connection, handlers, options);
    this.shared.open.add(() => link.close());
    return link;
  }

  follow(name: string, options: FollowOptions): Subscription {
    const { checkpoints } = this.options;
    const subscription = follow(this.shared.connection, name, {
      ...(checkpoints === undefined ? {} : { checkpoints }),
      ...options,
    });
    const stop = (): Promise<void> => subscription.stop().catch(() => undefined);
    this.shared.open.add(stop);
    const forget = (): void => void this.shared.open.delete(stop);
    subscription.done.then(forget, forget);
    return subscription;
  }

  open(values: readonly Sealed[], options?: CallOptions): Promise<readonly Json[]>;
  open(event: LedgerEvent, options?: CallOptions): Promise<LedgerEvent>;
  open(what: readonly Sealed[] | LedgerEvent, options?: CallOptions): Promise<readonly Json[] | LedgerEvent> {
    return isList(what) ? this.opening.values(what, options) : this.opening.event(what, options);
  }

  tellOutbox(): Promise<Told> {
    return this.shared.teller.tell();
  }

  async close(): Promise<void> {
    await Promise.all([...this.shared.open].map((end) => end()));
    this.shared.open.clear();
    await this.shared.teller.stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const isList = (what: readonly Sealed[] | LedgerEvent): what is readonly Sealed[] => Array.isArray(what);
