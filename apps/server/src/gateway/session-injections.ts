import { Inject, Injectable } from '@nestjs/common';
import { readInjection, type Dialect, type Injection, type InjectionAsked } from '#dialects';
import type { CompletedCommand, EventStore, StreamWrite } from '#event-store';
import type { Firing, HostCallRequest, HostCalls } from '#firing';
import { decideDrain, decideEnqueue, emptyQueue, evolveQueue, type Drain, type InjectionQueue } from '#lifecycles';
import { EVENT_STORE, isId, SEALING } from '#platform';
import {
  digestOf,
  injectionStream,
  type EventFields,
  type InjectionDrained,
  type Json,
  type JsonObject,
  type QueuedInjection,
} from '#record';
import type { CallAnswer } from '#sandbox';
import type { Scope, Sealing } from '#sealing';
import { AccountRules } from '../control/accounts/account-rules.js';
import { ActivePlugins } from '../control/plugins/active-plugins.js';
import { FoldedStreams, type Folded } from './folded-streams.js';
import { appendUnlessMoved, untilDecided } from './lifecycle-commits.js';
import { newId } from './new-id.js';
import { OneAtATime } from './one-at-a-time.js';

type Queue = Folded<InjectionQueue>;

/** Somebody puts an injection into a session's queue. */
export interface EnqueueOrder {
  readonly account: string;
  readonly sessionId: string;
  readonly pluginId: string;
  readonly asked: InjectionAsked;
  readonly scope: Scope;
  readonly fields: EventFields;
  /** Ends the command's claim, with what it notes. */
  readonly completed?: (result: EnqueueResult) => readonly CompletedCommand[];
}

export interface EnqueueResult {
  readonly kind: 'enqueued' | 'duplicate' | 'full';
  readonly injectionId: string;
}

/** Somebody takes what waits for a turn. */
export interface DrainOrder {
  readonly account: string;
  /** Names under which the session is known: all its queues are emptied in one commit. */
  readonly sessions: readonly string[];
  readonly by: Drain['by'];
  /** Null: nobody can ask for the same again. */
  readonly run: string | null;
  readonly invocationId: string | null;
  readonly fields: EventFields;
  readonly completed?: (result: Pick<DrainResult, 'version' | 'repeated'>) => readonly CompletedCommand[];
}

export interface DrainResult {
  readonly injections: readonly Injection[];
  readonly repeated: boolean;
  /** Of the first `injection.drained`, in its stream; null: there was nothing to drain. */
  readonly version: number | null;
}

/**
 * What plugins have said in a session's next turn (openclaw.md §14). The queue is a stream, and who changes it writes at
 * the version that they read: of any number of replicas one drains an injection, whatever dies.
 */
@Injectable()
export class SessionInjections {
  private readonly queues: FoldedStreams<InjectionQueue>;
  private readonly turns = new OneAtATime();

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly plugins: ActivePlugins,
    private readonly rules: AccountRules,
  ) {
    this.queues = new FoldedStreams<InjectionQueue>(store, {
      initial: emptyQueue,
      evolve: evolveQueue,
      isBeginning: ({ type }) => type === 'injection.drained',
    });
  }

  queue(account: string, sessionId: string): Promise<Queue> {
    return this.queues.read(account, injectionStream(sessionId));
  }

  async enqueue(order: EnqueueOrder): Promise<EnqueueResult> {
    const { account, sessionId, pluginId, asked, scope, fields } = order;
    const envelope = await this.sealing.envelope(account, scope);
    const { text, idempotencyKey, metadata, placement, ttlMs } = asked;
    const content = envelope.seal({ text, idempotencyKey, ...(metadata === undefined ? {} : { metadata }) });
    const keyDigest =
      idempotencyKey === null
        ? null
        : await this.sealing.searchHash(account, `injection\n${pluginId}\n${idempotencyKey}`);
    const injectionId = newId();
    return this.inTurn(account, [sessionId], async () => {
      const now = new Date();
      const { state, version } = await this.queue(account, sessionId);
      const wanted = { injectionId, pluginId, keyDigest, placement, ttlMs, createdAt: now.toISOString(), content };
      const { events, ...result } = decideEnqueue(state, wanted, now);
      const own = { ...fields, sessionId };
      const write: StreamWrite = {
        stream: injectionStream(sessionId),
        expectedVersion: version,
        events: events.map((event) => ({ ...own, ...event })),
      };
      const appended = await this.append(account, [write], envelope.blobs(), order.completed?.(result) ?? []);
      return appended ? result : null;
    });
  }

  /** Empties the queues of a session for a turn, in one commit; a run that did so before gets the same again. */
  async drain(order: DrainOrder): Promise<DrainResult> {
    const { account, sessions, run } = order;
    return this.inTurn(account, sessions, async () => {
      const queues = await Promise.all(
        sessions.map(async (session) => ({ session, ...(await this.queue(account, session)) })),
      );
      const known = run === null ? [] : queues.filter(({ state }) => state.runs.has(run));
      const repeated = known.length > 0;
      const lost = await this.losses(account, repeated ? [] : queues.flatMap(({ state }) => state.entries));
      const decided = (repeated ? known : queues).map(({ session, state, version }) => ({
        session,
        version,
        ...decideDrain(state, { ...order, now: new Date(), lost }),
      }));
      const writes = decided.map(({ session, version, events }): StreamWrite => ({
        stream: injectionStream(session),
        expectedVersion: version,
        events: events.map((event) => ({ ...order.fields, sessionId: session, ...event })),
      }));
      const first = decided.find(({ events }) => events.length > 0);
      const result = { repeated, version: first === undefined ? null : first.version + first.events.length };
      if (!(await this.append(account, writes, [], order.completed?.(result) ?? []))) return null;
      const entries = decided.flatMap(({ injections }) => injections);
      return { ...result, injections: await this.opened(account, entries) };
    });
  }

  private inTurn<T>(account: string, sessions: readonly string[], step: () => Promise<T | null>): Promise<T> {
    const keys = sessions.map((session) => JSON.stringify([account, session]));
    return this.turns.on(keys, () => untilDecided(step));
  }

  /** What was drained by an event of the queue's stream. */
  async drainedAt(account: string, sessionId: string, version: number): Promise<readonly Injection[]> {
    const [stored] = await this.store.readStream(account, injectionStream(sessionId), version);
    if (stored?.event.type !== 'injection.drained') return [];
    return this.opened(account, (stored.event.data as unknown as InjectionDrained).injections);
  }

  /** What a run was given before. */
  async givenTo(account: string, sessionId: string, run: string): Promise<readonly Injection[]> {
    const { state } = await this.queue(account, sessionId);
    return this.opened(account, state.runs.get(run) ?? []);
  }

  /** The host's calls, with the queue's own among them. */
  withQueue(firing: Firing, others: HostCalls): HostCalls {
    return {
      serves: (account, member, scope) => member === enqueueMember || others.serves(account, member, scope),
      call: (request) => (request.member === enqueueMember ? this.enqueueFor(firing, request) : others.call(request)),
    };
  }

  /** Whatever is wrong with an injection is no error to its plugin: it is just not enqueued (openclaw.md §14). */
  private async enqueueFor(firing: Firing, { args, pluginId }: HostCallRequest): Promise<CallAnswer> {
    const asked = args[0];
    const named = typeof asked === 'object' && asked !== null ? (asked as JsonObject).sessionKey : undefined;
    const sessionKey = typeof named === 'string' ? named.trim() : '';
    const answer = (enqueued: boolean, id: string): CallAnswer => ({
      kind: 'value',
      json: JSON.stringify({ enqueued, id, sessionKey: typeof named === 'string' ? named : '' }),
    });
    const read = readInjection(asked);
    if (read.kind === 'faulty' || !isId(sessionKey)) return answer(false, '');
    try {
      if (!(await this.isSession(firing, sessionKey))) return answer(false, '');
      const { kind, injectionId } = await this.enqueue({
        account: firing.account,
        sessionId: sessionKey,
        pluginId,
        asked: read.injection,
        scope:
          firing.dataSubject === null
            ? { kind: 'session', id: sessionKey }
            : { kind: 'subject', id: firing.dataSubject.id },
        fields: fieldsFor(firing, pluginId),
      });
      return answer(kind === 'enqueued', read.injection.idempotencyKey ?? injectionId);
    } catch {
      return { kind: 'error', code: 'not_recorded', message: 'the injection could not be recorded' };
    }
  }

  /** A session that the firing itself is of, or that is on record. */
  private async isSession({ account, dialect, opening, sessionId }: Firing, name: string): Promise<boolean> {
    const own = dialect.sessionNames?.(JSON.parse(opening.input) as JsonObject) ?? [];
    if (name === sessionId || own.includes(name)) return true;
    return (await this.store.readAccount(account, { sessionId: name, order: 'newest', limit: 1 })).length > 0;
  }

  /** Why entries are lost with their queue: their plugin is not in force, may not inject, or the text was erased. */
  private async losses(account: string, entries: readonly QueuedInjection[]): Promise<Drain['lost']> {
    if (entries.length === 0) return () => null;
    const { set } = await this.plugins.get(account);
    const erased = new Set<string>();
    await Promise.all(
      entries.map(async ({ injectionId, content }) => {
        if ((await this.sealing.open(account, content)).kind === 'erased') erased.add(injectionId);
      }),
    );
    return ({ pluginId, injectionId }) => {
      if (erased.has(injectionId)) return 'erased';
      const plugin = set.plugins.get(pluginId);
      if (plugin?.enabled !== true || plugin.dialect !== 'openclaw') return 'not_loaded';
      const { gates } = this.rules.dialectRules(account, 'openclaw', pluginId);
      return gates?.allowPromptInjection === false ? 'not_allowed' : null;
    };
  }

  /** In the order of the turn; what was erased since is left out. */
  private async opened(account: string, entries: readonly QueuedInjection[]): Promise<readonly Injection[]> {
    const ordered = [...entries].sort((left, right) => Date.parse(left.createdAt) - Date.parse(right.createdAt));
    const opened = await Promise.all(ordered.map((entry) => this.open(account, entry)));
    return opened.filter((injection) => injection !== null);
  }

  private async open(account: string, entry: QueuedInjection): Promise<Injection | null> {
    const found = await this.sealing.open(account, entry.content);
    if (found.kind === 'erased') return null;
    const { text, idempotencyKey, metadata } = found.value as unknown as {
      readonly text: string;
      readonly idempotencyKey: string | null;
      readonly metadata?: Json;
    };
    return {
      id: idempotencyKey ?? entry.injectionId,
      pluginId: entry.pluginId,
      text,
      ...(idempotencyKey === null ? {} : { idempotencyKey }),
      placement: entry.placement,
      ...(entry.ttlMs === null ? {} : { ttlMs: entry.ttlMs }),
      createdAt: Date.parse(entry.createdAt),
      ...(metadata === undefined ? {} : { metadata }),
    };
  }

  private async append(
    account: string,
    writes: readonly StreamWrite[],
    blobs: ReturnType<Awaited<ReturnType<Sealing['envelope']>>['blobs']>,
    commands: readonly CompletedCommand[],
  ): Promise<boolean> {
    const written = writes.filter(({ events }) => events.length > 0);
    if (written.length === 0 && commands.length === 0) return true;
    return (await appendUnlessMoved(this.store, { account, writes: written, blobs, commands })) !== null;
  }
}

/** The run of a turn that somebody named; of a request that is repeated under its key. */
export const turnRun = (turnId: string): string => `run:${turnId}`;
export const keyRun = (key: string): string => `key:${digestOf(key)}`;

const enqueueMember = 'injections.enqueue';

/** What events of a queue say of the firing that they come from. */
export const fieldsFor = (
  { invocationId, turnId, agentId, correlationId, root, dialect, hook }: FiringFacts,
  pluginId: string | null,
): EventFields => ({
  ...(pluginId === null ? {} : { actor: { kind: 'plugin', id: pluginId }, pluginId }),
  invocationId,
  turnId,
  root,
  dialect: dialect.name,
  hook,
  ...(agentId === null ? {} : { agentId }),
  ...(correlationId === null ? {} : { correlationId }),
});

type FiringFacts = Pick<Firing, 'invocationId' | 'turnId' | 'agentId' | 'correlationId' | 'root' | 'hook'> & {
  readonly dialect: Pick<Dialect, 'name'>;
};
