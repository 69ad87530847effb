import { randomUUID } from 'node:crypto';
import { LogUnavailable, type EventStore } from '#event-store';
import { nobodyServes } from '#firing';
import type { CommandMeta } from '#platform';
import { noPlugins } from '#plugins';
import type { RecordedEvent } from '#record';
import type { Sandbox } from '#sandbox';
import type { Sealing } from '#sealing';
import type { AccountRules } from '../../control/accounts/account-rules.js';
import { ActivePlugins, type ActiveSet } from '../../control/plugins/active-plugins.js';
import { Answers } from '../answers.js';
import type { Approvals } from '../approvals.js';
import { InvocationEnds } from '../invocation-ends.js';
import { Clears } from '../clears.js';
import { CompleteClear, CompleteClearHandler } from '../clears-completion.js';
import { StartClear, StartClearHandler } from '../clears-start.js';
import { CompleteRun, CompleteRunHandler } from '../cron-completion.js';
import { RenewLease, RenewLeaseHandler } from '../cron-lease.js';
import { TakeSlot, TakeSlotHandler } from '../cron-slot.js';
import { CronStreams } from '../cron-streams.js';
import { FinalizeRetries } from '../finalize-retries.js';
import { HookFiring } from '../hook-firing.js';
import { RunningInvocations } from '../running-invocations.js';
import { SessionCleanup } from '../session-cleanup.js';
import { SessionExtensions } from '../session-extensions.js';
import { SessionInjections } from '../session-injections.js';
import { Turns } from '../turns.js';

/** One server process over a log: what it does with clears and cron runs, without HTTP and without plugins. */
export interface LifecycleWorld {
  startClear(sessionId: string, clearId: string): ReturnType<StartClearHandler['execute']>;
  completeClear(sessionId: string, clearId: string, messages?: number): ReturnType<CompleteClearHandler['execute']>;
  slot(jobId: string, slotAt: string, leaseSeconds?: number): ReturnType<TakeSlotHandler['execute']>;
  heartbeat(runId: string): ReturnType<RenewLeaseHandler['execute']>;
  session(runId: string, sessionId: string): ReturnType<RenewLeaseHandler['execute']>;
  complete(runId: string, status?: string): ReturnType<CompleteRunHandler['execute']>;
}

export const account = 'a';

const tokenKey = new Uint8Array(32).fill(7);

class NoPlugins extends ActivePlugins {
  private readonly none: ActiveSet = {
    position: -1n,
    set: noPlugins,
    realmFor: () => Promise.reject(new Error('there are no plugins')),
    readyRealm: () => null,
  };

  override get(): Promise<ActiveSet> {
    return Promise.resolve(this.none);
  }

  override current(): Promise<ActiveSet> {
    return Promise.resolve(this.none);
  }

  override at(): Promise<ActiveSet> {
    return Promise.resolve(this.none);
  }

  override refresh(): Promise<void> {
    return Promise.resolve();
  }
}

/** A process over `store`. */
export const lifecycleWorld = (store: EventStore, sealing: Sealing): LifecycleWorld => {
  const rules = { halted: () => null, timeoutMs: () => null } as unknown as AccountRules;
  const plugins = new NoPlugins();
  const injections = new SessionInjections(store, sealing, plugins, rules);
  const extensions = new SessionExtensions(store, sealing, {} as Sandbox, plugins);
  const cleanup = new SessionCleanup(store, plugins, injections, extensions);
  const firing = new HookFiring(
    store,
    sealing,
    {} as Sandbox,
    nobodyServes,
    tokenKey,
    randomUUID(),
    new RunningInvocations(),
    new Turns(store),
    plugins,
    rules,
    new FinalizeRetries(store, sealing),
    {} as Approvals,
    injections,
    extensions,
    cleanup,
  );
  const { signal } = new AbortController();
  const answers = new Answers(store, sealing, tokenKey, signal, new InvocationEnds(store, signal));
  const clears = new Clears(store, firing, cleanup);
  const streams = new CronStreams(store);
  const handlers = {
    start: new StartClearHandler(clears),
    complete: new CompleteClearHandler(clears),
    slot: new TakeSlotHandler(store, sealing, streams, firing, answers),
    lease: new RenewLeaseHandler(store, streams),
    run: new CompleteRunHandler(store, streams, firing, answers),
  };
  const meta: CommandMeta = {
    account,
    caller: { keyId: 'runtime', role: 'runtime', account, content: 'none', onBehalfOf: null },
    idempotency: null,
  };
  const counts = { messageCount: 12, subagentCount: 1, peerThreadCount: 0 };
  return {
    startClear: (sessionId, clearId) =>
      handlers.start.execute(
        new StartClear(meta, sessionId, { clearId, agentId: '7', trailingText: 'bye', ...counts }),
      ),
    completeClear: (sessionId, clearId, deletedMessageCount = 12) =>
      handlers.complete.execute(
        new CompleteClear(meta, sessionId, clearId, {
          deletedMessageCount,
          deletedSubagentCount: 1,
          deletedPeerThreadCount: 0,
        }),
      ),
    slot: (jobId, slotAt, leaseSeconds) =>
      handlers.slot.execute(
        new TakeSlot(meta, jobId, {
          slotAt,
          agentId: '7',
          kind: 'cron_job',
          name: 'nightly',
          prompt: 'report',
          ...(leaseSeconds === undefined ? {} : { leaseSeconds }),
        }),
      ),
    heartbeat: (runId) => handlers.lease.execute(new RenewLease(meta, runId, null, null)),
    session: (runId, sessionId) => handlers.lease.execute(new RenewLease(meta, runId, sessionId, null)),
    complete: (runId, status = 'Succeeded') =>
      handlers.run.execute(new CompleteRun(meta, runId, { status, sessionId: 'mission' })),
  };
};

/** What a process does that dies at one of its writes. */
export interface Dying {
  readonly store: EventStore;
  /** Whether it came to the write at which it was to die. */
  readonly died: () => boolean;
}

/**
 * The log as a process sees it that dies at its `at`-th write (from 1), before it reached the log or after it was
 * committed. From then on nothing it asks for comes to anything.
 */
export const dyingAt = (store: EventStore, at: number, when: 'before' | 'after'): Dying => {
  let writes = 0;
  let dead = false;
  const isDead = (): boolean => dead;
  const gone = (): never => {
    throw new LogUnavailable('this process is dead');
  };
  const alive = async <T>(work: () => Promise<T>): Promise<T> => (isDead() ? gone() : work());
  return {
    store: {
      ...store,
      append: async (what) => {
        if (isDead()) gone();
        writes += 1;
        if (writes !== at) return store.append(what);
        dead = true;
        if (when === 'after') await store.append(what);
        return gone();
      },
      readStream: (...asked) => alive(() => store.readStream(...asked)),
      readAccount: (...asked) => alive(() => store.readAccount(...asked)),
      streamVersion: (...asked) => alive(() => store.streamVersion(...asked)),
      claim: (...asked) => alive(() => store.claim(...asked)),
      renewClaim: (...asked) => alive(() => store.renewClaim(...asked)),
      releaseClaim: (...asked) => alive(() => store.releaseClaim(...asked)),
    },
    died: isDead,
  };
};

/** Every event of the account. */
export const recordOf = async (store: EventStore): Promise<readonly RecordedEvent[]> =>
  (await store.readAccount(account, { limit: 100_000 })).map(({ event }) => event);

/** Types of the events of an account that are not an invocation's. */
export const lifecycleTypes = async (store: EventStore): Promise<readonly string[]> =>
  (await recordOf(store)).map(({ type }) => type).filter((type) => /^(?:session|cron)\./u.test(type));
